// Two threads for what would block the loop: slow password hashes, large signatures, cold opens.
// They are started by the first task, so that a worker which needs none has none.
#pragma once

#include <pthread.h>

#include <array>
#include <cstddef>

#include "corehttpd/base/list.h"
#include "corehttpd/io/loop.h"

namespace corehttpd::io {

class Offload {
 public:
  // wake(context) is called from the threads whenever take_done() may have something new; it must
  // be thread-safe.
  Offload(void (*wake)(void*), void* context) : wake_(wake), context_(context) {}
  // Waits for the running tasks; those still queued are dropped without run() or done().
  ~Offload();
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  static constexpr std::size_t kThreads = 2;
  // Tasks accepted and not yet taken back by take_done().
  static constexpr std::size_t kTasksMax = 256;
  // False when kTasksMax are under way or no thread can be started.
  bool submit(OffloadTask& task);
  // Moves what has been run to finished, in the order of finishing.
  void take_done(List<OffloadTask, ReadyTag>& finished);

 private:
  static void* thread_main(void* self);
  void work();
  bool start_threads();

  void (*const wake_)(void*);
  void* const context_;
  std::size_t under_way_ = 0;  // The loop's own count; the threads do not touch it.
  std::array<pthread_t, kThreads> threads_{};
  std::size_t threads_started_ = 0;

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t queued_changed_ = PTHREAD_COND_INITIALIZER;
  // Under mutex_:
  List<OffloadTask, ReadyTag> queued_;
  List<OffloadTask, ReadyTag> done_;
  bool stopping_ = false;
};

}  // namespace corehttpd::io

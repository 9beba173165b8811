// Threads for what would block the loop. The loop has two sets: two threads for what computes (slow
// password hashes, large signatures) and a larger number for calls on files. A thread is started
// when a task finds none idle, so that a worker which needs none has none.
#pragma once

#include <pthread.h>

#include <cstddef>

#include "corehttpd/base/list.h"
#include "corehttpd/io/loop.h"

namespace corehttpd::io {

class Offload {
 public:
  static constexpr std::size_t kThreads = 2;
  // Of threads that compute: a thirtieth of a processor that the loop would have for itself.
  static constexpr int kComputingNiceness = 15;
  // Tasks accepted and not yet taken back by take_done().
  static constexpr std::size_t kTasksMax = 256;
  struct Limits {
    std::size_t threads = kThreads;
    // Whether the destructor waits for running tasks. If not, they are given a moment, and threads
    // that are still stuck in the kernel end with the process; their tasks are never freed.
    bool patient = true;
    // The threads' nice value, 0: the process's. What computes for milliseconds yields to the loop
    // where both share a processor. Only for patient sets.
    int niceness = 0;
  };

  // wake(context) is called from the threads whenever take_done() may have something new; it must
  // be thread-safe.
  Offload(void (*wake)(void*), void* context) : Offload(wake, context, Limits()) {}
  Offload(void (*wake)(void*), void* context, Limits limits);
  // Tasks still queued are dropped without run() or done().
  ~Offload();
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  // False when kTasksMax are under way or no thread can be started.
  bool submit(OffloadTask& task);
  // Moves what has been run to finished, in the order of finishing.
  void take_done(List<OffloadTask, ReadyTag>& finished);

 private:
  // What the threads share with the loop; on the heap, because it may outlive this object.
  struct Shared {
    void (*wake)(void*) = nullptr;
    void* context = nullptr;
    int niceness = 0;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t changed = PTHREAD_COND_INITIALIZER;  // queued or stopping.
    pthread_cond_t ended = PTHREAD_COND_INITIALIZER;    // A thread has left its loop.
    // Under mutex:
    List<OffloadTask, ReadyTag> queued;
    List<OffloadTask, ReadyTag> done;
    std::size_t threads = 0;
    std::size_t idle = 0;
    bool stopping = false;
  };
  static void* thread_main(void* shared);
  static void work(Shared& shared);
  bool start_thread();
  bool wait_for_threads();

  const Limits limits_;
  std::size_t under_way_ = 0;  // The loop's own count; the threads do not touch it.
  Shared* shared_;
};

}  // namespace corehttpd::io

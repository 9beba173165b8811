// A lock in shared memory that survives the death of its owner: the kernel hands it on, and the
// next owner is told that what it guards may be half changed.
#pragma once

#include <pthread.h>

namespace corehttpd::shm {

class Lock {
 public:
  // Before any other process sees it, once.
  void create();
  enum class Taken : unsigned char {
    kFree,     // Nobody had it, or its owner let go in good order.
    kOrphan,   // Its owner died with it.
    kNotTaken  // try_take() only: somebody has it.
  };
  // Waits. For critical sections of microseconds only: the loop stands still meanwhile.
  Taken take();
  Taken try_take();
  void release();

 private:
  pthread_mutex_t mutex_;
};

class Guard {
 public:
  // lock may be nullptr: nothing is shared then.
  explicit Guard(Lock* lock) : lock_(lock) {
    if (lock_ != nullptr) lock_->take();
  }
  ~Guard() {
    if (lock_ != nullptr) lock_->release();
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Lock* lock_;
};

}  // namespace corehttpd::shm

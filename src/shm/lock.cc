#include "corehttpd/shm/lock.h"

#include <cerrno>

#include "corehttpd/base/check.h"

namespace corehttpd::shm {

void Lock::create() {
  pthread_mutexattr_t attributes;
  CORE_CHECK(pthread_mutexattr_init(&attributes) == 0);
  CORE_CHECK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
  CORE_CHECK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
  CORE_CHECK(pthread_mutex_init(&mutex_, &attributes) == 0);
  pthread_mutexattr_destroy(&attributes);
}

Lock::Taken Lock::take() {
  const int result = pthread_mutex_lock(&mutex_);
  if (result == 0) return Taken::kFree;
  CORE_CHECK(result == EOWNERDEAD);
  pthread_mutex_consistent(&mutex_);
  return Taken::kOrphan;
}

Lock::Taken Lock::try_take() {
  const int result = pthread_mutex_trylock(&mutex_);
  if (result == EBUSY) return Taken::kNotTaken;
  if (result == 0) return Taken::kFree;
  CORE_CHECK(result == EOWNERDEAD);
  pthread_mutex_consistent(&mutex_);
  return Taken::kOrphan;
}

void Lock::release() { CORE_CHECK(pthread_mutex_unlock(&mutex_) == 0); }

}  // namespace corehttpd::shm

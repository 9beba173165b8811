#include "io/offload.h"

#include <signal.h>

namespace corehttpd::io {
namespace {

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Lock() { pthread_mutex_unlock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace

Offload::~Offload() {
  {
    Lock lock(mutex_);
    stopping_ = true;
    pthread_cond_broadcast(&queued_changed_);
  }
  for (std::size_t i = 0; i < threads_started_; ++i) pthread_join(threads_[i], nullptr);
  pthread_cond_destroy(&queued_changed_);
  pthread_mutex_destroy(&mutex_);
}

bool Offload::start_threads() {
  // Signals belong to the worker's own thread: its handlers wake the loop, and a blocking call here
  // must not be interrupted.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (threads_started_ < kThreads) {
    if (pthread_create(&threads_[threads_started_], nullptr, thread_main, this) != 0) break;
    ++threads_started_;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return threads_started_ != 0;
}

bool Offload::submit(OffloadTask& task) {
  if (under_way_ >= kTasksMax) return false;
  // One thread instead of two is enough; none at all (a limit on threads) is tried again by the
  // next task.
  if (threads_started_ == 0 && !start_threads()) return false;
  ++under_way_;
  Lock lock(mutex_);
  queued_.push_back(task);
  pthread_cond_signal(&queued_changed_);
  return true;
}

void Offload::take_done(List<OffloadTask, ReadyTag>& finished) {
  List<OffloadTask, ReadyTag> taken;
  {
    Lock lock(mutex_);
    taken.splice_back(done_);
  }
  under_way_ -= taken.count();
  finished.splice_back(taken);
}

void* Offload::thread_main(void* self) {
  static_cast<Offload*>(self)->work();
  return nullptr;
}

void Offload::work() {
  while (true) {
    OffloadTask* task = nullptr;
    {
      Lock lock(mutex_);
      while (queued_.empty() && !stopping_) pthread_cond_wait(&queued_changed_, &mutex_);
      if (stopping_) return;
      task = queued_.pop_front();
    }
    task->run();
    {
      Lock lock(mutex_);
      done_.push_back(*task);
    }
    wake_(context_);
  }
}

}  // namespace corehttpd::io

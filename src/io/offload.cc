#include "io/offload.h"

#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include <cerrno>

namespace corehttpd::io {
namespace {

// How long the destructor waits for calls that may never return.
constexpr long kGraceNs = 200'000'000;
// The tasks make system calls and format a little; the default of eight megabytes would count
// against limits on address space.
constexpr std::size_t kStackBytes = 512 * 1024;

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

Offload::Offload(void (*wake)(void*), void* context, Limits limits)
    : limits_(limits), shared_(new Shared) {
  shared_->wake = wake;
  shared_->context = context;
  shared_->niceness = limits.niceness;
}

Offload::~Offload() {
  {
    Lock lock(shared_->mutex);
    shared_->stopping = true;
    pthread_cond_broadcast(&shared_->changed);
  }
  if (!wait_for_threads()) return;  // What the stuck ones still use is theirs.
  pthread_cond_destroy(&shared_->changed);
  pthread_cond_destroy(&shared_->ended);
  pthread_mutex_destroy(&shared_->mutex);
  delete shared_;
}

// True when none is left.
bool Offload::wait_for_threads() {
  timespec end{};
  ::clock_gettime(CLOCK_REALTIME, &end);
  end.tv_nsec += kGraceNs;
  if (end.tv_nsec >= 1'000'000'000) {
    end.tv_nsec -= 1'000'000'000;
    ++end.tv_sec;
  }
  Lock lock(shared_->mutex);
  while (shared_->threads != 0) {
    if (limits_.patient) {
      pthread_cond_wait(&shared_->ended, &shared_->mutex);
    } else if (pthread_cond_timedwait(&shared_->ended, &shared_->mutex, &end) == ETIMEDOUT) {
      return false;
    }
  }
  return true;
}

// Under the mutex.
bool Offload::start_thread() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // Signals belong to the worker's own thread: its handlers wake the loop, and a blocking call here
  // must not be interrupted.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, thread_main, shared_) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (started) ++shared_->threads;
  return started;
}

bool Offload::submit(OffloadTask& task) {
  if (under_way_ >= kTasksMax) return false;
  Lock lock(shared_->mutex);
  const bool all_busy = shared_->queued.count() >= shared_->idle;
  if (all_busy && shared_->threads < limits_.threads && !start_thread()) {
    // Fewer threads are enough; none at all (a limit on threads) is tried again by the next task.
    if (shared_->threads == 0) return false;
  }
  ++under_way_;
  shared_->queued.push_back(task);
  pthread_cond_signal(&shared_->changed);
  return true;
}

void Offload::take_done(List<OffloadTask, ReadyTag>& finished) {
  List<OffloadTask, ReadyTag> taken;
  {
    Lock lock(shared_->mutex);
    taken.splice_back(shared_->done);
  }
  under_way_ -= taken.count();
  finished.splice_back(taken);
}

void* Offload::thread_main(void* shared) {
  work(*static_cast<Shared*>(shared));
  return nullptr;
}

// Leaves with the mutex's last use: the destructor frees what is shared once no thread is counted.
void Offload::work(Shared& shared) {
  if (shared.niceness != 0) setpriority(PRIO_PROCESS, 0, shared.niceness);  // This thread's.
  Lock lock(shared.mutex);
  while (true) {
    ++shared.idle;
    while (shared.queued.empty() && !shared.stopping) {
      pthread_cond_wait(&shared.changed, &shared.mutex);
    }
    --shared.idle;
    if (shared.stopping) break;
    OffloadTask* task = shared.queued.pop_front();
    pthread_mutex_unlock(&shared.mutex);
    task->run();
    pthread_mutex_lock(&shared.mutex);
    if (shared.stopping) break;
    shared.done.push_back(*task);
    if (shared.niceness == 0) {
      // Under the mutex, so that the loop is still there.
      shared.wake(shared.context);
      continue;
    }
    // The loop, which takes the processor as soon as it is woken, must not find the mutex taken by
    // a thread that now waits behind everybody. It is still there: it waits for this thread to end.
    pthread_mutex_unlock(&shared.mutex);
    shared.wake(shared.context);
    pthread_mutex_lock(&shared.mutex);
  }
  --shared.threads;
  pthread_cond_signal(&shared.ended);
}

}  // namespace corehttpd::io

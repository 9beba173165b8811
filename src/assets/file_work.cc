#include "corehttpd/assets/file_work.h"

#include "assets/open_path.h"
#include "corehttpd/assets/file_lookup.h"

namespace corehttpd::assets {

FileWork::Hook::Hook(FileWork& work)
    : AbortHook([](AbortHook& hook, const Error&) { static_cast<Hook&>(hook).owner.let_go(); }),
      owner(work) {}

FileWork::Timer::Timer(FileWork& work)
    : io::Timer([](io::Timer& timer) { static_cast<Timer&>(timer).owner.give_up(); }),
      owner(work) {}

FileWork::FileWork() : hook_(*this), timer_(*this) {}

http::StepOutcome FileWork::start(http::Exchange& exchange, std::unique_ptr<FileWork> work,
                                  std::string_view path) {
  io::Loop& loop = exchange.services().loop;
  work->loop_ = &loop;
  work->exchange_ = &exchange;
  work->queue_ = &exchange.services().files->work();
  work->device_ = nearest_device(path);
  if (!work->queue_->add(*work, loop)) {
    exchange.log(LogLevel::kError, 0, "too many requests wait for the file system of \"{}\"", path);
    return http::StepOutcome::fail(503);
  }
  FileWork* started = work.release();
  exchange.on_abort(started->hook_);
  loop.schedule(started->timer_, FileWorkQueue::kPatienceMs);
  return http::StepOutcome::suspend();
}

void FileWork::done() {
  const std::unique_ptr<FileWork> self(this);
  if (exchange_ != nullptr) {
    deliver(*exchange_);
    exchange_->resume(http::StepOutcome::repeat());
  }
  queue_->run_next(device_, *loop_);
}

void FileWork::give_up() {
  exchange_->log(LogLevel::kError, 0, "the file system did not answer within {} seconds",
                 FileWorkQueue::kPatienceMs / 1000);
  exchange_->resume(http::StepOutcome::fail(503));
  let_go();
}

void FileWork::let_go() {
  loop_->cancel(timer_);
  hook_.unlink();
  exchange_ = nullptr;
  if (!running_) delete this;
}

FileWorkQueue::~FileWorkQueue() {
  for (auto& [key, device] : devices_) {
    while (FileWork* work = device.waiting.pop_front()) delete work;
  }
}

bool FileWorkQueue::add(FileWork& work, io::Loop& loop) {
  Device& device = devices_[work.device_];
  if (device.running < kRunningPerDeviceMax && loop.offload_file_work(work)) {
    ++device.running;
    work.running_ = true;
    return true;
  }
  // Without one that runs nobody would start those that wait.
  if (device.running == 0 || device.waiting.count() >= kWaitingPerDeviceMax) {
    if (device.running == 0) devices_.erase(work.device_);
    return false;
  }
  device.waiting.push_back(work);
  return true;
}

void FileWorkQueue::run_next(std::uint64_t key, io::Loop& loop) {
  const auto found = devices_.find(key);
  Device& device = found->second;
  --device.running;
  while (device.running < kRunningPerDeviceMax && !device.waiting.empty()) {
    FileWork& work = device.waiting.front();
    work.io::OffloadTask::unlink();
    if (!loop.offload_file_work(work)) {
      device.waiting.push_front(work);
      break;
    }
    work.running_ = true;
    ++device.running;
  }
  if (device.running == 0) {
    // Every thread is taken by other file systems: the requests still waiting are told so.
    while (FileWork* work = device.waiting.pop_front()) {
      work->exchange_->resume(http::StepOutcome::fail(503));
      work->let_go();
    }
    devices_.erase(found);
  }
}

}  // namespace corehttpd::assets

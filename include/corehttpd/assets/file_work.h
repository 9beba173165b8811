// Calls on files that may wait, for a step of a request: they run in a thread, the step is
// suspended meanwhile and runs once more when they are done.
//
// A disk or server that no longer answers must cost only what lives on it. So each file system has
// a few threads at a time and a short queue, and a request waits for a minute at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "corehttpd/http/exchange.h"
#include "corehttpd/io/loop.h"

namespace corehttpd::assets {

class FileWorkQueue;

// On the heap: a thread may be in it for long after its request has ended.
class FileWork : public io::OffloadTask {
 public:
  FileWork();
  virtual ~FileWork() = default;
  FileWork(const FileWork&) = delete;
  FileWork& operator=(const FileWork&) = delete;

  // path: what it is about, absolute. The step returns what this returns: suspend, or failure with
  // 503 when there are too many waiting already.
  static http::StepOutcome start(http::Exchange& exchange, std::unique_ptr<FileWork> work,
                                 std::string_view path);

 protected:
  // In the thread; touches nothing but the work itself.
  virtual void work() noexcept = 0;
  // On the loop, if the request is still there: leaves the findings where the step will look.
  virtual void deliver(http::Exchange& exchange) = 0;

 private:
  friend class FileWorkQueue;
  struct Hook : http::AbortHook {
    explicit Hook(FileWork& owner);
    FileWork& owner;
  };
  struct Timer : io::Timer {
    explicit Timer(FileWork& owner);
    FileWork& owner;
  };
  void run() noexcept final { work(); }
  void done() final;
  void give_up();  // The time is over.
  void let_go();   // The request does not wait any more.

  http::Exchange* exchange_ = nullptr;
  io::Loop* loop_ = nullptr;
  FileWorkQueue* queue_ = nullptr;
  std::uint64_t device_ = 0;
  bool running_ = false;
  Hook hook_;
  Timer timer_;
};

class FileWorkQueue {
 public:
  static constexpr std::size_t kRunningPerDeviceMax = 8;
  static constexpr std::size_t kWaitingPerDeviceMax = 256;
  static constexpr Milliseconds kPatienceMs = 60'000;

  FileWorkQueue() = default;
  FileWorkQueue(const FileWorkQueue&) = delete;
  FileWorkQueue& operator=(const FileWorkQueue&) = delete;
  ~FileWorkQueue();

 private:
  friend class FileWork;
  struct Device {
    std::size_t running = 0;
    List<FileWork, io::ReadyTag> waiting;  // Owned.
  };
  bool add(FileWork& work, io::Loop& loop);
  void run_next(std::uint64_t device, io::Loop& loop);

  std::unordered_map<std::uint64_t, Device> devices_;  // Of those with work only.
};

}  // namespace corehttpd::assets

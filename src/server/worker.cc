#include "server/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>

#include "corehttpd/access/passwords.h"
#include "corehttpd/assets/file_lookup.h"
#include "corehttpd/base/log.h"
#include "corehttpd/handlers/access_log.h"
#include "corehttpd/handlers/error_page.h"
#include "corehttpd/http/log_files.h"
#include "corehttpd/http/temp_paths.h"
#include "corehttpd/io/append_file.h"
#include "corehttpd/io/loop.h"
#include "corehttpd/proto/acceptor.h"
#include "corehttpd/tls/store.h"
#include "server/channel.h"
#include "server/log_opening.h"
#include "server/modules.h"
#include "server/sandbox.h"
#include "server/settings.h"

namespace corehttpd::server {
namespace {

enum Request : int { kNone = 0, kGraceful = 1, kFast = 2 };

// Signal handlers can reach globals only.
volatile std::sig_atomic_t g_request = kNone;
volatile std::sig_atomic_t g_reopen = 0;
io::Loop* g_loop = nullptr;

void on_signal(int signal) {
  if (signal == SIGQUIT) {
    if (g_request < kGraceful) g_request = kGraceful;
  } else if (signal == SIGUSR1) {
    g_reopen = 1;
  } else {
    g_request = kFast;
  }
  if (g_loop != nullptr) g_loop->wake();
}

void install_signals(bool alone) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigfillset(&action.sa_mask);
  for (int signal : {SIGTERM, SIGINT, SIGQUIT, SIGUSR1}) ::sigaction(signal, &action, nullptr);
  action.sa_handler = SIG_IGN;
  for (int signal : {SIGPIPE, SIGXFSZ, SIGHUP, SIGUSR2, SIGWINCH})
    ::sigaction(signal, &action, nullptr);
  action.sa_handler = SIG_DFL;
  if (!alone) ::sigaction(SIGCHLD, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void pin(std::uint32_t number) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  int skip = static_cast<int>(number) % std::max(CPU_COUNT(&allowed), 1);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || skip-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ::sched_setaffinity(0, sizeof(one), &one);
    return;
  }
}

// A quarter of the machine's memory for buffers, shared out to the workers; never less than 64 MiB
// each.
std::size_t block_budget(const ServerSettings& settings) {
  const auto pages = static_cast<std::size_t>(std::max(::sysconf(_SC_PHYS_PAGES), 1L));
  const auto page_bytes = static_cast<std::size_t>(std::max(::sysconf(_SC_PAGESIZE), 4096L));
  const std::size_t workers =
      settings.worker_processes == 0 ? available_cpus() : settings.worker_processes;
  constexpr std::size_t kBytesMin = std::size_t{64} * 1024 * 1024;
  return std::max(pages * page_bytes / 4 / workers, kBytesMin) / BlockPool::kBlockBytes;
}

class Worker {
 public:
  Worker(const WorkerSetup& setup, io::Loop& loop, std::uint64_t descriptors);
  int run();

 private:
  void start_draining();
  void end_if_drained();
  void read_channel();
  void reopen(const ReceivedMessage& received);
  void reopen_alone();
  void take_certificates(int fd);
  template <class Condition>
  void turn_until(Milliseconds patience, Condition condition);
  void finish_logs();
  void watch_folded_log();
  std::size_t connection_limit(std::uint64_t descriptors) const;

  template <class Base>
  struct Owned : Base {
    Owned(void (*function)(Worker&), Worker& o)
        : Base(&Owned::call), function(function), owner(o) {}
    static void call(Base& base) {
      auto& self = static_cast<Owned&>(base);
      self.function(self.owner);
    }
    void (*function)(Worker&);
    Worker& owner;
  };
  struct ChannelPoll : io::Operation {
    explicit ChannelPoll(Worker& o)
        : Operation(
              [](io::Operation& op, int) { static_cast<ChannelPoll&>(op).owner.read_channel(); }),
          owner(o) {}
    Worker& owner;
  };

  const WorkerSetup& setup_;
  const ServerSettings& settings_;
  static constexpr Milliseconds kPatience = 2000;  // With what is under way at the end.

  io::Loop& loop_;
  http::LogFiles* log_files_;
  handlers::AccessLog access_log_;
  handlers::ErrorPages error_pages_;
  assets::FileLookup files_;
  access::PasswordChecks passwords_;
  http::Services services_;
  proto::Acceptors acceptors_;
  Owned<TurnTask> emptied_;
  Owned<io::Timer> shutdown_timer_;
  Owned<io::Timer> folded_timer_;
  ChannelPoll channel_poll_;
  bool draining_ = false;
  bool told_stopped_ = false;  // The master knows that we accept no more.
  bool done_ = false;
};

Worker::Worker(const WorkerSetup& setup, io::Loop& loop, std::uint64_t descriptors)
    : setup_(setup),
      settings_(setup.configuration.root.get<ServerSettings>()),
      loop_(loop),
      log_files_(setup.configuration.object<http::LogFiles>()),
      access_log_(loop, setup.configuration),
      files_(loop.clock()),
      passwords_(loop),
      services_{loop,
                loop.turn(),
                loop.blocks(),
                loop.clock(),
                *setup.configuration.object<route::Tree>(),
                error_pages_,
                access_log_,
                setup.counters,
                transforms()},
      acceptors_(services_, connection_limit(descriptors)),
      emptied_([](Worker& w) { w.end_if_drained(); }, *this),
      shutdown_timer_([](Worker& w) { w.acceptors_.connections().close_now(); }, *this),
      folded_timer_([](Worker&) { flush_folded_log(false); }, *this),
      channel_poll_(*this) {
  services_.debug_clients = debug_clients(setup.configuration);
  services_.files = &files_;
  services_.passwords = &passwords_;
  services_.tls = setup.configuration.object<tls::Store>();
  if (::access(http::kDefaultTempPath.data(), W_OK | X_OK) == 0) {
    services_.body_temp_path = http::kDefaultTempPath;
  }
  files_.start(loop);
}

// Each connection may need a second descriptor, for a file or an origin.
std::size_t Worker::connection_limit(std::uint64_t descriptors) const {
  if (settings_.worker_connections != 0) return settings_.worker_connections;
  const std::uint64_t reserved = 64;
  return static_cast<std::size_t>(descriptors > 2 * reserved ? (descriptors - reserved) / 2
                                                             : reserved);
}

int Worker::run() {
  setup_.counters.use_slot(setup_.counter_slot);
  const auto listeners = setup_.configuration.object<route::Tree>()->listeners();
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    acceptors_.add(setup_.listeners[i], listeners[i].endpoint);
  }
  if (setup_.channel >= 0) {
    loop_.poll(setup_.channel, POLLIN, channel_poll_);
    // The first turn hands the accepts to the kernel; a master that does not hear of it replaces
    // us.
    loop_.wake();
    loop_.run_once();
    [[maybe_unused]] auto told = send_message(setup_.channel, {ChannelMessage::Type::kReady, 0});
  }
  // Asked before each wait: a signal may have come before there was anything to wake.
  while (!done_ && g_request != kFast) {
    if (g_reopen != 0) {
      g_reopen = 0;
      reopen_alone();
    }
    if (g_request == kGraceful && !draining_) start_draining();
    loop_.run_once();
    watch_folded_log();
  }
  if (g_request == kFast) {
    acceptors_.stop();
    acceptors_.connections().close_now();
  }
  // An accept still under way would keep its listening socket open for milliseconds after the
  // process's end, and a restart would find the address in use.
  turn_until(kPatience,
             [this] { return acceptors_.connections().empty() && acceptors_.stopped(); });
  finish_logs();
  return 0;
}

void Worker::start_draining() {
  draining_ = true;
  set_title("corehttpd: worker process is shutting down");
  services_.draining = true;
  acceptors_.stop();
  acceptors_.when_stopped(&emptied_);
  acceptors_.connections().when_empty(&emptied_);
  acceptors_.connections().drain();
  if (settings_.worker_shutdown_timeout > 0)
    loop_.schedule(shutdown_timer_, settings_.worker_shutdown_timeout);
}

// Asked again when it is so: the kernel may still hand over a connection after stop(), and one that
// changes its protocol is in no set for a moment.
void Worker::end_if_drained() {
  if (draining_ && acceptors_.stopped() && setup_.channel >= 0 && !told_stopped_) {
    told_stopped_ = true;
    [[maybe_unused]] auto told = send_message(setup_.channel, {ChannelMessage::Type::kStopped, 0});
  }
  done_ = draining_ && acceptors_.stopped() && acceptors_.connections().empty();
}

// Turns until that is so, but for a limited time: the kernel may need a moment, and a disk may be
// stuck.
template <class Condition>
void Worker::turn_until(Milliseconds patience, Condition condition) {
  constexpr Milliseconds kPulse = 10;
  io::Timer pulse([](io::Timer&) {});
  const Milliseconds end = loop_.clock().now_ms() + patience;
  while (!condition() && loop_.clock().now_ms() < end) {
    loop_.schedule(pulse, kPulse);
    loop_.run_once();
  }
  loop_.cancel(pulse);
}

void Worker::finish_logs() {
  access_log_.flush_all();
  // A write under way ends with the process if a thread of the kernel has not begun it yet.
  turn_until(kPatience, [this] { return access_log_.idle(); });
  access_log_.flush_all();
  flush_folded_log(true);
}

void Worker::read_channel() {
  for (;;) {
    auto received = receive_message(setup_.channel);
    if (received) {
      reopen(*received);
      continue;
    }
    if (received.error().code == Code::kUnavailable) break;
    // The master is gone: nobody will replace or reload us, so we end in good order.
    if (g_request == kNone) g_request = kGraceful;
    loop_.wake();
    return;
  }
  loop_.poll(setup_.channel, POLLIN, channel_poll_);
}

void Worker::reopen(const ReceivedMessage& received) {
  if (received.fd >= 0 && received.message.type == ChannelMessage::Type::kReopenLog) {
    access_log_.reopen(received.message.index, received.fd);
  } else if (received.fd >= 0 && received.message.type == ChannelMessage::Type::kCertificates) {
    take_certificates(received.fd);
  } else if (received.fd >= 0) {
    ::close(received.fd);
  }
  if (received.message.type == ChannelMessage::Type::kForgetLogs) access_log_.forget_opened();
}

// They hold keys: nothing of them stays but what the library has.
void Worker::take_certificates(int fd) {
  struct stat about {};
  std::string bytes;
  if (::fstat(fd, &about) == 0) bytes.resize(static_cast<std::size_t>(about.st_size));
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t count =
        ::pread(fd, bytes.data() + got, bytes.size() - got, static_cast<off_t>(got));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    got += static_cast<std::size_t>(count);
  }
  ::close(fd);
  auto* store = setup_.configuration.object<tls::Store>();
  if (got != bytes.size() || store == nullptr || !store->unpack(bytes))
    log(nullptr, LogLevel::kAlert, "certificates that the master has taken up cannot be read");
  ::explicit_bzero(bytes.data(), bytes.size());
}

// Without a master the process reopens its own logs.
void Worker::reopen_alone() {
  if (setup_.channel >= 0) return;
  for (const http::LogFile* file : log_files_->files()) {
    if (io::is_standard_stream(file->path)) continue;
    if (auto fd = open_log(std::string(file->path), setup_.identity)) {
      access_log_.reopen(file->index, *fd);
    } else {
      log(nullptr, LogLevel::kEmerg, "{}", describe_log_failure(file->path, fd.error()));
    }
  }
  access_log_.forget_opened();
}

// Floods of equal error lines are summed up within a second of their end.
void Worker::watch_folded_log() {
  constexpr Milliseconds kFoldedWait = 1000;
  if (log_is_folding() && !folded_timer_.scheduled()) loop_.schedule(folded_timer_, kFoldedWait);
}

// A worker that cannot be confined serves all the same: this is a second line of defence.
void confine(const conf::Configuration& configuration) {
  const auto state = enter_sandbox(writable_directories(configuration));
  if (!state) {
    log_errno(nullptr, LogLevel::kWarn, state.error().detail,
              "{} failed, the worker is not confined", state.error().context);
  } else if (!state->files || !state->calls) {
    log(nullptr, LogLevel::kInfo, "the worker is not fully confined: the kernel has no {}",
        state->files ? "seccomp" : "Landlock");
  }
}

}  // namespace

int run_worker(const WorkerSetup& setup) {
  const auto& settings = setup.configuration.root.get<ServerSettings>();
  g_request = kNone;
  if (setup.channel >= 0) set_title("corehttpd: worker process");
  if (settings.worker_priority != 0 &&
      ::setpriority(PRIO_PROCESS, 0, settings.worker_priority) != 0) {
    log_errno(nullptr, LogLevel::kAlert, errno, "setpriority({}) failed", settings.worker_priority);
  }
  const std::uint64_t descriptors = raise_descriptor_limit(settings.worker_rlimit_nofile);
  if (settings.pin_workers) pin(setup.number);
  if (auto dropped = become(setup.identity); !dropped) {
    log_errno(nullptr, LogLevel::kEmerg, dropped.error().detail, "{} to \"{}\" failed",
              dropped.error().context, setup.identity.name);
    return kFatalExit;
  }
  // Not without a master: the process goes on as who it is, with the environment it has.
  if (setup.channel >= 0) limit_environment(settings);
  limit_core(settings.worker_rlimit_core);
  if (!settings.working_directory.empty() &&
      ::chdir(std::string(settings.working_directory).c_str()) != 0) {
    log_errno(nullptr, LogLevel::kAlert, errno, "chdir(\"{}\") failed", settings.working_directory);
  }
  if (settings.sandbox && setup.channel >= 0) confine(setup.configuration);
  io::RingOptions ring;
  ring.blocks_limit = block_budget(settings);
  auto loop = io::make_ring_loop(ring);
  if (!loop) {
    log_errno(nullptr, LogLevel::kEmerg, loop.error().detail, "{}",
              io::explain_ring_failure(loop.error().detail));
    return kFatalExit;
  }
  g_loop = loop->get();
  install_signals(setup.channel < 0);
  // Never destroyed: everything is about to vanish with the process, and destructors would only add
  // ways to crash.
  auto* worker = new Worker(setup, **loop, descriptors);
  const int status = worker->run();
  g_loop = nullptr;
  (void)loop->release();
  return status;
}

}  // namespace corehttpd::server

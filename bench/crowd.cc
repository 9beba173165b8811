// The crowd: visitors with a keep-alive connection each click every so often, evenly spread, and
// every half second a newcomer opens a fresh connection, asks for a file and measures its wait from
// before connect() to the last byte. Newcomers have a thread of their own, so that what they
// measure is the server and not this program. Prints one line of JSON.
//
//   crowd --address 127.0.0.1:8080 [--path /] [--visitors 3000] [--click-ms 10000]
//         [--newcomer-ms 500] [--seconds 30]
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

struct Options {
  sockaddr_in address{};
  std::string path = "/";
  int visitors = 3000;
  int click_ms = 10'000;
  int newcomer_ms = 500;
  int seconds = 30;
};

// Collects one response: its status and whether all of it is there.
class Response {
 public:
  // False: it goes on.
  bool feed(std::string_view bytes) {
    if (body_begin_ == 0) {
      text_ += bytes;
      const std::size_t end = text_.find("\r\n\r\n");
      if (end == std::string::npos) return false;
      body_begin_ = end + 4;
      received_ = text_.size();
      for (std::string_view name : {"\r\nContent-Length: ", "\r\ncontent-length: "}) {
        const std::size_t at = text_.find(name);
        if (at >= end) continue;
        const char* digits = text_.data() + at + name.size();
        std::from_chars(digits, text_.data() + end, body_bytes_);
      }
    } else {
      received_ += bytes.size();
    }
    return received_ >= body_begin_ + body_bytes_;
  }
  bool right() const {
    return text_.starts_with("HTTP/1.1 200") && received_ == body_begin_ + body_bytes_;
  }
  void clear() {
    text_.clear();
    body_begin_ = body_bytes_ = received_ = 0;
  }

 private:
  std::string text_;  // The head and what came with it.
  std::size_t body_begin_ = 0, body_bytes_ = 0, received_ = 0;
};

int connect_to(const sockaddr_in& address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const timeval patience{30, 0};  // As long as a visitor waits.
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  ::close(fd);
  return -1;
}

std::string request_for(const Options& options) {
  return "GET " + options.path +
         " HTTP/1.1\r\nHost: localhost\r\nUser-Agent: crowd\r\nAccept: */*\r\n\r\n";
}

class Newcomers {
 public:
  explicit Newcomers(const Options& options) : options_(options), request_(request_for(options)) {}
  void run() {
    std::int64_t next = now_ns();
    while (!stop.load(std::memory_order_relaxed)) {
      next += std::int64_t{options_.newcomer_ms} * 1'000'000;
      arrive();
      const timespec until{next / 1'000'000'000, next % 1'000'000'000};
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
    }
    std::sort(waits_us.begin(), waits_us.end());
  }

  std::atomic<bool> stop{false};
  std::vector<double> waits_us;  // Sorted when run() has ended.
  int failed = 0;

 private:
  void arrive() {
    const std::int64_t begin = now_ns();
    const int fd = connect_to(options_.address);
    bool right = false;
    if (fd >= 0) {
      right = ask(fd);
      const std::int64_t end = now_ns();
      ::close(fd);
      if (right) waits_us.push_back(static_cast<double>(end - begin) / 1000);
    }
    failed += !right;
  }
  bool ask(int fd) {
    if (::send(fd, request_.data(), request_.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request_.size()))
      return false;
    Response response;
    std::array<char, 16 * 1024> buffer;
    for (;;) {
      const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
      if (n <= 0) return false;
      if (response.feed({buffer.data(), static_cast<std::size_t>(n)})) return response.right();
    }
  }

  const Options& options_;
  std::string request_;
};

class Visitors {
 public:
  explicit Visitors(const Options& options)
      : options_(options),
        request_(request_for(options)),
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        visitors_(static_cast<std::size_t>(options.visitors)) {
    for (Visitor& visitor : visitors_) open(visitor);
  }
  // Clicks until end_ns, visitor after visitor.
  void run(std::int64_t end_ns) {
    const std::int64_t begin = now_ns();
    const std::int64_t step = std::int64_t{options_.click_ms} * 1'000'000 / options_.visitors;
    for (std::int64_t k = 0;; ++k) {
      const std::int64_t due = begin + k * step;
      if (due >= end_ns) return wait_until(end_ns);
      wait_until(due);
      click(visitors_[next_++ % visitors_.size()]);
    }
  }

  int clicks = 0, answered = 0, failed = 0, reopened = 0;

 private:
  struct Visitor {
    int fd = -1;
    bool waits = false;
    Response response;
  };
  void open(Visitor& visitor) {
    visitor.waits = false;
    visitor.response.clear();
    visitor.fd = connect_to(options_.address);
    if (visitor.fd < 0) {
      ++failed;
      return;
    }
    ::fcntl(visitor.fd, F_SETFL, O_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &visitor;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, visitor.fd, &event);
  }
  void drop(Visitor& visitor) {
    failed += visitor.waits;  // An idle one may be sent away, it comes back with its next click.
    ::close(visitor.fd);
    visitor.fd = -1;
  }
  void click(Visitor& visitor) {
    ++clicks;
    if (visitor.waits) ++failed;  // Not answered since its last click.
    if (visitor.fd < 0) {
      ++reopened;
      open(visitor);
      if (visitor.fd < 0) return;
    }
    visitor.response.clear();
    visitor.waits = true;
    if (::send(visitor.fd, request_.data(), request_.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request_.size()))
      drop(visitor);
  }
  void wait_until(std::int64_t due_ns) {
    std::array<epoll_event, 64> events;
    for (;;) {
      const std::int64_t left = due_ns - now_ns();
      if (left <= 0) return;
      const int n = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                                 static_cast<int>((left + 999'999) / 1'000'000));
      for (int i = 0; i < n; ++i)
        read(*static_cast<Visitor*>(events[static_cast<std::size_t>(i)].data.ptr));
    }
  }
  void read(Visitor& visitor) {
    std::array<char, 16 * 1024> buffer;
    const ssize_t n = ::recv(visitor.fd, buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return drop(visitor);
    if (!visitor.response.feed({buffer.data(), static_cast<std::size_t>(n)})) return;
    visitor.waits = false;
    ++(visitor.response.right() ? answered : failed);
  }

  const Options& options_;
  std::string request_;
  int epoll_;
  std::vector<Visitor> visitors_;
  std::size_t next_ = 0;
};

bool parse(int argc, char** argv, Options& out) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--address") {
      const std::size_t colon = value.rfind(':');
      if (colon == std::string::npos) return false;
      out.address.sin_family = AF_INET;
      out.address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(&value[colon + 1])));
      if (inet_pton(AF_INET, value.substr(0, colon).c_str(), &out.address.sin_addr) != 1)
        return false;
    } else if (name == "--path") {
      out.path = value;
    } else if (name == "--visitors") {
      out.visitors = std::atoi(value.c_str());
    } else if (name == "--click-ms") {
      out.click_ms = std::atoi(value.c_str());
    } else if (name == "--newcomer-ms") {
      out.newcomer_ms = std::atoi(value.c_str());
    } else if (name == "--seconds") {
      out.seconds = std::atoi(value.c_str());
    } else {
      return false;
    }
  }
  // Loopback only: this is a bench, not a weapon.
  return argc % 2 == 1 && (ntohl(out.address.sin_addr.s_addr) >> 24) == 127 && out.visitors > 0 &&
         out.click_ms > 0 && out.newcomer_ms > 0 && out.seconds > 0 && out.seconds <= 600;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fputs(
        "usage: crowd --address 127.0.0.1:PORT [--path P] [--visitors N] [--click-ms MS] "
        "[--newcomer-ms MS] [--seconds S]\n",
        stderr);
    return 2;
  }
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  Visitors visitors(options);
  // Everybody clicks once before newcomers are counted: the crowd is warm.
  visitors.run(now_ns() + std::int64_t{options.click_ms} * 1'000'000);
  Newcomers newcomers(options);
  std::thread thread([&newcomers] { newcomers.run(); });
  visitors.run(now_ns() + std::int64_t{options.seconds} * 1'000'000'000);
  newcomers.stop = true;
  thread.join();
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto& waits = newcomers.waits_us;
  const auto at = [&waits](double share) {
    if (waits.empty()) return 0.0;
    const auto index = static_cast<std::size_t>(share * static_cast<double>(waits.size()));
    return waits[std::min(index, waits.size() - 1)];
  };
  std::printf(
      "{\"newcomers\": %zu, \"newcomers_failed\": %d, \"median_us\": %.1f, \"p90_us\": %.1f, "
      "\"worst_us\": %.1f, \"clicks\": %d, \"answered\": %d, \"visitors_failed\": %d, "
      "\"reopened\": %d, \"own_cpu\": %.3f}\n",
      waits.size(), newcomers.failed, at(0.5), at(0.9), at(1.0), visitors.clicks, visitors.answered,
      visitors.failed, visitors.reopened,
      static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
          static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
  return 0;
}

// A load generator of one thread: N keep-alive connections, each sends a request as soon as its
// last response is complete. Every response's status and length are checked, every 64th body byte
// for byte against the first; other bodies are counted and thrown away by the kernel, so that the
// generator stays cheaper than the server. Prints one line of JSON: percentiles are of answers with
// status 200, others count as errors; longest_us is how long anybody has waited, also for an answer
// that has not come by the end (who waits in vain is in no percentile).
//
//   load --address 127.0.0.1:8080 --path /small.html --connections 64 --seconds 3 [--close]
//   [--expect FILE] [--sources N] [--hold] [--cookie VALUE]
//
// --expect: the file whose content every checked body must equal, and whose length every body must
// have. --close: a new connection for each request. --sources: connections come from N addresses of
// 127.0.1.0/24 in turn, so that ports do not run short. --hold: one request on each connection,
// then all of them are left idle: a line of JSON is printed when they are, and the end of standard
// input ends it.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "measure.h"

namespace {

using bench::Histogram;
using bench::now_ns;

struct Options {
  sockaddr_in address{};
  std::string path = "/";
  std::string expect;
  std::string cookie;
  int connections = 1;
  int sources = 0;
  double seconds = 3;
  bool close = false;
  bool hold = false;
};

struct Connection {
  int fd = -1;
  std::int64_t sent_ns = 0;
  std::size_t received = 0;    // Of the current response, head and body.
  std::size_t head_bytes = 0;  // 0 until the head is complete.
  std::size_t body_bytes = 0;
  bool chunked = false;
  bool ok = false;  // Status 200.
  std::string
      kept;  // What was received: all of it when the body is to be compared, else the head alone.
  bool compare = false;
};

// Holds the head, and all of a page.
constexpr std::size_t kFirstRead = 32 * 1024;

class Load {
 public:
  explicit Load(const Options& options) : options_(options), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    request_ = "GET " + options.path +
               " HTTP/1.1\r\nHost: localhost\r\nUser-Agent: load\r\nAccept: */*\r\n" +
               (options.cookie.empty() ? "" : "Cookie: " + options.cookie + "\r\n") +
               (options.close ? "Connection: close\r\n" : "") + "\r\n";
    if (!options.expect.empty()) {
      std::ifstream file(options.expect, std::ios::binary);
      expected_.assign(std::istreambuf_iterator<char>(file), {});
    }
  }
  void run();
  // For --hold; false when not every connection got its answer in time.
  bool hold();

 private:
  void begin();
  void handle(int timeout_ms);
  bool bind_source(int fd);
  bool open(Connection& c);
  void send(Connection& c);
  void read(Connection& c);
  bool parse_head(Connection& c);
  bool unchunk(Connection& c);
  void complete(Connection& c);
  void fail(Connection& c);
  void report(std::int64_t begin_ns, double cpu_before) const;

  const Options& options_;
  int epoll_;
  std::string request_;
  std::string expected_;
  std::vector<Connection> connections_;
  std::array<char, 256 * 1024> buffer_;
  Histogram histogram_;
  std::uint64_t requests_ = 0, errors_ = 0, failed_sockets_ = 0, compared_ = 0, bytes_ = 0,
                not_200_ = 0;
  std::int64_t longest_ns_ = 0;
  std::uint32_t opened_ = 0;
};

// The port is chosen at connect(), when the kernel knows the whole tuple; else 28,000 would be all.
bool Load::bind_source(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
  sockaddr_in source{};
  source.sin_family = AF_INET;
  source.sin_addr.s_addr =
      htonl(0x7f000101U + opened_++ % static_cast<std::uint32_t>(options_.sources));
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&source), sizeof(source)) == 0;
}

bool Load::open(Connection& c) {
  c.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (c.fd < 0) {
    ++failed_sockets_;
    return false;
  }
  if ((options_.sources > 0 && !bind_source(c.fd)) ||
      ::connect(c.fd, reinterpret_cast<const sockaddr*>(&options_.address),
                sizeof(options_.address)) != 0) {
    ++failed_sockets_;
    ::close(c.fd);
    c.fd = -1;
    return false;
  }
  const int on = 1;
  ::setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::fcntl(c.fd, F_SETFL, O_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &c;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, c.fd, &event);
  return true;
}

void Load::send(Connection& c) {
  c.received = c.head_bytes = c.body_bytes = 0;
  c.chunked = false;
  c.kept.clear();
  c.compare = requests_ % 64 == 0;
  c.sent_ns = now_ns();
  if (::send(c.fd, request_.data(), request_.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request_.size()))
    fail(c);
}

void Load::fail(Connection& c) {
  ++errors_;
  if (c.fd >= 0) {
    ++failed_sockets_;
    ::close(c.fd);
  }
  c.fd = -1;
  if (errors_ - not_200_ < 10'000 && open(c)) send(c);
}

// Finds the end of the head in c.kept. False: not complete yet.
bool Load::parse_head(Connection& c) {
  const std::size_t end = c.kept.find("\r\n\r\n");
  if (end == std::string::npos) return false;
  c.head_bytes = end + 4;
  c.ok = c.kept.compare(0, 12, "HTTP/1.1 200") == 0;
  std::string_view head(c.kept.data(), end);
  for (std::string_view name : {"\r\nContent-Length: ", "\r\ncontent-length: "}) {
    const std::size_t at = head.find(name);
    if (at != std::string_view::npos)
      c.body_bytes = std::strtoul(c.kept.c_str() + at + name.size(), nullptr, 10);
  }
  c.chunked = head.find("\r\nTransfer-Encoding: chunked") != std::string_view::npos ||
              head.find("\r\ntransfer-encoding: chunked") != std::string_view::npos;
  return true;
}

// A chunked body that is there to its end is put in the place of its chunks. False: more is to
// come.
bool Load::unchunk(Connection& c) {
  std::string body;
  std::size_t at = c.head_bytes;
  for (;;) {
    const std::size_t line_end = c.kept.find("\r\n", at);
    if (line_end == std::string::npos) return false;
    const std::size_t size = std::strtoul(c.kept.c_str() + at, nullptr, 16);
    at = line_end + 2;
    if (c.kept.size() < at + size + 2) return false;
    body.append(c.kept, at, size);
    at += size + 2;
    if (size == 0) break;
  }
  c.ok = c.ok && at == c.kept.size();
  c.kept.replace(c.head_bytes, std::string::npos, body);
  c.body_bytes = body.size();
  return true;
}

void Load::read(Connection& c) {
  for (;;) {
    // What is left of a body that nobody looks at is not even copied.
    const bool discard = c.head_bytes != 0 && !c.compare && !c.chunked;
    const std::size_t wanted = discard                  ? c.head_bytes + c.body_bytes - c.received
                               : c.compare || c.chunked ? buffer_.size()
                                                        : kFirstRead;
    const ssize_t n = ::recv(c.fd, buffer_.data(), wanted, discard ? MSG_TRUNC : 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return fail(c);
    bytes_ += static_cast<std::uint64_t>(n);
    c.received += static_cast<std::size_t>(n);
    if (c.head_bytes == 0 || c.compare || c.chunked)
      c.kept.append(buffer_.data(), static_cast<std::size_t>(n));
    if (c.head_bytes == 0 && !parse_head(c)) continue;
    if (c.chunked) {
      if (unchunk(c)) return complete(c);
      if (static_cast<std::size_t>(n) < wanted) return;
      continue;
    }
    if (c.received > c.head_bytes + c.body_bytes) return fail(c);  // More than was announced.
    if (c.received == c.head_bytes + c.body_bytes) return complete(c);
    if (static_cast<std::size_t>(n) < wanted) return;
  }
}

void Load::complete(Connection& c) {
  const std::int64_t taken_ns = now_ns() - c.sent_ns;
  longest_ns_ = std::max(longest_ns_, taken_ns);
  if (c.ok)
    histogram_.add(taken_ns);
  else
    ++not_200_;
  ++requests_;
  bool right = c.ok && (expected_.empty() || c.body_bytes == expected_.size());
  if (c.compare && c.ok) {
    const std::string_view body = std::string_view(c.kept).substr(c.head_bytes);
    if (expected_.empty()) expected_ = body;
    right = right && body == expected_;
    ++compared_;
  }
  if (!right) ++errors_;
  if (options_.hold) return;
  if (options_.close) {
    ::close(c.fd);
    if (!open(c)) return fail(c);
  }
  send(c);
}

void Load::begin() {
  connections_.resize(static_cast<std::size_t>(options_.connections));
  for (Connection& c : connections_) {
    if (!open(c)) ++errors_;
  }
  for (Connection& c : connections_) {
    if (c.fd >= 0) send(c);
  }
}

void Load::handle(int timeout_ms) {
  std::array<epoll_event, 256> events;
  const int n = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout_ms);
  for (int i = 0; i < n; ++i)
    read(*static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr));
}

void Load::run() {
  begin();
  const double before = bench::own_cpu();
  const std::int64_t start = now_ns();
  const std::int64_t end = start + static_cast<std::int64_t>(options_.seconds * 1e9);
  while (now_ns() < end && errors_ - not_200_ < 10'000) handle(100);
  for (const Connection& c : connections_) {
    if (c.fd >= 0) longest_ns_ = std::max(longest_ns_, now_ns() - c.sent_ns);
  }
  report(start, before);
}

bool Load::hold() {
  begin();
  const std::int64_t end = now_ns() + 30'000'000'000;
  const auto wanted = static_cast<std::uint64_t>(options_.connections);
  while (requests_ < wanted && errors_ == 0 && now_ns() < end) handle(100);
  std::printf("{\"held\": %llu, \"errors\": %llu}\n", static_cast<unsigned long long>(requests_),
              static_cast<unsigned long long>(errors_));
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return requests_ == wanted && errors_ == 0;
}

void Load::report(std::int64_t begin_ns, double cpu_before) const {
  const double wall = static_cast<double>(now_ns() - begin_ns) / 1e9;
  const double cpu = bench::own_cpu() - cpu_before;
  std::printf(
      "{\"requests\": %llu, \"errors\": %llu, \"failed_sockets\": %llu, \"compared\": %llu, "
      "\"bytes\": %llu, \"wall\": %.4f, \"own_cpu\": %.4f, "
      "\"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f, "
      "\"not_200\": %llu, \"longest_us\": %.1f}\n",
      static_cast<unsigned long long>(requests_), static_cast<unsigned long long>(errors_),
      static_cast<unsigned long long>(failed_sockets_), static_cast<unsigned long long>(compared_),
      static_cast<unsigned long long>(bytes_), wall, cpu, histogram_.percentile_us(50),
      histogram_.percentile_us(90), histogram_.percentile_us(99), histogram_.percentile_us(99.999),
      static_cast<unsigned long long>(not_200_), static_cast<double>(longest_ns_) / 1000);
}

bool parse(int argc, char** argv, Options& out) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--close" || name == "--hold") {
      (name == "--close" ? out.close : out.hold) = true;
      continue;
    }
    if (i + 1 >= argc) return false;
    const std::string value = argv[++i];
    if (name == "--address") {
      const std::size_t colon = value.rfind(':');
      if (colon == std::string::npos) return false;
      out.address.sin_family = AF_INET;
      out.address.sin_port =
          htons(static_cast<std::uint16_t>(std::atoi(value.c_str() + colon + 1)));
      if (inet_pton(AF_INET, value.substr(0, colon).c_str(), &out.address.sin_addr) != 1)
        return false;
    } else if (name == "--path") {
      out.path = value;
    } else if (name == "--cookie") {
      out.cookie = value;
    } else if (name == "--expect") {
      out.expect = value;
    } else if (name == "--connections") {
      out.connections = std::atoi(value.c_str());
    } else if (name == "--sources") {
      out.sources = std::atoi(value.c_str());
    } else if (name == "--seconds") {
      out.seconds = std::atof(value.c_str());
    } else {
      return false;
    }
  }
  // Loopback only: this is a bench, not a weapon.
  return (ntohl(out.address.sin_addr.s_addr) >> 24) == 127 && out.connections > 0 &&
         out.sources >= 0 && out.sources <= 250 && out.seconds > 0 && out.seconds <= 600;
}

}  // namespace

int main(int argc, char** argv) {
  static Options options;
  if (!parse(argc, argv, options)) {
    std::fputs(
        "usage: load --address 127.0.0.1:PORT [--path P] [--connections N] [--seconds S] [--expect "
        "FILE] [--sources N] [--close] [--hold]\n",
        stderr);
    return 2;
  }
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  static Load load(options);
  if (options.hold) return load.hold() ? 0 : 1;
  load.run();
  return 0;
}

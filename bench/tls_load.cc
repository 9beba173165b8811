// A TLS client of one thread for loopback: requests over HTTP/1.1, handshakes, or idle connections.
// Every response's status and length are checked, every 64th body byte for byte. Certificates are
// not verified against an authority. Prints one line of JSON.
//
//   tls_load --address 127.0.0.1:8443 --path /small.html --connections 64 --seconds 3
//   [--expect FILE] [--sources N] [--name SNI] [--tls 1.2|1.3] [--cipher NAME]
//   [--handshakes full|resumed] [--hold http/1.1|h2]
//
// --handshakes: no requests; each connection shakes hands, waits for a ticket (the server is done
// then), says goodbye, and makes room for the next. resumed: with the session of the one before;
// one that was not resumed is an error. --hold: one request on each connection, then all of them
// are left idle: a line of JSON is printed when they are, and the end of standard input ends it.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
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

using bench::now_ns;

struct Options {
  sockaddr_in address{};
  std::string path = "/";
  std::string expect;
  std::string name = "localhost";
  std::string cipher;
  std::string handshakes;  // "", "full", "resumed".
  std::string hold;        // "", or the protocol to be agreed on.
  int connections = 1;
  int sources = 0;
  int version = TLS1_3_VERSION;
  double seconds = 3;
};

struct Connection {
  int fd = -1;
  SSL* ssl = nullptr;
  std::int64_t began_ns = 0;
  bool shaken = false;
  bool done = false;
  // Of the current response: its bytes, 0 for head_bytes until the head is complete.
  std::size_t received = 0, head_bytes = 0, body_bytes = 0;
  bool ok = false;
  bool compare = false;
  std::string
      kept;  // The head; all of it when it is to be compared; of HTTP/2 what is no frame yet.
};

class Load {
 public:
  explicit Load(const Options& options);
  bool run();

 private:
  static int on_session(SSL* ssl, SSL_SESSION* session);
  bool prepare();
  bool open(Connection& c);
  void close(Connection& c);
  void fail(Connection& c, const char* why);
  void step(Connection& c);
  bool shake(Connection& c);
  void ask(Connection& c);
  void read(Connection& c);
  void take(Connection& c, std::size_t count);
  bool parse_head(Connection& c);
  void take_frames(Connection& c, std::size_t count);
  void complete(Connection& c);
  void report(std::int64_t begin_ns, double cpu_before) const;

  const Options& options_;
  const bool counts_handshakes_, resumes_, http2_;
  int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  SSL_CTX* context_ = nullptr;
  SSL_SESSION* session_ = nullptr;  // The newest ticket's.
  std::string request_;
  std::string expected_;
  std::vector<Connection> connections_;
  std::array<char, 64 * 1024> buffer_;
  bench::Histogram histogram_;
  std::uint64_t counted_ = 0, errors_ = 0, compared_ = 0, resumed_ = 0;
  std::uint32_t opened_ = 0;
  std::string what_;       // Protocol, cipher and group of the first handshake.
  std::string first_why_;  // Of the first error.
};

// A literal with a name of the static table, entered into the server's dynamic table, as browsers
// and curl send whatever they will say again.
std::string indexed(int name, std::string_view value) {
  return std::string{static_cast<char>(0x40 | name), static_cast<char>(value.size())} +
         std::string(value);
}

// The preface, empty SETTINGS, and one GET with a browser's fields.
std::string http2_request(const std::string& path, const std::string& name) {
  const std::string block = std::string("\x82\x87\x04") + static_cast<char>(path.size()) + path +
                            indexed(1, name) +
                            indexed(58,
                                    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 "
                                    "Firefox/128.0") +
                            indexed(19, "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8") +
                            indexed(17, "en-US,en;q=0.5") + "\x90";
  std::string out = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  out += std::string("\0\0\0\x04\0\0\0\0\0", 9);
  out += std::string("\0\0", 2) + static_cast<char>(block.size()) +
         std::string("\x01\x05\0\0\0\x01", 6) + block;
  return out;
}

Load::Load(const Options& options)
    : options_(options),
      counts_handshakes_(!options.handshakes.empty()),
      resumes_(options.handshakes == "resumed"),
      http2_(options.hold == "h2") {
  request_ = http2_ ? http2_request(options.path, options.name)
                    : "GET " + options.path + " HTTP/1.1\r\nHost: " + options.name +
                          "\r\nUser-Agent: load\r\nAccept: */*\r\n\r\n";
  if (!options.expect.empty()) {
    std::ifstream file(options.expect, std::ios::binary);
    expected_.assign(std::istreambuf_iterator<char>(file), {});
  }
}

int Load::on_session(SSL* ssl, SSL_SESSION* session) {
  auto& load = *static_cast<Load*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  static_cast<Connection*>(SSL_get_app_data(ssl))->done = true;
  if (load.session_ != nullptr) SSL_SESSION_free(load.session_);
  load.session_ = session;
  return 1;
}

bool Load::prepare() {
  context_ = SSL_CTX_new(TLS_client_method());
  if (context_ == nullptr) return false;
  SSL_CTX_set_app_data(context_, this);
  SSL_CTX_set_min_proto_version(context_, options_.version);
  SSL_CTX_set_max_proto_version(context_, options_.version);
  // X25519 for all servers and libraries; TLS 1.2 asks for the certificate's curve here as well.
  if (SSL_CTX_set1_groups_list(context_, "X25519:P-256") != 1) return false;
  if (!options_.cipher.empty()) {
    const char* cipher = options_.cipher.c_str();
    const bool old = options_.version == TLS1_2_VERSION;
    if ((old ? SSL_CTX_set_cipher_list(context_, cipher)
             : SSL_CTX_set_ciphersuites(context_, cipher)) != 1)
      return false;
  }
  SSL_CTX_set_session_cache_mode(context_,
                                 SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
  SSL_CTX_sess_set_new_cb(context_, on_session);
  SSL_CTX_set_mode(context_, SSL_MODE_AUTO_RETRY | SSL_MODE_RELEASE_BUFFERS);
  const std::string& protocol = options_.hold.empty() ? std::string("http/1.1") : options_.hold;
  const std::string list = static_cast<char>(protocol.size()) + protocol;
  SSL_CTX_set_alpn_protos(context_, reinterpret_cast<const unsigned char*>(list.data()),
                          static_cast<unsigned>(list.size()));
  return true;
}

bool Load::open(Connection& c) {
  c = Connection();
  c.began_ns = now_ns();
  c.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (c.fd < 0) return false;
  const int on = 1;
  if (options_.sources > 0) {
    // The port is chosen at connect(), when the kernel knows the whole tuple.
    ::setsockopt(c.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    sockaddr_in source{};
    source.sin_family = AF_INET;
    source.sin_addr.s_addr =
        htonl(0x7f000101U + opened_++ % static_cast<std::uint32_t>(options_.sources));
    ::bind(c.fd, reinterpret_cast<const sockaddr*>(&source), sizeof(source));
  }
  if (::connect(c.fd, reinterpret_cast<const sockaddr*>(&options_.address),
                sizeof(options_.address)) != 0)
    return false;
  ::setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::fcntl(c.fd, F_SETFL, O_NONBLOCK);
  c.ssl = SSL_new(context_);
  if (c.ssl == nullptr) return false;
  SSL_set_app_data(c.ssl, &c);
  SSL_set_fd(c.ssl, c.fd);
  SSL_set_tlsext_host_name(c.ssl, options_.name.c_str());
  SSL_set_connect_state(c.ssl);
  if (resumes_ && session_ != nullptr) SSL_set_session(c.ssl, session_);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &c;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, c.fd, &event);
  return true;
}

void Load::close(Connection& c) {
  if (c.ssl != nullptr) {
    SSL_shutdown(c.ssl);
    SSL_free(c.ssl);
  }
  if (c.fd >= 0) ::close(c.fd);
  c.ssl = nullptr;
  c.fd = -1;
}

void Load::fail(Connection& c, const char* why) {
  if (++errors_ == 1) {
    std::array<char, 256> text{};
    ERR_error_string_n(ERR_peek_error(), text.data(), text.size());
    first_why_ = std::string(why) + ", " + text.data();
  }
  ERR_clear_error();
  close(c);
  if (errors_ < 1000 && open(c)) step(c);
}

// True when the handshake is over.
bool Load::shake(Connection& c) {
  if (c.shaken) return true;
  ERR_clear_error();
  const int result = SSL_do_handshake(c.ssl);
  if (result != 1) {
    if (SSL_get_error(c.ssl, result) != SSL_ERROR_WANT_READ) fail(c, "handshake");
    return false;
  }
  c.shaken = true;
  if (what_.empty()) {
    what_ = std::string(SSL_get_version(c.ssl)) + " " + SSL_get_cipher_name(c.ssl);
  }
  const bool resumed = SSL_session_reused(c.ssl) == 1;
  if (resumed) ++resumed_;
  // The first ones have nothing to resume with.
  const auto first = 2 * static_cast<std::uint64_t>(options_.connections);
  if (resumes_ && !resumed && counted_ > first) {
    fail(c, "not resumed");
    return false;
  }
  if (!counts_handshakes_) ask(c);
  return true;
}

void Load::ask(Connection& c) {
  c.received = c.head_bytes = c.body_bytes = 0;
  c.kept.clear();
  c.compare = counted_ % 64 == 0;
  c.began_ns = now_ns();
  if (SSL_write(c.ssl, request_.data(), static_cast<int>(request_.size())) <= 0) fail(c, "write");
}

void Load::step(Connection& c) {
  if (shake(c) && c.ssl != nullptr) read(c);
}

void Load::read(Connection& c) {
  for (;;) {
    std::size_t count = 0;
    const int result = SSL_read_ex(c.ssl, buffer_.data(), buffer_.size(), &count);
    if (result != 1) {
      const int error = SSL_get_error(c.ssl, result);
      if (error != SSL_ERROR_WANT_READ) return fail(c, "read");
      // Under TLS 1.2 the ticket came before the end of the handshake.
      if (counts_handshakes_ && c.done) complete(c);
      return;
    }
    const std::uint64_t before = counted_ + errors_;
    http2_ ? take_frames(c, count) : take(c, count);
    // Whatever has come belonged to the response that is complete now.
    if (counted_ + errors_ != before) return;
  }
}

// Finds the end of the head in c.kept. False: not complete yet.
bool Load::parse_head(Connection& c) {
  const std::size_t end = c.kept.find("\r\n\r\n");
  if (end == std::string::npos) return false;
  c.head_bytes = end + 4;
  c.ok = c.kept.compare(0, 12, "HTTP/1.1 200") == 0;
  const std::string_view head(c.kept.data(), end);
  for (std::string_view name : {"\r\nContent-Length: ", "\r\ncontent-length: "}) {
    const std::size_t at = head.find(name);
    if (at != std::string_view::npos)
      c.body_bytes = std::strtoul(c.kept.c_str() + at + name.size(), nullptr, 10);
  }
  return true;
}

void Load::take(Connection& c, std::size_t count) {
  c.received += count;
  if (c.head_bytes == 0 || c.compare) c.kept.append(buffer_.data(), count);
  if (c.head_bytes == 0 && !parse_head(c)) return;
  if (c.received > c.head_bytes + c.body_bytes) return fail(c, "more than was announced");
  if (c.received < c.head_bytes + c.body_bytes) return;
  bool right = c.ok && (expected_.empty() || c.body_bytes == expected_.size());
  if (c.compare) {
    const std::string_view body = std::string_view(c.kept).substr(c.head_bytes);
    if (expected_.empty()) expected_ = body;
    right = right && body == expected_;
    ++compared_;
  }
  if (!right) return fail(c, "wrong answer");
  complete(c);
}

void Load::take_frames(Connection& c, std::size_t count) {
  c.kept.append(buffer_.data(), count);
  const auto byte = [&c](std::size_t at) { return static_cast<unsigned char>(c.kept[at]); };
  while (c.kept.size() >= 9) {
    const std::size_t length = static_cast<std::size_t>(byte(0)) << 16 | byte(1) << 8 | byte(2);
    if (c.kept.size() < 9 + length) return;
    const unsigned type = byte(3), flags = byte(4);
    if (type == 1) c.ok = c.kept.substr(9, length).find('\x88') != std::string::npos;
    if (type == 4 && (flags & 1) == 0) SSL_write(c.ssl, "\0\0\0\x04\x01\0\0\0\0", 9);
    const bool end = type <= 1 && (flags & 1) != 0;
    c.kept.erase(0, 9 + length);
    if (type == 3 || type == 7) return fail(c, "reset or goaway");
    if (end) {
      c.kept = std::string();
      return c.ok ? complete(c) : fail(c, "wrong answer");
    }
  }
}

void Load::complete(Connection& c) {
  histogram_.add(now_ns() - c.began_ns);
  ++counted_;
  if (counts_handshakes_) {
    close(c);
    if (!open(c)) return fail(c, "connect");
    return step(c);
  }
  if (options_.hold.empty()) ask(c);
}

bool Load::run() {
  if (!prepare()) return false;
  connections_.resize(static_cast<std::size_t>(options_.connections));
  const bool hold = !options_.hold.empty();
  const auto handle = [this] {
    std::array<epoll_event, 256> events;
    const int n = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 100);
    for (int i = 0; i < n; ++i)
      step(*static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr));
  };
  int pending = 0;
  for (Connection& c : connections_) {
    open(c) ? step(c) : fail(c, "connect");
    if (hold && ++pending % 64 == 0) handle();
  }
  const double cpu = bench::own_cpu();
  const std::int64_t start = now_ns();
  const std::int64_t end = start + static_cast<std::int64_t>((hold ? 60 : options_.seconds) * 1e9);
  const auto wanted = static_cast<std::uint64_t>(options_.connections);
  while (now_ns() < end && errors_ < 1000 && !(hold && counted_ >= wanted)) handle();
  report(start, cpu);
  if (!hold) return true;
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return counted_ == wanted && errors_ == 0;
}

void Load::report(std::int64_t begin_ns, double cpu_before) const {
  const double wall = static_cast<double>(now_ns() - begin_ns) / 1e9;
  std::printf(
      "{\"requests\": %llu, \"held\": %llu, \"errors\": %llu, \"why\": \"%s\", "
      "\"failed_sockets\": 0, \"compared\": %llu, \"resumed\": %llu, \"what\": \"%s\", "
      "\"wall\": %.4f, \"own_cpu\": %.4f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n",
      static_cast<unsigned long long>(counted_), static_cast<unsigned long long>(counted_),
      static_cast<unsigned long long>(errors_), first_why_.c_str(),
      static_cast<unsigned long long>(compared_), static_cast<unsigned long long>(resumed_),
      what_.c_str(), wall, bench::own_cpu() - cpu_before, histogram_.percentile_us(50),
      histogram_.percentile_us(99));
  std::fflush(stdout);
}

bool parse_address(const std::string& value, sockaddr_in& into) {
  const std::size_t colon = value.rfind(':');
  if (colon == std::string::npos) return false;
  into.sin_family = AF_INET;
  into.sin_port = htons(static_cast<std::uint16_t>(std::atoi(value.c_str() + colon + 1)));
  return inet_pton(AF_INET, value.substr(0, colon).c_str(), &into.sin_addr) == 1;
}

bool parse(int argc, char** argv, Options& out) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--address") {
      if (!parse_address(value, out.address)) return false;
    } else if (name == "--path") {
      out.path = value;
    } else if (name == "--expect") {
      out.expect = value;
    } else if (name == "--name") {
      out.name = value;
    } else if (name == "--cipher") {
      out.cipher = value;
    } else if (name == "--handshakes") {
      out.handshakes = value;
    } else if (name == "--hold") {
      out.hold = value;
    } else if (name == "--tls") {
      out.version = value == "1.2" ? TLS1_2_VERSION : TLS1_3_VERSION;
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
  return argc % 2 == 1 && (ntohl(out.address.sin_addr.s_addr) >> 24) == 127 &&
         out.connections > 0 && out.sources >= 0 && out.sources <= 250 && out.seconds > 0 &&
         out.seconds <= 600 && out.path.size() < 100 && out.name.size() < 100;
}

}  // namespace

int main(int argc, char** argv) {
  static Options options;
  if (!parse(argc, argv, options)) {
    std::fputs("usage: see the head of bench/tls_load.cc\n", stderr);
    return 2;
  }
  ::signal(SIGPIPE, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  static Load load(options);
  return load.run() ? 0 : 1;
}

// Whether a file can be a certificate or a key at all. What only the library can tell (does the key
// belong to the certificate?) is not asked here.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "corehttpd/tls/settings.h"
#include "tls/small_file.h"

namespace corehttpd::tls {
namespace {

// A chain of certificates is a few kilobytes; what is larger is some other file.
constexpr std::size_t kFileBytesMax = 1024 * 1024;

std::string describe_errno(const char* call) {
  const int error = errno;
  return fmt::format("{} failed ({}: {})", call, error, std::strerror(error));
}

constexpr bool is_base64(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
         c == '/';
}

// "BEGIN " or "END " and its label at the front of text; nothing if there is no such line.
std::string_view take_label(std::string_view text, std::string_view word) {
  if (!text.starts_with(word)) return {};
  text.remove_prefix(word.size());
  const std::size_t end = text.find("-----");
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end);
}

bool is_kind(std::string_view label, PemKind kind) {
  if (kind == PemKind::kPrivateKey) return label.ends_with("PRIVATE KEY");
  return label == "CERTIFICATE" || label == "X509 CERTIFICATE" || label == "TRUSTED CERTIFICATE";
}

// Of the lines between BEGIN and END. Old keys have fields ("Proc-Type: …") and an empty line
// first.
bool is_sound_body(std::string_view body) {
  const bool has_fields = body.find(':') != std::string_view::npos;
  if (has_fields) {
    const std::size_t blank = std::min(body.find("\n\n"), body.find("\n\r\n"));
    if (blank == std::string_view::npos) return false;
    body.remove_prefix(blank);
  }
  std::size_t digits = 0;
  std::size_t padding = 0;
  char first = '\0';
  for (char c : body) {
    if (c == '\n' || c == '\r' || c == ' ' || c == '\t') continue;
    if (c == '=') {
      ++padding;
      continue;
    }
    if (!is_base64(c) || padding > 0) return false;
    if (digits++ == 0) first = c;
  }
  if (digits < 4 || (digits + padding) % 4 != 0 || padding > 2) return false;
  // With fields it is encrypted and may be any bytes; all else is a DER sequence, whose first byte,
  // 0x30, makes the first digit an 'M'.
  return has_fields || first == 'M';
}

}  // namespace

std::string check_pem(std::string_view text, PemKind kind) {
  constexpr std::string_view kBegin = "-----BEGIN ";
  bool found = false;
  for (std::size_t at = text.find(kBegin); at != std::string_view::npos;
       at = text.find(kBegin, at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    const std::string_view label = take_label(text.substr(at), kBegin);
    if (!is_kind(label, kind)) continue;
    const std::size_t body = at + kBegin.size() + label.size() + 5;
    const std::string end = fmt::format("-----END {}-----", label);
    const std::size_t stop = text.find(end, body);
    if (stop == std::string_view::npos) return fmt::format("its {} has no end", label);
    if (!is_sound_body(text.substr(body, stop - body))) {
      return fmt::format("its {} is damaged", label);
    }
    found = true;
  }
  if (found) return {};
  return kind == PemKind::kPrivateKey ? "it holds no private key in PEM"
                                      : "it holds no certificate in PEM";
}

namespace {

// What comes until the last writer has gone; there may be none yet.
std::string read_fifo(int fd, std::string& text) {
  timespec begin{};
  ::clock_gettime(CLOCK_MONOTONIC, &begin);
  text.reserve(kFileBytesMax);
  for (;;) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const auto passed = static_cast<int>((now.tv_sec - begin.tv_sec) * 1000 +
                                         (now.tv_nsec - begin.tv_nsec) / 1'000'000);
    pollfd polled{fd, POLLIN, 0};
    if (passed >= kFifoPatienceMs) return "nobody has written to it";
    if (::poll(&polled, 1, kFifoPatienceMs - passed) <= 0) continue;
    char buffer[512];
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return describe_errno("read()");
    if (got == 0) return {};
    if (text.size() + static_cast<std::size_t>(got) > kFileBytesMax) return "it is too large";
    text.append(buffer, static_cast<std::size_t>(got));
    ::explicit_bzero(buffer, sizeof(buffer));
  }
}

std::string read_regular(int fd, std::size_t bytes, std::string& text) {
  // At once: a string that grows leaves copies of the key behind.
  text.reserve(bytes + 1);
  char buffer[4096];
  std::string reason;
  while (text.size() <= kFileBytesMax) {
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) reason = describe_errno("read()");
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  // Keys do not stay in freed memory.
  ::explicit_bzero(buffer, sizeof(buffer));
  return reason;
}

}  // namespace

std::string read_small_file(std::string_view path, std::string& text, bool fifo) {
  const std::string name(path);
  const int fd = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return describe_errno("open()");
  text.clear();
  std::string reason;
  struct stat about {};
  if (::fstat(fd, &about) != 0) {
    reason = describe_errno("fstat()");
  } else if (fifo && S_ISFIFO(about.st_mode)) {
    reason = read_fifo(fd, text);
  } else if (!S_ISREG(about.st_mode)) {
    reason = "it is not a regular file";
  } else if (static_cast<std::size_t>(about.st_size) > kFileBytesMax) {
    reason = "it is too large";
  } else {
    reason = read_regular(fd, static_cast<std::size_t>(about.st_size), text);
  }
  ::close(fd);
  return reason;
}

void forget_text(std::string& text) {
  ::explicit_bzero(text.data(), text.capacity());
  text.clear();
}

std::string check_pem_file(std::string_view path, PemKind kind) {
  std::string text;
  std::string reason = read_small_file(path, text);
  if (reason.empty()) reason = check_pem(text, kind);
  forget_text(text);
  return reason;
}

}  // namespace corehttpd::tls

// Whether a file can be a certificate or a key at all. What only the library can tell (does the key
// belong to the certificate?) is not asked here.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

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

std::string read_small_file(std::string_view path, std::string& text) {
  const std::string name(path);
  const int fd = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return describe_errno("open()");
  std::string reason;
  struct stat about {};
  if (::fstat(fd, &about) != 0) {
    reason = describe_errno("fstat()");
  } else if (!S_ISREG(about.st_mode)) {
    reason = "it is not a regular file";
  } else if (static_cast<std::size_t>(about.st_size) > kFileBytesMax) {
    reason = "it is too large";
  }
  // At once: a string that grows leaves copies of the key behind.
  text.clear();
  text.reserve(static_cast<std::size_t>(std::max<off_t>(about.st_size, 0)) + 1);
  char buffer[16 * 1024];
  while (reason.empty() && text.size() < text.capacity()) {
    const ssize_t got = ::read(fd, buffer, std::min(sizeof(buffer), text.capacity() - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) reason = describe_errno("read()");
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(fd);
  // Keys do not stay in freed memory.
  ::explicit_bzero(buffer, sizeof(buffer));
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

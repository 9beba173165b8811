#include "corehttpd/base/log.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <ctime>

#include "corehttpd/base/clock.h"

namespace corehttpd {
namespace {

constinit const LogTarget kStderrTarget{.fd = 2, .level = LogLevel::kNotice};
constinit const LogTarget* g_process_log = &kStderrTarget;

// Control characters would let a client forge lines or drive a terminal: they are written as \xNN.
void append_printable(std::string& line, std::string_view text) {
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      fmt::format_to(std::back_inserter(line), "\\x{:02X}", static_cast<unsigned char>(c));
    } else {
      line.push_back(c);
    }
  }
}

}  // namespace

std::string_view to_string(LogLevel level) {
  constexpr std::string_view kNames[] = {"stderr", "emerg",  "alert", "crit", "error",
                                         "warn",   "notice", "info",  "debug"};
  return kNames[static_cast<std::size_t>(level)];
}

void set_process_log(const LogTarget* target) {
  g_process_log = target == nullptr ? &kStderrTarget : target;
}
const LogTarget* process_log() { return g_process_log; }

bool log_enabled(const LogTarget* target, LogLevel level) {
  for (const LogTarget* t = target == nullptr ? g_process_log : target; t != nullptr; t = t->next) {
    if (level <= t->level) return true;
  }
  return false;
}

void log_line(const LogTarget* target, LogLevel level, const LogContext* context, int errno_value,
              fmt::string_view format, fmt::format_args arguments) {
  Clock clock;
  std::string line;
  line.reserve(256);
  const auto pid = ::getpid();
  fmt::format_to(std::back_inserter(line), "{} [{}] {}#{}: ", clock.error_log_date(),
                 to_string(level), pid, pid);
  if (context != nullptr && context->connection_number() != 0) {
    fmt::format_to(std::back_inserter(line), "*{} ", context->connection_number());
  }
  append_printable(line, fmt::vformat(format, arguments));
  if (errno_value != 0) {
    char text[128];
    fmt::format_to(std::back_inserter(line), " ({}: {})", errno_value,
                   ::strerror_r(errno_value, text, sizeof(text)));
  }
  if (context != nullptr) {
    std::string tail;
    context->append_to(tail);
    append_printable(line, tail);
  }
  constexpr std::size_t kLineMax =
      4096;  // One write(2) of a line must stay whole among those of other processes.
  if (line.size() > kLineMax - 1) line.resize(kLineMax - 1);
  line.push_back('\n');
  for (const LogTarget* t = target == nullptr ? g_process_log : target; t != nullptr; t = t->next) {
    if (level <= t->level && t->fd >= 0) {
      [[maybe_unused]] auto written = ::write(t->fd, line.data(), line.size());
    }
  }
}

}  // namespace corehttpd

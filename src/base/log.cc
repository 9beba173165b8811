#include "corehttpd/base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/log_folding.h"
#include "corehttpd/base/clock.h"
#include "corehttpd/base/json.h"

namespace corehttpd {

constinit LogOptions detail::log_options;

namespace {

constinit const LogTarget kStderrTarget{.fd = 2, .level = LogLevel::kNotice};
constinit const LogTarget* g_process_log = &kStderrTarget;

// One write(2) of a line must stay whole among those of other processes.
constexpr std::size_t kLineMax = 4096;

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

struct Field {
  std::string_view name;
  std::string value;
  bool quoted;
};

class FieldList final : public LogFields {
 public:
  void add(std::string_view name, std::string_view value, bool quoted) override {
    fields_.push_back({name, std::string(value), quoted});
  }
  std::string_view client() const {
    for (const Field& field : fields_) {
      if (field.name == "client") return field.value;
    }
    return {};
  }
  const std::vector<Field>& all() const { return fields_; }

 private:
  std::vector<Field> fields_;
};

struct Line {
  LogLevel level;
  std::string_view message;
  int errno_value = 0;
  std::uint64_t connection = 0;
  const FieldList& fields;
};

std::string nginx_line(const Line& parts, const Clock& clock) {
  std::string line;
  line.reserve(256);
  const auto pid = ::getpid();
  fmt::format_to(std::back_inserter(line), "{} [{}] {}#{}: ", clock.error_log_date(),
                 to_string(parts.level), pid, pid);
  if (parts.connection != 0) fmt::format_to(std::back_inserter(line), "*{} ", parts.connection);
  append_printable(line, parts.message);
  for (const Field& field : parts.fields.all()) {
    line.append(", ").append(field.name).append(field.quoted ? ": \"" : ": ");
    append_printable(line, field.value);
    if (field.quoted) line.push_back('"');
  }
  if (line.size() > kLineMax - 1) line.resize(kLineMax - 1);
  return line;
}

// Values are cut where the line would become too long; it stays an object.
void append_member(std::string& line, std::string_view name, std::string_view value) {
  constexpr std::size_t kEnd = 3;  // "}\n and the quote.
  const std::size_t fixed = line.size() + name.size() + 5 + kEnd;
  if (fixed >= kLineMax) return;
  line.append(",\"").append(name).append("\":\"");
  append_json(line, value, kLineMax - fixed);
  line.push_back('"');
}

std::string json_line(const Line& parts, const Clock& clock) {
  std::string line;
  line.reserve(512);
  fmt::format_to(std::back_inserter(line), "{{\"time\":\"{}\",\"level\":\"{}\",\"pid\":{}",
                 clock.iso_date(), to_string(parts.level), ::getpid());
  if (parts.connection != 0)
    fmt::format_to(std::back_inserter(line), ",\"connection\":{}", parts.connection);
  if (parts.errno_value != 0)
    fmt::format_to(std::back_inserter(line), ",\"errno\":{}", parts.errno_value);
  append_member(line, "message", parts.message);
  for (const Field& field : parts.fields.all()) append_member(line, field.name, field.value);
  line.push_back('}');
  return line;
}

std::string compose(const Line& parts, const Clock& clock) {
  std::string line = log_options().format == LogOptions::Format::kJson ? json_line(parts, clock)
                                                                       : nginx_line(parts, clock);
  line.push_back('\n');
  return line;
}

// A full disk loses lines; the first one that passes again says how many.
void write_to(const LogTarget& target, const std::string& line, const Clock& clock) {
  ssize_t written = 0;
  do {
    written = ::write(target.fd, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) {
    ++target.lost;
  } else if (target.lost != 0) {
    const std::string message =
        fmt::format("{} lines of this log were lost while it could not be written",
                    std::exchange(target.lost, 0));
    const std::string told = compose({LogLevel::kWarn, message, 0, 0, FieldList()}, clock);
    if (::write(target.fd, told.data(), told.size()) < 0) ++target.lost;
  }
}

void write_line(const LogTarget* target, const Line& parts, const Clock& clock, bool debugged) {
  const std::string line = compose(parts, clock);
  for (const LogTarget* t = target == nullptr ? g_process_log : target; t != nullptr; t = t->next) {
    if (parts.level > t->level && !debugged) continue;
    if (t->sink != nullptr) {
      t->sink->write(parts.level, std::string_view(line).substr(0, line.size() - 1));
    } else if (t->fd >= 0) {
      write_to(*t, line, clock);
    }
  }
}

// rsyslog's words for it, which tools know. Of the context only the client is the same in all
// lines.
void write_folded(const LogFolding::Folded& folded) {
  FieldList fields;
  if (!folded.client.empty()) fields.add("client", folded.client, false);
  const std::string message =
      fmt::format("message repeated {} times: [ {} ]", folded.count, folded.message);
  write_line(folded.target, {folded.level, message, 0, 0, fields}, Clock(), false);
}

LogFolding& folding() {
  // Never destroyed: what logs while the process ends still finds it.
  static auto* const kFolding = new LogFolding(write_folded);
  return *kFolding;
}

}  // namespace

std::string_view to_string(LogLevel level) {
  constexpr std::string_view kNames[] = {"stderr", "emerg",  "alert", "crit", "error",
                                         "warn",   "notice", "info",  "debug"};
  return kNames[static_cast<std::size_t>(level)];
}

void set_log_options(const LogOptions& options) { detail::log_options = options; }

void set_process_log(const LogTarget* target) {
  flush_folded_log(true);
  g_process_log = target == nullptr ? &kStderrTarget : target;
}
const LogTarget* process_log() { return g_process_log; }

bool detail::log_wanted(const LogTarget* target, LogLevel level) {
  for (const LogTarget* t = target == nullptr ? g_process_log : target; t != nullptr; t = t->next) {
    if (level <= t->level) return true;
  }
  return false;
}

void log_line(const LogTarget* target, LogLevel level, const LogContext* context, int errno_value,
              fmt::string_view format, fmt::format_args arguments) {
  const Clock clock;
  std::string message = fmt::vformat(format, arguments);
  if (errno_value != 0) {
    char text[128];
    fmt::format_to(std::back_inserter(message), " ({}: {})", errno_value,
                   ::strerror_r(errno_value, text, sizeof(text)));
  }
  FieldList fields;
  if (context != nullptr) context->describe(fields);
  const bool debugged = context != nullptr && context->debugged();
  if (!debugged && !folding().admit(target, level, message, fields.client(), clock.now_ms()))
    return;
  const std::uint64_t connection = context == nullptr ? 0 : context->connection_number();
  write_line(target, {level, message, errno_value, connection, fields}, clock, debugged);
}

bool log_is_folding() { return folding().pending(); }

void flush_folded_log(bool all) {
  if (folding().pending()) folding().flush(all, Clock().now_ms());
}

void forget_folded_log() { folding().forget(); }

}  // namespace corehttpd

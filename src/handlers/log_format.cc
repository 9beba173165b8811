// log_format, and how a line is made.
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "corehttpd/base/json.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/http/exchange.h"
#include "handlers/log_settings.h"

namespace corehttpd::handlers {
namespace {

using conf::Setting;

constexpr std::string_view kCombined =
    "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent "
    "\"$http_referer\" "
    "\"$http_user_agent\"";

// The formats of a configuration, by name.
struct LogFormats {
  std::vector<LogFormat*> formats;
  LogFormat* find(std::string_view name) const {
    for (LogFormat* format : formats) {
      if (format->name == name) return format;
    }
    return nullptr;
  }
};

constexpr auto kPlain = [] {
  std::array<bool, 256> table{};
  for (std::size_t c = 0x20; c < 0x7f; ++c) table[c] = c != '"' && c != '\\';
  return table;
}();

// Whether eight bytes need no escape. A byte's high bit is set in one of the terms if it is above
// 0x7e, below 0x20, a quote or a backslash; a borrow can only accuse a byte above a guilty one.
bool eight_plain(const char* at) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, at, sizeof(bytes));
  const std::uint64_t quotes = (bytes ^ kOnes * '"') - kOnes;
  const std::uint64_t backslashes = (bytes ^ kOnes * '\\') - kOnes;
  return ((bytes | (bytes + kOnes) | (bytes - kOnes * 0x20) | quotes | backslashes) &
          kOnes * 0x80) == 0;
}

// How many bytes at the beginning need no escape.
std::size_t plain_length(std::string_view value) {
  std::size_t length = 0;
  while (value.size() - length >= 8 && eight_plain(value.data() + length)) length += 8;
  while (length < value.size() && kPlain[static_cast<unsigned char>(value[length])]) ++length;
  return length;
}

// Most values need no escape: they are looked through once and appended whole.
void append_default(std::string& out, std::string_view value) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  for (;;) {
    const std::size_t length = plain_length(value);
    out.append(value.data(), length);
    if (length == value.size()) return;
    const auto byte = static_cast<unsigned char>(value[length]);
    const char escaped[] = {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    out.append(escaped, sizeof(escaped));
    value.remove_prefix(length + 1);
  }
}

}  // namespace

const LogFormat* find_log_format(const Setting& s, std::string_view name) {
  LogFormats& known = s.compiler.object_or_make<LogFormats>();
  if (LogFormat* format = known.find(name)) return format;
  if (name != "combined") return nullptr;
  LogFormat* format = s.arena().make<LogFormat>();
  format->name = "combined";
  if (!expr::compile_program(s, Setting::kWholeDirective, kCombined, format->program))
    return nullptr;
  known.formats.push_back(format);
  return format;
}

bool set_log_format(const Setting& s) {
  LogFormats& known = s.compiler.object_or_make<LogFormats>();
  const std::string_view name = s.word(0);
  if (name == "combined" || known.find(name) != nullptr)
    return s.fail(0, "duplicate \"log_format\" name \"{}\"", name);
  LogFormat* format = s.arena().make<LogFormat>();
  format->name = name;
  std::size_t first = 1;
  if (s.word(1).starts_with("escape=")) {
    const std::string_view how = s.word(1).substr(7);
    if (how == "json") {
      format->escape = LogEscape::kJson;
    } else if (how == "none") {
      format->escape = LogEscape::kNone;
    } else if (how != "default") {
      return s.fail(1, "unknown log format escaping \"{}\"", how);
    }
    first = 2;
  }
  std::string text;
  for (std::size_t i = first; i < s.words().size(); ++i) text.append(s.word(i));
  if (text.empty()) return s.fail(Setting::kWholeDirective, "log format \"{}\" is empty", name);
  if (!expr::compile_program(s, first, s.arena().copy(text), format->program)) return false;
  known.formats.push_back(format);
  return true;
}

void format_log_line(const LogFormat& format, http::Exchange& exchange, std::string& out) {
  for (const expr::Part& part : format.program.parts()) {
    if (part.kind == expr::Part::Kind::kLiteral) {
      out.append(part.text);
      continue;
    }
    const expr::Value value = expr::evaluate_part(part, exchange);
    switch (format.escape) {
      case LogEscape::kDefault:
        value && !value->empty() ? append_default(out, *value) : void(out.push_back('-'));
        break;
      case LogEscape::kJson:
        append_json(out, value.value_or(""));
        break;
      case LogEscape::kNone:
        out.append(value.value_or(""));
        break;
    }
  }
}

}  // namespace corehttpd::handlers

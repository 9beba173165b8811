// log_format and access_log as directives, and how a line is made of them.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/handlers/access_log.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/route/tree.h"

namespace corehttpd::handlers {
namespace {

using conf::Context;
using conf::Directive;
using conf::Setting;

constexpr std::string_view kCombined =
    "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent "
    "\"$http_referer\" "
    "\"$http_user_agent\"";
constexpr std::string_view kDefaultPath = "/var/log/corehttpd/access.log";

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

const LogFormat* combined(const Setting& s) {
  LogFormats& known = s.compiler.object_or_make<LogFormats>();
  if (LogFormat* format = known.find("combined")) return format;
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

// buffer=size, flush=time, gzip[=level], if=condition.
bool read_option(const Setting& s, std::size_t i, AccessLogTarget& target) {
  const std::string_view word = s.word(i);
  if (word.starts_with("buffer=")) {
    const auto size = conf::parse_size(word.substr(7));
    if (!size || *size == 0) return s.fail(i, "invalid buffer size \"{}\"", word);
    target.buffer_bytes = *size;
    return true;
  }
  if (word.starts_with("flush=")) {
    const auto time = conf::parse_time_ms(word.substr(6));
    if (!time || *time == 0) return s.fail(i, "invalid flush time \"{}\"", word);
    target.flush = *time;
    return true;
  }
  if (word == "gzip" || word.starts_with("gzip=")) {
    s.warn(i, "compressed access logs are not supported yet, \"{}\" is written as plain text",
           s.word(0));
    if (target.buffer_bytes == 0) target.buffer_bytes = 64 * 1024;
    return true;
  }
  if (word.starts_with("if=")) {
    target.conditional = true;
    return expr::compile_program(s, i, word.substr(3), target.condition);
  }
  return s.fail(i, "invalid parameter \"{}\"", word);
}

bool set_access_log(const Setting& s) {
  auto& settings = *static_cast<AccessLogSettings*>(s.settings);
  if (s.first_here) settings.first = nullptr;
  if (s.word(0) == "off") {
    if (s.words().size() > 1) return s.fail(1, "invalid parameter \"{}\"", s.word(1));
    settings.first = nullptr;
    return true;
  }
  AccessLogTarget* target = s.arena().make<AccessLogTarget>();
  if (!conf::read_path(s, 0, target->path)) return false;
  std::size_t options = 1;
  if (s.words().size() > 1 && s.word(1).find('=') == std::string_view::npos &&
      s.word(1) != "gzip") {
    target->format = s.word(1) == "combined"
                         ? combined(s)
                         : s.compiler.object_or_make<LogFormats>().find(s.word(1));
    if (target->format == nullptr) {
      return s.fail_text(1, fmt::format("unknown log format \"{}\"", s.word(1)),
                         "formats are \"combined\" and those that log_format defines before this "
                         "place");
    }
    options = 2;
  } else {
    target->format = combined(s);
    if (target->format == nullptr) return false;
  }
  for (std::size_t i = options; i < s.words().size(); ++i) {
    if (!read_option(s, i, *target)) return false;
  }
  if (target->flush > 0 && target->buffer_bytes == 0) {
    return s.fail(0, "no buffer is defined for access_log \"{}\"", s.word(0));
  }
  if (s.word(0).starts_with("syslog:") || s.word(0).find('$') != std::string_view::npos) {
    s.warn(0, "logging to \"{}\" is not supported yet, nothing is written there", s.word(0));
    return true;
  }
  // The default is opened only if a server really uses it: see finish().
  if (s.scope.context != Context::kMain) {
    target->file = &s.compiler.object_or_make<http::LogFiles>().add(s.arena(), target->path);
  }
  AccessLogTarget** tail = &settings.first;
  while (*tail != nullptr) tail = &(*tail)->next;
  *tail = target;
  return true;
}

constexpr Directive kDirectives[] = {
    {.name = "access_log",
     .contexts = conf::kHttpServerLocation | Context::kIfLocation | Context::kLimitExcept,
     .arity = conf::at_least(1),
     .syntax = "path [format [buffer=size] [flush=time] [if=condition]] | off",
     .set = set_access_log,
     .default_value = "/var/log/corehttpd/access.log combined",
     .inherit = conf::Inherit::kList,
     .doc = "Where requests are logged. May be given several times."},
    {.name = "log_format",
     .contexts = Context::kHttp,
     .arity = conf::at_least(2),
     .syntax = "name [escape=default|json|none] string ...",
     .set = set_log_format,
     .inherit = conf::Inherit::kNone,
     .doc = "Names a format of access log lines; combined is built in."},
};
static_assert(conf::well_formed(kDirectives));

void finish(conf::Compiler& compiler) {
  const route::Tree* tree = compiler.object<route::Tree>();
  if (tree == nullptr) return;
  for (const http::Site* site : tree->sites()) {
    for (AccessLogTarget* target = site->settings.get<AccessLogSettings>().first; target != nullptr;
         target = target->next) {
      if (target->file == nullptr) {
        target->file =
            &compiler.object_or_make<http::LogFiles>().add(compiler.arena(), kDefaultPath);
      }
    }
  }
}

void append_hex(std::string& out, const char* prefix, unsigned char c, const char* digits) {
  out.append(prefix);
  out.push_back(digits[c >> 4]);
  out.push_back(digits[c & 15]);
}

void append_default(std::string& out, std::string_view value) {
  for (char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '"' || c == '\\') {
      append_hex(out, "\\x", byte, "0123456789ABCDEF");
    } else {
      out.push_back(c);
    }
  }
}

// Length of the well-formed UTF-8 sequence at the start of text; 0 if it is none (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return tail(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if (!tail(1) || !tail(2)) return 0;
    if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f)) return 0;
    return 3;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f)) return 0;
    return 4;
  }
  return 0;
}

// Always valid JSON: a byte that is no UTF-8 becomes U+FFFD.
void append_json(std::string& out, std::string_view value) {
  while (!value.empty()) {
    const char c = value.front();
    std::size_t length = 1;
    switch (c) {
      case '"':
        out.append("\\\"");
        break;
      case '\\':
        out.append("\\\\");
        break;
      case '\n':
        out.append("\\n");
        break;
      case '\r':
        out.append("\\r");
        break;
      case '\t':
        out.append("\\t");
        break;
      case '\b':
        out.append("\\b");
        break;
      case '\f':
        out.append("\\f");
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          append_hex(out, "\\u00", static_cast<unsigned char>(c), "0123456789ABCDEF");
          break;
        }
        length = utf8_length(value);
        if (length == 0) {
          out.append("\xef\xbf\xbd");
          length = 1;
        } else {
          out.append(value.substr(0, length));
        }
    }
    value.remove_prefix(length);
  }
}

}  // namespace

const conf::Module& access_log_module() {
  static constexpr conf::Module kModule =
      conf::module<AccessLogSettings>("access_log", kDirectives, finish);
  return kModule;
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
  out.push_back('\n');
}

}  // namespace corehttpd::handlers

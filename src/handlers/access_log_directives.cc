// access_log and open_log_file_cache as directives (nginx: ngx_http_log_module).
#include <fmt/format.h>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/route/tree.h"
#include "handlers/log_settings.h"

namespace corehttpd::handlers {
namespace {

using conf::Context;
using conf::Directive;
using conf::Setting;

constexpr std::string_view kDefaultPath = "/var/log/corehttpd/access.log";
constexpr std::uint64_t kGzipBuffer = 64 * 1024;

bool read_gzip(const Setting& s, std::size_t i, LogWriterOptions& options) {
  const std::string_view word = s.word(i);
  options.gzip_level = 1;
  if (options.buffer_bytes == 0) options.buffer_bytes = kGzipBuffer;
  if (word == "gzip") return true;
  const auto level = conf::parse_number(word.substr(5));
  if (!level || *level < 1 || *level > 9)
    return s.fail(i, "invalid compression level \"{}\"", word);
  options.gzip_level = static_cast<int>(*level);
  return true;
}

// buffer=size, flush=time, gzip[=level], if=condition.
bool read_option(const Setting& s, std::size_t i, AccessLogTarget& target,
                 LogWriterOptions& options) {
  const std::string_view word = s.word(i);
  if (word.starts_with("buffer=")) {
    const auto size = conf::parse_size(word.substr(7));
    if (!size || *size == 0 || *size > LogWriter::kBufferBytesMax)
      return s.fail(i, "invalid buffer size \"{}\"", word);
    options.buffer_bytes = *size;
    return true;
  }
  if (word.starts_with("flush=")) {
    const auto time = conf::parse_time_ms(word.substr(6));
    if (!time || *time == 0) return s.fail(i, "invalid flush time \"{}\"", word);
    options.flush = *time;
    return true;
  }
  if (word == "gzip" || word.starts_with("gzip=")) return read_gzip(s, i, options);
  if (word.starts_with("if=")) {
    target.conditional = true;
    return expr::compile_program(s, i, word.substr(3), target.condition);
  }
  return s.fail(i, "invalid parameter \"{}\"", word);
}

// The format's name may be left out before options.
bool read_words(const Setting& s, AccessLogTarget& target, LogWriterOptions& options) {
  std::size_t next = 1;
  std::string_view format = "combined";
  if (s.words().size() > 1 && s.word(1).find('=') == std::string_view::npos && s.word(1) != "gzip")
    format = s.word(next++);
  target.format = find_log_format(s, format);
  if (target.format == nullptr) {
    if (format == "combined") return false;
    return s.fail_text(1, fmt::format("unknown log format \"{}\"", format),
                       "formats are \"combined\" and those that log_format defines before this "
                       "place");
  }
  for (std::size_t i = next; i < s.words().size(); ++i) {
    if (!read_option(s, i, target, options)) return false;
  }
  return options.flush == 0 || options.buffer_bytes != 0 ||
         s.fail(0, "no buffer is defined for access_log \"{}\"", s.word(0));
}

// What stands before the first variable: beneath that folder workers may write, and nowhere else.
void add_worker_directory(const Setting& s, http::LogFiles& files, std::string_view prefix) {
  std::string_view fixed = s.word(0).substr(0, s.word(0).find('$'));
  if (!fixed.empty() && !fixed.starts_with('/')) fixed = s.arena().concat(prefix, fixed);
  fixed = fixed.substr(0, fixed.rfind('/') + 1);
  if (fixed.size() <= 1)
    s.warn(0, "no folder stands before the variable: workers are allowed to write anywhere");
  files.add_worker_directory(s.arena().copy(fixed.empty() ? "/" : fixed));
}

bool set_destination(const Setting& s, AccessLogTarget& target, const LogWriterOptions& options) {
  auto& files = s.compiler.object_or_make<http::LogFiles>();
  auto& access_files = s.compiler.object_or_make<AccessFiles>();
  target.path = s.word(0);
  if (target.path.starts_with("syslog:")) {
    if (options.buffer_bytes != 0) return s.fail(0, "logs to syslog cannot be buffered");
    target.syslog = files.add_syslog(s, 0);
    return target.syslog != nullptr;
  }
  if (expr::has_variables(target.path)) {
    if (options.buffer_bytes != 0) return s.fail(0, "buffered logs cannot have variables in name");
    LogPath* path = s.arena().make<LogPath>();
    path->prefix = s.arena().copy(s.compiler.options().prefix);
    path->index = access_files.variable_paths++;
    add_worker_directory(s, files, path->prefix);
    target.variable_path = path;
    return expr::read_program(s, 0, path->program);
  }
  if (!conf::read_path(s, 0, target.path)) return false;
  // The default is opened only if a server really uses it: see finish().
  if (s.scope.context == Context::kMain) return true;
  target.file = &files.add(s.arena(), target.path);
  return access_files.set(*target.file, options) ||
         s.fail(0, "access_log \"{}\" already defined with conflicting parameters", s.word(0));
}

bool set_access_log(const Setting& s) {
  auto& settings = *static_cast<AccessLogSettings*>(s.settings);
  if (s.first_here) {
    settings.first = nullptr;
    settings.off = false;
  }
  if (s.word(0) == "off") {
    if (s.words().size() > 1) return s.fail(1, "invalid parameter \"{}\"", s.word(1));
    settings.first = nullptr;
    settings.off = true;
    return true;
  }
  AccessLogTarget* target = s.arena().make<AccessLogTarget>();
  LogWriterOptions options;
  if (!read_words(s, *target, options) || !set_destination(s, *target, options)) return false;
  if (settings.off) return true;
  AccessLogTarget** tail = &settings.first;
  while (*tail != nullptr) tail = &(*tail)->next;
  *tail = target;
  return true;
}

bool read_cache_word(const Setting& s, std::size_t i, LogCachePolicy& policy) {
  const std::string_view word = s.word(i);
  const auto number = [&](std::string_view name, std::uint64_t& out) {
    const auto value = conf::parse_number(word.substr(name.size()));
    if (!value || *value == 0 || *value > INT32_MAX) return false;
    out = *value;
    return true;
  };
  const auto time = [&](std::string_view name, Milliseconds& out) {
    const auto value = conf::parse_time_ms(word.substr(name.size()));
    if (value) out = *value;
    return value.has_value();
  };
  const bool right = word.starts_with("max=")        ? number("max=", policy.entries_max)
                     : word.starts_with("min_uses=") ? number("min_uses=", policy.uses_min)
                     : word.starts_with("inactive=") ? time("inactive=", policy.inactive_ms)
                     : word.starts_with("valid=")    ? time("valid=", policy.valid_ms)
                                                     : false;
  return right || s.fail(i, "invalid \"open_log_file_cache\" parameter \"{}\"", word);
}

bool set_open_log_file_cache(const Setting& s) {
  auto& policy = static_cast<AccessLogSettings*>(s.settings)->cache;
  policy = LogCachePolicy();
  if (s.words().size() == 1 && s.word(0) == "off") return true;
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    if (!read_cache_word(s, i, policy)) return false;
  }
  if (policy.entries_max == 0) {
    return s.fail(Setting::kWholeDirective, "\"open_log_file_cache\" must have \"max\" parameter");
  }
  policy.enabled = true;
  return true;
}

constexpr Directive kDirectives[] = {
    {.name = "access_log",
     .contexts = conf::kHttpServerLocation | Context::kIfLocation | Context::kLimitExcept,
     .arity = conf::at_least(1),
     .syntax = "path [format [buffer=size] [gzip[=level]] [flush=time] [if=condition]] | "
               "syslog:server=address[,parameter=value] [format [if=condition]] | off",
     .set = set_access_log,
     .default_value = "/var/log/corehttpd/access.log combined",
     .inherit = conf::Inherit::kList,
     .doc = "Where requests are logged. May be given several times. A path may contain variables: "
            "the worker then opens the file, and it must have the right to."},
    {.name = "log_format",
     .contexts = Context::kHttp,
     .arity = conf::at_least(2),
     .syntax = "name [escape=default|json|none] string ...",
     .set = set_log_format,
     .inherit = conf::Inherit::kNone,
     .doc = "Names a format of access log lines; combined is built in. With escape=json lines are "
            "valid JSON whatever is asked: bytes that are no UTF-8 become U+FFFD."},
    {.name = "open_log_file_cache",
     .contexts = conf::kHttpServerLocation,
     .arity = conf::between(1, 4),
     .syntax = "max=N [inactive=time] [min_uses=N] [valid=time] | off",
     .set = set_open_log_file_cache,
     .default_value = "off",
     .doc = "Keeps access logs open whose paths contain variables. Off: such a file is opened for "
            "the lines of one turn of the event loop and closed again."},
};
static_assert(conf::well_formed(kDirectives));

void finish(conf::Compiler& compiler) {
  const route::Tree* tree = compiler.object<route::Tree>();
  if (tree == nullptr) return;
  for (const http::Site* site : tree->sites()) {
    for (AccessLogTarget* target = site->settings.get<AccessLogSettings>().first; target != nullptr;
         target = target->next) {
      if (target->file == nullptr && target->syslog == nullptr &&
          target->variable_path == nullptr) {
        target->file =
            &compiler.object_or_make<http::LogFiles>().add(compiler.arena(), kDefaultPath);
      }
    }
  }
}

}  // namespace

const conf::Module& access_log_module() {
  static constexpr conf::Module kModule =
      conf::module<AccessLogSettings>("access_log", kDirectives, finish);
  return kModule;
}

}  // namespace corehttpd::handlers

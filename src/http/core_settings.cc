#include "corehttpd/http/core_settings.h"

#include <algorithm>
#include <array>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/http/log_files.h"
#include "corehttpd/http/temp_paths.h"

namespace corehttpd::http {
namespace {

using conf::Context;
using conf::Directive;
using conf::Inherit;
using conf::Kind;
using conf::Setting;
using conf::Stage;
using S = CoreSettings;

constexpr Context kHttpServer = Context::kHttp | Context::kServer;
constexpr Context kEverywhere = conf::kHttpServerLocation;
constexpr Context kEverywhereAndIf = kEverywhere | Context::kIfLocation;

constexpr conf::Choice<S::BodyInFile> kBodyInFile[] = {
    {"off", S::BodyInFile::kOff}, {"on", S::BodyInFile::kOn}, {"clean", S::BodyInFile::kClean}};
constexpr conf::Choice<S::Lingering> kLingering[] = {
    {"off", S::Lingering::kOff}, {"on", S::Lingering::kOn}, {"always", S::Lingering::kAlways}};
constexpr conf::Choice<S::Tokens> kTokens[] = {
    {"on", S::Tokens::kOn}, {"off", S::Tokens::kOff}, {"build", S::Tokens::kBuild}};
constexpr conf::Choice<S::IfModifiedSince> kIfModifiedSince[] = {
    {"off", S::IfModifiedSince::kOff},
    {"exact", S::IfModifiedSince::kExact},
    {"before", S::IfModifiedSince::kBefore}};

S& settings_of(const Setting& setting) { return *static_cast<S*>(setting.settings); }

// Smaller buffers could not hold what every browser sends; nginx draws the line at its connection
// pool's size.
constexpr std::uint64_t kHeaderBufferMin = 512;

bool set_client_header_buffer_size(const Setting& s) {
  std::uint64_t size = 0;
  if (!conf::read_size(s, 0, size)) return false;
  settings_of(s).client_header_buffer_size = std::max(size, kHeaderBufferMin);
  return true;
}

bool set_large_client_header_buffers(const Setting& s) {
  std::uint64_t number = 0;
  std::uint64_t size = 0;
  if (!conf::read_number(s, 0, 1, 1024, number) || !conf::read_size(s, 1, size)) return false;
  if (size < kHeaderBufferMin)
    return s.fail(1, "the \"large_client_header_buffers\" size must be at least {}",
                  kHeaderBufferMin);
  settings_of(s).large_header_buffers_number = static_cast<std::uint32_t>(number);
  settings_of(s).large_header_buffers_size = size;
  return true;
}

// As nginx, each line says all: several browsers, or none.
bool set_keepalive_disable(const Setting& s) {
  std::uint8_t browsers = 0;
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    if (s.word(i) == "msie6") {
      browsers |= S::kDisableMsie6;
    } else if (s.word(i) == "safari") {
      browsers |= S::kDisableSafari;
    } else if (s.word(i) != "none") {
      return conf::fail_choice(s, i, "none, msie6, safari");
    }
  }
  settings_of(s).keepalive_disable = browsers;
  return true;
}

bool set_keepalive_timeout(const Setting& s) {
  S& settings = settings_of(s);
  settings.keepalive_header_timeout = -1;
  if (!conf::read_time(s, 0, settings.keepalive_timeout)) return false;
  return s.words().size() < 2 || conf::read_time(s, 1, settings.keepalive_header_timeout);
}

// The levels of subdirectories are for files that keep a name (client_body_in_file_only).
bool set_client_body_temp_path(const Setting& s) {
  decltype(S::client_body_temp_levels) levels = {};
  for (std::size_t i = 1; i < s.words().size(); ++i) {
    std::uint64_t level = 0;
    if (!conf::read_number(s, i, 1, 3, level)) return false;
    levels[i - 1] = static_cast<std::uint8_t>(level);
  }
  settings_of(s).client_body_temp_levels = levels;
  if (!conf::read_path(s, 0, settings_of(s).client_body_temp_path)) return false;
  s.compiler.object_or_make<TempPaths>().add(settings_of(s).client_body_temp_path);
  return true;
}

bool set_internal(const Setting& s) {
  settings_of(s).internal = true;
  return true;
}

bool read_log_level(const Setting& s, std::size_t word, LogLevel& level) {
  for (int i = static_cast<int>(LogLevel::kEmerg); i <= static_cast<int>(LogLevel::kDebug); ++i) {
    if (s.word(word) == to_string(static_cast<LogLevel>(i))) {
      level = static_cast<LogLevel>(i);
      return true;
    }
  }
  return s.fail(word, "invalid log level \"{}\"", s.word(word));
}

bool set_error_log(const Setting& s) {
  S& settings = settings_of(s);
  const std::string_view name = s.word(0);
  LogLevel level = LogLevel::kError;
  if (s.words().size() > 1 && !read_log_level(s, 1, level)) return false;
  if (s.first_here) settings.error_log = nullptr;
  if (name.starts_with("memory:")) {
    s.compiler.diagnostics().add(
        conf::Severity::kNotice, s.node.name.at,
        "error_log to memory is for debuggers only and not kept here, the directive is ignored");
    return true;
  }
  if (name.empty()) return s.fail(0, "empty name of a log file");
  if (name == "off")
    s.warn(0,
           "\"error_log off\" logs to a file named \"off\"; \"error_log /dev/null crit\" is what "
           "silences it");
  auto& files = s.compiler.object_or_make<LogFiles>();
  auto* target = s.arena().make<LogTarget>();
  target->level = level;
  target->next = settings.error_log;
  if (name.starts_with("syslog:")) {
    target->sink = files.add_syslog(s, 0);
    if (target->sink == nullptr) return false;
    target->path = name;
    target->fd = -1;
  } else if (name != "stderr") {
    const LogFile& file = files.add(s.arena(), s.compiler.full_path(name));
    target->path = file.path;
    target->fd = -1;  // Until the master has opened it: nothing may land on a descriptor that is
                      // something else.
    files.bind(*target, file);
  }
  files.note_level(level);
  settings.error_log = target;
  return true;
}

bool set_error_log_format(const Setting& s) {
  LogOptions& options = s.compiler.object_or_make<LogFiles>().options();
  if (s.word(0) == "json") {
    options.format = LogOptions::Format::kJson;
  } else if (s.word(0) != "nginx") {
    return conf::fail_choice(s, 0, "nginx, json");
  }
  if (s.words().size() > 1 && s.word(1) != "request_id")
    return s.fail(1, "invalid parameter \"{}\"", s.word(1));
  options.request_id = s.words().size() > 1;
  return true;
}

consteval Directive flag_row(std::string_view name, Context contexts, conf::Setter set,
                             std::string_view standard, std::string_view doc) {
  return {name, contexts, Kind::kValue,       conf::exactly(1), "on | off",
          set,  standard, Inherit::kOverride, Stage::kWorks,    doc};
}
consteval Directive row(std::string_view name, Context contexts, std::string_view syntax,
                        conf::Setter set, std::string_view standard, std::string_view doc,
                        conf::Arity arity = conf::exactly(1)) {
  return {name, contexts, Kind::kValue,       arity,         syntax,
          set,  standard, Inherit::kOverride, Stage::kWorks, doc};
}

constexpr std::array kDirectives = {
    flag_row("absolute_redirect", kEverywhere, conf::set_flag<&S::absolute_redirect>, "on",
             "Redirects made by the server carry scheme and host; off: the path alone."),
    flag_row("chunked_transfer_encoding", kEverywhere,
             conf::set_flag<&S::chunked_transfer_encoding>, "on",
             "Chunked framing for HTTP/1.1 responses of unknown length; off: the connection's end "
             "marks theirs."),
    row("client_body_buffer_size", kEverywhere, "size", conf::set_size<&S::client_body_buffer_size>,
        "16k",
        "How much of a request body is kept in memory; what is larger goes to a temporary file."),
    row("client_body_in_file_only", kEverywhere, "on | clean | off",
        conf::set_choice<&S::client_body_in_file_only, kBodyInFile>, "off",
        "Saves every request body to a file ($request_body_file); on keeps it, clean removes it "
        "after the request."),
    flag_row("client_body_in_single_buffer", kEverywhere,
             conf::set_flag<&S::client_body_in_single_buffer>, "off",
             "Keeps a buffered request body in one piece of memory."),
    row("client_body_temp_path", kEverywhere, "path [level1 [level2 [level3]]]",
        set_client_body_temp_path, {},
        "Directory of temporary files for request bodies. Most have no name; those of "
        "client_body_in_file_only are numbered and lie below subdirectories named by the last "
        "digits of their numbers, as many as each level says.",
        conf::between(1, 4)),
    row("client_body_timeout", kEverywhere, "time", conf::set_time<&S::client_body_timeout>, "60s",
        "Longest pause between two reads of a request body; after it 408."),
    row("client_header_buffer_size", kHttpServer, "size", set_client_header_buffer_size, "1k",
        "Buffer in which a request head is read first; at least 512 bytes."),
    row("client_header_timeout", kHttpServer, "time", conf::set_time<&S::client_header_timeout>,
        "60s", "Time within which a whole request head must arrive; after it 408."),
    row("client_max_body_size", kEverywhere, "size", conf::set_size<&S::client_max_body_size>, "1m",
        "Largest request body; more is answered by 413. 0: no limit."),
    Directive{"error_log",
              Context::kMain | Context::kMail | Context::kStream | kEverywhere,
              Kind::kValue,
              conf::between(1, 2),
              "file | stderr | syslog:server=address[,facility=name][,severity=name][,tag=text]"
              "[,nohostname] [debug | info | notice | warn | error | crit | alert | emerg]",
              set_error_log,
              {},
              Inherit::kList,
              Stage::kWorks,
              "Where errors are logged, and from which level on. May be given several times."},
    Directive{"error_log_format",
              Context::kMain,
              Kind::kValue,
              conf::between(1, 2),
              "nginx | json [request_id]",
              set_error_log_format,
              {},
              Inherit::kOverride,
              Stage::kWorks,
              "Our own. Shape of the lines of all error logs: nginx's, or one JSON object a line. "
              "request_id adds the request's $request_id to lines about a request."},
    flag_row("etag", kEverywhere, conf::set_flag<&S::etag>, "on", "ETag for static files."),
    row("if_modified_since", kEverywhere, "off | exact | before",
        conf::set_choice<&S::if_modified_since, kIfModifiedSince>, "exact",
        "How If-Modified-Since is compared with the time of the response: ignored, equal, or not "
        "older."),
    flag_row("ignore_invalid_headers", kHttpServer, conf::set_flag<&S::ignore_invalid_headers>,
             "on", "Drops request fields with invalid names; off: passes them on."),
    row("internal", Context::kLocation, "", set_internal, {},
        "The location answers internal requests only (error_page, try_files, index, subrequests…); "
        "others get 404.",
        conf::exactly(0)),
    row("keepalive_disable", kEverywhere, "none | browser ...", set_keepalive_disable, "msie6",
        "Closes connections of browsers that are known to misbehave: msie6 after a POST of "
        "Internet "
        "Explorer 6 and older, safari those of Safari on macOS.",
        conf::at_least(1)),
    row("keepalive_min_timeout", kEverywhere, "time", conf::set_time<&S::keepalive_min_timeout>,
        "0",
        "How long an idle connection is kept at least while its worker ends, within "
        "keepalive_timeout; 10 seconds are kept in any case."),
    row("keepalive_requests", kEverywhere, "number", conf::set_number<&S::keepalive_requests>,
        "1000", "Requests served over one connection."),
    row("keepalive_time", kEverywhere, "time", conf::set_time<&S::keepalive_time>, "1h",
        "Time for which requests are taken over one connection; it is closed after the next one "
        "then."),
    row("keepalive_timeout", kEverywhere, "timeout [header_timeout]", set_keepalive_timeout, "75s",
        "How long an idle connection stays open; 0 turns keep-alive off. The second time is sent "
        "as \"Keep-Alive: timeout\".",
        conf::between(1, 2)),
    row("large_client_header_buffers", kHttpServer, "number size", set_large_client_header_buffers,
        "4 8k",
        "Number and size of further buffers for a request head: a longer request line is answered "
        "by 414, a longer field or head by 400, whose page says what was too large (error_page "
        "494). "
        "Over HTTP/2 clients are told the product of both, and a head above it is answered by 431.",
        conf::exactly(2)),
    row("lingering_close", kEverywhere, "off | on | always",
        conf::set_choice<&S::lingering_close, kLingering>, "on",
        "Whether more is read from a client before its connection is closed, so that it can read "
        "the answer."),
    row("lingering_time", kEverywhere, "time", conf::set_time<&S::lingering_time>, "30s",
        "Longest time of a lingering close."),
    row("lingering_timeout", kEverywhere, "time", conf::set_time<&S::lingering_timeout>, "5s",
        "Longest pause of a lingering close."),
    flag_row("log_not_found", kEverywhere, conf::set_flag<&S::log_not_found>, "on",
             "Errors of files not found go to the error log."),
    flag_row("log_subrequest", kEverywhere, conf::set_flag<&S::log_subrequest>, "off",
             "Subrequests appear in the access log."),
    row("max_headers", kHttpServer, "number", conf::set_number<&S::max_headers, 1>, "1000",
        "Largest number of fields in a request; more are answered by 400."),
    row("max_ranges", kEverywhere, "number", conf::set_number<&S::max_ranges>, {},
        "Largest number of byte ranges in a request; a request with more gets the whole file. 0 "
        "turns ranges off. Not set: no limit."),
    flag_row("merge_slashes", kHttpServer, conf::set_flag<&S::merge_slashes>, "on",
             "Joins adjacent slashes of a path into one."),
    flag_row("port_in_redirect", kEverywhere, conf::set_flag<&S::port_in_redirect>, "on",
             "Absolute redirects carry the port if it is not the scheme's own."),
    flag_row("reset_timedout_connection", kEverywhere,
             conf::set_flag<&S::reset_timedout_connection>, "off",
             "Resets connections that timed out or were closed with status 444, which frees their "
             "memory at once."),
    row("send_timeout", kEverywhere, "time", conf::set_time<&S::send_timeout>, "60s",
        "Longest pause between two writes of a response; after it the connection is closed."),
    flag_row("sendfile", kEverywhereAndIf, conf::set_flag<&S::sendfile>, "on",
             "Sends files by sendfile(2) where the connection allows it."),
    flag_row(
        "server_name_in_redirect", kEverywhere, conf::set_flag<&S::server_name_in_redirect>, "off",
        "Absolute redirects carry the first server_name; off: the host that the client asked for."),
    row("server_tokens", kEverywhere, "on | off | build",
        conf::set_choice<&S::server_tokens, kTokens>, "on",
        "The version in the Server field and on error pages."),
    flag_row("tcp_nodelay", kEverywhere, conf::set_flag<&S::tcp_nodelay>, "on",
             "Sets TCP_NODELAY on connections. What an address's default server says holds for all "
             "of its "
             "connections."),
    flag_row("tcp_nopush", kEverywhere, conf::set_flag<&S::tcp_nopush>, "on",
             "Sends the head and the begin of a file in one packet."),
    flag_row(
        "underscores_in_headers", kHttpServer, conf::set_flag<&S::underscores_in_headers>, "off",
        "Request fields with underscores in their names are valid; off: they count as invalid."),
};
static_assert(conf::well_formed(kDirectives));

constexpr conf::Module kModule = conf::module<CoreSettings>("http", kDirectives);

}  // namespace

const conf::Module& core_module() { return kModule; }

}  // namespace corehttpd::http

// The fastcgi_* directives and the step that passes requests to FastCGI servers.
#include <algorithm>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/handlers/gateway.h"
#include "handlers/gateway/cgi_params.h"
#include "handlers/gateway/fastcgi_settings.h"
#include "upstream/fastcgi_codec.h"

namespace corehttpd::handlers {
namespace {

using Settings = FastcgiSettings;

Settings& settings_of(const conf::Setting& s) { return *static_cast<Settings*>(s.settings); }

bool set_index(const conf::Setting& s) {
  if (s.word(0).empty()) return s.fail(0, "fastcgi_index has to be a file name");
  settings_of(s).index = s.arena().copy(s.word(0));
  return true;
}

bool set_split_path_info(const conf::Setting& s) {
  // A dot matches a line feed as well: "/index.php/PHP%0Ainfo.php" must be split like any other
  // path, not become the name of a script with an empty PATH_INFO. Verbs ("(*UTF)") have to stay at
  // the front.
  const bool has_verb = s.word(0).starts_with("(*");
  const std::string_view pattern = has_verb ? s.word(0) : s.arena().concat("(?s)", s.word(0));
  const expr::Regex* regex = expr::Regex::compile(s, 0, pattern, false);
  if (regex == nullptr) return false;
  if (regex->capture_count() != 2) {
    return s.fail(0, "pattern \"{}\" must have 2 captures", s.word(0));
  }
  settings_of(s).split_path_info = regex;
  return true;
}

bool set_keep_conn(const conf::Setting& s) {
  bool on = false;
  if (!conf::read_flag(s, 0, on)) return false;
  settings_of(s).keep_conn = on;
  return true;
}

bool set_catch_stderr(const conf::Setting& s) {
  Settings& settings = settings_of(s);
  const auto old = s.first_here ? std::span<const std::string_view>() : settings.catch_stderr;
  const auto fresh = s.arena().make_array<std::string_view>(old.size() + 1);
  std::ranges::copy(old, fresh.begin());
  fresh.back() = s.arena().copy(s.word(0));
  settings.catch_stderr = fresh;
  return true;
}

using conf::Context;

constexpr conf::Directive kOwnRows[] = {
    {.name = "fastcgi_catch_stderr",
     .contexts = conf::kHttpServerLocation,
     .syntax = "string",
     .set = set_catch_stderr,
     .inherit = conf::Inherit::kList,
     .doc = "A text on the server's error stream that makes its response invalid, so that the next "
            "server is asked if next_upstream has invalid_header."},
    {.name = "fastcgi_index",
     .contexts = conf::kHttpServerLocation,
     .syntax = "name",
     .set = set_index,
     .doc = "A file name that $fastcgi_script_name has after a URI that ends with a slash."},
    {.name = "fastcgi_keep_conn",
     .contexts = conf::kHttpServerLocation,
     .syntax = "on | off",
     .set = set_keep_conn,
     .doc = "Whether the server is asked to leave the connection open after a response, so that "
            "the group's keepalive can use it again. Unless given: off, but on towards servers "
            "whose capacity is known (fastcgi_pool_files)."},
    {.name = "fastcgi_param",
     .contexts = conf::kHttpServerLocation,
     .arity = conf::between(2, 3),
     .syntax = "parameter value [if_not_empty]",
     .set = set_param<Settings>,
     .inherit = conf::Inherit::kList,
     .doc = "A parameter passed to the server; with if_not_empty only if its value is not empty. A "
            "parameter HTTP_NAME replaces the request's own field of that name."},
    {.name = "fastcgi_pass",
     .contexts = Context::kLocation | Context::kIfLocation,
     .syntax = "address",
     .set = set_pass<Settings>,
     .doc =
         "The server to pass requests to: address:port, unix:/path, a name resolved at start, or "
         "an upstream. With variables a name is looked up when it is needed (resolver)."},
    {.name = "fastcgi_split_path_info",
     .contexts = Context::kLocation,
     .syntax = "regex",
     .set = set_split_path_info,
     .doc = "Splits the URI for $fastcgi_script_name and $fastcgi_path_info by its two captures."},
};
constexpr std::span<const conf::Directive> kDirectives =
    upstream::prefixed_rows<"fastcgi_", kOwnRows>;
static_assert(conf::well_formed(kDirectives));

class FastcgiProtocol final : public upstream::OriginProtocol {
 public:
  std::string_view scheme() const override { return "fastcgi"; }
  std::string_view title() const override { return "FastCGI"; }
  Segment encode_head(http::Exchange& exchange, std::uint64_t body_bytes,
                      bool keep) const override {
    const Settings& settings = exchange.settings<Settings>();
    const ArenaVector<upstream::fastcgi::Param> params =
        make_params(exchange, settings.params, settings.gateway.pass_request_headers, body_bytes);
    return upstream::fastcgi::encode_head(params, keep);
  }
  upstream::OriginCodec* make_codec(std::byte* storage) const override {
    return new (storage) upstream::fastcgi::Codec();
  }
};
constexpr FastcgiProtocol kProtocol;

}  // namespace

const conf::Module& fastcgi_module() {
  static constexpr conf::Module kModule =
      conf::module<Settings>("fastcgi", kDirectives, resolve_targets);
  return kModule;
}

http::StepFactory fastcgi_step() { return cgi_step<Settings, kProtocol>(); }

}  // namespace corehttpd::handlers

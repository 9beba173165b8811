// The scgi_* and uwsgi_* directives and the steps that pass requests to such servers.
#include <type_traits>

#include "corehttpd/conf/values.h"
#include "corehttpd/handlers/gateway.h"
#include "handlers/gateway/cgi_params.h"
#include "handlers/gateway/cgi_settings.h"
#include "upstream/cgi_codecs.h"

namespace corehttpd::handlers {
namespace {

struct ScgiSettings {
  upstream::GatewaySettings gateway;  // First: the shared rows see the whole as this.
  const PassTarget* pass = nullptr;
  const CgiParams* params = nullptr;
  void complete(upstream::GatewayPass& pass) const { pass.keep_connection = false; }
};
static_assert(std::is_standard_layout_v<ScgiSettings>);

struct UwsgiSettings {
  upstream::GatewaySettings gateway;  // As above.
  const PassTarget* pass = nullptr;
  const CgiParams* params = nullptr;
  std::uint8_t modifier1 = 0;
  std::uint8_t modifier2 = 0;
  std::string_view text;
  void complete(upstream::GatewayPass& pass) const { pass.keep_connection = false; }
};
static_assert(std::is_standard_layout_v<UwsgiSettings>);

bool set_string(const conf::Setting& s) {
  static_cast<UwsgiSettings*>(s.settings)->text = s.arena().copy(s.word(0));
  return true;
}

using conf::Context;
constexpr conf::Context kPassContexts = Context::kLocation | Context::kIfLocation;

constexpr conf::Directive kScgiOwn[] = {
    {.name = "scgi_param",
     .contexts = conf::kHttpServerLocation,
     .arity = conf::between(2, 3),
     .syntax = "parameter value [if_not_empty]",
     .set = set_param<ScgiSettings>,
     .inherit = conf::Inherit::kList,
     .doc = "A parameter passed to the server, as fastcgi_param. CONTENT_LENGTH and SCGI are made "
            "by the server itself."},
    {.name = "scgi_pass",
     .contexts = kPassContexts,
     .syntax = "address",
     .set = set_pass<ScgiSettings>,
     .doc = "The SCGI server to pass requests to, as fastcgi_pass."},
};
constexpr conf::Directive kUwsgiOwn[] = {
    {.name = "uwsgi_modifier1",
     .contexts = conf::kHttpServerLocation,
     .syntax = "number",
     .set = conf::set_number<&UwsgiSettings::modifier1, 0, 255>,
     .default_value = "0",
     .doc = "The first modifier of the packet."},
    {.name = "uwsgi_modifier2",
     .contexts = conf::kHttpServerLocation,
     .syntax = "number",
     .set = conf::set_number<&UwsgiSettings::modifier2, 0, 255>,
     .default_value = "0",
     .doc = "The second modifier of the packet."},
    {.name = "uwsgi_param",
     .contexts = conf::kHttpServerLocation,
     .arity = conf::between(2, 3),
     .syntax = "parameter value [if_not_empty]",
     .set = set_param<UwsgiSettings>,
     .inherit = conf::Inherit::kList,
     .doc = "A parameter passed to the server, as fastcgi_param."},
    {.name = "uwsgi_pass",
     .contexts = kPassContexts,
     .syntax = "address",
     .set = set_pass<UwsgiSettings>,
     .doc = "The uwsgi server to pass requests to, as fastcgi_pass."},
    {.name = "uwsgi_string",
     .contexts = conf::kHttpServerLocation,
     .syntax = "string",
     .set = set_string,
     .doc = "Text that is sent behind the parameters."},
};
constexpr std::span<const conf::Directive> kScgiRows = upstream::prefixed_rows<"scgi_", kScgiOwn>;
constexpr std::span<const conf::Directive> kUwsgiRows =
    upstream::prefixed_rows<"uwsgi_", kUwsgiOwn>;
static_assert(conf::well_formed(kScgiRows));
static_assert(conf::well_formed(kUwsgiRows));

template <class S>
ArenaVector<upstream::Param> params_of(http::Exchange& exchange, std::uint64_t body_bytes) {
  const S& settings = exchange.settings<S>();
  return make_params(exchange, settings.params, settings.gateway.pass_request_headers, body_bytes);
}

class ScgiProtocol final : public upstream::OriginProtocol {
 public:
  std::string_view scheme() const override { return "scgi"; }
  std::string_view title() const override { return "SCGI"; }
  bool needs_body_length() const override { return true; }
  bool has_status_line() const override { return true; }
  Segment encode_head(http::Exchange& exchange, std::uint64_t body_bytes, bool) const override {
    return upstream::scgi::encode_head(params_of<ScgiSettings>(exchange, body_bytes), body_bytes);
  }
  upstream::OriginCodec* make_codec(std::byte* storage) const override {
    return new (storage) upstream::PlainCodec();
  }
};

class UwsgiProtocol final : public upstream::OriginProtocol {
 public:
  std::string_view scheme() const override { return "uwsgi"; }
  std::string_view title() const override { return "uwsgi"; }
  bool has_status_line() const override { return true; }
  Segment encode_head(http::Exchange& exchange, std::uint64_t body_bytes, bool) const override {
    const UwsgiSettings& settings = exchange.settings<UwsgiSettings>();
    return upstream::uwsgi::encode_head(params_of<UwsgiSettings>(exchange, body_bytes),
                                        settings.modifier1, settings.modifier2, settings.text);
  }
  upstream::OriginCodec* make_codec(std::byte* storage) const override {
    return new (storage) upstream::PlainCodec();
  }
};
constexpr ScgiProtocol kScgi;
constexpr UwsgiProtocol kUwsgi;

}  // namespace

const conf::Module& scgi_module() {
  static constexpr conf::Module kModule =
      conf::module<ScgiSettings>("scgi", kScgiRows, resolve_targets);
  return kModule;
}

const conf::Module& uwsgi_module() {
  static constexpr conf::Module kModule =
      conf::module<UwsgiSettings>("uwsgi", kUwsgiRows, resolve_targets);
  return kModule;
}

http::StepFactory scgi_step() { return cgi_step<ScgiSettings, kScgi>(); }
http::StepFactory uwsgi_step() { return cgi_step<UwsgiSettings, kUwsgi>(); }

}  // namespace corehttpd::handlers

// The http2_* directives but "http2" itself, which is route's: it decides what a listener speaks.
#include "proto/h2/settings.h"

#include <algorithm>

#include "corehttpd/conf/values.h"
#include "corehttpd/proto/h2.h"

namespace corehttpd::h2 {
namespace {

using conf::Context;

constexpr Context kHttpServer = Context::kHttp | Context::kServer;

// nginx refuses none of the sizes that the protocol has no room for; they are cut.
template <auto Field, std::uint64_t Min, std::uint64_t Max>
bool set_bytes(const conf::Setting& s) {
  std::uint64_t value = 0;
  if (!conf::read_size(s, 0, value)) return false;
  conf::detail::field<Field>(s) = static_cast<std::uint32_t>(std::clamp(value, Min, Max));
  return true;
}

bool ignore(const conf::Setting& s) {
  s.warn(conf::Setting::kWholeDirective, "the \"{}\" directive is obsolete, ignored", s.name());
  return true;
}

// Obsolete, and what nginx says to use.
bool replaced(const conf::Setting& s, std::string_view instead) {
  s.warn(conf::Setting::kWholeDirective,
         "the \"{}\" directive is obsolete, use the \"{}\" directive instead", s.name(), instead);
  return true;
}
bool by_large_buffers(const conf::Setting& s) { return replaced(s, "large_client_header_buffers"); }
bool by_keepalive_timeout(const conf::Setting& s) { return replaced(s, "keepalive_timeout"); }
bool by_keepalive_requests(const conf::Setting& s) { return replaced(s, "keepalive_requests"); }
bool by_header_timeout(const conf::Setting& s) { return replaced(s, "client_header_timeout"); }

constexpr std::string_view kObsolete = "Obsolete in nginx, too: accepted with a warning.";

constexpr conf::Directive kDirectives[] = {
    {.name = "http2_body_preread_size",
     .contexts = kHttpServer,
     .syntax = "size",
     .set = set_bytes<&Settings::body_preread_size, 0, INT32_MAX>,
     .default_value = "64k",
     .doc = "How much of a request's body a client may send before anybody reads it: the initial "
            "window of its streams. That of the default server of an address counts."},
    {.name = "http2_chunk_size",
     .contexts = conf::kHttpServerLocation,
     .syntax = "size",
     .set = set_bytes<&Settings::chunk_size, 1, 16'777'215>,
     .default_value = "8k",
     .doc = "The longest piece that a response's body is cut into. 16k costs less (a tenth of a 20 "
            "kB response); short ones let urgent responses pass sooner."},
    {.name = "http2_idle_timeout",
     .contexts = kHttpServer,
     .syntax = "time",
     .set = by_keepalive_timeout,
     .inherit = conf::Inherit::kNone,
     .doc = kObsolete},
    {.name = "http2_max_concurrent_pushes",
     .contexts = kHttpServer,
     .syntax = "number",
     .set = ignore,
     .inherit = conf::Inherit::kNone,
     .doc = kObsolete},
    {.name = "http2_max_concurrent_streams",
     .contexts = kHttpServer,
     .syntax = "number",
     .set = conf::set_number<&Settings::max_concurrent_streams, 1, INT32_MAX>,
     .default_value = "128",
     .doc = "Requests of one connection that may be under way at a time; further ones are refused "
            "and may be sent again. That of the default server of an address counts."},
    {.name = "http2_max_field_size",
     .contexts = kHttpServer,
     .syntax = "size",
     .set = by_large_buffers,
     .inherit = conf::Inherit::kNone,
     .doc = kObsolete},
    {.name = "http2_max_header_size",
     .contexts = kHttpServer,
     .syntax = "size",
     .set = by_large_buffers,
     .inherit = conf::Inherit::kNone,
     .doc = kObsolete},
    {.name = "http2_max_requests",
     .contexts = kHttpServer,
     .syntax = "number",
     .set = by_keepalive_requests,
     .inherit = conf::Inherit::kNone,
     .doc = kObsolete},
    {.name = "http2_pool_size",
     .contexts = kHttpServer,
     .syntax = "size",
     .set = conf::set_nothing,
     .stage = conf::Stage::kNoMeaning,
     .doc = "Memory comes from arenas and pools that size themselves."},
    {.name = "http2_push",
     .contexts = conf::kHttpServerLocation,
     .syntax = "uri | off",
     .set = ignore,
     .inherit = conf::Inherit::kNone,
     .doc = kObsolete},
    {.name = "http2_push_preload",
     .contexts = conf::kHttpServerLocation,
     .syntax = "on | off",
     .set = ignore,
     .inherit = conf::Inherit::kNone,
     .doc = kObsolete},
    {.name = "http2_recv_buffer_size",
     .contexts = Context::kHttp,
     .syntax = "size",
     .set = conf::set_nothing,
     .stage = conf::Stage::kNoMeaning,
     .doc = "Receives share the worker's buffers."},
    {.name = "http2_recv_timeout",
     .contexts = kHttpServer,
     .syntax = "time",
     .set = by_header_timeout,
     .inherit = conf::Inherit::kNone,
     .doc = kObsolete},
    {.name = "http2_streams_index_size",
     .contexts = kHttpServer,
     .syntax = "number",
     .set = conf::set_nothing,
     .stage = conf::Stage::kNoMeaning,
     .doc = "Tables size themselves."},
};
static_assert(conf::well_formed(kDirectives));

}  // namespace

const conf::Module& module() {
  static constexpr conf::Module kModule = conf::module<Settings>("http2", kDirectives);
  return kModule;
}

}  // namespace corehttpd::h2

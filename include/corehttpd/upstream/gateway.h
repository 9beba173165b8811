// Passes an exchange to an origin and its answer back: the core that every origin protocol shares.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "corehttpd/expr/variable.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/upstream/codec.h"
#include "corehttpd/upstream/peers.h"
#include "corehttpd/upstream/resolver.h"
#include "corehttpd/upstream/settings.h"

namespace corehttpd::upstream {

// A server whose name is known only now. All of it lives in the exchange's arena or the
// configuration.
struct NamedOrigin {
  std::string_view text;  // "example.org:9000".
  std::string_view host;
  std::uint16_t port = 0;
  const ResolverSettings* resolver = nullptr;  // Has one.
  const Backends* backends = nullptr;
};

struct GatewayPass {
  const OriginProtocol* protocol = nullptr;
  // Lives in the configuration.
  const GatewaySettings* settings = nullptr;
  // Lives in the configuration or in the exchange's arena.
  const Group* group = nullptr;
  // In its place: a group has to be made first.
  const NamedOrigin* named = nullptr;
  // Texts on the error stream that make a response invalid (fastcgi_catch_stderr).
  std::span<const std::string_view> caught_diagnostics;
  // fastcgi_keep_conn; nothing: on where connections are kept in a pool of known capacity.
  std::optional<bool> keep_connection = {};
};

// Exchange::state<FileOrder>(): the origin has named a file to be sent in place of its answer
// (X-Sendfile). The step is run again, and sends it.
struct FileOrder {
  std::string_view path;
};

// To be called by a content step, whose outcome it yields: kSuspend, or a failure that is known at
// once. From then on it responds to the exchange, redirects it (X-Accel-Redirect) or fails it: 502
// when no origin gives a valid answer, 504 when one does not in time, a status of its own for a
// body that can't be read.
http::StepOutcome pass_to_origin(http::Exchange& exchange, const GatewayPass& pass);

// $upstream_addr, $upstream_status, $upstream_response_time, $upstream_http_NAME…
std::span<const expr::Variable> upstream_variables();

}  // namespace corehttpd::upstream

// What an exchange needs from its worker. One per worker, made by server/worker, outlives all
// exchanges.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/base/block.h"
#include "corehttpd/base/clock.h"
#include "corehttpd/base/ip_network.h"
#include "corehttpd/base/turn.h"
#include "corehttpd/http/pipeline.h"
#include "corehttpd/http/site.h"
#include "corehttpd/http/temp_paths.h"

namespace corehttpd::io {
class Loop;
}
namespace corehttpd::assets {
class FileLookup;
}
namespace corehttpd::access {
class PasswordChecks;
}
namespace corehttpd::tls {
class Store;
}

namespace corehttpd::http {

// Answers a failed request: error_page or the built-in page. Implemented by handlers.
class ErrorResponder {
 public:
  // Either calls exchange.redirect…() and returns redirect(), or calls exchange.respond() and
  // returns answered().
  virtual StepOutcome respond(Exchange& exchange, std::uint16_t status) = 0;
  // Is there an error_page for status where exchange is? Asked by gateways that intercept errors.
  virtual bool has_page(const Exchange&, std::uint16_t) const { return false; }

 protected:
  ~ErrorResponder() = default;
};

// The access log. Called once per exchange, when its response is gone or it was aborted.
// Implemented by handlers.
class RequestLog {
 public:
  virtual void log(Exchange& exchange) = 0;

 protected:
  ~RequestLog() = default;
};

// Counters of stub_status, in shared memory. Implemented by server.
class Counters {
 public:
  virtual void request_started() = 0;
  virtual void connection_accepted() = 0;  // Accepted and handled.
  virtual void connection_closed() = 0;
  enum class Activity : std::uint8_t { kReading, kWriting, kWaiting };
  virtual void activity(Activity activity, int change) = 0;  // +1 / -1.
  struct Snapshot {
    std::uint64_t accepts, handled, requests, active, reading, writing, waiting;
  };
  virtual Snapshot snapshot() const = 0;

 protected:
  ~Counters() = default;
};

struct Services {
  io::Loop& loop;  // Opaque here: http never calls it; layers above io do.
  TurnQueue& turn;
  BlockPool& blocks;
  const Clock& clock;
  const SiteSelector& sites;
  ErrorResponder& errors;
  RequestLog& log;
  Counters& counters;
  std::span<const Transform* const> transforms;
  // Where request bodies go that do not fit into memory, unless client_body_temp_path says:
  // absolute, exists, NUL-terminated past its end.
  std::string_view body_temp_path = kDefaultTempPath;
  // Clients whose every debug line is logged (debug_connection).
  std::span<const IpNetwork> debug_clients = {};
  bool draining = false;  // A graceful end has begun: answer with Connection: close, GOAWAY.
  // As with loop, only the names are known here. Never nullptr in a worker.
  assets::FileLookup* files = nullptr;
  access::PasswordChecks* passwords = nullptr;
  const tls::Store* tls = nullptr;  // Where an endpoint has TLS.
};

}  // namespace corehttpd::http

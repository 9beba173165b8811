// What a protocol stream offers to the exchange it carries: h1::Connection, h2::Stream,
// SubrequestTransport.
#pragma once

#include <cstddef>
#include <cstdint>

#include "corehttpd/base/clock.h"
#include "corehttpd/base/error.h"
#include "corehttpd/base/ip_address.h"
#include "corehttpd/http/body.h"
#include "corehttpd/http/message.h"
#include "corehttpd/http/proxy_header.h"

namespace corehttpd::http {

struct Endpoint;

class TlsInfo;  // tls_info.h

struct ConnectionInfo {
  std::uint64_t number = 0;    // *N in logs, $connection.
  std::uint64_t requests = 0;  // $connection_requests.
  IpAddress peer;
  IpAddress local;
  const Endpoint* endpoint = nullptr;
  const TlsInfo* tls = nullptr;  // nullptr: cleartext.
  ProxyHeader proxy;             // What a PROXY header said; empty: there was none.
  Milliseconds accepted_ms = 0;  // Monotonic; for $connection_time and keepalive_time.
  bool debug = false;            // Chosen by debug_connection.
  bool plain_to_tls = false;     // Plain HTTP on a TLS endpoint: every request fails with 497.
};

// Contract with Exchange: exactly one send_head() per exchange (after any informational ones), then
// the transport pulls the body and finally calls Exchange::on_sent() or
// Exchange::on_transport_lost(). Calls only mark; the work is done at the end of the turn or, where
// it is safe, at once. None of them calls back into the exchange before returning.
class Transport {
 public:
  virtual void send_informational(std::uint16_t status, const FieldList& fields) = 0;
  // head is exchange.response(); body nullptr: no body follows (content_length still goes out, for
  // HEAD). The transport chooses the framing: length if known, else chunked or end of stream or
  // close.
  virtual void send_head(const ResponseHead& head, BodySource* body) = 0;
  // A source that said kBlocked has something to say.
  virtual void body_ready() = 0;
  // The sink wants bytes more of the request body. The first grant sends 100 (Continue) if that is
  // expected. A body that nobody asked for is discarded or cut by the transport after the response.
  virtual void grant(std::size_t bytes) = 0;
  // Ends the stream at once without a clean end: h1 closes, h2 and h3 RST_STREAM.
  virtual void reset(const Error& error) = 0;
  virtual const ConnectionInfo& connection() const = 0;

 protected:
  ~Transport() = default;
};

}  // namespace corehttpd::http

// Fields behind a response's body.
#pragma once

#include "corehttpd/http/exchange.h"
#include "corehttpd/http/fields.h"

namespace corehttpd::http {

// Where what writes trailers leaves them for $sent_trailer_name: a state of the exchange, absent
// while none has been written.
struct SentTrailers {
  const FieldList* list = nullptr;  // Lives as long as the exchange; grows while it is written.
};

// Makes room for trailers in the response whose head is being made: in HTTP/1.1 they come after
// chunks, so the body loses its length. False: there is none (HTTP/1.0, HEAD, or without
// chunked_transfer_encoding), and nothing has changed.
bool make_room_for_trailers(Exchange& exchange);

}  // namespace corehttpd::http

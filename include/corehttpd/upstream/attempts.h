// What $upstream_... tells of a request: one entry for each server that was asked.
#pragma once

#include <cstdint>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/base/clock.h"
#include "corehttpd/http/fields.h"

namespace corehttpd::upstream {

struct Attempt {
  std::string_view address;  // "unix:/run/php.sock", "127.0.0.1:9000".
  std::uint16_t status = 0;  // Of its response, or 502 or 504 when it failed; 0: not known yet.
  bool redirected = false;   // The first one after an internal redirect.
  Milliseconds started_ms = 0;
  Milliseconds connect_ms = -1;  // All from the start of the attempt; -1: did not happen.
  Milliseconds header_ms = -1;
  Milliseconds response_ms = -1;
  std::uint64_t response_length = 0;  // Bytes of the body.
  std::uint64_t bytes_received = 0;   // Of the connection.
  std::uint64_t bytes_sent = 0;
};

// Exchange::state<Attempts>().
struct Attempts {
  ArenaVector<Attempt*> list;
  http::FieldList fields;  // Of the last response's head.
};

}  // namespace corehttpd::upstream

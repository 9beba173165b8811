// For what stands between a descriptor and its reader (TLS): it completes operations and delivers
// to receives in the loop's place, by the same contract as the loop's (loop.h).
#pragma once

#include <span>

#include "corehttpd/io/loop.h"

namespace corehttpd::io {

class Layer {
 protected:
  static void begin(Operation& operation);
  static void complete(Operation& operation, int result);

  // The receive is on: what comes is delivered.
  static void arm(ReceiveState& state);
  // It is to stop; let_go() then ends it.
  static void ask_stop(ReceiveState& state);
  // Nothing of the receive is left below: it is idle, and who asked for its stop is told.
  static void let_go(ReceiveState& state);
  // To the receiver, or kept while nobody wants it.
  static void deliver(ReceiveState& state, std::span<const std::byte> data);
  // What was kept, as long as it is wanted.
  static void deliver_parked(ReceiveState& state);
  static bool has_parked(const ReceiveState& state);
  // errno_value 0: the peer has closed its side. Only when armed; the receiver may destroy the
  // state.
  static void end(ReceiveState& state, int errno_value);
};

}  // namespace corehttpd::io

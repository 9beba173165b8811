// The seam to nghttp2: its callbacks forward to Connection and Stream, its sessions are made here
// with our limits.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>

#include "corehttpd/http/core_settings.h"
#include "proto/h2/settings.h"

namespace corehttpd::h2 {

class Connection;
class Memory;

inline constexpr std::size_t kFrameHeaderBytes = 9;  // RFC 9113 §4.1.

// A server session whose first SETTINGS frame is queued; memory must outlive it. nullptr: out of
// memory.
nghttp2_session* make_session(Connection& connection, const http::CoreSettings& core,
                              const Settings& settings, Memory& memory);

// Data provider of every response: source.ptr is the Stream.
ssize_t read_data(nghttp2_session* session, std::int32_t stream_id, std::uint8_t* buffer,
                  std::size_t length, std::uint32_t* data_flags, nghttp2_data_source* source,
                  void* user_data);

}  // namespace corehttpd::h2

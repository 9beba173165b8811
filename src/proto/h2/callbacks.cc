#include "proto/h2/callbacks.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "corehttpd/base/check.h"
#include "proto/h2/connection.h"
#include "proto/h2/request.h"
#include "proto/h2/stream.h"

namespace corehttpd::h2 {
namespace {

constexpr std::uint32_t kDefaultFrameMax = 16'384;  // RFC 9113 §4.2.

Connection& connection_of(void* user_data) { return *static_cast<Connection*>(user_data); }

// nullptr for streams that were refused before they came to us.
Stream* stream_of(nghttp2_session* session, std::int32_t id) {
  return static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, id));
}

std::string_view text_of(nghttp2_rcbuf* buffer) {
  const nghttp2_vec bytes = nghttp2_rcbuf_get_buf(buffer);
  return {reinterpret_cast<const char*>(bytes.base), bytes.len};
}

int on_begin_frame(nghttp2_session*, const nghttp2_frame_hd* header, void* user_data) {
  return connection_of(user_data).on_begin_frame(*header);
}

int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
  return connection_of(user_data).on_begin_headers(*frame);
}

int on_header(nghttp2_session*, const nghttp2_frame* frame, nghttp2_rcbuf* name,
              nghttp2_rcbuf* value, std::uint8_t, void* user_data) {
  if (frame->hd.type != NGHTTP2_HEADERS) return 0;
  Connection& connection = connection_of(user_data);
  Stream* stream = connection.header_stream();
  if (stream == nullptr) return 0;
  const bool fine = frame->headers.cat == NGHTTP2_HCAT_REQUEST
                        ? stream->on_field(text_of(name), text_of(value))
                        : stream->on_trailer(text_of(name), text_of(value));
  return fine ? 0 : connection.on_huge_list();
}

int on_frame_received(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
  return connection_of(user_data).on_frame(*frame);
}

int on_invalid_frame(nghttp2_session*, const nghttp2_frame* frame, int, void* user_data) {
  connection_of(user_data).on_invalid_frame(*frame);
  return 0;
}

int on_data_chunk(nghttp2_session* session, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                  std::size_t length, void* user_data) {
  if (Stream* stream = stream_of(session, id)) {
    stream->on_data({reinterpret_cast<const std::byte*>(data), length});
  } else {
    connection_of(user_data).consume(length);
  }
  return 0;
}

int on_frame_sent(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
  return connection_of(user_data).on_frame_sent(*frame);
}

int send_data(nghttp2_session*, [[maybe_unused]] nghttp2_frame* frame, const std::uint8_t* header,
              std::size_t length, nghttp2_data_source*, void* user_data) {
  CORE_DCHECK(frame->data.padlen == 0);  // We never ask for padding.
  return connection_of(user_data).on_data_frame(header, length);
}

// More than the protocol's default goes into one frame only for clients that allow it, where
// http2_chunk_size does.
ssize_t data_length(nghttp2_session* session, std::uint8_t, std::int32_t id,
                    std::int32_t session_window, std::int32_t stream_window,
                    std::uint32_t peer_frame_max, void*) {
  std::uint32_t length = kDefaultFrameMax;
  if (peer_frame_max > kDefaultFrameMax) {
    const Stream* stream = stream_of(session, id);
    if (stream != nullptr) length = std::min(peer_frame_max, stream->chunk_bytes());
  }
  return std::min<std::int64_t>(length, std::min(session_window, stream_window));
}

int on_stream_close(nghttp2_session* session, std::int32_t id, std::uint32_t error_code,
                    void* user_data) {
  Stream* stream = stream_of(session, id);
  if (stream == nullptr) return 0;
  nghttp2_session_set_stream_user_data(session, id, nullptr);
  connection_of(user_data).on_stream_closed(*stream, error_code);
  return 0;
}

nghttp2_session_callbacks* make_callbacks() {
  nghttp2_session_callbacks* callbacks = nullptr;
  CORE_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
  nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_received);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
  nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
  nghttp2_session_callbacks_set_data_source_read_length_callback(callbacks, data_length);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
  return callbacks;
}

nghttp2_option* make_options() {
  nghttp2_option* options = nullptr;
  CORE_CHECK(nghttp2_option_new(&options) == 0);
  // Credit is given when bytes are handed on, not when they arrive.
  nghttp2_option_set_no_auto_window_update(options, 1);
  // Closed streams are only remembered for the priority tree of RFC 7540, which is not used
  // (priorities are RFC 9218's).
  nghttp2_option_set_no_closed_streams(options, 1);
  nghttp2_option_set_builtin_recv_extension_type(options, NGHTTP2_PRIORITY_UPDATE);
  // Answers to PING and SETTINGS that may wait for a peer that doesn't read.
  nghttp2_option_set_max_outbound_ack(options, 256);
  nghttp2_option_set_max_settings(options, 32);
  // Connection::control_ counts these.
  nghttp2_option_set_max_continuations(options, 1'000'000);
  // Requests are judged by RequestBuilder and Stream.
  nghttp2_option_set_no_http_messaging(options, 1);
  // Connection::resets_ counts these and says ENHANCE_YOUR_CALM; the library would say
  // INTERNAL_ERROR.
  nghttp2_option_set_stream_reset_rate_limit(options, 1'000'000, 1'000'000);
  return options;
}

}  // namespace

ssize_t read_data(nghttp2_session*, std::int32_t, std::uint8_t*, std::size_t length,
                  std::uint32_t* data_flags, nghttp2_data_source* source, void*) {
  return static_cast<Stream*>(source->ptr)->pull(length, data_flags);
}

nghttp2_session* make_session(Connection& connection, const http::CoreSettings& core,
                              const Settings& settings, Memory& memory) {
  // One set for all sessions of the process; never freed.
  static nghttp2_session_callbacks* const callbacks = make_callbacks();
  static nghttp2_option* const options = make_options();
  nghttp2_session* session = nullptr;
  if (nghttp2_session_server_new3(&session, callbacks, &connection, options, memory.library()) != 0)
    return nullptr;
  const nghttp2_settings_entry entries[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, NGHTTP2_MAX_WINDOW_SIZE},  // See announce().
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, RequestBuilder::list_bytes_max(core)},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings.body_preread_size},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  };
  if (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, entries, std::size(entries)) != 0 ||
      nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0,
                                            Connection::kConnectionWindow) != 0) {
    nghttp2_session_del(session);
    return nullptr;
  }
  memory.seal();
  return session;
}

}  // namespace corehttpd::h2

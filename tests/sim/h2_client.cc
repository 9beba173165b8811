#include "sim/h2_client.h"

#include <cstring>

namespace corehttpd::sim {

H2Client::H2Client(io::SimLoop& loop, io::SimPeer& peer, const Weather& weather, std::string tag)
    : Client(loop, peer, weather, std::move(tag)),
      end_(static_cast<End>(random(static_cast<std::uint64_t>(End::kCount)))),
      left_(static_cast<int>(1 + random(25))),
      depth_(1 + random(8)) {
  cut_ = random(3) != 0;
  slow_ = random(4) == 0;
  if (slow_) peer_.set_window(200 + random(3000));
  reset_planned_ = end_ == End::kReset;
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_chunk);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
  nghttp2_option* options = nullptr;
  nghttp2_option_new(&options);
  nghttp2_option_set_no_auto_window_update(options, 1);
  nghttp2_session_client_new2(&session_, callbacks, this, options);
  nghttp2_option_del(options);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry entries[] = {
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
       static_cast<std::uint32_t>(random(2) == 0 ? 65'535 : 1 + random(4000))},
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, entries, std::size(entries));
}

H2Client::~H2Client() { nghttp2_session_del(session_); }

std::string H2Client::describe() const {
  return fmt::format("{} (HTTP/2, end {}, {} to ask, {} streams open, {} bytes to push)", tag_,
                     static_cast<int>(end_), left_, open_streams(), out_.size());
}

std::size_t H2Client::open_streams() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(streams_, [](const auto& one) { return !one.second.closed; }));
}

bool H2Client::active() const {
  if (over_) return false;
  if (peer_.ended() || peer_.was_reset() || !out_.empty() || reset_planned_) return true;
  if (stalled_) return false;
  if (!peer_.arrived().empty() || nghttp2_session_want_write(session_) != 0) return true;
  if (left_ > 0 && open_streams() < depth_ && !goaway_) return true;
  for (const auto& [id, stream] : streams_) {
    if (stream.unconsumed != 0) return true;
  }
  return !said_all_ && end_ != End::kIdle && end_ != End::kStalledRead && open_streams() == 0;
}

void H2Client::step() {
  const bool ended = peer_.ended() || peer_.was_reset();
  if (end_ == End::kStalledRead && !stalled_ && random(30) == 0) {
    stalled_ = true;
    peer_.set_window(0);
  }
  if (ended) stalled_ = slow_ = false;
  const std::string arrived = take_some();
  if (!arrived.empty()) {
    const ssize_t used = nghttp2_session_mem_recv(
        session_, reinterpret_cast<const std::uint8_t*>(arrived.data()), arrived.size());
    EXPECT_EQ(used, static_cast<ssize_t>(arrived.size()))
        << describe() << ": " << nghttp2_strerror(static_cast<int>(used));
  }
  if (ended) return at_end();
  if (!stalled_) {
    ask();
    give_window();
    reset_some_stream();
    say_goodbye();
  }
  collect_output();
  push_some(out_);
}

void H2Client::ask() {
  if (left_ == 0 || open_streams() >= depth_ || goaway_ || random(3) == 0) return;
  --left_;
  Case made = model_.next();
  Ask& ask = made.ask;
  const bool announce = ask.has_body && random(2) == 0;
  ask.chunked = !announce;
  if (ask.too_large()) made.refuse_as_too_large();
  Fields fields = {{":method", ask.method},
                   {":scheme", "http"},
                   {":authority", ask.host},
                   {":path", ask.target}};
  for (const auto& [name, value] : ask.fields) {
    fields.emplace_back(name, value);
    for (char& c : fields.back().first) c = static_cast<char>(std::tolower(c));
  }
  if (announce) fields.emplace_back("content-length", std::to_string(ask.body.size()));
  std::vector<nghttp2_nv> values;
  for (auto& [name, value] : fields) {
    values.push_back({reinterpret_cast<std::uint8_t*>(name.data()),
                      reinterpret_cast<std::uint8_t*>(value.data()), name.size(), value.size(), 0});
  }
  const nghttp2_data_provider upload{{.ptr = nullptr}, read_upload};
  const std::int32_t id = nghttp2_submit_request(session_, nullptr, values.data(), values.size(),
                                                 ask.has_body ? &upload : nullptr, nullptr);
  ASSERT_GT(id, 0) << nghttp2_strerror(id);
  streams_[id].made = std::move(made);
}

// Windows are given back late and in pieces, as by somebody who reads slowly.
void H2Client::give_window() {
  for (auto& [id, stream] : streams_) {
    if (stream.unconsumed == 0 || random(2) == 0) continue;
    const std::size_t size = random(2) == 0 ? stream.unconsumed : 1 + random(stream.unconsumed);
    stream.unconsumed -= size;
    nghttp2_session_consume(session_, id, size);
  }
}

void H2Client::reset_some_stream() {
  if (random(60) != 0) return;
  for (auto& [id, stream] : streams_) {
    if (stream.closed || stream.cancelled || random(2) == 0) continue;
    stream.cancelled = true;
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    return;
  }
}

void H2Client::say_goodbye() {
  if (said_all_ || end_ == End::kIdle || end_ == End::kReset || end_ == End::kStalledRead) return;
  if (end_ == End::kLeave && random(100) == 0 && peer_.fd() >= 0) {
    left_early_ = said_all_ = true;
    peer_.finish();
    return;
  }
  if ((left_ > 0 && !goaway_) || open_streams() != 0 || !out_.empty() ||
      nghttp2_session_want_write(session_) != 0)
    return;
  said_all_ = true;
  if (end_ == End::kGoaway) {
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, nullptr, 0);
    collect_output();
    peer_.push(std::exchange(out_, {}));
  }
  left_early_ = true;
  peer_.finish();
}

void H2Client::collect_output() {
  const std::uint8_t* bytes = nullptr;
  for (ssize_t n; (n = nghttp2_session_mem_send(session_, &bytes)) > 0;) {
    out_.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(n));
  }
}

// The connection has ended: streams that are still open may be so for good reasons only.
void H2Client::at_end() {
  over_ = true;
  if (!peer_.was_reset()) peer_.finish();
  const bool may_break = broken() || left_early_ || end_ == End::kStalledRead;
  for (auto& [id, stream] : streams_) {
    if (stream.closed || stream.cancelled) continue;
    if (stream.headed) check(stream.made, stream.answer, false);
    const bool refused = goaway_ && id > served_up_to_;
    EXPECT_TRUE(may_break || refused)
        << describe() << ": stream " << id << " to " << stream.made.ask.target << " never ended";
  }
  if (!may_break) {
    EXPECT_TRUE(goaway_) << describe();
    EXPECT_TRUE(left_ == 0 || weather_.draining) << describe();
  }
}

void H2Client::judge(std::int32_t id, Stream& stream) {
  if (stream.cancelled) {
    if (stream.headed) check(stream.made, stream.answer, stream.ended);
    return;
  }
  if (stream.error_code == NGHTTP2_NO_ERROR) {
    EXPECT_TRUE(stream.ended) << stream.made.ask.target;
    answered_.push_back(stream.made.ask.target);
    check(stream.made, stream.answer, true);
    return;
  }
  if (fragile(stream.made) && stream.error_code == NGHTTP2_INTERNAL_ERROR) return;
  const bool refused = weather_.draining && id > served_up_to_ && stream.answer.status == 0;
  EXPECT_TRUE(refused || weather_.closed_now)
      << describe() << ": stream " << id << " to " << stream.made.ask.target << " was reset with "
      << stream.error_code;
}

int H2Client::on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                        std::size_t name_length, const std::uint8_t* value,
                        std::size_t value_length, std::uint8_t, void* p) {
  Stream& stream = self(p).streams_[frame->hd.stream_id];
  const std::string text(reinterpret_cast<const char*>(value), value_length);
  const std::string_view field(reinterpret_cast<const char*>(name), name_length);
  if (field == ":status") {
    stream.answer.status = std::stoi(text);
  } else {
    stream.answer.fields.emplace_back(field, text);
  }
  return 0;
}

int H2Client::on_frame(nghttp2_session*, const nghttp2_frame* frame, void* p) {
  H2Client& client = self(p);
  if (frame->hd.type == NGHTTP2_GOAWAY) {
    client.goaway_ = true;
    client.served_up_to_ = frame->goaway.last_stream_id;
    EXPECT_EQ(frame->goaway.error_code, std::uint32_t{NGHTTP2_NO_ERROR}) << client.describe();
  }
  if (frame->hd.type == NGHTTP2_HEADERS) client.streams_[frame->hd.stream_id].headed = true;
  const bool carries_end = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
  if (carries_end && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
    client.streams_[frame->hd.stream_id].ended = true;
  }
  return 0;
}

int H2Client::on_chunk(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                       std::size_t length, void* p) {
  Stream& stream = self(p).streams_[id];
  stream.answer.body.append(reinterpret_cast<const char*>(data), length);
  stream.unconsumed += length;
  return 0;
}

int H2Client::on_close(nghttp2_session*, std::int32_t id, std::uint32_t error_code, void* p) {
  Stream& stream = self(p).streams_[id];
  stream.closed = true;
  stream.error_code = error_code;
  self(p).judge(id, stream);
  return 0;
}

ssize_t H2Client::read_upload(nghttp2_session*, std::int32_t id, std::uint8_t* buffer,
                              std::size_t length, std::uint32_t* flags, nghttp2_data_source*,
                              void* p) {
  Stream& stream = self(p).streams_[id];
  const std::string& body = stream.made.ask.body;
  const std::size_t size = std::min(length, body.size() - stream.uploaded);
  std::memcpy(buffer, body.data() + stream.uploaded, size);
  stream.uploaded += size;
  if (stream.uploaded == body.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return static_cast<ssize_t>(size);
}

}  // namespace corehttpd::sim

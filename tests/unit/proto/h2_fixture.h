// A worker with one HTTP/2 connection over the simulated loop, and the library's client at its
// other end.
#pragma once

#include <nghttp2/nghttp2.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../http/fake_worker.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/memory_source.h"
#include "corehttpd/io/sim_loop.h"
#include "corehttpd/proto/connection_set.h"
#include "corehttpd/proto/h2.h"
#include "proto/h2/settings.h"

namespace corehttpd::h2::testing {

// Gives what the test has put in, says kBlocked where it runs dry.
class ScriptSource final : public http::BodySource {
 public:
  explicit ScriptSource(http::Transport& transport) : transport_(transport) {}
  void put(std::string_view text) {
    text_.append(text);
    transport_.body_ready();
  }
  void finish() {
    finished_ = true;
    transport_.body_ready();
  }
  void fail() {
    failed_ = true;
    transport_.body_ready();
  }
  Result<http::ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max,
                                 http::Forms) override {
    ++reads;
    if (failed_) return corehttpd::fail(Code::kReset, "origin");
    if (text_.empty())
      return http::ReadOutcome{0, finished_ ? http::Next::kEnd : http::Next::kBlocked};
    const std::size_t count = std::min(bytes_max, std::min(text_.size(), piece_bytes));
    BlockRef block = Block::allocate(count);
    std::memcpy(block->data(), text_.data(), count);
    text_.erase(0, count);
    out[0] = Segment::from_block(std::move(block), 0, count);
    const bool end = text_.empty() && finished_;
    return http::ReadOutcome{1, end             ? http::Next::kEnd
                                : text_.empty() ? http::Next::kBlocked
                                                : http::Next::kMore};
  }
  void cancel() noexcept override { cancelled = true; }
  const http::FieldList* trailers() override {
    return trailer_list.empty() ? nullptr : &trailer_list;
  }

  http::FieldList trailer_list;
  std::size_t piece_bytes = SIZE_MAX;
  int reads = 0;
  bool cancelled = false;

 private:
  http::Transport& transport_;
  std::string text_;
  bool finished_ = false, failed_ = false;
};

class FunctionStep final : public http::Step {
 public:
  using Function = std::function<http::StepOutcome(http::Exchange&)>;
  explicit FunctionStep(Function function) : function_(std::move(function)) {}
  http::StepOutcome run(http::Exchange& exchange) const override { return function_(exchange); }

 private:
  Function function_;
};

class CountCounters final : public http::Counters {
 public:
  void request_started() override { ++requests; }
  void connection_accepted() override {}
  void connection_closed() override { ++closed; }
  void activity(Activity activity, int change) override {
    active[static_cast<int>(activity)] += change;
  }
  Snapshot snapshot() const override { return {}; }
  int requests = 0, closed = 0;
  int active[3] = {};
};

struct Worker {
  explicit Worker(const io::SimOptions& options = {.short_transfers = false, .delays = false})
      : loop(options) {
    core.error_log = &quiet;
    site.settings = settings.view();
    site.name = "example.org";
    endpoint.address = IpAddress::parse("127.0.0.1");
    endpoint.text = "127.0.0.1:80";
    info.peer = IpAddress::parse("192.0.2.7");
    info.local = endpoint.address;
    info.endpoint = &endpoint;
    info.accepted_ms = loop.clock().now_ms();
  }
  ~Worker() {
    set.close_now();
    loop.run_until_blocked();
  }
  // Answers requests for uri. No "/", else it is a directory to nobody.
  void handle(std::string_view uri, FunctionStep::Function function) {
    steps.push_back(std::make_unique<FunctionStep>(std::move(function)));
    auto place = std::make_unique<Place>();
    place->steps[0] = steps.back().get();
    place->location.settings = settings.view();
    place->location.pipeline.steps = place->steps;
    sites.add(uri, place->location);
    places.push_back(std::move(place));
  }

  struct Place {
    const http::Step* steps[1];
    http::Location location;
  };
  LogTarget quiet{.fd = -1, .level = LogLevel::kDebug};
  http::testing::FakeSettings settings;
  http::CoreSettings& core = settings.add<http::CoreSettings>();
  Settings& h2 = settings.add<Settings>();
  http::Site site;
  http::Endpoint endpoint;
  http::ConnectionInfo info;
  http::testing::FakeSites sites{site};
  http::testing::PlainErrors errors;
  http::testing::NoteLog log;
  CountCounters counters;
  std::vector<std::unique_ptr<FunctionStep>> steps;
  std::vector<std::unique_ptr<Place>> places;
  io::SimLoop loop;
  io::Loop& base = loop;  // SimLoop has a turn() of its own.
  http::Services services{loop,     base.turn(), loop.blocks(), loop.clock(), sites, errors, log,
                          counters, {}};
  proto::ConnectionSet set{base.turn()};
};

// What came back for one stream.
struct Reply {
  int status = 0;
  std::vector<int> informational;
  std::vector<std::pair<std::string, std::string>> fields, trailers;
  std::string body;
  int data_frames = 0;
  bool ended = false;
  bool closed = false;
  std::uint32_t error_code = 0;
  std::string field(std::string_view name) const {
    for (const auto& [n, v] : fields)
      if (n == name) return v;
    return {};
  }
};

class Client {
 public:
  explicit Client(Worker& worker, bool auto_window = true)
      : worker_(worker), peer_(worker.loop.connect_pair()) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_option* options = nullptr;
    nghttp2_option_new(&options);
    nghttp2_option_set_no_auto_window_update(options, auto_window ? 0 : 1);
    nghttp2_session_client_new2(&session_, callbacks, this, options);
    nghttp2_option_del(options);
    nghttp2_session_callbacks_del(callbacks);
  }
  ~Client() { nghttp2_session_del(session_); }
  Client(const Client&) = delete;

  // Hands the connection over with what has been "received" so far.
  void connect(std::string_view first = {}) {
    take_over(peer_.fd(), worker_.info, worker_.services,
              std::as_bytes(std::span(first.data(), first.size())), worker_.set);
  }
  void start(std::uint32_t initial_window = 65535) {
    const nghttp2_settings_entry entry{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, initial_window};
    nghttp2_submit_settings(session_, 0, &entry, 1);
    connect();
    pump();
  }
  using Fields = std::vector<std::pair<std::string, std::string>>;
  std::int32_t get(std::string path, const Fields& more = {}) {
    return request("GET", path, more, nullptr);
  }
  std::int32_t request(std::string method, std::string path, const Fields& more,
                       const nghttp2_data_provider* body) {
    Fields fields = {
        {":method", method}, {":scheme", "http"}, {":authority", "example.org"}, {":path", path}};
    fields.insert(fields.end(), more.begin(), more.end());
    return submit(fields, body);
  }
  std::int32_t submit(const Fields& fields, const nghttp2_data_provider* body = nullptr) {
    std::vector<nghttp2_nv> values;
    for (const auto& [name, value] : fields) {
      values.push_back(
          {(std::uint8_t*)name.data(), (std::uint8_t*)value.data(), name.size(), value.size(), 0});
    }
    return nghttp2_submit_request(session_, nullptr, values.data(), values.size(), body, nullptr);
  }
  std::int32_t post(std::string path, std::string_view body, const Fields& more = {}) {
    upload_ = body;
    const nghttp2_data_provider provider{{.ptr = this}, read_upload};
    return request("POST", path, more, &provider);
  }
  // A request body that comes in parts: upload_more() until finish_upload().
  std::int32_t open_post(std::string path, const Fields& more = {}) {
    upload_open_ = true;
    return post(path, "", more);
  }
  void upload_more(std::int32_t id, std::string_view text, bool last) {
    upload_.append(text);
    upload_open_ = !last;
    nghttp2_session_resume_data(session_, id);
  }

  // Exchanges bytes with the server until neither has anything to say; time stands still.
  void pump() {
    for (int idle = 0; idle < 2;) {
      bool moved = send_out();
      worker_.loop.run_until_blocked();
      moved |= take_in();
      idle = moved ? 0 : idle + 1;
    }
  }
  bool send_out() {
    bool moved = false;
    const std::uint8_t* bytes = nullptr;
    for (ssize_t n; (n = nghttp2_session_mem_send(session_, &bytes)) > 0; moved = true) {
      peer_.push({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(n)});
    }
    return moved;
  }
  bool take_in() {
    const std::string arrived = peer_.take();
    if (arrived.empty()) return false;
    received_bytes += arrived.size();
    nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(arrived.data()),
                             arrived.size());
    return true;
  }
  // Frames that the library would not send.
  void push_frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                  std::string_view payload) {
    std::string frame;
    frame.push_back(static_cast<char>(payload.size() >> 16));
    frame.push_back(static_cast<char>(payload.size() >> 8));
    frame.push_back(static_cast<char>(payload.size()));
    frame.push_back(static_cast<char>(type));
    frame.push_back(static_cast<char>(flags));
    for (int shift = 24; shift >= 0; shift -= 8)
      frame.push_back(static_cast<char>(stream >> shift));
    peer_.push(frame.append(payload));
  }

  std::map<std::int32_t, Reply> replies;
  std::vector<std::pair<std::int32_t, std::uint32_t>> goaways;  // Last stream, error code.
  std::map<std::uint32_t, std::uint32_t> peer_settings;
  std::size_t received_bytes = 0;
  nghttp2_session* session() { return session_; }
  io::SimPeer& peer() { return peer_; }

 private:
  static Client& self(void* p) { return *static_cast<Client*>(p); }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* n,
                       std::size_t nl, const std::uint8_t* v, std::size_t vl, std::uint8_t,
                       void* p) {
    Reply& reply = self(p).replies[frame->hd.stream_id];
    std::string name(reinterpret_cast<const char*>(n), nl),
        value(reinterpret_cast<const char*>(v), vl);
    if (name == ":status") {
      if (value[0] == '1')
        reply.informational.push_back(std::stoi(value));
      else
        reply.status = std::stoi(value);
    } else if (reply.status != 0) {
      (frame->headers.cat == NGHTTP2_HCAT_HEADERS ? reply.trailers : reply.fields)
          .emplace_back(name, value);
    }
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* p) {
    Client& client = self(p);
    if (frame->hd.type == NGHTTP2_GOAWAY)
      client.goaways.emplace_back(frame->goaway.last_stream_id, frame->goaway.error_code);
    if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
      for (std::size_t i = 0; i < frame->settings.niv; ++i) {
        client.peer_settings[frame->settings.iv[i].settings_id] = frame->settings.iv[i].value;
      }
    }
    if (frame->hd.stream_id == 0) return 0;
    Reply& reply = client.replies[frame->hd.stream_id];
    if (frame->hd.type == NGHTTP2_DATA) ++reply.data_frames;
    if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      reply.ended = true;
    }
    return 0;
  }
  static int on_chunk(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                      std::size_t length, void* p) {
    self(p).replies[id].body.append(reinterpret_cast<const char*>(data), length);
    return 0;
  }
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error_code, void* p) {
    Reply& reply = self(p).replies[id];
    reply.closed = true;
    reply.error_code = error_code;
    return 0;
  }
  static ssize_t read_upload(nghttp2_session*, std::int32_t, std::uint8_t* buffer,
                             std::size_t length, std::uint32_t* flags, nghttp2_data_source* source,
                             void*) {
    Client& client = *static_cast<Client*>(source->ptr);
    const std::size_t count = std::min(length, client.upload_.size());
    std::memcpy(buffer, client.upload_.data(), count);
    client.upload_.erase(0, count);
    if (client.upload_.empty() && !client.upload_open_) *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (count == 0 && client.upload_open_) return NGHTTP2_ERR_DEFERRED;
    return static_cast<ssize_t>(count);
  }

  Worker& worker_;
  io::SimPeer& peer_;
  nghttp2_session* session_ = nullptr;
  std::string upload_;
  bool upload_open_ = false;
};

// 200 with text.
inline http::StepOutcome answer(http::Exchange& exchange, std::string_view text) {
  exchange.response().status = 200;
  exchange.response().content_type = "text/plain";
  exchange.response().content_length = text.size();
  exchange.respond(http::make_text_source(exchange.arena(), text));
  return http::StepOutcome::answered();
}

}  // namespace corehttpd::h2::testing

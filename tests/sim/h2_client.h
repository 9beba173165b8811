// Clients that speak HTTP/2, with the library's client session.
#pragma once

#include <nghttp2/nghttp2.h>

#include <map>

#include "sim/client.h"

namespace corehttpd::sim {

class H2Client final : public Client {
 public:
  H2Client(io::SimLoop& loop, io::SimPeer& peer, const Weather& weather, std::string tag);
  ~H2Client() override;
  bool active() const override;
  bool stalls() const override { return end_ == End::kStalledRead; }
  std::string describe() const override;

 private:
  // What the client does after its last request.
  enum class End : std::uint8_t {
    kGoaway,       // Says so when all is answered, and closes.
    kLeave,        // Closes at some moment, with a clean end of the connection and nothing said.
    kIdle,         // Waits for the server's GOAWAY.
    kReset,        // At any moment.
    kStalledRead,  // Takes nothing any more from some moment on.
    kCount,
  };
  struct Stream {
    Case made;
    Answer answer;
    std::size_t uploaded = 0;
    std::size_t unconsumed = 0;  // Received and no window given back for it.
    bool headed = false;         // The whole head is here.
    bool ended = false;
    bool closed = false;
    bool cancelled = false;  // Reset by the client.
    std::uint32_t error_code = 0;
  };
  void step() override;
  void ask();
  void collect_output();
  void give_window();
  void reset_some_stream();
  void say_goodbye();
  void at_end();
  void judge(std::int32_t id, Stream& stream);
  std::size_t open_streams() const;

  static H2Client& self(void* p) { return *static_cast<H2Client*>(p); }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_length, const std::uint8_t* value, std::size_t value_length,
                       std::uint8_t flags, void* p);
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* p);
  static int on_chunk(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                      std::size_t length, void* p);
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error_code, void* p);
  static ssize_t read_upload(nghttp2_session*, std::int32_t id, std::uint8_t* buffer,
                             std::size_t length, std::uint32_t* flags, nghttp2_data_source*,
                             void* p);

  nghttp2_session* session_ = nullptr;
  End end_;
  int left_;
  std::size_t depth_;
  std::map<std::int32_t, Stream> streams_;
  std::string out_;
  std::int32_t served_up_to_ = INT32_MAX;  // Of the last GOAWAY.
  bool goaway_ = false;
  bool said_all_ = false;
  bool left_early_ = false;
};

}  // namespace corehttpd::sim

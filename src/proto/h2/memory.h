// Memory of nghttp2's sessions. A session has one buffer of 16 KiB for the frame that it makes and
// a table of its streams, most of what an idle connection would cost: both lie on pages of their
// own here, which an idle session gives back to the system. Small pieces, a handful per request,
// are kept for the next ones without the C library's book-keeping.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>

namespace corehttpd::h2 {

class Memory {
 public:
  Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // For nghttp2_session_server_new3(); refers to this object, which must outlive the session.
  nghttp2_mem* library() { return &library_; }

  // Gives back what an idle session can do without: pages of zeroes, and the frame buffer's, whose
  // content is of no use between frames. Only when nghttp2_session_mem_send() has yielded its last
  // byte. They are there again, zeroed, when they are next touched.
  void rest();

 private:
  friend struct MemoryCallbacks;
  nghttp2_mem library_;
  void* frame_buffer_ = nullptr;
  void* table_ = nullptr;
};

}  // namespace corehttpd::h2

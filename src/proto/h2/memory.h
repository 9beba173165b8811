// Memory of nghttp2's sessions. A session has one buffer of 16 KiB for the frame that it makes and
// a table of its streams, most of what an idle connection would cost: both lie on pages of their
// own here, which an idle session gives back to the system. So do the session itself and the tables
// of its field compression, which are nearly all zeroes: while they rest, only the rest is kept.
// Small pieces, a handful per request, are kept for the next ones without the C library's
// book-keeping.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>

namespace corehttpd::h2 {

class Memory {
 public:
  Memory();
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // For nghttp2_session_server_new3(); refers to this object, which must outlive the session.
  nghttp2_mem* library() { return &library_; }

  // The session has been made: what it asks for from now on is not for its life.
  void seal() { sealed_ = true; }
  // Gives back what an idle session can do without: pages of zeroes, the frame buffer's, whose
  // content is of no use between frames, and the session's own after packing them. Only when
  // nghttp2_session_mem_send() has yielded its last byte. wake() must precede the next use of the
  // session.
  void rest();
  void wake() {
    if (packed_ != nullptr) unpack();
  }

 private:
  friend struct MemoryCallbacks;
  void* take_lasting(std::size_t size);
  void pack();
  void unpack();

  nghttp2_mem library_;
  void* frame_buffer_ = nullptr;
  void* table_ = nullptr;
  // The pages of what is there from the session's beginning to its end, and how much of them is
  // used.
  std::byte* lasting_ = nullptr;
  std::uint64_t* packed_ = nullptr;
  std::uint32_t lasting_bytes_ = 0;
  bool sealed_ = false;
};

}  // namespace corehttpd::h2

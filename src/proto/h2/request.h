// Makes a RequestHead from the fields of a HEADERS frame (RFC 9113 §8.3), and judges them: order,
// pseudo-fields, characters, limits, the agreement of :authority with Host, nginx's rules for field
// names. The library would do some of that, but answers nothing but a reset; a client that gets a
// 400 as well, as nginx gives it, can be mended.
#pragma once

#include <cstdint>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/message.h"
#include "proto/h2/priority.h"

namespace corehttpd::h2 {

class RequestBuilder {
 public:
  // The most a list may count: what is announced as SETTINGS_MAX_HEADER_LIST_SIZE. At most
  // UINT32_MAX.
  static std::uint32_t list_bytes_max(const http::CoreSettings& settings);

  RequestBuilder(Arena& arena, http::RequestHead& head, const http::CoreSettings& settings,
                 bool tls)
      : arena_(arena), head_(head), settings_(settings), tls_(tls) {}
  // One field, in the order of the frame; views valid during the call only.
  void add(std::string_view name, std::string_view value);
  // One field of the trailers: counted with the head's, and judged. Kept is nothing.
  void add_trailer(std::string_view name, std::string_view value);
  // The block is complete. Yields 0, or the status to refuse the request with; head then holds what
  // could be read.
  std::uint16_t finish(bool body_follows);
  // Why the request is malformed (RFC 9113 §8.1.1), as the error log says it; nullptr: it is not.
  // Besides the answer it deserves a reset.
  const char* flaw() const { return flaw_; }
  // How urgent the client said that the response is (RFC 9218).
  bool has_priority() const { return has_priority_; }
  Priority priority() const { return priority_; }
  // The list has grown to several times its limit: no honest client does that, it was told.
  bool far_too_large() const { return list_bytes_ / 4 > list_bytes_max(settings_); }

 private:
  // Pseudo-fields that have been seen; a second one is a flaw.
  enum Pseudo : std::uint8_t { kMethod = 1, kScheme = 2, kPath = 4, kAuthority = 8 };
  bool too_large() const;
  void add_pseudo(std::string_view name, std::string_view value);
  void add_regular(std::string_view name, std::string_view value);
  void add_host(std::string_view name, std::string_view value);
  bool keeps_name(std::string_view name);
  void spoil(const char* flaw) {
    if (flaw_ == nullptr) flaw_ = flaw;
  }
  std::uint16_t judge(bool body_follows);
  void join_cookies();
  void compose_request_line();
  std::uint16_t parse_path();

  Arena& arena_;
  http::RequestHead& head_;
  const http::CoreSettings& settings_;
  ArenaVector<std::string_view> cookies_;
  std::string_view path_;
  const char* flaw_ = nullptr;
  std::uint64_t list_bytes_ = 0;   // As RFC 9113 §6.5.2 counts.
  std::uint32_t field_count_ = 0;  // Pseudo-fields among them.
  std::uint8_t pseudo_ = 0;        // Bits of Pseudo.
  Priority priority_;
  bool large_field_ = false;
  bool tls_;
  bool has_authority_ = false;
  bool has_host_ = false;
  bool has_regular_ = false;
  bool has_priority_ = false;
  bool bad_ = false;
};

}  // namespace corehttpd::h2

// Makes a RequestHead from the fields of a HEADERS frame (RFC 9113 §8.3). The library has checked
// their order, the pseudo-fields, case and characters; what is left are limits, the agreement of
// :authority with Host, and nginx's rules for field names.
#pragma once

#include <cstdint>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/message.h"

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
  // The block is complete. Yields 0, or the status to refuse the request with; head then holds what
  // could be read.
  std::uint16_t finish(bool body_follows);
  // The client said how urgent the response is (RFC 9218).
  bool has_priority() const { return has_priority_; }
  // The list has grown to several times its limit: no honest client does that, it was told.
  bool far_too_large() const { return list_bytes_ / 4 > list_bytes_max(settings_); }

 private:
  void add_pseudo(std::string_view name, std::string_view value);
  void add_host(std::string_view name, std::string_view value);
  bool keeps_name(std::string_view name) const;
  void join_cookies();
  void compose_request_line();
  std::uint16_t parse_path();

  Arena& arena_;
  http::RequestHead& head_;
  const http::CoreSettings& settings_;
  ArenaVector<std::string_view> cookies_;
  std::string_view path_;
  std::uint64_t list_bytes_ = 0;
  std::uint32_t field_count_ = 0;  // Pseudo-fields among them.
  bool large_field_ = false;
  bool tls_;
  bool has_authority_ = false;
  bool has_priority_ = false;
  bool bad_ = false;
};

}  // namespace corehttpd::h2

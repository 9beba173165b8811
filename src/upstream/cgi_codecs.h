// SCGI and uwsgi: a request is one head of parameters and the bare body, the response is bare too
// and ends with the connection.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/base/segment.h"
#include "corehttpd/upstream/codec.h"
#include "upstream/fastcgi_codec.h"

namespace corehttpd::upstream {

using Param = fastcgi::Param;

namespace scgi {
// The netstring of all parameters: CONTENT_LENGTH, which has to be first, SCGI, and the others.
Segment encode_head(std::span<const Param> params, std::uint64_t body_bytes);
}  // namespace scgi

namespace uwsgi {
// A packet of a 4-byte header and the parameters, with text behind it. Empty: the parameters take
// more than the 65,535 bytes that its length can say.
Segment encode_head(std::span<const Param> params, std::uint8_t modifier1, std::uint8_t modifier2,
                    std::string_view text);
}  // namespace uwsgi

// Passes everything through.
class PlainCodec final : public OriginCodec {
 public:
  OriginEvent next(std::span<const std::byte>& input) override;
  bool close_is_end() const override { return true; }
  std::string describe_problem() const override { return "nothing wrong"; }
  std::size_t frame_max() const override { return SIZE_MAX; }
  std::size_t begin_frame(std::byte*, std::size_t) override { return 0; }
  std::size_t end_body(std::byte*) override { return 0; }
};

}  // namespace corehttpd::upstream

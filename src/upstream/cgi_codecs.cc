#include "upstream/cgi_codecs.h"

#include <fmt/format.h>

#include <cstring>

#include "corehttpd/base/check.h"

namespace corehttpd::upstream {
namespace {

// Writes into a block that is known to be large enough.
class Writer {
 public:
  explicit Writer(std::size_t bytes) : block_(Block::allocate(bytes)), at_(block_->data()) {}
  void text(std::string_view bytes) {
    if (!bytes.empty()) std::memcpy(at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  void byte(std::uint8_t value) { *at_++ = std::byte{value}; }
  void number16(std::size_t value) {
    byte(static_cast<std::uint8_t>(value));
    byte(static_cast<std::uint8_t>(value >> 8));
  }
  Segment finish(std::size_t bytes) {
    CORE_CHECK(at_ == block_->data() + bytes);
    return Segment::from_block(std::move(block_), 0, bytes);
  }

 private:
  BlockRef block_;
  std::byte* at_;
};

constexpr std::string_view kNul("", 1);

}  // namespace

namespace scgi {

Segment encode_head(std::span<const Param> params, std::uint64_t body_bytes) {
  const auto is_own = [](const Param& p) { return p.name == "CONTENT_LENGTH" || p.name == "SCGI"; };
  const fmt::format_int length(body_bytes);
  std::size_t total = 15 + length.size() + 1 + 7;  // "CONTENT_LENGTH\0", "SCGI\0" "1\0".
  for (const Param& param : params) {
    if (!is_own(param)) total += param.name.size() + param.value.size() + 2;
  }
  const fmt::format_int prefix(total);
  const std::size_t bytes = prefix.size() + 1 + total + 1;
  Writer out(bytes);
  out.text({prefix.data(), prefix.size()});
  out.text(":CONTENT_LENGTH");
  out.text(kNul);
  out.text({length.data(), length.size()});
  out.text(std::string_view("\0SCGI\0001\0", 8));
  for (const Param& param : params) {
    if (is_own(param)) continue;
    out.text(param.name);
    out.text(kNul);
    out.text(param.value);
    out.text(kNul);
  }
  out.text(",");
  return out.finish(bytes);
}

}  // namespace scgi

namespace uwsgi {

Segment encode_head(std::span<const Param> params, std::uint8_t modifier1, std::uint8_t modifier2,
                    std::string_view text) {
  std::size_t total = 0;
  for (const Param& param : params) total += param.name.size() + param.value.size() + 4;
  if (total > 65535) return {};
  const std::size_t bytes = 4 + total + text.size();
  Writer out(bytes);
  out.byte(modifier1);
  out.number16(total);
  out.byte(modifier2);
  for (const Param& param : params) {
    out.number16(param.name.size());
    out.text(param.name);
    out.number16(param.value.size());
    out.text(param.value);
  }
  out.text(text);
  return out.finish(bytes);
}

}  // namespace uwsgi

OriginEvent PlainCodec::next(std::span<const std::byte>& input) {
  if (input.empty()) return {};
  const std::span<const std::byte> bytes = input;
  input = {};
  return {.kind = OriginEvent::Kind::kOutput, .bytes = bytes};
}

}  // namespace corehttpd::upstream

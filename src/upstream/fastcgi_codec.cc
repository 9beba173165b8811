#include "upstream/fastcgi_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "corehttpd/base/check.h"

namespace corehttpd::upstream::fastcgi {
namespace {

constexpr std::uint16_t kRoleResponder = 1;
constexpr std::uint8_t kKeepConnection = 1;
constexpr std::size_t kLengthBytesMax = 8;  // Two lengths of four bytes each.
constexpr std::size_t kEndRequestBytes = 8;

unsigned byte_at(std::span<const std::byte> bytes, std::size_t i) {
  return static_cast<unsigned>(bytes[i]);
}

std::size_t write_length(std::byte* out, std::size_t length) {
  if (length < 128) {
    out[0] = static_cast<std::byte>(length);
    return 1;
  }
  out[0] = static_cast<std::byte>(0x80 | (length >> 24));
  out[1] = static_cast<std::byte>(length >> 16);
  out[2] = static_cast<std::byte>(length >> 8);
  out[3] = static_cast<std::byte>(length);
  return 4;
}

// Writes a stream of PARAMS content and puts a record header wherever one is due. The pairs may be
// cut anywhere: the application joins the stream before it reads pairs.
class ParamsWriter {
 public:
  ParamsWriter(std::byte* out, std::size_t total) : out_(out), left_(total) {}

  void put(const void* bytes, std::size_t length) {
    const auto* from = static_cast<const std::byte*>(bytes);
    while (length > 0) {
      if (room_ == 0) begin_record();
      const std::size_t now = std::min(length, room_);
      std::memcpy(out_, from, now);
      out_ += now;
      from += now;
      length -= now;
      room_ -= now;
    }
  }
  std::byte* position() const { return out_; }

 private:
  void begin_record() {
    room_ = std::min(left_, kContentMax);
    write_header(out_, RecordType::kParams, room_);
    out_ += kHeaderBytes;
    left_ -= room_;
  }

  std::byte* out_;
  std::size_t left_;
  std::size_t room_ = 0;
};

}  // namespace

void write_header(std::byte* out, RecordType type, std::size_t length) {
  CORE_DCHECK(length <= 65535);
  out[0] = std::byte{kVersion};
  out[1] = static_cast<std::byte>(type);
  out[2] = std::byte{kRequestId >> 8};
  out[3] = std::byte{kRequestId & 0xff};
  out[4] = static_cast<std::byte>(length >> 8);
  out[5] = static_cast<std::byte>(length);
  out[6] = std::byte{0};
  out[7] = std::byte{0};
}

std::size_t params_bytes(std::span<const Param> params) {
  std::size_t total = 0;
  for (const Param& param : params) {
    total += (param.name.size() < 128 ? 1 : 4) + (param.value.size() < 128 ? 1 : 4);
    total += param.name.size() + param.value.size();
  }
  return total;
}

Segment encode_head(std::span<const Param> params, bool keep_connection) {
  const std::size_t total = params_bytes(params);
  const std::size_t records = (total + kContentMax - 1) / kContentMax;
  const std::size_t bytes = 2 * kHeaderBytes + total + (records + 1) * kHeaderBytes;
  BlockRef block = Block::allocate(bytes);
  std::byte* out = block->data();

  write_header(out, RecordType::kBeginRequest, kHeaderBytes);
  out += kHeaderBytes;
  std::memset(out, 0, kHeaderBytes);
  out[1] = std::byte{kRoleResponder};
  out[2] = std::byte{keep_connection ? kKeepConnection : std::uint8_t{0}};
  out += kHeaderBytes;

  ParamsWriter writer(out, total);
  for (const Param& param : params) {
    std::byte lengths[kLengthBytesMax];
    std::size_t used = write_length(lengths, param.name.size());
    used += write_length(lengths + used, param.value.size());
    writer.put(lengths, used);
    writer.put(param.name.data(), param.name.size());
    writer.put(param.value.data(), param.value.size());
  }
  write_header(writer.position(), RecordType::kParams, 0);
  CORE_CHECK(writer.position() + kHeaderBytes == block->data() + bytes);
  return Segment::from_block(std::move(block), 0, bytes);
}

std::size_t Codec::begin_frame(std::byte* out, std::size_t length) {
  write_header(out, RecordType::kStdin, length);
  return kHeaderBytes;
}

std::size_t Codec::abort(std::byte* out) {
  write_header(out, RecordType::kAbortRequest, 0);
  return kHeaderBytes;
}

std::size_t Codec::end_body(std::byte* out) {
  write_header(out, RecordType::kStdin, 0);
  return kHeaderBytes;
}

OriginEvent Codec::next(std::span<const std::byte>& input) {
  while (!input.empty()) {
    switch (state_) {
      case State::kHeader: {
        const std::size_t now = std::min<std::size_t>(input.size(), kHeaderBytes - header_bytes_);
        std::memcpy(header_.data() + header_bytes_, input.data(), now);
        header_bytes_ = static_cast<std::uint8_t>(header_bytes_ + now);
        input = input.subspan(now);
        if (header_bytes_ < kHeaderBytes) break;
        if (OriginEvent event = on_header(); event.kind != OriginEvent::Kind::kNeedMore) {
          return event;
        }
        break;
      }
      case State::kContent:
        if (OriginEvent event = take_content(input); event.kind != OriginEvent::Kind::kNeedMore) {
          return event;
        }
        break;
      case State::kPadding: {
        const std::size_t now = std::min<std::size_t>(input.size(), padding_left_);
        padding_left_ = static_cast<std::uint8_t>(padding_left_ - now);
        input = input.subspan(now);
        if (padding_left_ == 0) content_done();
        break;
      }
      case State::kEnded:
        return fail(Problem::kAfterEnd, 0);
      case State::kBroken:
        return {.kind = OriginEvent::Kind::kMalformed};
    }
  }
  return {};
}

// A whole header is there. Yields an event only where the record itself is one (an empty STDOUT) or
// breaks the protocol.
OriginEvent Codec::on_header() {
  const unsigned version = byte_at(header_, 0);
  const unsigned type = byte_at(header_, 1);
  const unsigned id = byte_at(header_, 2) << 8 | byte_at(header_, 3);
  if (version != kVersion) return fail(Problem::kVersion, version);
  if (type != static_cast<unsigned>(RecordType::kStdout) &&
      type != static_cast<unsigned>(RecordType::kStderr) &&
      type != static_cast<unsigned>(RecordType::kEndRequest)) {
    return fail(Problem::kType, type);
  }
  if (id != kRequestId) return fail(Problem::kRequestId, id);
  type_ = static_cast<RecordType>(type);
  content_left_ = static_cast<std::uint16_t>(byte_at(header_, 4) << 8 | byte_at(header_, 5));
  padding_left_ = static_cast<std::uint8_t>(header_[6]);
  header_bytes_ = 0;
  state_ = State::kContent;
  if (type_ == RecordType::kEndRequest) {
    if (content_left_ != kEndRequestBytes) return fail(Problem::kEndLength, content_left_);
    return {};
  }
  if (content_left_ > 0) {
    // A stream that was closed cannot go on: whose bytes would these be?
    if (type_ == RecordType::kStdout && output_ended_) return fail(Problem::kAfterOutputEnd, 0);
    return {};
  }
  content_done();
  if (type_ != RecordType::kStdout) return {};
  output_ended_ = true;
  return {.kind = OriginEvent::Kind::kOutputEnd};
}

OriginEvent Codec::take_content(std::span<const std::byte>& input) {
  const std::size_t now = std::min<std::size_t>(input.size(), content_left_);
  const std::span<const std::byte> bytes = input.first(now);
  input = input.subspan(now);
  content_left_ = static_cast<std::uint16_t>(content_left_ - now);
  if (type_ == RecordType::kEndRequest) {
    std::memcpy(header_.data() + header_bytes_, bytes.data(), now);
    header_bytes_ = static_cast<std::uint8_t>(header_bytes_ + now);
    return content_left_ == 0 ? on_end_request() : OriginEvent{};
  }
  const bool last = content_left_ == 0;
  if (last) content_done();
  return {
      type_ == RecordType::kStdout ? OriginEvent::Kind::kOutput : OriginEvent::Kind::kDiagnostics,
      last, bytes};
}

OriginEvent Codec::on_end_request() {
  application_status_ = byte_at(header_, 0) << 24 | byte_at(header_, 1) << 16 |
                        byte_at(header_, 2) << 8 | byte_at(header_, 3);
  const unsigned protocol_status = byte_at(header_, 4);
  header_bytes_ = 0;
  if (protocol_status != 0) return fail(Problem::kProtocolStatus, protocol_status);
  // Padding of END_REQUEST belongs to the response but need not have arrived to end it.
  content_done();
  return {.kind = OriginEvent::Kind::kEnd};
}

// The content of a record is complete: on to its padding or to the next header.
void Codec::content_done() {
  if (padding_left_ > 0) {
    state_ = State::kPadding;
  } else {
    state_ = type_ == RecordType::kEndRequest ? State::kEnded : State::kHeader;
  }
}

OriginEvent Codec::fail(Problem problem, unsigned detail) {
  state_ = State::kBroken;
  problem_ = problem;
  detail_ = detail;
  return {.kind = OriginEvent::Kind::kMalformed};
}

std::string Codec::describe_problem() const {
  constexpr std::string_view kStatusNames[] = {"complete", "CANT_MPX_CONN", "OVERLOADED",
                                               "UNKNOWN_ROLE"};
  switch (problem_) {
    case Problem::kNone:
      break;
    case Problem::kVersion:
      return fmt::format("unsupported FastCGI protocol version: {}", detail_);
    case Problem::kRequestId:
      return fmt::format("unexpected FastCGI request id: {}", detail_);
    case Problem::kType:
      return fmt::format("unexpected FastCGI record: {}", detail_);
    case Problem::kEndLength:
      return fmt::format("FastCGI END_REQUEST of {} bytes", detail_);
    case Problem::kProtocolStatus:
      return fmt::format("FastCGI END_REQUEST that refuses the request: {}",
                         detail_ < 4 ? kStatusNames[detail_] : "unknown protocol status");
    case Problem::kAfterEnd:
      return "data after FastCGI END_REQUEST";
    case Problem::kAfterOutputEnd:
      return "FastCGI stdout after it was closed";
  }
  return "no problem";
}

}  // namespace corehttpd::upstream::fastcgi

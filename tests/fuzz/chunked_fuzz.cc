// The chunked coding: whole, split in two and byte by byte must give the same data, the same end
// and the same refusal.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proto/h1/chunked.h"

using corehttpd::h1::ChunkedDecoder;

namespace {

struct Decoded {
  std::string data;
  std::size_t consumed = 0;
  bool ended = false, malformed = false;
  bool operator==(const Decoded&) const = default;
};

void feed(ChunkedDecoder& decoder, std::string_view text, std::size_t data_max, Decoded& out) {
  auto input = std::as_bytes(std::span(text.data(), text.size()));
  while (!out.ended && !out.malformed) {
    const auto step = decoder.next(input, data_max);
    if (step.consumed > input.size() || step.data.size() > data_max) std::abort();
    input = input.subspan(step.consumed);
    out.consumed += step.consumed;
    out.data.append(reinterpret_cast<const char*>(step.data.data()), step.data.size());
    out.ended = step.event == ChunkedDecoder::Event::kEnd;
    out.malformed = step.event == ChunkedDecoder::Event::kMalformed;
    if (step.event == ChunkedDecoder::Event::kNeedInput) {
      if (!input.empty()) std::abort();
      return;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t split = (data[0] | std::size_t{data[1]} << 8) % (size - 1);
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  ChunkedDecoder decoders[3];
  Decoded whole, parts, bytes;
  feed(decoders[0], text, SIZE_MAX, whole);
  feed(decoders[1], text.substr(0, split), 1 + data[0] % 7, parts);
  if (!parts.ended && !parts.malformed)
    feed(decoders[1], text.substr(split), 1 + data[1] % 7, parts);
  for (std::size_t i = 0; i < text.size() && !bytes.ended && !bytes.malformed; ++i)
    feed(decoders[2], text.substr(i, 1), 1, bytes);
  if (!(whole == parts) || !(whole == bytes)) std::abort();
  return 0;
}

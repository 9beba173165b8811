// FastCGI records as an origin may send them, cut at every place the input chooses, then the head
// of the response that they carry. The same bytes in one piece and in small ones must mean the
// same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "corehttpd/base/arena.h"
#include "upstream/fastcgi_codec.h"
#include "upstream/response_head.h"

namespace {

using corehttpd::upstream::OriginEvent;

struct Outcome {
  std::string output, diagnostics;
  bool ended = false, malformed = false;
  bool operator==(const Outcome&) const = default;
};

Outcome decode(std::span<const std::byte> bytes, std::size_t step) {
  corehttpd::upstream::fastcgi::Codec codec;
  Outcome outcome;
  while (!bytes.empty() && !outcome.ended && !outcome.malformed) {
    std::span<const std::byte> input = bytes.first(std::min(step, bytes.size()));
    bytes = bytes.subspan(input.size());
    for (;;) {
      const OriginEvent event = codec.next(input);
      const auto* text = reinterpret_cast<const char*>(event.bytes.data());
      if (event.kind == OriginEvent::Kind::kNeedMore) break;
      if (event.kind == OriginEvent::Kind::kOutput) outcome.output.append(text, event.bytes.size());
      if (event.kind == OriginEvent::Kind::kDiagnostics) {
        outcome.diagnostics.append(text, event.bytes.size());
      }
      outcome.ended = event.kind == OriginEvent::Kind::kEnd;
      outcome.malformed = event.kind == OriginEvent::Kind::kMalformed;
      if (outcome.malformed && codec.describe_problem().empty()) std::abort();
      if (outcome.ended || outcome.malformed) break;
    }
  }
  return outcome;
}

void read_head(std::string_view text, std::size_t step) {
  corehttpd::Arena arena;
  corehttpd::upstream::ResponseHeadReader reader(4096);
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(text.data()), text.size());
  using State = corehttpd::upstream::ResponseHeadReader::State;
  while (!bytes.empty() && reader.state() == State::kReading) {
    std::span<const std::byte> input = bytes.first(std::min(step, bytes.size()));
    const std::size_t given = input.size();
    reader.read(arena, input);
    bytes = bytes.subspan(given - input.size());
  }
  if (reader.state() == State::kComplete) {
    if (reader.head().status < 100 || reader.head().status > 999) std::abort();
    for (const auto& field : reader.head().fields) {
      if (field.name.empty() || field.value.find('\n') != std::string_view::npos) std::abort();
    }
  }
  if (reader.state() == State::kInvalid && reader.problem().empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t step = data[0] % 61 + 1;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const Outcome whole = decode(bytes, SIZE_MAX);
  if (!(whole == decode(bytes, step))) std::abort();
  read_head(whole.output, step);
  // The head reader also alone: most inputs are no records.
  read_head({reinterpret_cast<const char*>(data) + 1, size - 1}, step);
  return 0;
}

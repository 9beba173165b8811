#include "transform/recode_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "corehttpd/base/text.h"

namespace corehttpd::transform {
namespace {

using http::Next;
using http::ReadOutcome;

// A byte of UTF-8 may become the ten of a reference, so that one inner read costs at most ten times
// as much memory, for a moment.
constexpr std::size_t kInnerReadBytes = 8 * 1024;

// How many bytes the character that begins with first should have.
std::size_t announced_length(unsigned char first) {
  if (first < 0xc2 || first > 0xf4) return 1;
  return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
}

std::uint32_t decode(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (bytes.size() == 1) return first;
  std::uint32_t character = first & (0xffu >> (bytes.size() + 1));
  for (const char c : bytes.substr(1)) {
    character = character << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  }
  return character;
}

}  // namespace

void Recoder::append(std::string_view bytes, std::string& out) {
  if (recoding_.from_utf8()) {
    rest_.append(bytes);
    return append_characters(out, false);
  }
  for (const char c : bytes) {
    if (!recoding_.back) {
      out.append(recoding_.map->forward[static_cast<unsigned char>(c)].view());
    } else {
      out.push_back(recoding_.map->find_back(static_cast<unsigned char>(c)).value_or('?'));
    }
  }
}

void Recoder::finish(std::string& out) { append_characters(out, true); }

void Recoder::append_characters(std::string& out, bool last) {
  std::string_view text = rest_;
  while (!text.empty()) {
    const auto announced = announced_length(static_cast<unsigned char>(text[0]));
    if (text.size() < announced && !last) break;
    const std::size_t length = text::utf8_length(text);
    if (length == 0) {
      out.push_back('?');
      text.remove_prefix(1);
      continue;
    }
    const std::uint32_t character = decode(text.substr(0, length));
    if (const auto byte = recoding_.map->find_back(character)) {
      out.push_back(*byte);
    } else {
      fmt::format_to(std::back_inserter(out), "&#{};", character);
    }
    text.remove_prefix(length);
  }
  rest_.erase(0, rest_.size() - text.size());
}

Result<ReadOutcome> RecodeSource::read(std::span<Segment> out, std::size_t bytes_max, http::Forms) {
  if (sent_ == text_.size()) {
    text_.clear();
    sent_ = 0;
    Next next = inner_ended_ ? Next::kEnd : Next::kMore;
    if (!inner_ended_) {
      std::array<Segment, 4> input;
      const ReadOutcome got = CORE_TRY(inner_.read(input, kInnerReadBytes, http::Forms::kMemory));
      for (std::uint32_t i = 0; i < got.segments; ++i) recoder_.append(input[i].view(), text_);
      inner_ended_ = got.next == Next::kEnd;
      if (inner_ended_) recoder_.finish(text_);
      next = got.next;
    }
    if (text_.empty()) return ReadOutcome{0, next};
  }
  BlockRef block = blocks_.take();
  if (!block) return fail(Code::kUnavailable, "recoding a response: out of buffers");
  const std::size_t length = std::min({bytes_max, block->capacity(), text_.size() - sent_});
  std::memcpy(block->data(), text_.data() + sent_, length);
  sent_ += length;
  out[0] = Segment::from_block(std::move(block), 0, length);
  const bool end = inner_ended_ && sent_ == text_.size();
  return ReadOutcome{1, end ? Next::kEnd : Next::kMore};
}

}  // namespace corehttpd::transform

// Request heads: any split of the input must find the same head, and what is accepted must keep its
// promises to handlers.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "proto/h1/head_parser.h"

using namespace corehttpd;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_accepted(const http::RequestHead& request, const h1::ParsedHead& parsed) {
  require(http::is_token(request.method_text));
  require(!request.target.empty() &&
          request.target.find_first_of(" \r\n\t") == std::string_view::npos);
  int hosts = 0;
  for (const http::Field& field : request.fields) {
    require(http::is_token(field.name) && http::is_field_value(field.value));
    require(field.value.empty() || (field.value.front() != ' ' && field.value.back() != ' '));
    hosts += field.id == http::FieldName::kHost ? 1 : 0;
  }
  require(hosts <= 1 && (hosts == 1 || request.version == http::Version::k10));
  const bool chunked = request.fields.find(http::FieldName::kTransferEncoding) != nullptr;
  require(chunked == (parsed.framing == h1::BodyFraming::kChunked));
  require(!chunked || !request.content_length);
  require(request.body_expected == (parsed.framing != h1::BodyFraming::kNone));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t split = (data[0] | std::size_t{data[1]} << 8) % (size - 1);
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  http::CoreSettings settings;
  settings.ignore_invalid_headers = data[0] % 3 != 0;
  settings.underscores_in_headers = data[1] % 3 == 0;
  const auto limits = h1::HeadLimits::from(settings);
  using Verdict = h1::HeadScanner::Verdict;

  h1::HeadScanner whole, parts;
  const Verdict verdict = whole.scan(text, limits);
  Verdict other = parts.scan(text.substr(0, split), limits);
  if (other == Verdict::kIncomplete) {
    h1::judge_beginning(text.substr(std::min(parts.begin(), split)));
    other = parts.scan(text, limits);
  }
  require(verdict == other);
  if (verdict != Verdict::kComplete) return 0;
  require(whole.begin() == parts.begin() && whole.end() == parts.end() &&
          whole.end() <= text.size());

  Arena arena;
  http::RequestHead request;
  const auto head = arena.copy(text.substr(whole.begin(), whole.end() - whole.begin()));
  const auto parsed = h1::parse_head(head, limits, arena, request);
  if (parsed.status == 0) check_accepted(request, parsed);
  return 0;
}

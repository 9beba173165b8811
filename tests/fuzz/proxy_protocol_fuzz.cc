// PROXY headers: what is decided of the whole must not have been decided otherwise of its
// beginning, and what is accepted keeps to the limits.
#include <algorithm>
#include <cstdint>

#include "corehttpd/base/check.h"
#include "proto/proxy_protocol.h"

using namespace corehttpd;
using namespace corehttpd::proto;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using Verdict = ProxyHeaderScan::Verdict;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto whole = scan_proxy_header(bytes);
  // Byte by byte, as it may come: incomplete until the same verdict.
  const std::size_t length_max = std::min<std::size_t>(size, kProxyHeaderMax);
  for (std::size_t length = 0; length <= length_max; ++length) {
    const auto part = scan_proxy_header(bytes.first(length));
    if (part.verdict == Verdict::kIncomplete) continue;
    CORE_CHECK(part.verdict == whole.verdict && part.bytes == whole.bytes);
    if (part.verdict == Verdict::kComplete) CORE_CHECK(length == whole.bytes);
    break;
  }
  if (whole.verdict != Verdict::kComplete) return 0;
  CORE_CHECK(whole.bytes <= size && whole.bytes <= kProxyHeaderMax);
  const auto header = parse_proxy_header(bytes.first(whole.bytes));
  if (!header || !*header) return 0;
  CORE_CHECK(header->source().family == header->destination().family);
  CORE_CHECK(header->source().binary().size() >= 4);
  CORE_CHECK(header->tlvs().size() < whole.bytes);
  return 0;
}

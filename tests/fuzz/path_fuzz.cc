// Request targets, paths and hosts: whatever comes in, what comes out keeps the promises of
// target.h.
#include <cstdint>
#include <cstdlib>

#include "corehttpd/base/check.h"
#include "corehttpd/http/target.h"

using namespace corehttpd;
using namespace corehttpd::http;

namespace {

bool has_dot_segment(std::string_view path) {
  for (std::string_view inner : {"/../", "/./"})
    if (path.find(inner) != std::string_view::npos) return true;
  return path.ends_with("/..") || path.ends_with("/.");
}

void check_path(Arena& arena, std::string_view raw, bool merge_slashes) {
  const auto path = normalize_path(arena, raw, merge_slashes);
  if (!path) {
    CORE_CHECK(path.error().detail == 400);
    return;
  }
  CORE_CHECK(!path->empty() && path->front() == '/');
  CORE_CHECK(path->size() <= raw.size());
  CORE_CHECK(!has_dot_segment(*path));
  CORE_CHECK(path->find('\0') == std::string_view::npos);
  if (merge_slashes) CORE_CHECK(path->find("//") == std::string_view::npos);
  // The normal form is its own normal form, by way of what a redirect would send.
  const auto again = normalize_path(arena, escape_uri(arena, *path), merge_slashes);
  CORE_CHECK(again && *again == *path);
  const std::string_view location = escape_location(arena, *path);
  CORE_CHECK(location.find_first_of("\r\n ") == std::string_view::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Arena arena;
  if (const auto target = parse_target(arena, text)) {
    check_path(arena, target->raw_path, true);
    check_path(arena, target->raw_path, false);
    CORE_CHECK(target->raw_path.find_first_of("?#") == std::string_view::npos);
  }
  check_path(arena, text, true);
  check_path(arena, text, false);
  if (const auto host = parse_host(arena, text)) {
    CORE_CHECK(!host->empty() && !host->ends_with('.'));
    CORE_CHECK(host->find_first_of("/@ ?#") == std::string_view::npos);
    const auto again = parse_host(arena, *host);
    CORE_CHECK(again && *again == *host);
  }
  return 0;
}

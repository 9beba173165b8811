// Names in directory listings: the first byte chooses format and kind, the second splits the rest
// into URI and name.
#include <algorithm>
#include <cstdint>
#include <string>

#include "corehttpd/base/check.h"
#include "corehttpd/base/text.h"
#include "handlers/listing_format.h"

using namespace corehttpd;
using namespace corehttpd::handlers;

namespace {

// What would end an attribute, a string or an element early.
void check_html(std::string_view page, std::size_t tags) {
  CORE_CHECK(static_cast<std::size_t>(std::count(page.begin(), page.end(), '<')) == tags);
  CORE_CHECK(static_cast<std::size_t>(std::count(page.begin(), page.end(), '>')) == tags);
}

void check_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = text::utf8_length(text);
    CORE_CHECK(length != 0);
    text.remove_prefix(length);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string_view uri = text.substr(0, data[1] % (text.size() + 1));
  std::string name(text.substr(uri.size()));
  name.resize(std::min<std::size_t>(name.size(), 255));
  ListingOptions options;
  options.format = static_cast<ListingFormat>(data[0] & 3);
  options.exact_size = (data[0] & 4) != 0;
  const auto kind = static_cast<assets::DirectoryEntry::Kind>((data[0] >> 3) % 3);
  std::string out;
  append_listing_head(out, options, uri, "f");
  append_listing_entry(out, options, {name, size, static_cast<std::int64_t>(size), kind}, true);
  append_listing_tail(out, options);
  switch (options.format) {
    case ListingFormat::kHtml:
      check_html(out, 18);
      break;
    case ListingFormat::kXml:
      check_html(out, 5);
      check_utf8(out);
      break;
    case ListingFormat::kJson:
      check_utf8(out);
      CORE_CHECK(std::count(out.begin(), out.end(), '\n') == 2);
      break;
    case ListingFormat::kJsonp:
      check_utf8(out);
      CORE_CHECK(std::count(out.begin(), out.end(), '\n') == 3);
      break;
  }
  return 0;
}

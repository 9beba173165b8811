#include "transform/refusal.h"

#include <fmt/core.h>

#include "corehttpd/http/memory_source.h"

namespace corehttpd::transform {

void drop_representation(http::ResponseHead& head) {
  head.content_type = {};
  head.charset = {};
  head.content_length.reset();
  head.accept_ranges = false;
  head.fields.remove(http::FieldName::kContentEncoding);
  head.fields.remove(http::FieldName::kContentRange);
}

http::BodySource* refuse(http::Exchange& exchange, std::uint16_t status, http::BodySource* body) {
  if (body != nullptr) body->cancel();
  http::ResponseHead& head = exchange.response();
  drop_representation(head);
  head.status = status;
  head.reason = {};
  head.etag = {};
  head.last_modified = -1;
  // How long the representation may be kept is not how long its refusal may.
  head.fields.remove(http::FieldName::kCacheControl);
  head.fields.remove(http::FieldName::kExpires);
  char number[8];
  const auto end = fmt::format_to(number, "{} ", status);
  const std::string_view code(number, static_cast<std::size_t>(end - number));
  const std::string_view phrase = http::reason_phrase(status);
  Arena& arena = exchange.arena();
  const std::string_view page =
      arena.concat("<html>\r\n<head><title>", code, phrase, "</title></head>\r\n<body>\r\n",
                   "<center><h1>", code, phrase, "</h1></center>\r\n</body>\r\n</html>\r\n");
  head.content_type = "text/html";
  head.content_length = page.size();
  return http::make_text_source(arena, page);
}

}  // namespace corehttpd::transform

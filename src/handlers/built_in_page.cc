#include "handlers/built_in_page.h"

#include <string_view>

#include "corehttpd/base/block.h"
#include "corehttpd/http/memory_source.h"
#include "corehttpd/http/message.h"

namespace corehttpd::handlers {
namespace {

struct Wording {
  std::string_view title;   // After the number.
  std::string_view detail;  // A second line; may be empty.
  std::uint16_t number;
};

Wording wording_of(std::uint16_t status) {
  switch (status) {
    case 302:
      return {"Found",
              {},
              302};  // The status line keeps HTTP/1.0's "Moved Temporarily"; nginx has both, too.
    case 401:
      return {"Authorization Required", {}, 401};  // nginx's title; the status line has RFC 9110's.
    case 494:
      return {"Request Header Or Cookie Too Large", "Request Header Or Cookie Too Large", 400};
    case 495:
      return {"The SSL certificate error", "The SSL certificate error", 400};
    case 496:
      return {"No required SSL certificate was sent", "No required SSL certificate was sent", 400};
    case 497:
      return {"The plain HTTP request was sent to HTTPS port",
              "The plain HTTP request was sent to HTTPS port", 400};
    default:
      return {http::reason_phrase(status), {}, status};
  }
}

std::string_view product(http::CoreSettings::Tokens tokens) {
  using Tokens = http::CoreSettings::Tokens;
  return tokens == Tokens::kOff ? "corehttpd" : "corehttpd/" CORE_VERSION;
}

}  // namespace

BuiltInPage built_in_page(Arena& arena, std::uint16_t status, http::CoreSettings::Tokens tokens) {
  const Wording wording = wording_of(status);
  const char number[] = {static_cast<char>('0' + wording.number / 100),
                         static_cast<char>('0' + wording.number / 10 % 10),
                         static_cast<char>('0' + wording.number % 10)};
  const std::string_view digits(number, sizeof(number));
  const std::string_view blank = wording.title.empty() ? "" : " ";
  const bool detailed = !wording.detail.empty();
  const std::string_view heading = detailed ? http::reason_phrase(wording.number) : wording.title;
  const std::string_view parts[] = {"<html>\r\n<head><title>",
                                    digits,
                                    blank,
                                    wording.title,
                                    "</title></head>\r\n<body>\r\n<center><h1>",
                                    digits,
                                    blank,
                                    heading,
                                    "</h1></center>\r\n",
                                    detailed ? "<center>" : "",
                                    wording.detail,
                                    detailed ? "</center>\r\n" : "",
                                    "<hr><center>",
                                    product(tokens),
                                    "</center>\r\n</body>\r\n</html>\r\n"};
  std::size_t length = 0;
  for (std::string_view part : parts) length += part.size();
  BlockRef block = Block::allocate(length);
  auto* at = reinterpret_cast<char*>(block->data());
  for (std::string_view part : parts) at += part.copy(at, part.size());
  return {arena.make<http::BlockSource>(std::move(block), length), length};
}

}  // namespace corehttpd::handlers

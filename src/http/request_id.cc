#include "corehttpd/http/request_id.h"

#include <sys/random.h>

namespace corehttpd::http {
namespace {

struct RequestId {
  char text[32];
  bool made = false;
};

}  // namespace

std::string_view request_id(Exchange& exchange) {
  RequestId& id = exchange.main().state<RequestId>();
  if (!id.made) {
    unsigned char random[16] = {};
    // 16 bytes never block once the system has booted, and are never cut short.
    if (::getrandom(random, sizeof(random), 0) != sizeof(random)) return {};
    for (std::size_t i = 0; i < sizeof(random); ++i) {
      id.text[2 * i] = "0123456789abcdef"[random[i] >> 4];
      id.text[2 * i + 1] = "0123456789abcdef"[random[i] & 15];
    }
    id.made = true;
  }
  return {id.text, sizeof(id.text)};
}

}  // namespace corehttpd::http

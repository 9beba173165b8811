#include "corehttpd/http/trailers.h"

#include "corehttpd/http/core_settings.h"

namespace corehttpd::http {

bool make_room_for_trailers(Exchange& exchange) {
  const RequestHead& request = exchange.request();
  if (request.method == Method::kHead || request.version < Version::k11) return false;
  if (request.version > Version::k11) return true;
  if (!exchange.settings<CoreSettings>().chunked_transfer_encoding) return false;
  exchange.response().content_length.reset();
  return true;
}

}  // namespace corehttpd::http

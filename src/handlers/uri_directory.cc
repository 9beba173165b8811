#include "handlers/uri_directory.h"

#include <cerrno>

#include "corehttpd/assets/path.h"
#include "corehttpd/http/core_settings.h"

namespace corehttpd::handlers {
namespace {

using http::Exchange;
using http::StepOutcome;

StepOutcome failed(Exchange& exchange, std::string_view path, int error) {
  std::uint16_t status = 500;
  if (error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG) status = 404;
  if (error == EACCES || error == ELOOP) status = 403;
  if (status != 404 || exchange.settings<http::CoreSettings>().log_not_found) {
    exchange.log(status == 500 ? LogLevel::kCrit : LogLevel::kError, error,
                 "opendir() \"{}\" failed", path);
  }
  return StepOutcome::fail(status);
}

}  // namespace

UriDirectory list_uri_directory(Exchange& exchange) {
  const auto mapped = assets::map_path(exchange, exchange.uri());
  if (!mapped) return {nullptr, StepOutcome::fail(500)};
  std::string_view path = mapped->path;
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  path = exchange.arena().copy(path);
  const assets::Listed listed = assets::list_directory(exchange, path);
  if (listed.error != 0) return {nullptr, failed(exchange, path, listed.error)};
  return {listed.listing, listed.wait};
}

}  // namespace corehttpd::handlers

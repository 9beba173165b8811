// X-Sendfile: the file that an origin's answer names, in place of the answer.
#include "handlers/gateway/x_sendfile.h"

#include <algorithm>
#include <utility>

#include "corehttpd/assets/file_access.h"
#include "corehttpd/assets/path.h"
#include "handlers/serve_file.h"

namespace corehttpd::handlers {
namespace {

bool is_below(std::string_view path, std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  return !folder.empty() && path.starts_with(folder) && path.substr(folder.size()).starts_with('/');
}

bool is_plain(std::string_view path) {
  return path.starts_with('/') && path.find('\0') == path.npos && path.find("/../") == path.npos &&
         !path.ends_with("/..");
}

}  // namespace

http::StepOutcome send_named_file(http::Exchange& exchange, upstream::FileOrder& order,
                                  std::span<const std::string_view> folders) {
  // Carried out once: an error page may be passed to an origin as well.
  const std::string_view path = std::exchange(order.path, {});
  const bool allowed =
      is_plain(path) &&
      (is_below(path, assets::document_root(exchange)) ||
       std::ranges::any_of(folders, [&](std::string_view one) { return is_below(path, one); }));
  if (!allowed) {
    exchange.log(LogLevel::kError, 0, "X-Sendfile names \"{}\", which may not be sent", path);
    return http::StepOutcome::fail(403);
  }
  const std::string_view terminated = exchange.arena().concat(path, std::string_view("\0", 1));
  auto asked = assets::ask(exchange, terminated.substr(0, path.size()), assets::Need::kContent);
  if (!asked.answer) {
    order.path = path;
    return asked.wait;
  }
  auto& entry = *asked.answer;
  if (!entry) return lookup_failed(exchange, path, entry.error());
  if (entry->kind != assets::FileEntry::Kind::kRegular) {
    exchange.log(LogLevel::kCrit, 0, "\"{}\" is not a regular file", path);
    return http::StepOutcome::fail(404);
  }
  return serve_file(exchange, *std::move(entry));
}

}  // namespace corehttpd::handlers

#include "corehttpd/assets/path.h"

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "corehttpd/assets/settings.h"

namespace corehttpd::assets {
namespace {

struct AliasState {
  bool append_uri = false;
};

// A path with variables may come out relative; nginx then puts its prefix before it.
std::string_view evaluate_root(http::Exchange& exchange, const Settings& settings) {
  if (!settings.root_has_variables) return settings.root_text;
  std::string_view root = settings.root_program.evaluate(exchange);
  if (root.empty() || root.front() != '/') {
    root = exchange.arena().concat(settings.root_prefix, root);
  }
  return root;
}

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

}  // namespace

std::optional<MappedPath> map_path(http::Exchange& exchange, std::string_view uri) {
  const Settings& settings = exchange.settings<Settings>();
  const std::string_view root = evaluate_root(exchange, settings);
  std::string_view rest = uri;
  if (settings.is_alias) {
    if (settings.alias_bytes == Settings::kAliasWhole) {
      const auto* state = exchange.find_state<AliasState>();
      if (state == nullptr || !state->append_uri) rest = {};
    } else if (uri.starts_with(settings.alias_name)) {
      rest.remove_prefix(settings.alias_bytes);
    } else {
      exchange.log(LogLevel::kAlert, 0,
                   "\"alias\" cannot be used in location \"{}\" where URI was rewritten",
                   settings.alias_name);
      return std::nullopt;
    }
  }
  // The parser refuses %00; this guards against what variables may bring in.
  if (has_nul(rest) || (settings.root_has_variables && has_nul(root))) {
    exchange.log(LogLevel::kError, 0, "path with a NUL byte for \"{}\"", uri);
    return std::nullopt;
  }
  return MappedPath{exchange.arena().concat(root, rest), root.size()};
}

std::string_view document_root(http::Exchange& exchange) {
  return evaluate_root(exchange, exchange.settings<Settings>());
}

void append_uri_to_alias(http::Exchange& exchange) {
  exchange.state<AliasState>().append_uri = true;
}

std::string_view content_type(const http::Exchange& exchange, std::string_view uri) {
  const Settings& settings = exchange.settings<Settings>();
  const MimeTypes& types = settings.types == nullptr ? builtin_types() : *settings.types;
  const std::string_view type = types.find(uri_extension(uri));
  return type.empty() ? settings.default_type : type;
}

namespace {

expr::Value get_document_root(http::Exchange& exchange, std::string_view) {
  return document_root(exchange);
}

// Symbolic links resolved; not set when that fails (nginx answers 500 where it is needed; a string
// that contains it then lacks the root and finds nothing).
expr::Value get_realpath_root(http::Exchange& exchange, std::string_view) {
  const std::string_view root = document_root(exchange);
  if (has_nul(root)) return std::nullopt;
  char resolved[PATH_MAX];
  const std::string_view terminated = exchange.arena().copy(root);
  if (::realpath(terminated.data(), resolved) == nullptr) {
    exchange.log(LogLevel::kCrit, errno, "realpath() \"{}\" failed", root);
    return std::nullopt;
  }
  return exchange.arena().copy(resolved);
}

expr::Value get_request_filename(http::Exchange& exchange, std::string_view) {
  const auto mapped = map_path(exchange, exchange.uri());
  if (!mapped) return std::nullopt;
  return mapped->path;
}

constexpr expr::Variable kVariables[] = {
    {.name = "document_root",
     .get = get_document_root,
     .doc = "The root or alias directive's value for this request."},
    {.name = "realpath_root",
     .get = get_realpath_root,
     .doc = "The same with all symbolic links resolved."},
    {.name = "request_filename",
     .get = get_request_filename,
     .doc = "The file path of this request, from root or alias and the URI."},
};

}  // namespace

std::span<const expr::Variable> variables() { return kVariables; }

}  // namespace corehttpd::assets

#include "handlers/gateway/cgi_params.h"

#include <fmt/format.h>

#include <algorithm>

#include "corehttpd/base/text.h"
#include "corehttpd/handlers/gateway.h"
#include "handlers/gateway/fastcgi_settings.h"

namespace corehttpd::handlers {
namespace {

using http::FieldName;
using upstream::fastcgi::Param;

std::string_view cgi_name(Arena& arena, std::string_view name) {
  constexpr std::string_view kPrefix = "HTTP_";
  char* out = static_cast<char*>(arena.allocate(kPrefix.size() + name.size(), 1));
  char* end = std::ranges::copy(kPrefix, out).out;
  for (char c : name) {
    *end++ = c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return {out, kPrefix.size() + name.size()};
}

bool has_own_param(const http::Field& field) {
  switch (field.id) {
    case FieldName::kContentLength:     // CONTENT_LENGTH.
    case FieldName::kContentType:       // CONTENT_TYPE.
    case FieldName::kTransferEncoding:  // The body is passed without its framing.
      return true;
    case FieldName::kOther:
      // HTTP_PROXY is what programs take for the proxy they should use ("httpoxy").
      return text::equals_ignore_case(field.name, "Proxy");
    default:
      return false;
  }
}

// Where a parameter came from, beside it in the list of HTTP_ parameters.
struct Origin {
  std::string_view field_name;
  bool underscore;
};

// $fastcgi_script_name and $fastcgi_path_info of a URI, kept until that changes.
struct Split {
  const FastcgiSettings* settings = nullptr;
  std::string_view uri;
  std::string_view script_name;
  std::string_view path_info;
};

const Split& split_of(http::Exchange& exchange) {
  const FastcgiSettings& settings = exchange.settings<FastcgiSettings>();
  Split& split = exchange.state<Split>();
  const std::string_view uri = exchange.uri();
  if (split.settings == &settings && split.uri.data() == uri.data() && split.uri == uri) {
    return split;
  }
  split = {&settings, uri, uri, {}};
  if (settings.split_path_info == nullptr) return split;
  // $1 and $2 stay what the location's own regex made them.
  const auto captures = exchange.captures();
  if (settings.split_path_info->match(exchange, uri)) {
    split.script_name = exchange.captures()[1];
    split.path_info = exchange.captures()[2];
  }
  exchange.set_captures(captures);
  return split;
}

expr::Value script_name(http::Exchange& exchange, std::string_view) {
  const Split& split = split_of(exchange);
  const std::string_view index = exchange.settings<FastcgiSettings>().index;
  if (index.empty() || !split.script_name.ends_with('/')) return split.script_name;
  return exchange.arena().concat(split.script_name, index);
}

expr::Value path_info(http::Exchange& exchange, std::string_view) {
  return split_of(exchange).path_info;
}

constexpr expr::Variable kVariables[] = {
    {.name = "fastcgi_path_info",
     .get = path_info,
     .doc = "The second capture of fastcgi_split_path_info."},
    {.name = "fastcgi_script_name",
     .get = script_name,
     .doc = "The URI, or the first capture of fastcgi_split_path_info; with fastcgi_index after a "
            "slash."},
};

}  // namespace

std::span<const expr::Variable> fastcgi_variables() { return kVariables; }

ArenaVector<Param> make_params(http::Exchange& exchange, const CgiParams* configured,
                               bool pass_fields, std::uint64_t body_bytes) {
  Arena& arena = exchange.arena();
  ArenaVector<Param> params;
  params.reserve(arena, 48);
  std::span<const std::string_view> overridden;
  if (configured != nullptr) {
    overridden = configured->http_names;
    for (const CgiParam& param : configured->all) {
      std::string_view value = param.value.evaluate(exchange);
      // An application reads what CONTENT_LENGTH says: less would leave bytes for somebody else's
      // request, more would wait for ever.
      if (body_bytes > 0 && param.name == "CONTENT_LENGTH") {
        value = arena.copy(fmt::format_int(body_bytes).c_str());
      }
      if (param.if_not_empty && value.empty()) continue;
      params.push_back(arena, {param.name, value});
    }
  }
  if (pass_fields) add_http_params(exchange, overridden, params);
  return params;
}

void add_http_params(http::Exchange& exchange, std::span<const std::string_view> overridden,
                     ArenaVector<Param>& out) {
  Arena& arena = exchange.arena();
  const http::RequestHead& request = exchange.request();
  const std::size_t first = out.size();
  ArenaVector<Origin> origins;  // Of out[first], out[first + 1]…
  const auto add = [&](std::string_view field_name, std::string_view value,
                       std::string_view separator) {
    const std::string_view name = cgi_name(arena, field_name);
    if (std::ranges::find(overridden, name) != overridden.end()) return;
    const bool underscore = field_name.find('_') != std::string_view::npos;
    for (std::size_t i = first; i < out.size(); ++i) {
      if (out[i].name != name) continue;
      Origin& origin = origins[i - first];
      if (text::equals_ignore_case(origin.field_name, field_name)) {
        out[i].value = arena.concat(out[i].value, separator, value);
      } else if (origin.underscore && !underscore) {
        origin = {field_name, false};
        out[i].value = value;
      }
      return;
    }
    out.push_back(arena, {name, value});
    origins.push_back(arena, {field_name, underscore});
  };
  // An authority (of an absolute-form, or a pseudo-field) is what the site was chosen by.
  if (!request.authority.empty()) add("Host", request.authority, ", ");
  for (const http::Field& field : request.fields) {
    if (has_own_param(field)) continue;
    if (field.id == FieldName::kHost && !request.authority.empty()) continue;
    add(field.name, field.value, field.id == FieldName::kCookie ? "; " : ", ");
  }
}

}  // namespace corehttpd::handlers

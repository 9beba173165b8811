// add_header, expires, add_trailer.
#include <algorithm>
#include <array>
#include <vector>

#include "corehttpd/base/text.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/transform/transforms.h"
#include "transform/expires.h"
#include "transform/trailer_source.h"

namespace corehttpd::transform {
namespace {

using http::Exchange;
using http::FieldName;

// Without "always", fields are only added to these (nginx's documentation of add_header).
bool is_listed_status(std::uint16_t status) {
  static constexpr std::array<std::uint16_t, 10> kListed = {200, 201, 204, 206, 301,
                                                            302, 303, 304, 307, 308};
  return std::find(kListed.begin(), kListed.end(), status) != kListed.end();
}

// Decoded bytes of the request may come in through variables; a line break among them must not
// become a field of its own.
std::string_view safe_value(Arena& arena, std::string_view value) {
  if (http::is_field_value(value)) return value;
  auto* const copy = static_cast<char*>(arena.allocate(value.size(), 1));
  std::transform(value.begin(), value.end(), copy,
                 [](char c) { return c == '\r' || c == '\n' || c == '\0' ? ' ' : c; });
  return text::trim({copy, value.size()});
}

// Some fields of a response have a place of their own in the head.
void add_field(Exchange& exchange, const FieldsSettings::Added& added) {
  const std::string_view value = safe_value(exchange.arena(), added.value.evaluate(exchange));
  http::ResponseHead& head = exchange.response();
  switch (added.id) {
    case FieldName::kLastModified:
      head.last_modified = value.empty() ? -1 : parse_http_date(value);
      head.fields.remove(FieldName::kLastModified);
      // What is no date can't be compared with, but is sent as the operator wants it.
      if (value.empty() || head.last_modified != -1) return;
      break;
    case FieldName::kEtag:
      head.etag = value;
      return;
    case FieldName::kContentType:
      if (!value.empty()) head.content_type = value;
      return;
    default:
      break;
  }
  if (!value.empty()) head.fields.add(exchange.arena(), added.id, added.name, value);
}

class Fields final : public http::Transform {
 public:
  http::BodySource* apply(Exchange& exchange, http::BodySource* body) const override {
    const auto& settings = exchange.settings<FieldsSettings>();
    const bool listed = is_listed_status(exchange.response().status);
    if (listed) {
      if (!settings.expires_program.empty()) {
        const auto expires =
            parse_expires(settings.expires_program.evaluate(exchange), settings.expires_modified);
        if (expires) apply_expires(exchange, *expires);
      } else {
        apply_expires(exchange, settings.expires);
      }
    }
    for (const auto& field : settings.fields) {
      if (listed || field.always) add_field(exchange, field);
    }
    return add_trailers(exchange, settings.trailers, !listed, body);
  }

 private:
  static http::BodySource* add_trailers(Exchange& exchange,
                                        std::span<const FieldsSettings::Added> trailers,
                                        bool only_always, http::BodySource* body) {
    if (body == nullptr) return body;
    const bool any = std::any_of(trailers.begin(), trailers.end(),
                                 [&](const auto& t) { return t.always || !only_always; });
    if (!any) return body;
    // A body of known length has no place for trailers in HTTP/1.1; without it, it gets chunks.
    exchange.response().content_length.reset();
    return exchange.arena().make<TrailerSource>(exchange, *body, trailers, only_always);
  }
};

constexpr Fields kFields;

using conf::Setting;

bool read_added(const Setting& s, FieldsSettings::Added& out) {
  out.name = s.word(0);
  if (!http::is_token(out.name)) {
    return s.fail(0, "invalid field name \"{}\" in \"{}\" directive", s.word(0), s.name());
  }
  out.id = http::parse_field_name(out.name);
  if (s.words().size() == 3) {
    if (s.word(2) != "always") return s.fail(2, "invalid parameter \"{}\"", s.word(2));
    out.always = true;
  }
  return expr::compile_program(s, 1, s.word(1), out.value);
}

void append(const Setting& s, std::span<const FieldsSettings::Added>& list,
            const FieldsSettings::Added& added) {
  const std::size_t kept = s.first_here ? 0 : list.size();
  const auto fresh = s.arena().make_array<FieldsSettings::Added>(kept + 1);
  std::copy_n(list.begin(), kept, fresh.begin());
  fresh[kept] = added;
  list = fresh;
}

// The first add_header of a block hides all that it would have inherited.
struct Hiding {
  std::span<const FieldsSettings::Added> inherited;
  const conf::Scope* scope;
  conf::Position at;
  std::size_t width;
};
struct Hidings {
  std::vector<Hiding> list;
};

void remember_hidden(const Setting& s, std::span<const FieldsSettings::Added> inherited) {
  if (!s.first_here || inherited.empty()) return;
  s.compiler.object_or_make<Hidings>().list.push_back(
      {inherited, &s.scope, s.node.name.at, s.node.name.text.size()});
}

void warn_of_hidden(conf::Compiler& compiler) {
  for (const Hiding& hiding : compiler.object_or_make<Hidings>().list) {
    std::string hidden;
    for (const auto& outer : hiding.inherited) {
      const auto own = hiding.scope->view().get<FieldsSettings>().fields;
      const bool repeated = std::any_of(own.begin(), own.end(), [&](const auto& added) {
        return text::equals_ignore_case(added.name, outer.name);
      });
      if (repeated) continue;
      hidden.append(hidden.empty() ? "\"" : ", \"").append(outer.name).append("\"");
    }
    if (hidden.empty()) continue;
    compiler.diagnostics().add(
        conf::Severity::kWarning, hiding.at,
        fmt::format("\"add_header\" here hides what the outer block adds: {}", hidden),
        "a block inherits fields only if it adds none of its own; repeat them here", hiding.width);
  }
  compiler.object_or_make<Hidings>().list = {};
}

bool is_framing(FieldName id) {
  return id == FieldName::kConnection || id == FieldName::kContentLength ||
         id == FieldName::kKeepAlive || id == FieldName::kTransferEncoding ||
         id == FieldName::kUpgrade || id == FieldName::kTe || id == FieldName::kTrailer ||
         id == FieldName::kProxyConnection;
}

bool set_add_header(const Setting& s) {
  auto& settings = *static_cast<FieldsSettings*>(s.settings);
  FieldsSettings::Added added;
  remember_hidden(s, settings.fields);
  if (!read_added(s, added)) return false;
  if (is_framing(added.id)) {
    s.warn(0, "\"{}\" belongs to the protocol and is not added", added.name);
    if (s.first_here) settings.fields = {};
    return true;
  }
  if (added.id == FieldName::kContentType) {
    s.warn(0, "\"Content-Type\" replaces the response's own; use \"default_type\" or \"types\"");
  }
  append(s, settings.fields, added);
  return true;
}

bool set_add_trailer(const Setting& s) {
  auto& settings = *static_cast<FieldsSettings*>(s.settings);
  FieldsSettings::Added added;
  if (!read_added(s, added)) return false;
  if (is_framing(added.id) || added.id == FieldName::kHost || added.id == FieldName::kContentType ||
      added.id == FieldName::kContentEncoding || added.id == FieldName::kContentRange ||
      added.id == FieldName::kSetCookie) {
    return s.fail(0, "\"{}\" cannot be a trailer field", added.name);  // RFC 9110 §6.5.1.
  }
  append(s, settings.trailers, added);
  return true;
}

bool set_expires(const Setting& s) {
  auto& settings = *static_cast<FieldsSettings*>(s.settings);
  const bool modified = s.words().size() == 2;
  if (modified && s.word(0) != "modified") return s.fail(0, "invalid value \"{}\"", s.word(0));
  const std::size_t word = s.words().size() - 1;
  settings.expires = Expires{};
  settings.expires_program = expr::Program{};
  settings.expires_modified = modified;
  if (s.word(word).find('$') != std::string_view::npos) {
    return expr::compile_program(s, word, s.word(word), settings.expires_program);
  }
  const auto expires = parse_expires(s.word(word), modified);
  if (!expires) return s.fail(word, "invalid value \"{}\" in \"expires\" directive", s.word(word));
  settings.expires = *expires;
  return true;
}

constexpr conf::Context kEverywhere = conf::kHttpServerLocation | conf::Context::kIfLocation;
constexpr conf::Directive kDirectives[] = {
    {.name = "add_header",
     .contexts = kEverywhere,
     .arity = conf::between(2, 3),
     .syntax = "name value [always]",
     .set = set_add_header,
     .inherit = conf::Inherit::kList,
     .doc = "Adds a field to responses with status 200, 201, 204, 206, 301, 302, 303, 304, 307 or "
            "308, with always to all. Inherited only by blocks that have none of their own."},
    {.name = "add_trailer",
     .contexts = kEverywhere,
     .arity = conf::between(2, 3),
     .syntax = "name value [always]",
     .set = set_add_trailer,
     .inherit = conf::Inherit::kList,
     .doc = "Adds a field to the end of responses; statuses as for add_header. Such a response has "
            "no Content-Length."},
    {.name = "expires",
     .contexts = kEverywhere,
     .arity = conf::between(1, 2),
     .syntax = "[modified] time | epoch | max | off",
     .set = set_expires,
     .default_value = "off",
     .doc = "Sets Expires and Cache-Control. The time may be negative (no-cache), a time of day "
            "(@15h30m) or a variable."},
};
static_assert(conf::well_formed(kDirectives));
constexpr conf::Module kModule =
    conf::module<FieldsSettings>("fields", kDirectives, warn_of_hidden);

}  // namespace

const http::FieldList* TrailerSource::trailers() {
  list_.clear();
  if (const http::FieldList* inner = inner_.trailers()) {
    for (const http::Field& field : *inner) {
      list_.add(exchange_.arena(), field.id, field.name, field.value);
    }
  }
  for (const auto& trailer : trailers_) {
    if (only_always_ && !trailer.always) continue;
    const auto value = safe_value(exchange_.arena(), trailer.value.evaluate(exchange_));
    if (!value.empty()) list_.add(exchange_.arena(), trailer.id, trailer.name, value);
  }
  return list_.empty() ? nullptr : &list_;
}

const http::Transform& fields() { return kFields; }
const conf::Module& fields_module() { return kModule; }

}  // namespace corehttpd::transform

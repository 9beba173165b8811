// add_header, expires, add_trailer.
#include <algorithm>
#include <array>
#include <vector>

#include "corehttpd/base/text.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/http/trailers.h"
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
    settings.fields.for_each(exchange.settings_view(), [&](const FieldsSettings::Added& field) {
      if (listed || field.always) add_field(exchange, field);
    });
    return add_trailers(exchange, settings.trailers, !listed, body);
  }

 private:
  static http::BodySource* add_trailers(Exchange& exchange, const FieldsSettings::List& list,
                                        bool only_always, http::BodySource* body) {
    if (body == nullptr) return body;
    ArenaVector<const FieldsSettings::Added*> trailers;
    list.for_each(exchange.settings_view(), [&](const FieldsSettings::Added& trailer) {
      if (trailer.always || !only_always) trailers.push_back(exchange.arena(), &trailer);
    });
    if (trailers.empty() || !http::make_room_for_trailers(exchange)) return body;
    return exchange.arena().make<TrailerSource>(exchange, *body, trailers);
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

// The first directive of a block that says something about list: what the list has been until now
// is what the block inherits.
void enter_block(const Setting& s, FieldsSettings::List& list) {
  const conf::SettingsView here = s.scope.view();
  if (list.owner == here) return;
  const conf::SettingsView around =
      s.scope.parent == nullptr ? conf::SettingsView() : s.scope.parent->view();
  ArenaVector<FieldsSettings::Added> inherited;
  list.for_each(around, [&](const auto& added) { inherited.push_back(s.arena(), added); });
  list.outer = inherited;
  list.own = {};
  list.given = false;
  list.owner = here;
}

void append(const Setting& s, FieldsSettings::List& list, const FieldsSettings::Added& added) {
  const auto fresh = s.arena().make_array<FieldsSettings::Added>(list.own.size() + 1);
  std::copy(list.own.begin(), list.own.end(), fresh.begin());
  fresh.back() = added;
  list.own = fresh;
}

// The first add_header of a block hides all that it would have inherited.
struct Hiding {
  const conf::Scope* scope;
  conf::Position at;
  std::size_t width;
};
struct Hidings {
  std::vector<Hiding> list;
};

void remember_hidden(const Setting& s) {
  if (!s.first_here) return;
  s.compiler.object_or_make<Hidings>().list.push_back(
      {&s.scope, s.node.name.at, s.node.name.text.size()});
}

void warn_of_hidden(conf::Compiler& compiler) {
  for (const Hiding& hiding : compiler.object_or_make<Hidings>().list) {
    const auto& fields = hiding.scope->view().get<FieldsSettings>().fields;
    // With add_header_inherit whoever wrote it knows.
    if (fields.inherit != FieldsSettings::Inherit::kOn) continue;
    std::string hidden;
    for (const auto& outer : fields.outer) {
      const bool repeated = std::any_of(
          fields.own.begin(), fields.own.end(),
          [&](const auto& added) { return text::equals_ignore_case(added.name, outer.name); });
      if (repeated) continue;
      hidden.append(hidden.empty() ? "\"" : ", \"").append(outer.name).append("\"");
    }
    if (hidden.empty()) continue;
    compiler.diagnostics().add(
        conf::Severity::kWarning, hiding.at,
        fmt::format("\"add_header\" here hides what the outer block adds: {}", hidden),
        "a block inherits fields only if it adds none of its own; repeat them here, or use "
        "add_header_inherit merge",
        hiding.width);
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
  remember_hidden(s);
  if (!read_added(s, added)) return false;
  enter_block(s, settings.fields);
  settings.fields.given = true;
  if (is_framing(added.id)) {
    s.warn(0, "\"{}\" belongs to the protocol and is not added", added.name);
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
  enter_block(s, settings.trailers);
  settings.trailers.given = true;
  append(s, settings.trailers, added);
  return true;
}

template <FieldsSettings::List FieldsSettings::*List>
bool set_inherit(const Setting& s) {
  using Inherit = FieldsSettings::Inherit;
  auto& list = static_cast<FieldsSettings*>(s.settings)->*List;
  const std::string_view word = s.word(0);
  if (word != "on" && word != "off" && word != "merge") {
    return conf::fail_choice(s, 0, "on, off, merge");
  }
  // Of the defaults' own scope there is nothing to inherit.
  enter_block(s, list);
  list.inherit = word == "on" ? Inherit::kOn : word == "off" ? Inherit::kOff : Inherit::kMerge;
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
            "308, with always to all. Inherited only by blocks that have none of their own, unless "
            "add_header_inherit says otherwise."},
    {.name = "add_header_inherit",
     .contexts = kEverywhere,
     .syntax = "on | off | merge",
     .set = set_inherit<&FieldsSettings::fields>,
     .default_value = "on",
     .doc = "What a block has of the fields around it: on, all if it has no add_header of its own; "
            "off, none; merge, all behind its own. Holds for the blocks within as well."},
    {.name = "add_trailer",
     .contexts = kEverywhere,
     .arity = conf::between(2, 3),
     .syntax = "name value [always]",
     .set = set_add_trailer,
     .inherit = conf::Inherit::kList,
     .doc = "Adds a field to the end of responses; statuses as for add_header. Such a response has "
            "no Content-Length."},
    {.name = "add_trailer_inherit",
     .contexts = kEverywhere,
     .syntax = "on | off | merge",
     .set = set_inherit<&FieldsSettings::trailers>,
     .default_value = "on",
     .doc = "The same as add_header_inherit, of add_trailer."},
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
  exchange_.state<http::SentTrailers>().list = &list_;
  for (const FieldsSettings::Added* trailer : trailers_) {
    const auto value = safe_value(exchange_.arena(), trailer->value.evaluate(exchange_));
    if (!value.empty()) list_.add(exchange_.arena(), trailer->id, trailer->name, value);
  }
  return list_.empty() ? nullptr : &list_;
}

const http::Transform& fields() { return kFields; }
const conf::Module& fields_module() { return kModule; }

}  // namespace corehttpd::transform

// The charset directives: name the character set, and turn bodies into it.
#include <algorithm>

#include "corehttpd/base/text.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/transform/transforms.h"
#include "transform/recode_source.h"

namespace corehttpd::transform {
namespace {

using http::Exchange;

bool matches(const CharsetSettings& settings, std::string_view type) {
  if (settings.all_types) return true;
  return std::any_of(settings.types.begin(), settings.types.end(), [&](std::string_view wanted) {
    return text::equals_ignore_case(wanted, type);
  });
}

// "text/html; charset=koi8-r", taken apart. Other parameters (a boundary) leave no place for ours.
struct MediaType {
  std::string_view type;
  std::string_view charset;
  bool other_parameters = false;
};

MediaType parse_media_type(std::string_view text) {
  MediaType parsed;
  parsed.type = text::trim(text.substr(0, text.find(';')));
  text.remove_prefix(std::min(text.find(';'), text.size()));
  while (!text.empty()) {
    text.remove_prefix(1);
    const std::string_view parameter = text::trim(text.substr(0, text.find(';')));
    text.remove_prefix(std::min(text.find(';'), text.size()));
    if (text::starts_with_ignore_case(parameter, "charset=")) {
      parsed.charset = parameter.substr(8);
      if (parsed.charset.size() >= 2 && parsed.charset.starts_with('"') &&
          parsed.charset.ends_with('"')) {
        parsed.charset = parsed.charset.substr(1, parsed.charset.size() - 2);
      }
    } else if (!parameter.empty()) {
      parsed.other_parameters = true;
    }
  }
  return parsed;
}

bool is_charset(std::string_view name) {
  return !name.empty() && name != "off" && http::is_token(name);
}

class Charset final : public http::Transform {
 public:
  http::BodySource* apply(Exchange& exchange, http::BodySource* body) const override {
    const auto& settings = exchange.settings<CharsetSettings>();
    http::ResponseHead& head = exchange.response();
    // X-Accel-Charset has named it, and goes before what the configuration says.
    if (settings.name.empty() || head.content_type.empty() || !head.charset.empty()) return body;
    // nginx has it so: what nobody reads needs no charset.
    if (head.status == 301 || head.status == 302) return body;
    const MediaType media = parse_media_type(head.content_type);
    if (media.other_parameters) return body;
    // A backend that names a set itself is believed, unless override_charset says otherwise.
    if (media.charset.empty() ? !matches(settings, media.type) : !settings.override_backends) {
      return body;
    }
    const std::string_view target = settings.name.evaluate(exchange);
    if (!is_charset(target)) return body;
    const std::string_view source =
        !media.charset.empty() ? media.charset : settings.source.evaluate(exchange);
    if (is_charset(source) && !text::equals_ignore_case(source, target)) {
      return recode(exchange, settings, body, media, source, target);
    }
    name_charset(exchange, media, target);
    return body;
  }

 private:
  static void name_charset(Exchange& exchange, const MediaType& media, std::string_view name) {
    exchange.response().content_type = exchange.arena().concat(media.type, "; charset=", name);
  }

  static http::BodySource* recode(Exchange& exchange, const CharsetSettings& settings,
                                  http::BodySource* body, const MediaType& media,
                                  std::string_view source, std::string_view target) {
    http::ResponseHead& head = exchange.response();
    const auto recoding = find_recoding(settings, source, target);
    // Bytes that can't be recoded, or are compressed already, are called what they are.
    const bool encoded = head.fields.find(http::FieldName::kContentEncoding) != nullptr;
    if (!recoding || encoded || head.status == 206) {
      if (!recoding) {
        exchange.log(LogLevel::kError, 0,
                     "no \"charset_map\" between the charsets \"{}\" and \"{}\"", source, target);
      }
      name_charset(exchange, media, source);
      return body;
    }
    name_charset(exchange, media, target);
    if (recoding->changes_length()) {
      head.content_length.reset();
      head.accept_ranges = false;
      head.fields.remove(http::FieldName::kAcceptRanges);
    }
    return body == nullptr ? nullptr
                           : exchange.arena().make<RecodeSource>(exchange, *body, *recoding);
  }
};

constexpr Charset kCharset;

bool set_charset(const conf::Setting& s) {
  auto& settings = *static_cast<CharsetSettings*>(s.settings);
  settings.name = expr::Program{};
  const std::string_view word = s.word(0);
  if (word == "off") return true;
  if (word.find('$') == std::string_view::npos && !http::is_token(word)) {
    return s.fail(0, "invalid character set \"{}\"", word);
  }
  return expr::compile_program(s, 0, word, settings.name);
}

bool set_source_charset(const conf::Setting& s) {
  auto& settings = *static_cast<CharsetSettings*>(s.settings);
  settings.source = expr::Program{};
  const std::string_view word = s.word(0);
  if (word == "off") return true;
  if (word.find('$') == std::string_view::npos && !http::is_token(word)) {
    return s.fail(0, "invalid character set \"{}\"", word);
  }
  return expr::compile_program(s, 0, word, settings.source);
}

bool set_charset_types(const conf::Setting& s) {
  auto& settings = *static_cast<CharsetSettings*>(s.settings);
  const std::size_t kept = s.first_here ? 0 : settings.types.size();
  const auto types = s.arena().make_array<std::string_view>(kept + s.words().size() + 1);
  std::copy_n(settings.types.begin(), kept, types.begin());
  if (s.first_here) settings.all_types = false;
  std::size_t count = kept;
  types[count++] = "text/html";  // Always among them.
  for (const conf::Word& word : s.words()) {
    if (word.text == "*") settings.all_types = true;
    types[count++] = word.text;
  }
  settings.types = types;
  return true;
}

constexpr conf::Directive kDirectives[] = {
    {.name = "charset",
     .contexts = conf::kHttpServerLocation | conf::Context::kIfLocation,
     .syntax = "charset | off",
     .set = set_charset,
     .default_value = "off",
     .doc = "Names the character set in the Content-Type of responses whose type is among "
            "charset_types. With source_charset and a charset_map between the two the text is "
            "turned into it."},
    {.name = "charset_map",
     .contexts = conf::Context::kHttp,
     .kind = conf::Kind::kRawBlock,
     .arity = conf::exactly(2),
     .syntax = "charset1 charset2 { byte code; ... }",
     .set = set_charset_map,
     .inherit = conf::Inherit::kAppend,
     .doc = "How characters of one set are written in the other, in hexadecimal digits, both ways. "
            "The first has one byte per character; the second too, or it is utf-8. ASCII needs no "
            "lines."},
    {.name = "charset_types",
     .contexts = conf::kHttpServerLocation,
     .arity = conf::at_least(1),
     .syntax = "mime-type ...",
     .set = set_charset_types,
     .default_value = "text/html text/xml text/plain text/vnd.wap.wml application/javascript "
                      "application/rss+xml",
     .inherit = conf::Inherit::kList,
     .doc = "The types that charset applies to; text/html always, * for all."},
    {.name = "override_charset",
     .contexts = conf::kHttpServerLocation | conf::Context::kIfLocation,
     .syntax = "on | off",
     .set = conf::set_flag<&CharsetSettings::override_backends>,
     .default_value = "off",
     .doc = "Whether text of a backend that names its character set is turned into that of "
            "charset."},
    {.name = "source_charset",
     .contexts = conf::kHttpServerLocation | conf::Context::kIfLocation,
     .syntax = "charset | off",
     .set = set_source_charset,
     .default_value = "off",
     .doc = "The character set in which files, and text of backends that do not name one, are. May "
            "contain variables."},
};
static_assert(conf::well_formed(kDirectives));
constexpr conf::Module kModule = conf::module<CharsetSettings>("charset", kDirectives);

}  // namespace

const http::Transform& charset() { return kCharset; }
const conf::Module& charset_module() { return kModule; }

}  // namespace corehttpd::transform

// The charset directive: names the character set; nothing is recoded.
#include <algorithm>

#include "corehttpd/base/text.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/transform/transforms.h"

namespace corehttpd::transform {
namespace {

using http::Exchange;

bool matches(const CharsetSettings& settings, std::string_view type) {
  if (settings.all_types) return true;
  return std::any_of(settings.types.begin(), settings.types.end(), [&](std::string_view wanted) {
    return text::equals_ignore_case(wanted, type);
  });
}

class Charset final : public http::Transform {
 public:
  http::BodySource* apply(Exchange& exchange, http::BodySource* body) const override {
    const auto& settings = exchange.settings<CharsetSettings>();
    http::ResponseHead& head = exchange.response();
    if (settings.name.empty() || head.content_type.empty()) return body;
    // A type with parameters says itself what it is (a backend's own charset, a boundary).
    if (head.content_type.find(';') != std::string_view::npos) return body;
    if (!matches(settings, head.content_type)) return body;
    const std::string_view name = settings.name.evaluate(exchange);
    if (name.empty() || name == "off" || !http::is_token(name)) return body;
    head.content_type = exchange.arena().concat(head.content_type, "; charset=", name);
    return body;
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
            "charset_types."},
    {.name = "charset_types",
     .contexts = conf::kHttpServerLocation,
     .arity = conf::at_least(1),
     .syntax = "mime-type ...",
     .set = set_charset_types,
     .default_value = "text/html text/xml text/plain text/vnd.wap.wml application/javascript "
                      "application/rss+xml",
     .inherit = conf::Inherit::kList,
     .doc = "The types that charset applies to; text/html always, * for all."},
};
static_assert(conf::well_formed(kDirectives));
constexpr conf::Module kModule = conf::module<CharsetSettings>("charset", kDirectives);

}  // namespace

const http::Transform& charset() { return kCharset; }
const conf::Module& charset_module() { return kModule; }

}  // namespace corehttpd::transform

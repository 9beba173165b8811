// The directives of gzip.
#include <algorithm>
#include <utility>

#include "corehttpd/conf/values.h"
#include "corehttpd/expr/regex.h"
#include "corehttpd/transform/gzip.h"

namespace corehttpd::transform {
namespace {

using conf::Setting;

GzipSettings& settings_of(const Setting& s) { return *static_cast<GzipSettings*>(s.settings); }

// A fresh list at the first use in a block, as nginx replaces what was inherited.
bool set_types(const Setting& s) {
  GzipSettings& settings = settings_of(s);
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

constexpr std::pair<std::string_view, std::uint16_t> kProxiedWords[] = {
    {"off", GzipSettings::kOff},          {"expired", GzipSettings::kExpired},
    {"no-cache", GzipSettings::kNoCache}, {"no-store", GzipSettings::kNoStore},
    {"private", GzipSettings::kPrivate},  {"no_last_modified", GzipSettings::kNoLastModified},
    {"no_etag", GzipSettings::kNoEtag},   {"auth", GzipSettings::kAuth},
    {"any", GzipSettings::kAny},
};

bool set_proxied(const Setting& s) {
  std::uint16_t proxied = GzipSettings::kOff;
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    const auto* found =
        std::find_if(std::begin(kProxiedWords), std::end(kProxiedWords),
                     [&s, i](const auto& known) { return known.first == s.word(i); });
    if (found == std::end(kProxiedWords)) return s.fail(i, "invalid value \"{}\"", s.word(i));
    // "off" among others would leave open which of them is meant.
    if (found->second == GzipSettings::kOff && s.words().size() > 1) {
      return s.fail(i, "\"off\" can't be combined with other values");
    }
    proxied |= found->second;
  }
  settings_of(s).proxied = proxied;
  return true;
}

bool set_http_version(const Setting& s) {
  if (s.word(0) == "1.0") {
    settings_of(s).http10 = true;
  } else if (s.word(0) == "1.1") {
    settings_of(s).http10 = false;
  } else {
    return conf::fail_choice(s, 0, "1.0, 1.1");
  }
  return true;
}

bool set_disable(const Setting& s) {
  GzipSettings& settings = settings_of(s);
  const std::size_t kept = s.first_here ? 0 : settings.disable.size();
  if (s.first_here) settings.disable_msie6 = false;
  ArenaVector<const expr::Regex*> regexes;
  regexes.reserve(s.arena(), kept + s.words().size());
  for (const expr::Regex* regex : settings.disable.first(kept)) {
    regexes.push_back(s.arena(), regex);
  }
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    if (s.word(i) == "msie6") {
      settings.disable_msie6 = true;
      continue;
    }
    const expr::Regex* regex = expr::Regex::compile(s, i, s.word(i), true);
    if (regex == nullptr) return false;
    regexes.push_back(s.arena(), regex);
  }
  settings.disable = regexes;
  return true;
}

// "32 4k": checked as nginx checks it; blocks come from the worker's pool.
bool set_buffers(const Setting& s) {
  std::uint64_t number = 0, size = 0;
  return conf::read_number(s, 0, 1, 65536, number) && conf::read_size(s, 1, size);
}

constexpr conf::Context kWithIf = conf::kHttpServerLocation | conf::Context::kIfLocation;

constexpr conf::Directive kDirectives[] = {
    {.name = "gzip",
     .contexts = kWithIf,
     .syntax = "on | off",
     .set = conf::set_flag<&GzipSettings::on>,
     .default_value = "off",
     .doc = "Compresses responses as they are sent."},
    {.name = "gzip_buffers",
     .contexts = conf::kHttpServerLocation,
     .arity = conf::exactly(2),
     .syntax = "number size",
     .set = set_buffers,
     .stage = conf::Stage::kNoMeaning,
     .doc = "Compressed bytes go into blocks of the worker's pool, one at a time per response."},
    {.name = "gzip_comp_level",
     .contexts = conf::kHttpServerLocation,
     .syntax = "level",
     .set = conf::set_number<&GzipSettings::level, 1, 9>,
     .default_value = "1",
     .doc = "How hard to compress, from 1 (fast) to 9 (small)."},
    {.name = "gzip_disable",
     .contexts = conf::kHttpServerLocation,
     .arity = conf::at_least(1),
     .syntax = "regex ...",
     .set = set_disable,
     .inherit = conf::Inherit::kList,
     .doc = "User agents that are sent uncompressed responses; msie6 stands for MSIE 4 to 6."},
    {.name = "gzip_http_version",
     .contexts = conf::kHttpServerLocation,
     .syntax = "1.0 | 1.1",
     .set = set_http_version,
     .default_value = "1.1",
     .doc = "The lowest version of a request whose response may be compressed."},
    {.name = "gzip_min_length",
     .contexts = conf::kHttpServerLocation,
     .syntax = "length",
     .set = conf::set_size<&GzipSettings::min_length>,
     .default_value = "20",
     .doc = "Shorter responses, by their Content-Length, are not compressed."},
    {.name = "gzip_proxied",
     .contexts = conf::kHttpServerLocation,
     .arity = conf::at_least(1),
     .syntax = "off | expired | no-cache | no-store | private | no_last_modified | no_etag | auth "
               "| any ...",
     .set = set_proxied,
     .default_value = "off",
     .doc = "What makes responses to proxies (requests with Via) worth compressing."},
    {.name = "gzip_types",
     .contexts = conf::kHttpServerLocation,
     .arity = conf::at_least(1),
     .syntax = "mime-type ...",
     .set = set_types,
     .default_value = "text/html",
     .inherit = conf::Inherit::kList,
     .doc = "The types that are compressed; text/html always, * for all."},
    {.name = "gzip_vary",
     .contexts = conf::kHttpServerLocation,
     .syntax = "on | off",
     .set = conf::set_flag<&GzipSettings::vary>,
     .default_value = "off",
     .doc = "Says Vary: Accept-Encoding in responses that gzip would compress for a client that "
            "accepts it."},
};
static_assert(conf::well_formed(kDirectives));
constexpr conf::Module kModule = conf::module<GzipSettings>("transform", kDirectives);

}  // namespace

const conf::Module& gzip_module() { return kModule; }

}  // namespace corehttpd::transform

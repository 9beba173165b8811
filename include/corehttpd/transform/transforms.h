// Transforms that change heads or cut bodies. The server's list decides their order; nginx's is:
// conditional, fields, charset, (encodings), range; rate changes nothing and comes last.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/conf/directive.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/http/fields.h"
#include "corehttpd/http/pipeline.h"

namespace corehttpd::transform {

// If-Match, If-None-Match, If-(Un)Modified-Since (RFC 9110 §13): makes a 200 a 304 or a 412.
// Directives if_modified_since and etag are of the core.
const http::Transform& conditional();

// Range and If-Range (RFC 9110 §14): makes a 200 whose length is known and whose source allows it a
// 206 or 416; says Accept-Ranges otherwise. max_ranges is of the core.
const http::Transform& range();

// add_header, expires, add_trailer.
const http::Transform& fields();
const conf::Module& fields_module();

// charset: names the character set in the Content-Type of charset_types, and turns bodies into it
// where source_charset and a charset_map say how.
const http::Transform& charset();
const conf::Module& charset_module();

// limit_rate, limit_rate_after: makes the exchange's http::ResponseRate, which transports keep to.
const http::Transform& rate();
const conf::Module& rate_module();

struct RateSettings {
  expr::Program rate;  // Empty or "0": no limit.
  expr::Program after;
};

struct Expires {
  enum class Kind : std::uint8_t {
    kOff,       // Fields are left as they are.
    kEpoch,     // 1970, no-cache.
    kMax,       // 2037, ten years.
    kAccess,    // seconds from now.
    kModified,  // seconds from Last-Modified; from now where there is none.
    kDaily,     // seconds after the next local midnight or the last one, whichever lies ahead.
  };
  Kind kind = Kind::kOff;
  std::int64_t seconds = 0;  // May be negative: no-cache.
};

struct FieldsSettings {
  struct Added {
    std::string_view name;
    http::FieldName id = http::FieldName::kOther;
    expr::Program value;
    bool always = false;  // Whatever the status; else only for nginx's list of them.
  };
  // add_header_inherit, add_trailer_inherit.
  enum class Inherit : std::uint8_t {
    kOn,     // A block with some of its own has only those.
    kOff,    // A block has only its own.
    kMerge,  // A block's own come first, then what it inherits.
  };
  // Of add_header or add_trailer.
  struct List {
    std::span<const Added> own;    // Of the innermost block with a directive of these.
    std::span<const Added> outer;  // What that block would have had without it.
    bool given = false;            // own was, if only with what is not added.
    Inherit inherit = Inherit::kOn;
    conf::SettingsView owner;  // That block.

    // Calls use(added) for each that holds in the block of here.
    template <class F>
    void for_each(const conf::SettingsView& here, F&& use) const {
      if (inherit == Inherit::kOff && owner != here) return;
      for (const Added& added : own) use(added);
      if (inherit == Inherit::kOff || (given && inherit == Inherit::kOn)) return;
      for (const Added& added : outer) use(added);
    }
  };
  List fields;
  List trailers;
  Expires expires;
  expr::Program expires_program;  // Not empty: evaluated per response instead of expires.
  bool expires_modified = false;  // "modified" was given before it.
};

struct CharsetMap;

struct CharsetSettings {
  expr::Program name;              // Empty: off.
  expr::Program source;            // source_charset; empty: bodies are in the set of name already.
  bool override_backends = false;  // override_charset: what a backend named is turned as well.
  std::span<const CharsetMap* const> maps;
  std::span<const std::string_view> types;
  bool all_types = false;  // "*".
};

}  // namespace corehttpd::transform

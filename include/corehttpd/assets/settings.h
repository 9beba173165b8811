// Directives that say which file a URI means and how files are looked up and typed: root, alias,
// types, default_type, open_file_cache….
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/assets/mime_types.h"
#include "corehttpd/base/clock.h"
#include "corehttpd/conf/directive.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/expr/variable.h"

namespace corehttpd::assets {

// nginx's open_file_cache directives. When enabled, what was found out about a path is trusted for
// valid_ms without asking the kernel; otherwise every request asks once.
struct CachePolicy {
  bool enabled = false;
  bool errors = false;                // open_file_cache_errors: failures are remembered too.
  std::uint64_t entries_max = 0;      // open_file_cache max=.
  std::uint64_t uses_min = 1;         // open_file_cache_min_uses.
  Milliseconds inactive_ms = 60'000;  // open_file_cache inactive=.
  Milliseconds valid_ms = 60'000;     // open_file_cache_valid.
};

// disable_symlinks.
enum class Links : std::uint8_t {
  kFollow,     // off
  kNever,      // on: a link anywhere in the path is refused.
  kSameOwner,  // if_not_owner: a link is followed if what it leads to has the link's owner.
};
// How one path is to be walked.
struct LinkRule {
  Links links = Links::kFollow;
  std::uint32_t trusted_bytes = 0;  // So much of the path's beginning is not checked (from=).
  friend bool operator==(const LinkRule&, const LinkRule&) = default;
};

struct Settings {
  // Of alias in a regex location: the evaluated text is the whole path, the URI is not appended.
  static constexpr std::uint32_t kAliasWhole = UINT32_MAX;

  // root or alias. Without variables root_text is the absolute path (of root without its trailing
  // slash); with variables root_program yields it, relative to root_prefix.
  std::string_view root_text;
  std::string_view root_prefix;
  expr::Program root_program;
  bool root_has_variables = false;
  // How many bytes at the start of the URI the alias replaces: the length of the name of the
  // location it was given in. 0: root, the URI is appended as a whole.
  std::uint32_t alias_bytes = 0;
  // That location's name, to notice that the URI was rewritten to something outside of it.
  std::string_view alias_name;
  bool is_alias = false;

  std::string_view default_type;
  const MimeTypes* types = nullptr;  // nullptr: the built-in html, gif and jpg, as nginx has them.

  CachePolicy open_files;
  Links links = Links::kFollow;
  expr::Program links_from;  // Empty: the whole path is checked.
};

const conf::Module& module();
// document_root, realpath_root, request_filename.
std::span<const expr::Variable> variables();

}  // namespace corehttpd::assets

// What is lost when a directive is taken out of a configuration. Whether one has to be taken out is
// never decided here: the daemon's own tables and compiler say so.
#pragma once

#include <string_view>

#include "corehttpd/conf/directive.h"
#include "server/import/source_file.h"

namespace corehttpd::server::importer {

enum class Effect : std::uint8_t {
  kNone,     // Did nothing, or nothing without another directive, which is seen by itself.
  kNothing,  // Guards nothing and answers nothing: a log, a response field, a zone's size.
  kGuard,    // May keep requests out, or nobody knows: what it stands in must be closed.
  kHandler,  // Answers requests: without it files, perhaps sources of scripts, would be served.
  kListen,   // An address of a server.
};

// statement stands in a block of this context and cannot stay. known: the tables have its name.
Effect effect_of(const Statement& statement, conf::Context context, bool known);
// An address, or network, of which software on the box may think that it is its own: loopback, a
// private one, a name.
bool is_trusted_address(std::string_view address);
// What a guard of a nested block may replace: "access" for allow and deny, the name itself for
// others that nginx overrides as a whole, empty for the rest.
std::string_view guard_family(std::string_view name);
// Rules whose order matters: what stands behind one may never be reached.
bool may_end_rules(std::string_view name, bool known);
// A variable of nginx's own that is always empty here, since nobody speaks TLS yet.
bool is_tls_variable(std::string_view name);
// A directive that only shows the variables in it (a log's format, a response field), so that one
// nobody knows may be replaced by what nginx shows for an empty one. Where it is what an
// application gets, only variables that are certainly empty may.
enum class Shows : std::uint8_t { kNo, kAsDash, kAsNothing, kAsNothingIfEmpty };
Shows shows_variables(std::string_view name);

}  // namespace corehttpd::server::importer

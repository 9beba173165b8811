// The directives of this module.
#include "corehttpd/conf/directive.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/expr/program.h"
#include "expr/registry.h"

namespace corehttpd::expr {
namespace {

using conf::Context;

constexpr conf::Directive kDirectives[] = {
    {.name = "map",
     .contexts = Context::kHttp,
     .kind = conf::Kind::kRawBlock,
     .arity = conf::exactly(2),
     .syntax = "string $variable",
     .set = set_map,
     .inherit = conf::Inherit::kNone,
     .doc = "Makes a variable whose value depends on a string: exact keys (case ignored), host "
            "masks after \"hostnames\", regular expressions (~, ~*), else \"default\"."},
    {.name = "map_hash_bucket_size",
     .contexts = Context::kHttp,
     .syntax = "size",
     .set = conf::set_nothing,
     .stage = conf::Stage::kNoMeaning,
     .doc = "Tables of maps size themselves."},
    {.name = "map_hash_max_size",
     .contexts = Context::kHttp,
     .syntax = "size",
     .set = conf::set_nothing,
     .stage = conf::Stage::kNoMeaning,
     .doc = "Tables of maps size themselves."},
    {.name = "uninitialized_variable_warn",
     .contexts = conf::kHttpServerLocation | Context::kIfServer | Context::kIfLocation,
     .syntax = "on | off",
     .set = conf::set_flag<&Settings::uninitialized_variable_warn>,
     .default_value = "on",
     .doc = "Whether reading a variable that \"set\" has not reached is logged as a warning."},
    {.name = "variables_hash_bucket_size",
     .contexts = Context::kHttp,
     .syntax = "size",
     .set = conf::set_nothing,
     .stage = conf::Stage::kNoMeaning,
     .doc = "Variables are looked up when the configuration is compiled; there is no table."},
    {.name = "variables_hash_max_size",
     .contexts = Context::kHttp,
     .syntax = "size",
     .set = conf::set_nothing,
     .stage = conf::Stage::kNoMeaning,
     .doc = "Variables are looked up when the configuration is compiled; there is no table."},
};
static_assert(conf::well_formed(kDirectives));

constexpr conf::Module kModule = conf::module<Settings>("expr", kDirectives, resolve_programs);

}  // namespace

const conf::Module& expr_module() { return kModule; }

}  // namespace corehttpd::expr

// Content from origins: fastcgi_pass, scgi_pass, uwsgi_pass and their directives, from the same
// rows (upstream/settings.h) with codecs of their own.
#pragma once

#include <span>

#include "corehttpd/conf/directive.h"
#include "corehttpd/expr/variable.h"
#include "corehttpd/http/pipeline.h"

namespace corehttpd::handlers {

// All fastcgi_* directives. Its finish() finds the groups that fastcgi_pass names, so
// upstream::upstream_module() has to be in the list as well.
const conf::Module& fastcgi_module();
// The content step of locations with fastcgi_pass.
http::StepFactory fastcgi_step();
// The same for scgi_pass and uwsgi_pass.
const conf::Module& scgi_module();
http::StepFactory scgi_step();
const conf::Module& uwsgi_module();
http::StepFactory uwsgi_step();
// $fastcgi_script_name, $fastcgi_path_info. ($upstream_... are upstream's.)
std::span<const expr::Variable> fastcgi_variables();

}  // namespace corehttpd::handlers

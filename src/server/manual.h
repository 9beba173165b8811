// Manual pages and the shell's completion, made from the tables of options and directives. The
// same tables give the same bytes: what is committed is compared with what is made.
#pragma once

#include <span>
#include <string>

#include "corehttpd/conf/directive.h"

namespace corehttpd::server {

// corehttpd(8): options, subcommands, signals, exit codes, files.
std::string manual_page();
// corehttpd.conf(5): the grammar in short, and every directive.
std::string configuration_page(std::span<const conf::Module* const> modules);
// For bash, with or without the bash-completion package's functions.
std::string bash_completion(std::span<const conf::Module* const> modules);
// --man: both pages into directory. The exit code; what failed is said on stderr.
int write_manual(const std::string& directory);

}  // namespace corehttpd::server

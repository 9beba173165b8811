// corehttpd import-nginx: brings an operator's nginx configuration over.
#pragma once

namespace corehttpd::server::importer {

// argv[1] is "import-nginx". The exit code: 0 the new tree does what the old one did, 2 it works
// but the report says what does not, 1 there is none that works.
int run(int argc, char** argv);

}  // namespace corehttpd::server::importer

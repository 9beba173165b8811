// What a nested location does not inherit. A child block starts as a copy of its parent's settings,
// which is right for most directives and for the blocks of "if" and "limit_except"; but who answers
// (fastcgi_pass, stub_status, try_files, rewrites…) belongs to the location it was written in. The
// setter of such a directive asks here that its field be cleared when a further location is opened.
#pragma once

#include <algorithm>
#include <vector>

#include "corehttpd/conf/compiler.h"

namespace corehttpd::http {

class LocationResets {
 public:
  // Clears the module's fields in the scope of a location that has just been opened and shares all
  // settings of its parent. It should look (scope.view()) before it takes a copy of its own.
  using Reset = void (*)(conf::Compiler& compiler, conf::Scope& location);

  // To be called by a setter; calling it again changes nothing.
  static void add(conf::Compiler& compiler, Reset reset) {
    std::vector<Reset>& all = compiler.object_or_make<LocationResets>().resets_;
    if (std::find(all.begin(), all.end(), reset) == all.end()) all.push_back(reset);
  }
  // Called by route for each location that it opens.
  static void run(conf::Compiler& compiler, conf::Scope& location) {
    for (Reset reset : compiler.object_or_make<LocationResets>().resets_) {
      reset(compiler, location);
    }
  }

 private:
  std::vector<Reset> resets_;
};

}  // namespace corehttpd::http

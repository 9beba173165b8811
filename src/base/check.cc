#include "corehttpd/base/check.h"

#include <cstdlib>

#include "corehttpd/base/log.h"

namespace corehttpd {

void check_failed(const char* expression, const char* file, int line) {
  log(nullptr, LogLevel::kAlert, "broken invariant \"{}\" at {}:{}", expression, file, line);
  std::abort();
}

}  // namespace corehttpd

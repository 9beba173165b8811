// Invariants. A broken one aborts the worker, which the master replaces (design: policy on errors).
// Never used on what a client, an origin or the environment can cause.
#pragma once

namespace corehttpd {
[[noreturn]] void check_failed(const char* expression, const char* file, int line);
}

#define CORE_CHECK(expression)             \
  (static_cast<bool>(expression) ? void(0) \
                                 : ::corehttpd::check_failed(#expression, __FILE__, __LINE__))
#ifdef NDEBUG
#define CORE_DCHECK(expression) void(0)
#else
#define CORE_DCHECK(expression) CORE_CHECK(expression)
#endif

// Settings of the fastcgi_* directives.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "corehttpd/base/arena.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/expr/regex.h"
#include "corehttpd/upstream/settings.h"
#include "handlers/gateway/pass_target.h"

namespace corehttpd::handlers {

struct FastcgiParam {
  std::string_view name;
  expr::Program value;
  bool if_not_empty = false;
};

// One block's fastcgi_param directives.
struct FastcgiParams {
  ArenaVector<FastcgiParam> all;
  // Those named HTTP_…: the request's own field of that name is then left out.
  ArenaVector<std::string_view> http_names;
};

struct FastcgiSettings {
  upstream::GatewaySettings gateway;  // First: the shared rows see the whole as this.
  const PassTarget* pass = nullptr;
  const FastcgiParams* params = nullptr;
  std::string_view index;
  const expr::Regex* split_path_info = nullptr;
  std::span<const std::string_view> catch_stderr;
  bool keep_conn = false;
};
static_assert(std::is_standard_layout_v<FastcgiSettings>);
static_assert(offsetof(FastcgiSettings, gateway) == 0);

}  // namespace corehttpd::handlers

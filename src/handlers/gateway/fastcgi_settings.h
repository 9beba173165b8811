// Settings of the fastcgi_* directives.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

#include "corehttpd/expr/regex.h"
#include "handlers/gateway/cgi_settings.h"

namespace corehttpd::handlers {

struct FastcgiSettings {
  upstream::GatewaySettings gateway;  // First: the shared rows see the whole as this.
  const PassTarget* pass = nullptr;
  const CgiParams* params = nullptr;
  std::string_view index;
  const expr::Regex* split_path_info = nullptr;
  std::span<const std::string_view> catch_stderr;
  std::optional<bool> keep_conn;
  void complete(upstream::GatewayPass& pass) const {
    pass.caught_diagnostics = catch_stderr;
    pass.keep_connection = keep_conn;
  }
};
static_assert(std::is_standard_layout_v<FastcgiSettings>);
static_assert(offsetof(FastcgiSettings, gateway) == 0);

}  // namespace corehttpd::handlers

// The pages that the server itself has for errors and redirects, in the shape of nginx's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "corehttpd/base/arena.h"
#include "corehttpd/http/body.h"
#include "corehttpd/http/core_settings.h"

namespace corehttpd::handlers {

struct BuiltInPage {
  http::BodySource* body = nullptr;  // In the arena that was given.
  std::size_t length = 0;
};

// status: 300 to 599, also nginx's own 494 to 497, whose page says 400 and why.
BuiltInPage built_in_page(Arena& arena, std::uint16_t status, http::CoreSettings::Tokens tokens);

}  // namespace corehttpd::handlers

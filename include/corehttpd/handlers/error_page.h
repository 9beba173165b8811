// error_page and the built-in pages: what a request that failed is answered with.
#pragma once

#include <cstdint>
#include <span>

#include "corehttpd/conf/directive.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/http/services.h"

namespace corehttpd::handlers {

// One code of an error_page directive.
struct ErrorPage {
  std::uint16_t status = 0;
  // What the client gets: status itself, another one ("=200"), or whatever the page answers ("=").
  static constexpr std::uint16_t kKeep = UINT16_MAX;
  static constexpr std::uint16_t kOfPage = 0;
  std::uint16_t response = kKeep;
  expr::Program uri;  // "/path?args", "@named", or an absolute URL to redirect to.
};

struct ErrorPageSettings {
  std::span<const ErrorPage> pages;
  bool recursive_error_pages = false;
};

// One per worker; keeps nothing between requests. As nginx does it:
// - A page within the site is an internal redirect by GET (HEAD stays; a named location keeps the
// method), a URL a redirect of the client with
//   302 unless "=" gives another 3xx.
// - An error while a page is made gets the built-in page, unless recursive_error_pages; so does one
// when no redirect is left.
// - Fields that a step has set (Allow, WWW-Authenticate, Retry-After) stay; what described the
// failed response is cleared.
// - 444, and 499, end the connection without an answer. 494 to 497 are answered as 400 but have
// pages by their own numbers.
// - After errors that leave the connection in doubt (400, 408, 413, 414, 431, 494 to 497, 500, 501,
// 505) it is closed.
class ErrorPages final : public http::ErrorResponder {
 public:
  http::StepOutcome respond(http::Exchange& exchange, std::uint16_t status) override;
  bool has_page(const http::Exchange& exchange, std::uint16_t status) const override;
};

const conf::Module& error_page_module();

}  // namespace corehttpd::handlers

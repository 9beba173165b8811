#include "corehttpd/handlers/error_page.h"

#include <memory>

#include "corehttpd/base/text.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/target.h"
#include "corehttpd/route/tree.h"
#include "handlers/built_in_page.h"

namespace corehttpd::handlers {
namespace {

using conf::Setting;
using http::Exchange;
using http::StepOutcome;

// Survives internal redirects: one page per request, unless they may recurse.
struct ErrorPageState {
  bool used = false;
};

// nginx's own numbers for kinds of 400.
constexpr std::uint16_t kHeaderTooLarge = 494;
constexpr std::uint16_t kPlainHttpToTls = 497;

constexpr std::uint16_t status_on_the_wire(std::uint16_t status) {
  return status >= kHeaderTooLarge && status <= kPlainHttpToTls ? 400 : status;
}

constexpr bool is_redirect(std::uint16_t status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool leaves_connection_in_doubt(std::uint16_t status) {
  switch (status) {
    case 400:
    case 408:
    case 413:
    case 414:
    case 431:
    case 494:
    case 495:
    case 496:
    case 497:
    case 500:
    case 501:
    case 505:
      return true;
    default:
      return false;
  }
}

// What the failed response said of a body that will not be sent. Its fields stay: a step sets them
// for the error (Allow…).
void forget_failed_response(http::ResponseHead& response) {
  response.content_length.reset();
  response.reason = {};
  response.content_type = {};
  response.charset = {};
  response.last_modified = -1;
  response.etag = {};
  response.accept_ranges = false;
  response.vary_accept_encoding = false;
}

StepOutcome send_built_in(Exchange& exchange, std::uint16_t status) {
  http::ResponseHead& response = exchange.response();
  const std::uint16_t sent = status_on_the_wire(status);
  exchange.set_error_status(sent);
  response.status = sent;
  // There is nothing to say about a number that nobody knows.
  if (http::never_has_body(sent) || sent < 300 || http::reason_phrase(sent).empty()) {
    exchange.respond(nullptr);
    return StepOutcome::answered();
  }
  const auto page = built_in_page(exchange.arena(), status,
                                  exchange.settings<http::CoreSettings>().server_tokens);
  response.content_type = "text/html";
  response.content_length = page.length;
  exchange.respond(page.body);
  return StepOutcome::answered();
}

// "error_page 404 http://example.org/missing": the client is sent there.
StepOutcome send_elsewhere(Exchange& exchange, std::uint16_t status, std::string_view url) {
  exchange.response().location = http::escape_location(exchange.arena(), url);
  return send_built_in(exchange, is_redirect(status) ? status : 302);
}

StepOutcome show_page(Exchange& exchange, const ErrorPage& page, std::uint16_t status) {
  const std::uint16_t sent =
      page.response == ErrorPage::kKeep ? status_on_the_wire(status) : page.response;
  const std::string_view uri = page.uri.evaluate(exchange);
  if (uri.starts_with('@')) {
    exchange.set_error_status(sent);
    exchange.redirect_named(uri);
    return StepOutcome::redirect();
  }
  if (!uri.starts_with('/'))
    return send_elsewhere(exchange, page.response == ErrorPage::kKeep ? status : page.response,
                          uri);
  exchange.set_error_status(sent);
  if (exchange.request().method != http::Method::kHead) exchange.set_method(http::Method::kGet);
  const auto [path, args] = http::split_args(uri);
  exchange.redirect(path, args);
  return StepOutcome::redirect();
}

const ErrorPage* find_page(const ErrorPageSettings& settings, std::uint16_t status) {
  for (const ErrorPage& page : settings.pages) {
    if (page.status == status) return &page;
  }
  return nullptr;
}

}  // namespace

bool ErrorPages::has_page(const Exchange& exchange, std::uint16_t status) const {
  const auto* state = exchange.find_state<ErrorPageState>();
  const bool used = state != nullptr && state->used;
  return !used && exchange.may_redirect() &&
         find_page(exchange.settings<ErrorPageSettings>(), status) != nullptr;
}

StepOutcome ErrorPages::respond(Exchange& exchange, std::uint16_t status) {
  if (status == 444 || status == 499) {
    exchange.response().status = status;
    exchange.reset(Error{Code::kCancelled, Party::kSelf, status, "closed without an answer"});
    return StepOutcome::answered();
  }
  forget_failed_response(exchange.response());
  if (leaves_connection_in_doubt(status)) exchange.response().close_connection = true;
  if (status == 413) {
    // The body is not read any more, and its length must not fail the error page's own location
    // again.
    exchange.body().discard();
    exchange.request().content_length.reset();
  }
  const auto& settings = exchange.settings<ErrorPageSettings>();
  auto& state = exchange.state<ErrorPageState>();
  if (!state.used && exchange.may_redirect()) {
    if (const ErrorPage* page = find_page(settings, status)) {
      state.used = !settings.recursive_error_pages;
      return show_page(exchange, *page, status);
    }
  }
  return send_built_in(exchange, status);
}

namespace {

bool read_response(const Setting& s, std::size_t word, std::uint16_t& response) {
  const std::string_view text = s.word(word).substr(1);
  if (text.empty()) {
    response = ErrorPage::kOfPage;
    return true;
  }
  const auto number = text::parse_decimal(text);
  if (!number || *number < 100 || *number > 999)
    return s.fail(word, "invalid value \"{}\"", s.word(word));
  response = static_cast<std::uint16_t>(*number);
  return true;
}

bool read_code(const Setting& s, std::size_t word, std::uint16_t& code) {
  const auto number = text::parse_decimal(s.word(word));
  if (!number) return s.fail(word, "invalid value \"{}\"", s.word(word));
  if (*number == 499)
    return s.fail(word, "value \"{}\" is not allowed: the client has gone by then", s.word(word));
  if (*number < 300 || *number > 599)
    return s.fail(word, "value \"{}\" must be between 300 and 599", s.word(word));
  code = static_cast<std::uint16_t>(*number);
  return true;
}

// error_page code ... [=[response]] uri;
bool set_error_page(const Setting& s) {
  auto& settings = *static_cast<ErrorPageSettings*>(s.settings);
  const std::size_t uri = s.words().size() - 1;
  std::size_t codes = uri;
  ErrorPage page;
  if (s.word(uri - 1).starts_with('=')) {
    --codes;
    if (!read_response(s, uri - 1, page.response)) return false;
    if (codes == 0) return s.fail(uri - 1, "no code before \"{}\"", s.word(uri - 1));
  }
  if (s.word(uri).empty()) return s.fail(uri, "empty URI");
  if (!expr::read_program(s, uri, page.uri)) return false;
  route::expect_named_location(s, uri);
  // Earlier ones of this block come first, as nginx tries them.
  const std::span<const ErrorPage> before =
      s.first_here ? std::span<const ErrorPage>() : settings.pages;
  auto* all = static_cast<ErrorPage*>(
      s.arena().allocate(sizeof(ErrorPage) * (before.size() + codes), alignof(ErrorPage)));
  std::uninitialized_copy(before.begin(), before.end(), all);
  for (std::size_t i = 0; i < codes; ++i) {
    if (!read_code(s, i, page.status)) return false;
    new (all + before.size() + i) ErrorPage(page);
  }
  settings.pages = {all, before.size() + codes};
  return true;
}

constexpr conf::Directive kDirectives[] = {
    {.name = "error_page",
     .contexts = conf::kHttpServerLocation | conf::Context::kIfLocation,
     .arity = conf::at_least(2),
     .syntax = "code ... [=[response]] uri",
     .set = set_error_page,
     .inherit = conf::Inherit::kList,
     .doc = "The URI shown for errors: a path or named location of the site, or a URL to redirect "
            "to. \"=200\" changes the status, \"=\" takes "
            "that of the page."},
    {.name = "recursive_error_pages",
     .contexts = conf::kHttpServerLocation,
     .syntax = "on | off",
     .set = conf::set_flag<&ErrorPageSettings::recursive_error_pages>,
     .default_value = "off",
     .doc = "Whether an error of an error page is looked up in error_page again."},
};
static_assert(conf::well_formed(kDirectives));

constexpr conf::Module kModule = conf::module<ErrorPageSettings>("error_page", kDirectives);

}  // namespace

const conf::Module& error_page_module() { return kModule; }

}  // namespace corehttpd::handlers

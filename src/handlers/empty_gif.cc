// The empty_gif directive: a picture of one transparent pixel, for pages that count their visitors.
#include "corehttpd/conf/values.h"
#include "corehttpd/handlers/files.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/location_reset.h"
#include "corehttpd/http/memory_source.h"

namespace corehttpd::handlers {
namespace {

using http::Exchange;
using http::StepOutcome;

struct EmptyGifSettings {
  bool enabled = false;
};

constexpr char kPixel[] =
    "GIF89a"
    "\x01\x00\x01\x00\x80\x01\x00"              // 1 × 1, a global table of two colours.
    "\x00\x00\x00\xff\xff\xff"                  // Black, white.
    "\x21\xf9\x04\x01\x00\x00\x01\x00"          // The second colour is transparent.
    "\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00"  // The image covers the screen.
    "\x02\x02\x4c\x01\x00"                      // Its one pixel, LZW coded.
    "\x3b";
constexpr std::string_view kPixelText(kPixel, sizeof(kPixel) - 1);
static_assert(kPixelText.size() == 43);

// nginx's date, so that browsers' copies stay valid: 28 September 1970.
constexpr std::int64_t kLastModified = 23'349'600;

class EmptyGif final : public http::Step {
 public:
  StepOutcome run(Exchange& exchange) const override {
    const http::Method method = exchange.request().method;
    http::ResponseHead& head = exchange.response();
    if (method != http::Method::kGet && method != http::Method::kHead) {
      head.fields.set(exchange.arena(), "Allow", "GET, HEAD");
      return StepOutcome::fail(405);
    }
    head.status = 200;
    head.content_type = "image/gif";
    head.content_length = kPixelText.size();
    head.last_modified = kLastModified;
    exchange.respond(exchange.arena().make<http::StaticSource>(kPixelText));
    return StepOutcome::answered();
  }
};

constexpr EmptyGif kEmptyGif;

// A nested location answers in its own way.
void reset_empty_gif(conf::Compiler& compiler, conf::Scope& location) {
  if (!location.view().get<EmptyGifSettings>().enabled) return;
  compiler.settings<EmptyGifSettings>(location).enabled = false;
}

bool set_empty_gif(const conf::Setting& s) {
  http::LocationResets::add(s.compiler, reset_empty_gif);
  static_cast<EmptyGifSettings*>(s.settings)->enabled = true;
  return true;
}

constexpr conf::Directive kDirectives[] = {
    {.name = "empty_gif",
     .contexts = conf::Context::kLocation,
     .arity = conf::exactly(0),
     .syntax = "",
     .set = set_empty_gif,
     .inherit = conf::Inherit::kNone,
     .doc = "Answers with a picture of one transparent pixel."},
};
static_assert(conf::well_formed(kDirectives));
constexpr conf::Module kModule = conf::module<EmptyGifSettings>("empty_gif", kDirectives);

}  // namespace

const conf::Module& empty_gif_module() { return kModule; }

http::StepFactory empty_gif() {
  return {http::Phase::kContent, [](const conf::SettingsView& view, Arena&) -> const http::Step* {
            return view.get<EmptyGifSettings>().enabled ? &kEmptyGif : nullptr;
          }};
}

}  // namespace corehttpd::handlers

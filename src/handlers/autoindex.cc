// The autoindex directive: lists directories that have no index file.
#include <algorithm>
#include <cstring>

#include "corehttpd/assets/directory.h"
#include "corehttpd/base/text.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/handlers/files.h"
#include "corehttpd/http/exchange.h"
#include "handlers/listing_format.h"
#include "handlers/uri_directory.h"

namespace corehttpd::handlers {
namespace {

using http::Exchange;
using http::StepOutcome;

struct AutoindexSettings {
  bool on = false;
  ListingOptions options;
};

// Writes the listing as the client takes it: of a large one only what fits into a block is there as
// text at a time.
class ListingSource final : public http::BodySource {
 public:
  ListingSource(Exchange& exchange, const assets::DirectoryListing& listing,
                const ListingOptions& options, std::string_view callback)
      : exchange_(exchange), listing_(listing), options_(options) {
    append_listing_head(text_, options_, exchange.uri(), callback);
  }

  Result<http::ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max,
                                 http::Forms) override {
    BlockRef block = exchange_.services().blocks.take();
    if (!block) return fail(Code::kUnavailable, "listing a directory: out of buffers");
    const std::size_t wanted = std::min(bytes_max, block->capacity());
    while (text_.size() - sent_ < wanted && !complete_) append_next();
    const std::size_t length = std::min(wanted, text_.size() - sent_);
    std::memcpy(block->data(), text_.data() + sent_, length);
    sent_ += length;
    if (sent_ == text_.size()) {
      text_.clear();
      sent_ = 0;
    }
    out[0] = Segment::from_block(std::move(block), 0, length);
    return http::ReadOutcome{1, complete_ && text_.empty() ? http::Next::kEnd : http::Next::kMore};
  }

  void cancel() noexcept override {
    complete_ = true;
    text_ = std::string();
    sent_ = 0;
  }

 private:
  void append_next() {
    if (next_ < listing_.size()) {
      append_listing_entry(text_, options_, listing_[next_], next_ == 0);
      ++next_;
      return;
    }
    append_listing_tail(text_, options_);
    complete_ = true;
  }

  Exchange& exchange_;
  const assets::DirectoryListing& listing_;
  const ListingOptions options_;
  std::string text_;  // Written and not yet sent from sent_ on.
  std::size_t sent_ = 0;
  std::size_t next_ = 0;  // Entry.
  bool complete_ = false;
};

// The argument's value as sent: what would need an escape is no name anyway.
std::string_view find_argument(std::string_view args, std::string_view name) {
  while (!args.empty()) {
    const std::string_view one = args.substr(0, args.find('&'));
    args.remove_prefix(std::min(one.size() + 1, args.size()));
    if (one.size() > name.size() && one[name.size()] == '=' &&
        text::equals_ignore_case(one.substr(0, name.size()), name)) {
      return one.substr(name.size() + 1);
    }
  }
  return {};
}

std::string_view media_type(ListingFormat format) {
  switch (format) {
    case ListingFormat::kHtml:
      return "text/html";
    case ListingFormat::kJson:
      return "application/json";
    case ListingFormat::kJsonp:
      return "application/javascript";
    case ListingFormat::kXml:
      break;
  }
  return "text/xml; charset=utf-8";
}

class Autoindex final : public http::Step {
 public:
  StepOutcome run(Exchange& exchange) const override {
    const http::Method method = exchange.request().method;
    if (!exchange.uri().ends_with('/') ||
        (method != http::Method::kGet && method != http::Method::kHead)) {
      return StepOutcome::decline();
    }
    ListingOptions options = exchange.settings<AutoindexSettings>().options;
    std::string_view callback;
    if (options.format == ListingFormat::kJsonp) {
      callback = find_argument(exchange.args(), "callback");
      if (!is_callback(callback)) {
        exchange.log(LogLevel::kInfo, 0, "client sent {} callback name: \"{}\"",
                     callback.size() > kCallbackBytesMax ? "too long" : "invalid", callback);
        return StepOutcome::fail(400);
      }
      if (callback.empty()) options.format = ListingFormat::kJson;
    }
    const UriDirectory directory = list_uri_directory(exchange);
    if (directory.listing == nullptr) return directory.outcome;
    http::ResponseHead& head = exchange.response();
    head.status = 200;
    head.content_type = media_type(options.format);
    exchange.respond(
        exchange.arena().make<ListingSource>(exchange, *directory.listing, options, callback));
    return StepOutcome::answered();
  }
};

constexpr Autoindex kAutoindex;

bool set_exact_size(const conf::Setting& s) {
  return conf::read_flag(s, 0, static_cast<AutoindexSettings*>(s.settings)->options.exact_size);
}
bool set_localtime(const conf::Setting& s) {
  return conf::read_flag(s, 0, static_cast<AutoindexSettings*>(s.settings)->options.local_time);
}
bool set_format(const conf::Setting& s) {
  auto& format = static_cast<AutoindexSettings*>(s.settings)->options.format;
  constexpr std::pair<std::string_view, ListingFormat> kFormats[] = {
      {"html", ListingFormat::kHtml},
      {"json", ListingFormat::kJson},
      {"jsonp", ListingFormat::kJsonp},
      {"xml", ListingFormat::kXml},
  };
  for (const auto& [name, value] : kFormats) {
    if (!text::equals_ignore_case(name, s.word(0))) continue;
    format = value;
    return true;
  }
  return conf::fail_choice(s, 0, "html, json, jsonp, xml");
}

constexpr conf::Directive kDirectives[] = {
    {.name = "autoindex",
     .contexts = conf::kHttpServerLocation,
     .syntax = "on | off",
     .set = conf::set_flag<&AutoindexSettings::on>,
     .default_value = "off",
     .doc = "Lists directories that have no index file. Names that begin with a dot are left out; "
            "of very large directories the first 100,000 entries are shown."},
    {.name = "autoindex_exact_size",
     .contexts = conf::kHttpServerLocation,
     .syntax = "on | off",
     .set = set_exact_size,
     .default_value = "on",
     .doc =
         "Sizes in bytes; off: rounded to kilobytes, megabytes and gigabytes. Of html listings."},
    {.name = "autoindex_format",
     .contexts = conf::kHttpServerLocation,
     .syntax = "html | xml | json | jsonp",
     .set = set_format,
     .default_value = "html",
     .doc = "The form of listings. jsonp takes the function's name from the argument callback and "
            "is json without it."},
    {.name = "autoindex_localtime",
     .contexts = conf::kHttpServerLocation,
     .syntax = "on | off",
     .set = set_localtime,
     .default_value = "off",
     .doc = "Times in the server's zone; off: in UTC. Of html listings."},
};
static_assert(conf::well_formed(kDirectives));
constexpr conf::Module kModule = conf::module<AutoindexSettings>("autoindex", kDirectives);

}  // namespace

const conf::Module& autoindex_module() { return kModule; }

http::StepFactory autoindex() {
  return {http::Phase::kContent, [](const conf::SettingsView& view, Arena&) -> const http::Step* {
            return view.get<AutoindexSettings>().on ? &kAutoindex : nullptr;
          }};
}

}  // namespace corehttpd::handlers

// Adds add_trailer's fields to the end of a body.
#pragma once

#include "corehttpd/http/exchange.h"
#include "corehttpd/transform/transforms.h"

namespace corehttpd::transform {

// The values are evaluated when the body has ended: they may tell how it went.
class TrailerSource final : public http::BodySource {
 public:
  // trailers: in the exchange's arena.
  TrailerSource(http::Exchange& exchange, http::BodySource& inner,
                std::span<const FieldsSettings::Added* const> trailers)
      : exchange_(exchange), inner_(inner), trailers_(trailers) {}
  Result<http::ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max,
                                 http::Forms forms) override {
    return inner_.read(out, bytes_max, forms);
  }
  bool restrict(std::uint64_t begin, std::uint64_t end) override {
    return inner_.restrict(begin, end);
  }
  void cancel() noexcept override { inner_.cancel(); }
  const http::FieldList* trailers() override;

 private:
  http::Exchange& exchange_;
  http::BodySource& inner_;
  std::span<const FieldsSettings::Added* const> trailers_;
  http::FieldList list_;
};

}  // namespace corehttpd::transform

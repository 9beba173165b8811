// A body turned into another character set on its way out.
#pragma once

#include <string>

#include "corehttpd/http/body.h"
#include "corehttpd/http/exchange.h"
#include "transform/charset_map.h"

namespace corehttpd::transform {

// Characters as bytes come: a piece may end within one. What the target lacks becomes '?', or from
// UTF-8 a numeric reference ("&#8364;"), which browsers show as the character; bytes that are not
// UTF-8 become '?'.
class Recoder {
 public:
  explicit Recoder(const Recoding& recoding) : recoding_(recoding) {}
  void append(std::string_view bytes, std::string& out);
  // The text has ended.
  void finish(std::string& out);

 private:
  void append_characters(std::string& out, bool last);
  Recoding recoding_;
  std::string rest_;  // From UTF-8: bytes of a character that isn't complete.
};

class RecodeSource final : public http::BodySource {
 public:
  RecodeSource(http::Exchange& exchange, http::BodySource& inner, const Recoding& recoding)
      : blocks_(exchange.services().blocks), inner_(inner), recoder_(recoding) {}
  Result<http::ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max,
                                 http::Forms forms) override;
  void cancel() noexcept override {
    inner_.cancel();
    text_ = std::string();
    sent_ = 0;
  }
  const http::FieldList* trailers() override { return inner_.trailers(); }

 private:
  BlockPool& blocks_;
  http::BodySource& inner_;
  Recoder recoder_;
  std::string text_;  // Recoded and not yet given from sent_ on: of one inner read.
  std::size_t sent_ = 0;
  bool inner_ended_ = false;
};

}  // namespace corehttpd::transform

// Content codings that a client accepts (RFC 9110 §12.5.3).
#pragma once

#include <string_view>

namespace corehttpd::http {

// Of one coding, in thousandths: 0 is "not acceptable".
inline constexpr int kWeightMax = 1000;

// What Accept-Encoding (all its lines joined) says of codings. The order of its list means nothing.
class AcceptedCodings {
 public:
  explicit AcceptedCodings(std::string_view accept_encoding) : field_(accept_encoding) {}
  // The coding's own weight, else that of "*", else 0: an empty or missing field is no consent.
  // "x-gzip" is "gzip" (§8.4.1.3). A malformed weight counts as none given.
  int weight(std::string_view coding) const;
  // 0 if identity is not named: any coding that is accepted at all is then preferred.
  int identity_weight() const;

 private:
  std::string_view field_;
};

}  // namespace corehttpd::http

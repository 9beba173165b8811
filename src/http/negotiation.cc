#include "corehttpd/http/negotiation.h"

#include <algorithm>

#include "corehttpd/base/text.h"

namespace corehttpd::http {
namespace {

constexpr int kNotListed = -1;

// q of "gzip;q=0.5".
int weight_of(std::string_view parameters) {
  while (!parameters.empty()) {
    const std::size_t end = std::min(parameters.find(';'), parameters.size());
    const std::string_view parameter = text::trim(parameters.substr(0, end));
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
    if (parameter.size() < 3 || text::lower(parameter[0]) != 'q' || parameter[1] != '=') continue;
    const std::string_view value = parameter.substr(2);
    if (value[0] != '0') return kWeightMax;
    int thousandths = 0;
    for (std::size_t i = 2, scale = 100; i < value.size() && scale > 0; ++i, scale /= 10) {
      if (text::is_digit(value[i])) thousandths += (value[i] - '0') * static_cast<int>(scale);
    }
    return thousandths;
  }
  return kWeightMax;
}

bool is_same_coding(std::string_view listed, std::string_view coding) {
  if (text::equals_ignore_case(listed, coding)) return true;
  return coding == "gzip" && text::equals_ignore_case(listed, "x-gzip");
}

// The largest weight given to coding; kNotListed if it isn't named.
int listed_weight(std::string_view field, std::string_view coding) {
  int found = kNotListed;
  std::string_view element;
  while (text::next_list_element(field, element)) {
    const std::size_t end = std::min(element.find(';'), element.size());
    if (!is_same_coding(text::trim(element.substr(0, end)), coding)) continue;
    found = std::max(found, weight_of(element.substr(std::min(end + 1, element.size()))));
  }
  return found;
}

}  // namespace

int AcceptedCodings::weight(std::string_view coding) const {
  const int own = listed_weight(field_, coding);
  return own != kNotListed ? own : std::max(listed_weight(field_, "*"), 0);
}

int AcceptedCodings::identity_weight() const {
  return std::max(listed_weight(field_, "identity"), 0);
}

}  // namespace corehttpd::http

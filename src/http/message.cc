#include "corehttpd/http/message.h"

#include <array>

namespace corehttpd::http {
namespace {

struct Reason {
  std::uint16_t status;
  std::string_view phrase;
};

// The words of nginx where it has some (monitoring and scripts of operators compare whole status
// lines), else those of IANA's registry.
constexpr Reason kReasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {102, "Processing"},
    {103, "Early Hints"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {203, "Non-Authoritative Information"},
    {204, "No Content"},
    {205, "Reset Content"},
    {206, "Partial Content"},
    {207, "Multi-Status"},
    {208, "Already Reported"},
    {226, "IM Used"},
    {300, "Multiple Choices"},
    {301, "Moved Permanently"},
    {302, "Moved Temporarily"},
    {303, "See Other"},
    {304, "Not Modified"},
    {305, "Use Proxy"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Not Allowed"},
    {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"},
    {408, "Request Time-out"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Request Entity Too Large"},
    {414, "Request-URI Too Large"},
    {415, "Unsupported Media Type"},
    {416, "Requested Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {423, "Locked"},
    {424, "Failed Dependency"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {451, "Unavailable For Legal Reasons"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Temporarily Unavailable"},
    {504, "Gateway Time-out"},
    {505, "HTTP Version Not Supported"},
    {506, "Variant Also Negotiates"},
    {507, "Insufficient Storage"},
    {508, "Loop Detected"},
    {511, "Network Authentication Required"},
};

// Place in kReasons plus one by status, from 100; 0: none. Every response asks.
constexpr auto kPlaces = [] {
  std::array<std::uint8_t, 500> places{};
  for (std::size_t i = 0; i < std::size(kReasons); ++i) {
    places[kReasons[i].status - 100] = static_cast<std::uint8_t>(i + 1);
  }
  return places;
}();

}  // namespace

std::string_view to_string(Version version) {
  constexpr std::string_view kVersions[] = {"HTTP/0.9", "HTTP/1.0", "HTTP/1.1", "HTTP/2.0",
                                            "HTTP/3.0"};
  return kVersions[static_cast<std::size_t>(version)];
}

std::string_view reason_phrase(std::uint16_t status) {
  if (status < 100 || status >= 100 + kPlaces.size()) return {};
  const std::size_t place = kPlaces[status - 100];
  return place == 0 ? std::string_view() : kReasons[place - 1].phrase;
}

}  // namespace corehttpd::http

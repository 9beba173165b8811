#include "tls/openssl.h"

namespace corehttpd::tls {

std::string take_error(const char* fallback) {
  const unsigned long code = ERR_peek_error();
  std::string out = fallback;
  if (code != 0) {
    char text[256];
    ERR_error_string_n(code, text, sizeof(text));
    out = text;
    const char* data = nullptr;
    int flags = 0;
    ERR_peek_error_data(&data, &flags);
    if (data != nullptr && (flags & ERR_TXT_STRING) != 0 && *data != '\0')
      out += std::string(":") + data;
  }
  ERR_clear_error();
  return out;
}

void expect_no_errors() {
  if (ERR_peek_error() != 0) ERR_clear_error();
}

int peek_reason() { return ERR_GET_REASON(ERR_peek_error()); }

}  // namespace corehttpd::tls

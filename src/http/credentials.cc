#include "corehttpd/http/credentials.h"

#include "corehttpd/base/base64.h"
#include "corehttpd/base/text.h"

namespace corehttpd::http {
namespace {

struct CredentialsState {
  bool looked = false;
  bool found = false;
  BasicCredentials credentials;
};

bool decode(Exchange& exchange, BasicCredentials& out) {
  constexpr std::string_view kScheme = "basic ";
  const std::string_view field = exchange.request().fields.value(FieldName::kAuthorization);
  if (!text::starts_with_ignore_case(field, kScheme)) return false;
  const auto decoded = decode_base64(exchange.arena(), text::trim(field.substr(kScheme.size())));
  if (!decoded) return false;
  const std::size_t colon = decoded->find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  out = {decoded->substr(0, colon), decoded->substr(colon + 1)};
  return true;
}

}  // namespace

const BasicCredentials* basic_credentials(Exchange& exchange) {
  if (exchange.request().fields.find(FieldName::kAuthorization) == nullptr) return nullptr;
  auto& state = exchange.state<CredentialsState>();
  if (!state.looked) {
    state.looked = true;
    state.found = decode(exchange, state.credentials);
  }
  return state.found ? &state.credentials : nullptr;
}

}  // namespace corehttpd::http

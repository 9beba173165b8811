#include "proto/tls_channel.h"

namespace corehttpd::proto {
namespace {

bool demands_certificate(const tls::Settings& settings) {
  return settings.verify != tls::VerifyClient::kOff;
}

}  // namespace

TlsChannel::TlsChannel(int fd, http::Services& services, tls::HandshakeOwner& owner)
    : store(*services.tls), stream(fd, services.loop, *services.tls, owner) {}

std::optional<std::string_view> TlsChannel::value(std::string_view name, Arena& arena) const {
  return stream.fact(name, arena);
}

std::uint16_t TlsChannel::judge(const http::Site& asked, bool safe, const char*& why) const {
  if (stream.early() && !safe) {
    why = "client sent an unsafe request in early data";
    return 425;
  }
  const auto& settings = asked.settings.get<tls::Settings>();
  if (!demands_certificate(settings)) return 0;
  // Another site's demands were put to the client, or none at all (RFC 9110 §15.5.20).
  const auto* ours = store.find(shown->settings.get<tls::Settings>());
  const auto* wanted = store.find(settings);
  if (wanted == nullptr || ours == nullptr || wanted->session_context != ours->session_context) {
    why = "client attempted to request the server name different from the one that was negotiated";
    return 421;
  }
  switch (stream.client_certificate()) {
    case tls::Stream::ClientCertificate::kGood:
      return 0;
    case tls::Stream::ClientCertificate::kBad:
      why = stream.client_certificate_problem();
      return 495;
    case tls::Stream::ClientCertificate::kNone:
      if (settings.verify != tls::VerifyClient::kOn) return 0;
      why = "client sent no required SSL certificate";
      return 496;
  }
  return 0;
}

}  // namespace corehttpd::proto

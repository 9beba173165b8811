#include "proto/tls_handshake.h"

#include <utility>

#include "corehttpd/proto/h2.h"
#include "proto/connection_log.h"
#include "proto/h1/connection.h"

namespace corehttpd::proto {

void TlsHandshake::serve(int fd, const http::ConnectionInfo& info, h1::Context& context) {
  auto* handshake = new TlsHandshake(fd, info, context);
  handshake->begin();
  handshake->channel_->stream.start();
}

TlsHandshake::TlsHandshake(int fd, const http::ConnectionInfo& info, h1::Context& context)
    : Newcomer(fd, info, context),
      channel_(std::make_unique<TlsChannel>(fd, context.services,
                                            static_cast<tls::HandshakeOwner&>(*this))) {}

tls::Choice TlsHandshake::choose(std::string_view name) {
  const http::SiteSelector& sites = context_.services.sites;
  const http::Site& site = sites.site_by_name(*info_.endpoint, info_.local, name);
  channel_->shown = &site;
  const tls::SitePolicy* policy = context_.services.tls->find(site.settings.get<tls::Settings>());
  if (policy == nullptr) {
    // It has no certificate of its own: the default server's is shown, and its demands hold.
    channel_->shown = &sites.site_by_name(*info_.endpoint, info_.local, {});
    policy = context_.services.tls->find(channel_->shown->settings.get<tls::Settings>());
  }
  if (policy == nullptr || policy->broken) {
    log_in(settings_.error_log, LogLevel::kInfo, ConnectionLog(info_), 0,
           "site \"{}\" has no usable certificate, its handshake is refused while SSL handshaking",
           site.name);
  }
  return {policy, site.http2};
}

void TlsHandshake::on_handshake_done() {
  info_.tls = channel_.get();
  const bool http2 = channel_->stream.protocol() == "h2";
  const int fd = std::exchange(fd_, -1);
  leave();
  if (http2) {
    h2::take_over(fd, info_, context_.services, {}, context_.connections, std::move(channel_));
  } else {
    h1::Connection::serve(fd, info_, context_, std::move(channel_));
  }
}

void TlsHandshake::on_handshake_failed(const tls::HandshakeFailure& failure) {
  log_in(settings_.error_log, failure.client ? LogLevel::kInfo : LogLevel::kCrit,
         ConnectionLog(info_), 0, "{} while SSL handshaking", failure.text);
  begin_close();
}

// Served as a request that failed: 497 says what is wrong, in a page or by error_page.
void TlsHandshake::on_plain_text() {
  if (closing_) return begin_close();
  info_.plain_to_tls = true;
  const int fd = std::exchange(fd_, -1);
  leave();
  h1::Connection::serve(fd, info_, context_, nullptr, channel_->stream.received());
}

void TlsHandshake::on_timer() {
  log_in(settings_.error_log, LogLevel::kInfo, ConnectionLog(info_), 0,
         "client timed out (110: Connection timed out) while SSL handshaking");
  begin_close();
}

void TlsHandshake::close_now() { begin_close(); }

void TlsHandshake::begin_close() {
  closing_ = true;
  context_.services.loop.cancel(static_cast<io::Timer&>(*this));
  context_.services.turn.post(static_cast<TurnTask&>(*this));
}

void TlsHandshake::on_turn() {
  if (!closing_ || !channel_->stream.close(*this)) return;
  close_descriptor();
  leave();
}

}  // namespace corehttpd::proto

// The context of error log lines about a connection that serves no request at the moment.
#pragma once

#include "corehttpd/base/log.h"
#include "corehttpd/http/site.h"
#include "corehttpd/http/transport.h"

namespace corehttpd::proto {

class ConnectionLog final : public LogContext {
 public:
  explicit ConnectionLog(const http::ConnectionInfo& info) : info_(info) {}
  void describe(LogFields& fields) const override {
    char text[IpAddress::kTextMax];
    fields.add("client", info_.peer.format(text), false);
    if (info_.endpoint != nullptr) fields.add("server", info_.endpoint->text, false);
  }
  std::uint64_t connection_number() const override { return info_.number; }
  bool debugged() const override { return info_.debug; }

 private:
  const http::ConnectionInfo& info_;
};

}  // namespace corehttpd::proto

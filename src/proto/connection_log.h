// The context of error log lines about a connection that serves no request at the moment.
#pragma once

#include <string>

#include "corehttpd/base/log.h"
#include "corehttpd/http/site.h"
#include "corehttpd/http/transport.h"

namespace corehttpd::proto {

class ConnectionLog final : public LogContext {
 public:
  explicit ConnectionLog(const http::ConnectionInfo& info) : info_(info) {}
  void append_to(std::string& line) const override {
    char text[IpAddress::kTextMax];
    line.append(", client: ").append(info_.peer.format(text));
    if (info_.endpoint != nullptr) line.append(", server: ").append(info_.endpoint->text);
  }
  std::uint64_t connection_number() const override { return info_.number; }

 private:
  const http::ConnectionInfo& info_;
};

}  // namespace corehttpd::proto

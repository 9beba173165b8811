// When certificates' files are to be looked at: inotify(7) tells of changes in their folders; what
// it cannot tell of (a folder that is a link to another, network file systems, limits of the
// kernel) is found by looking once a minute.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "corehttpd/base/clock.h"

namespace corehttpd::server {

class CertificateWatch {
 public:
  static constexpr Milliseconds kPeriod = 60'000;

  CertificateWatch() = default;
  CertificateWatch(const CertificateWatch&) = delete;
  CertificateWatch& operator=(const CertificateWatch&) = delete;
  ~CertificateWatch() { close(); }

  // In place of those before.
  void watch(const std::vector<std::string>& folders);
  // Also in a child after fork.
  void close();
  // Something has changed, or it is time.
  bool due(Milliseconds now_ms);
  // It has been looked; next: again within this time, whatever is told.
  void looked(Milliseconds now_ms, Milliseconds next);
  // Adds what to poll for; how long until due() may say so by itself.
  Milliseconds wait(Milliseconds now_ms, std::vector<pollfd>& polled) const;

 private:
  bool read_events();

  static constexpr Milliseconds kPause = 100;

  int fd_ = -1;
  Milliseconds looked_ms_ = 0;
  Milliseconds next_ms_ = 0;
};

}  // namespace corehttpd::server

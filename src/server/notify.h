// The service manager's side of the master: sd_notify(3)'s protocol, one datagram a message.
// Written here and not taken from libsystemd, which would bring its compressors and libgcrypt into
// a root process for these few lines.
#pragma once

#include <string>
#include <string_view>

#include "corehttpd/base/clock.h"

namespace corehttpd::server {

class ServiceManager {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. Without a socket every call does nothing.
  ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;
  ~ServiceManager();

  // Somebody who is told when another process becomes the service's.
  bool present() const { return socket_ >= 0; }
  // READY=1 with a status line for systemctl. main_process: also MAINPID=, after an upgrade.
  void ready(std::string_view status, bool main_process);
  // RELOADING=1 with the monotonic time that Type=notify-reload wants; ready() ends it.
  void reloading();
  void stopping();
  // WATCHDOG=1, at most once in half the interval; call it as often as the loop turns.
  void keep_alive(Milliseconds now_ms);
  // Milliseconds after which keep_alive() wants to be called; 0: no watchdog.
  Milliseconds watchdog_interval() const { return watchdog_ms_ / 2; }
  // Another process speaks for the service from now on.
  void hand_over();

 private:
  void send(std::string_view message);

  std::string address_;  // A path, or an abstract name that begins with '@'.
  int socket_ = -1;
  Milliseconds watchdog_ms_ = 0;
  Milliseconds last_alive_ms_ = 0;
};

}  // namespace corehttpd::server

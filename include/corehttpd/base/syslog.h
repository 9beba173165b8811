// A syslog server, by datagrams in the shape of RFC 3164 as nginx sends it:
// "<PRI>Mmm dd hh:mm:ss host tag: message". Over UDP or a unix socket. Never blocks and never
// fails: what cannot be sent is dropped, counted, and reported in the process's error log, once
// when it begins and once when messages pass again.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <string_view>

#include "corehttpd/base/clock.h"
#include "corehttpd/base/log.h"

namespace corehttpd {

class Syslog final : public LogSink {
 public:
  struct Parameters {
    std::string_view server;  // As written: "unix:/dev/log", "192.0.2.1:514", "log.example".
    std::string_view host;    // Of server, without port and brackets; the path of a unix socket.
    std::uint16_t port = 514;
    bool is_unix = false;
    std::uint8_t facility = 23;  // local7.
    std::uint8_t severity = 6;   // info; of access logs.
    std::string_view tag = "nginx";
    bool hostname = true;
  };
  // What parameters name must live as long.
  explicit Syslog(const Parameters& parameters) : parameters_(parameters) {}
  Syslog(const Syslog&) = delete;
  Syslog& operator=(const Syslog&) = delete;
  ~Syslog();

  const Parameters& parameters() const { return parameters_; }
  // Before the first message.
  void set_address(const sockaddr* address, socklen_t length);

  // One message of parameters().severity.
  void send(std::string_view text) { send(parameters_.severity, text); }
  // A line of the error log: its level is the severity.
  void write(LogLevel level, std::string_view line) override;

 private:
  // A socket that refuses is asked again after so long; a new /dev/log is noticed as soon.
  static constexpr Milliseconds kRetry = 100;
  // It counts as working again when so long nothing was refused: over UDP a dead server is only
  // noticed with the message after.
  static constexpr Milliseconds kQuiet = 1000;

  void send(std::uint8_t severity, std::string_view text);
  bool open_socket(Milliseconds now);
  void close_socket();
  int transmit(std::string_view head, std::string_view text);
  void dropped(int errno_value, const char* call, Milliseconds now);
  void passed(Milliseconds now);

  Parameters parameters_;
  sockaddr_storage address_{};
  socklen_t address_length_ = 0;
  int fd_ = -1;
  pid_t owner_ = 0;  // Whose socket it is: each process has its own.
  Milliseconds retry_ms_ = 0;
  Milliseconds dropped_ms_ = 0;
  std::uint64_t dropped_ = 0;
  bool failing_ = false;  // Told; the end is to be told too.
  bool sending_ = false;  // A report about this server must not be sent to it meanwhile.
};

}  // namespace corehttpd

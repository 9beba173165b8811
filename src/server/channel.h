// Messages between the master and a worker, over a SOCK_SEQPACKET pair. To the worker: a log file
// was opened anew, certificates were taken up. To the master: the worker is ready, and later, it
// accepts no more. The worker reads end of file when the master is gone, and then ends as well.
#pragma once

#include <cstdint>

#include "corehttpd/base/error.h"

namespace corehttpd::server {

struct ChannelMessage {
  enum class Type : std::uint32_t {
    kReopenLog = 1,     // With the descriptor.
    kReady = 2,         // The worker accepts connections.
    kStopped = 3,       // It drains, and accepts no more.
    kForgetLogs = 4,    // Log files that the worker has opened itself are to be opened anew.
    kCertificates = 5,  // With memory that tls::Store::unpack() reads.
  } type;
  std::uint32_t index;  // kReopenLog: of the log file, in LogFiles.
};

struct ChannelPair {
  int master = -1, worker = -1;
};
Result<ChannelPair> make_channel();
// Sends message, with descriptor fd if it is not -1. Never blocks: a worker that does not read
// misses the message, which the caller logs.
Result<> send_message(int channel, const ChannelMessage& message, int fd = -1);
struct ReceivedMessage {
  ChannelMessage message;
  int fd;
};
// kClosed when the master is gone; kUnavailable when there is nothing to read.
Result<ReceivedMessage> receive_message(int channel);

}  // namespace corehttpd::server

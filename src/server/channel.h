// Messages from the master to a worker, over a SOCK_SEQPACKET pair: a log file was opened anew. The
// worker reads end of file when the master is gone, and then ends as well.
#pragma once

#include <cstdint>
#include <string_view>

#include "corehttpd/base/error.h"

namespace corehttpd::server {

struct ChannelMessage {
  enum class Type : std::uint32_t {
    kReopenLog = 1,   // With the descriptor of the log file opened anew.
    kForgetLogs = 2,  // Log files that the worker has opened itself are to be opened anew.
  } type;
  // Of the log file's path. Not its place in LogFiles: a worker of an older configuration that
  // still finishes its requests has another list.
  std::uint64_t path_hash;
};

std::uint64_t hash_path(std::string_view path);

struct ChannelPair {
  int master = -1, worker = -1;
};
Result<ChannelPair> make_channel();
// Sends message with descriptor fd, -1: without. Never blocks: a worker that does not read misses
// the message, which the caller logs.
Result<> send_message(int channel, const ChannelMessage& message, int fd);
struct ReceivedMessage {
  ChannelMessage message;
  int fd;
};
// kClosed when the master is gone; kUnavailable when there is nothing to read.
Result<ReceivedMessage> receive_message(int channel);

}  // namespace corehttpd::server

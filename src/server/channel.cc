#include "server/channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace corehttpd::server {

Result<ChannelPair> make_channel() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
    return std::unexpected(error_from_errno(errno, "socketpair()"));
  }
  return ChannelPair{fds[0], fds[1]};
}

Result<> send_message(int channel, const ChannelMessage& message, int fd) {
  iovec data{const_cast<ChannelMessage*>(&message), sizeof(message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  }
  if (::sendmsg(channel, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    return std::unexpected(error_from_errno(errno, "sendmsg()"));
  return {};
}

Result<ReceivedMessage> receive_message(int channel) {
  ReceivedMessage received{{}, -1};
  iovec data{&received.message, sizeof(received.message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  const ssize_t length = ::recvmsg(channel, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (length == 0) return fail(Code::kClosed, "recvmsg()");
  if (length < 0) {
    if (errno == EAGAIN || errno == EINTR) return fail(Code::kUnavailable, "recvmsg()", errno);
    return std::unexpected(error_from_errno(errno, "recvmsg()"));
  }
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
      std::memcpy(&received.fd, CMSG_DATA(part), sizeof(int));
  }
  if (length != sizeof(received.message)) return fail(Code::kMalformed, "recvmsg()");
  return received;
}

}  // namespace corehttpd::server

// The master's care for certificates: changed ones are taken up and handed to the workers that run,
// which never open files of keys; what expires is told of.
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "corehttpd/base/log.h"
#include "server/certificate_watch.h"
#include "server/channel.h"
#include "server/master.h"

namespace corehttpd::server {

void CertificateWatch::watch(const std::vector<std::string>& folders) {
  close();
  next_ms_ = 0;
  if (folders.empty()) return;
  fd_ = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (fd_ < 0) return;
  constexpr std::uint32_t kEvents = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE |
                                    IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
  // One that cannot be watched, or not any more, is looked at in any case.
  for (const std::string& folder : folders) ::inotify_add_watch(fd_, folder.c_str(), kEvents);
}

void CertificateWatch::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

// What has changed does not matter: all files are looked at, which takes microseconds each.
bool CertificateWatch::read_events() {
  alignas(inotify_event) char events[4096];
  bool any = false;
  while (fd_ >= 0 && ::read(fd_, events, sizeof(events)) > 0) any = true;
  return any;
}

// In a busy folder most events are about other files.
bool CertificateWatch::due(Milliseconds now_ms) {
  if (read_events()) next_ms_ = std::min(next_ms_, looked_ms_ + kPause);
  return now_ms >= next_ms_;
}

void CertificateWatch::looked(Milliseconds now_ms, Milliseconds next) {
  looked_ms_ = now_ms;
  next_ms_ = now_ms + next;
}

Milliseconds CertificateWatch::wait(Milliseconds now_ms, std::vector<pollfd>& polled) const {
  if (fd_ >= 0) polled.push_back({fd_, POLLIN, 0});
  return std::clamp<Milliseconds>(next_ms_ - now_ms, 0, kPeriod);
}

namespace {

// A descriptor with the bytes; -1: there is no memory.
int make_memory(const std::string& bytes) {
  const int fd = ::memfd_create("corehttpd-certificates", MFD_CLOEXEC);
  std::size_t written = 0;
  while (fd >= 0 && written < bytes.size()) {
    const ssize_t count = ::write(fd, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      ::close(fd);
      return -1;
    }
    written += static_cast<std::size_t>(count);
  }
  return fd;
}

}  // namespace

bool Master::tends_certificates() const { return ready_ && !stopping_ && pending_ == nullptr; }

void Master::look_after_certificates() {
  if (!tends_certificates()) return;
  auto* store = current_->configuration->object<tls::Store>();
  const Milliseconds now_ms = clock_.now_ms();
  if (store == nullptr || store->empty()) {
    certificate_watch_.close();
    return certificate_watch_.looked(now_ms, CertificateWatch::kPeriod);
  }
  if (watched_generation_ != current_->number) {
    watched_generation_ = current_->number;
    certificate_watch_.watch(store->folders());
  }
  if (certificate_watch_.due(now_ms)) {
    const auto [unsettled, folders] =
        store->take_up_changes(now_ms, current_->configuration->sites());
    // Links may lead elsewhere now.
    if (folders) certificate_watch_.watch(store->folders());
    certificate_watch_.looked(now_ms,
                              unsettled ? tls::Store::kLookAgain : CertificateWatch::kPeriod);
    store->announce_expiry(std::time(nullptr), now_ms);
  }
  for (WorkerProcess& worker : current_->workers) hand_over_certificates(*store, worker);
}

// What cannot be sent now is sent in a later turn.
void Master::hand_over_certificates(const tls::Store& store, WorkerProcess& worker) {
  while (worker.certificates < store.version()) {
    std::string bytes;
    const std::uint64_t version = store.pack(worker.certificates, bytes);
    const int fd = make_memory(bytes);
    ::explicit_bzero(bytes.data(), bytes.size());
    const auto sent =
        fd < 0 ? fail(Code::kSystem, "memfd_create()", errno)
               : send_message(worker.channel, {ChannelMessage::Type::kCertificates, 0}, fd);
    if (fd >= 0) ::close(fd);
    if (!sent) return;
    worker.certificates = version;
  }
}

}  // namespace corehttpd::server

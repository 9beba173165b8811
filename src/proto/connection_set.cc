#include "corehttpd/proto/connection_set.h"

#include "corehttpd/base/check.h"

namespace corehttpd::proto {

LiveConnection::~LiveConnection() {
  if (set_ != nullptr) set_->remove(*this);
}

ConnectionSet::~ConnectionSet() { CORE_DCHECK(size_ == 0); }

void ConnectionSet::add(LiveConnection& connection) {
  CORE_DCHECK(connection.set_ == nullptr);
  connection.set_ = this;
  connections_.push_back(connection);
  ++size_;
}

void ConnectionSet::remove(LiveConnection& connection) {
  if (connection.set_ != this) return;
  connection.set_ = nullptr;
  connection.unlink();
  --size_;
  if (size_ == 0 && when_empty_ != nullptr) turn_.post(*when_empty_);
}

void ConnectionSet::drain() {
  // The next one is taken first: a connection may leave the set by handing over to another
  // protocol.
  for (LiveConnection* at = connections_.first(); at != nullptr;) {
    LiveConnection* next = connections_.next(*at);
    at->drain();
    at = next;
  }
}

void ConnectionSet::close_now() {
  for (LiveConnection* at = connections_.first(); at != nullptr;) {
    LiveConnection* next = connections_.next(*at);
    at->close_now();
    at = next;
  }
}

void ConnectionSet::when_empty(TurnTask* task) {
  when_empty_ = task;
  if (task != nullptr && size_ == 0) turn_.post(*task);
}

}  // namespace corehttpd::proto

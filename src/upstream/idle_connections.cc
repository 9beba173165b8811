#include "upstream/idle_connections.h"

namespace corehttpd::upstream {

IdleConnections::Idle::Idle(IdleConnections& owner, io::Loop& loop, OriginConnection& held)
    : connection(held),
      expiry([](io::Timer& t) { static_cast<Expiry&>(t).idle.end(); }, *this),
      loop_(loop),
      owner_(owner),
      kept_ms_(loop.clock().now_ms()) {
  connection.hand_over(*this);
  connection.start_receiving();
}

IdleConnections::Idle::~Idle() { loop_.cancel(expiry); }

void IdleConnections::Idle::end() {
  IdleConnections& owner = owner_;
  owner.drop(*this);
  if (owner.dropped_ != nullptr) owner.dropped_(owner.context_);
}

void IdleConnections::keep(io::Loop& loop, OriginConnection& connection, Milliseconds timeout) {
  auto* idle = new Idle(*this, loop, connection);
  list_.push_front(*idle);
  ++size_;
  loop.schedule(idle->expiry, timeout);
}

OriginConnection* IdleConnections::take(const io::Address* address, std::size_t& dead,
                                        bool trust_new) {
  for (Idle* idle = list_.first(); idle != nullptr;) {
    Idle* const next = list_.next(*idle);
    OriginConnection& connection = idle->connection;
    if (address == nullptr || connection.address() == *address) {
      const bool trusted = trust_new && idle->is_new() && connection.address().is_unix();
      if (trusted ? connection.at_rest() : connection.quiet()) {
        delete idle;
        --size_;
        return &connection;
      }
      drop(*idle);
      ++dead;
    }
    idle = next;
  }
  return nullptr;
}

void IdleConnections::drop(Idle& idle) {
  idle.connection.close();
  delete &idle;
  --size_;
}

bool IdleConnections::drop_oldest() {
  if (list_.empty()) return false;
  drop(list_.back());
  return true;
}

void IdleConnections::clear() {
  while (drop_oldest()) {
  }
}

}  // namespace corehttpd::upstream

// The servers of an upstream block of which some have names that are looked up while we run
// ("resolve"). Each worker looks for itself, when a request comes and what it knows is no longer
// valid, and makes itself a group of the addresses that it has found; requests go on with the one
// they began with.
#pragma once

#include <memory>
#include <vector>

#include "corehttpd/upstream/peers.h"
#include "corehttpd/upstream/resolver.h"

namespace corehttpd::upstream {

class DynamicServers {
 public:
  // While servers are known, requests wait this long for others.
  static constexpr Milliseconds kPatienceMs = 1000;
  class Waiter : public ListHook<> {
   public:
    virtual void on_servers() = 0;

   protected:
    ~Waiter() = default;
  };
  struct Version {
    Arena arena;
    Group group;
    std::uint32_t users = 0;
  };

  // block and its peers live in the configuration.
  DynamicServers(const Group& block, const Resolver& resolver, Milliseconds timeout,
                 const Backends& backends);
  DynamicServers(const DynamicServers&) = delete;
  ~DynamicServers();
  // True: what is known is good to be used. Else waiter will be told when it is; whoever has waited
  // for timeout() uses what there is.
  bool fresh(io::Loop& loop, Waiter& waiter);
  Milliseconds timeout() const { return known() ? kPatienceMs : timeout_; }
  Version& acquire();
  void release(Version& version);

 private:
  struct Server final : NameWaiter {
    Server(DynamicServers& owner, const Peer& as_written) : servers(owner), peer(as_written) {}
    void on_name(const NameAnswer& answer) override;
    DynamicServers& servers;
    const Peer& peer;
    bool asking = false;
    std::vector<io::Address> addresses;  // Sorted, so that a mere change of order is none.
    Milliseconds valid_until_ms = 0;
  };
  bool known() const { return version_ != nullptr && !version_->group.peers.empty(); }
  void take(Server& server, const NameAnswer& answer);
  void make_version();

  const Group& block_;
  const Resolver& resolver_;
  Milliseconds timeout_;
  const Backends& backends_;
  std::vector<std::unique_ptr<Server>> servers_;
  io::Loop* loop_ = nullptr;
  std::size_t asking_ = 0;
  Milliseconds asked_ms_ = 0;  // When the oldest question under way was asked, or before.
  bool changed_ = true;        // Since the version was made.
  Version* version_ = nullptr;
  List<Waiter> waiters_;
};

}  // namespace corehttpd::upstream

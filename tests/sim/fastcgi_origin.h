// A FastCGI server at the other end of the server's simulated connections: it answers with the
// request's own target and body, in records of any size.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "corehttpd/io/sim_loop.h"

namespace corehttpd::sim {

class FastcgiOrigin {
 public:
  explicit FastcgiOrigin(io::SimLoop& loop) : loop_(loop) {
    loop_.on_connect([](const sockaddr*, socklen_t) { return 0; });
  }
  // Every peer that is not the server's connection to us.
  void ignore(const io::SimPeer& client) { known_.insert(&client); }
  void act();
  // There is something that act() would do.
  bool active() const;

 private:
  struct Request {
    io::SimPeer* peer = nullptr;
    std::string in, params, body;
    std::string out;
    bool complete = false;
    bool finished = false;
  };
  void find_new();
  void read(Request& request);
  void answer(Request& request);
  std::string records(std::string_view content);

  io::SimLoop& loop_;
  std::set<const io::SimPeer*> known_;
  std::vector<Request> requests_;
};

}  // namespace corehttpd::sim

// The listening sockets. They belong to the master and live across generations: an address that the
// new configuration still wants keeps its socket, so no queued connection is lost and no address is
// ever "already in use" by ourselves.
#pragma once

#include <string>
#include <vector>

#include "corehttpd/base/error.h"
#include "corehttpd/route/tree.h"

namespace corehttpd::server {

class ListeningSockets {
 public:
  ListeningSockets() = default;
  ListeningSockets(const ListeningSockets&) = delete;
  ListeningSockets& operator=(const ListeningSockets&) = delete;
  ~ListeningSockets();

  // Sockets that the master before us bound (an upgrade). Their files stay as they are until own()
  // says that they are ours.
  void adopt(const std::vector<int>& fds);
  void own();
  // Makes sure there is a socket for each listener; those that exist already are kept. On failure
  // what was newly bound is closed again and failed says which: "bind() to 0.0.0.0:80".
  Result<> open(std::span<route::Listener> wanted, std::string& failed);
  // Closes the sockets that wanted does not name, and gives the others its options. Before the new
  // generation is forked, which would hold them open.
  void keep_only(std::span<route::Listener> wanted);
  // The socket of each listener, in its order.
  std::vector<int> descriptors(std::span<route::Listener> wanted) const;
  // All of them, to hand over.
  std::vector<int> all() const;
  // Closes all and removes the files of unix sockets: at the very end. The destructor does the same
  // for a start that failed.
  void close_all();
  // The files belong to a successor now.
  void disown();
  // In a new worker: closes what wanted does not name, so that an address which only another
  // generation uses is not held open.
  void close_others(std::span<route::Listener> wanted) const;

 private:
  struct Bound {
    io::Address address;
    int fd;
    bool owned = true;  // The file of a unix socket goes with it.
  };
  static void close(const Bound& bound);
  const Bound* find(const io::Address& address) const;
  std::vector<Bound> bound_;
};

// For -t: can each address be bound? In use by someone is no error, as with nginx, and one that
// this machine does not have is worth a warning.
Result<> test_listeners(std::span<route::Listener> wanted, std::string& failed,
                        std::vector<std::string>& warnings);

}  // namespace corehttpd::server

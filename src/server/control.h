// The control socket: how the command line asks the running master something and hears how it
// ended. A unix stream socket beside the pid file, mode 0600. A client sends one line, the name of
// a request; the answer is text until the end of the connection. For kReload and kUpgrade it comes
// when the outcome is known: "ok\n", or "failed: " and the reason.
#pragma once

#include <poll.h>

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/base/clock.h"
#include "corehttpd/base/error.h"

namespace corehttpd::server {

enum class ControlRequest : std::uint8_t { kStatus, kStatusJson, kReload, kUpgrade };
// "status", "status json", "reload", "upgrade".
std::string_view to_string(ControlRequest request);

// "/run/corehttpd.pid" → "/run/corehttpd.sock".
std::string control_path(const std::string& pid_path);

class ControlServer {
 public:
  // What the master does with a request: an answer at once, or nothing and complete() later.
  class Handler {
   public:
    virtual void on_control(ControlRequest request, std::uint64_t client) = 0;

   protected:
    ~Handler() = default;
  };

  explicit ControlServer(Handler& handler) : handler_(handler) {}
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  ~ControlServer();

  // Listens at path; a file of that name is replaced in one step, so that a master that is being
  // upgraded and its successor never leave a gap.
  Result<> open(const std::string& path);
  // Ends; removes the socket's file unless a successor has taken its place.
  void close(bool remove_file);
  // In a child after fork: its copies are closed, the file stays.
  void close_in_child() { close(false); }

  // Adds what to poll for.
  void add_to(std::vector<pollfd>& polled) const;
  // Accepts, reads and writes whatever is possible; drops clients that take too long.
  void work(Milliseconds now_ms);
  void answer(std::uint64_t client, std::string text);

 private:
  struct Client {
    std::uint64_t id;
    int fd;
    Milliseconds since_ms;
    std::string in;
    std::string out;
    bool asked = false;     // Its line is complete.
    bool answered = false;  // out is all that it gets.
  };
  // Enough for tools that poll the status; a local user who fills it delays only root's questions.
  static constexpr std::size_t kClientsMax = 16;
  static constexpr std::size_t kLineMax = 64;
  // To send the line, or to take the answer.
  static constexpr Milliseconds kPatience = 5000;

  void accept_all(Milliseconds now_ms);
  // False when the client is done with.
  bool serve(Client& client, Milliseconds now_ms);
  bool read_line(Client& client);
  void dispatch(Client& client);

  Handler& handler_;
  std::list<Client> clients_;  // Handlers answer while we iterate.
  std::string path_;
  int listener_ = -1;
  std::uint64_t next_id_ = 1;
};

// Does a master listen at path? One that was killed leaves the file, but nobody behind it.
bool master_listens(const std::string& path);
// The command line's side: the whole answer. kNotFound: no master listens at path; kClosed: it
// ended before it answered. Blocks as long as the master needs.
Result<std::string> ask_master(const std::string& path, ControlRequest request);

}  // namespace corehttpd::server

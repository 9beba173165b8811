// Subrequests: an internal request of an exchange, answered by the same pipeline (auth_request,
// includes, mirror). The child is an Exchange of its own, with its own arena, carried by a
// transport that hands the response to a listener instead of a socket.
//
// Life: start() runs the child at once, but the listener hears of it at the end of the turn, never
// from within start(). on_head(), then for kPull as many read() as the consumer likes, then
// on_done(), after which the Subrequest is destroyed at the end of that turn. When the parent ends
// first, the child is aborted and the listener, which the parent owns, hears no more.
#pragma once

#include <cstdint>
#include <string_view>

#include "corehttpd/base/error.h"
#include "corehttpd/base/turn.h"
#include "corehttpd/http/exchange.h"
#include "corehttpd/http/transport.h"

namespace corehttpd::http {

class Subrequest;

class SubrequestListener {
 public:
  // The child's response head is known: child.exchange().response().
  virtual void on_head(Subrequest&) {}
  // kPull: a read() that said kBlocked may be tried again.
  virtual void on_body_ready(Subrequest&) {}
  // It is over; error is nullptr if the response came to its proper end. The child's exchange may
  // be looked at during the call only.
  virtual void on_done(Subrequest& child, const Error* error) = 0;

 protected:
  ~SubrequestListener() = default;
};

struct SubrequestOptions {
  enum class Body : std::uint8_t {
    kDiscard,  // Only the head is wanted.
    kPull,     // The listener reads the body.
  };
  Method method = Method::kGet;
  Body body = Body::kDiscard;
};

class Subrequest final : private Transport {
 public:
  // uri: a normalized path, or "@name" for a named location. Both are copied. The child sees the
  // parent's fields without those that belong to the parent's body (Content-Length,
  // Transfer-Encoding, Expect), and without preconditions and ranges, which are about the parent's
  // response; kPull also goes without Accept-Encoding, since what is included must be readable. It
  // has no body itself. Fails with kTooLarge (logged) when subrequests are nested
  // kSubrequestDepthMax deep.
  static Result<Subrequest*> start(Exchange& parent, std::string_view uri, std::string_view args,
                                   const SubrequestOptions& options, SubrequestListener& listener);
  Subrequest(const Subrequest&) = delete;
  Subrequest& operator=(const Subrequest&) = delete;

  Exchange& exchange() { return exchange_; }
  // kPull, after on_head() and before on_done(): as BodySource::read(), in memory segments. kEnd or
  // an error is followed by on_done().
  Result<ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max);
  // The listener wants no more: the child is aborted, nobody is told. Idempotent; not after
  // on_done().
  void withdraw();

 private:
  Subrequest(Exchange& parent, const SubrequestOptions& options, SubrequestListener& listener);
  ~Subrequest() = default;
  void copy_head(const Exchange& parent);
  void run();
  void finish(const Error* error);
  void dispose();

  void send_informational(std::uint16_t, const FieldList&) override {}
  void send_head(const ResponseHead& head, BodySource* body) override;
  void body_ready() override;
  void grant(std::size_t) override {}
  void reset(const Error& error) override;
  const ConnectionInfo& connection() const override { return exchange_.connection(); }

  struct Task : TurnTask {
    Task(Run run, Subrequest& subrequest) : TurnTask(run), owner(subrequest) {}
    Subrequest& owner;
  };
  struct ParentHook : AbortHook {
    ParentHook(OnAbort on_abort, Subrequest& subrequest) : AbortHook(on_abort), owner(subrequest) {}
    Subrequest& owner;
  };

  TurnQueue& turn_;
  SubrequestListener* listener_;  // nullptr: over.
  SubrequestOptions options_;
  BodySource* source_ = nullptr;  // Not yet read to its end.
  bool head_pending_ = false;     // What run() has to tell.
  bool ready_pending_ = false;
  bool ended_ = false;
  bool failed_ = false;
  Error failure_;
  Task task_;
  Task destroy_;
  ParentHook parent_hook_;
  Exchange exchange_;
};

}  // namespace corehttpd::http

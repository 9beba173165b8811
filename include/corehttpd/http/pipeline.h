// Steps: what a location does with a request. Stateless objects that read settings through
// Exchange::settings<T>(); per-request state goes to Exchange::state<T>().
#pragma once

#include <cstdint>
#include <span>

#include "corehttpd/base/arena.h"
#include "corehttpd/conf/directive.h"
#include "corehttpd/http/site.h"

namespace corehttpd::http {

class Exchange;
class BodySource;

struct StepOutcome {
  enum class Kind : std::uint8_t {
    kContinue,  // Go on with the next step; from a content step: declined.
    kAnswered,  // Exchange::respond() was called; the pipeline is over.
    kRelocate,  // The URI was rewritten: look for the location again (at most 10 times per
                // request), run from its first step.
    kRedirect,  // Exchange::redirect…() was called (internal redirect): as kRelocate, from the
                // server's rewrite phase on.
    kFail,      // Answer with status, through error_page.
    kSuspend,   // Exchange::resume() will be called.
    kRepeat,    // To resume() only: the step that suspended runs once more.
  };
  Kind kind = Kind::kContinue;
  std::uint16_t status = 0;

  static constexpr StepOutcome proceed() { return {Kind::kContinue, 0}; }
  static constexpr StepOutcome decline() { return {Kind::kContinue, 0}; }
  static constexpr StepOutcome answered() { return {Kind::kAnswered, 0}; }
  static constexpr StepOutcome relocate() { return {Kind::kRelocate, 0}; }
  static constexpr StepOutcome redirect() { return {Kind::kRedirect, 0}; }
  static constexpr StepOutcome fail(std::uint16_t status) { return {Kind::kFail, status}; }
  static constexpr StepOutcome suspend() { return {Kind::kSuspend, 0}; }
  static constexpr StepOutcome repeat() { return {Kind::kRepeat, 0}; }
};

class Step {
 public:
  // After kSuspend the exchange goes on with the outcome given to resume(); run() is called a
  // second time only if that is kRepeat: for steps that merely wait until something is known.
  virtual StepOutcome run(Exchange& exchange) const = 0;

 protected:
  ~Step() = default;
};

// nginx's phases, in order. server-level rewrite steps make up Site::rewrite; all others belong to
// locations.
enum class Phase : std::uint8_t {
  kPostRead,
  kServerRewrite,
  kRewrite,
  kPreaccess,
  kAccess,
  kPrecontent,
  kContent
};

// How a module puts a step into locations: make() is asked for each location when the configuration
// is compiled and yields nullptr where the settings do not ask for it. Steps of one phase come in
// the order of the server's list.
struct StepFactory {
  Phase phase;
  const Step* (*make)(const conf::SettingsView& settings, Arena& arena);
};

// Decorates responses, in the order of the server's static list (nginx's filter order: conditional,
// fields, charset, gzip, range).
class Transform {
 public:
  // May change exchange.response() and return another source that reads body; return body itself to
  // leave it. body may be nullptr. Dropping a body: body->cancel() and return nullptr. Called
  // before any source has been read.
  virtual BodySource* apply(Exchange& exchange, BodySource* body) const = 0;

 protected:
  ~Transform() = default;
};

}  // namespace corehttpd::http

// Checks of passwords whose hashes take long, one object per worker. They are computed one at a
// time in an offload thread, which leaves the other to the rest of the worker; equal checks at the
// same time are computed once; and those that succeeded are remembered for a while, since a browser
// sends its password with every picture of a page.
//
// What is remembered is a keyed digest of hash and password together. A check is a pure function of
// the two, so an answer never goes stale: who is in the file, and with which hash, is read anew at
// each request. Neither passwords nor hashes are kept, and failures are not remembered at all.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "corehttpd/base/clock.h"
#include "corehttpd/base/list.h"
#include "corehttpd/io/loop.h"

namespace corehttpd::access {

// Who waits for a check. Destroying it withdraws it.
class PasswordWaiter : public ListHook<> {
 public:
  // Called by the loop, once.
  using OnChecked = void (*)(PasswordWaiter&, bool match);
  explicit PasswordWaiter(OnChecked on_checked) : on_checked_(on_checked) {}

 private:
  friend class PasswordChecks;
  OnChecked on_checked_;
};

class PasswordChecks {
 public:
  // Checks that wait or are computed at one time; more are refused.
  static constexpr std::size_t kChecksMax = 128;
  // Successes remembered, and for how long after they were last asked for.
  static constexpr std::size_t kRememberedMax = 1024;
  static constexpr Milliseconds kRememberedTime = 600'000;

  // The loop must outlive it.
  explicit PasswordChecks(io::Loop& loop);
  PasswordChecks(const PasswordChecks&) = delete;
  PasswordChecks& operator=(const PasswordChecks&) = delete;
  // No check may be under way.
  ~PasswordChecks();

  enum class Answer : std::uint8_t {
    kMatch,
    kMismatch,
    kPending,  // The waiter will be called.
    kBusy,     // Too many checks are under way.
  };
  // hash as in a user file. The waiter must stay in place until it is called or destroyed.
  Answer check(std::string_view hash, std::string_view password, PasswordWaiter& waiter);

 private:
  using Digest = std::array<std::uint8_t, 32>;
  struct Check;
  struct Remembered {
    Digest digest{};
    Milliseconds until_ms = 0;
  };
  struct RetryTimer : io::Timer {
    RetryTimer(Fire fire, PasswordChecks& the_owner) : io::Timer(fire), owner(the_owner) {}
    PasswordChecks& owner;
  };
  static constexpr std::size_t kWays = 4;
  // When the offload queue was full.
  static constexpr Milliseconds kRetryTime = 20;

  Digest digest_of(std::string_view hash, std::string_view password) const;
  Remembered* set_of(const Digest& digest);
  bool remembers(const Digest& digest);
  void remember(const Digest& digest);
  void start_next();
  void on_checked(Check& check);

  io::Loop& loop_;
  std::array<std::uint8_t, 32> key_{};
  std::unique_ptr<Remembered[]> remembered_;  // Made with the first success.
  List<Check> waiting_;
  Check* running_ = nullptr;
  std::size_t count_ = 0;  // Of both.
  RetryTimer retry_;
};

}  // namespace corehttpd::access

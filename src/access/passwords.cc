#include "corehttpd/access/passwords.h"

#include <sha2.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "access/password.h"
#include "corehttpd/base/check.h"

namespace corehttpd::access {

// Touched by the offload thread between start and completion: hash_, password_, match_.
struct PasswordChecks::Check final : io::OffloadTask, ListHook<> {
  Check(PasswordChecks& the_owner, const Digest& the_digest, std::string_view the_hash,
        std::string_view the_password)
      : owner(the_owner), digest(the_digest), hash(the_hash), password(the_password) {}
  ~Check() { explicit_bzero(password.data(), password.size()); }
  void run() noexcept override { match = verify_password(hash, password); }
  void done() override { owner.on_checked(*this); }

  PasswordChecks& owner;
  const Digest digest;
  const std::string hash;
  std::string password;
  List<PasswordWaiter> waiters;
  bool match = false;
};

PasswordChecks::PasswordChecks(io::Loop& loop)
    : loop_(loop),
      retry_([](io::Timer& timer) { static_cast<RetryTimer&>(timer).owner.start_next(); }, *this) {
  // 32 bytes are never cut short. Without them nothing can be remembered, which is checked below.
  if (::getrandom(key_.data(), key_.size(), 0) != static_cast<ssize_t>(key_.size())) key_.fill(0);
}

PasswordChecks::~PasswordChecks() {
  loop_.cancel(retry_);
  while (Check* check = waiting_.pop_front()) delete check;
  CORE_DCHECK(running_ == nullptr);
}

PasswordChecks::Digest PasswordChecks::digest_of(std::string_view hash,
                                                 std::string_view password) const {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<const std::uint8_t*>(text.data());
  };
  const std::uint64_t length = hash.size();
  SHA2_CTX context;
  Digest digest;
  SHA256Init(&context);
  SHA256Update(&context, key_.data(), key_.size());
  SHA256Update(&context, reinterpret_cast<const std::uint8_t*>(&length), sizeof(length));
  SHA256Update(&context, bytes(hash), hash.size());
  SHA256Update(&context, bytes(password), password.size());
  SHA256Final(digest.data(), &context);
  return digest;
}

PasswordChecks::Remembered* PasswordChecks::set_of(const Digest& digest) {
  constexpr std::size_t kSets = kRememberedMax / kWays;
  const std::size_t place = (digest[0] | std::size_t{digest[1]} << 8) % kSets;
  return remembered_.get() + place * kWays;
}

bool PasswordChecks::remembers(const Digest& digest) {
  if (!remembered_) return false;
  const Milliseconds now = loop_.clock().now_ms();
  Remembered* const set = set_of(digest);
  for (std::size_t i = 0; i < kWays; ++i) {
    if (set[i].until_ms <= now || set[i].digest != digest) continue;
    set[i].until_ms = now + kRememberedTime;
    return true;
  }
  return false;
}

void PasswordChecks::remember(const Digest& digest) {
  if (key_ == decltype(key_){}) return;
  if (!remembered_) remembered_ = std::make_unique<Remembered[]>(kRememberedMax);
  Remembered* const set = set_of(digest);
  Remembered* const oldest = std::min_element(
      set, set + kWays,
      [](const Remembered& a, const Remembered& b) { return a.until_ms < b.until_ms; });
  *oldest = {digest, loop_.clock().now_ms() + kRememberedTime};
}

PasswordChecks::Answer PasswordChecks::check(std::string_view hash, std::string_view password,
                                             PasswordWaiter& waiter) {
  if (!is_slow(scheme_of(hash)))
    return verify_password(hash, password) ? Answer::kMatch : Answer::kMismatch;
  const Digest digest = digest_of(hash, password);
  if (remembers(digest)) return Answer::kMatch;
  if (running_ != nullptr && running_->digest == digest) {
    running_->waiters.push_back(waiter);
    return Answer::kPending;
  }
  for (Check* one = waiting_.first(); one != nullptr; one = waiting_.next(*one)) {
    if (one->digest != digest) continue;
    one->waiters.push_back(waiter);
    return Answer::kPending;
  }
  if (count_ >= kChecksMax) return Answer::kBusy;
  auto* made = new Check(*this, digest, hash, password);
  made->waiters.push_back(waiter);
  waiting_.push_back(*made);
  ++count_;
  start_next();
  return Answer::kPending;
}

void PasswordChecks::start_next() {
  while (running_ == nullptr) {
    Check* const next = waiting_.pop_front();
    if (next == nullptr) return;
    if (next->waiters.empty()) {  // All of its clients have gone.
      --count_;
      delete next;
    } else if (loop_.offload(*next)) {
      running_ = next;
    } else {
      // Full of other work, which will be done soon.
      waiting_.push_front(*next);
      return loop_.schedule(retry_, kRetryTime);
    }
  }
}

void PasswordChecks::on_checked(Check& check) {
  running_ = nullptr;
  --count_;
  if (check.match) remember(check.digest);
  start_next();
  while (PasswordWaiter* waiter = check.waiters.pop_front())
    waiter->on_checked_(*waiter, check.match);
  delete &check;
}

}  // namespace corehttpd::access

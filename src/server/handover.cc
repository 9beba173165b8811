// The part of the master that lets a new binary take its place (USR2), and that takes the place of
// an older one.
#include <unistd.h>

#include <csignal>

#include "corehttpd/base/log.h"
#include "corehttpd/route/tree.h"
#include "server/environment.h"
#include "server/master.h"
#include "server/settings.h"

namespace corehttpd::server {

void Master::start_upgrade() {
  if (upgrade_.running()) return;  // Its outcome answers this request too.
  if (!ready_ || pending_ != nullptr || settling_since_ms_ || !make_room()) {
    upgrade_again_ = true;
    return;
  }
  std::uint32_t alive = 0;
  for (const auto& generation : generations_) {
    if (generation->state != Generation::State::kEnded) ++alive;
  }
  Inheritance inheritance;
  inheritance.listeners = sockets_.all();
  inheritance.elders = elders_;
  inheritance.counters = counters_segment_.fd();
  inheritance.tickets = tickets_segment_.fd();
  for (const auto& zone : session_zones_) inheritance.sessions.push_back(zone->segment.fd());
  inheritance.generation = generation_number_;
  // As nginx names it; the pid file itself is ours until the new master is ready.
  if (auto written = write_pid_file(pid_path_ + kOldPidEnding); !written) {
    log_errno(nullptr, LogLevel::kAlert, written.error().detail, "{} of \"{}{}\" failed",
              written.error().context, pid_path_, kOldPidEnding);
  }
  log(nullptr, LogLevel::kNotice, "starting new binary \"{}\"", invocation_.executable);
  auto started =
      upgrade_.start(invocation_, std::move(inheritance), alive, original_, clock_.now_ms());
  if (!started) {
    log_errno(nullptr, LogLevel::kAlert, started.error().detail, "{} failed",
              started.error().context);
    finish_upgrade(false, started.error().context);
  }
}

void Master::check_upgrade() {
  if (!upgrade_.running() || handed_over_ || !upgrade_.ready(clock_.now_ms())) return;
  log(nullptr, LogLevel::kNotice, "new binary process {} serves, this one ends gracefully",
      upgrade_.pid());
  handed_over_ = true;
  settling_since_ms_ = clock_.now_ms();
  // What the successor has taken over is no longer ours to remove or to speak for.
  service_.hand_over();
  sockets_.disown();
  // A reload that was asked for meanwhile: the successor may have read the configuration before.
  if (std::exchange(reload_again_, false)) {
    ::kill(upgrade_.pid(), SIGHUP);
    for (std::uint64_t client : std::exchange(reload_clients_, {}))
      control_.answer(client, "failed: a new binary has just taken over, try again\n");
  }
  stop(SIGQUIT);
}

void Master::on_upgrade_end(int status) {
  if (handed_over_) {
    // Its master is the service manager's business; we only have its body.
    log(nullptr, LogLevel::kAlert, "new binary process {} {}", upgrade_.pid(),
        cause_of_end(status));
    upgrade_.forget();
    return;
  }
  const pid_t pid = upgrade_.pid();
  const std::string reason = upgrade_.ended(status);
  if (stopping_) return finish_upgrade(false, "the server is ending");  // Both end.
  log(nullptr, LogLevel::kAlert, "new binary process {} did not come up: {}; the old one goes on",
      pid, reason);
  finish_upgrade(false, reason);
}

void Master::finish_upgrade(bool taken, const std::string& reason) {
  last_upgrade_ = {::time(nullptr), taken, reason};
  if (!taken) ::unlink((pid_path_ + kOldPidEnding).c_str());
  for (std::uint64_t client : std::exchange(upgrade_clients_, {}))
    control_.answer(client, taken ? "ok\n" : "failed: " + reason + "\n");
}

// Libraries that were replaced under us are taken up as a new binary is. Whoever watches this very
// process (daemon off, and no service manager to be told of another) would take that for its end.
void Master::follow_libraries() {
  if (stopping_ || !ready_ || upgrade_.running()) return;
  const std::string* library = libraries_.replaced(clock_.now_ms());
  if (library == nullptr) return;
  if (!service_.present() && !current_->configuration->root.get<ServerSettings>().daemon) {
    log(nullptr, LogLevel::kWarn, "\"{}\" was replaced, this process goes on with the old one",
        *library);
    return;
  }
  log(nullptr, LogLevel::kNotice, "\"{}\" was replaced, moving onto the new one", *library);
  start_upgrade();
}

// What is asked of us before we can do it.
void Master::catch_up() {
  if (stopping_ || !ready_ || pending_ != nullptr || settling_since_ms_ || upgrade_.running())
    return;
  if (std::exchange(reload_again_, false)) reload();
  if (std::exchange(upgrade_again_, false)) start_upgrade();
}

std::string Master::show_up() {
  // Before the pid file: whoever has seen that one may ask. Without the socket everything works but
  // the questions and answers of the command line.
  if (auto opened = control_.open(control_path(pid_path_)); !opened) {
    log_errno(nullptr, LogLevel::kWarn, opened.error().detail, "{} \"{}\" cannot be opened",
              opened.error().context, control_path(pid_path_));
  }
  if (auto written = write_pid_file(pid_path_); !written) {
    return describe_failure(std::string(written.error().context) + " of \"" + pid_path_ + "\"",
                            written.error());
  }
  return {};
}

// The workers are ready: from here on this master is the service.
void Master::take_over() {
  ready_ = true;
  current_->state = Generation::State::kServing;
  if (inherited_) {
    sockets_.own();
    sockets_.keep_only(current_->configuration->object<route::Tree>()->listeners());
    if (std::string message = show_up(); !message.empty())
      log(nullptr, LogLevel::kAlert, "{}", message);
    last_upgrade_ = {::time(nullptr), true, {}};
  }
  service_.ready(status_line(status_facts()), inherited_.has_value());
  report_to_elder(report_, "ready");
}

}  // namespace corehttpd::server

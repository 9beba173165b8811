#include "sim/sim_server.h"

#include <unistd.h>

#include <fstream>
#include <sstream>

#include "corehttpd/base/check.h"
#include "corehttpd/http/log_files.h"
#include "corehttpd/route/tree.h"
#include "server/log_opening.h"
#include "server/modules.h"

namespace corehttpd::sim {
namespace {

std::unique_ptr<conf::Configuration> load(const std::string& logs) {
  conf::Diagnostics diagnostics;
  conf::Options options;
  options.prefix = logs + "/";
  options.path = logs + "/sim.conf";
  auto configuration = server::load_text(site_configuration(logs), options, diagnostics);
  if (configuration == nullptr) std::fputs(diagnostics.format_all().c_str(), stderr);
  CORE_CHECK(configuration != nullptr);
  CORE_CHECK(server::open_logs(*configuration->object<http::LogFiles>(), {}).empty());
  return configuration;
}

shm::Segment make_segment() {
  auto segment = shm::Segment::create("sim", server::SharedCounters::kLayoutVersion,
                                      server::SharedCounters::data_bytes(), 0);
  CORE_CHECK(segment.has_value());
  return *std::move(segment);
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

void WatchedLog::log(http::Exchange& exchange) {
  ++calls_;
  ++by_target_[std::string(exchange.request().target)];
  log_.log(exchange);
}

int WatchedLog::lines_of(const std::string& target) const {
  const auto found = by_target_.find(target);
  return found == by_target_.end() ? 0 : found->second;
}

SimServer::SimServer(const io::SimOptions& options)
    : loop_(options),
      configuration_(load(directory_.path())),
      segment_(make_segment()),
      counters_(segment_),
      access_log_(loop_, *configuration_),
      watched_log_(access_log_),
      files_(std::make_unique<assets::FileLookup>(loop_.clock())),
      services_{.loop = loop_,
                .turn = static_cast<io::Loop&>(loop_).turn(),
                .blocks = loop_.blocks(),
                .clock = loop_.clock(),
                .sites = *configuration_->object<route::Tree>(),
                .errors = error_pages_,
                .log = watched_log_,
                .counters = counters_,
                .transforms = server::transforms(),
                .body_temp_path = directory_.path(),
                .draining = false,
                .files = files_.get()},
      acceptors_(std::make_unique<proto::Acceptors>(services_, 1000)) {
  counters_.use_slot(counters_.take_slot());
  files_->start(loop_);
  listener_ = loop_.listen();
  acceptors_->add(listener_, configuration_->object<route::Tree>()->listeners()[0].endpoint);
}

SimServer::~SimServer() {
  if (acceptors_ != nullptr) {
    // Only after a failure: nothing may point to what goes now.
    if (accepting_) drain();
    acceptors_->connections().close_now();
    for (int turn = 0; turn < 1000 && (connections() != 0 || !acceptors_->stopped()); ++turn)
      loop_.run_once();
    acceptors_.reset();
  }
  ::close(listener_);
  server::close_logs(*configuration_->object<http::LogFiles>());
}

void SimServer::drain() {
  accepting_ = false;
  services_.draining = true;
  acceptors_->stop();
  acceptors_->connections().when_empty(&emptied_);
  acceptors_->connections().drain();
}

void SimServer::finish() {
  if (accepting_) drain();
  // Whoever has been accepted meanwhile, and the log's last write.
  for (int turn = 0; turn < 100 && !(emptied_.told && acceptors_->stopped() && access_log_.idle());
       ++turn) {
    loop_.run_until_blocked(10);
  }
  EXPECT_TRUE(acceptors_->stopped());
  EXPECT_TRUE(emptied_.told);
  ASSERT_EQ(connections(), 0u);
  EXPECT_TRUE(access_log_.idle());
  access_log_.flush_all();
  acceptors_.reset();
  files_.reset();
  EXPECT_TRUE(loop_.run_until_quiet(1000));
  EXPECT_EQ(loop_.outstanding(), 0u);
  EXPECT_EQ(loop_.blocks().in_use(), 0u);
  const http::Counters::Snapshot counted = counters_.snapshot();
  EXPECT_EQ(counted.active, 0u);
  EXPECT_EQ(counted.reading, 0u);
  EXPECT_EQ(counted.writing, 0u);
  EXPECT_EQ(counted.waiting, 0u);
  EXPECT_EQ(counted.accepts, counted.handled);
  EXPECT_EQ(counted.requests, watched_log_.calls());
  check_logs();
}

// Lines are whole and one for each call; and nothing happened that an operator would be woken for.
void SimServer::check_logs() {
  std::istringstream lines(content_of(directory_.path("access.log")));
  std::uint64_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_TRUE(line.ends_with('|')) << line;
  }
  EXPECT_EQ(count, watched_log_.calls());
  EXPECT_EQ(content_of(directory_.path("error.log")), "");
}

}  // namespace corehttpd::sim

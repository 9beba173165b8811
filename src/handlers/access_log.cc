#include "corehttpd/handlers/access_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "corehttpd/http/exchange.h"
#include "corehttpd/io/loop.h"
#include "handlers/log_cache.h"
#include "handlers/log_settings.h"
#include "handlers/log_writer.h"

namespace corehttpd::handlers {

AccessLog::AccessLog(io::Loop& loop, const conf::Configuration& configuration) {
  const AccessFiles* options = configuration.object<AccessFiles>();
  for (const http::LogFile* file : configuration.object<http::LogFiles>()->files()) {
    writers_.push_back(std::make_unique<LogWriter>(
        loop, file->path, file->fd, options == nullptr ? LogWriterOptions() : options->get(*file)));
  }
  if (options != nullptr && options->variable_paths != 0)
    cache_ = std::make_unique<LogCache>(loop, options->variable_paths);
}

AccessLog::~AccessLog() = default;

void AccessLog::log(http::Exchange& exchange) {
  const auto& settings = exchange.settings<AccessLogSettings>();
  for (const AccessLogTarget* target = settings.first; target != nullptr; target = target->next) {
    if (target->conditional) {
      const std::string_view value = target->condition.evaluate(exchange);
      if (value.empty() || value == "0") continue;
    }
    if (target->file != nullptr) {
      log_to_file(*target, exchange);
    } else if (target->syslog != nullptr) {
      log_to_syslog(*target, exchange);
    } else if (target->variable_path != nullptr) {
      cache_->log(*target, settings.cache, exchange);
    }
  }
}

void AccessLog::log_to_file(const AccessLogTarget& target, http::Exchange& exchange) {
  LogWriter& writer = *writers_[target.file->index];
  std::string* line = writer.begin_line();
  if (line == nullptr) return;
  format_log_line(*target.format, exchange, *line);
  line->push_back('\n');
  writer.line_done();
}

void AccessLog::log_to_syslog(const AccessLogTarget& target, http::Exchange& exchange) {
  line_.clear();
  format_log_line(*target.format, exchange, line_);
  target.syslog->send(line_);
}

void AccessLog::reopen(std::uint32_t index, int fd) {
  if (index < writers_.size()) {
    writers_[index]->reopen(fd);
  } else {
    ::close(fd);
  }
}

void AccessLog::forget_opened() {
  if (cache_ != nullptr) cache_->forget_opened();
}

bool AccessLog::idle() const {
  return std::all_of(writers_.begin(), writers_.end(),
                     [](const auto& writer) { return writer->idle(); }) &&
         (cache_ == nullptr || cache_->idle());
}

void AccessLog::flush_all() {
  for (auto& writer : writers_) writer->finish();
  if (cache_ != nullptr) cache_->finish();
}

}  // namespace corehttpd::handlers

#include "server/modules.h"

#include <unistd.h>

#include <array>
#include <vector>

#include "corehttpd/access/access.h"
#include "corehttpd/access/auth_basic.h"
#include "corehttpd/access/auth_request.h"
#include "corehttpd/access/real_ip.h"
#include "corehttpd/assets/settings.h"
#include "corehttpd/conf/later.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/expr/variable.h"
#include "corehttpd/handlers/access_log.h"
#include "corehttpd/handlers/error_page.h"
#include "corehttpd/handlers/files.h"
#include "corehttpd/handlers/gateway.h"
#include "corehttpd/handlers/rewrite.h"
#include "corehttpd/handlers/status.h"
#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/log_files.h"
#include "corehttpd/proto/h2.h"
#include "corehttpd/route/tree.h"
#include "corehttpd/tls/settings.h"
#include "corehttpd/transform/gzip.h"
#include "corehttpd/transform/transforms.h"
#include "corehttpd/upstream/gateway.h"
#include "corehttpd/upstream/peers.h"
#include "corehttpd/upstream/resolver.h"
#include "server/command_line.h"
#include "server/exposed_files.h"
#include "server/settings.h"

namespace corehttpd::server {
namespace {

// Steps in the order in which those of one phase run. The content handlers that a location names
// come before what merely finds files.
std::span<const http::StepFactory> step_factories() {
  static const auto kFactories = [] {
    std::vector<http::StepFactory> list;
    for (const http::StepFactory& factory : access::real_ip_factories()) list.push_back(factory);
    list.push_back(access::kLimitExceptFactory);
    for (const http::StepFactory& factory : handlers::rewrite_factories()) list.push_back(factory);
    list.push_back(access::kAccessFactory);
    list.push_back(handlers::try_files());
    list.push_back({http::Phase::kContent, handlers::make_status_step});
    list.push_back(handlers::empty_gif());
    list.push_back(handlers::fastcgi_step());
    list.push_back(handlers::scgi_step());
    list.push_back(handlers::uwsgi_step());
    list.push_back(handlers::random_index());
    list.push_back(handlers::index());
    list.push_back(handlers::autoindex());
    list.push_back(handlers::precompressed());
    list.push_back(handlers::static_file());
    return list;
  }();
  return kFactories;
}

std::span<const std::span<const expr::Variable>> variable_tables() {
  static const std::array kTables = {
      expr::core_variables(),         access::real_ip_variables(),   assets::variables(),
      upstream::upstream_variables(), handlers::fastcgi_variables(), handlers::status_variables(),
  };
  return kTables;
}

void prepare(conf::Compiler& compiler) {
  expr::prepare(compiler, variable_tables());
  route::set_step_factories(compiler, step_factories());
}

}  // namespace

// finish() runs in this order: programs are resolved (expr) before anything evaluates one,
// locations exist (route) before handlers look at them.
std::span<const conf::Module* const> modules() {
  static const std::array kModules = {
      &server_module(),
      &http::core_module(),
      &expr::expr_module(),
      &route::route_module(),
      &tls::module(),
      &h2::module(),
      &assets::module(),
      &access::access_module(),
      &access::auth_basic_module(),
      &access::auth_request_module(),
      &access::real_ip_module(),
      &handlers::rewrite_module(),
      &handlers::error_page_module(),
      &handlers::try_files_module(),
      &handlers::index_module(),
      &handlers::random_index_module(),
      &handlers::empty_gif_module(),
      &handlers::autoindex_module(),
      &handlers::precompressed_module(),
      &upstream::resolver_module(),
      &handlers::fastcgi_module(),
      &handlers::scgi_module(),
      &handlers::uwsgi_module(),
      &upstream::upstream_module(),  // Behind what names servers.
      &handlers::status_module(),
      &handlers::access_log_module(),
      &transform::fields_module(),
      &transform::charset_module(),
      &transform::gzip_module(),
      &transform::rate_module(),
      &conf::later_module(),
  };
  return kModules;
}

// nginx's order of header filters.
std::span<const http::Transform* const> transforms() {
  static const std::array kTransforms = {
      &transform::conditional(), &transform::fields(), &transform::charset(),
      &transform::gzip(),        &transform::range(),  &transform::rate(),
  };
  return kTransforms;
}

namespace {

// The target of a main context without error_log.
struct DefaultLog {
  LogTarget target;
};

void add_default_log(conf::Configuration& configuration, const std::string& error_log) {
  if (configuration.root.get<http::CoreSettings>().error_log != nullptr || error_log == "stderr")
    return;
  std::string path = error_log.empty() ? kDefaultErrorLog : error_log;
  if (error_log.empty() && ::access(path.substr(0, path.rfind('/')).c_str(), W_OK | X_OK) != 0)
    return;
  auto* files = configuration.object<http::LogFiles>();
  auto* fallback = configuration.arena().make<DefaultLog>();
  const http::LogFile& file = files->add(configuration.arena(), path);
  fallback->target.path = file.path;
  fallback->target.fd = -1;
  files->bind(fallback->target, file);
  configuration.set_object(fallback);
}

}  // namespace

std::unique_ptr<conf::Configuration> load(const conf::Options& options,
                                          conf::Diagnostics& diagnostics,
                                          const std::string& error_log) {
  auto configuration = conf::compile(options, modules(), diagnostics, prepare);
  if (configuration == nullptr) return nullptr;
  if (configuration->object<http::LogFiles>() == nullptr) {
    configuration->set_object(configuration->arena().make<http::LogFiles>());
  }
  add_default_log(*configuration, error_log);
  warn_of_exposed_files(*configuration, step_factories(), diagnostics);
  return configuration;
}

const LogTarget* process_log_of(const conf::Configuration& configuration) {
  if (const LogTarget* own = configuration.root.get<http::CoreSettings>().error_log) return own;
  const DefaultLog* fallback = configuration.object<DefaultLog>();
  return fallback == nullptr ? nullptr : &fallback->target;
}

std::unique_ptr<conf::Configuration> load_text(std::string_view text, const conf::Options& options,
                                               conf::Diagnostics& diagnostics) {
  return conf::compile_text(text, options, modules(), diagnostics, prepare);
}

}  // namespace corehttpd::server

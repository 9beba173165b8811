#include "server/import/defaults.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "corehttpd/conf/values.h"
#include "server/command_line.h"

namespace corehttpd::server::importer {
namespace {

using conf::Context;

struct Default {
  std::string_view name;
  std::string_view value;  // "page": the size of a memory page.
};

// As nginx's documentation gives them, of all that may stand in http{}; those that are empty or
// depend on the build are left out. A row of ours that says the same needs no line.
constexpr Default kHttpDefaults[] = {
    {"absolute_redirect", "on"},
    {"autoindex", "off"},
    {"autoindex_exact_size", "on"},
    {"autoindex_format", "html"},
    {"autoindex_localtime", "off"},
    {"charset", "off"},
    {"chunked_transfer_encoding", "on"},
    {"client_body_buffer_size", "16k"},
    {"client_body_in_file_only", "off"},
    {"client_body_timeout", "60s"},
    {"client_header_buffer_size", "1k"},
    {"client_header_timeout", "60s"},
    {"client_max_body_size", "1m"},
    {"default_type", "text/plain"},
    {"disable_symlinks", "off"},
    {"etag", "on"},
    {"expires", "off"},
    {"fastcgi_buffer_size", "page"},
    {"fastcgi_buffering", "on"},
    {"fastcgi_buffers", "8 page"},
    {"fastcgi_cache", "off"},
    {"fastcgi_cache_lock", "off"},
    {"fastcgi_cache_use_stale", "off"},
    {"fastcgi_connect_timeout", "60s"},
    {"fastcgi_force_ranges", "off"},
    {"fastcgi_ignore_client_abort", "off"},
    {"fastcgi_intercept_errors", "off"},
    {"fastcgi_limit_rate", "0"},
    {"fastcgi_max_temp_file_size", "1024m"},
    {"fastcgi_next_upstream", "error timeout"},
    {"fastcgi_next_upstream_timeout", "0"},
    {"fastcgi_next_upstream_tries", "0"},
    {"fastcgi_read_timeout", "60s"},
    {"fastcgi_request_buffering", "on"},
    {"fastcgi_send_timeout", "60s"},
    {"fastcgi_socket_keepalive", "off"},
    {"gunzip", "off"},
    {"gzip", "off"},
    {"gzip_comp_level", "1"},
    {"gzip_http_version", "1.1"},
    {"gzip_min_length", "20"},
    {"gzip_proxied", "off"},
    {"gzip_static", "off"},
    {"gzip_types", "text/html"},
    {"gzip_vary", "off"},
    {"http2", "off"},
    {"if_modified_since", "exact"},
    {"ignore_invalid_headers", "on"},
    {"index", "index.html"},
    {"keepalive_min_timeout", "0"},
    {"keepalive_requests", "1000"},
    {"keepalive_time", "1h"},
    {"keepalive_timeout", "75s"},
    {"large_client_header_buffers", "4 8k"},
    {"limit_rate", "0"},
    {"limit_rate_after", "0"},
    {"lingering_close", "on"},
    {"lingering_time", "30s"},
    {"lingering_timeout", "5s"},
    {"log_not_found", "on"},
    {"log_subrequest", "off"},
    {"merge_slashes", "on"},
    {"open_file_cache", "off"},
    {"open_file_cache_errors", "off"},
    {"open_file_cache_min_uses", "1"},
    {"open_file_cache_valid", "60s"},
    {"port_in_redirect", "on"},
    {"proxy_buffer_size", "page"},
    {"proxy_buffering", "on"},
    {"proxy_buffers", "8 page"},
    {"proxy_cache", "off"},
    {"proxy_connect_timeout", "60s"},
    {"proxy_http_version", "1.0"},
    {"proxy_ignore_client_abort", "off"},
    {"proxy_intercept_errors", "off"},
    {"proxy_max_temp_file_size", "1024m"},
    {"proxy_next_upstream", "error timeout"},
    {"proxy_read_timeout", "60s"},
    {"proxy_redirect", "default"},
    {"proxy_request_buffering", "on"},
    {"proxy_send_timeout", "60s"},
    {"proxy_ssl_server_name", "off"},
    {"proxy_ssl_verify", "off"},
    {"real_ip_header", "X-Real-IP"},
    {"real_ip_recursive", "off"},
    {"recursive_error_pages", "off"},
    {"reset_timedout_connection", "off"},
    {"resolver_timeout", "30s"},
    {"rewrite_log", "off"},
    {"satisfy", "all"},
    {"send_timeout", "60s"},
    {"sendfile", "off"},
    {"server_name_in_redirect", "off"},
    {"server_tokens", "on"},
    {"ssi", "off"},
    {"ssl_buffer_size", "16k"},
    {"ssl_ciphers", "HIGH:!aNULL:!MD5"},
    {"ssl_early_data", "off"},
    {"ssl_prefer_server_ciphers", "off"},
    {"ssl_session_cache", "none"},
    {"ssl_session_tickets", "on"},
    {"ssl_session_timeout", "5m"},
    {"ssl_stapling", "off"},
    {"tcp_nodelay", "on"},
    {"tcp_nopush", "off"},
    {"underscores_in_headers", "off"},
    {"uninitialized_variable_warn", "on"},
};
constexpr Default kMainDefaults[] = {
    {"daemon", "on"},
    {"master_process", "on"},
    {"worker_priority", "0"},
    {"worker_processes", "1"},
};
constexpr Default kEventsDefaults[] = {{"worker_connections", "512"}};

// Sizes and times of the table as they are written: "8 page" is "8 4k".
std::string written(std::string_view value) {
  const std::size_t at = value.find("page");
  if (at == std::string_view::npos) return std::string(value);
  return fmt::format("{}{}k", value.substr(0, at), ::sysconf(_SC_PAGESIZE) / 1024);
}

bool same_value(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const auto size_a = conf::parse_size(a);
  const auto size_b = conf::parse_size(b);
  if (size_a && size_b) return *size_a == *size_b;
  const auto time_a = conf::parse_time_ms(a);
  const auto time_b = conf::parse_time_ms(b);
  return time_a && time_b && *time_a == *time_b;
}

// Logs can be opened there; otherwise ours stay where they are.
bool takes_logs(const std::string& directory) {
  return ::access(directory.c_str(), W_OK | X_OK) == 0;
}

class DefaultWriter {
 public:
  DefaultWriter(const Roots& roots, const Tree& tree, const conf::Tables& tables, Plan& plan,
                Report& report)
      : roots_(roots), tree_(tree), tables_(tables), plan_(plan), report_(report) {}

  void run() {
    replace_pid();
    note_logs();
    write_main();
    for (const Scope* scope : tree_.root().children) {
      if (scope->context == Context::kEvents) write_rows(*scope, kEventsDefaults);
      if (scope->context == Context::kHttp) write_http(*scope);
    }
  }

 private:
  bool has(const Scope& scope, std::string_view name) const {
    return std::any_of(scope.statements.begin(), scope.statements.end(), [&](const Place& place) {
      return place.statement->name() == name && !plan_.is_out(place);
    });
  }

  // Lines go to the start of the block; those of the main context before its first directive.
  void add(const Scope& scope, std::string_view name, std::string_view value) {
    const std::string line = fmt::format("{} {};  # corehttpd: nginx's default", name, value);
    Place place = scope.block;
    if (place.statement != nullptr) {
      plan_.edits(place.file)
          .prepend_to_block(place.file->text(), place.statement->begin, place.statement->body_begin,
                            line);
    } else {
      place = {tree_.main_file(), &tree_.main_file()->statements()[0]};
      const std::size_t newline = place.file->text().rfind('\n', place.statement->begin);
      const std::size_t at = newline == std::string::npos ? 0 : newline + 1;
      plan_.edits(place.file).replace(at, at, line + "\n");
    }
    report_.add({place.file->shown(),
                 place.statement->line,
                 Weight::kInfo,
                 std::string(name),
                 fmt::format("not set; nginx's default \"{}\" is written out, ours differs", value),
                 {}});
  }

  template <std::size_t N>
  void write_rows(const Scope& scope, const Default (&defaults)[N]) {
    for (const Default& nginx : defaults) {
      const conf::Row* row = tables_.find(nginx.name, scope.context);
      if (row == nullptr || row->directive->stage != conf::Stage::kWorks) continue;
      const std::string value = written(nginx.value);
      if (same_value(row->directive->default_value, value) || has(scope, nginx.name)) continue;
      add(scope, nginx.name, value);
      if (nginx.name == "http2") keep_http2(scope);
    }
  }

  std::string log_directory() const {
    return roots_.source_layout() ? roots_.prefix() + "/logs" : "/var/log/nginx";
  }

  void write_main() {
    const Scope& main = tree_.root();
    if (tree_.main_file()->statements().empty()) return;
    write_rows(main, kMainDefaults);
    if (!has(main, "error_log") && takes_logs(log_directory()))
      add(main, "error_log", log_directory() + "/error.log");
    if (has(main, "user")) return check_user();
    if (roots_.source_layout()) {
      add(main, "user", ::getgrnam("nogroup") != nullptr ? "nobody nogroup" : "nobody");
    } else {
      report_.add({roots_.shown() + "/nginx.conf",
                   0,
                   Weight::kInfo,
                   "user",
                   "not set; workers run as www-data, as those of Debian's nginx do",
                   {}});
    }
  }

  // A tree from another machine may name a user that is not here, and nothing would start.
  void check_user() {
    for (const Place& place : tree_.root().statements) {
      const Statement& statement = *place.statement;
      if (statement.name() != "user" || plan_.is_out(place)) continue;
      const std::string user(statement.word(0));
      const std::string group(statement.words.size() > 2 ? statement.word(1) : statement.word(0));
      if (::getpwnam(user.c_str()) != nullptr && ::getgrnam(group.c_str()) != nullptr) continue;
      plan_.edits(place.file)
          .comment_out(place.file->text(), statement.begin, statement.end,
                       "corehttpd: there is no such user or group on this machine");
      report_.add({place.file->shown(), statement.line, Weight::kReplaced, "user",
                   "there is no such user or group here: workers run as www-data",
                   "see that they may read the sites and reach the sockets of PHP"});
    }
  }

  // Whoever rotates them has to tell the daemon that writes to them.
  void note_logs() {
    for (const auto& [path, file] : tree_.files()) {
      if (file->text().find("/var/log/nginx/") == std::string::npos) continue;
      return report_.add({"", 0, Weight::kInfo, "",
                          "logs stay in /var/log/nginx, which nginx's logrotate rotates without "
                          "telling corehttpd",
                          "have /etc/logrotate.d/nginx run \"corehttpd -s reopen\""});
    }
  }

  void write_http(const Scope& http) {
    write_rows(http, kHttpDefaults);
    if (!has(http, "root")) add(http, "root", roots_.prefix() + "/html");
    if (!has(http, "access_log") && takes_logs(log_directory()))
      add(http, "access_log", log_directory() + "/access.log");
    // nginx offers HTTP/3 only where a listen says "quic".
    const conf::Row* http3 = tables_.find("http3", Context::kHttp);
    if (http3 != nullptr && http3->directive->stage == conf::Stage::kWorks && !has(http, "http3") &&
        !any_listens(http, "quic")) {
      add(http, "http3", "off");
    }
  }

  static bool listens(const Scope& server, std::string_view parameter) {
    return std::any_of(server.statements.begin(), server.statements.end(), [&](const Place& place) {
      const auto& words = place.statement->words;
      return words[0].value == "listen" &&
             std::any_of(words.begin() + 1, words.end(),
                         [&](const Token& word) { return word.value == parameter; });
    });
  }

  static bool any_listens(const Scope& http, std::string_view parameter) {
    return std::any_of(http.children.begin(), http.children.end(),
                       [&](const Scope* server) { return listens(*server, parameter); });
  }

  // "listen … http2" is how it used to be switched on.
  void keep_http2(const Scope& http) {
    std::set<Place> done;
    for (const Scope* server : http.children) {
      if (server->context != Context::kServer || !listens(*server, "http2")) continue;
      if (has(*server, "http2") || plan_.is_out(server->block)) continue;
      if (!done.insert(server->block).second) continue;
      const Statement& block = *server->block.statement;
      const SourceFile* file = server->block.file;
      plan_.edits(file).prepend_to_block(file->text(), block.begin, block.body_begin,
                                         "http2 on;  # corehttpd: as \"listen ... http2\" says");
    }
  }

  // Two daemons with one pid file would signal each other.
  void replace_pid() {
    for (const Place& place : tree_.root().statements) {
      const Statement& statement = *place.statement;
      if (statement.name() != "pid" || !statement.word(0).ends_with("nginx.pid")) continue;
      plan_.edits(place.file)
          .comment_out(place.file->text(), statement.begin, statement.end,
                       fmt::format("corehttpd: its own is {}", kDefaultPid));
      report_.add({place.file->shown(),
                   statement.line,
                   Weight::kInfo,
                   "pid",
                   fmt::format("{} is used, so that neither daemon signals the other", kDefaultPid),
                   {}});
    }
  }

  const Roots& roots_;
  const Tree& tree_;
  const conf::Tables& tables_;
  Plan& plan_;
  Report& report_;
};

}  // namespace

void write_defaults(const Roots& roots, const Tree& tree, const conf::Tables& tables, Plan& plan,
                    Report& report) {
  DefaultWriter(roots, tree, tables, plan, report).run();
}

}  // namespace corehttpd::server::importer

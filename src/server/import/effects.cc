#include "server/import/effects.h"

#include <algorithm>

#include "corehttpd/base/text.h"

namespace corehttpd::server::importer {
namespace {

using conf::Context;

// The next word of rest, consumed; empty at the end.
std::string_view next_word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(word.size());
  return word;
}

// A pattern ends in '*' for all names that start with it.
bool is_one_of(std::string_view patterns, std::string_view name) {
  for (auto one = next_word(patterns); !one.empty(); one = next_word(patterns)) {
    if (one.ends_with('*') ? name.starts_with(one.substr(0, one.size() - 1)) : name == one)
      return true;
  }
  return false;
}

// Parameters of guards, which guard nothing without the guard itself: that one stands elsewhere and
// is seen there.
constexpr std::string_view kParameters =
    "limit_req_zone limit_req_status limit_req_log_level limit_conn_zone limit_conn_status "
    "limit_conn_log_level limit_zone auth_basic_user_file auth_delay satisfy "
    "ssl_client_certificate ssl_verify_depth ssl_crl ssl_ocsp_cache ssl_ocsp_responder "
    "auth_jwt_key_file auth_jwt_key_cache auth_jwt_leeway real_ip_header real_ip_recursive";
// Known directives with something in them that is not, or unknown ones of other people's modules,
// that decide neither who gets in nor what is answered.
constexpr std::string_view kHarmless =
    "access_log error_log log_format log_not_found log_subrequest open_log_file_cache "
    "gzip gzip_* brotli* zstd* charset charset_* charset_map types default_type etag expires "
    "add_header add_trailer keepalive_* lingering_* tcp_* send* sendfile* open_file_cache* "
    "client_body_buffer_size client_body_temp_path client_body_timeout client_header_timeout "
    "fastcgi_temp_path proxy_temp_path scgi_temp_path uwsgi_temp_path "
    "fastcgi_buffer* fastcgi_busy_buffers_size fastcgi_temp_* fastcgi_max_temp_file_size "
    "fastcgi_cache* proxy_cache* fastcgi_read_timeout fastcgi_send_timeout "
    "fastcgi_connect_timeout server_tokens http2* http3* quic* ssl_session* ssl_stapling* "
    "resolver resolver_timeout variables_hash_* server_names_hash_* map_hash_* types_hash_* "
    "rewrite_log uninitialized_variable_warn chunked_transfer_encoding msie_* port_in_redirect "
    "more_set_headers more_clear_headers "
    "vhost_traffic_status vhost_traffic_status_zone vhost_traffic_status_dump "
    "vhost_traffic_status_filter* vhost_traffic_status_histogram_buckets pagespeed pagespeed_* "
    "passenger_root passenger_ruby passenger_python "
    "passenger_nodejs passenger_instance_registry_dir passenger_log_* passenger_max_* "
    "passenger_min_instances passenger_show_version_in_header fancyindex fancyindex_* "
    "opentracing* dd_* datadog_* "
    "geoip2_* lua_package_path lua_package_cpath lua_shared_dict lua_code_cache lua_ssl_* "
    "lua_socket_* lua_max_* lua_capture_error_log lua_need_request_body lua_check_client_abort "
    "lua_http10_buffering lua_transform_underscores_in_response_headers lua_regex_* "
    "lua_use_default_type init_by_lua* init_worker_by_lua* exit_worker_by_lua* log_by_lua* "
    "ssl_certificate_by_lua* upload_progress* fastcgi_cache_purge concat concat_* "
    "ssl_dyn_rec_* spdy* ssl_engine server "
    // Each defines something by name; whoever uses the name is in error then, and dealt with.
    "map geo geoip2 geoip_country geoip_city geoip_org split_clients upstream js_import js_path "
    "js_set js_var perl_set perl_modules perl_require";
constexpr std::string_view kHandlers =
    "fastcgi_pass proxy_pass scgi_pass uwsgi_pass grpc_pass memcached_pass js_content perl "
    "content_by_lua* redis_pass redis2_pass postgres_pass drizzle_pass upload_pass srcache_fetch "
    "passenger_enabled passenger_app_root echo echo_* nchan_publisher nchan_subscriber "
    "nchan_pubsub "
    "push_stream_publisher push_stream_subscriber rds_json image_filter mp4 flv hls empty_gif "
    "stub_status status vhost_traffic_status_display random_index dav_methods";
// Guards that are off say so in their first word.
constexpr std::string_view kSwitches =
    "auth_basic auth_jwt auth_request auth_oidc ssl_verify_client limit_req_dry_run "
    "disable_symlinks "
    "limit_conn_dry_run ssl_reject_handshake ssl_ocsp ssl modsecurity auth_pam auth_ldap";

}  // namespace

Effect effect_of(const Statement& statement, Context context, bool known) {
  const std::string_view name = statement.name();
  if (context == Context::kMain || context == Context::kEvents || context == Context::kNone ||
      context == Context::kStream || context == Context::kMail || context == Context::kUpstream) {
    return Effect::kNothing;  // None of them lets a request of HTTP in.
  }
  if (name == "listen") return Effect::kListen;
  if (is_one_of(kHandlers, name) || (!known && name.ends_with("_pass"))) return Effect::kHandler;
  const bool off = statement.word(0) == "off" || statement.word(0) == "optional_no_ca";
  if (is_one_of(kParameters, name) || (is_one_of(kSwitches, name) && off)) return Effect::kNone;
  // It lets in what a "deny" would keep out, and that one is seen by itself.
  if (name == "allow") return Effect::kNone;
  if (is_one_of(kHarmless, name)) return Effect::kNothing;
  return Effect::kGuard;
}

// An address that software behind us may trust more than a stranger's; names count as such.
bool is_trusted_address(std::string_view address) {
  constexpr std::string_view kDigits = "0123456789abcdefABCDEF.:/";
  if (address.find_first_not_of(kDigits) != std::string_view::npos) return true;
  if (address.find(':') != std::string_view::npos)
    return is_one_of(":* fc* fd* FC* FD* fe8* fe9* fea* feb* FE8* FE9* FEA* FEB*", address);
  if (is_one_of("0.* 10.* 127.* 192.168.* 169.254.*", address)) return true;
  const std::size_t dot = address.find('.', 4);
  if (is_one_of("172.*", address) && dot != std::string_view::npos) {
    const auto second = text::parse_decimal(address.substr(4, dot - 4));
    return second && *second >= 16 && *second <= 31;
  }
  return address.ends_with("/0");
}

std::string_view guard_family(std::string_view name) {
  if (name == "allow" || name == "deny") return "access";
  return is_one_of("auth_basic limit_req limit_conn auth_request auth_jwt", name)
             ? name
             : std::string_view();
}

bool may_end_rules(std::string_view name, bool known) {
  return !known || name == "break" || name == "rewrite";
}

bool is_tls_variable(std::string_view name) { return name.starts_with("ssl_"); }

Shows shows_variables(std::string_view name) {
  if (name == "log_format") return Shows::kAsDash;
  if (name == "add_header" || name == "add_trailer") return Shows::kAsNothing;
  if (name == "fastcgi_param" || name == "set") return Shows::kAsNothingIfEmpty;
  return Shows::kNo;
}

}  // namespace corehttpd::server::importer

// Groups of the gateway's directives: the same names behind the prefix of each protocol.
#include "conf/later_groups.h"

namespace corehttpd::conf {
namespace {

constexpr Context kH = Context::kHttp;
constexpr Context kL = Context::kLocation;
constexpr Context kHSL = kHttpServerLocation;
constexpr Stage kLater = Stage::kLater;

constexpr std::string_view kAll = "proxy_ fastcgi_ scgi_ uwsgi_";
constexpr std::string_view kOverTls = "proxy_ uwsgi_ grpc_";

constexpr LaterGroup kGroups[] = {
    {kLater, kHSL, "Waits for the gateway to origins with all its settings.",
     "bind buffer_size buffering buffers busy_buffers_size connect_timeout force_ranges "
     "hide_header ignore_client_abort ignore_headers intercept_errors limit_rate "
     "max_temp_file_size next_upstream next_upstream_timeout next_upstream_tries pass_header "
     "pass_request_body pass_request_headers read_timeout request_buffering send_timeout "
     "socket_keepalive temp_file_write_size temp_path allow_upstream request_dynamic",
     Kind::kValue, kAll},
    {kLater, kHSL, "Waits for copies of responses in files.", "store store_access", Kind::kValue,
     kAll},
    {kLater, kHSL, "Waits for the cache.",
     "cache cache_background_update cache_bypass cache_key cache_lock cache_lock_age "
     "cache_lock_timeout cache_max_range_offset cache_methods cache_min_uses cache_purge "
     "cache_revalidate cache_use_stale cache_valid no_cache",
     Kind::kValue, kAll},
    {kLater, kH, "Waits for the cache.", "cache_path", Kind::kValue, kAll},
    {kLater, kHSL, "Waits for TLS to origins.",
     "ssl_alpn ssl_certificate ssl_certificate_cache ssl_certificate_key ssl_ciphers "
     "ssl_conf_command ssl_crl ssl_key_log ssl_name ssl_password_file ssl_protocols "
     "ssl_server_name ssl_session_reuse ssl_trusted_certificate ssl_verify ssl_verify_depth",
     Kind::kValue, kOverTls},
    {kLater, kHSL, "Waits for the FastCGI gateway with all its settings.",
     "fastcgi_catch_stderr fastcgi_index fastcgi_keep_conn fastcgi_param fastcgi_send_lowat"},
    {kLater, kL, "Waits for the FastCGI gateway with all its settings.", "fastcgi_split_path_info"},
    {kLater, kHSL, "Waits for HTTP origins.",
     "proxy_cache_convert_head proxy_cookie_domain proxy_cookie_flags proxy_cookie_path "
     "proxy_http_version proxy_method proxy_pass_trailers proxy_redirect proxy_send_lowat "
     "proxy_set_body proxy_set_header"},
    {kLater, kHSL, "Waits for SCGI and uwsgi origins.",
     "scgi_param uwsgi_modifier1 uwsgi_modifier2 uwsgi_param uwsgi_string"},
    {kLater, kHSL, "Waits for gRPC origins.",
     "bind buffer_size connect_timeout hide_header ignore_headers intercept_errors next_upstream "
     "next_upstream_timeout next_upstream_tries pass_header read_timeout send_timeout set_header "
     "socket_keepalive allow_upstream",
     Kind::kValue, "grpc_"},
    {kLater, kHSL, "Waits for memcached origins.",
     "bind buffer_size connect_timeout force_ranges gzip_flag next_upstream next_upstream_timeout "
     "next_upstream_tries read_timeout send_timeout socket_keepalive allow_upstream",
     Kind::kValue, "memcached_"},
};

}  // namespace

std::span<const LaterGroup> later_gateway_groups() { return kGroups; }

}  // namespace corehttpd::conf

// Groups that are errors until they work. Ignoring one of these would let a request in where it
// does not belong, or show what should have been run: no notice makes up for that.
#include "conf/later_groups.h"

namespace corehttpd::conf {
namespace {

constexpr Context kH = Context::kHttp;
constexpr Context kHS = Context::kHttp | Context::kServer;
constexpr Context kSL = Context::kServer | Context::kLocation;
constexpr Context kL = Context::kLocation;
constexpr Context kHSL = kHttpServerLocation;
constexpr Context kRewrite =
    Context::kServer | Context::kLocation | Context::kIfServer | Context::kIfLocation;
constexpr Context kPass = Context::kLocation | Context::kIfLocation | Context::kLimitExcept;
constexpr Stage kRefused = Stage::kRefused;

constexpr LaterGroup kGroups[] = {
    {kRefused, kHSL | Context::kLimitExcept,
     "It restricts access by tokens and does not work yet: without it all would be let in.",
     "auth_jwt auth_jwt_key_file auth_jwt_key_request auth_jwt_leeway auth_jwt_require "
     "auth_jwt_type auth_jwt_key_cache auth_oidc"},
    {kRefused, kL, "It closes a location to clients and does not work yet.", "internal"},
    {kRefused, kHSL,
     "It limits requests and does not work yet: without it none would be held back.",
     "limit_req limit_req_dry_run limit_req_log_level limit_req_status limit_conn "
     "limit_conn_dry_run limit_conn_log_level limit_conn_status"},
    {kRefused, kH, "It limits requests and does not work yet: without it none would be held back.",
     "limit_req_zone limit_conn_zone"},
    {kRefused, kSL, "It restricts access by referrer and does not work yet.", "valid_referers"},
    {kRefused, kHSL, "It restricts access by signed links and does not work yet.",
     "secure_link secure_link_md5"},
    {kRefused, kL, "It restricts access by signed links and does not work yet.",
     "secure_link_secret"},
    {kRefused, kHSL, "It restricts which files are served and does not work yet.",
     "disable_symlinks"},
    {kRefused, kHSL, "It limits the size of requests and does not work yet.",
     "client_max_body_size"},
    {kRefused, kHS, "It restricts access by client certificates and does not work yet.",
     "ssl_verify_client ssl_verify_depth ssl_client_certificate ssl_crl ssl_ocsp ssl_ocsp_cache "
     "ssl_ocsp_responder ssl_reject_handshake"},
    {kRefused, kHS, "It was removed from nginx; use the \"ssl\" parameter of \"listen\".", "ssl"},
    {kRefused, kRewrite, "Rules may depend on it, and it does not work yet.",
     "break return rewrite set"},
    {kRefused, kSL, "Rules may depend on it, and it does not work yet.", "if", Kind::kBlock},
    {kRefused, kPass,
     "This handler does not exist yet: files, perhaps sources of scripts, would be served in its "
     "place.",
     "fastcgi_pass proxy_pass scgi_pass uwsgi_pass grpc_pass memcached_pass js_content perl"},
};

}  // namespace

std::span<const LaterGroup> later_refused_groups() { return kGroups; }

}  // namespace corehttpd::conf

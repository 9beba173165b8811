// Groups of nginx's http modules beyond the core, of TLS and of upstream blocks.
#include "conf/later_groups.h"

namespace corehttpd::conf {
namespace {

constexpr Context kH = Context::kHttp;
constexpr Context kHS = Context::kHttp | Context::kServer;
constexpr Context kSL = Context::kServer | Context::kLocation;
constexpr Context kL = Context::kLocation;
constexpr Context kU = Context::kUpstream;
constexpr Context kHSL = kHttpServerLocation;
constexpr Context kHSLI = kHttpServerLocation | Context::kIfLocation;
constexpr Stage kLater = Stage::kLater;
constexpr Stage kNoMeaning = Stage::kNoMeaning;

constexpr LaterGroup kGroups[] = {
    // Protocols and TLS.
    {kLater, kHS, "TLS works without it.",
     "ssl_certificate_compression ssl_ech_file ssl_key_log ssl_handshake_timeout"},
    {kNoMeaning, Context::kMain, "Certificates are read again only when their files have changed.",
     "ssl_object_cache_inheritable"},
    {kLater, kHS, "Waits for HTTP/3.",
     "http3 http3_hq http3_max_concurrent_streams http3_stream_buffer_size "
     "quic_active_connection_id_limit quic_gso quic_host_key quic_mtu quic_retry"},
    {kNoMeaning, kHS, "Server push was withdrawn by browsers.",
     "http3_max_concurrent_pushes http3_push http3_push_preload"},

    // What changes a response.
    {kLater, kHSLI, "Waits for compression with all its settings.", "gzip"},
    {kLater, kHSL, "Waits for compression with all its settings.",
     "gzip_buffers gzip_comp_level gzip_http_version gzip_min_length gzip_proxied gzip_types "
     "gzip_vary gzip_window gzip_hash gzip_no_buffer postpone_gzipping"},
    {kLater, kHSL, "Waits for the asset store, which compresses without being told to.",
     "gzip_static gunzip gunzip_buffers brotli_static zstd_static"},
    {kLater, kHSLI, "Waits for brotli and zstd.",
     "brotli brotli_buffers brotli_comp_level brotli_min_length brotli_types brotli_window zstd "
     "zstd_buffers zstd_comp_level zstd_min_length zstd_types"},
    {kLater, kHSLI, "Waits for response fields set by configuration.",
     "add_header add_trailer expires add_header_inherit add_trailer_inherit"},
    {kLater, kHSLI, "Waits for character sets.", "charset source_charset"},
    {kLater, kHSL, "Waits for character sets.", "charset_types override_charset"},
    {kLater, kH, "Waits for character sets.", "charset_map", Kind::kRawBlock},
    {kLater, kHSL, "Waits for substitution in responses.",
     "sub_filter sub_filter_last_modified sub_filter_once sub_filter_types"},
    {kLater, kHSL, "Waits for texts around responses.",
     "add_after_body add_before_body addition_types"},
    {kLater, kHSLI, "Waits for server-side includes.", "ssi"},
    {kLater, kHSL, "Waits for server-side includes.",
     "ssi_ignore_recycled_buffers ssi_last_modified ssi_min_file_chunk ssi_silent_errors ssi_types "
     "ssi_value_length"},
    {kLater, kL, "Waits for changes of images, which are not planned before 1.0.", "image_filter"},
    {kLater, kHSL, "Waits for changes of images, which are not planned before 1.0.",
     "image_filter_buffer image_filter_interlace image_filter_jpeg_quality image_filter_sharpen "
     "image_filter_transparency image_filter_webp_quality"},
    {kLater, kHSL, "Waits for XSLT, which is not planned before 1.0.",
     "xml_entities xslt_last_modified xslt_param xslt_string_param xslt_types"},
    {kLater, kL, "Waits for XSLT, which is not planned before 1.0.", "xslt_stylesheet"},
    {kLater, kHSL, "Waits for ranges cut into slices for the cache.", "slice"},

    // What answers.
    {kLater, kHSL, "Waits for directory listings.",
     "autoindex autoindex_exact_size autoindex_format autoindex_localtime"},
    {kLater, kL, "Waits for media files seen by time.", "flv mp4 hls f4f"},
    {kLater, kHSL, "Waits for media files seen by time.",
     "mp4_buffer_size mp4_max_buffer_size mp4_limit_rate mp4_limit_rate_after mp4_start_key_frame "
     "hls_buffers hls_forward_args hls_fragment hls_mp4_buffer_size hls_mp4_max_buffer_size "
     "f4f_buffer_size"},
    {kLater, kHSL, "Waits for WebDAV.",
     "dav_access dav_methods create_full_put_path min_delete_depth"},
    {kLater, kSL, "Waits for counters of requests.", "stub_status"},
    {kLater, kHSL, "Waits for copies of requests sent to another origin.",
     "mirror mirror_request_body"},
    {kLater, kSL | kH, "Waits for handling after a response.", "post_action"},

    // Variables.
    {kLater, kH, "Waits for maps.", "geo map split_clients", Kind::kRawBlock},
    {kLater, kHSL, "Waits for cookies that identify visitors.",
     "userid userid_domain userid_expires userid_flags userid_mark userid_name userid_p3p "
     "userid_path userid_service"},
    {kLater, kHSL, "Waits for variables of browsers.",
     "ancient_browser ancient_browser_value modern_browser modern_browser_value"},
    {kLater, kH, "Waits for variables of countries.",
     "geoip_city geoip_country geoip_org geoip_proxy geoip_proxy_recursive"},
    {kLater, kH, "Waits for embedded scripts, which are not planned before 1.0.",
     "perl_modules perl_require perl_set js_import js_path js_set js_var js_shared_dict_zone "
     "js_preload_object"},
    {kLater, kHSL, "Waits for embedded scripts, which are not planned before 1.0.",
     "js_body_filter js_header_filter js_fetch_buffer_size js_fetch_ciphers "
     "js_fetch_max_response_buffer_size js_fetch_protocols js_fetch_timeout "
     "js_fetch_trusted_certificate js_fetch_verify js_fetch_verify_depth js_periodic "
     "js_context_reuse js_engine"},
    {kLater, kH, "Waits for traces.", "otel_exporter otel_service_name otel_resource_attr"},
    {kLater, kHSL, "Waits for traces.",
     "otel_trace otel_trace_context otel_span_name otel_span_attr"},

    // Upstream blocks.
    {kLater, kH, "Waits for groups of origins.", "upstream", Kind::kBlock},
    {kLater, kU, "Waits for groups of origins.",
     "hash ip_hash least_conn least_time random ntlm queue sticky state zone "
     "sticky_cookie_insert"},
    {kLater, kU, "Waits for kept connections to origins.",
     "keepalive keepalive_requests keepalive_time keepalive_timeout"},
};

}  // namespace

std::span<const LaterGroup> later_module_groups() { return kGroups; }

}  // namespace corehttpd::conf

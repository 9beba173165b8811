// Groups of processes, events and the http core.
#include "conf/later_groups.h"

namespace corehttpd::conf {
namespace {

constexpr Context kM = Context::kMain;
constexpr Context kE = Context::kEvents;
constexpr Context kH = Context::kHttp;
constexpr Context kHS = Context::kHttp | Context::kServer;
constexpr Context kL = Context::kLocation;
constexpr Context kHSL = kHttpServerLocation;
constexpr Context kHSLI = kHttpServerLocation | Context::kIfLocation;
constexpr Stage kNoMeaning = Stage::kNoMeaning;
constexpr Stage kLater = Stage::kLater;

constexpr LaterGroup kGroups[] = {
    // What the event loop, the allocators and the build decide by themselves.
    {kNoMeaning, kE, "The event loop is always io_uring.",
     "use epoll_events devpoll_changes devpoll_events eventport_events kqueue_changes "
     "kqueue_events "
     "iocp_threads acceptex_read post_acceptex rtsig_signo rtsig_overflow_events "
     "rtsig_overflow_test rtsig_overflow_threshold"},
    {kNoMeaning, kE, "Workers accept from the shared queue without a lock and as many as wait.",
     "accept_mutex accept_mutex_delay multi_accept"},
    {kNoMeaning, kE, "Submissions to the kernel are bounded by the ring of each worker.",
     "worker_aio_requests"},
    {kNoMeaning, kM, "What is built in needs no loading.", "load_module"},
    {kNoMeaning, kM, "Locks live in shared memory.", "lock_file"},
    {kNoMeaning, kM, "The clock is read once per turn of the event loop.", "timer_resolution"},
    {kNoMeaning, kM, "Regular expressions are always compiled to machine code.", "pcre_jit"},
    {kNoMeaning, kM, "Each worker has its own bounded threads for what would block.",
     "thread_pool worker_threads thread_stack_size"},
    {kNoMeaning, kM, "A broken invariant aborts the worker, which the master replaces.",
     "debug_points"},
    {kNoMeaning, kM, "TLS hardware engines are gone from OpenSSL's interface.", "ssl_engine"},
    {kNoMeaning, kHSL, "Files are always read without blocking a worker.",
     "aio aio_write directio directio_alignment read_ahead"},
    {kNoMeaning, kHSLI,
     "Windows of large files are chosen so that one client does not hold others up.",
     "sendfile_max_chunk"},
    {kNoMeaning, kHSL, "A turn's output leaves in one send; buffers are pulled as a client reads.",
     "output_buffers postpone_output send_lowat"},
    {kNoMeaning, kHS, "Memory comes from arenas and pools that size themselves.",
     "connection_pool_size request_pool_size client_body_in_single_buffer"},
    {kNoMeaning, kL, "Memory comes from arenas and pools that size themselves.",
     "client_body_in_single_buffer"},
    {kNoMeaning, kH, "Tables size themselves.",
     "variables_hash_max_size variables_hash_bucket_size server_names_hash_max_size "
     "server_names_hash_bucket_size map_hash_max_size map_hash_bucket_size"},
    {kNoMeaning, kHSL, "Tables size themselves.",
     "types_hash_max_size types_hash_bucket_size proxy_headers_hash_max_size "
     "proxy_headers_hash_bucket_size grpc_headers_hash_max_size grpc_headers_hash_bucket_size"},
    {kNoMeaning, Context::kServer | kL, "Tables size themselves.",
     "referer_hash_max_size referer_hash_bucket_size"},
    {kNoMeaning, kHSL, "Browsers that needed this are gone.",
     "msie_padding msie_refresh gzip_disable"},
    {kNoMeaning, kHSL, "Buffers of a subrequest grow with its answer, up to a limit of their own.",
     "subrequest_output_buffer_size"},
    {kNoMeaning, kHS, "Replaced by other directives in nginx itself.",
     "spdy_chunk_size spdy_headers_comp optimize_server_names connections"},

    // Processes.
    {kLater, kM, "Waits for the issue on processes, limits and privileges.",
     "worker_cpu_affinity worker_priority worker_rlimit_core worker_rlimit_nofile "
     "worker_rlimit_sigpending worker_shutdown_timeout working_directory env daemon "
     "master_process pid user worker_processes"},
    {kLater, kM, "Waits for HTTP/3.", "quic_bpf"},
    {kLater, kE, "Waits for the issue on processes, limits and privileges.", "worker_connections"},
    {kLater, kM, "Waits for profiling.", "google_perftools_profiles"},
    {kLater, kM, "Serving other protocols than HTTP is not planned before HTTP is complete.",
     "stream mail", Kind::kBlock},

    // The http core.
    {kLater, kHSL, "Waits for the open-file cache's own settings.",
     "open_file_cache open_file_cache_errors open_file_cache_events open_file_cache_min_uses "
     "open_file_cache_valid open_file_cache_retest"},
    {kLater, kHSL, "Waits for answers that depend on more of the request.",
     "absolute_redirect chunked_transfer_encoding early_hints etag if_modified_since "
     "max_ranges "
     "port_in_redirect server_name_in_redirect server_tokens log_not_found log_subrequest "
     "recursive_error_pages default_type"},
    {kLater, kHSLI | Context::kIfServer, "Waits for the log of rewrites.",
     "rewrite_log uninitialized_variable_warn"},
};

}  // namespace

std::span<const LaterGroup> later_core_groups() { return kGroups; }

}  // namespace corehttpd::conf

// What the simulated server serves: files whose every byte says where it is from, and the
// configuration over them. Model (model.h) knows the right answers.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "support/temp_dir.h"

namespace corehttpd::sim {

// Lines of 32 bytes, each with the file's name and its own place.
inline std::string file_content(std::string_view name, std::size_t size) {
  std::string text;
  text.reserve(size + 32);
  while (text.size() < size) text += fmt::format("{:<19} {:011}\n", name, text.size());
  text.resize(size);
  return text;
}

struct SiteFile {
  std::string_view path;  // Of the URL too.
  std::size_t size;
};
// small and empty ones come from memory, large.txt is above what the file cache keeps there.
inline constexpr SiteFile kSiteFiles[] = {
    {"/files/small.txt", 61},    {"/files/medium.txt", 9000},    {"/files/large.txt", 120'000},
    {"/files/empty.txt", 0},     {"/files/dir/index.html", 500}, {"/errors/404.txt", 77},
    {"/auth/guarded.txt", 3000},
};
inline constexpr std::int64_t kModified = 1'700'000'000;
inline constexpr std::string_view kLastModified = "Tue, 14 Nov 2023 22:13:20 GMT";

inline std::string etag(std::size_t size) { return fmt::format("\"{:x}-{:x}\"", kModified, size); }

// The files, made once per process: no run changes them.
inline const test::TempDir& site_files() {
  static const test::TempDir directory;
  static const bool made = [] {
    for (const SiteFile& file : kSiteFiles) {
      const std::string path =
          directory.write(file.path.substr(1), file_content(file.path, file.size));
      const timespec times[2] = {{kModified, 0}, {kModified, 0}};
      ::utimensat(AT_FDCWD, path.c_str(), times, 0);
    }
    return true;
  }();
  EXPECT_TRUE(made);
  return directory;
}

// Every answer names the request it belongs to in X-Uri. Times are so long that no leap of the
// clock makes them pass: those who run into them mean to.
inline std::string site_configuration(const std::string& logs) {
  return "events {}\n"
         "error_log " +
         logs +
         "/error.log crit;\n"
         "http {\n"
         "  log_format sim '$request_uri|$status|$request_completion|';\n"
         "  access_log " +
         logs +
         "/access.log sim;\n"
         "  server_tokens off; default_type text/plain; types { text/html html; }\n"
         "  client_max_body_size 20k; client_body_buffer_size 4k;\n"
         "  client_header_timeout 600s; client_body_timeout 600s; send_timeout 600s;\n"
         "  keepalive_timeout 600s; lingering_timeout 600s; lingering_time 1200s;\n"
         "  add_header X-Uri $request_uri always;\n"
         "  server {\n"
         "    listen 127.0.0.1:8080; server_name sim.test;\n"
         "    root " +
         site_files().path() +
         ";\n"
         "    error_page 404 /errors/404.txt;\n"
         "    location /text/ { return 200 \"text $uri of $request_uri\\n\"; }\n"
         "    location /none/ { return 204; }\n"
         "    location /moved/ { return 302 /files/small.txt?to=$arg_id; }\n"
         "    location /rewrite/ { rewrite ^/rewrite/(.*)$ /files/$1 last; }\n"
         "    location /try/ { try_files $uri /files/medium.txt; }\n"
         "    location /named/ { error_page 404 = @fallback; }\n"
         "    location @fallback { return 200 \"fallback of $request_uri\\n\"; }\n"
         "    location /auth/ { auth_request /check; }\n"
         "    location = /check {\n"
         "      internal;\n"
         "      if ($http_x_deny = 401) { return 401; }\n"
         "      if ($http_x_deny) { return 403; }\n"
         "      return 204;\n"
         "    }\n"
         "    location = /status { stub_status; }\n"
         "    location /fcgi/ {\n"
         "      fastcgi_pass 127.0.0.1:9000;\n"
         "      fastcgi_param REQUEST_URI $request_uri;\n"
         "      fastcgi_param CONTENT_LENGTH $content_length;\n"
         "    }\n"
         "  }\n"
         "  server {\n"
         "    listen 127.0.0.1:8080; server_name other.test;\n"
         "    location / { return 200 \"other $host of $request_uri\\n\"; }\n"
         "  }\n"
         "}\n";
}

}  // namespace corehttpd::sim

#include "upstream/php_fpm.h"

#include <fcntl.h>
#include <glob.h>
#include <unistd.h>

#include <optional>

#include "corehttpd/base/text.h"

namespace corehttpd::upstream {
namespace {

constexpr std::size_t kFileBytesMax = 256 * 1024;

std::string_view unquoted(std::string_view value) {
  if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
      value.back() == value.front()) {
    return value.substr(1, value.size() - 2);
  }
  return value.substr(0, value.find(" ;"));
}

// As php-fpm has it: a port, address:port, or the path of a socket.
bool read_listen(std::string_view value, FpmPool& pool) {
  const bool port_only = value.find_first_not_of("0123456789") == std::string_view::npos;
  const std::string text =
      value.starts_with('/') ? "unix:" + std::string(value) : std::string(value);
  const Result<io::Address> address = io::parse_address(text, 0);
  if (!address) return false;
  pool.address = *address;
  pool.everywhere = port_only || (!address->is_unix() && address->is_wildcard());
  return true;
}

// One pool while its lines are read.
struct OpenPool {
  FpmPool pool;
  std::string listen;
  void close(std::vector<FpmPool>& out) {
    if (listen.empty() || pool.children_max == 0) return;
    if (const std::size_t at = listen.find("$pool"); at != std::string::npos) {
      listen.replace(at, 5, pool.name);
    }
    if (read_listen(listen, pool)) out.push_back(pool);
  }
  void take(std::string_view key, std::string_view value) {
    if (key == "listen") listen = value;
    if (key == "pm") pool.on_demand = value == "ondemand";
    if (key == "pm.status_path") pool.status_path = value;
    if (key == "pm.max_children") {
      pool.children_max = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(text::parse_decimal(value).value_or(0), 1'000'000));
    }
  }
};

std::string read_file(const char* path) {
  std::string content;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return content;
  content.resize(kFileBytesMax);
  const ssize_t got = ::read(fd, content.data(), content.size());
  ::close(fd);
  content.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return content;
}

}  // namespace

std::vector<FpmPool> parse_fpm_pools(std::string_view text) {
  std::vector<FpmPool> pools;
  std::optional<OpenPool> open;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = text::trim(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == ';' || line.front() == '#') continue;
    if (line.front() == '[' && line.back() == ']') {
      if (open) open->close(pools);
      open.emplace();
      open->pool.name = line.substr(1, line.size() - 2);
      continue;
    }
    const std::size_t equals = line.find('=');
    if (!open || equals == std::string_view::npos) continue;
    open->take(text::trim(line.substr(0, equals)), unquoted(text::trim(line.substr(equals + 1))));
  }
  if (open) open->close(pools);
  return pools;
}

std::vector<FpmPool> read_fpm_pools(const std::string& pattern) {
  std::vector<FpmPool> pools;
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      for (FpmPool& pool : parse_fpm_pools(read_file(found.gl_pathv[i]))) {
        pools.push_back(std::move(pool));
      }
    }
  }
  ::globfree(&found);
  return pools;
}

}  // namespace corehttpd::upstream

// The directories that a configuration wants for temporary files (client_body_temp_path,
// fastcgi_temp_path…). An object of the configuration; the master makes them before it forks, owned
// by the workers' user.
#pragma once

#include <string_view>
#include <vector>

namespace corehttpd::http {

// Used where no directive names one.
inline constexpr std::string_view kDefaultTempPath = "/var/lib/corehttpd/tmp";

class TempPaths {
 public:
  // absolute_path lives in the configuration.
  void add(std::string_view absolute_path) {
    for (std::string_view known : paths_)
      if (known == absolute_path) return;
    paths_.push_back(absolute_path);
  }
  const std::vector<std::string_view>& paths() const { return paths_; }

 private:
  std::vector<std::string_view> paths_;
};

}  // namespace corehttpd::http

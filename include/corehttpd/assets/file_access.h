// Looking files up for a step of a request: under the location's rules, and without ever making the
// worker wait for a disk.
#pragma once

#include <optional>
#include <string_view>

#include "corehttpd/assets/file_lookup.h"
#include "corehttpd/http/exchange.h"

namespace corehttpd::assets {

enum class Need : std::uint8_t {
  kKind,     // FileLookup::probe(): what it is, how large and how old.
  kContent,  // FileLookup::lookup(): what serving it takes as well.
};

struct Asked {
  // Nothing: it is being found out. The step returns wait and is run again when the answer is
  // there; what it then asks once more is answered at once.
  std::optional<Result<FileEntry>> answer;
  http::StepOutcome wait;
};

// path: absolute, NUL-terminated past its end, in the exchange's arena. open_file_cache and
// disable_symlinks are those of the exchange's location.
Asked ask(http::Exchange& exchange, std::string_view path, Need need);

// disable_symlinks for path.
LinkRule link_rule(http::Exchange& exchange, std::string_view path);

}  // namespace corehttpd::assets

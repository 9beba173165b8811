// Steps that find and serve files: try_files, index, static files.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "corehttpd/conf/directive.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/http/pipeline.h"

namespace corehttpd::handlers {

struct IndexSettings {
  std::span<const expr::Program> files;
};
const conf::Module& index_module();
// Content phase, before static files: a URI with a slash at its end is redirected
// internally to its index file.
http::StepFactory index();

struct TryFilesSettings {
  struct Candidate {
    expr::Program name;
    bool directory = false;  // Was given with a slash at its end, which is not part of name.
  };
  std::span<const Candidate> candidates;
  expr::Program fallback;    // A URI with arguments, or "@name".
  std::uint16_t status = 0;  // Of "=404"; 0: the fallback.
  // nginx never inherits try_files: it acts only where it was given.
  conf::SettingsView owner;
};
const conf::Module& try_files_module();
// Precontent phase: sets the URI to the first candidate that exists, else redirects.
http::StepFactory try_files();

const conf::Module& autoindex_module();
// Content phase, after index: lists directories where the directive is on.
http::StepFactory autoindex();

const conf::Module& random_index_module();
// Content phase, before index: a directory's URI is redirected internally to any file in it.
http::StepFactory random_index();

const conf::Module& empty_gif_module();
// Content phase, instead of files: one transparent pixel.
http::StepFactory empty_gif();

struct PrecompressedSettings {
  enum class Use : std::uint8_t {
    kOff,
    kOn,      // If the client accepts the coding.
    kAlways,  // Whether it does or not.
    kUnset,   // As gzip_static says, though its "always" then counts as "on".
  };
  Use gzip = Use::kOff;
  Use brotli = Use::kUnset;
  Use zstd = Use::kUnset;
};
const conf::Module& precompressed_module();
// Content phase, before static files: a ".gz", ".br" or ".zst" that lies beside the file.
http::StepFactory precompressed();

// Content phase, the last of all: the file that root or alias name, or 404, 403, 405, and 301 for
// directories without their slash.
http::StepFactory static_file();

}  // namespace corehttpd::handlers

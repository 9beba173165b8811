// A file as a response body.
#pragma once

#include <cstdint>
#include <span>

#include "corehttpd/assets/file_lookup.h"
#include "corehttpd/http/body.h"
#include "corehttpd/http/exchange.h"

namespace corehttpd::assets {

// Yields the cached block, or ranges of the descriptor where the transport takes those; else it
// reads into blocks of the worker's pool: what is in the page cache at once, the rest by the ring,
// blocked meanwhile. A file that became shorter than it was ends in an error, never in a short
// body.
class FileSource final : public http::BodySource {
 public:
  // entry: of a regular file, from lookup(). The exchange must outlive the source (arena).
  FileSource(http::Exchange& exchange, FileEntry entry);
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { abandon_load(); }

  Result<http::ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max,
                                 http::Forms forms) override;
  bool restrict(std::uint64_t begin, std::uint64_t end) override;
  void cancel() noexcept override;

 private:
  struct Load;
  static constexpr std::size_t kBlocksPerRead = 4;

  Result<http::ReadOutcome> read_memory(std::span<Segment> out, std::size_t bytes_max);
  Result<std::uint32_t> read_cached(std::span<Segment> out, std::size_t bytes_max);
  Result<http::ReadOutcome> take_loaded(Segment& out, std::size_t bytes_max);
  Result<http::ReadOutcome> start_load();
  http::ReadOutcome advance(std::uint32_t segments) const;
  void abandon_load();
  std::unexpected<Error> truncated();

  http::Exchange& exchange_;
  io::Loop& loop_;
  BlockRef content_;
  FileRef file_;
  std::uint64_t position_ = 0;  // Next byte to yield.
  std::uint64_t end_;
  Segment loaded_;        // Came from the ring but did not fit into what was asked for.
  Load* load_ = nullptr;  // A ring read, running or finished. Owns itself once abandoned.
};

}  // namespace corehttpd::assets

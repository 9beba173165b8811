// What is in a directory, for autoindex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/http/exchange.h"

namespace corehttpd::assets {

struct DirectoryEntry {
  enum class Kind : std::uint8_t { kDirectory, kFile, kOther };
  std::string_view name;  // As the file system has it: any bytes but '/' and NUL.
  std::uint64_t size = 0;
  std::int64_t modified_s = 0;  // Unix seconds.
  Kind kind = Kind::kOther;
};

// Directories first, each kind by the bytes of its names; without names that begin with a dot.
// Links are followed as far as disable_symlinks allows, else they are kOther.
class DirectoryListing {
 public:
  // What lies beyond is left out: the directory of somebody who hoards files must not cost the
  // worker its memory.
  static constexpr std::size_t kEntriesMax = 100'000;
  // All listings of a worker together; further requests are answered with 503 until some have been
  // sent.
  static constexpr std::size_t kBytesMax = 64 * 1024 * 1024;

  DirectoryListing() = default;
  DirectoryListing(const DirectoryListing&) = delete;
  DirectoryListing& operator=(const DirectoryListing&) = delete;
  ~DirectoryListing() { bytes_total_ -= counted_; }

  // For the thread that reads: any order, sort() at the end. False when kEntriesMax are there.
  bool add(const DirectoryEntry& entry);
  void sort();

  std::size_t size() const { return records_.size(); }
  DirectoryEntry operator[](std::size_t i) const;
  bool truncated() const { return truncated_; }

  // On the loop: from now on this one counts.
  void count();
  static bool full() { return bytes_total_ >= kBytesMax; }

 private:
  struct Record {
    std::uint64_t size;
    std::int64_t modified_s;
    std::uint32_t name_begin;
    std::uint16_t name_bytes;
    DirectoryEntry::Kind kind;
  };
  std::string_view name_of(const Record& record) const {
    return std::string_view(names_).substr(record.name_begin, record.name_bytes);
  }
  std::string names_;
  std::vector<Record> records_;
  std::size_t counted_ = 0;
  bool truncated_ = false;
  static inline std::size_t bytes_total_ = 0;
};

struct Listed {
  // nullptr: see error; or, with neither, the step returns wait and is run again. Lives as long as
  // the exchange.
  const DirectoryListing* listing = nullptr;
  int error = 0;  // errno of opening or reading it.
  http::StepOutcome wait;
};

// path: absolute, without its slash at the end, in the exchange's arena.
Listed list_directory(http::Exchange& exchange, std::string_view path);

}  // namespace corehttpd::assets

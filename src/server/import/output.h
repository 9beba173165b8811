// Writes the new tree: first a copy of all there is, then the files that were changed.
#pragma once

#include <sys/stat.h>

#include <map>
#include <string>

#include "server/import/paths.h"
#include "server/import/plan.h"
#include "server/import/report.h"
#include "server/import/roots.h"
#include "server/import/tree.h"

namespace corehttpd::server::importer {

class Output {
 public:
  // force: files that are there may be replaced.
  Output(const Roots& roots, Tree& tree, bool force) : roots_(roots), tree_(tree), force_(force) {}
  // Whether the directory may be written to, and makes it. Empty: yes; else why not.
  std::string prepare();
  // Copies directories, files and links. What cannot be copied is reported; empty: done, else what
  // makes it useless to go on.
  std::string copy(Report& report);
  // Writes what the plan has changed; may be called again with another plan.
  std::string write(Plan& plan, const Mirrors& mirrors, Report& report);
  // The file whose text stands at a path of the new tree, or that is read in place; nullptr: none.
  const SourceFile* source_of(const std::string& path);

 private:
  std::string copy_directory(const std::string& relative, Report& report, std::size_t depth);
  std::string copy_entry(const std::string& relative, Report& report, std::size_t depth);
  std::string copy_file(const std::string& relative, const struct stat& status, Report& report);
  std::string copy_link(const std::string& relative, const struct stat& status);
  std::string make_directory(const std::string& path, const struct stat& status);
  std::string make_parents(const std::string& path);
  // Whole or not at all: beside it first, then renamed.
  std::string write_file(const std::string& path, std::string_view text, const struct stat& status);
  std::string put(const SourceFile* file, const std::string& path, Plan& plan);
  void note(Report& report, const std::string& relative, std::string message);

  const Roots& roots_;
  Tree& tree_;
  bool force_;
  std::map<std::string, const SourceFile*> links_;    // New path of a link to a file outside.
  std::map<std::string, const SourceFile*> written_;  // By path in the new tree.
  std::map<std::string, std::string> texts_;          // What was written there last.
};

}  // namespace corehttpd::server::importer

// The configuration that nginx would read: its files, and its blocks with includes spliced in, each
// directive with its place in a file. A file included by two sites is one file and two visits.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "conf/tables.h"
#include "corehttpd/conf/directive.h"
#include "server/import/roots.h"
#include "server/import/source_file.h"

namespace corehttpd::server::importer {

struct Place {
  const SourceFile* file = nullptr;
  const Statement* statement = nullptr;
  friend auto operator<=>(const Place&, const Place&) = default;
};

struct Scope {
  conf::Context context = conf::Context::kMain;
  Scope* parent = nullptr;
  Place block;  // What opened it; nothing for the root.
  // In the order in which nginx sees them; includes are replaced by what they bring.
  std::vector<Place> statements;
  std::vector<Scope*> children;
};

// An include directive and what it brings.
struct Include {
  Place place;
  std::string pattern;                   // In the old tree, absolute.
  std::vector<std::string> paths;        // As found, sorted.
  std::vector<const SourceFile*> files;  // Of those, what could be read.
};

class Tree {
 public:
  Tree(const Roots& roots, const conf::Tables& tables) : roots_(roots), tables_(tables) {}
  // Reads nginx.conf and what it includes. Empty: done; else why this cannot be imported.
  std::string read();
  // Sites that lie ready but are not included by anything, as if they were.
  void read_disabled_sites();

  // nginx.conf, once read.
  const SourceFile* main_file() const { return main_; }
  const Scope& root() const { return root_; }
  const std::deque<Scope>& scopes() const { return scopes_; }
  const std::map<std::string, std::unique_ptr<SourceFile>>& files() const { return files_; }
  const std::map<Place, Include>& includes() const { return includes_; }
  // Only in blocks of which the daemon's tables know no more than their name: neither checked nor
  // guarding anything, but with paths in them.
  const std::set<Place>& opaque() const { return opaque_; }
  bool is_disabled(const SourceFile* file) const { return disabled_.contains(file); }
  // The file at a path, read if it has not been; nullptr if there is none.
  const SourceFile* file(const std::string& path);

 private:
  void walk(const SourceFile& file, const std::vector<Statement>& statements, Scope* scope);
  void include(const SourceFile& file, const Statement& statement, Scope* scope);
  void enter(const SourceFile& file, const Statement& statement, Scope* scope);
  void fail(const SourceFile& file, const Statement& statement, const std::string& what);
  std::vector<std::string> matches(const std::string& pattern) const;
  std::string shown_path(const std::string& path) const;

  const Roots& roots_;
  const conf::Tables& tables_;
  std::map<std::string, std::unique_ptr<SourceFile>> files_;
  std::deque<Scope> scopes_;
  Scope root_;
  const SourceFile* main_ = nullptr;
  Scope disabled_http_;
  std::map<Place, Include> includes_;
  std::set<Place> opaque_;
  std::set<const SourceFile*> disabled_;
  std::vector<const SourceFile*> stack_;
  std::size_t visits_ = 0;
  std::string error_;
};

}  // namespace corehttpd::server::importer

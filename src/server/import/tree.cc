#include "server/import/tree.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>

namespace corehttpd::server::importer {

using conf::Context;

std::string Tree::shown_path(const std::string& path) const {
  const auto relative = roots_.relative(path);
  return relative ? roots_.shown() + "/" + *relative : path;
}

const SourceFile* Tree::file(const std::string& path) {
  const auto real = roots_.resolve(path);
  if (!real) return nullptr;
  const auto [place, is_new] = files_.try_emplace(*real);
  if (is_new) place->second = std::make_unique<SourceFile>(*real, shown_path(*real));
  return place->second.get();
}

std::string Tree::read() {
  const std::string path = roots_.from() + "/nginx.conf";
  const SourceFile* main = file(path);
  if (main == nullptr) return fmt::format("\"{}/nginx.conf\" does not exist", roots_.shown());
  if (main->state() != SourceFile::State::kRead) {
    return fmt::format("\"{}\" cannot be read: {}", main->shown(), main->error());
  }
  main_ = main;
  stack_.push_back(main);
  walk(*main, main->statements(), &root_);
  stack_.pop_back();
  return error_;
}

void Tree::read_disabled_sites() {
  disabled_http_.context = Context::kHttp;
  for (const std::string& path : matches(roots_.from() + "/sites-available/*")) {
    const auto real = roots_.resolve(path);
    if (!real || files_.contains(*real)) continue;
    const SourceFile* site = file(path);
    if (site->state() != SourceFile::State::kRead) {
      files_.erase(*real);  // A note, an archive: copied as it is.
      continue;
    }
    disabled_.insert(site);
    stack_.assign(1, site);
    walk(*site, site->statements(), &disabled_http_);
    stack_.clear();
    error_.clear();  // It may be half done; nobody has asked for it.
  }
}

void Tree::fail(const SourceFile& file, const Statement& statement, const std::string& what) {
  if (error_.empty()) error_ = fmt::format("{}:{}: {}", file.shown(), statement.line, what);
}

void Tree::walk(const SourceFile& file, const std::vector<Statement>& statements, Scope* scope) {
  for (const Statement& statement : statements) {
    if (!error_.empty()) return;
    if (++visits_ > conf::kNodesMax) return fail(file, statement, "too many directives");
    if (!statement.is_block && statement.name() == "include") {
      include(file, statement, scope);
      continue;
    }
    if (scope != nullptr) {
      scope->statements.push_back({&file, &statement});
    } else {
      opaque_.insert({&file, &statement});
    }
    if (statement.is_block && !statement.is_lua) enter(file, statement, scope);
  }
}

void Tree::enter(const SourceFile& file, const Statement& statement, Scope* scope) {
  Context inner = Context::kNone;
  if (scope != nullptr) {
    const conf::Row* row = tables_.find(statement.name(), scope->context);
    if (row != nullptr && row->directive->kind == conf::Kind::kBlock) inner = row->directive->opens;
  }
  if (inner == Context::kNone) return walk(file, statement.children, nullptr);
  Scope& child = scopes_.emplace_back();
  child.context = inner;
  child.parent = scope;
  child.block = {&file, &statement};
  scope->children.push_back(&child);
  walk(file, statement.children, &child);
}

void Tree::include(const SourceFile& file, const Statement& statement, Scope* scope) {
  if (statement.words.size() != 2) {
    return fail(file, statement, "invalid number of arguments in \"include\" directive");
  }
  const Place place = {&file, &statement};
  const auto [found, is_new] = includes_.try_emplace(place);
  Include& made = found->second;
  if (is_new) {
    made.place = place;
    const std::string word(statement.word(0));
    const auto relative = roots_.relative(word);
    made.pattern = relative                ? roots_.from() + "/" + *relative
                   : word.starts_with('/') ? word
                                           : roots_.from() + "/" + word;
    made.paths =
        has_wildcard(made.pattern) ? matches(made.pattern) : std::vector<std::string>{made.pattern};
  }
  made.files.clear();
  // Copies: includes within grow the map.
  for (const std::string& path : std::vector<std::string>(made.paths)) {
    const SourceFile* next = this->file(path);
    if (next == nullptr) {
      // What ours ships in the place of nginx's (mime.types) is found by the check of the result.
      if (has_wildcard(made.pattern)) {
        fail(file, statement, fmt::format("\"{}\" is a link to what does not exist", path));
      }
      continue;
    }
    if (next->state() != SourceFile::State::kRead) {
      return fail(file, statement,
                  fmt::format("\"{}\", which is included here, cannot be read: {}", next->shown(),
                              next->error()));
    }
    if (std::find(stack_.begin(), stack_.end(), next) != stack_.end()) {
      return fail(file, statement, fmt::format("\"{}\" includes itself", next->shown()));
    }
    if (stack_.size() >= conf::kIncludeDepthMax || files_.size() > conf::kFilesMax) {
      return fail(
          file, statement,
          files_.size() > conf::kFilesMax ? "too many files" : "includes are too deeply nested");
    }
    includes_[place].files.push_back(next);
    stack_.push_back(next);
    walk(*next, next->statements(), scope);
    stack_.pop_back();
  }
}

std::vector<std::string> Tree::matches(const std::string& pattern) const {
  std::vector<std::string> paths;
  glob_t found = {};
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  }
  ::globfree(&found);
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace corehttpd::server::importer

// Where things are: the tree to import under each of its names, the tree to make, and the
// directories that nginx took relative paths from.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace corehttpd::server::importer {

// The directory Debian's nginx reads. A tree found elsewhere is a copy of one that was there: its
// absolute paths still name it.
inline constexpr std::string_view kNginxDirectory = "/etc/nginx";
// The main file of the tree that is made.
inline constexpr std::string_view kMainFile = "corehttpd.conf";

class Roots {
 public:
  // from: an existing directory, to: the directory to make; both absolute. prefix: what nginx -V
  // calls --prefix; empty: guessed from the layout.
  Roots(std::string from, std::string to, std::string prefix);

  const std::string& from() const { return from_; }      // Canonical.
  const std::string& shown() const { return shown_; }    // As given.
  const std::string& to() const { return to_; }          // Without a '/' at its end.
  const std::string& prefix() const { return prefix_; }  // Without a '/' at its end.
  bool source_layout() const { return source_layout_; }  // PREFIX/conf, as built from source.
  // A path below the tree, by any of the tree's names: what follows the tree's directory, without
  // a slash in front. May have variables and wildcards in it. Nothing when it is elsewhere.
  std::optional<std::string> relative(std::string_view path) const;
  // How many bytes of such a path name the tree, without the slash behind it.
  std::size_t root_length(std::string_view path) const;
  // Whether something is at a path relative to the tree, as far as the path is literal.
  bool holds(std::string_view relative) const;
  // The file at a path, through links, by its canonical path. A link of the old tree by its old
  // name stays in the tree that is imported, even where there is another at that place. Nothing:
  // none.
  std::optional<std::string> resolve(const std::string& path) const;
  // The path in the new tree of what has this path in the old one.
  std::string target(std::string_view relative) const;

 private:
  std::string shown_;
  std::string from_;
  std::string to_;
  std::string prefix_;
  bool source_layout_ = false;
};

// Without "." and empty parts, ".." resolved as text.
std::string normal_path(std::string_view path);
bool has_wildcard(std::string_view path);
// realpath(3); nothing when there is none.
std::optional<std::string> canonical(const std::string& path);

}  // namespace corehttpd::server::importer

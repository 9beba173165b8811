// Edits of one text, given by offsets into the original, applied all at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace corehttpd::server::importer {

class Edits {
 public:
  // Replaces [begin, end) of the original; begin == end inserts. Edits may not overlap; of two
  // insertions at one place the first added comes first.
  void replace(std::size_t begin, std::size_t end, std::string with);
  // Makes [begin, end), a whole statement, a comment, below a line "# note". What shares its lines
  // with it is moved to lines of its own.
  void comment_out(std::string_view text, std::size_t begin, std::size_t end,
                   std::string_view note);
  // line becomes a line of its own before the offset of a closing brace, indented as its block's
  // directives are.
  void append_to_block(std::string_view text, std::size_t block_begin, std::size_t brace,
                       std::string_view line);
  // line becomes the first line of a block whose '{' stands just before body_begin.
  void prepend_to_block(std::string_view text, std::size_t block_begin, std::size_t body_begin,
                        std::string_view line);
  bool empty() const { return edits_.empty(); }
  std::string apply(std::string_view text) const;
  // Where in the original the byte at an offset of the applied text stood; for inserted text: where
  // it was inserted.
  std::size_t original_offset(std::size_t applied) const;

 private:
  struct Edit {
    std::size_t begin;
    std::size_t end;
    std::string with;
  };
  std::vector<Edit> edits_;  // Sorted.
};

}  // namespace corehttpd::server::importer

#include "corehttpd/expr/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <string>
#include <vector>

#include "corehttpd/base/check.h"
#include "corehttpd/expr/variable.h"
#include "corehttpd/http/exchange.h"

namespace corehttpd::expr {
namespace {

// Patterns are the operator's but subjects are the visitor's: a pattern that backtracks without end
// on some URI must not stop a worker. This many steps take some milliseconds; patterns in use need
// a few hundred.
constexpr std::uint32_t kMatchLimit = 200'000;
constexpr std::uint32_t kHeapLimitKib = 1024;
constexpr std::size_t kJitStackBytesMin = std::size_t{32} * 1024;
constexpr std::size_t kJitStackBytesMax = std::size_t{512} * 1024;

// What every match of the process needs: matches never nest, so one set serves them all and no
// memory is dirtied per pattern after the fork.
struct Scratch {
  pcre2_match_context* context = nullptr;
  pcre2_match_data* data = nullptr;
  std::uint32_t pairs = 0;

  Scratch() {
    context = pcre2_match_context_create(nullptr);
    CORE_CHECK(context != nullptr);
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
    pcre2_jit_stack* stack = pcre2_jit_stack_create(kJitStackBytesMin, kJitStackBytesMax, nullptr);
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  void reserve(std::uint32_t wanted) {
    if (wanted <= pairs) return;
    pcre2_match_data_free(data);
    pairs = std::max<std::uint32_t>(wanted, 16);
    data = pcre2_match_data_create(pairs, nullptr);
    CORE_CHECK(data != nullptr);
  }
};

Scratch& scratch() {
  static Scratch* const made = new Scratch();  // Never freed: it lives as long as the process.
  return *made;
}

std::string error_text(int code) {
  unsigned char text[256];
  const int length = pcre2_get_error_message(code, text, sizeof(text));
  return length < 0 ? std::string("unknown error")
                    : std::string(reinterpret_cast<char*>(text), static_cast<std::size_t>(length));
}

bool report(conf::Compiler& compiler, const conf::Word& word, std::string message) {
  compiler.diagnostics().add(conf::Severity::kError, word.at, std::move(message), {},
                             word.text.size() + (word.quoted ? 2 : 0));
  return false;
}

int run(const pcre2_code* code, std::string_view subject, std::uint32_t groups) {
  Scratch& s = scratch();
  s.reserve(groups + 1);
  const char* const text = subject.data() == nullptr ? "" : subject.data();
  return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text), subject.size(), 0, 0, s.data,
                     s.context);
}

}  // namespace

const Regex* Regex::compile(const conf::Setting& setting, std::size_t word,
                            std::string_view pattern, bool ignore_case) {
  const conf::Node& node = setting.node;
  return compile(setting.compiler, word < node.words.size() ? node.words[word] : node.name, pattern,
                 ignore_case);
}

const Regex* Regex::compile(conf::Compiler& compiler, const conf::Word& word,
                            std::string_view pattern, bool ignore_case) {
  int error = 0;
  std::size_t offset = 0;
  const char* const text = pattern.data() == nullptr ? "" : pattern.data();
  pcre2_code* const code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text), pattern.size(),
                    ignore_case ? PCRE2_CASELESS : 0, &error, &offset, nullptr);
  if (code == nullptr) {
    std::string message =
        fmt::format("pcre2_compile() failed: {} in \"{}\"", error_text(error), pattern);
    if (offset < pattern.size()) message += fmt::format(" at \"{}\"", pattern.substr(offset));
    report(compiler, word, std::move(message));
    return nullptr;
  }
  Regex* const regex = compiler.arena().make<Regex>(code, compiler.arena().copy(pattern));
  // Where executable memory is forbidden the interpreter does it, with the same result.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &regex->captures_);
  if (!regex->name_groups(compiler, word)) return nullptr;
  return regex;
}

Regex::~Regex() { pcre2_code_free(code_); }

bool Regex::name_groups(conf::Compiler& compiler, const conf::Word& word) {
  std::uint32_t count = 0;
  pcre2_pattern_info(code_, PCRE2_INFO_NAMECOUNT, &count);
  if (count == 0) return true;
  std::uint32_t entry_bytes = 0;
  PCRE2_SPTR table = nullptr;
  pcre2_pattern_info(code_, PCRE2_INFO_NAMEENTRYSIZE, &entry_bytes);
  pcre2_pattern_info(code_, PCRE2_INFO_NAMETABLE, &table);
  const std::span<Named> named = compiler.arena().make_array<Named>(count);
  for (std::uint32_t i = 0; i < count; ++i, table += entry_bytes) {
    // Two bytes of group number, most significant first, then the name with its NUL. The table
    // lives in code_, which lives in the configuration.
    const std::string_view name(reinterpret_cast<const char*>(table + 2));
    if (registry(compiler).builtin(name) != nullptr) {
      return report(compiler, word, fmt::format("the duplicate \"{}\" variable", name));
    }
    named[i] = {static_cast<std::uint32_t>(table[0] << 8 | table[1]),
                registry(compiler).declare(name)};
  }
  named_ = named;
  return true;
}

bool Regex::match(http::Exchange& exchange, std::string_view subject) const {
  const int result = run(code_, subject, captures_);
  if (result < 0) {
    if (result != PCRE2_ERROR_NOMATCH) {
      exchange.log(LogLevel::kError, 0, "pcre2_match() failed: {} on \"{}\" using \"{}\"",
                   error_text(result), subject, pattern_);
    }
    return false;
  }
  const std::size_t* const offsets = pcre2_get_ovector_pointer(scratch().data);
  const std::span<std::string_view> captures =
      exchange.arena().make_array<std::string_view>(captures_ + 1);
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(result); ++i) {
    const std::size_t from = offsets[2 * i], to = offsets[2 * i + 1];
    // A group that took no part is PCRE2_UNSET; \K in a lookahead can put the start past the end.
    if (from <= to && to <= subject.size()) captures[i] = subject.substr(from, to - from);
  }
  exchange.set_captures(captures);
  for (const Named& named : named_) {
    const std::string_view value = captures[named.group];
    set_slot(exchange, named.slot, value.data() == nullptr ? std::string_view("") : value);
  }
  return true;
}

bool Regex::test(std::string_view subject) const { return run(code_, subject, captures_) >= 0; }

}  // namespace corehttpd::expr

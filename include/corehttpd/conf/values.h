// Typed setters for directive rows, and the parsers behind them (nginx's units and spellings).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "corehttpd/base/clock.h"
#include "corehttpd/base/text.h"
#include "corehttpd/conf/directive.h"

namespace corehttpd::conf {

// "10", "512k", "8m", "1g" (g only for offsets in nginx; accepted for all sizes), either case.
// Nothing when malformed or above INT64_MAX.
std::optional<std::uint64_t> parse_size(std::string_view text);
// "30", "500ms", "1h 30m", "1d12h", "1y": seconds unless a unit is given; units y M w d h m s ms,
// each once, largest first, with blanks between parts or not. A month has 30 days, a year 365.
// Nothing when malformed or too large.
std::optional<Milliseconds> parse_time_ms(std::string_view text);
// Digits only. Nothing when malformed or above UINT64_MAX.
std::optional<std::uint64_t> parse_number(std::string_view text);
std::optional<bool> parse_flag(std::string_view text);  // "on", "off", case ignored.

namespace detail {
template <class>
struct Member;
template <class S, class V>
struct Member<V S::*> {
  using Owner = S;
  using Value = V;
};
template <auto Field>
auto& field(const Setting& s) {
  return static_cast<typename Member<decltype(Field)>::Owner*>(s.settings)->*Field;
}
}  // namespace detail

// Read word `word` into out; false with nginx's message recorded: invalid value "x" in "y"
// directive, it must be "on" or "off"; "y" directive invalid value; "y" directive invalid number;
// value must be between 1 and 9.
bool read_flag(const Setting& s, std::size_t word, bool& out);
bool read_size(const Setting& s, std::size_t word, std::uint64_t& out);
bool read_time(const Setting& s, std::size_t word, Milliseconds& out);
bool read_number(const Setting& s, std::size_t word, std::uint64_t min, std::uint64_t max,
                 std::uint64_t& out);

template <auto Field>
bool set_flag(const Setting& s) {
  return read_flag(s, 0, detail::field<Field>(s));
}
template <auto Field>
bool set_size(const Setting& s) {
  std::uint64_t value = 0;
  if (!read_size(s, 0, value)) return false;
  detail::field<Field>(s) =
      static_cast<std::remove_reference_t<decltype(detail::field<Field>(s))>>(value);
  return true;
}
template <auto Field>
bool set_time(const Setting& s) {
  return read_time(s, 0, detail::field<Field>(s));
}
template <auto Field, std::uint64_t Min = 0, std::uint64_t Max = INT32_MAX>
bool set_number(const Setting& s) {
  std::uint64_t value = 0;
  if (!read_number(s, 0, Min, Max, value)) return false;
  detail::field<Field>(s) =
      static_cast<std::remove_reference_t<decltype(detail::field<Field>(s))>>(value);
  return true;
}
// The word itself, a std::string_view that lives in the configuration.
template <auto Field>
bool set_text(const Setting& s) {
  detail::field<Field>(s) = s.word(0);
  return true;
}
// A path made absolute from the prefix.
bool read_path(const Setting& s, std::size_t word, std::string_view& out);
template <auto Field>
bool set_path(const Setting& s) {
  return read_path(s, 0, detail::field<Field>(s));
}
// One of a fixed set: static constexpr Choice<Enum> kChoices[] = {{"on", E::kOn}, …};
// set_choice<&S::f, kChoices>.
template <class E>
struct Choice {
  std::string_view text;
  E value;
};
bool fail_choice(const Setting& s, std::size_t word, std::string_view allowed);
template <auto Field, const auto& Choices>
bool set_choice(const Setting& s) {
  std::string allowed;
  for (const auto& choice : Choices) {
    if (text::equals_ignore_case(choice.text, s.word(0))) {
      detail::field<Field>(s) = choice.value;
      return true;
    }
    allowed.append(allowed.empty() ? "" : ", ").append(choice.text);
  }
  return fail_choice(s, 0, allowed);
}
// For rows whose stage is not kWorks.
inline bool set_nothing(const Setting&) { return true; }

// Checks a table at compile time: static_assert(conf::well_formed(kDirectives)). Names sorted,
// contexts and docs given; a name may have several rows ("if" in server, "if" in location) when
// their contexts are disjoint.
// That there is a setter is checked when the tables are loaded: g++ 12 with the undefined-behaviour
// sanitizer takes no comparison of a template's address with nullptr for a constant.
consteval bool well_formed(std::span<const Directive> table) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Directive& d = table[i];
    if (d.name.empty() || d.contexts == Context::kNone || d.arity.min > d.arity.max) return false;
    if (d.doc.empty() || d.doc.back() != '.') return false;
    if (i > 0 && d.name < table[i - 1].name) return false;
    for (std::size_t j = i; j > 0 && table[j - 1].name == d.name; --j) {
      if (has(table[j - 1].contexts, d.contexts)) return false;
    }
    if (d.kind == Kind::kBlock && d.stage == Stage::kWorks && d.opens == Context::kNone)
      return false;
  }
  return true;
}

}  // namespace corehttpd::conf

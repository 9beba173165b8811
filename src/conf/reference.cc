#include "corehttpd/conf/reference.h"

#include <fmt/format.h>

#include <iterator>

#include "conf/tables.h"

namespace corehttpd::conf {
namespace {

std::string usage(const Directive& d) {
  return fmt::format("{}{}{}{}", d.name, d.syntax.empty() ? "" : " ", d.syntax,
                     d.kind == Kind::kValue ? ";" : " { ... }");
}

std::string default_text(const Directive& d) {
  if (d.default_value.empty()) return {};
  return d.kind == Kind::kRawBlock ? fmt::format("{} {{ {} }}", d.name, d.default_value)
                                   : fmt::format("{} {};", d.name, d.default_value);
}

const char* inheritance(Inherit inherit) {
  switch (inherit) {
    case Inherit::kOverride:
      return "a nested block's value replaces the outer one; once per block";
    case Inherit::kList:
      return "may be repeated; the first in a nested block replaces all that was inherited";
    case Inherit::kAppend:
      return "may be repeated; a nested block adds to what it inherits";
    case Inherit::kNone:
      return "not inherited";
  }
  return "";
}

// Empty for what works.
const char* state(Stage stage) {
  switch (stage) {
    case Stage::kWorks:
      return "";
    case Stage::kNoMeaning:
      return "accepted without effect";
    case Stage::kLater:
      return "accepted, not supported yet";
    case Stage::kRefused:
      return "refused";
  }
  return "";
}

void describe_row(const Row& row, std::string& out) {
  const Directive& d = *row.directive;
  const std::string by_default = default_text(d);
  const auto put = std::back_inserter(out);
  fmt::format_to(put, "{}\n", usage(d));
  fmt::format_to(put, "  default:     {}\n", by_default.empty() ? "none" : by_default);
  fmt::format_to(put, "  context:     {}\n", context_names(row.contexts));
  if (d.stage == Stage::kWorks) {
    fmt::format_to(put, "  inheritance: {}\n", inheritance(d.inherit));
  } else {
    fmt::format_to(put, "  state:       {}\n", state(d.stage));
  }
  fmt::format_to(put, "  module:      {}\n", row.module->name);
  fmt::format_to(put, "  {}\n", d.doc);
}

}  // namespace

std::string describe(std::span<const Module* const> modules, std::string_view name) {
  const Tables tables(modules);
  std::string out;
  for (const Row& row : tables.rows(name)) {
    if (row.contexts == Context::kNone) continue;
    if (!out.empty()) out += '\n';
    describe_row(row, out);
  }
  return out;
}

std::string describe_all(std::span<const Module* const> modules) {
  const Tables tables(modules);
  std::string out;
  for (const Row& row : tables.rows()) {
    if (row.contexts == Context::kNone) continue;
    const char* const note = state(row.directive->stage);
    fmt::format_to(std::back_inserter(out), "{}  [{}]{}{}\n", usage(*row.directive),
                   context_names(row.contexts), *note != '\0' ? "  " : "", note);
  }
  return out;
}

std::vector<std::string_view> nearest_names(std::span<const Module* const> modules,
                                            std::string_view name) {
  return Tables(modules).nearest(name, Context::kNone);
}

std::string reference_markdown(std::span<const Module* const> modules, const Module& module) {
  const Tables tables(modules);
  std::string out = fmt::format(
      "# {}\n\nGenerated from the directive table of this module; changes belong there.\n",
      module.name);
  const auto put = std::back_inserter(out);
  for (const Row& row : tables.rows()) {
    if (row.module != &module || row.contexts == Context::kNone) continue;
    const Directive& d = *row.directive;
    const std::string by_default = default_text(d);
    fmt::format_to(put, "\n## {}\n\n{}\n\n- **Syntax:** `{}`\n", d.name, d.doc, usage(d));
    if (by_default.empty()) {
      fmt::format_to(put, "- **Default:** none\n");
    } else {
      fmt::format_to(put, "- **Default:** `{}`\n", by_default);
    }
    fmt::format_to(put, "- **Context:** {}\n", context_names(row.contexts));
    if (d.stage == Stage::kWorks) {
      fmt::format_to(put, "- **Inheritance:** {}\n", inheritance(d.inherit));
    } else {
      fmt::format_to(put, "- **State:** {}\n", state(d.stage));
    }
  }
  return out;
}

std::vector<RowText> row_texts(std::span<const Module* const> modules) {
  const Tables tables(modules);
  std::vector<RowText> out;
  for (const Row& row : tables.rows()) {
    if (row.contexts == Context::kNone) continue;
    const Directive& d = *row.directive;
    out.push_back({d.name, usage(d), default_text(d), context_names(row.contexts),
                   inheritance(d.inherit), state(d.stage), row.module->name, d.doc});
  }
  return out;
}

std::vector<std::string> table_conflicts(std::span<const Module* const> modules) {
  return Tables(modules).conflicts();
}

std::vector<const Directive*> shadowed_rows(std::span<const Module* const> modules) {
  const Tables tables(modules);
  std::vector<const Directive*> out;
  for (const Row& row : tables.rows()) {
    if (row.contexts == Context::kNone) out.push_back(row.directive);
  }
  return out;
}

}  // namespace corehttpd::conf

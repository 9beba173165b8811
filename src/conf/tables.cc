#include "conf/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "corehttpd/base/text.h"

namespace corehttpd::conf {
namespace {

constexpr Context without(Context set, Context other) {
  return static_cast<Context>(static_cast<std::uint32_t>(set) & ~static_cast<std::uint32_t>(other));
}

struct ByName {
  bool operator()(const Row& row, std::string_view name) const {
    return row.directive->name < name;
  }
  bool operator()(std::string_view name, const Row& row) const {
    return name < row.directive->name;
  }
};

// From the outermost block inwards.
constexpr std::array kContexts = {
    Context::kMain,     Context::kEvents,   Context::kHttp,       Context::kServer,
    Context::kLocation, Context::kIfServer, Context::kIfLocation, Context::kLimitExcept,
    Context::kUpstream, Context::kStream,   Context::kMail,
};

}  // namespace

std::string_view context_name(Context one) {
  switch (one) {
    case Context::kNone:
      return "none";
    case Context::kMain:
      return "main";
    case Context::kEvents:
      return "events";
    case Context::kHttp:
      return "http";
    case Context::kServer:
      return "server";
    case Context::kLocation:
      return "location";
    case Context::kUpstream:
      return "upstream";
    case Context::kIfServer:
      return "if in server";
    case Context::kIfLocation:
      return "if in location";
    case Context::kLimitExcept:
      return "limit_except";
    case Context::kStream:
      return "stream";
    case Context::kMail:
      return "mail";
  }
  return "several";
}

std::string context_names(Context set) {
  std::string out;
  for (Context one : kContexts) {
    if (has(set, one)) out.append(out.empty() ? "" : ", ").append(context_name(one));
  }
  return out;
}

Tables::Tables(std::span<const Module* const> modules) : modules_(modules) {
  for (std::size_t i = 0; i < modules.size(); ++i) {
    for (const Directive& d : modules[i]->directives)
      rows_.push_back({modules[i], i, &d, d.contexts});
  }
  std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
    return a.directive->name < b.directive->name;
  });
  for (Row& row : rows_) {
    if (!row.module->yields) continue;
    for (const Row& other : rows(row.directive->name)) {
      if (!other.module->yields) row.contexts = without(row.contexts, other.directive->contexts);
    }
  }
}

std::span<const Row> Tables::rows(std::string_view name) const {
  const auto [first, last] = std::equal_range(rows_.begin(), rows_.end(), name, ByName());
  return {first, last};
}

const Row* Tables::find(std::string_view name, Context context) const {
  for (const Row& row : rows(name)) {
    if (has(row.contexts, context)) return &row;
  }
  return nullptr;
}

Context Tables::contexts(std::string_view name) const {
  Context all = Context::kNone;
  for (const Row& row : rows(name)) all = all | row.contexts;
  return all;
}

std::vector<std::string_view> Tables::nearest(std::string_view name, Context context) const {
  // A third of the letters may differ; beyond that a suggestion is noise.
  const std::size_t most = std::clamp<std::size_t>(name.size() / 3, 1, 4);
  using Candidate = std::tuple<std::size_t, bool, std::string_view>;
  std::vector<Candidate> found;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const std::string_view other = rows_[i].directive->name;
    if (i > 0 && rows_[i - 1].directive->name == other) continue;
    const std::size_t distance = text::edit_distance(name, other, most + 1);
    if (distance > most) continue;
    const bool elsewhere = context != Context::kNone && !has(contexts(other), context);
    found.emplace_back(distance, elsewhere, other);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string_view> names;
  for (const Candidate& candidate : found) {
    if (names.size() == 3 || std::get<0>(candidate) > std::get<0>(found[0])) break;
    names.push_back(std::get<2>(candidate));
  }
  return names;
}

std::vector<std::string_view> Tables::raw_blocks() const {
  std::vector<std::string_view> names;
  for (const Row& row : rows_) {
    if (row.directive->kind == Kind::kRawBlock) names.push_back(row.directive->name);
  }
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<std::string> Tables::conflicts() const {
  std::vector<std::string> out;
  if (modules_.size() > kModulesMax) {
    out.push_back(fmt::format("{} modules, {} at most", modules_.size(), kModulesMax));
  }
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (modules_[i]->index != modules_[j]->index || modules_[i]->index == nullptr) continue;
      out.push_back(fmt::format("modules \"{}\" and \"{}\" have one settings type",
                                modules_[j]->name, modules_[i]->name));
    }
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    if (row.directive->set == nullptr) {
      out.push_back(fmt::format("\"{}\" directive of \"{}\" has no setter", row.directive->name,
                                row.module->name));
    }
    for (std::size_t j = i; j-- > 0 && rows_[j].directive->name == row.directive->name;) {
      if (!has(rows_[j].contexts, row.contexts)) continue;
      out.push_back(fmt::format(
          "\"{}\" directive is declared by both \"{}\" and \"{}\" for {}", row.directive->name,
          rows_[j].module->name, row.module->name,
          context_names(static_cast<Context>(static_cast<std::uint32_t>(rows_[j].contexts) &
                                             static_cast<std::uint32_t>(row.contexts)))));
    }
  }
  return out;
}

std::string syntax_of(const Directive& directive) {
  return fmt::format("syntax: {}{}{}{}", directive.name, directive.syntax.empty() ? "" : " ",
                     directive.syntax, directive.kind == Kind::kValue ? ";" : " { ... }");
}

std::string quoted_list(std::span<const std::string_view> names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out.append("\"").append(names[i]).append("\"");
  }
  return out;
}

}  // namespace corehttpd::conf

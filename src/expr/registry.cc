#include "expr/registry.h"

#include <algorithm>

#include "corehttpd/base/check.h"
#include "corehttpd/http/exchange.h"

namespace corehttpd::expr {

Registry& registry(conf::Compiler& compiler) {
  Registry& made = compiler.object_or_make<Registry>();
  RegistryData::of(made, compiler.arena());
  return made;
}

void prepare(conf::Compiler& compiler, std::span<const std::span<const Variable>> tables) {
  Registry& made = registry(compiler);
  for (const std::span<const Variable> table : tables) made.add(table);
}

void Registry::add(std::span<const Variable> table) {
  for (const Variable& variable : table) {
    if (variable.family) {
      data_->families.push_back(&variable);
    } else {
      const bool added = data_->builtins.emplace(variable.name, &variable).second;
      CORE_CHECK(added);  // Two modules claim one name: no configuration can cause this.
    }
  }
  // "sent_http_" before a shorter "sent_": the longest prefix wins.
  std::stable_sort(
      data_->families.begin(), data_->families.end(),
      [](const Variable* a, const Variable* b) { return a->name.size() > b->name.size(); });
}

std::uint32_t Registry::declare(std::string_view name, Unset unset) {
  const auto [place, added] = data_->users.try_emplace(name);
  if (added) place->second.slot = data_->slots++;
  if (unset == Unset::kWarn) place->second.warn_unset = true;
  return place->second.slot;
}

bool Registry::define(std::string_view name, Compute compute, const void* context) {
  if (builtin(name) != nullptr) return false;
  declare(name);
  UserVariable& user = data_->users[name];
  user.compute = compute;
  user.context = context;
  return true;
}

std::uint32_t Registry::anonymous_slot() { return data_->slots++; }

const Variable* Registry::builtin(std::string_view name) const {
  const auto found = data_->builtins.find(name);
  return found == data_->builtins.end() ? nullptr : found->second;
}

std::optional<Registry::Found> Registry::find(std::string_view name) const {
  if (const Variable* variable = builtin(name)) return Found{.variable = variable};
  if (const auto found = data_->users.find(name); found != data_->users.end()) {
    const UserVariable& user = found->second;
    return Found{.user = true,
                 .slot = user.slot,
                 .warn_unset = user.warn_unset,
                 .compute = user.compute,
                 .context = user.context};
  }
  for (const Variable* family : data_->families) {
    if (name.starts_with(family->name)) {
      return Found{.variable = family, .suffix = name.substr(family->name.size())};
    }
  }
  return std::nullopt;
}

std::uint32_t Registry::slot_count() const { return data_->slots; }

namespace {

// Values of user variables of one request: as many as were ever set, since most requests set few.
struct Slots {
  std::span<Value> values;
};

}  // namespace

Value get_slot(http::Exchange& exchange, std::uint32_t slot) {
  const Slots* slots = exchange.main().find_state<Slots>();
  if (slots == nullptr || slot >= slots->values.size()) return std::nullopt;
  return slots->values[slot];
}

void set_slot(http::Exchange& exchange, std::uint32_t slot, std::string_view value) {
  http::Exchange& owner = exchange.main();
  Slots& slots = owner.state<Slots>();
  if (slot >= slots.values.size()) {
    const std::size_t count = std::max<std::size_t>({slot + 1, 4, slots.values.size() * 2});
    const std::span<Value> grown = owner.arena().make_array<Value>(count);
    std::copy(slots.values.begin(), slots.values.end(), grown.begin());
    slots.values = grown;
  }
  // A subrequest's arena goes before the main request's.
  slots.values[slot] = &owner == &exchange ? value : owner.arena().copy(value);
}

}  // namespace corehttpd::expr

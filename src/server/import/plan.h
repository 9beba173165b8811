// Decides what becomes of each directive and turns that into edits of the files and entries of the
// report. Made anew, from the untouched tree, whenever the compiler has refused more of it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "conf/tables.h"
#include "server/import/edits.h"
#include "server/import/effects.h"
#include "server/import/report.h"
#include "server/import/roots.h"
#include "server/import/tree.h"

namespace corehttpd::server::importer {

// What the compiler said about a directive: its first message, with help, and all of them.
struct Refusal {
  std::string message;
  std::string help;
  std::set<std::string> messages;
};
using Refusals = std::map<Place, Refusal>;

class Plan {
 public:
  // unguarded: names of guards whose loss the operator accepts. All arguments outlive the plan.
  Plan(const Roots& roots, const Tree& tree, const conf::Tables& tables, const Refusals& refusals,
       const std::set<std::string>& unguarded, Report& report);
  void make();

  Edits& edits(const SourceFile* file) { return edits_[file]; }
  const std::map<const SourceFile*, Edits>& all_edits() const { return edits_; }
  // Whether a directive has been made a comment, itself or with a block around it.
  bool is_out(const Place& place) const;
  // The name of a directive and what it stands in, for the report: location "/x" (line 3).
  static std::string block_name(const Place& place);

 private:
  // How a block is closed. The larger value wins where there are several reasons.
  enum class Answer : std::uint8_t { kOpen, kUnavailable502, kUnavailable503, kForbidden };
  struct Closing {
    Answer answer = Answer::kOpen;
    std::set<Place> reasons;
    bool at_start = false;  // Rules of the block may end before its last line.
  };
  // A directive that cannot stay, where it has been met.
  struct Problem {
    Place place;
    Effect effect;
  };

  void check_scope(const Scope& scope);
  void check_statement(const Scope& scope, const Place& place);
  void prepare();
  Effect weigh(const Scope& scope, const Statement& statement, bool known) const;
  bool is_unguarded(const Statement& statement) const;
  bool leads_to_lost_upstream(const Statement& statement) const;
  void add_problem(const Scope& scope, const Place& place, const Refusal& refusal, bool known);
  void check_load_module(const Place& place);
  bool substitute(const Place& place, const Refusal& refusal);
  bool substitute_one(const Place& place, std::string_view message, std::vector<std::string>& raw);
  void take_out(const Place& place, const Refusal& refusal);
  void note(const Place& place, Weight weight, std::string message, std::string advice = {});

  void close_for(const Scope& scope, const Problem& problem);
  void close(const Scope& scope, Answer answer, const Place& reason);
  void close_below(const Scope& scope, Answer answer, const Place& reason);
  void drop_server(const Scope& server, const Place& reason);
  bool only_denies_all(const Scope& scope, const Place& reason) const;
  bool answers_before_guards(const Scope& scope) const;
  bool may_end_early(const Scope& scope) const;
  bool replaces(const Scope& scope, std::string_view family) const;
  bool is_defined_by_rule(const Statement& statement) const;
  void write_closings();

  const Roots& roots_;
  const Tree& tree_;
  const conf::Tables& tables_;
  const Refusals& refusals_;
  const std::set<std::string>& unguarded_;
  Report& report_;
  std::map<const SourceFile*, Edits> edits_;
  std::set<Place> out_;
  std::map<Place, Closing> closings_;
  std::set<std::string> set_names_;  // Variables that some "set" defines.
  std::set<std::string, std::less<>> lost_upstreams_;
  bool rules_on_addresses_ = false;  // Some rule looks at the client's address.
  std::set<std::pair<Place, std::string>> noted_;
  std::map<Place, std::string> why_;  // What is wrong with what had to be taken out.
};

}  // namespace corehttpd::server::importer

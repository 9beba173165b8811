// Rewrite directives, compiled: a script per block.
#pragma once

#include <cstdint>
#include <string_view>

#include "corehttpd/base/arena.h"
#include "corehttpd/conf/directive.h"
#include "corehttpd/expr/program.h"
#include "corehttpd/expr/regex.h"
#include "corehttpd/http/exchange.h"

namespace corehttpd::handlers::rewrite {

struct Script;

struct Set {
  const expr::Variable* builtin = nullptr;  // An assignable one; nullptr: a user variable.
  std::uint32_t slot = 0;
  expr::Program value;
};

struct Return {
  std::uint16_t status = 0;
  bool has_text = false;
  expr::Program text;  // A body; with a redirect's status the URL.
};

struct Rewrite {
  enum class Then : std::uint8_t {
    kGoOn,      // With the next directive; the location is looked for again at the end.
    kLast,      // Look for the location again.
    kBreak,     // Stay in this location.
    kRedirect,  // Answer with status.
  } then = Then::kGoOn;
  std::uint16_t status = 0;  // kRedirect: 301 or 302.
  bool has_args = false;     // The replacement has a '?' of its own.
  bool keep_args = true;     // It did not end in '?': the request's arguments are appended.
  const expr::Regex* regex = nullptr;
  expr::Program path;
  expr::Program args;
};

struct Condition {
  enum class Test : std::uint8_t {
    kTrue,  // Neither "" nor "0".
    kEqual,
    kMatch,
    kFile,
    kDirectory,
    kExists,
    kExecutable,
  } test = Test::kTrue;
  bool negated = false;
  expr::Program left;
  expr::Program right;                 // kEqual.
  const expr::Regex* regex = nullptr;  // kMatch.
};

struct If {
  Condition condition;
  const Script* body = nullptr;
  const http::Location* location = nullptr;  // nullptr: in a server block.
};

struct Instruction {
  enum class Kind : std::uint8_t { kSet, kReturn, kRewrite, kIf, kBreak } kind;
  std::uint32_t order = 0;  // Place in the block.
  union {
    const Set* set;
    const Return* answer;
    const Rewrite* rewrite;
    const If* branch;
  };
};

struct Script {
  ArenaVector<Instruction> instructions;
};

struct Settings {
  Script* script = nullptr;  // Of this very block: a location's nested ones start without.
  bool rewrite_log = false;
};

// Reads the words of "if".
bool read_condition(const conf::Setting& setting, Condition& out);
struct Verdict {
  bool holds = false;
  // kSuspend or kFail: the file system has yet to answer (or can't be asked), holds means nothing.
  http::StepOutcome wait;
};
Verdict judge(const Condition& condition, http::Exchange& exchange);

}  // namespace corehttpd::handlers::rewrite

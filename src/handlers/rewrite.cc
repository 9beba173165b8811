// Runs the rewrite directives of a block.
#include "handlers/rewrite.h"

#include "corehttpd/assets/path.h"
#include "corehttpd/handlers/rewrite.h"
#include "corehttpd/http/memory_source.h"
#include "corehttpd/http/target.h"

namespace corehttpd::handlers {
namespace rewrite {
namespace {

constexpr std::uint16_t kCloseConnection = 444;

constexpr bool is_redirect(std::uint16_t status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Captures and variables may bring dots from arguments or fields, which nobody has normalized: such
// a URI must not climb out of what the replacement names.
bool has_dot_dot(std::string_view path) {
  for (std::size_t at = path.find(".."); at != std::string_view::npos;
       at = path.find("..", at + 1)) {
    const bool starts = at == 0 || path[at - 1] == '/';
    const bool ends = at + 2 == path.size() || path[at + 2] == '/';
    if (starts && ends) return true;
  }
  return false;
}

class Interpreter {
 public:
  explicit Interpreter(http::Exchange& exchange) : exchange_(exchange), arena_(exchange.arena()) {}

  // True: the directives are over and outcome() says how. Nested by "if" only, which does not nest.
  bool run(const Script& script) {
    for (std::size_t i = take_pause(script); i < script.instructions.size(); ++i) {
      if (run_one(script.instructions[i])) return true;
      if (outcome_.kind == http::StepOutcome::Kind::kContinue) continue;
      // An "if" asks for a file that isn't known yet: the step runs again and goes on from here.
      exchange_.state<Paused>() = {&script, i, uri_changed_};
      return true;
    }
    return false;
  }
  // A location's outcome; of a server's block only an answer counts, its location is looked for
  // anyway.
  http::StepOutcome outcome() const {
    if (outcome_.kind == http::StepOutcome::Kind::kContinue && uri_changed_) {
      return http::StepOutcome::relocate();
    }
    return outcome_;
  }
  http::StepOutcome server_outcome() const { return outcome_; }

 private:
  struct Paused {
    const Script* script = nullptr;
    std::size_t instruction = 0;
    bool uri_changed = false;
  };
  // Where to begin.
  std::size_t take_pause(const Script& script) {
    auto* paused = exchange_.find_state<Paused>();
    if (paused == nullptr || paused->script != &script) return 0;
    paused->script = nullptr;
    uri_changed_ = paused->uri_changed;
    return paused->instruction;
  }

  // True: the directives are over. False with an outcome: the instruction is to be run once more.
  bool run_one(const Instruction& instruction) {
    switch (instruction.kind) {
      case Instruction::Kind::kSet: {
        const Set& set = *instruction.set;
        const std::string_view value = set.value.evaluate(exchange_);
        assign(set, value.data() == nullptr ? std::string_view("") : value);
        return false;
      }
      case Instruction::Kind::kBreak:
        uri_changed_ = false;
        return true;
      case Instruction::Kind::kReturn:
        outcome_ = answer(*instruction.answer);
        return true;
      case Instruction::Kind::kRewrite:
        return run_rewrite(*instruction.rewrite);
      case Instruction::Kind::kIf: {
        const If& branch = *instruction.branch;
        const Verdict verdict = judge(branch.condition, exchange_);
        if (verdict.wait.kind != http::StepOutcome::Kind::kContinue) {
          outcome_ = verdict.wait;
          return false;
        }
        if (!verdict.holds) return false;
        if (branch.location != nullptr) exchange_.enter_inner_location(*branch.location);
        return run(*branch.body);
      }
    }
    return false;
  }

  void assign(const Set& set, std::string_view value) {
    if (set.builtin != nullptr) {
      set.builtin->assign(exchange_, value);
    } else {
      expr::set_slot(exchange_, set.slot, value);
    }
  }

  http::StepOutcome answer(const Return& answer) {
    if (answer.status == kCloseConnection) {
      exchange_.response().status = kCloseConnection;
      exchange_.reset(Error{Code::kCancelled, Party::kSelf, kCloseConnection, "return 444"});
      return http::StepOutcome::answered();
    }
    exchange_.response().status = answer.status;  // For $status in the text.
    const std::string_view text = answer.text.evaluate(exchange_);
    if (is_redirect(answer.status)) return redirect(answer.status, text);
    if (answer.status >= 400 && !answer.has_text) return http::StepOutcome::fail(answer.status);
    http::ResponseHead& head = exchange_.response();
    head.status = answer.status;
    if (http::never_has_body(answer.status)) {
      exchange_.respond(nullptr);
      return http::StepOutcome::answered();
    }
    head.content_length = text.size();
    head.content_type = assets::content_type(exchange_, exchange_.uri());
    exchange_.respond(text.empty() ? nullptr : http::make_text_source(arena_, text));
    return http::StepOutcome::answered();
  }

  // Whatever $uri and captures decoded, the field stays one line.
  http::StepOutcome redirect(std::uint16_t status, std::string_view location) {
    exchange_.response().location = http::escape_location(arena_, location);
    return http::StepOutcome::fail(status);
  }

  bool run_rewrite(const Rewrite& rewrite) {
    const bool log = exchange_.settings<Settings>().rewrite_log;
    const std::string_view uri = exchange_.uri();
    if (!rewrite.regex->match(exchange_, uri)) {
      if (log) {
        exchange_.log(LogLevel::kNotice, 0, "\"{}\" does not match \"{}\"",
                      rewrite.regex->pattern(), uri);
      }
      return false;
    }
    if (log) {
      exchange_.log(LogLevel::kNotice, 0, "\"{}\" matches \"{}\"", rewrite.regex->pattern(), uri);
    }
    if (rewrite.then == Rewrite::Then::kRedirect) {
      outcome_ = redirect(rewrite.status, redirect_target(rewrite));
      if (log) {
        exchange_.log(LogLevel::kNotice, 0, "rewritten redirect: \"{}\"",
                      exchange_.response().location);
      }
      return true;
    }
    return change_uri(rewrite, log);
  }

  bool change_uri(const Rewrite& rewrite, bool log) {
    const std::string_view path = rewrite.path.evaluate(exchange_);
    const std::string_view args = new_args(rewrite);
    if (log) {
      exchange_.log(LogLevel::kNotice, 0, "rewritten data: \"{}\", args: \"{}\"", path, args);
    }
    if (path.empty()) {
      exchange_.log(LogLevel::kError, 0, "the rewritten URI has a zero length");
      outcome_ = http::StepOutcome::fail(500);
      return true;
    }
    if (has_dot_dot(path)) {
      exchange_.log(LogLevel::kError, 0, "the rewritten URI \"{}\" has \"..\" in it", path);
      outcome_ = http::StepOutcome::fail(400);
      return true;
    }
    exchange_.set_uri(path);
    exchange_.set_args(args);
    exchange_.set_internal();
    uri_changed_ = rewrite.then != Rewrite::Then::kBreak;
    return rewrite.then != Rewrite::Then::kGoOn;
  }

  std::string_view new_args(const Rewrite& rewrite) {
    const std::string_view own = rewrite.has_args ? own_args(rewrite) : std::string_view();
    const std::string_view old = rewrite.keep_args ? exchange_.args() : std::string_view();
    if (!rewrite.has_args) return old;
    if (old.empty()) return own;
    return arena_.concat(own, "&", old);
  }

  // As nginx: captures go into arguments escaped if the request's path was, or had a plus, so that
  // what one encoded stays one value.
  std::string_view own_args(const Rewrite& rewrite) {
    const bool escape = exchange_.request().raw_path.find_first_of("%+") != std::string_view::npos;
    return joined(rewrite.args, [this, escape](std::string_view value) {
      return escape ? http::escape_args(arena_, value) : value;
    });
  }

  std::string_view redirect_target(const Rewrite& rewrite) {
    const std::string_view path = joined(
        rewrite.path, [this](std::string_view value) { return http::escape_uri(arena_, value); });
    const std::string_view old = rewrite.keep_args ? exchange_.args() : std::string_view();
    if (!rewrite.has_args) return old.empty() ? path : arena_.concat(path, "?", old);
    const std::string_view own = own_args(rewrite);
    return old.empty() ? arena_.concat(path, "?", own) : arena_.concat(path, "?", own, "&", old);
  }

  // The program's text with each capture passed through escape.
  template <class F>
  std::string_view joined(const expr::Program& program, F&& escape) {
    ArenaVector<std::string_view> parts;
    program.for_each(exchange_, [&](std::string_view value, bool is_capture) {
      parts.push_back(arena_, is_capture ? escape(value) : value);
    });
    return arena_.concat_views({parts.begin(), parts.size()});
  }

  http::Exchange& exchange_;
  Arena& arena_;
  http::StepOutcome outcome_;
  bool uri_changed_ = false;
};

class ServerStep final : public http::Step {
 public:
  http::StepOutcome run(http::Exchange& exchange) const override {
    Interpreter interpreter(exchange);
    interpreter.run(*exchange.settings<Settings>().script);
    return interpreter.server_outcome();
  }
};

class LocationStep final : public http::Step {
 public:
  http::StepOutcome run(http::Exchange& exchange) const override {
    Interpreter interpreter(exchange);
    interpreter.run(*exchange.settings<Settings>().script);
    return interpreter.outcome();
  }
};

constexpr ServerStep kServerStep;
constexpr LocationStep kLocationStep;

template <const auto& Step>
const http::Step* make_step(const conf::SettingsView& settings, Arena&) {
  return settings.get<Settings>().script == nullptr ? nullptr : &Step;
}

constexpr http::StepFactory kFactories[] = {
    {http::Phase::kServerRewrite, make_step<kServerStep>},
    {http::Phase::kRewrite, make_step<kLocationStep>},
};

}  // namespace
}  // namespace rewrite

std::span<const http::StepFactory> rewrite_factories() { return rewrite::kFactories; }

}  // namespace corehttpd::handlers

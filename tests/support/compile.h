// Compiles a configuration's text for a test and says what was wrong with it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "corehttpd/conf/compiler.h"

namespace corehttpd::test {

struct Compiled {
  // First: settings point into the configuration, diagnostics don't.
  conf::Diagnostics diagnostics;
  std::unique_ptr<conf::Configuration> configuration;

  explicit operator bool() const { return configuration != nullptr; }
  std::string text() const { return diagnostics.format_all(); }
  // Is there a diagnostic of that severity whose message contains text?
  bool says(conf::Severity severity, std::string_view message) const {
    for (const conf::Diagnostic& one : diagnostics.all()) {
      if (one.severity == severity && one.message.find(message) != std::string::npos) return true;
    }
    return false;
  }
  bool error(std::string_view message) const { return says(conf::Severity::kError, message); }
  bool warning(std::string_view message) const { return says(conf::Severity::kWarning, message); }
  bool notice(std::string_view message) const { return says(conf::Severity::kNotice, message); }
};

inline Compiled compile(std::string_view text, std::span<const conf::Module* const> modules,
                        void (*prepare)(conf::Compiler&) = nullptr) {
  Compiled compiled;
  conf::Options options;
  options.prefix = "/nonexistent/";
  options.path = "/nonexistent/test.conf";
  compiled.configuration =
      conf::compile_text(text, options, modules, compiled.diagnostics, prepare);
  return compiled;
}

}  // namespace corehttpd::test

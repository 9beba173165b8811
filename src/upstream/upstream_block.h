// While an upstream block is being compiled: what its directives share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/upstream/peers.h"

namespace corehttpd::upstream {

struct OpenGroup {
  Group* group = nullptr;
  std::vector<Peer> peers;
  std::string_view balance;  // The directive that chose the method; empty: none has.
  bool keepalive = false;
};

bool set_upstream(const conf::Setting& s);
bool set_server(const conf::Setting& s);

// Records an error at a place; false.
bool report(conf::Compiler& compiler, const conf::Position& at, std::string message,
            std::string help = {}, std::size_t width = 1);

}  // namespace corehttpd::upstream

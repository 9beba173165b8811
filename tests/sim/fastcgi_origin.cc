#include "sim/fastcgi_origin.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace corehttpd::sim {
namespace {

// Types of records (FastCGI 1.0 §8).
constexpr int kEndRequest = 3, kParams = 4, kStdin = 5, kStdout = 6;
constexpr int kDescriptorsMax = 256;

std::string record(int type, std::string_view content, std::size_t padding) {
  std::string out{1,
                  static_cast<char>(type),
                  0,
                  1,
                  static_cast<char>(content.size() >> 8),
                  static_cast<char>(content.size() & 0xff),
                  static_cast<char>(padding),
                  0};
  return out.append(content).append(padding, 'P');
}

std::size_t take_length(std::string_view& text) {
  const auto byte = [&](std::size_t i) -> std::size_t {
    return static_cast<unsigned char>(text[i]);
  };
  std::size_t length = byte(0), used = 1;
  if (length >= 128) {
    length = (length & 127) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
    used = 4;
  }
  text.remove_prefix(used);
  return length;
}

std::string param(std::string_view params, std::string_view wanted) {
  while (!params.empty()) {
    const std::size_t name_length = take_length(params), value_length = take_length(params);
    const std::string_view name = params.substr(0, name_length);
    if (name == wanted) return std::string(params.substr(name_length, value_length));
    params.remove_prefix(name_length + value_length);
  }
  return {};
}

}  // namespace

void FastcgiOrigin::find_new() {
  for (int fd = 3; fd < kDescriptorsMax; ++fd) {
    io::SimPeer* peer = loop_.peer_of(fd);
    if (peer == nullptr || !known_.insert(peer).second) continue;
    requests_.push_back({.peer = peer});
  }
}

bool FastcgiOrigin::active() const {
  for (const Request& request : requests_) {
    if (!request.peer->arrived().empty() || !request.out.empty()) return true;
    if (request.complete && !request.finished) return true;
  }
  return false;
}

void FastcgiOrigin::act() {
  find_new();
  std::erase_if(requests_,
                [](const Request& one) { return one.peer->ended() || one.peer->was_reset(); });
  for (Request& request : requests_) {
    if (loop_.random(2) == 0) continue;
    read(request);
    if (request.out.empty()) {
      if (request.complete && !std::exchange(request.finished, true)) request.peer->finish();
      continue;
    }
    const std::size_t size =
        loop_.random(3) == 0 ? 1 + loop_.random(request.out.size()) : request.out.size();
    request.peer->push(std::string_view(request.out).substr(0, size));
    request.out.erase(0, size);
  }
}

void FastcgiOrigin::read(Request& request) {
  request.in += request.peer->take();
  while (request.in.size() >= 8) {
    const auto byte = [&](std::size_t i) -> std::size_t {
      return static_cast<unsigned char>(request.in[i]);
    };
    const std::size_t length = byte(4) << 8 | byte(5), whole = 8 + length + byte(6);
    if (request.in.size() < whole) return;
    const std::string content = request.in.substr(8, length);
    const int type = static_cast<int>(byte(1));
    if (type == kParams) request.params += content;
    if (type == kStdin) request.body += content;
    if (type == kStdin && content.empty()) answer(request);
    request.in.erase(0, whole);
  }
}

std::string FastcgiOrigin::records(std::string_view content) {
  std::string out;
  while (!content.empty()) {
    const std::size_t size = 1 + loop_.random(std::min<std::size_t>(content.size(), 9000));
    out += record(kStdout, content.substr(0, size), loop_.random(3) == 0 ? loop_.random(256) : 0);
    content.remove_prefix(size);
  }
  return out;
}

void FastcgiOrigin::answer(Request& request) {
  EXPECT_FALSE(std::exchange(request.complete, true)) << "two ends of one request";
  const std::string target = param(request.params, "REQUEST_URI");
  const std::string length = param(request.params, "CONTENT_LENGTH");
  if (!length.empty()) {
    EXPECT_EQ(length, std::to_string(request.body.size())) << target;
  }
  const std::string body = fmt::format("origin of {}: {}", target, request.body);
  std::string head = fmt::format("X-Origin: {}\r\nContent-Type: text/plain\r\n",
                                 target.substr(target.find("id=") + 3));
  if (loop_.random(2) == 0) head += fmt::format("Content-Length: {}\r\n", body.size());
  request.out = records(head + "\r\n" + body) + record(kStdout, {}, 0) +
                record(kEndRequest, std::string(8, '\0'), 0);
}

}  // namespace corehttpd::sim

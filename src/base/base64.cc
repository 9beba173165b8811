#include "corehttpd/base/base64.h"

#include <algorithm>
#include <cstdint>

namespace corehttpd {
namespace {

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int value_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

constexpr std::size_t decoded_bytes_max(std::size_t length) { return length * 3 / 4 + 1; }

// Bytes written to out, which holds decoded_bytes_max(text.size()).
std::optional<std::size_t> decode(std::string_view text, char* out) {
  while (text.ends_with('=')) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::uint32_t bits = 0;
  int count = 0;
  std::size_t length = 0;
  for (char c : text) {
    const int value = value_of(c);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out[length++] = static_cast<char>(bits >> count & 0xff);
  }
  return length;
}

}  // namespace

std::optional<std::string_view> decode_base64(Arena& arena, std::string_view text) {
  const std::span<char> out = arena.make_array<char>(decoded_bytes_max(text.size()));
  const auto length = decode(text, out.data());
  if (!length) return std::nullopt;
  return std::string_view(out.data(), *length);
}

std::optional<std::string> decode_base64(std::string_view text) {
  std::string out(decoded_bytes_max(text.size()), '\0');
  const auto length = decode(text, out.data());
  if (!length) return std::nullopt;
  out.resize(*length);
  return out;
}

std::string encode_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t j = i; j < i + 3; ++j)
      bits = bits << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0u);
    const std::size_t digits = std::min<std::size_t>(bytes.size() - i, 3) + 1;
    for (std::size_t j = 0; j < 4; ++j)
      out.push_back(j < digits ? kAlphabet[bits >> (18 - 6 * j) & 63] : '=');
  }
  return out;
}

}  // namespace corehttpd

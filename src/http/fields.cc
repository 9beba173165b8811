#include "corehttpd/http/fields.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "corehttpd/base/text.h"

namespace corehttpd::http {
namespace {

constexpr std::string_view kMethods[] = {
    "",      "GET",   "HEAD", "POST", "PUT",      "DELETE",    "CONNECT", "OPTIONS", "TRACE",
    "PATCH", "MKCOL", "COPY", "MOVE", "PROPFIND", "PROPPATCH", "LOCK",    "UNLOCK",
};
static_assert(std::size(kMethods) == static_cast<std::size_t>(Method::kUnlock) + 1);

// In the order of FieldName, in the spelling that HTTP/1.1 clients use; h2 and h3 send the same in
// lower case.
constexpr std::string_view kNames[] = {
    "",
    "Accept",
    "Accept-Encoding",
    "Accept-Ranges",
    "Age",
    "Authorization",
    "Cache-Control",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Content-Type",
    "Cookie",
    "Date",
    "ETag",
    "Expect",
    "Expires",
    "Host",
    "If-Match",
    "If-Modified-Since",
    "If-None-Match",
    "If-Range",
    "If-Unmodified-Since",
    "Keep-Alive",
    "Last-Modified",
    "Location",
    "Origin",
    "Proxy-Authorization",
    "Proxy-Connection",
    "Range",
    "Referer",
    "Server",
    "Set-Cookie",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "User-Agent",
    "Vary",
    "Via",
    "WWW-Authenticate",
    "X-Forwarded-For",
};
constexpr std::size_t kNameCount = std::size(kNames);
static_assert(kNameCount == static_cast<std::size_t>(FieldName::kXForwardedFor) + 1);

// A perfect hash over length, first and last letter: the three together tell all known names apart,
// so that one multiplication and one comparison answer for a field, whether it is known or not. The
// multiplier is searched for by the compiler.
constexpr std::size_t kSlots = 256;

constexpr std::size_t slot_of(std::string_view name, std::uint32_t multiplier) {
  const auto first = static_cast<std::uint8_t>(name.front()) | 0x20u;
  const auto last = static_cast<std::uint8_t>(name.back()) | 0x20u;
  const std::uint32_t key = first | last << 8 | static_cast<std::uint32_t>(name.size()) << 16;
  return (key * multiplier) >> 24;
}

consteval std::uint32_t find_multiplier() {
  for (std::uint32_t multiplier = 0x9E3779B1;; multiplier += 0x2545F492) {
    std::array<bool, kSlots> taken{};
    bool collision = false;
    for (std::size_t i = 1; i < kNameCount && !collision; ++i) {
      bool& slot = taken[slot_of(kNames[i], multiplier)];
      collision = slot;
      slot = true;
    }
    if (!collision) return multiplier;
  }
}
constexpr std::uint32_t kMultiplier = find_multiplier();

struct Tables {
  std::array<std::uint8_t, kSlots> slots{};
  // Lower-case copies, so that names of h2 and h3 take the same short path as those of h1.
  char lower[kNameCount][20] = {};
};
constexpr Tables kTables = [] {
  Tables tables;
  for (std::size_t i = 1; i < kNameCount; ++i) {
    tables.slots[slot_of(kNames[i], kMultiplier)] = static_cast<std::uint8_t>(i);
    for (std::size_t j = 0; j < kNames[i].size(); ++j)
      tables.lower[i][j] = text::lower(kNames[i][j]);
  }
  return tables;
}();

constexpr std::array<bool, 256> kTokenBytes = [] {
  std::array<bool, 256> table{};
  for (int c = 'a'; c <= 'z'; ++c) table[c] = true;
  for (int c = 'A'; c <= 'Z'; ++c) table[c] = true;
  for (int c = '0'; c <= '9'; ++c) table[c] = true;
  for (char c : std::string_view("!#$%&'*+-.^_`|~")) table[static_cast<std::uint8_t>(c)] = true;
  return table;
}();

}  // namespace

bool is_method_name(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'A' && c <= 'Z') || c == '-' || c == '_'; });
}

Method parse_method(std::string_view text) {
  // GET, HEAD and POST are nearly all there is; the loop over the rest need not be fast.
  if (text == "GET") return Method::kGet;
  if (text == "HEAD") return Method::kHead;
  if (text == "POST") return Method::kPost;
  for (std::size_t i = static_cast<std::size_t>(Method::kPut); i < std::size(kMethods); ++i) {
    if (text == kMethods[i]) return static_cast<Method>(i);
  }
  return Method::kUnknown;
}

std::string_view to_string(Method method) { return kMethods[static_cast<std::size_t>(method)]; }

FieldName parse_field_name(std::string_view text) {
  if (text.empty() || text.size() > sizeof(kTables.lower[0])) return FieldName::kOther;
  const std::size_t i = kTables.slots[slot_of(text, kMultiplier)];
  const std::string_view name = kNames[i];
  if (text.size() != name.size()) return FieldName::kOther;
  if (std::memcmp(text.data(), name.data(), text.size()) != 0 &&
      std::memcmp(text.data(), kTables.lower[i], text.size()) != 0 &&
      !text::equals_ignore_case(text, name)) {
    return FieldName::kOther;
  }
  return static_cast<FieldName>(i);
}

const Field* FieldList::find(std::string_view name) const {
  const FieldName id = parse_field_name(name);
  if (id != FieldName::kOther) return find(id);
  for (const Field& field : fields_) {
    if (field.id == FieldName::kOther && text::equals_ignore_case(field.name, name)) return &field;
  }
  return nullptr;
}

void FieldList::remove(FieldName id) {
  for (std::size_t i = 0; i < fields_.size();) {
    if (fields_[i].id == id)
      fields_.erase(i);
    else
      ++i;
  }
}

void FieldList::remove(std::string_view name) {
  const FieldName id = parse_field_name(name);
  if (id != FieldName::kOther) return remove(id);
  for (std::size_t i = 0; i < fields_.size();) {
    if (fields_[i].id == FieldName::kOther && text::equals_ignore_case(fields_[i].name, name))
      fields_.erase(i);
    else
      ++i;
  }
}

std::string_view FieldList::joined(Arena& arena, FieldName id, std::string_view separator) const {
  const Field* first = find(id);
  if (first == nullptr) return {};
  std::size_t length = 0;
  std::size_t count = 0;
  for (const Field& field : fields_) {
    if (field.id == id) {
      length += field.value.size();
      ++count;
    }
  }
  if (count == 1) return first->value;
  length += separator.size() * (count - 1);
  char* to = static_cast<char*>(arena.allocate(length + 1, 1));
  char* at = to;
  for (const Field& field : fields_) {
    if (field.id != id) continue;
    if (at != to)
      at = static_cast<char*>(std::memcpy(at, separator.data(), separator.size())) +
           separator.size();
    if (!field.value.empty()) std::memcpy(at, field.value.data(), field.value.size());
    at += field.value.size();
  }
  *at = '\0';
  return {to, length};
}

bool is_token(std::string_view text) {
  for (char c : text) {
    if (!kTokenBytes[static_cast<std::uint8_t>(c)]) return false;
  }
  return !text.empty();
}

bool is_field_value(std::string_view text) {
  for (char c : text) {
    if (c == '\r' || c == '\n' || c == '\0') return false;
  }
  return true;
}

}  // namespace corehttpd::http

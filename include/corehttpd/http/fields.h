// Methods, field names and field lists (RFC 9110 §5, §9), neutral of the protocol that carried
// them.
#pragma once

#include <cstdint>
#include <string_view>

#include "corehttpd/base/arena.h"

namespace corehttpd::http {

enum class Method : std::uint8_t {
  kUnknown,
  kGet,
  kHead,
  kPost,
  kPut,
  kDelete,
  kConnect,
  kOptions,
  kTrace,
  kPatch,
  kMkcol,
  kCopy,
  kMove,
  kPropfind,
  kProppatch,
  kLock,
  kUnlock,
};
Method parse_method(std::string_view text);  // Case-sensitive; kUnknown for an extension method.
std::string_view to_string(Method method);
// Whether a method may be called so. Every registered one is in upper case, and "get" is a
// scanner's: nginx answers it with 400, which fail2ban's filters count.
bool is_method_name(std::string_view text);

// Names that the server itself looks at. Others are kOther and compared by text.
enum class FieldName : std::uint8_t {
  kOther,
  kAccept,
  kAcceptEncoding,
  kAcceptRanges,
  kAge,
  kAuthorization,
  kCacheControl,
  kConnection,
  kContentEncoding,
  kContentLength,
  kContentRange,
  kContentType,
  kCookie,
  kDate,
  kEtag,
  kExpect,
  kExpires,
  kHost,
  kIfMatch,
  kIfModifiedSince,
  kIfNoneMatch,
  kIfRange,
  kIfUnmodifiedSince,
  kKeepAlive,
  kLastModified,
  kLocation,
  kOrigin,
  kProxyAuthorization,
  kProxyConnection,
  kRange,
  kReferer,
  kServer,
  kSetCookie,
  kTe,
  kTrailer,
  kTransferEncoding,
  kUpgrade,
  kUserAgent,
  kVary,
  kVia,
  kWwwAuthenticate,
  kXForwardedFor,
};
// Case-insensitive.
FieldName parse_field_name(std::string_view text);

struct Field {
  std::string_view
      name;  // As received or as to be sent ("Content-Type"); h2 and h3 lower it on their way out.
  std::string_view value;  // Trimmed, no CR, LF or NUL.
  FieldName id = FieldName::kOther;
};

class FieldList {
 public:
  void add(Arena& arena, FieldName id, std::string_view name, std::string_view value) {
    fields_.push_back(arena, {name, value, id});
  }
  void add(Arena& arena, std::string_view name, std::string_view value) {
    add(arena, parse_field_name(name), name, value);
  }
  // The first with that name; nullptr if there is none.
  const Field* find(FieldName id) const {
    for (const Field& field : fields_)
      if (field.id == id) return &field;
    return nullptr;
  }
  const Field* find(std::string_view name) const;
  std::string_view value(FieldName id) const {
    const Field* f = find(id);
    return f == nullptr ? std::string_view() : f->value;
  }
  // Removes all with that name.
  void remove(FieldName id);
  void remove(std::string_view name);
  // Replaces all with that name by one.
  void set(Arena& arena, std::string_view name, std::string_view value) {
    remove(name);
    add(arena, name, value);
  }
  // All values with that name joined by separator (", "; "; " for Cookie), in the arena when there
  // is more than one.
  std::string_view joined(Arena& arena, FieldName id, std::string_view separator) const;
  std::size_t size() const { return fields_.size(); }
  bool empty() const { return fields_.empty(); }
  void clear() { fields_.clear(); }
  Field* begin() { return fields_.begin(); }
  Field* end() { return fields_.end(); }
  const Field* begin() const { return fields_.begin(); }
  const Field* end() const { return fields_.end(); }

 private:
  ArenaVector<Field> fields_;
};

// tchar (RFC 9110 §5.6.2) and field-vchar rules, for parsers and for what modules put into
// responses.
bool is_token(std::string_view text);
bool is_field_value(std::string_view text);  // No CR, LF, NUL.

}  // namespace corehttpd::http

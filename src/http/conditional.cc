#include "corehttpd/http/conditional.h"

#include "corehttpd/base/clock.h"
#include "corehttpd/base/text.h"

namespace corehttpd::http {
namespace {

bool is_weak(std::string_view tag) { return tag.starts_with("W/"); }
std::string_view opaque(std::string_view tag) { return is_weak(tag) ? tag.substr(2) : tag; }

// A field may come in several lines, which together are one list.
bool any_line_matches(const FieldList& fields, FieldName id, std::string_view tag, bool weak) {
  for (const Field& field : fields) {
    if (field.id == id && etag_list_matches(field.value, tag, weak)) return true;
  }
  return false;
}

bool modified_since(std::string_view value, std::int64_t last_modified,
                    CoreSettings::IfModifiedSince mode) {
  if (mode == CoreSettings::IfModifiedSince::kOff || last_modified < 0) return true;
  const std::int64_t since = parse_http_date(value);
  if (since < 0) return true;
  return mode == CoreSettings::IfModifiedSince::kExact ? last_modified != since
                                                       : last_modified > since;
}

}  // namespace

bool etag_list_matches(std::string_view list, std::string_view tag, bool weak) {
  if (text::trim(list) == "*") return true;
  if (tag.empty()) return false;
  std::string_view element;
  while (text::next_list_element(list, element)) {
    if (weak ? opaque(element) == opaque(tag) : element == tag && !is_weak(tag)) return true;
  }
  return false;
}

Precondition evaluate_preconditions(const RequestHead& request, const Validators& validators,
                                    CoreSettings::IfModifiedSince mode) {
  const FieldList& fields = request.fields;
  if (fields.find(FieldName::kIfMatch) != nullptr) {
    if (!any_line_matches(fields, FieldName::kIfMatch, validators.etag, false))
      return Precondition::kFailed;
  } else if (const Field* field = fields.find(FieldName::kIfUnmodifiedSince);
             field != nullptr && validators.last_modified >= 0) {
    const std::int64_t since = parse_http_date(field->value);
    if (since >= 0 && validators.last_modified > since) return Precondition::kFailed;
  }
  const bool reading = request.method == Method::kGet || request.method == Method::kHead;
  if (fields.find(FieldName::kIfNoneMatch) != nullptr) {
    if (!any_line_matches(fields, FieldName::kIfNoneMatch, validators.etag, true))
      return Precondition::kProceed;
    return reading ? Precondition::kNotModified : Precondition::kFailed;
  }
  if (const Field* field = fields.find(FieldName::kIfModifiedSince); field != nullptr && reading) {
    if (!modified_since(field->value, validators.last_modified, mode))
      return Precondition::kNotModified;
  }
  return Precondition::kProceed;
}

bool if_range_matches(const RequestHead& request, const Validators& validators) {
  const Field* field = request.fields.find(FieldName::kIfRange);
  if (field == nullptr) return true;
  const std::string_view value = text::trim(field->value);
  if (value.ends_with('"')) return value == validators.etag && !is_weak(value);
  const std::int64_t date = parse_http_date(value);
  return date >= 0 && date == validators.last_modified;
}

}  // namespace corehttpd::http

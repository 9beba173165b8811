// Preconditions of a request (RFC 9110 §13), judged by the validators of the response it would get.
#pragma once

#include <cstdint>
#include <string_view>

#include "corehttpd/http/core_settings.h"
#include "corehttpd/http/message.h"

namespace corehttpd::http {

enum class Precondition : std::uint8_t {
  kProceed,
  kNotModified,  // 304, with the validators and without a body.
  kFailed,       // 412.
};

struct Validators {
  std::string_view etag;            // With quotes, perhaps W/; empty: none.
  std::int64_t last_modified = -1;  // Unix seconds; -1: none.
};

// In the order of §13.2.2: If-Match, or else If-Unmodified-Since; then If-None-Match, or else
// If-Modified-Since (GET and HEAD only, compared as if_modified_since says). For responses that
// would be 200; a field that can't be read counts as absent. If-Range is not among these.
Precondition evaluate_preconditions(const RequestHead& request, const Validators& validators,
                                    CoreSettings::IfModifiedSince mode);

// True if Range may be applied: no If-Range, or one that matches strongly (an entity tag) or
// exactly (a date).
bool if_range_matches(const RequestHead& request, const Validators& validators);

// An element of a field's list of entity tags equals tag, or the list is "*". weak: W/ is ignored
// on both sides (§8.8.3.2).
bool etag_list_matches(std::string_view list, std::string_view tag, bool weak);

// Exchange::state<ConditionJudge>(). origin: the response is one of an origin, which knew the
// conditions and has answered as it thinks right; what it has done is not undone by saying that
// nothing was (412), and nginx takes no 200 of an origin for a 304 either unless it is cached.
struct ConditionJudge {
  bool origin = false;
};

}  // namespace corehttpd::http

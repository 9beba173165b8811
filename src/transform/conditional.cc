// Conditional requests: nginx's not_modified filter.
#include "corehttpd/http/conditional.h"

#include "corehttpd/http/exchange.h"
#include "corehttpd/transform/transforms.h"
#include "transform/gzip_variant.h"

namespace corehttpd::transform {
namespace {

using http::Exchange;
using http::Precondition;

class Conditional final : public http::Transform {
 public:
  http::BodySource* apply(Exchange& exchange, http::BodySource* body) const override {
    http::ResponseHead& head = exchange.response();
    // The validators of a part of a page say nothing about the page.
    if (head.status != 200 || exchange.is_subrequest() || exchange.refused()) return body;
    const auto* judge = exchange.find_state<http::ConditionJudge>();
    if (judge != nullptr && judge->origin) return body;
    const http::Validators validators{head.etag, head.last_modified};
    const auto mode = exchange.settings<http::CoreSettings>().if_modified_since;
    switch (http::evaluate_preconditions(exchange.request(), validators, mode)) {
      case Precondition::kProceed:
        return body;
      case Precondition::kFailed:
        exchange.refuse(412);
        return body;
      case Precondition::kNotModified:
        break;
    }
    if (body != nullptr) body->cancel();
    // ETag, Last-Modified, Vary, Cache-Control… stay: they are what the client's copy is updated
    // by.
    describe_variant(exchange);
    head.status = 304;
    head.reason = {};
    // Nothing is left to describe.
    head.content_type = {};
    head.charset = {};
    head.content_length.reset();
    head.accept_ranges = false;
    head.fields.remove(http::FieldName::kContentEncoding);
    head.fields.remove(http::FieldName::kContentRange);
    return nullptr;
  }
};

constexpr Conditional kConditional;

}  // namespace

const http::Transform& conditional() { return kConditional; }

}  // namespace corehttpd::transform

#include "corehttpd/http/subrequest.h"

#include <utility>

#include "corehttpd/base/check.h"

namespace corehttpd::http {
namespace {

bool is_inherited(FieldName id, SubrequestOptions::Body body) {
  switch (id) {
    case FieldName::kContentLength:
    case FieldName::kTransferEncoding:
    case FieldName::kTrailer:
    case FieldName::kExpect:
    case FieldName::kRange:
    case FieldName::kIfRange:
    case FieldName::kIfMatch:
    case FieldName::kIfNoneMatch:
    case FieldName::kIfModifiedSince:
    case FieldName::kIfUnmodifiedSince:
      return false;
    case FieldName::kAcceptEncoding:
      return body == SubrequestOptions::Body::kDiscard;
    default:
      return true;
  }
}

int depth_of(const Exchange& exchange) {
  int depth = 0;
  for (const Exchange* e = exchange.parent(); e != nullptr; e = e->parent()) ++depth;
  return depth;
}

}  // namespace

Result<Subrequest*> Subrequest::start(Exchange& parent, std::string_view uri, std::string_view args,
                                      const SubrequestOptions& options,
                                      SubrequestListener& listener) {
  if (depth_of(parent) >= Exchange::kSubrequestDepthMax) {
    parent.log(LogLevel::kError, 0, "subrequests cycle while processing \"{}\"", uri);
    return fail(Code::kTooLarge, "starting a subrequest", 500);
  }
  auto* child = new Subrequest(parent, options, listener);
  Exchange& exchange = child->exchange_;
  exchange.set_args(exchange.arena().copy(args));
  if (uri.starts_with('@')) {
    exchange.set_uri(exchange.arena().copy(parent.uri()));
    exchange.redirect_named(exchange.arena().copy(uri));
  } else {
    exchange.set_uri(exchange.arena().copy(uri));
  }
  parent.on_abort(child->parent_hook_);
  exchange.start_internal(parent.site());
  return child;
}

Subrequest::Subrequest(Exchange& parent, const SubrequestOptions& options,
                       SubrequestListener& listener)
    : turn_(parent.services().turn),
      listener_(&listener),
      options_(options),
      task_([](TurnTask& task) { static_cast<Task&>(task).owner.run(); }, *this),
      destroy_([](TurnTask& task) { delete &static_cast<Task&>(task).owner; }, *this),
      parent_hook_(
          [](AbortHook& hook, const Error&) { static_cast<ParentHook&>(hook).owner.withdraw(); },
          *this),
      exchange_(parent.services(), *this, parent.connection(), &parent) {
  copy_head(parent);
}

// Names and values stay where the parent has them: its arena outlives ours.
void Subrequest::copy_head(const Exchange& parent) {
  RequestHead& request = exchange_.request();
  request = parent.request();
  request.fields = FieldList();
  for (const Field& field : parent.request().fields) {
    if (is_inherited(field.id, options_.body))
      request.fields.add(exchange_.arena(), field.id, field.name, field.value);
  }
  request.body_expected = false;
  request.expects_continue = false;
  request.content_length.reset();
  exchange_.set_method(options_.method);
}

void Subrequest::send_head(const ResponseHead&, BodySource* body) {
  source_ = body;
  head_pending_ = true;
  turn_.post(task_);
}

void Subrequest::body_ready() {
  ready_pending_ = true;
  turn_.post(task_);
}

void Subrequest::reset(const Error& error) {
  failed_ = true;
  failure_ = error;
  turn_.post(task_);
}

void Subrequest::run() {
  if (listener_ == nullptr) return;
  if (failed_) return finish(&failure_);
  if (std::exchange(head_pending_, false)) {
    listener_->on_head(*this);
    if (listener_ == nullptr) return;  // It withdrew.
    if (failed_) return finish(&failure_);
    if (source_ == nullptr || options_.body == SubrequestOptions::Body::kDiscard)
      return finish(nullptr);
  }
  if (ended_) return finish(nullptr);
  if (std::exchange(ready_pending_, false)) listener_->on_body_ready(*this);
}

Result<ReadOutcome> Subrequest::read(std::span<Segment> out, std::size_t bytes_max) {
  CORE_CHECK(source_ != nullptr);
  auto outcome = source_->read(out, bytes_max, Forms::kMemory);
  if (!outcome) {
    source_ = nullptr;
    reset(outcome.error());
    return outcome;
  }
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < outcome->segments; ++i) bytes += out[i].length();
  exchange_.add_sent(0, bytes);
  if (outcome->next == Next::kEnd) {
    source_ = nullptr;
    ended_ = true;
    turn_.post(task_);
  }
  return outcome;
}

// The response is over for the child first (its log line, its hooks), then for the listener, which
// may still look at it.
void Subrequest::finish(const Error* error) {
  if (BodySource* source = std::exchange(source_, nullptr)) {
    if (error == nullptr) source->cancel();  // Otherwise the exchange does it.
  }
  if (error != nullptr) {
    exchange_.on_transport_lost(*error);
  } else {
    exchange_.on_sent();
  }
  // What comes next decides anew whether a client that has shut its side is waited for.
  exchange_.main().set_ends_with_client(false);
  SubrequestListener* listener = std::exchange(listener_, nullptr);
  dispose();
  if (listener != nullptr) listener->on_done(*this, error);
}

void Subrequest::withdraw() {
  if (std::exchange(listener_, nullptr) == nullptr) return;
  source_ = nullptr;
  exchange_.on_transport_lost(Error{Code::kCancelled, Party::kSelf, 0, "subrequest withdrawn"});
  dispose();
}

void Subrequest::dispose() {
  task_.unlink();
  parent_hook_.unlink();
  turn_.post_destroy(destroy_);
}

}  // namespace corehttpd::http

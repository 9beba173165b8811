#include "corehttpd/http/request_body.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "unit/http/fake_worker.h"

namespace corehttpd::http {
namespace {

using testing::FakeRequest;
using testing::FakeWorker;

struct NoteWaiter final : RequestBody::Waiter {
  void on_body(std::uint16_t body_status) override {
    ++calls;
    status = body_status;
  }
  int calls = 0;
  std::uint16_t status = 999;
};

struct NoteSink final : BodySink {
  void on_data(std::span<const std::byte> bytes, bool is_last) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    last |= is_last;
  }
  void on_error(const Error& failure) override { error = failure; }
  std::string text;
  bool last = false;
  Error error{Code::kOk};
};

// Letters that repeat with a period that divides no block.
std::string pattern(std::size_t length) {
  std::string text(length, ' ');
  for (std::size_t i = 0; i < length; ++i) text[i] = static_cast<char>('a' + i % 23);
  return text;
}

class RequestBodyTest : public ::testing::Test {
 protected:
  RequestBodyTest() {
    char name[] = "/tmp/body-test-XXXXXX";
    directory_ = ::mkdtemp(name);
    worker.services.body_temp_path = directory_;
    request.emplace(worker, "/", Method::kPost);
    request->exchange.request().body_expected = true;
  }
  ~RequestBodyTest() override {
    request.reset();
    ::rmdir(directory_.c_str());
  }
  RequestBody& body() { return request->exchange.body(); }
  std::string read_all(Forms forms, bool* had_file = nullptr) {
    BodySource* source = body().reader(request->exchange.arena());
    std::string text;
    for (;;) {
      Segment out[2];
      const auto outcome = source->read(out, 10'000, forms);
      EXPECT_TRUE(outcome);
      if (!outcome) return text;
      for (std::uint32_t i = 0; i < outcome->segments; ++i) {
        if (out[i].in_memory()) {
          text.append(out[i].view());
          continue;
        }
        if (had_file != nullptr) *had_file = true;
        std::string part(out[i].length(), ' ');
        EXPECT_EQ(::pread(out[i].fd(), part.data(), part.size(),
                          static_cast<off_t>(out[i].file_offset())),
                  static_cast<ssize_t>(part.size()));
        text.append(part);
      }
      if (outcome->next == Next::kEnd) return text;
    }
  }

  std::string directory_;
  FakeWorker worker;
  std::optional<FakeRequest> request;
  NoteWaiter waiter;
};

TEST_F(RequestBodyTest, WithoutABodyIsCompleteAtOnce) {
  request->exchange.request().body_expected = false;
  body().buffer(waiter);
  EXPECT_EQ(waiter.calls, 1);
  EXPECT_EQ(waiter.status, 0);
  EXPECT_EQ(request->transport.granted, 0u);
  EXPECT_EQ(read_all(Forms::kMemory), "");
}

TEST_F(RequestBodyTest, StaysInMemoryAndCanBeReadTwice) {
  request->exchange.request().content_length = 11;
  body().buffer(waiter);
  EXPECT_EQ(request->transport.granted, 11u);
  request->push("hello", false);
  EXPECT_EQ(waiter.calls, 0);
  request->push(" world", true);
  EXPECT_EQ(waiter.calls, 1);
  EXPECT_EQ(waiter.status, 0);
  EXPECT_EQ(body().size(), 11u);
  EXPECT_EQ(read_all(Forms::kFiles), "hello world");
  EXPECT_EQ(read_all(Forms::kMemory), "hello world");
  EXPECT_EQ(body().text(request->exchange.arena()), "hello world");
  NoteWaiter second;
  body().buffer(second);
  EXPECT_EQ(second.calls, 1);
}

TEST_F(RequestBodyTest, SpansBlocks) {
  worker.core.client_body_buffer_size = 100'000;
  const std::string text = pattern(50'001);
  body().buffer(waiter);
  for (std::size_t at = 0; at < text.size(); at += 7'000)
    request->push(std::string_view(text).substr(at, 7'000), at + 7'000 >= text.size());
  EXPECT_EQ(waiter.status, 0);
  EXPECT_EQ(worker.blocks.in_use(), 4u);
  EXPECT_EQ(read_all(Forms::kMemory), text);
  EXPECT_EQ(body().text(request->exchange.arena()), text);
}

TEST_F(RequestBodyTest, GoesToAFileBeyondTheBuffer) {
  worker.core.client_body_buffer_size = 1000;
  const std::string text = pattern(40'000);
  body().buffer(waiter);
  request->push(std::string_view(text).substr(0, 900), false);
  EXPECT_EQ(worker.blocks.in_use(), 1u);
  request->push(std::string_view(text).substr(900, 30'000), false);
  EXPECT_EQ(worker.blocks.in_use(), 0u);
  request->push(std::string_view(text).substr(30'900), true);
  EXPECT_EQ(waiter.status, 0);
  bool had_file = false;
  EXPECT_EQ(read_all(Forms::kFiles, &had_file), text);
  EXPECT_TRUE(had_file);
  EXPECT_EQ(read_all(Forms::kMemory), text);
  EXPECT_EQ(body().text(request->exchange.arena()), "");
  EXPECT_EQ(body().file_name(), "");
}

TEST_F(RequestBodyTest, GoesToAFileWhenBlocksAreSpent) {
  FakeWorker poor(0);
  poor.services.body_temp_path = directory_;
  request.emplace(poor, "/", Method::kPost);
  request->exchange.request().body_expected = true;
  body().buffer(waiter);
  request->push("abc", true);
  EXPECT_EQ(waiter.status, 0);
  EXPECT_EQ(read_all(Forms::kFiles), "abc");
  request.reset();
}

TEST_F(RequestBodyTest, SingleBufferKeepsOnePiece) {
  worker.core.client_body_buffer_size = 100'000;
  worker.core.client_body_in_single_buffer = true;
  const std::string text = pattern(60'000);
  request->exchange.request().content_length = text.size();
  body().buffer(waiter);
  request->push(std::string_view(text).substr(0, 100), false);
  request->push(std::string_view(text).substr(100), true);
  BodySource* source = body().reader(request->exchange.arena());
  Segment segment;
  const auto outcome = source->read({&segment, 1}, SIZE_MAX, Forms::kMemory);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->next, Next::kEnd);
  EXPECT_EQ(segment.view(), text);
}

TEST_F(RequestBodyTest, InFileOnlyHasANameAndCleanRemovesIt) {
  worker.core.client_body_in_file_only = CoreSettings::BodyInFile::kClean;
  body().buffer(waiter);
  request->push("abc", true);
  const std::string name(body().file_name());
  EXPECT_TRUE(name.starts_with(directory_ + "/"));
  struct stat status;
  ASSERT_EQ(::stat(name.c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 3);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
  request.reset();
  EXPECT_NE(::stat(name.c_str(), &status), 0);
}

TEST_F(RequestBodyTest, InFileOnlyOnKeepsTheFile) {
  worker.core.client_body_in_file_only = CoreSettings::BodyInFile::kOn;
  body().buffer(waiter);
  request->push("abc", true);
  const std::string name(body().file_name());
  request.reset();
  EXPECT_EQ(::unlink(name.c_str()), 0);
}

TEST_F(RequestBodyTest, AMissingDirectoryIsOurOwnFault) {
  worker.core.client_body_temp_path = "/nonexistent/body";
  worker.core.client_body_buffer_size = 2;
  body().buffer(waiter);
  request->push("abc", false);
  EXPECT_EQ(waiter.calls, 1);
  EXPECT_EQ(waiter.status, 500);
  EXPECT_EQ(body().state(), RequestBody::State::kFailed);
  request->push("more", true);
  EXPECT_EQ(waiter.calls, 1);
}

TEST_F(RequestBodyTest, WithoutADefaultDirectoryMemoryHasToDo) {
  worker.services.body_temp_path = "/nonexistent/body";
  worker.core.client_body_buffer_size = 2;
  body().buffer(waiter);
  const std::string text = pattern(40'000);
  request->push(std::string_view(text).substr(0, 30'000), false);
  request->push(std::string_view(text).substr(30'000), true);
  EXPECT_EQ(waiter.status, 0);
  EXPECT_EQ(read_all(Forms::kFiles), text);
}

TEST_F(RequestBodyTest, AFullDiskIs500) {
  // The limit on file sizes stands in for a full disk.
  worker.core.client_body_buffer_size = 2;
  body().buffer(waiter);
  struct rlimit before;
  ::getrlimit(RLIMIT_FSIZE, &before);
  const struct rlimit small { 4, before.rlim_max };
  ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  request->push("abcdefgh", true);
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(waiter.status, 500);
}

TEST_F(RequestBodyTest, ChunkedOverTheLimitIs413) {
  worker.core.client_max_body_size = 10;
  body().buffer(waiter);
  request->push("0123456789", false);
  EXPECT_EQ(waiter.calls, 0);
  request->push("x", true);
  EXPECT_EQ(waiter.status, 413);
}

TEST_F(RequestBodyTest, NoLimitWhenZero) {
  worker.core.client_max_body_size = 0;
  body().buffer(waiter);
  request->push(pattern(2'000'000), true);
  EXPECT_EQ(waiter.status, 0);
  EXPECT_EQ(body().size(), 2'000'000u);
}

TEST_F(RequestBodyTest, CreditIsAWindow) {
  worker.core.client_max_body_size = 0;
  body().buffer(waiter);
  EXPECT_EQ(request->transport.granted, RequestBody::kWindowBytes);
  const std::string piece = pattern(RequestBody::kWindowBytes / 4);
  request->push(piece, false);
  EXPECT_EQ(request->transport.granted, RequestBody::kWindowBytes);
  request->push(piece, false);
  EXPECT_EQ(request->transport.granted, RequestBody::kWindowBytes * 3 / 2);
  body().withdraw();
  request->push(piece, false);
  request->push(piece, false);
  EXPECT_EQ(request->transport.granted, RequestBody::kWindowBytes * 3 / 2);
  body().buffer(waiter);
  EXPECT_EQ(request->transport.granted, RequestBody::kWindowBytes * 2);
  request->push("", true);
  EXPECT_EQ(waiter.calls, 1);
  EXPECT_EQ(body().size(), RequestBody::kWindowBytes);
}

TEST_F(RequestBodyTest, CreditEndsWithTheAnnouncedLength) {
  worker.core.client_max_body_size = 0;
  request->exchange.request().content_length = RequestBody::kWindowBytes + 10;
  body().buffer(waiter);
  request->push(pattern(RequestBody::kWindowBytes), false);
  EXPECT_EQ(request->transport.granted, RequestBody::kWindowBytes + 10);
  request->push("0123456789", true);
  EXPECT_EQ(request->transport.granted, RequestBody::kWindowBytes + 10);
  EXPECT_EQ(waiter.status, 0);
}

TEST_F(RequestBodyTest, ErrorsOfTheTransportBecomeStatuses) {
  struct Case {
    Error error;
    std::uint16_t status;
  };
  const Case cases[] = {
      {Error{Code::kMalformed, Party::kClient, 400, "chunk"}, 400},
      {Error{Code::kTimeout, Party::kClient, 0, "body"}, 408},
      {Error{Code::kTooLarge, Party::kClient, 0, "chunk"}, 413},
      {Error{Code::kReset, Party::kClient, 0, "gone"}, 400},
      {Error{Code::kMalformed, Party::kClient, 431, "trailer"}, 431},
  };
  for (const Case& c : cases) {
    FakeRequest one(worker, "/", Method::kPost);
    one.exchange.request().body_expected = true;
    NoteWaiter note;
    one.exchange.body().buffer(note);
    one.push("a", false);
    one.exchange.body().on_error(c.error);
    EXPECT_EQ(note.status, c.status);
    NoteWaiter later;
    one.exchange.body().buffer(later);
    EXPECT_EQ(later.status, c.status);
  }
}

TEST_F(RequestBodyTest, AnErrorPageDoesWithoutABrokenBody) {
  worker.core.client_max_body_size = 1;
  body().buffer(waiter);
  request->push("abc", true);
  EXPECT_EQ(waiter.status, 413);
  request->exchange.set_error_status(413);
  NoteWaiter page;
  body().buffer(page);
  EXPECT_EQ(page.status, 0);
  EXPECT_EQ(body().size(), 0u);
  EXPECT_EQ(read_all(Forms::kMemory), "");
}

TEST_F(RequestBodyTest, StreamsWhatIsBufferedThenTheRest) {
  body().buffer(waiter);
  request->push("abc", false);
  NoteSink sink;
  body().stream(sink);
  EXPECT_EQ(sink.text, "abc");
  EXPECT_FALSE(sink.last);
  EXPECT_EQ(body().state(), RequestBody::State::kStreaming);
  request->push("def", true);
  EXPECT_EQ(sink.text, "abcdef");
  EXPECT_TRUE(sink.last);
  EXPECT_EQ(body().state(), RequestBody::State::kComplete);
  EXPECT_EQ(waiter.calls, 0);
  body().buffer(waiter);  // It was not kept.
  EXPECT_EQ(waiter.status, 500);
}

TEST_F(RequestBodyTest, StreamsACompleteBody) {
  worker.core.client_body_buffer_size = 2;
  body().buffer(waiter);
  const std::string text = pattern(40'000);
  request->push(text, true);
  NoteSink sink;
  body().stream(sink);
  EXPECT_EQ(sink.text, text);
  EXPECT_TRUE(sink.last);
}

TEST_F(RequestBodyTest, StreamingKeepsTheLimitAndPassesErrorsOn) {
  worker.core.client_max_body_size = 4;
  NoteSink sink;
  body().stream(sink);
  request->push("abc", false);
  request->push("de", false);
  EXPECT_EQ(sink.text, "abc");
  EXPECT_EQ(sink.error.detail, 413);
  EXPECT_FALSE(sink.last);
}

TEST_F(RequestBodyTest, DiscardFreesAndIgnores) {
  body().buffer(waiter);
  request->push("abc", false);
  body().discard();
  EXPECT_EQ(worker.blocks.in_use(), 0u);
  request->push("def", true);
  EXPECT_EQ(waiter.calls, 0);
  EXPECT_EQ(body().state(), RequestBody::State::kDiscarded);
}

}  // namespace
}  // namespace corehttpd::http

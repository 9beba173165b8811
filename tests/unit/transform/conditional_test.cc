#include <gtest/gtest.h>

#include <string>

#include "unit/transform/transform_site.h"

namespace corehttpd::transform {
namespace {

using test::FileSite;
using test::TestRequest;

class ConditionalTest : public ::testing::Test {
 protected:
  ConditionalTest()
      : site(make_site("add_header Vary Accept-Encoding; add_header X-Other y; expires 1h;"
                       "charset utf-8; location /before/ { if_modified_since before; }")) {
    write("f.txt");
    write("before/f.txt");
  }
  void write(const char* name) {
    const std::string path = site.directory.write(name, "0123456789");
    // Sun, 06 Nov 1994 08:49:37 GMT; etag "2ebc98a1-a".
    const timespec times[2] = {{784111777, 0}, {784111777, 0}};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  int status(TestRequest::Fields fields, std::string_view target = "/f.txt") {
    TestRequest request(site.services(), "GET", target, fields);
    request.run();
    return request.transport.status;
  }
  FileSite site;
};

TEST_F(ConditionalTest, NotModifiedKeepsWhatUpdatesTheCopy) {
  TestRequest request(site.services(), "GET", "/f.txt", {{"If-None-Match", "\"2ebc98a1-a\""}});
  request.run();
  EXPECT_EQ(request.transport.status, 304);
  EXPECT_FALSE(request.transport.has_source);
  EXPECT_FALSE(request.transport.content_length);
  EXPECT_EQ(request.transport.content_type, "");
  EXPECT_EQ(request.transport.etag, "\"2ebc98a1-a\"");
  EXPECT_EQ(request.transport.last_modified, 784111777);
  EXPECT_EQ(request.transport.field("Vary"), "Accept-Encoding");
  EXPECT_EQ(request.transport.field("Cache-Control"), "max-age=3600");
  EXPECT_NE(request.transport.field("Expires"), "");
  EXPECT_EQ(request.transport.field("Accept-Ranges"), "");
}

TEST_F(ConditionalTest, Statuses) {
  EXPECT_EQ(status({{"If-None-Match", "\"other\""}}), 200);
  EXPECT_EQ(status({{"If-None-Match", "*"}}), 304);
  EXPECT_EQ(status({{"If-None-Match", "\"x\", W/\"2ebc98a1-a\""}}), 304);
  EXPECT_EQ(status({{"If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"}}), 304);
  EXPECT_EQ(status({{"If-Modified-Since", "Sun, 06 Nov 1994 08:49:38 GMT"}}), 200);  // exact
  EXPECT_EQ(status({{"If-Modified-Since", "Sun, 06 Nov 1994 08:49:38 GMT"}}, "/before/f.txt"), 304);
  EXPECT_EQ(status({{"If-Match", "\"2ebc98a1-a\""}}), 200);
  EXPECT_EQ(status({{"If-Match", "\"other\""}}), 412);
  EXPECT_EQ(status({{"If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:36 GMT"}}), 412);
  EXPECT_EQ(status({{"If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"}}), 200);
}

TEST_F(ConditionalTest, FailedPreconditionIsAnErrorWithoutValidators) {
  TestRequest request(site.services(), "GET", "/f.txt", {{"If-Match", "\"other\""}});
  request.run();
  EXPECT_EQ(request.transport.status, 412);
  EXPECT_EQ(request.transport.etag, "");
  EXPECT_EQ(request.transport.last_modified, -1);
  EXPECT_EQ(request.transport.content_length, request.transport.body.size());
  EXPECT_EQ(request.transport.field("X-Other"), "");  // add_header without always.
}

TEST_F(ConditionalTest, ComesBeforeRanges) {
  EXPECT_EQ(status({{"If-None-Match", "\"2ebc98a1-a\""}, {"Range", "bytes=0-1"}}), 304);
  EXPECT_EQ(status({{"If-None-Match", "\"other\""}, {"Range", "bytes=0-1"}}), 206);
}

TEST_F(ConditionalTest, OnlyAnswersThatWouldBe200) {
  EXPECT_EQ(status({{"If-Match", "\"other\""}}, "/none"), 404);
  EXPECT_EQ(status({{"If-None-Match", "*"}}, "/none"), 404);
}

}  // namespace
}  // namespace corehttpd::transform

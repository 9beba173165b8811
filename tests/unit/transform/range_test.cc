#include <gtest/gtest.h>

#include <string>

#include "corehttpd/http/memory_source.h"
#include "transform/range_source.h"
#include "unit/transform/transform_site.h"

namespace corehttpd::transform {
namespace {

using test::FileSite;
using test::TestRequest;

std::string digits(std::size_t length) {
  std::string text(length, ' ');
  for (std::size_t i = 0; i < length; ++i) text[i] = static_cast<char>('0' + i % 10);
  return text;
}

TEST(Range, Single) {
  FileSite site = make_site("");
  site.directory.write("f.txt", digits(1000));
  const std::tuple<std::string_view, std::string_view, std::string> cases[] = {
      {"bytes=0-9", "bytes 0-9/1000", "0123456789"},
      {"bytes=995-", "bytes 995-999/1000", "56789"},
      {"bytes=-3", "bytes 997-999/1000", "789"},
      {"bytes=990-999999", "bytes 990-999/1000", "0123456789"},  // Case 9: clamped.
      {"bytes=0-999999", "bytes 0-999/1000", digits(1000)}};
  for (const auto& [range, content_range, body] : cases) {
    TestRequest request(site.services(), "GET", "/f.txt", {{"Range", range}});
    request.run();
    EXPECT_EQ(request.transport.status, 206) << range;
    EXPECT_EQ(request.transport.field("Content-Range"), content_range);
    EXPECT_EQ(request.transport.body, body);
    EXPECT_EQ(request.transport.content_length, body.size());
    EXPECT_EQ(request.transport.field("Accept-Ranges"), "");
  }
}

TEST(Range, NoRangeAndOddOnes) {
  FileSite site = make_site("location /off/ { max_ranges 0; }");
  site.directory.write("f.txt", digits(100));
  site.directory.write("off/f.txt", digits(100));
  for (const char* range : {"lines=0-5", "bytes", "bytes=5-2"}) {
    TestRequest request(site.services(), "GET", "/f.txt", {{"Range", range}});
    request.run();
    EXPECT_EQ(request.transport.status, 200) << range;
    EXPECT_EQ(request.transport.body, digits(100));
    EXPECT_EQ(request.transport.field("Accept-Ranges"), "bytes");
  }
  TestRequest plain(site.services(), "GET", "/f.txt");
  plain.run();
  EXPECT_EQ(plain.transport.field("Accept-Ranges"), "bytes");
  TestRequest head(site.services(), "HEAD", "/f.txt", {{"Range", "bytes=0-5"}});
  head.run();
  EXPECT_EQ(head.transport.status, 200);  // Ranges are GET's only.
  EXPECT_EQ(head.transport.content_length, 100u);
  TestRequest off(site.services(), "GET", "/off/f.txt", {{"Range", "bytes=0-5"}});
  off.run();
  EXPECT_EQ(off.transport.status, 200);
  EXPECT_EQ(off.transport.field("Accept-Ranges"), "");
}

TEST(Range, Unsatisfiable) {
  FileSite site = make_site("expires 1h;");
  site.directory.write("f.txt", digits(100));
  site.directory.write("empty", "");
  TestRequest request(site.services(), "GET", "/f.txt", {{"Range", "bytes=100-"}});
  request.run();
  EXPECT_EQ(request.transport.status, 416);
  EXPECT_EQ(request.transport.field("Content-Range"), "bytes */100");
  EXPECT_EQ(request.transport.etag, "");
  EXPECT_EQ(request.transport.field("Cache-Control"), "");
  EXPECT_EQ(request.transport.field("Expires"), "");
  EXPECT_EQ(request.transport.content_length, request.transport.body.size());
  EXPECT_EQ(request.transport.body.find('0'), std::string::npos);
  TestRequest empty(site.services(), "GET", "/empty", {{"Range", "bytes=0-"}});
  empty.run();
  EXPECT_EQ(empty.transport.status, 200);  // As nginx: there is nothing to be past the end of.
  EXPECT_EQ(empty.transport.content_length, 0u);
}

TEST(Range, IfRange) {
  FileSite site = make_site("");
  const std::string path = site.directory.write("f.txt", digits(100));
  const timespec times[2] = {{784111777, 0}, {784111777, 0}};  // Sun, 06 Nov 1994 08:49:37 GMT
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  TestRequest first(site.services(), "GET", "/f.txt");
  first.run();
  const std::string etag = first.transport.etag;
  EXPECT_EQ(etag, "\"2ebc98a1-64\"");
  const std::string weak = "W/" + etag;
  const std::pair<std::string_view, int> cases[] = {{etag, 206},
                                                    {weak, 200},
                                                    {"\"other\"", 200},
                                                    {"Sun, 06 Nov 1994 08:49:37 GMT", 206},
                                                    {"Sun, 06 Nov 1994 08:49:38 GMT", 200}};
  for (const auto& [value, status] : cases) {
    TestRequest request(site.services(), "GET", "/f.txt",
                        {{"Range", "bytes=0-4"}, {"If-Range", value}});
    request.run();
    EXPECT_EQ(request.transport.status, status) << value;
    EXPECT_EQ(request.transport.body, status == 206 ? "01234" : digits(100)) << value;
  }
}

TEST(Range, Multipart) {
  FileSite site = make_site("");
  site.directory.write("f.txt", digits(10'000));
  TestRequest request(site.services(), "GET", "/f.txt", {{"Range", "bytes=0-4,100-101,-2"}});
  request.run();
  EXPECT_EQ(request.transport.status, 206);
  const std::string prefix = "multipart/byteranges; boundary=";
  ASSERT_TRUE(request.transport.content_type.starts_with(prefix));
  const std::string boundary = request.transport.content_type.substr(prefix.size());
  EXPECT_EQ(boundary.size(), 20u);
  const std::string line = "\r\n--" + boundary;
  const std::string type = "\r\nContent-Type: text/plain\r\nContent-Range: bytes ";
  EXPECT_EQ(request.transport.body, line + type + "0-4/10000\r\n\r\n01234" +       //
                                        line + type + "100-101/10000\r\n\r\n01" +  //
                                        line + type + "9998-9999/10000\r\n\r\n89" + line +
                                        "--\r\n");
  EXPECT_EQ(request.transport.content_length, request.transport.body.size());
  EXPECT_EQ(request.transport.field("Content-Range"), "");
}

TEST(Range, MultipartOfALargeFileInSmallReads) {
  FileSite site = make_site("");
  const std::string content = digits(200'000);
  site.directory.write("f.bin", content);
  TestRequest request(site.services(), "GET", "/f.bin", {{"Range", "bytes=150000-150999,7-16"}});
  request.exchange().start();
  request.transport.pull(13);
  for (int i = 0; i < 1000 && !request.transport.ended; ++i) {
    site.loop().run_once();
    request.transport.pull(13);
  }
  EXPECT_EQ(request.transport.status, 206);
  EXPECT_EQ(request.transport.content_length, request.transport.body.size());
  const std::size_t first = request.transport.body.find("\r\n\r\n") + 4;
  EXPECT_EQ(request.transport.body.substr(first, 1000), content.substr(150'000, 1000));
  EXPECT_NE(request.transport.body.find("\r\n\r\n7890123456\r\n"), std::string::npos);
}

TEST(Range, Case9NeverMoreThanTheFile) {
  FileSite site = make_site("");
  site.directory.write("f.txt", digits(1024));
  TestRequest request(
      site.services(), "GET", "/f.txt",
      {{"Range", "bytes=724-817,888-927,859-931,449-,404-429,860-957,14-18,530-627"}});
  request.run();
  EXPECT_LE(request.transport.body.size(), 1024u);
  EXPECT_EQ(request.transport.content_length, request.transport.body.size());
  if (request.transport.status != 200) return;
  EXPECT_EQ(request.transport.body, digits(1024));
}

// A source that can't seek: its ranges are found by reading.
class Stream final : public http::BodySource {
 public:
  explicit Stream(std::string text) : text_(std::move(text)) {}
  Result<http::ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max,
                                 http::Forms) override {
    if (blocks && (++reads & 1) != 0) return http::ReadOutcome{0, http::Next::kBlocked};
    const std::size_t length = std::min({bytes_max, text_.size() - at_, std::size_t{7}});
    out[0] = Segment::from_static(std::string_view(text_).substr(at_, length));
    at_ += length;
    return http::ReadOutcome{1, at_ == text_.size() ? http::Next::kEnd : http::Next::kMore};
  }
  void cancel() noexcept override { cancelled = true; }
  bool blocks = false, cancelled = false;
  int reads = 0;

 private:
  std::string text_;
  std::size_t at_ = 0;
};

std::string drain(http::BodySource& source, bool& failed) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) {
    Segment out[4];
    const auto outcome = source.read(out, 5, http::Forms::kMemory);
    if (!outcome) {
      failed = true;
      return text;
    }
    for (std::uint32_t k = 0; k < outcome->segments; ++k) text.append(out[k].view());
    if (outcome->next == http::Next::kEnd) return text;
  }
  failed = true;
  return text;
}

TEST(RangeSource, SkipsInWhatCannotSeek) {
  for (const bool blocks : {false, true}) {
    Stream stream(digits(100));
    stream.blocks = blocks;
    const RangeSource::Part parts[] = {{{23, 31}, 0, 0}, {{90, 100}, 0, 0}};
    RangeSource source(stream, parts, BlockRef(), 0, false);
    bool failed = false;
    EXPECT_EQ(drain(source, failed), "345678900123456789");
    EXPECT_FALSE(failed);
    EXPECT_TRUE(stream.cancelled);
  }
}

TEST(RangeSource, ABodyThatEndsTooSoonIsAnError) {
  for (const http::ByteRange range : {http::ByteRange{10, 60}, http::ByteRange{55, 60}}) {
    Stream stream(digits(50));
    const RangeSource::Part parts[] = {{range, 0, 0}};
    RangeSource source(stream, parts, BlockRef(), 0, false);
    bool failed = false;
    drain(source, failed);
    EXPECT_TRUE(failed);
  }
}

}  // namespace
}  // namespace corehttpd::transform

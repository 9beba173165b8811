#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "corehttpd/http/memory_source.h"
#include "transform/deflate_pool.h"
#include "transform/gzip_source.h"
#include "transform/gzip_variant.h"
#include "unit/transform/transform_site.h"

namespace corehttpd::transform {
namespace {

using http::Next;
using test::FileSite;
using test::TestRequest;

// What has been compressed so far, decompressed. complete: the member's end and checksum were seen.
std::string gunzip(std::string_view bytes, bool* complete = nullptr) {
  z_stream stream{};
  inflateInit2(&stream, 15 + 16);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string text;
  int result = Z_OK;
  do {
    char buffer[4096];
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof buffer;
    result = inflate(&stream, Z_NO_FLUSH);
    text.append(buffer, sizeof buffer - stream.avail_out);
  } while (result == Z_OK);
  if (complete != nullptr) *complete = result == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  return text;
}

std::string page(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "<li>item " + std::to_string(text.size() * 7919) + "</li>\n";
  text.resize(bytes);
  return text;
}

TEST(GzipAcceptEncoding, Weights) {
  // Case 10: a weight of 0 is a refusal, order does not decide.
  const std::pair<std::string_view, bool> cases[] = {
      {"gzip", true},
      {"GZIP", true},
      {"x-gzip", true},
      {"br, gzip", true},
      {"gzip, br", true},
      {"deflate, gzip;q=1.0, *;q=0.5", true},
      {"gzip;q=0.001", true},
      {"*", true},
      {"br, *;q=0.1", true},
      {"identity;q=0.5, gzip;q=0.8", true},
      {"", false},
      {"br", false},
      {"identity", false},
      {"gzip;q=0", false},
      {"gzip; q=0", false},
      {"gzip ;q=0.000", false},
      {"gzip;Q=0", false},
      {"gzip;q=0, *", false},
      {"*, gzip;q=0", false},
      {"*;q=0", false},
      {"identity, gzip;q=0.5", false},
      {"gzipped", false},
      {"notgzip, br", false},
  };
  for (const auto& [value, accepted] : cases) EXPECT_EQ(accepts_gzip(value), accepted) << value;
}

class Gzip : public ::testing::Test {
 protected:
  Gzip()
      : site(make_site("gzip on; gzip_vary on; gzip_types text/plain application/json;"
                       "default_type text/plain; gzip_disable msie6 \"Robo[ct]\";"
                       "location /off/ { gzip off; }"
                       "location /all/ { gzip_types *; default_type image/png; }"
                       "location /png/ { default_type image/png; }"
                       "location /old/ { gzip_http_version 1.0; gzip_min_length 0; }")) {}

  // The head of a response to a request with these fields, as the transform leaves it.
  struct Applied {
    bool compressed = false;
    bool vary = false;
    std::string etag;
  };
  Applied apply(
      TestRequest::Fields request_fields,
      std::initializer_list<std::pair<std::string_view, std::string_view>> head_fields = {},
      int status = 200, std::string_view type = "text/html") {
    TestRequest request(site.services(), "GET", "/", request_fields);
    http::Exchange& exchange = request.exchange();
    http::ResponseHead& head = exchange.response();
    head.status = static_cast<std::uint16_t>(status);
    head.content_type = type;
    head.etag = "\"v\"";
    for (const auto& [name, value] : head_fields) head.fields.add(exchange.arena(), name, value);
    http::BodySource* body = http::make_text_source(exchange.arena(), page(1000));
    http::BodySource* result = gzip().apply(exchange, body);
    EXPECT_EQ(result != body, head.fields.value(http::FieldName::kContentEncoding) == "gzip");
    return {result != body, head.vary_accept_encoding, std::string(head.etag)};
  }
  bool compresses(std::string_view agent) {
    return apply({{"Accept-Encoding", "gzip"}, {"User-Agent", agent}}).compressed;
  }
  FileSite site;
};

TEST_F(Gzip, FileRoundTrip) {
  const std::string text = page(200'000);
  site.directory.write("f.txt", text);
  TestRequest request(site.services(), "GET", "/f.txt", {{"Accept-Encoding", "gzip"}});
  request.run();
  EXPECT_EQ(request.transport.status, 200);
  EXPECT_EQ(request.transport.field("Content-Encoding"), "gzip");
  EXPECT_FALSE(request.transport.content_length);
  EXPECT_EQ(request.transport.field("Accept-Ranges"), "");
  EXPECT_EQ(request.transport.etag.substr(0, 3), "W/\"");
  bool complete = false;
  EXPECT_TRUE(gunzip(request.transport.body, &complete) == text);
  EXPECT_TRUE(complete);
  EXPECT_LT(request.transport.body.size(), text.size() / 2);
  EXPECT_EQ(DeflatePool::instance().used(), 0u);  // Given back at the end, not with the exchange.
}

TEST_F(Gzip, IdentityKeepsItsHeadAndSaysVary) {
  const std::string text = page(1000);
  site.directory.write("f.txt", text);
  TestRequest request(site.services(), "GET", "/f.txt");
  request.run();
  EXPECT_EQ(request.transport.body, text);
  EXPECT_EQ(request.transport.content_length, 1000u);
  EXPECT_EQ(request.transport.etag[0], '"');
  EXPECT_TRUE(request.exchange().response().vary_accept_encoding);
}

TEST_F(Gzip, HeadTellsWhatGetWould) {
  site.directory.write("f.txt", page(1000));
  TestRequest request(site.services(), "HEAD", "/f.txt", {{"Accept-Encoding", "gzip"}});
  request.run();
  EXPECT_EQ(request.transport.field("Content-Encoding"), "gzip");
  EXPECT_FALSE(request.transport.content_length);
  EXPECT_FALSE(request.transport.has_source);
}

TEST_F(Gzip, NotModifiedRepeatsTheVariant) {  // Case 10.
  site.directory.write("f.txt", page(1000));
  TestRequest first(site.services(), "GET", "/f.txt", {{"Accept-Encoding", "gzip"}});
  first.run();
  const std::string etag = first.transport.etag;
  TestRequest again(site.services(), "GET", "/f.txt",
                    {{"Accept-Encoding", "gzip"}, {"If-None-Match", etag}});
  again.run();
  EXPECT_EQ(again.transport.status, 304);
  EXPECT_EQ(again.transport.etag, etag);
  EXPECT_TRUE(again.exchange().response().vary_accept_encoding);
  EXPECT_EQ(again.transport.field("Content-Encoding"), "");
  TestRequest plain(site.services(), "GET", "/f.txt", {{"If-None-Match", etag}});
  plain.run();
  EXPECT_EQ(plain.transport.status, 304);
  EXPECT_EQ(plain.transport.etag, etag.substr(2));
}

TEST_F(Gzip, RangeOfACompressibleFile) {
  const std::string text = page(1000);
  site.directory.write("f.txt", text);
  // A compressed response has no ranges: the whole is sent.
  TestRequest both(site.services(), "GET", "/f.txt",
                   {{"Accept-Encoding", "gzip"}, {"Range", "bytes=0-9"}});
  both.run();
  EXPECT_EQ(both.transport.status, 200);
  EXPECT_EQ(gunzip(both.transport.body), text);
  TestRequest part(site.services(), "GET", "/f.txt", {{"Range", "bytes=0-9"}});
  part.run();
  EXPECT_EQ(part.transport.status, 206);
  EXPECT_EQ(part.transport.body, text.substr(0, 10));
}

TEST_F(Gzip, Locations) {
  const std::string text = page(500);
  for (const char* name : {"off/f", "all/f", "png/f", "old/f", "old/tiny"}) {
    site.directory.write(name, std::string_view(name).ends_with("tiny") ? "1234567890" : text);
  }
  const auto compressed = [this](std::string_view target) {
    TestRequest request(site.services(), "GET", target, {{"Accept-Encoding", "gzip"}});
    request.run();
    return request.transport.field("Content-Encoding") == "gzip";
  };
  EXPECT_FALSE(compressed("/off/f"));
  EXPECT_TRUE(compressed("/all/f"));
  EXPECT_FALSE(compressed("/png/f"));
  EXPECT_TRUE(compressed("/old/f"));
  EXPECT_TRUE(compressed("/old/tiny"));
  site.directory.write("nineteen", std::string(19, 'x'));
  site.directory.write("twenty", std::string(20, 'x'));
  EXPECT_FALSE(compressed("/nineteen"));
  EXPECT_TRUE(compressed("/twenty"));
}

TEST_F(Gzip, ResponsesThatAreLeftAlone) {
  const TestRequest::Fields wants = {{"Accept-Encoding", "gzip"}};
  EXPECT_TRUE(apply(wants).compressed);
  EXPECT_EQ(apply(wants).etag, "W/\"v\"");
  EXPECT_TRUE(apply(wants, {}, 403).compressed);
  EXPECT_TRUE(apply(wants, {}, 404).compressed);
  EXPECT_FALSE(apply(wants, {}, 201).compressed);
  EXPECT_FALSE(apply(wants, {}, 500).compressed);
  EXPECT_FALSE(apply(wants, {{"Content-Range", "bytes 0-99/1000"}}, 206).compressed);  // Case 10.
  EXPECT_FALSE(apply(wants, {{"Content-Encoding", "br"}}).vary);
  EXPECT_FALSE(apply(wants, {{"Cache-Control", "public, no-transform"}}).compressed);
  EXPECT_TRUE(apply(wants, {}, 200, "Text/HTML; charset=utf-8").compressed);
  EXPECT_TRUE(apply(wants, {}, 200, "application/json;x=y").compressed);
  EXPECT_FALSE(apply(wants, {}, 200, "image/png").vary);
  EXPECT_FALSE(apply(wants, {}, 200, "").vary);
  const Applied refused = apply({{"Accept-Encoding", "gzip;q=0"}});
  EXPECT_FALSE(refused.compressed);
  EXPECT_TRUE(refused.vary);
  EXPECT_EQ(refused.etag, "\"v\"");
  EXPECT_TRUE(apply({{"Accept-Encoding", "br"}, {"Accept-Encoding", "gzip"}}).compressed);
}

TEST_F(Gzip, UserAgents) {
  EXPECT_TRUE(compresses("Mozilla/5.0"));
  EXPECT_FALSE(compresses("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.0)"));
  EXPECT_TRUE(compresses("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)"));
  EXPECT_FALSE(compresses("Mozilla/4.0 (compatible; MSIE 5.5)"));
  EXPECT_TRUE(compresses("Mozilla/4.0 (compatible; MSIE 7.0)"));
  EXPECT_TRUE(compresses("MSIE "));
  EXPECT_FALSE(compresses("the robot"));  // Case is ignored.
}

TEST_F(Gzip, Http10) {
  TestRequest request(site.services(), "GET", "/", {{"Accept-Encoding", "gzip"}});
  http::Exchange& exchange = request.exchange();
  exchange.request().version = http::Version::k10;
  exchange.response().status = 200;
  exchange.response().content_type = "text/html";
  http::BodySource* body = http::make_text_source(exchange.arena(), page(1000));
  EXPECT_EQ(gzip().apply(exchange, body), body);
}

TEST(GzipProxied, ReasonsToCompress) {
  struct Case {
    const char* proxied;
    std::pair<std::string_view, std::string_view> field;
    bool compressed;
  };
  const Case cases[] = {
      {"off", {"X", "y"}, false},
      {"any", {"X", "y"}, true},
      {"expired", {"Expires", "Thu, 01 Jan 1970 00:00:01 GMT"}, true},
      {"expired", {"Expires", "0"}, true},
      {"expired", {"Expires", "Thu, 31 Dec 2099 23:59:59 GMT"}, false},
      {"expired", {"X", "y"}, false},
      {"no-cache", {"Cache-Control", "no-cache"}, true},
      {"no-cache", {"Cache-Control", "private"}, false},
      {"no-store private", {"Cache-Control", "max-age=0, private"}, true},
      {"no-store", {"Cache-Control", "No-Store"}, true},
      {"no_last_modified", {"X", "y"}, true},
      {"no_etag", {"X", "y"}, false},
      {"auth", {"X", "y"}, false},
  };
  for (const Case& c : cases) {
    FileSite site = make_site("gzip on; gzip_proxied " + std::string(c.proxied) + ";");
    TestRequest request(site.services(), "GET", "/",
                        {{"Accept-Encoding", "gzip"}, {"Via", "1.1 p"}});
    http::Exchange& exchange = request.exchange();
    exchange.response().status = 200;
    exchange.response().content_type = "text/html";
    exchange.response().etag = "\"e\"";
    exchange.response().fields.add(exchange.arena(), c.field.first, c.field.second);
    http::BodySource* body = http::make_text_source(exchange.arena(), page(1000));
    EXPECT_EQ(gzip().apply(exchange, body) != body, c.compressed) << c.proxied << c.field.second;
  }
}

TEST(GzipDirectives, Errors) {
  const auto errors = [](const char* text) {
    const conf::Module* const modules[] = {&http::core_module(), &expr::expr_module(),
                                           &test::block_module(), &gzip_module()};
    return test::compile("http { server { " + std::string(text) + " } }", modules).text();
  };
  EXPECT_NE(errors("gzip_comp_level 10;").find("value must be"), std::string::npos);
  EXPECT_NE(errors("gzip_comp_level 0;").find("value must be"), std::string::npos);
  EXPECT_NE(errors("gzip_proxied some;").find("invalid value \"some\""), std::string::npos);
  EXPECT_NE(errors("gzip_proxied any off;").find("can't be combined"), std::string::npos);
  EXPECT_NE(errors("gzip_http_version 2;").find("1.0, 1.1"), std::string::npos);
  EXPECT_NE(errors("gzip maybe;").find("gzip"), std::string::npos);
}

// --- The source alone.

class Scripted final : public http::BodySource {
 public:
  Result<http::ReadOutcome> read(std::span<Segment> out, std::size_t bytes_max,
                                 http::Forms forms) override {
    EXPECT_EQ(forms, http::Forms::kMemory);
    EXPECT_FALSE(ended);
    if (failing) return fail(Code::kReset, "origin");
    if (text.empty()) {
      ended = finished;
      return http::ReadOutcome{0, finished ? Next::kEnd : Next::kBlocked};
    }
    const std::size_t count = std::min({bytes_max, text.size(), piece_bytes});
    BlockRef block = Block::allocate(count);
    std::memcpy(block->data(), text.data(), count);
    text.erase(0, count);
    out[0] = Segment::from_block(std::move(block), 0, count);
    ended = text.empty() && finished;
    return http::ReadOutcome{1, ended ? Next::kEnd : Next::kMore};
  }
  void cancel() noexcept override { cancelled = true; }

  std::string text;
  std::size_t piece_bytes = SIZE_MAX;
  bool finished = false, failing = false, ended = false, cancelled = false;
};

class GzipSourceTest : public ::testing::Test {
 protected:
  GzipSourceTest() : services(site), request(services, "GET", "/") {}
  http::BodySource* make(int level = 1) {
    return make_gzip_source(request.exchange(), inner, level);
  }
  // Reads until the end or until blocked; bytes_max at a time.
  static std::string pull(http::BodySource& source, std::size_t bytes_max, Next& next) {
    std::string bytes;
    for (int i = 0; i < 1'000'000; ++i) {
      Segment segments[2];
      const auto outcome = source.read(segments, bytes_max, http::Forms::kFiles);
      EXPECT_TRUE(outcome);
      if (!outcome) break;
      for (std::uint32_t s = 0; s < outcome->segments; ++s) {
        EXPECT_LE(segments[s].length(), bytes_max);
        EXPECT_GT(segments[s].length(), 0u);
        bytes.append(segments[s].view());
      }
      next = outcome->next;
      if (next != Next::kMore) break;
    }
    return bytes;
  }
  test::FixedSite site;
  test::TestServices services;
  Scripted inner;
  TestRequest request;
};

TEST_F(GzipSourceTest, AnyReadSize) {
  // Random bytes don't compress: several blocks of output.
  std::string noise(100'000, ' ');
  std::uint32_t state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  for (const std::string& text : {std::string(), std::string("x"), page(50'000), noise}) {
    for (const std::size_t bytes_max :
         {std::size_t{1}, std::size_t{7}, std::size_t{16384}, SIZE_MAX}) {
      for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}, SIZE_MAX}) {
        inner = Scripted();
        inner.text = text;
        inner.piece_bytes = piece;
        inner.finished = true;
        Next next = Next::kMore;
        const std::string bytes = pull(*make(), bytes_max, next);
        EXPECT_EQ(next, Next::kEnd);
        bool complete = false;
        EXPECT_TRUE(gunzip(bytes, &complete) == text);
        EXPECT_TRUE(complete);
      }
    }
  }
}

TEST_F(GzipSourceTest, BlockedInnerIsFlushed) {  // Case 20 with compression.
  for (const std::size_t bytes_max : {std::size_t{1}, std::size_t{16384}}) {
    inner = Scripted();
    http::BodySource* source = make(6);
    Next next = Next::kMore;
    EXPECT_EQ(pull(*source, bytes_max, next), "");
    EXPECT_EQ(next, Next::kBlocked);
    std::string bytes, expected;
    for (int line = 0; line < 5; ++line) {
      const std::string text = "line " + std::to_string(line) + "\n";
      inner.text = text;
      expected += text;
      bytes += pull(*source, bytes_max, next);
      EXPECT_EQ(next, Next::kBlocked);
      EXPECT_EQ(gunzip(bytes), expected);
      // Nothing new: no further flush marker.
      EXPECT_EQ(pull(*source, bytes_max, next), "");
    }
    inner.finished = true;
    bytes += pull(*source, bytes_max, next);
    EXPECT_EQ(next, Next::kEnd);
    bool complete = false;
    EXPECT_EQ(gunzip(bytes, &complete), expected);
    EXPECT_TRUE(complete);
  }
}

TEST_F(GzipSourceTest, InnerThatBecomesReadyBetweenReadsIsNotMissed) {
  http::BodySource* source = make();
  inner.text = "one";
  Segment segment;
  auto outcome = source->read({&segment, 1}, 4, http::Forms::kMemory);  // Part of the flush only.
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->next, Next::kMore);
  std::string bytes(segment.view());
  inner.text = "two";  // body_ready() now would be lost on a transport that was told kMore.
  Next next = Next::kMore;
  bytes += pull(*source, 16384, next);
  EXPECT_EQ(gunzip(bytes), "onetwo");
}

TEST_F(GzipSourceTest, ZerosAreCompressedInPortions) {
  inner.text.assign(4'000'000, '\0');
  inner.piece_bytes = 65536;
  http::BodySource* source = make();
  Segment segment;
  const auto outcome = source->read({&segment, 1}, 16384, http::Forms::kMemory);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->next, Next::kMore);
  EXPECT_GT(inner.text.size(), 3'800'000u);
  inner.finished = true;
  Next next = Next::kMore;
  std::string bytes(outcome->segments != 0 ? segment.view() : std::string_view());
  bytes += pull(*source, 16384, next);
  EXPECT_EQ(gunzip(bytes).size(), 4'000'000u);
}

TEST_F(GzipSourceTest, FailureAndCancelGiveTheCompressorBack) {
  http::BodySource* source = make();
  EXPECT_EQ(DeflatePool::instance().used(), 1u);
  inner.failing = true;
  Segment segment;
  EXPECT_FALSE(source->read({&segment, 1}, 100, http::Forms::kMemory));
  EXPECT_EQ(DeflatePool::instance().used(), 0u);
  inner = Scripted();
  source = make();
  source->cancel();
  source->cancel();
  EXPECT_TRUE(inner.cancelled);
  EXPECT_EQ(DeflatePool::instance().used(), 0u);
}

TEST_F(GzipSourceTest, WithoutCompressorsResponsesGoOutAsTheyAre) {
  std::vector<z_stream*> streams;
  while (z_stream* stream = DeflatePool::instance().take(1)) streams.push_back(stream);
  EXPECT_EQ(streams.size(), DeflatePool::kUsedMax);
  EXPECT_EQ(make(), nullptr);
  for (z_stream* stream : streams) DeflatePool::instance().give_back(stream);
  EXPECT_NE(make(), nullptr);
}

TEST_F(GzipSourceTest, LevelsOfReusedCompressors) {
  const std::string text = page(100'000);
  std::size_t sizes[2];
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 2; ++i) {
      inner = Scripted();
      inner.text = text;
      inner.finished = true;
      Next next = Next::kMore;
      const std::string bytes = pull(*make(i == 0 ? 1 : 9), 16384, next);
      EXPECT_TRUE(gunzip(bytes) == text);
      if (round == 0) sizes[i] = bytes.size();
      EXPECT_EQ(bytes.size(), sizes[i]);  // No trace of the user before.
    }
  }
  EXPECT_LT(sizes[1], sizes[0]);
}

}  // namespace
}  // namespace corehttpd::transform

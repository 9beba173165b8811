#include "proto/h1/head_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace corehttpd::h1 {
namespace {

struct Written {
  Written() { clock.set(1000, 784'111'777'000'000); }  // Sun, 06 Nov 1994 08:49:37 GMT
  std::string write(const HeadFraming& framing,
                    http::CoreSettings::Tokens tokens = http::CoreSettings::Tokens::kOff) {
    std::vector<char> room(HeadWriter::bound(head));
    char* end = writer.write(room.data(), head, framing, tokens);
    EXPECT_LE(end, room.data() + room.size());
    return {room.data(), end};
  }
  Clock clock;
  HeadWriter writer{clock};
  Arena arena;
  http::ResponseHead head;
};

TEST(HeadWriter, FieldsInOrder) {
  Written w;
  w.head.status = 200;
  w.head.content_length = 612;
  w.head.content_type = "text/html";
  w.head.charset = "utf-8";
  w.head.last_modified = 784'111'776;
  w.head.etag = "\"abc\"";
  w.head.accept_ranges = true;
  w.head.vary_accept_encoding = true;
  w.head.fields.add(w.arena, "X-One", "1");
  EXPECT_EQ(w.write({.keep_alive = true, .keep_alive_ms = 75'000}),
            "HTTP/1.1 200 OK\r\nServer: corehttpd\r\nDate: Sun, 06 Nov 1994 08:49:37 "
            "GMT\r\nContent-Type: text/html; charset=utf-8\r\n"
            "Content-Length: 612\r\nLast-Modified: Sun, 06 Nov 1994 08:49:36 GMT\r\nConnection: "
            "keep-alive\r\nKeep-Alive: timeout=75\r\n"
            "Vary: Accept-Encoding\r\nETag: \"abc\"\r\nX-One: 1\r\nAccept-Ranges: bytes\r\n\r\n");
}

TEST(HeadWriter, ChunkedAndClose) {
  Written w;
  w.head.status = 404;
  w.head.content_length = 3;
  EXPECT_EQ(w.write({.chunked = true}),
            "HTTP/1.1 404 Not Found\r\nServer: corehttpd\r\nDate: Sun, 06 Nov 1994 08:49:37 "
            "GMT\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
}

TEST(HeadWriter, DateFollowsTheClock) {
  Written w;
  w.head.status = 204;
  EXPECT_NE(w.write({}).find("08:49:37"), std::string::npos);
  w.clock.set(2000, 784'111'778'000'000);
  EXPECT_NE(w.write({}).find("08:49:38"), std::string::npos);
  // The wall clock may also go back.
  w.clock.set(3000, 784'111'777'500'000);
  EXPECT_NE(w.write({}).find("08:49:37"), std::string::npos);
}

TEST(HeadWriter, ServerTokens) {
  Written w;
  w.head.status = 200;
  EXPECT_NE(
      w.write({}, http::CoreSettings::Tokens::kOn).find("Server: corehttpd/" CORE_VERSION "\r\n"),
      std::string::npos);
}

TEST(HeadWriter, OriginsServerAndDateReplaceOurs) {
  Written w;
  w.head.status = 200;
  w.head.reason = "Fine";
  w.head.fields.add(w.arena, "Server", "theirs");
  EXPECT_EQ(w.write({}),
            "HTTP/1.1 200 Fine\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: "
            "close\r\nServer: theirs\r\n\r\n");
}

TEST(HeadWriter, NoFieldBecomesTwo) {
  Written w;
  w.head.status = 302;
  w.head.location = "/a\r\nX: y";
  w.head.content_type = "a\nb";
  w.head.etag = "\r";
  w.head.fields.add(w.arena, "X-A", "b\r\nSet-Cookie: c");
  w.head.fields.add(w.arena, "X B", "c");
  w.head.fields.add(w.arena, "Content-Length", "7");
  w.head.fields.add(w.arena, "Connection", "upgrade");
  EXPECT_EQ(w.write({}),
            "HTTP/1.1 302 Moved Temporarily\r\nServer: corehttpd\r\nDate: Sun, 06 Nov 1994 "
            "08:49:37 GMT\r\nConnection: close\r\n\r\n");
}

TEST(HeadWriter, Interim) {
  Arena arena;
  http::FieldList fields;
  fields.add(arena, "Link", "</x>");
  std::vector<char> room(HeadWriter::bound(103, fields));
  char* end = HeadWriter::write_interim(room.data(), 103, fields);
  EXPECT_EQ(std::string(room.data(), end), "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
}

}  // namespace
}  // namespace corehttpd::h1

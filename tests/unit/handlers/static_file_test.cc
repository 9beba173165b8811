#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "corehttpd/handlers/files.h"
#include "support/file_site.h"

namespace corehttpd::handlers {
namespace {

using test::FileSite;
using test::TestRequest;

FileSite make_site(const std::string& text) {
  return FileSite(text, {&assets::module(), &index_module(), &try_files_module()},
                  {try_files(), index(), static_file()});
}

TEST(StaticFile, ServesWithNginxsValidators) {
  FileSite site = make_site("root $DIR;");
  const std::string path = site.directory.write("a.html", "hello");
  const timespec times[2] = {{0x5f000000, 0}, {0x5f000000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  TestRequest request(site.services(), "GET", "/a.html");
  request.run();
  EXPECT_EQ(request.transport.status, 200);
  EXPECT_EQ(request.transport.body, "hello");
  EXPECT_EQ(request.transport.content_length, 5u);
  EXPECT_EQ(request.transport.content_type, "text/html");
  EXPECT_EQ(request.transport.etag, "\"5f000000-5\"");
  EXPECT_EQ(request.transport.last_modified, 0x5f000000);
}

// What nobody has asked for yet isn't in the kernel's caches: its lookup must not hold up the loop.
TEST(StaticFile, UnknownNamesAreLookedUpInAThread) {
  FileSite site = make_site("root $DIR; open_file_cache off;");
  TestRequest request(site.services(), "GET", "/never/asked/for");
  request.exchange().start();
  EXPECT_EQ(request.transport.heads, 0);
  EXPECT_EQ(site.loop().outstanding(), 1u);
  request.turns();
  EXPECT_EQ(request.transport.status, 404);
  // The next one has its answer from the caches.
  TestRequest again(site.services(), "GET", "/never/asked/for");
  again.exchange().start();
  EXPECT_EQ(again.transport.status, 404);
}

TEST(StaticFile, AClientMayLeaveWhileItsFileIsLookedUp) {
  FileSite site = make_site("root $DIR;");
  {
    TestRequest request(site.services(), "GET", "/never/asked/for");
    request.exchange().start();
    EXPECT_EQ(site.loop().outstanding(), 1u);
    request.exchange().on_transport_lost(Error{Code::kReset, Party::kClient, 0, "test"});
  }
  site.loop().run_until_blocked();
  EXPECT_EQ(site.loop().outstanding(), 0u);
}

TEST(StaticFile, EtagCanBeTurnedOff) {
  FileSite site = make_site("root $DIR; etag off;");
  site.directory.write("a.html", "hello");
  TestRequest request(site.services(), "GET", "/a.html");
  request.run();
  EXPECT_EQ(request.transport.status, 200);
  EXPECT_EQ(request.transport.etag, "");
}

TEST(StaticFile, EmptyFile) {
  FileSite site = make_site("root $DIR;");
  site.directory.write("empty", "");
  TestRequest request(site.services(), "GET", "/empty");
  request.run();
  EXPECT_EQ(request.transport.status, 200);
  EXPECT_EQ(request.transport.content_length, 0u);
  EXPECT_EQ(request.transport.content_type, "text/plain");
  EXPECT_FALSE(request.transport.has_source);
}

TEST(StaticFile, HeadHasTheHeadOfGet) {
  FileSite site = make_site("root $DIR;");
  site.directory.write("a.html", "hello");
  TestRequest request(site.services(), "HEAD", "/a.html");
  request.run();
  EXPECT_EQ(request.transport.status, 200);
  EXPECT_EQ(request.transport.content_length, 5u);
  EXPECT_FALSE(request.transport.has_source);
}

TEST(StaticFile, OtherMethods) {
  FileSite site = make_site("root $DIR;");
  site.directory.write("a.html", "hello");
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"}) {
    TestRequest request(site.services(), method, "/a.html");
    request.run();
    EXPECT_EQ(request.transport.status, 405) << method;
    EXPECT_EQ(request.transport.field("Allow"), "GET, HEAD") << method;
  }
  TestRequest missing(site.services(), "POST", "/none");
  missing.run();
  EXPECT_EQ(missing.transport.status, 404);
}

TEST(StaticFile, MissingAndOddOnes) {
  FileSite site = make_site("root $DIR;");
  site.directory.write("a.html", "hello");
  ASSERT_EQ(::mkfifo(site.directory.path("fifo").c_str(), 0644), 0);
  const std::string loop = site.directory.path("loop");
  ASSERT_EQ(::symlink(loop.c_str(), loop.c_str()), 0);
  const std::string long_name = "/" + std::string(300, 'n');
  const std::pair<std::string, int> cases[] = {
      {"/none", 404}, {"/a.html/x", 404}, {"/fifo", 404}, {"/loop", 403}, {long_name, 404}};
  for (const auto& [target, status] : cases) {
    TestRequest request(site.services(), "GET", target);
    request.run();
    EXPECT_EQ(request.transport.status, status) << target;
  }
}

TEST(StaticFile, DirectoryGetsItsSlash) {
  FileSite site = make_site("root $DIR;");
  site.directory.make_directory("a b");
  TestRequest request(site.services(), "GET", "/a%20b?x=1&y");
  request.run();
  EXPECT_EQ(request.transport.status, 301);
  EXPECT_EQ(request.transport.location, "http://127.0.0.1/a%20b/?x=1&y");
}

TEST(StaticFile, LargeFileOverBothForms) {
  FileSite site = make_site("root $DIR;");
  std::string content(300'000, ' ');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>('a' + i % 23);
  site.directory.write("big", content);
  {
    TestRequest request(site.services(), "GET", "/big");
    request.run();
    // What the page cache lacks comes by the loop.
    for (int i = 0; i < 1000 && !request.transport.ended; ++i) {
      site.loop().run_once();
      request.transport.pull();
    }
    EXPECT_EQ(request.transport.body, content);
  }
  TestRequest request(site.services(), "GET", "/big");
  request.exchange().start();
  request.transport.pull(SIZE_MAX, http::Forms::kFiles);
  EXPECT_EQ(request.transport.body, "<file>");  // One range for all of it.
}

TEST(StaticFile, FileCutShortWhileItIsSentIsAnError) {
  FileSite site = make_site("root $DIR;");
  const std::string path = site.directory.write("big", std::string(300'000, 'x'));
  TestRequest request(site.services(), "GET", "/big");
  request.exchange().start();
  ASSERT_EQ(::truncate(path.c_str(), 1000), 0);
  request.transport.pull();
  for (int i = 0; i < 1000 && !request.transport.source_failed; ++i) {
    site.loop().run_once();
    request.transport.pull();
  }
  EXPECT_TRUE(request.transport.source_failed);
  EXPECT_FALSE(request.transport.ended);
  EXPECT_EQ(request.transport.body, std::string(1000, 'x'));
}

// Takes the file's pages out of the page cache, so that reading it has to wait for the disk. Not
// all file systems let that happen; the tests that need it look whether it did.
void make_cold(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

TEST(StaticFile, ColdFileIsReadByTheLoop) {
  FileSite site = make_site("root $DIR;");
  const std::string content(100'000, 'c');
  make_cold(site.directory.write("big", content));
  TestRequest request(site.services(), "GET", "/big");
  request.exchange().start();
  request.transport.pull();
  if (request.transport.ended) GTEST_SKIP() << "the file stayed in memory";
  EXPECT_EQ(request.transport.body, "");
  int turns = 0;
  for (; turns < 1000 && !request.transport.ended; ++turns) {
    site.loop().run_once();
    if (request.transport.ready) request.transport.pull();
  }
  EXPECT_EQ(request.transport.body, content);
  EXPECT_FALSE(request.transport.source_failed);
}

TEST(StaticFile, ReadInFlightOutlivesItsExchange) {
  FileSite site = make_site("root $DIR;");
  make_cold(site.directory.write("big", std::string(100'000, 'c')));
  {
    TestRequest request(site.services(), "GET", "/big");
    request.exchange().start();
    request.transport.pull();
    if (request.transport.ended) GTEST_SKIP() << "the file stayed in memory";
    EXPECT_EQ(site.services().blocks.in_use(), 1u);
  }
  // The kernel may still write to the block; it comes back when the read has completed.
  for (int i = 0; i < 1000 && site.services().blocks.in_use() != 0; ++i) site.loop().run_once();
  EXPECT_EQ(site.services().blocks.in_use(), 0u);
}

TEST(StaticFile, ForbiddenDirectory) {
  FileSite site = make_site("root $DIR;");
  site.directory.make_directory("d");
  TestRequest request(site.services(), "GET", "/d/");
  request.run();
  EXPECT_EQ(request.transport.status, 403);
}

TEST(StaticFile, TypesAndDefaultType) {
  FileSite site = make_site(
      "root $DIR; default_type application/octet-stream; types { text/css css; image/x Y; }"
      "location /in/ { types { text/other css; } default_type x/y; }");
  for (const char* name : {"a.css", "a.y", "a.html", "in/a.css", "in/a.y"}) {
    site.directory.write(name, "x");
  }
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"/a.css", "text/css"},
      {"/a.y", "image/x"},
      {"/a.html", "application/octet-stream"},
      {"/in/a.css", "text/other"},
      {"/in/a.y", "x/y"}};
  for (const auto& [target, type] : cases) {
    TestRequest request(site.services(), "GET", target);
    request.run();
    EXPECT_EQ(request.transport.content_type, type) << target;
  }
}

TEST(Index, FirstThatExists) {
  FileSite site = make_site("root $DIR; index a.html b.html; index c.html;");
  site.directory.write("x/b.html", "b");
  site.directory.write("x/c.html", "c");
  site.directory.write("y/c.html", "c");
  for (const auto& [target, body] : {std::pair("/x/", "b"), std::pair("/y/", "c")}) {
    TestRequest request(site.services(), "GET", target);
    request.run();
    EXPECT_EQ(request.transport.status, 200);
    EXPECT_EQ(request.transport.body, body);
    EXPECT_TRUE(request.exchange().internal());
  }
}

TEST(Index, DefaultMissingAndAbsolute) {
  FileSite site = make_site(
      "root $DIR; location /abs/ { index none.html /top.html; }"
      "location /var/ { index $arg_n.html; }");
  site.directory.write("index.html", "default");
  site.directory.write("top.html", "top");
  site.directory.write("var/seven.html", "7");
  site.directory.make_directory("abs");
  site.directory.make_directory("bare");
  const std::tuple<std::string_view, int, std::string_view> cases[] = {
      {"/", 200, "default"},  {"/abs/", 200, "top"}, {"/var/?n=seven", 200, "7"},
      {"/var/?n=8", 403, ""}, {"/bare/", 403, ""},   {"/none/", 404, ""},
      {"/top.html/", 404, ""}};
  for (const auto& [target, status, body] : cases) {
    TestRequest request(site.services(), "GET", target);
    request.run();
    EXPECT_EQ(request.transport.status, status) << target;
    if (status != 200) continue;
    EXPECT_EQ(request.transport.body, body) << target;
  }
}

TEST(Index, KeepsArguments) {
  FileSite site = make_site("root $DIR;");
  site.directory.write("index.html", "x");
  TestRequest request(site.services(), "GET", "/?a=b");
  request.run();
  EXPECT_EQ(request.exchange().uri(), "/index.html");
  EXPECT_EQ(request.exchange().args(), "a=b");
}

TEST(Alias, PathMath) {
  FileSite site = make_site(
      "root $DIR/root;"
      "location /i/ { alias $DIR/images/; location /i/sub/ { default_type x/sub; } }"
      "location = /one { alias $DIR/images/single.txt; }"
      "location ~ re { alias $DIR/images/$arg_f; }");
  site.directory.write("images/a.txt", "alias");
  site.directory.write("images/sub/b.txt", "nested");
  site.directory.write("images/single.txt", "single");
  site.directory.write("images/index.html", "index");
  site.directory.write("root/x.txt", "root");
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"/i/a.txt", "alias"}, {"/i/sub/b.txt", "nested"}, {"/one", "single"}, {"/x.txt", "root"}};
  for (const auto& [target, body] : cases) {
    TestRequest request(site.services(), "GET", target);
    request.run();
    EXPECT_EQ(request.transport.status, 200) << target;
    EXPECT_EQ(request.transport.body, body) << target;
  }
}

TEST(TryFiles, FilesDirectoriesFallback) {
  FileSite site = make_site(
      "root $DIR;"
      "location / { try_files $uri $uri/ /fallback.html?from=$uri; }"
      "location /code/ { try_files $uri =410; }"
      "location /named/ { try_files $uri @other; }"
      "location @other { try_files /named.html =404; }");
  site.directory.write("a.txt", "a");
  site.directory.write("d/index.html", "dir");
  site.directory.write("fallback.html", "fallback");
  site.directory.write("named.html", "named");
  const std::tuple<std::string_view, int, std::string_view> cases[] = {{"/a.txt", 200, "a"},
                                                                       {"/d/", 200, "dir"},
                                                                       {"/none", 200, "fallback"},
                                                                       {"/code/none", 410, ""},
                                                                       {"/named/x", 200, "named"}};
  for (const auto& [target, status, body] : cases) {
    TestRequest request(site.services(), "GET", target);
    request.run();
    EXPECT_EQ(request.transport.status, status) << target;
    if (status != 200) continue;
    EXPECT_EQ(request.transport.body, body) << target;
  }
  TestRequest directory(site.services(), "GET", "/d");
  directory.run();
  EXPECT_EQ(directory.transport.status, 301);
  EXPECT_EQ(directory.transport.location, "http://127.0.0.1/d/");
  TestRequest fallback(site.services(), "GET", "/none?x");
  fallback.run();
  EXPECT_EQ(fallback.exchange().args(), "from=/none");
}

TEST(TryFiles, WithAlias) {
  FileSite site = make_site(
      "root $DIR/root;"
      "location /i/ { alias $DIR/images/; try_files $uri default.txt =404; }");
  site.directory.write("images/a.txt", "a");
  site.directory.write("images/default.txt", "default");
  for (const auto& [target, body] : {std::pair("/i/a.txt", "a"), std::pair("/i/b", "default")}) {
    TestRequest request(site.services(), "GET", target);
    request.run();
    EXPECT_EQ(request.transport.status, 200) << target;
    EXPECT_EQ(request.transport.body, body) << target;
  }
}

TEST(TryFiles, IsNotInherited) {
  FileSite site = make_site(
      "root $DIR;"
      "location /outer/ { try_files /x =410; location /outer/in/ { default_type a/b; } }");
  site.directory.write("outer/in/f", "f");
  site.directory.write("outer/f", "f");
  TestRequest inner(site.services(), "GET", "/outer/in/f");
  inner.run();
  EXPECT_EQ(inner.transport.status, 200);
  TestRequest outer(site.services(), "GET", "/outer/f");
  outer.run();
  EXPECT_EQ(outer.transport.status, 410);
}

TEST(FileDirectives, WhatIsWrongIsSaid) {
  const auto compile = [](std::string text) {
    static const conf::Module* const kModules[] = {&http::core_module(),  &expr::expr_module(),
                                                   &test::block_module(), &assets::module(),
                                                   &index_module(),       &try_files_module()};
    return test::compile("http { server { " + text + " } }", kModules,
                         [](conf::Compiler& compiler) {
                           static const std::span<const expr::Variable> tables[] = {
                               expr::core_variables(), assets::variables()};
                           expr::prepare(compiler, tables);
                         });
  };
  EXPECT_TRUE(compile("location /a/ { root /x; alias /y/; }").error("\"root\" directive is dup"));
  EXPECT_TRUE(compile("root $document_root/x;").error("$document_root variable cannot be used"));
  EXPECT_TRUE(compile("location @n { alias /y/; }").error("cannot be used inside the named"));
  EXPECT_TRUE(compile("location /a { alias /y/; }").warning("leaves the directory"));
  EXPECT_TRUE(compile("location /a/ { alias /y; }").warning("no slash at its end"));
  EXPECT_TRUE(compile("open_file_cache inactive=5s;").error("must have the \"max\" parameter"));
  EXPECT_TRUE(compile("open_file_cache max=0;").error("invalid \"open_file_cache\" parameter"));
  EXPECT_TRUE(compile("try_files $uri =x;").error("invalid code"));
  EXPECT_TRUE(compile("try_files a =404;").warning("without a slash"));
  EXPECT_TRUE(compile("try_files /a =404; try_files /b =404;").error("is duplicate"));
  EXPECT_TRUE(compile("index a /b c;").warning("only the last index"));
  EXPECT_TRUE(compile("alias /x;").error("alias"));
}

}  // namespace
}  // namespace corehttpd::handlers

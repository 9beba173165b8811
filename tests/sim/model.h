// Random requests and the only right answer to each, worked out from the site's configuration and
// nginx's documented behaviour, not asked of the server.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "corehttpd/http/message.h"
#include "corehttpd/io/sim_loop.h"
#include "sim/sim_site.h"

namespace corehttpd::sim {

using Fields = std::vector<std::pair<std::string, std::string>>;

// A request as the test means it, whatever protocol carries it.
struct Ask {
  std::string method = "GET";
  std::string target;
  std::string host = "sim.test";
  Fields fields;
  std::string body;
  bool has_body = false;
  bool chunked = false;  // HTTP/1; otherwise, and on HTTP/2, the length is announced.
  // Only an announced length is too large for what does not read it.
  bool too_large() const { return has_body && !chunked && body.size() > 20 * 1024; }
};

struct ByteWindow {
  std::size_t first, end;
};

// The answer. Fields are those that the model knows; others may be there too.
struct Want {
  int status = 200;
  Fields fields;
  std::string body;
  // Several ranges: body is built when the answer's boundary is known.
  std::vector<ByteWindow> parts;
  std::string whole;
  bool any_body = false;  // Counters of the moment: only the frame around the answer is known.
  bool head = false;      // The answer to HEAD: body is what GET would have got, and not sent.
  bool closes = false;    // HTTP/1: the connection must end after it.
  bool may_close = false;
  bool may_be_refused = false;  // By 400 instead: the fault may have come with the head or later.
  bool sends_body() const { return !head && status != 204 && status != 304; }
};

inline std::string page_of(int status) {
  // The status line keeps HTTP/1.0's "Moved Temporarily", pages do not, as with nginx.
  const std::string_view phrase = status == 302 ? "Found"
                                  : status == 401
                                      ? "Authorization Required"
                                      : http::reason_phrase(static_cast<std::uint16_t>(status));
  const std::string title = fmt::format("{} {}", status, phrase);
  return "<html>\r\n<head><title>" + title + "</title></head>\r\n<body>\r\n<center><h1>" + title +
         "</h1></center>\r\n<hr><center>corehttpd</center>\r\n</body>\r\n</html>\r\n";
}

struct Case {
  Ask ask;
  Want want;
  void refuse_as_too_large() {
    want = {.status = 413, .fields = {{"X-Uri", ask.target}}, .body = page_of(413)};
  }
};

// multipart/byteranges as RFC 9110 §14.6 has it, with the boundary that the server chose.
inline std::string multipart_body(const Want& want, std::string_view boundary) {
  std::string body;
  for (const ByteWindow& part : want.parts) {
    body += fmt::format(
        "\r\n--{}\r\nContent-Type: text/plain\r\nContent-Range: bytes {}-{}/{}\r\n\r\n{}", boundary,
        part.first, part.end - 1, want.whole.size(),
        want.whole.substr(part.first, part.end - part.first));
  }
  return body + fmt::format("\r\n--{}--\r\n", boundary);
}

class Model {
 public:
  // tag: begins every request's id, so that no two requests of a run have the same target.
  Model(io::SimLoop& loop, std::string tag) : loop_(loop), tag_(std::move(tag)) {}

  Case next() {
    id_ = fmt::format("{}r{}", tag_, ++count_);
    Case made;
    switch (random(14)) {
      case 0:
      case 1:
      case 2:
        made = file();
        break;
      case 3:
        made = ranges();
        break;
      case 4:
        made = unchanged();
        break;
      case 5:
        made = text("/text/");
        break;
      case 6:
        made = upload();
        break;
      case 7:
        made = redirect();
        break;
      case 8:
        made = rewritten();
        break;
      case 9:
        made = missing();
        break;
      case 10:
        made = guarded();
        break;
      case 11:
        made = origin();
        break;
      default:
        made = odd();
        break;
    }
    made.want.fields.emplace_back("X-Uri", made.ask.target);
    if (made.ask.method == "GET" && made.want.parts.empty() && random(10) == 0) {
      made.ask.method = "HEAD";
      made.want.head = true;
      // Ranges are for GET (RFC 9110 §14.2).
      if (made.want.status == 206 || made.want.status == 416) make_whole(made);
    }
    return made;
  }
  // One whose answer has a body of some size and that always succeeds.
  Case plain() {
    id_ = fmt::format("{}r{}", tag_, ++count_);
    Case made = file();
    made.want.fields.emplace_back("X-Uri", made.ask.target);
    return made;
  }
  Case simple_post(std::string body) {
    id_ = fmt::format("{}r{}", tag_, ++count_);
    Case made = text("/text/");
    made.ask.method = "POST";
    made.ask.has_body = true;
    made.ask.body = std::move(body);
    made.want.fields.emplace_back("X-Uri", made.ask.target);
    return made;
  }

 private:
  std::uint64_t random(std::uint64_t bound) { return loop_.random(bound); }
  std::string target(std::string_view path) const { return fmt::format("{}?id={}", path, id_); }

  Case whole_file(const SiteFile& served, std::string path) {
    Case made;
    made.ask.target = target(path);
    made.want.body = file_content(served.path, served.size);
    made.want.fields = {{"ETag", etag(served.size)},
                        {"Last-Modified", std::string(kLastModified)},
                        {"Content-Length", std::to_string(served.size)}};
    return made;
  }
  Case file() {
    // The large one now and then only: the run is made of small steps.
    const std::size_t which =
        random(12) == 0 ? 2 : std::array<std::size_t, 4>{0, 1, 3, 4}[random(4)];
    const SiteFile& served = kSiteFiles[which];
    return whole_file(served, std::string(which == 4 ? "/files/dir/" : served.path));
  }
  static void make_whole(Case& made) {
    const SiteFile& served = kSiteFiles[1];
    made.want.status = 200;
    made.want.body = file_content(served.path, served.size);
    std::erase_if(made.want.fields,
                  [](const auto& field) { return field.first == "Content-Range"; });
  }
  Case ranges() {
    const SiteFile& served = kSiteFiles[1];
    Case made;
    made.ask.target = target(served.path);
    const std::string all = file_content(served.path, served.size);
    const std::size_t first = random(4000), length = 1 + random(3000);
    Want& want = made.want;
    want.status = 206;
    switch (random(4)) {
      case 0:
        made.ask.fields = {{"Range", fmt::format("bytes={}-{}", first, first + length - 1)}};
        want.body = all.substr(first, length);
        want.fields = {{"Content-Range",
                        fmt::format("bytes {}-{}/{}", first, first + length - 1, all.size())}};
        break;
      case 1:
        made.ask.fields = {{"Range", fmt::format("bytes=-{}", length)}};
        want.body = all.substr(all.size() - length);
        want.fields = {{"Content-Range", fmt::format("bytes {}-{}/{}", all.size() - length,
                                                     all.size() - 1, all.size())}};
        break;
      case 2:
        made.ask.fields = {{"Range", fmt::format("bytes={}-", all.size() + first)}};
        want.status = 416;
        want.body = page_of(416);
        want.fields = {{"Content-Range", fmt::format("bytes */{}", all.size())}};
        break;
      default: {
        const std::size_t second = first + length + 1;
        made.ask.fields = {{"Range", fmt::format("bytes={}-{},{}-{}", first, first + length - 1,
                                                 second, second + 99)}};
        want.parts = {{first, first + length}, {second, second + 100}};
        want.whole = all;
      }
    }
    return made;
  }
  Case unchanged() {
    const SiteFile& served = kSiteFiles[random(3)];
    Case made;
    made.ask.target = target(served.path);
    if (random(2) == 0) {
      made.ask.fields = {{"If-None-Match", etag(served.size)}};
    } else {
      made.ask.fields = {{"If-Modified-Since", std::string(kLastModified)}};
    }
    made.want.status = 304;
    made.want.fields = {{"ETag", etag(served.size)}};
    return made;
  }
  Case text(std::string_view prefix) {
    Case made;
    made.ask.target = target(fmt::format("{}a%20{}", prefix, random(100)));
    std::string uri = made.ask.target.substr(0, made.ask.target.find('?'));
    uri.replace(uri.find("%20"), 3, " ");
    made.want.body = fmt::format("text {} of {}\n", uri, made.ask.target);
    return made;
  }
  std::string random_body(std::size_t bound) {
    std::string body(random(bound), '\0');
    for (std::size_t i = 0; i < body.size(); ++i)
      body[i] = "GET / \r\n0"[(i * 7 + body.size()) % 9];
    return body;
  }
  Case upload() {
    Case made = text("/text/");
    made.ask.method = "POST";
    made.ask.has_body = true;
    made.ask.body = random_body(random(4) == 0 ? 30'000 : 600);
    if (random(4) == 0) {
      made.ask.target = target("/files/small.txt");
      made.want.status = 405;
      made.want.body = page_of(405);
      made.want.fields = {{"Allow", "GET, HEAD"}};
    }
    return made;
  }
  Case redirect() {
    Case made;
    made.want.status = random(2) == 0 ? 301 : 302;
    made.want.body = page_of(made.want.status);
    const bool slash = made.want.status == 301;
    made.ask.target = target(slash ? "/files/dir" : "/moved/x");
    made.want.fields = {{"Location", "http://sim.test:8080" +
                                         (slash ? target("/files/dir/")
                                                : fmt::format("/files/small.txt?to={}", id_))}};
    return made;
  }
  Case rewritten() {
    const SiteFile& served = kSiteFiles[random(2)];
    if (random(2) == 0) return whole_file(kSiteFiles[1], "/try/nothing/here");
    return whole_file(served, "/rewrite/" + std::string(served.path.substr(7)));
  }
  Case missing() {
    Case made;
    if (random(2) == 0) {
      made.ask.target = target("/named/away");
      made.want.body = fmt::format("fallback of {}\n", made.ask.target);
      return made;
    }
    made.ask.target = target("/files/away.txt");
    made.want.status = 404;
    made.want.body = file_content("/errors/404.txt", 77);
    return made;
  }
  Case guarded() {
    Case made = whole_file(kSiteFiles[6], "/auth/guarded.txt");
    const std::uint64_t verdict = random(4);
    if (verdict >= 2) return made;
    made.want.status = verdict == 0 ? 401 : 403;
    made.ask.fields = {{"X-Deny", verdict == 0 ? "401" : "yes"}};
    made.want.fields.clear();
    made.want.body = page_of(made.want.status);
    return made;
  }
  // What FastcgiOrigin answers: the request's own target and body, as often as its id says.
  Case origin() {
    Case made;
    made.ask.target = target("/fcgi/echo");
    if (random(2) == 0) {
      made.ask.method = "POST";
      made.ask.has_body = true;
      made.ask.body = random_body(random(4) == 0 ? 18'000 : 600);
    }
    made.want.body = fmt::format("origin of {}: {}", made.ask.target, made.ask.body);
    made.want.fields = {{"X-Origin", id_}};
    return made;
  }
  Case odd() {
    Case made;
    switch (random(4)) {
      case 0:
        made.ask.target = target("/none/");
        made.want.status = 204;
        break;
      case 1:
        made.ask.target = target("/status");
        made.want.any_body = true;
        break;
      case 2:
        made.ask.host = random(2) == 0 ? "other.test" : "OTHER.test.:8080";
        made.ask.target = target("/text/elsewhere");
        made.want.body = fmt::format("other other.test of {}\n", made.ask.target);
        break;
      default:
        made.ask.target = target("/check");
        made.want.status = 404;
        made.want.body = file_content("/errors/404.txt", 77);
    }
    return made;
  }

  io::SimLoop& loop_;
  std::string tag_;
  std::string id_;
  int count_ = 0;
};

}  // namespace corehttpd::sim

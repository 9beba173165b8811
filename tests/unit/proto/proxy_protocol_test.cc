#include "proto/proxy_protocol.h"

#include <gtest/gtest.h>

#include <string>

namespace corehttpd::proto {
namespace {

using Verdict = ProxyHeaderScan::Verdict;

constexpr std::string_view kSignature("\r\n\r\n\0\r\nQUIT\n", 12);

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string binary(char version_command, char family, std::string_view body) {
  std::string header(kSignature);
  header.push_back(version_command);
  header.push_back(family);
  header.push_back(static_cast<char>(body.size() >> 8));
  header.push_back(static_cast<char>(body.size() & 0xff));
  header.append(body);
  return header;
}

// "source port destination port", "none", "more", or what is wrong.
std::string read(std::string_view text) {
  const auto scan = scan_proxy_header(bytes(text));
  if (scan.verdict == Verdict::kIncomplete) return "more";
  if (scan.verdict == Verdict::kBroken) return scan.problem;
  const auto header = parse_proxy_header(bytes(text.substr(0, scan.bytes)));
  if (!header) return header.error().context;
  if (!*header) return "none";
  char a[IpAddress::kTextMax], b[IpAddress::kTextMax];
  std::string result(header->source().format(a));
  result += " " + std::to_string(header->source().port) + " ";
  result += header->destination().format(b);
  return result + " " + std::to_string(header->destination().port);
}

TEST(ProxyProtocol, Lines) {
  EXPECT_EQ(read("PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\nGET /"),
            "192.0.2.1 56324 198.51.100.2 443");
  EXPECT_EQ(read("PROXY TCP6 2001:db8::1 ::1 0 65535\r\n"), "2001:db8::1 0 ::1 65535");
  EXPECT_EQ(read("PROXY UNKNOWN\r\n"), "none");
  EXPECT_EQ(read("PROXY UNKNOWN ffff:f...f:ffff ffff::ffff 65535 65535\r\n"), "none");
}

TEST(ProxyProtocol, BrokenLines) {
  for (std::string_view line : {
           "PROXY TCP4 192.0.2.1 198.51.100.2 56324\r\n",
           "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443 \r\n",
           "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443 x\r\n",
           "PROXY TCP4  192.0.2.1 198.51.100.2 56324 443\r\n",
           "PROXY TCP4 192.0.2.1 198.51.100.2 56324 65536\r\n",
           "PROXY TCP4 192.0.2.1 198.51.100.2 056324 443\r\n",
           "PROXY TCP4 192.0.2.1 198.51.100.2 +1 443\r\n",
           "PROXY TCP4 192.0.2.1 198.51.100.2  443\r\n",
           "PROXY TCP4 2001:db8::1 ::1 56324 443\r\n",
           "PROXY TCP6 192.0.2.1 198.51.100.2 56324 443\r\n",
           "PROXY TCP4 192.0.2.256 198.51.100.2 56324 443\r\n",
           "PROXY TCP5 192.0.2.1 198.51.100.2 56324 443\r\n",
           "PROXY UNKNOWNX\r\n",
           "PROXY \r\n",
           "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\n",
           "PROXY UNKNOWN\rX\n",
           "GET / HTTP/1.1\r\n",
           "PROXYTCP4",
           "proxy TCP4",
           " PROXY TCP4",
       }) {
    EXPECT_EQ(read(line), "broken header") << line;
  }
  EXPECT_EQ(read(std::string("PROXY UNKNOWN ") + std::string(91, 'x') + "\r\n"), "none");
  EXPECT_EQ(read(std::string("PROXY UNKNOWN ") + std::string(92, 'x') + "\r\n"), "broken header");
  EXPECT_EQ(read(std::string("PROXY UNKNOWN ") + std::string(93, 'x')), "broken header");
}

TEST(ProxyProtocol, Binary) {
  const std::string v4("\xc0\x00\x02\x01\xc6\x33\x64\x02\x12\x34\x01\xbb", 12);
  EXPECT_EQ(read(binary('\x21', '\x11', v4) + "GET"), "192.0.2.1 4660 198.51.100.2 443");
  std::string v6(32, '\0');
  v6[15] = v6[31] = 1;
  v6 += std::string("\0\1\0\2", 4);
  EXPECT_EQ(read(binary('\x21', '\x21', v6)), "::1 1 ::1 2");
  EXPECT_EQ(read(binary('\x20', '\x11', v4)), "none");                     // LOCAL
  EXPECT_EQ(read(binary('\x20', '\x00', "")), "none");                     // LOCAL
  EXPECT_EQ(read(binary('\x21', '\x00', "")), "none");                     // UNSPEC
  EXPECT_EQ(read(binary('\x21', '\x12', v4)), "none");                     // UDP
  EXPECT_EQ(read(binary('\x21', '\x31', std::string(216, 'x'))), "none");  // unix
  EXPECT_EQ(read(binary('\x21', '\x11', v4.substr(0, 11))), "broken header");
  EXPECT_EQ(read(binary('\x21', '\x21', v4)), "broken header");
  EXPECT_EQ(read(binary('\x22', '\x11', v4)), "broken header");
  EXPECT_EQ(read(binary('\x21', '\x41', v4)), "broken header");
  EXPECT_EQ(read(binary('\x21', '\x13', v4)), "broken header");
  EXPECT_EQ(read(binary('\x11', '\x11', v4)), "unknown PROXY protocol version");
  EXPECT_EQ(read(binary('\x21', '\x11', v4 + std::string(kProxyHeaderMax - 28, 't'))),
            "192.0.2.1 4660 198.51.100.2 443");
  EXPECT_EQ(read(binary('\x21', '\x11', v4 + std::string(kProxyHeaderMax - 27, 't'))),
            "header is too large");
}

TEST(ProxyProtocol, AnyBeginningWaitsForMore) {
  const std::string line = "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n";
  const std::string header = binary('\x21', '\x11', std::string(20, '\1'));
  for (const std::string& whole : {line, header}) {
    for (std::size_t size = 0; size < whole.size(); ++size)
      EXPECT_EQ(read(whole.substr(0, size)), "more") << size;
    EXPECT_EQ(scan_proxy_header(bytes(whole + "rest")).bytes, whole.size());
  }
}

TEST(ProxyProtocol, KeepsTlvs) {
  const std::string tlvs("\x01\x00\x02h2", 5);
  const std::string header = binary('\x21', '\x11', std::string(12, '\1') + tlvs);
  const auto parsed = parse_proxy_header(bytes(header));
  ASSERT_TRUE(parsed && *parsed);
  const http::ProxyHeader copy = *parsed;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(copy.tlvs().data()), copy.tlvs().size()),
            tlvs);
}

}  // namespace
}  // namespace corehttpd::proto

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "corehttpd/tls/settings.h"
#include "support/temp_dir.h"

namespace corehttpd::tls {
namespace {

using ::testing::HasSubstr;

std::string block(const std::string& label, const std::string& body) {
  return "-----BEGIN " + label + "-----\n" + body + "\n-----END " + label + "-----\n";
}

std::string certificate(std::string_view text) { return check_pem(text, PemKind::kCertificate); }
std::string key(std::string_view text) { return check_pem(text, PemKind::kPrivateKey); }

TEST(Pem, WhatHoldsTheKindIsRight) {
  EXPECT_EQ(certificate(block("CERTIFICATE", "MIIB\nAA==")), "");
  EXPECT_EQ(certificate("subject=x\n" + block("CERTIFICATE", "MIIB") + "\n" +
                        block("CERTIFICATE", "MIIC\r\nMIIC\r")),
            "");
  EXPECT_EQ(certificate(block("PRIVATE KEY", "MIIB") + block("CERTIFICATE", "MIIB")), "");
  for (const char* label :
       {"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY"}) {
    EXPECT_EQ(key(block(label, "MIIB")), "") << label;
  }
  EXPECT_EQ(key(block("EC PARAMETERS", "BggqhkjOPQMBBw==") + block("EC PRIVATE KEY", "MHcC")), "");
  EXPECT_EQ(
      key(block("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nabcd")),
      "");
}

TEST(Pem, WhatDoesNotIsNamed) {
  EXPECT_EQ(certificate(""), "it holds no certificate in PEM");
  EXPECT_EQ(key("root:x:0:0\n"), "it holds no private key in PEM");
  EXPECT_EQ(key(block("CERTIFICATE", "MIIB")), "it holds no private key in PEM");
  EXPECT_EQ(certificate(block("PRIVATE KEY", "MIIB")), "it holds no certificate in PEM");
  EXPECT_EQ(certificate("-----BEGIN CERTIFICATE-----\nMIIB\n"), "its CERTIFICATE has no end");
  EXPECT_EQ(certificate("-----BEGIN CERTIFICATE"), "it holds no certificate in PEM");
  const std::string good = block("CERTIFICATE", "MIIB");
  for (const char* body : {"", "MII", "MI!B", "MIIBA", "MIIB====", "AAAA", "MI=B", "<html>: no"}) {
    EXPECT_EQ(certificate(good + block("CERTIFICATE", body)), "its CERTIFICATE is damaged") << body;
  }
  EXPECT_EQ(key(block("PRIVATE KEY", "abcd")), "its PRIVATE KEY is damaged");
}

TEST(Pem, Files) {
  const test::TempDir directory;
  const std::string path = directory.write("a.pem", block("CERTIFICATE", "MIIB"));
  EXPECT_EQ(check_pem_file(path, PemKind::kCertificate), "");
  EXPECT_EQ(check_pem_file(path + ".none", PemKind::kCertificate),
            "open() failed (2: No such file or directory)");
  EXPECT_EQ(check_pem_file(path.substr(0, path.rfind('/')), PemKind::kCertificate),
            "it is not a regular file");
  const std::string pipe = path + ".pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(check_pem_file(pipe, PemKind::kPrivateKey), "it is not a regular file");
  const std::string large = directory.write("large", std::string(2 * 1024 * 1024, 'x'));
  EXPECT_EQ(check_pem_file(large, PemKind::kCertificate), "it is too large");
}

}  // namespace
}  // namespace corehttpd::tls

#include "corehttpd/http/core_settings.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/http/log_files.h"
#include "corehttpd/http/temp_paths.h"
#include "support/blocks.h"

namespace corehttpd::http {
namespace {

using test::kBlockModule;

class CoreSettingsTest : public ::testing::Test {
 protected:
  CoreSettingsTest() {
    test::kept_locations.clear();
    test::kept_servers.clear();
    options_.prefix = "/srv/";
    options_.path = "/srv/test.conf";
  }
  bool compile(std::string_view text) {
    static const conf::Module* const modules[] = {&kBlockModule, &core_module()};
    diagnostics_ = conf::Diagnostics();
    configuration_ = conf::compile_text(text, options_, modules, diagnostics_);
    return configuration_ != nullptr;
  }
  std::string complaints() const { return diagnostics_.format_all(); }
  const CoreSettings& root() const { return configuration_->root.get<CoreSettings>(); }
  const CoreSettings& location(std::size_t i) const {
    return test::kept_locations[i].get<CoreSettings>();
  }

  conf::Options options_;
  conf::Diagnostics diagnostics_;
  std::unique_ptr<conf::Configuration> configuration_;
};

TEST_F(CoreSettingsTest, DefaultsAreNginxsOrDocumented) {
  ASSERT_TRUE(compile("")) << complaints();
  const CoreSettings& s = root();
  EXPECT_EQ(s.client_header_buffer_size, 1024u);
  EXPECT_EQ(s.large_header_buffers_number, 4u);
  EXPECT_EQ(s.large_header_buffers_size, 8192u);
  EXPECT_EQ(s.client_header_timeout, 60'000);
  EXPECT_EQ(s.client_max_body_size, 1'048'576u);
  EXPECT_EQ(s.client_body_buffer_size, 16'384u);
  EXPECT_EQ(s.keepalive_timeout, 75'000);
  EXPECT_EQ(s.keepalive_header_timeout, -1);
  EXPECT_EQ(s.keepalive_time, 3'600'000);
  EXPECT_EQ(s.lingering_timeout, 5'000);
  EXPECT_EQ(s.max_ranges, UINT64_MAX);
  EXPECT_TRUE(s.merge_slashes);
  EXPECT_TRUE(s.tcp_nopush);
  EXPECT_FALSE(s.internal);
  EXPECT_EQ(s.error_log, nullptr);
}

TEST_F(CoreSettingsTest, EveryDirectiveSetsItsField) {
  ASSERT_TRUE(compile(
      R"(http { absolute_redirect off; chunked_transfer_encoding off; client_body_buffer_size
    128k; client_body_in_file_only clean; client_body_in_single_buffer on; client_body_temp_path
    tmp/body 1 2; client_body_timeout 15s; client_header_buffer_size 4k; client_header_timeout
    16s; client_max_body_size 64M; etag off; if_modified_since before; ignore_invalid_headers
    off; keepalive_requests 10000; keepalive_time 2h; keepalive_timeout 65s 60s;
    large_client_header_buffers 8 16k; lingering_close always; lingering_time 40s;
    lingering_timeout 6s; log_not_found off; log_subrequest on; max_ranges 0; merge_slashes off;
    port_in_redirect off; reset_timedout_connection on; send_timeout 17s; sendfile off;
    server_name_in_redirect on; server_tokens build; tcp_nodelay off; tcp_nopush off;
    underscores_in_headers on; server { location /x { internal; } } })"))
      << complaints();
  const CoreSettings& s = location(0);
  EXPECT_FALSE(s.absolute_redirect);
  EXPECT_FALSE(s.chunked_transfer_encoding);
  EXPECT_EQ(s.client_body_buffer_size, 131'072u);
  EXPECT_EQ(s.client_body_in_file_only, CoreSettings::BodyInFile::kClean);
  EXPECT_TRUE(s.client_body_in_single_buffer);
  EXPECT_EQ(s.client_body_temp_path, "/srv/tmp/body");
  ASSERT_NE(configuration_->object<TempPaths>(), nullptr);
  EXPECT_EQ(configuration_->object<TempPaths>()->paths(),
            std::vector<std::string_view>{"/srv/tmp/body"});
  EXPECT_EQ(s.client_body_timeout, 15'000);
  EXPECT_EQ(s.client_header_buffer_size, 4096u);
  EXPECT_EQ(s.client_header_timeout, 16'000);
  EXPECT_EQ(s.client_max_body_size, 64u * 1024 * 1024);
  EXPECT_FALSE(s.etag);
  EXPECT_EQ(s.if_modified_since, CoreSettings::IfModifiedSince::kBefore);
  EXPECT_FALSE(s.ignore_invalid_headers);
  EXPECT_EQ(s.keepalive_requests, 10'000u);
  EXPECT_EQ(s.keepalive_time, 7'200'000);
  EXPECT_EQ(s.keepalive_timeout, 65'000);
  EXPECT_EQ(s.keepalive_header_timeout, 60'000);
  EXPECT_EQ(s.large_header_buffers_number, 8u);
  EXPECT_EQ(s.large_header_buffers_size, 16'384u);
  EXPECT_EQ(s.lingering_close, CoreSettings::Lingering::kAlways);
  EXPECT_EQ(s.lingering_time, 40'000);
  EXPECT_EQ(s.lingering_timeout, 6'000);
  EXPECT_FALSE(s.log_not_found);
  EXPECT_TRUE(s.log_subrequest);
  EXPECT_EQ(s.max_ranges, 0u);
  EXPECT_FALSE(s.merge_slashes);
  EXPECT_FALSE(s.port_in_redirect);
  EXPECT_TRUE(s.reset_timedout_connection);
  EXPECT_EQ(s.send_timeout, 17'000);
  EXPECT_FALSE(s.sendfile);
  EXPECT_TRUE(s.server_name_in_redirect);
  EXPECT_EQ(s.server_tokens, CoreSettings::Tokens::kBuild);
  EXPECT_FALSE(s.tcp_nodelay);
  EXPECT_FALSE(s.tcp_nopush);
  EXPECT_TRUE(s.underscores_in_headers);
  EXPECT_TRUE(s.internal);
}

TEST_F(CoreSettingsTest, InheritsAndOverrides) {
  ASSERT_TRUE(
      compile("http { client_max_body_size 2m; server { location /a { } location /b { "
              "client_max_body_size 0; } } }"))
      << complaints();
  EXPECT_EQ(location(0).client_max_body_size, 2u * 1024 * 1024);
  EXPECT_EQ(location(1).client_max_body_size, 0u);
  EXPECT_EQ(root().client_max_body_size, 1024u * 1024);
}

TEST_F(CoreSettingsTest, SmallHeaderBuffersAreRaisedOrRefused) {
  ASSERT_TRUE(compile("http { client_header_buffer_size 1; server { } }"));
  EXPECT_EQ(test::kept_servers[0].get<CoreSettings>().client_header_buffer_size, 512u);
  EXPECT_FALSE(compile("http { large_client_header_buffers 4 100; }"));
  EXPECT_FALSE(compile("http { large_client_header_buffers 0 8k; }"));
}

TEST_F(CoreSettingsTest, RefusesNonsense) {
  for (std::string_view text :
       {"http { keepalive_timeout soon; }", "http { server_tokens maybe; }", "http { etag 1; }",
        "internal;", "http { server { internal; } }", "http { error_log x loud; }",
        "http { client_body_temp_path t 1 x; }", "error_log_format xml;",
        "http { etag on; etag off; }", "http { lingering_close; }",
        "http { server { location / { merge_slashes on; } } }"}) {
    EXPECT_FALSE(compile(text)) << text;
    EXPECT_EQ(diagnostics_.errors(), 1u) << text << "\n" << complaints();
  }
}

TEST_F(CoreSettingsTest, ErrorLogsChainAndShareFiles) {
  ASSERT_TRUE(compile(
      "error_log logs/error.log warn; http { error_log stderr; error_log /var/log/x info; server {"
      " location /a { } location /b { error_log logs/error.log debug; } } }"))
      << complaints();
  const LogTarget* main = root().error_log;
  ASSERT_NE(main, nullptr);
  EXPECT_EQ(main->path, "/srv/logs/error.log");
  EXPECT_EQ(main->level, LogLevel::kWarn);
  EXPECT_EQ(main->next, nullptr);
  EXPECT_EQ(main->fd, -1);
  const LogTarget* inherited = location(0).error_log;
  ASSERT_NE(inherited, nullptr);
  EXPECT_EQ(inherited->path, "/var/log/x");
  EXPECT_EQ(inherited->level, LogLevel::kInfo);
  ASSERT_NE(inherited->next, nullptr);
  EXPECT_EQ(inherited->next->path, "");
  EXPECT_EQ(inherited->next->fd, 2);
  EXPECT_EQ(inherited->next->level, LogLevel::kError);
  EXPECT_EQ(inherited->next->next, nullptr);
  const LogTarget* own = location(1).error_log;
  EXPECT_EQ(own->level, LogLevel::kDebug);
  EXPECT_EQ(own->next, nullptr);

  auto* files = configuration_->object<LogFiles>();
  ASSERT_NE(files, nullptr);
  ASSERT_EQ(files->files().size(), 2u);
  files->files()[0]->fd = 70;
  files->files()[1]->fd = 71;
  files->publish();
  EXPECT_EQ(main->fd, 70);
  EXPECT_EQ(own->fd, 70);
  EXPECT_EQ(inherited->fd, 71);
}

TEST_F(CoreSettingsTest, MemoryLogsAreAcceptedWithANotice) {
  ASSERT_TRUE(compile("error_log memory:32m debug;")) << complaints();
  EXPECT_EQ(root().error_log, nullptr);
  ASSERT_EQ(diagnostics_.all().size(), 1u);
  EXPECT_EQ(diagnostics_.all()[0].severity, conf::Severity::kNotice);
}

TEST_F(CoreSettingsTest, EqualSyslogServersAreShared) {
  ASSERT_TRUE(
      compile("error_log syslog:server=[::1]:99,tag=a,facility=ftp warn; http { server {"
              " location /a { error_log syslog:server=[::1]:99,tag=a,facility=ftp; }"
              " location /b { error_log syslog:server=unix:/dev/log,nohostname debug; } } }"))
      << complaints();
  const LogTarget* main = root().error_log;
  ASSERT_NE(main, nullptr);
  EXPECT_EQ(main->fd, -1);
  EXPECT_NE(main->sink, nullptr);
  EXPECT_EQ(location(0).error_log->sink, main->sink);
  EXPECT_NE(location(1).error_log->sink, main->sink);
  const auto& servers = configuration_->object<LogFiles>()->syslogs();
  ASSERT_EQ(servers.size(), 2u);
  const Syslog::Parameters& first = servers[0].syslog->parameters();
  EXPECT_EQ(first.host, "::1");
  EXPECT_EQ(first.port, 99);
  EXPECT_EQ(first.tag, "a");
  EXPECT_EQ(first.facility, 11);
  EXPECT_TRUE(first.hostname);
  const Syslog::Parameters& second = servers[1].syslog->parameters();
  EXPECT_TRUE(second.is_unix);
  EXPECT_EQ(second.host, "/dev/log");
  EXPECT_FALSE(second.hostname);
  EXPECT_EQ(configuration_->object<LogFiles>()->options().most_verbose, LogLevel::kDebug);
}

}  // namespace
}  // namespace corehttpd::http

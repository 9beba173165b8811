#include "corehttpd/conf/sites.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/diagnostics.h"

namespace corehttpd::conf {
namespace {

using Kind = SiteFault::Kind;
using Texts = std::initializer_list<std::string_view>;

// A configuration as far as its sites go.
struct Made {
  Arena arena{4096};
  Sites sites;
  Diagnostics diagnostics;
  Scope http{.context = Context::kHttp};

  std::span<const std::string_view> keep(Texts texts) {
    const auto kept = arena.make_array<std::string_view>(texts.size());
    std::copy(texts.begin(), texts.end(), kept.begin());
    return kept;
  }
  // A scope within a location within the site's server block.
  const Scope& add(Texts addresses, Texts names) {
    Scope* server = arena.make<Scope>();
    server->parent = &http;
    sites.add({*names.begin(), keep(addresses), keep(names), server, {}});
    Scope* location = arena.make<Scope>();
    location->parent = server;
    return *location;
  }
  void degrade(const Scope& scope, std::string_view reason) {
    sites.degrade(scope, Kind::kBackend, {"f", 1, 1}, reason);
  }
  Made& settle() {
    sites.settle(diagnostics);
    return *this;
  }
};

std::string names(const std::vector<SiteFault>& faults) {
  std::string out;
  for (const SiteFault& fault : faults) {
    out += (out.empty() ? "" : " ") + std::string(fault.site->name);
  }
  return out;
}

TEST(Sites, AFaultBelongsToTheServerAroundIt) {
  Made made;
  made.add({"*:80"}, {"a"});
  made.degrade(made.add({"*:80"}, {"b"}), "no such host");
  made.settle();
  ASSERT_EQ(made.sites.faults().size(), 1u);
  EXPECT_EQ(describe_fault(made.sites.faults()[0]), "site \"b\" is degraded: no such host");
  EXPECT_EQ(made.sites.degraded(), 1u);
  ASSERT_EQ(made.diagnostics.all().size(), 1u);
  EXPECT_EQ(made.diagnostics.all()[0].severity, Severity::kWarning);
  EXPECT_TRUE(made.diagnostics.all()[0].degrades);
  EXPECT_EQ(made.diagnostics.errors(), 0u);
}

TEST(Sites, OneReasonOfOneSiteCountsOnce) {
  Made made;
  const Scope& a = made.add({"*:80"}, {"a"});
  const Scope& b = made.add({"*:80"}, {"b"});
  made.degrade(a, "x");
  made.degrade(a, "x");
  made.degrade(a, "y");
  made.degrade(b, "x");
  made.settle();
  EXPECT_EQ(made.sites.faults().size(), 3u);
  EXPECT_EQ(made.sites.degraded(), 2u);
}

TEST(Sites, AFaultOfNoSiteIsNone) {
  Made made;
  made.add({"*:80"}, {"a"});
  made.degrade(made.http, "x");
  made.settle();
  EXPECT_TRUE(made.sites.faults().empty());
}

TEST(NewlyDegraded, OnlyWhatIsHealthyNowRefuses) {
  Made running;
  running.add({"*:80"}, {"healthy"});
  running.degrade(running.add({"*:80"}, {"ill"}), "x");
  running.settle();
  Made fresh;
  fresh.degrade(fresh.add({"*:80"}, {"healthy"}), "x");
  fresh.degrade(fresh.add({"*:80"}, {"ill"}), "another reason");
  fresh.degrade(fresh.add({"*:80"}, {"new"}), "x");
  fresh.settle();
  EXPECT_EQ(names(newly_degraded(running.sites, fresh.sites)), "healthy");
  EXPECT_EQ(names(newly_degraded(fresh.sites, running.sites)), "");
}

TEST(NewlyDegraded, NothingIsRefusedWithoutFaults) {
  Made running;
  running.degrade(running.add({"*:80"}, {"a"}), "x");
  running.settle();
  Made fresh;
  fresh.add({"*:80"}, {"a"});
  fresh.settle();
  EXPECT_EQ(names(newly_degraded(running.sites, fresh.sites)), "");
  Made none;
  EXPECT_EQ(names(newly_degraded(none.settle().sites, fresh.sites)), "");
}

TEST(NewlyDegraded, ASiteIsKnownByOneNameOnOneAddress) {
  Made running;
  running.add({"*:80", "*:443"}, {"a", "www.a"});
  running.add({"*:81"}, {""});
  running.settle();
  const auto refused = [&](Texts addresses, Texts names_of) {
    Made fresh;
    fresh.degrade(fresh.add(addresses, names_of), "x");
    fresh.settle();
    return !newly_degraded(running.sites, fresh.sites).empty();
  };
  EXPECT_TRUE(refused({"*:80"}, {"a", "alias"}));
  EXPECT_TRUE(refused({"*:443", "[::]:443"}, {"alias", "www.a"}));
  EXPECT_FALSE(refused({"*:8080"}, {"a"}));
  EXPECT_FALSE(refused({"*:80"}, {"alias"}));
  EXPECT_TRUE(refused({"*:81"}, {""}));
  EXPECT_FALSE(refused({"*:80"}, {""}));
}

}  // namespace
}  // namespace corehttpd::conf

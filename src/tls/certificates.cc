#include "corehttpd/tls/certificates.h"

#include <fmt/format.h>

#include <unordered_map>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"

namespace corehttpd::tls {
namespace {

using conf::Context;
using S = CertificateSettings;

// Not a file that could be looked at now: nginx's "data:…" and "engine:…", and names with
// variables.
bool is_plain_path(std::string_view text) {
  return text.find('$') == std::string_view::npos && !text.starts_with("data:") &&
         !text.starts_with("engine:") && !text.starts_with("store:");
}

template <NamedFile* S::*kList>
bool add_file(const conf::Setting& s) {
  S& settings = *static_cast<S*>(s.settings);
  if (s.word(0).empty()) return s.fail(0, "no file in \"{}\"", s.name());
  NamedFile* file = s.arena().make<NamedFile>();
  file->path = is_plain_path(s.word(0)) ? s.compiler.full_path(s.word(0)) : s.word(0);
  file->at = s.node.words[0].at;
  file->width = static_cast<std::uint32_t>(s.word(0).size() + (s.node.words[0].quoted ? 2 : 0));
  if (s.first_here) settings.*kList = nullptr;
  // At the end, so that certificates and keys are paired as they were written. Only this block's
  // own list is changed: it starts fresh at the first.
  NamedFile** end = &(settings.*kList);
  while (*end != nullptr) end = &(*end)->next;
  *end = file;
  return true;
}

// Sites share files; each is read once.
class Checker {
 public:
  explicit Checker(conf::Compiler& compiler) : compiler_(compiler) {}

  void check(const conf::Site& site) {
    const auto& settings = site.scope->view().get<S>();
    if (settings.certificates == nullptr) {
      return error(site.tls_at,
                   "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive",
                   "a site that listens with \"ssl\" needs ssl_certificate and ssl_certificate_key",
                   site.tls_width);
    }
    const NamedFile* key = settings.keys;
    for (const NamedFile* one = settings.certificates; one != nullptr; one = one->next) {
      if (key == nullptr) {
        return error(
            one->at,
            fmt::format("no \"ssl_certificate_key\" is defined for certificate \"{}\"", one->path),
            "each ssl_certificate has its own ssl_certificate_key, in the same order", one->width);
      }
      check_file(site, *one, PemKind::kCertificate, "certificate");
      check_file(site, *key, PemKind::kPrivateKey, "certificate key");
      key = key->next;
    }
  }

 private:
  void check_file(const conf::Site& site, const NamedFile& file, PemKind kind, const char* what) {
    if (!is_plain_path(file.path)) return;
    const std::string key =
        fmt::format("{}{}", kind == PemKind::kPrivateKey ? 'k' : 'c', file.path);
    const auto [known, is_new] = reasons_.try_emplace(key);
    if (is_new) known->second = check_pem_file(file.path, kind);
    if (known->second.empty()) return;
    compiler_.degrade_site(*site.scope, conf::SiteFault::Kind::kCertificate, file.at,
                           fmt::format("cannot load {} \"{}\": {}", what, file.path, known->second),
                           file.width);
  }

  void error(const conf::Position& at, std::string message, std::string help, std::size_t width) {
    compiler_.diagnostics().add(conf::Severity::kError, at, std::move(message), std::move(help),
                                width);
  }

  conf::Compiler& compiler_;
  std::unordered_map<std::string, std::string> reasons_;
};

void finish(conf::Compiler& compiler) {
  Checker checker(compiler);
  for (const conf::Site& site : compiler.configuration().sites().all()) {
    if (site.tls_at.line != 0) checker.check(site);
  }
}

constexpr conf::Directive kDirectives[] = {
    {.name = "ssl_certificate",
     .contexts = Context::kHttp | Context::kServer,
     .syntax = "file",
     .set = add_file<&S::certificates>,
     .inherit = conf::Inherit::kList,
     .doc = "File in PEM with the certificate of the site and those that lead to its authority, in "
            "this order. May be repeated for other kinds of keys. A site whose file cannot be used "
            "is not served over TLS."},
    {.name = "ssl_certificate_key",
     .contexts = Context::kHttp | Context::kServer,
     .syntax = "file",
     .set = add_file<&S::keys>,
     .inherit = conf::Inherit::kList,
     .doc = "File in PEM with the private key of the certificate; only the master reads it."},
};
static_assert(conf::well_formed(kDirectives));

}  // namespace

const conf::Module& certificates_module() {
  static constexpr conf::Module kModule = conf::module<S>("tls", kDirectives, finish);
  return kModule;
}

}  // namespace corehttpd::tls

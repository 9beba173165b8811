// The ssl_* directives. What they name is loaded by the Store (store.cc).
#include <fmt/format.h>

#include "corehttpd/conf/compiler.h"
#include "corehttpd/conf/values.h"
#include "corehttpd/tls/settings.h"
#include "tls/store_builder.h"

namespace corehttpd::tls {
namespace {

using conf::Context;
using S = Settings;

constexpr Context kHttpServer = Context::kHttp | Context::kServer;

NamedFile* make_file(const conf::Setting& s, std::size_t word) {
  NamedFile* file = s.arena().make<NamedFile>();
  const std::string_view text = s.word(word);
  const bool inline_text =
      text.starts_with("data:") || text.starts_with("engine:") || text.starts_with("store:");
  file->path = inline_text ? text : s.compiler.full_path(text);
  file->at = s.node.words[word].at;
  file->width = static_cast<std::uint32_t>(text.size() + (s.node.words[word].quoted ? 2 : 0));
  return file;
}

template <NamedFile* S::*kList>
bool add_file(const conf::Setting& s) {
  S& settings = *static_cast<S*>(s.settings);
  if (s.word(0).empty()) return s.fail(0, "no file in \"{}\"", s.name());
  if (s.first_here) settings.*kList = nullptr;
  // At the end, so that certificates and keys are paired as they were written. Only this block's
  // own list is changed: it starts fresh at the first.
  NamedFile** end = &(settings.*kList);
  while (*end != nullptr) end = &(*end)->next;
  *end = make_file(s, 0);
  return true;
}

template <NamedFile* S::*kFile>
bool set_file(const conf::Setting& s) {
  if (s.word(0).empty()) return s.fail(0, "no file in \"{}\"", s.name());
  static_cast<S*>(s.settings)->*kFile = make_file(s, 0);
  return true;
}

bool set_protocols(const conf::Setting& s) {
  S& settings = *static_cast<S*>(s.settings);
  settings.protocols = 0;
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    const std::string_view word = s.word(i);
    if (text::equals_ignore_case(word, "TLSv1.2")) {
      settings.protocols |= kTls12;
    } else if (text::equals_ignore_case(word, "TLSv1.3")) {
      settings.protocols |= kTls13;
    } else if (text::equals_ignore_case(word, "TLSv1") ||
               text::equals_ignore_case(word, "TLSv1.1") ||
               text::equals_ignore_case(word, "SSLv2") || text::equals_ignore_case(word, "SSLv3")) {
      s.warn(i, "\"{}\" is not spoken any more, it is left out", word);
    } else {
      return s.fail_text(i, fmt::format("invalid value \"{}\"", word),
                         "protocols are TLSv1.2 and TLSv1.3");
    }
  }
  if (settings.protocols != 0) return true;
  return s.fail_text(0, "no protocol is left", "protocols are TLSv1.2 and TLSv1.3");
}

bool add_command(const conf::Setting& s) {
  S& settings = *static_cast<S*>(s.settings);
  if (s.first_here) settings.commands = nullptr;
  ConfCommand** end = &settings.commands;
  while (*end != nullptr) end = &(*end)->next;
  const std::string_view value =
      command_names_file(s.word(0)) ? s.compiler.full_path(s.word(1)) : s.word(1);
  *end = s.arena().make<ConfCommand>(ConfCommand{s.word(0), value, s.node.words[0].at, nullptr});
  return check_command(s, **end);
}

bool set_verify(const conf::Setting& s) {
  static constexpr conf::Choice<VerifyClient> kChoices[] = {
      {"off", VerifyClient::kOff},
      {"on", VerifyClient::kOn},
      {"optional", VerifyClient::kOptional},
      {"optional_no_ca", VerifyClient::kOptionalNoCa},
  };
  return conf::set_choice<&S::verify, kChoices>(s);
}

bool read_shared_cache(const conf::Setting& s, std::size_t word, std::string_view rest) {
  S& settings = *static_cast<S*>(s.settings);
  const std::size_t colon = rest.find(':');
  const auto bytes =
      colon == std::string_view::npos ? std::nullopt : conf::parse_size(rest.substr(colon + 1));
  constexpr std::uint64_t kBytesMin = 32 * 1024;
  constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 30;
  if (colon == 0 || !bytes || *bytes > kBytesMax) {
    return s.fail_text(word, fmt::format("invalid session cache \"{}\"", s.word(word)),
                       "shared:NAME:SIZE, as in shared:tls:10m");
  }
  if (*bytes < kBytesMin) return s.fail(word, "session cache \"{}\" is too small", s.word(word));
  settings.session_cache = SessionCacheKind::kShared;
  settings.session_zone = rest.substr(0, colon);
  settings.session_zone_bytes = *bytes;
  return true;
}

bool set_session_cache(const conf::Setting& s) {
  S& settings = *static_cast<S*>(s.settings);
  settings.session_cache = SessionCacheKind::kNone;
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    const std::string_view word = s.word(i);
    if (word == "off") {
      settings.session_cache = SessionCacheKind::kOff;
    } else if (word == "none") {
      settings.session_cache = SessionCacheKind::kNone;
    } else if (word == "builtin" || word.starts_with("builtin:")) {
      s.compiler.diagnostics().add(conf::Severity::kNotice, s.node.words[i].at,
                                   "the \"builtin\" session cache is not kept",
                                   "tickets and \"shared\" caches serve all workers", word.size());
    } else if (word.starts_with("shared:")) {
      if (!read_shared_cache(s, i, word.substr(7))) return false;
    } else {
      return s.fail_text(i, fmt::format("invalid session cache \"{}\"", word),
                         "off, none, builtin or shared:NAME:SIZE");
    }
  }
  return true;
}

// "ssl_stapling on" and its like need answers of the authority to be fetched.
bool note_stapling(const conf::Setting& s) {
  if (s.word(0) == "off") return true;
  s.compiler.diagnostics().add(
      conf::Severity::kNotice, s.node.name.at,
      fmt::format("\"{}\" has no effect: answers of the authority are not fetched", s.name()),
      "ssl_stapling_file takes one that was fetched", s.name().size());
  return true;
}

bool check_certificate_cache(const conf::Setting& s) {
  for (std::size_t i = 0; i < s.words().size(); ++i) {
    const std::string_view word = s.word(i);
    const bool known = word == "off" ? s.words().size() == 1
                                     : word.starts_with("max=") || word.starts_with("inactive=") ||
                                           word.starts_with("valid=");
    if (!known)
      return s.fail_text(i, fmt::format("invalid parameter \"{}\"", word),
                         "off, or max=N with inactive=time and valid=time");
  }
  return true;
}

constexpr conf::Directive kDirectives[] = {
    {.name = "ssl_buffer_size",
     .contexts = kHttpServer,
     .syntax = "size",
     .set = conf::set_size<&S::buffer_size>,
     .default_value = "16k",
     .doc = "The largest payload of a TLS record; at most 16k."},
    {.name = "ssl_certificate",
     .contexts = kHttpServer,
     .syntax = "file | data:text",
     .set = add_file<&S::certificates>,
     .inherit = conf::Inherit::kList,
     .doc =
         "File in PEM with the certificate of the site and those that lead to its authority, in "
         "this order; or the text itself after \"data:\". May be repeated for other kinds of "
         "keys. A site whose file cannot be used is not served over TLS. A changed file is taken "
         "up without a reload. With $ssl_server_name in the path the master reads every file that "
         "it can stand for, new ones too, and clients get that of the name they ask for."},
    {.name = "ssl_certificate_cache",
     .contexts = kHttpServer,
     .arity = conf::between(1, 3),
     .syntax = "off | max=N [inactive=time] [valid=time]",
     .set = check_certificate_cache,
     .default_value = "off",
     .doc =
         "Accepted: certificates with variables in their paths are in memory anyway, and changes "
         "are taken up at once."},
    {.name = "ssl_certificate_key",
     .contexts = kHttpServer,
     .syntax = "file | data:text",
     .set = add_file<&S::keys>,
     .inherit = conf::Inherit::kList,
     .doc =
         "File in PEM with the private key of the certificate; only the master reads it. May have "
         "$ssl_server_name in it, as ssl_certificate."},
    {.name = "ssl_ciphers",
     .contexts = kHttpServer,
     .syntax = "ciphers",
     .set = conf::set_text<&S::ciphers>,
     .default_value = "HIGH:!aNULL:!MD5:!kRSA:!PSK:!SRP",
     .doc = "Ciphers of TLS 1.2, in OpenSSL's format. Unlike in nginx those without forward "
            "secrecy are left out by default."},
    {.name = "ssl_client_certificate",
     .contexts = kHttpServer,
     .syntax = "file",
     .set = set_file<&S::client_ca>,
     .doc = "Authorities of client certificates, in PEM; clients are told their names."},
    {.name = "ssl_conf_command",
     .contexts = kHttpServer,
     .arity = conf::exactly(2),
     .syntax = "name value",
     .set = add_command,
     .inherit = conf::Inherit::kList,
     .doc = "A command of OpenSSL's SSL_CONF_cmd(3), such as Ciphersuites or Options."},
    {.name = "ssl_crl",
     .contexts = kHttpServer,
     .syntax = "file",
     .set = set_file<&S::crl>,
     .doc = "Revoked client certificates, in PEM."},
    {.name = "ssl_dhparam",
     .contexts = kHttpServer,
     .syntax = "file",
     .set = set_file<&S::dhparam>,
     .doc = "Parameters for DHE ciphers, in PEM; without it there are none."},
    {.name = "ssl_dyn_rec_enable",
     .contexts = kHttpServer,
     .syntax = "on | off",
     .set = conf::set_flag<&S::dynamic_records>,
     .default_value = "on",
     .doc = "Small records at the beginning of a connection and after a pause, so that clients can "
            "use the first bytes early."},
    {.name = "ssl_dyn_rec_size_hi",
     .contexts = kHttpServer,
     .syntax = "size",
     .set = conf::set_size<&S::dynamic_size_high>,
     .default_value = "4229",
     .doc = "Payload of the records that follow the smallest."},
    {.name = "ssl_dyn_rec_size_lo",
     .contexts = kHttpServer,
     .syntax = "size",
     .set = conf::set_size<&S::dynamic_size_low>,
     .default_value = "1369",
     .doc = "Payload of the smallest records."},
    {.name = "ssl_dyn_rec_threshold",
     .contexts = kHttpServer,
     .syntax = "number",
     .set = conf::set_number<&S::dynamic_threshold, 1>,
     .default_value = "4",
     .doc = "How many records of each smaller size are sent before the next larger."},
    {.name = "ssl_dyn_rec_timeout",
     .contexts = kHttpServer,
     .syntax = "time",
     .set = conf::set_time<&S::dynamic_timeout>,
     .default_value = "1s",
     .doc = "The pause after which records are small again."},
    {.name = "ssl_early_data",
     .contexts = kHttpServer,
     .syntax = "on | off",
     .set = conf::set_flag<&S::early_data>,
     .default_value = "off",
     .doc = "Requests in the first flight of TLS 1.3, of clients that were here before. Only GET, "
            "HEAD, OPTIONS and TRACE are served so early, others get 425 and are sent again. None "
            "is taken twice by this machine; with ssl_session_ticket_key on several, each takes it "
            "once. Sites with ssl_verify_client or keys above RSA-2048 take none."},
    {.name = "ssl_ecdh_curve",
     .contexts = kHttpServer,
     .syntax = "curves",
     .set = conf::set_text<&S::curves>,
     .default_value = "auto",
     .doc = "Groups for the key exchange, in order, with colons between; auto: the library's, with "
            "post-quantum hybrids where it has them."},
    {.name = "ssl_password_file",
     .contexts = kHttpServer,
     .syntax = "file",
     .set = set_file<&S::passwords>,
     .doc = "Passphrases of private keys, one per line; each is tried."},
    {.name = "ssl_prefer_server_ciphers",
     .contexts = kHttpServer,
     .syntax = "on | off",
     .set = conf::set_flag<&S::prefer_server_ciphers>,
     .default_value = "off",
     .doc = "Whether the server's order of ciphers counts rather than the client's."},
    {.name = "ssl_protocols",
     .contexts = kHttpServer,
     .arity = conf::at_least(1),
     .syntax = "[TLSv1.2] [TLSv1.3]",
     .set = set_protocols,
     .default_value = "TLSv1.2 TLSv1.3",
     .doc = "Protocols spoken. Older ones are left out with a warning."},
    {.name = "ssl_reject_handshake",
     .contexts = kHttpServer,
     .syntax = "on | off",
     .set = conf::set_flag<&S::reject_handshake>,
     .default_value = "off",
     .doc = "Refuses handshakes for the server's names, or in the default server for all names "
            "that no server has. No certificate is needed then."},
    {.name = "ssl_session_cache",
     .contexts = kHttpServer,
     .arity = conf::between(1, 2),
     .syntax = "off | none | [builtin[:size]] [shared:name:size]",
     .set = set_session_cache,
     .default_value = "none",
     .doc = "Sessions of TLS 1.2 clients without tickets, kept in memory that all workers share. "
            "Tickets need none."},
    {.name = "ssl_session_ticket_key",
     .contexts = kHttpServer,
     .syntax = "file",
     .set = add_file<&S::ticket_keys>,
     .inherit = conf::Inherit::kList,
     .doc = "File of 48 or 80 random bytes, for servers that share tickets: the first encrypts, "
            "all decrypt. Without it the server makes its keys and changes them by itself."},
    {.name = "ssl_session_tickets",
     .contexts = kHttpServer,
     .syntax = "on | off",
     .set = conf::set_flag<&S::session_tickets>,
     .default_value = "on",
     .doc = "Whether sessions can be resumed by tickets that clients keep."},
    {.name = "ssl_session_timeout",
     .contexts = kHttpServer,
     .syntax = "time",
     .set = conf::set_time<&S::session_timeout>,
     .default_value = "5m",
     .doc = "How long a session can be resumed."},
    {.name = "ssl_stapling",
     .contexts = kHttpServer,
     .syntax = "on | off",
     .set = note_stapling,
     .default_value = "off",
     .doc = "Accepted; answers of the authority are not fetched, see ssl_stapling_file."},
    {.name = "ssl_stapling_file",
     .contexts = kHttpServer,
     .syntax = "file",
     .set = set_file<&S::stapling_file>,
     .doc = "The authority's answer about the certificate (OCSP, DER), sent along with it."},
    {.name = "ssl_stapling_responder",
     .contexts = kHttpServer,
     .syntax = "url",
     .set = note_stapling,
     .inherit = conf::Inherit::kNone,
     .doc = "Accepted; answers of the authority are not fetched."},
    {.name = "ssl_stapling_verify",
     .contexts = kHttpServer,
     .syntax = "on | off",
     .set = note_stapling,
     .default_value = "off",
     .doc = "Accepted; answers of the authority are not fetched."},
    {.name = "ssl_trusted_certificate",
     .contexts = kHttpServer,
     .syntax = "file",
     .set = set_file<&S::trusted>,
     .doc = "Further authorities of client certificates, whose names clients are not told."},
    {.name = "ssl_verify_client",
     .contexts = kHttpServer,
     .syntax = "on | off | optional | optional_no_ca",
     .set = set_verify,
     .default_value = "off",
     .doc = "Whether clients are asked for a certificate: on refuses requests without a good one "
            "(400; error_page 495, 496), optional only those with a bad one, optional_no_ca leaves "
            "the judgement to the site."},
    {.name = "ssl_verify_depth",
     .contexts = kHttpServer,
     .syntax = "number",
     .set = conf::set_number<&S::verify_depth>,
     .default_value = "1",
     .doc = "The longest chain from a client's certificate to its authority."},
};
static_assert(conf::well_formed(kDirectives));

void finish(conf::Compiler& compiler) { build_store(compiler); }

}  // namespace

bool is_plain_path(std::string_view text) {
  return text.find('$') == std::string_view::npos && !text.starts_with("data:") &&
         !text.starts_with("engine:") && !text.starts_with("store:");
}

const conf::Module& module() {
  static constexpr conf::Module kModule = conf::module<S>("tls", kDirectives, finish);
  return kModule;
}

}  // namespace corehttpd::tls

// One library context per policy.
#include "tls/policy.h"

#include <fmt/format.h>

#include "tls/callbacks.h"
#include "tls/small_file.h"
#include "tls/store_builder.h"

namespace corehttpd::tls {
namespace {

constexpr std::uint64_t kOptions =
    SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_SINGLE_ECDH_USE | SSL_OP_SINGLE_DH_USE;
constexpr long kModes =
    SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER;

ContextPtr make_context() {
  ContextPtr context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return context;
  SSL_CTX_set_options(context.get(), kOptions);
  SSL_CTX_set_mode(context.get(), kModes);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  // Each costs a twentieth of a handshake; a client that resumes is given the next one.
  SSL_CTX_set_num_tickets(context.get(), 1);
  // Where a site takes early data its connections say so themselves; of others it is skipped, up to
  // the library's limit.
  SSL_CTX_set_max_early_data(context.get(), 0);
  return context;
}

int accept_any(int, X509_STORE_CTX*) { return 1; }

std::string use_authorities(const Settings& settings, SSL_CTX* context) {
  if (settings.client_ca != nullptr) {
    const std::string path(settings.client_ca->path);
    if (SSL_CTX_load_verify_locations(context, path.c_str(), nullptr) != 1) {
      return fmt::format("cannot load client certificate authorities \"{}\": {}", path,
                         take_error());
    }
    STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(path.c_str());
    if (names == nullptr)
      return fmt::format("SSL_load_client_CA_file(\"{}\") failed: {}", path, take_error());
    SSL_CTX_set_client_CA_list(context, names);
  }
  if (settings.trusted != nullptr) {
    const std::string path(settings.trusted->path);
    if (SSL_CTX_load_verify_locations(context, path.c_str(), nullptr) != 1)
      return fmt::format("cannot load trusted certificates \"{}\": {}", path, take_error());
  }
  if (settings.crl != nullptr) {
    const std::string path(settings.crl->path);
    X509_STORE* store = SSL_CTX_get_cert_store(context);
    X509_LOOKUP* lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
    if (lookup == nullptr || X509_LOOKUP_load_file(lookup, path.c_str(), X509_FILETYPE_PEM) < 1)
      return fmt::format("cannot load revoked certificates \"{}\": {}", path, take_error());
    X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  }
  ERR_clear_error();
  return {};
}

std::string use_dhparam(const Settings& settings, SSL_CTX* context) {
  if (settings.dhparam == nullptr) return {};
  const std::string path(settings.dhparam->path);
  const BioPtr bio(BIO_new_file(path.c_str(), "r"));
  KeyPtr parameters(bio == nullptr ? nullptr : PEM_read_bio_Parameters(bio.get(), nullptr));
  if (parameters == nullptr || SSL_CTX_set0_tmp_dh_pkey(context, parameters.get()) != 1)
    return fmt::format("cannot load dhparam \"{}\": {}", path, take_error());
  static_cast<void>(parameters.release());
  return {};
}

int give_stapling(SSL* ssl, void* argument) {
  auto& policy = *static_cast<Policy*>(argument);
  const std::scoped_lock lock(policy.stapling_mutex);
  const std::string& answer = policy.stapling;
  auto* copy = static_cast<unsigned char*>(OPENSSL_memdup(answer.data(), answer.size()));
  if (copy == nullptr) return SSL_TLSEXT_ERR_NOACK;
  SSL_set_tlsext_status_ocsp_resp(ssl, copy, static_cast<long>(answer.size()));
  return SSL_TLSEXT_ERR_OK;
}

std::string use_stapling(const Settings& settings, Policy& policy) {
  if (settings.stapling_file == nullptr) return {};
  policy.stapling_source = settings.stapling_file->path;
  policy.files.add(policy.stapling_source);
  if (std::string reason = load_stapling(policy); !reason.empty()) return reason;
  SSL_CTX_set_tlsext_status_cb(policy.context.get(), give_stapling);
  SSL_CTX_set_tlsext_status_arg(policy.context.get(), &policy);
  return {};
}

// Commands that change what is copied from the first context must also reach each connection.
bool names_groups(const ConfCommand& command) {
  return command.name == "Groups" || command.name == "Curves";
}

std::string use_commands(const Settings& settings, Policy& policy) {
  if (settings.commands == nullptr) return {};
  const ConfPtr conf(SSL_CONF_CTX_new());
  SSL_CONF_CTX_set_flags(conf.get(), SSL_CONF_FLAG_FILE | SSL_CONF_FLAG_SERVER |
                                         SSL_CONF_FLAG_CERTIFICATE | SSL_CONF_FLAG_SHOW_ERRORS);
  SSL_CONF_CTX_set_ssl_ctx(conf.get(), policy.context.get());
  for (const ConfCommand* one = settings.commands; one != nullptr; one = one->next) {
    const std::string name(one->name);
    const std::string value(one->value);
    if (SSL_CONF_cmd(conf.get(), name.c_str(), value.c_str()) <= 0) {
      return fmt::format("SSL_CONF_cmd(\"{}\", \"{}\") failed: {}", name, value, take_error());
    }
    if (names_groups(*one)) policy.curves = value;
  }
  if (SSL_CONF_CTX_finish(conf.get()) != 1) return "SSL_CONF_CTX_finish() failed: " + take_error();
  return {};
}

std::string use_values(const Settings& settings, Policy& policy) {
  SSL_CTX* context = policy.context.get();
  const std::string ciphers(settings.ciphers);
  if (!ciphers.empty() && SSL_CTX_set_cipher_list(context, ciphers.c_str()) != 1)
    return fmt::format("SSL_CTX_set_cipher_list(\"{}\") failed: {}", ciphers, take_error());
  if (settings.prefer_server_ciphers) SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
  if (!settings.curves.empty() && settings.curves != "auto") {
    policy.curves = settings.curves;
    if (SSL_CTX_set1_groups_list(context, policy.curves.c_str()) != 1) {
      return fmt::format("SSL_CTX_set1_curves_list(\"{}\") failed: {}", policy.curves,
                         take_error());
    }
  }
  const bool old = (settings.protocols & kTls12) != 0;
  const bool fresh = (settings.protocols & kTls13) != 0;
  SSL_CTX_set_min_proto_version(context, old ? TLS1_2_VERSION : TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context, fresh ? 0 : TLS1_2_VERSION);
  // Of this context the library asks whether clients are given an identifier.
  if (settings.session_cache == SessionCacheKind::kShared)
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_SERVER | SSL_SESS_CACHE_NO_INTERNAL);
  // The library's own defence keeps each session in one process, to be used once; ours is the
  // store's guard.
  if (settings.early_data) SSL_CTX_set_options(context, SSL_OP_NO_ANTI_REPLAY);
  if (!settings.session_tickets) SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  if (settings.verify != VerifyClient::kOff) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, accept_any);
    SSL_CTX_set_verify_depth(context, static_cast<int>(settings.verify_depth));
  }
  return use_commands(settings, policy);
}

}  // namespace

std::string load_stapling(Policy& policy) {
  policy.files.note();
  std::string answer;
  std::string reason = read_small_file(policy.stapling_source, answer);
  if (reason.empty()) {
    const auto* begin = reinterpret_cast<const unsigned char*>(answer.data());
    const OcspPtr parsed(d2i_OCSP_RESPONSE(nullptr, &begin, static_cast<long>(answer.size())));
    if (parsed == nullptr) reason = "d2i_OCSP_RESPONSE() failed: " + take_error();
  }
  if (!reason.empty()) {
    return fmt::format("cannot load ssl_stapling_file \"{}\": {}", policy.stapling_source, reason);
  }
  policy.stapling = std::move(answer);
  return {};
}

ContextPtr make_base_context(bool caches) {
  ContextPtr context = make_context();
  if (context == nullptr) return context;
  install_callbacks(context.get());
  install_base_callbacks(context.get());
  if (caches) install_session_callbacks(context.get());
  return context;
}

std::string make_policy(const Settings& settings, Policy& policy, bool& bad_file) {
  bad_file = false;
  policy.context = make_context();
  if (policy.context == nullptr) return "SSL_CTX_new() failed: " + take_error();
  SSL_CTX* context = policy.context.get();
  install_callbacks(context);
  if (std::string reason = use_values(settings, policy); !reason.empty()) return reason;
  policy.protocol_min = static_cast<int>(SSL_CTX_get_min_proto_version(context));
  policy.protocol_max = static_cast<int>(SSL_CTX_get_max_proto_version(context));
  // Below TLS 1.2 nothing is spoken, whatever a command says.
  if (policy.protocol_min < TLS1_2_VERSION) policy.protocol_min = TLS1_2_VERSION;
  bad_file = true;
  if (std::string reason = use_authorities(settings, context); !reason.empty()) return reason;
  if (std::string reason = use_dhparam(settings, context); !reason.empty()) return reason;
  return use_stapling(settings, policy);
}

bool command_names_file(std::string_view name) {
  const ConfPtr conf(SSL_CONF_CTX_new());
  if (conf == nullptr) return false;
  SSL_CONF_CTX_set_flags(conf.get(), SSL_CONF_FLAG_FILE | SSL_CONF_FLAG_SERVER |
                                         SSL_CONF_FLAG_CERTIFICATE | SSL_CONF_FLAG_SHOW_ERRORS);
  const int kind = SSL_CONF_cmd_value_type(conf.get(), std::string(name).c_str());
  return kind == SSL_CONF_TYPE_FILE || kind == SSL_CONF_TYPE_DIR;
}

bool check_command(const conf::Setting& setting, const ConfCommand& command) {
  const ContextPtr context = make_context();
  const ConfPtr conf(SSL_CONF_CTX_new());
  if (context == nullptr || conf == nullptr) return setting.fail(0, "SSL_CONF_CTX_new() failed");
  SSL_CONF_CTX_set_flags(conf.get(), SSL_CONF_FLAG_FILE | SSL_CONF_FLAG_SERVER |
                                         SSL_CONF_FLAG_CERTIFICATE | SSL_CONF_FLAG_SHOW_ERRORS);
  SSL_CONF_CTX_set_ssl_ctx(conf.get(), context.get());
  const std::string name(command.name);
  const std::string value(command.value);
  if (SSL_CONF_cmd_value_type(conf.get(), name.c_str()) == SSL_CONF_TYPE_UNKNOWN)
    return setting.fail(0, "unknown command \"{}\"", name);
  if (SSL_CONF_cmd(conf.get(), name.c_str(), value.c_str()) > 0) return true;
  return setting.fail(1, "SSL_CONF_cmd(\"{}\", \"{}\") failed: {}", name, value, take_error());
}

}  // namespace corehttpd::tls

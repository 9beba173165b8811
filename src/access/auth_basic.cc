#include "corehttpd/access/auth_basic.h"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "access/gate.h"
#include "access/user_file.h"
#include "corehttpd/access/passwords.h"
#include "corehttpd/assets/file_lookup.h"
#include "corehttpd/conf/compiler.h"
#include "corehttpd/http/credentials.h"

namespace corehttpd::access {
namespace {

using conf::Setting;
using http::Exchange;

constexpr std::string_view kOff = "off";

// A quoted-string (RFC 9110 §5.6.4), whatever variables bring.
std::string_view basic_challenge(Exchange& exchange, std::string_view realm) {
  std::string value = "Basic realm=\"";
  for (const char c : realm) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) continue;
    if (c == '"' || c == '\\') value.push_back('\\');
    value.push_back(c);
  }
  value.push_back('"');
  return exchange.arena().copy(value);
}

// Reads a user file that is not in memory, in an offload thread. Destroys itself.
class UserFileScan;

// One request's question for a user and password; in its arena.
class Attempt final : public http::AbortHook, public PasswordWaiter {
 public:
  Attempt(Exchange& exchange, const http::BasicCredentials& credentials, std::string_view file,
          std::string_view realm)
      : http::AbortHook(
            [](http::AbortHook& hook, const Error&) { static_cast<Attempt&>(hook).forget(); }),
        PasswordWaiter([](PasswordWaiter& waiter, bool match) {
          auto& self = static_cast<Attempt&>(waiter);
          conclude(self.exchange_, self.judge(match));
        }),
        exchange_(exchange),
        credentials_(credentials),
        file_(file),
        realm_(realm) {
    exchange.on_abort(*this);
  }
  ~Attempt() { forget(); }

  Verdict run();
  void on_scanned(const UserFileScan& scan);
  std::string_view user() const { return credentials_.user; }

 private:
  void forget();
  Verdict fail_file(const char* call, int error);
  Verdict start_scan(FileRef file);
  Verdict verify(const UserFileReader& reader);
  Verdict judge(bool match);
  Verdict refuse() {
    challenge(exchange_, basic_challenge(exchange_, realm_));
    return Verdict::refused(401);
  }
  Verdict busy() {
    exchange_.log(LogLevel::kError, 0, "too many passwords are being checked");
    return Verdict::refused(503);
  }

  Exchange& exchange_;
  const http::BasicCredentials& credentials_;
  std::string_view file_, realm_;
  UserFileScan* scan_ = nullptr;
};

class UserFileScan final : public io::OffloadTask {
 public:
  UserFileScan(Attempt& attempt, FileRef file)
      : attempt_(&attempt), file_(std::move(file)), user_(attempt.user()), reader_(user_) {}
  void forget() { attempt_ = nullptr; }

  void run() noexcept override {
    std::vector<char> buffer(std::size_t{64} * 1024);
    off_t offset = 0;
    for (;;) {
      const ssize_t count = ::pread(file_->fd(), buffer.data(), buffer.size(), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) error_ = errno;
      if (count <= 0) return;
      offset += count;
      if (reader_.feed({buffer.data(), static_cast<std::size_t>(count)})) return;
    }
  }
  void done() override {
    if (attempt_ != nullptr) attempt_->on_scanned(*this);
    delete this;
  }
  int error() const { return error_; }
  const UserFileReader& reader() const { return reader_; }

 private:
  Attempt* attempt_;  // nullptr: its exchange has gone.
  FileRef file_;
  const std::string user_;
  UserFileReader reader_;
  int error_ = 0;
};

void Attempt::forget() {
  if (UserFileScan* scan = std::exchange(scan_, nullptr)) scan->forget();
  static_cast<ListHook<>&>(*this).unlink();
}

Verdict Attempt::run() {
  const auto entry = exchange_.services().files->lookup(file_, {});
  if (!entry) return fail_file("open()", entry.error().detail);
  if (entry->kind == assets::FileEntry::Kind::kDirectory) return fail_file("read()", EISDIR);
  if (entry->kind != assets::FileEntry::Kind::kRegular) return fail_file("open()", EINVAL);
  if (entry->file) return start_scan(entry->file);
  UserFileReader reader(user());
  if (entry->size != 0) {
    reader.feed({reinterpret_cast<const char*>(entry->content->data()),
                 static_cast<std::size_t>(entry->size)});
  }
  return verify(reader);
}

// As nginx: nobody is let in by a file that does not exist, and any other trouble is our own.
Verdict Attempt::fail_file(const char* call, int error) {
  const bool missing = error == ENOENT;
  exchange_.log(missing ? LogLevel::kError : LogLevel::kCrit, error, "{} \"{}\" failed", call,
                file_);
  return Verdict::refused(missing ? 403 : 500);
}

Verdict Attempt::start_scan(FileRef file) {
  auto* scan = new UserFileScan(*this, std::move(file));
  if (!exchange_.services().loop.offload(*scan)) {
    delete scan;
    return busy();
  }
  scan_ = scan;
  return Verdict::pending();
}

void Attempt::on_scanned(const UserFileScan& scan) {
  scan_ = nullptr;
  const Verdict verdict =
      scan.error() != 0 ? fail_file("read()", scan.error()) : verify(scan.reader());
  if (verdict.kind != Verdict::Kind::kPending) conclude(exchange_, verdict);
}

Verdict Attempt::verify(const UserFileReader& reader) {
  if (!reader.found()) {
    exchange_.log(LogLevel::kError, 0, "user \"{}\" was not found in \"{}\"", user(), file_);
    return refuse();
  }
  const auto answer =
      exchange_.services().passwords->check(reader.hash(), credentials_.password, *this);
  switch (answer) {
    case PasswordChecks::Answer::kMatch:
      return judge(true);
    case PasswordChecks::Answer::kMismatch:
      return judge(false);
    case PasswordChecks::Answer::kPending:
      return Verdict::pending();
    case PasswordChecks::Answer::kBusy:
      break;
  }
  return busy();
}

Verdict Attempt::judge(bool match) {
  if (match) return Verdict::granted();
  exchange_.log(LogLevel::kError, 0, "user \"{}\": password mismatch", user());
  return refuse();
}

// Blocks that ask for a password where no file is named.
struct Asking {
  struct Block {
    const conf::Scope* scope;
    conf::Position at;
  };
  std::vector<Block> blocks;
};

bool set_auth_basic(const Setting& s) {
  auto& settings = *static_cast<AuthBasicSettings*>(s.settings);
  settings.has_realm = true;
  s.compiler.object_or_make<Asking>().blocks.push_back({&s.scope, s.node.name.at});
  return expr::read_program(s, 0, settings.realm);
}

// Relative to the directory of the configuration file, as nginx has it.
std::string_view configuration_directory(conf::Compiler& compiler) {
  const std::string_view path = compiler.full_path(compiler.options().path);
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash + 1);
}

bool set_user_file(const Setting& s) {
  auto& settings = *static_cast<AuthBasicSettings*>(s.settings);
  settings.has_user_file = true;
  settings.directory = configuration_directory(s.compiler);
  if (s.word(0).empty()) return s.fail(0, "empty name of a file");
  return expr::read_program(s, 0, settings.user_file);
}

void warn_of_blocks_without_file(conf::Compiler& compiler) {
  Asking& asking = compiler.object_or_make<Asking>();
  for (const Asking::Block& block : asking.blocks) {
    const auto& settings = block.scope->view().get<AuthBasicSettings>();
    if (!settings.is_on() || settings.has_user_file) continue;
    compiler.diagnostics().add(
        conf::Severity::kWarning, block.at, "\"auth_basic\" without \"auth_basic_user_file\"",
        "nobody is let in here, but for locations that name a file of their own", 10);
  }
  asking = {};
}

constexpr conf::Directive kDirectives[] = {
    {.name = "auth_basic",
     .contexts = conf::kHttpServerLocation | conf::Context::kLimitExcept,
     .syntax = "string | off",
     .set = set_auth_basic,
     .doc = "Asks for a user and password, for the realm of this name. May contain variables; the "
            "value \"off\" asks for none."},
    {.name = "auth_basic_user_file",
     .contexts = conf::kHttpServerLocation | conf::Context::kLimitExcept,
     .syntax = "file",
     .set = set_user_file,
     .doc = "Lines \"name:hash\" or \"name:hash:comment\", of all schemes of crypt(3), $apr1$, "
            "{SHA}, {SSHA} and {PLAIN}. May contain variables. It is read at each request. Unlike "
            "nginx, auth_basic without any file lets nobody in."},
};
static_assert(conf::well_formed(kDirectives));

constexpr conf::Module kModule =
    conf::module<AuthBasicSettings>("auth_basic", kDirectives, warn_of_blocks_without_file);

}  // namespace

Verdict check_password(Exchange& exchange) {
  const auto& settings = exchange.settings<AuthBasicSettings>();
  if (!settings.has_realm) return Verdict::none();
  const std::string_view realm = settings.realm.evaluate(exchange);
  if (realm == kOff) return Verdict::none();
  if (!settings.has_user_file) {
    exchange.log(LogLevel::kError, 0,
                 "\"auth_basic\" has no \"auth_basic_user_file\", nobody is let in");
    return Verdict::refused(403);
  }
  const http::BasicCredentials* credentials = http::basic_credentials(exchange);
  if (credentials == nullptr) {
    exchange.log(LogLevel::kInfo, 0, "no user/password was provided for basic authentication");
    challenge(exchange, basic_challenge(exchange, realm));
    return Verdict::refused(401);
  }
  Arena& arena = exchange.arena();
  const std::string_view name = settings.user_file.evaluate(exchange);
  // A NUL, which only variables could bring, would cut the name short.
  const std::string_view path =
      name.starts_with('/') ? arena.copy(name) : arena.concat(settings.directory, name);
  if (name.empty() || path.find('\0') != std::string_view::npos) {
    exchange.log(LogLevel::kError, ENOENT, "open() \"{}\" failed", path);
    return Verdict::refused(403);
  }
  return arena.make<Attempt>(exchange, *credentials, path, realm)->run();
}

bool AuthBasicSettings::is_on() const {
  return has_realm && !(realm.is_literal() && realm.source() == kOff);
}

const conf::Module& auth_basic_module() { return kModule; }

}  // namespace corehttpd::access

#include "conf/foreign.h"

#include "corehttpd/base/text.h"

namespace corehttpd::conf {
namespace {

struct Foreign {
  std::string_view names;  // Separated by blanks.
  std::string_view help;
};

constexpr Foreign kForeign[] = {
    {"RewriteEngine RewriteCond RewriteRule RewriteBase FallbackResource",
     "this is Apache's; here: try_files $uri $uri/ /index.php?$args; or: rewrite regex replacement "
     "[last | redirect | permanent];"},
    {"DocumentRoot", "this is Apache's; here: root path;"},
    {"ServerName ServerAlias", "this is Apache's; here: server_name name ...;"},
    {"DirectoryIndex", "this is Apache's; here: index file ...;"},
    {"Options", "this is Apache's; here: autoindex on | off;"},
    {"AllowOverride AccessFileName",
     "this is Apache's; .htaccess files are not read, what is in them belongs into a location"},
    {"Require Order", "this is Apache's; here: allow address; and: deny all;"},
    {"AuthType AuthName AuthUserFile",
     "this is Apache's; here: auth_basic \"realm\"; and: auth_basic_user_file file;"},
    {"ErrorDocument", "this is Apache's; here: error_page code uri;"},
    {"Redirect RedirectMatch RedirectPermanent", "this is Apache's; here: return 301 url;"},
    {"Header", "this is Apache's; here: add_header name value;"},
    {"ExpiresByType ExpiresActive ExpiresDefault", "this is Apache's; here: expires time;"},
    {"SSLEngine", "this is Apache's; here: listen 443 ssl;"},
    {"SSLCertificateFile", "this is Apache's; here: ssl_certificate file;"},
    {"SSLCertificateKeyFile", "this is Apache's; here: ssl_certificate_key file;"},
    {"ProxyPass ProxyPassMatch ProxyPassReverse", "this is Apache's; here: proxy_pass url;"},
    {"SetHandler AddHandler", "this is Apache's; here: fastcgi_pass address; in a location"},
    {"CustomLog TransferLog", "this is Apache's; here: access_log file [format];"},
    {"ErrorLog", "this is Apache's; here: error_log file [level];"},
    {"AddType", "this is Apache's; here: types { type extension; }"},
    {"SetEnv", "this is Apache's; here: fastcgi_param NAME value;"},
    {"IncludeOptional", "this is Apache's; here: include pattern;"},
    {"<VirtualHost </VirtualHost>", "this is Apache's; here: server { ... }"},
    {"<Directory </Directory> <Location </Location> <LocationMatch </LocationMatch> <Files "
     "</Files> <FilesMatch </FilesMatch>",
     "this is Apache's; here: location uri { ... }"},
    {"<IfModule </IfModule> <IfModule>", "this is Apache's; there is nothing like it here"},
    {"php_admin_value php_admin_flag",
     "this is of Apache or a php-fpm pool; here: fastcgi_param PHP_ADMIN_VALUE \"name=value\";"},
    {"php_value php_flag",
     "this is of Apache or a php-fpm pool; here: fastcgi_param PHP_VALUE \"name=value\";"},
};

}  // namespace

std::string_view foreign_help(std::string_view name) {
  for (const Foreign& foreign : kForeign) {
    std::string_view rest = foreign.names;
    while (!rest.empty()) {
      const std::string_view one = rest.substr(0, rest.find(' '));
      if (text::equals_ignore_case(one, name)) return foreign.help;
      rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    }
  }
  return {};
}

}  // namespace corehttpd::conf

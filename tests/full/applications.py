"""Debian's WordPress and DokuWiki, each as a tree of a test's own, with a php-fpm and a MariaDB that end with it, and a browser of sorts."""
import json
import re
import shutil
import subprocess
import urllib.parse
from pathlib import Path

from fastcgi_peer import PhpFpm
from harness import ROOT, end_process, wait_until

EXTENSIONS = ('ctype', 'tokenizer', 'mysqlnd', 'mysqli', 'mbstring', 'xml', 'dom', 'simplexml', 'iconv', 'exif')
CHILDREN = 8
# A page may take some seconds on a busy machine; the server's own time-outs stay as they are.
SITE = '''include mime.types;
fastcgi_pool_files @DIR@/php.pool;
server {
    listen @SOCK@;
    server_name localhost;
    root @DIR@/www/site;
    index index.php;
    client_max_body_size 64m;
    location / { try_files $uri $uri/ %s; }
    location ~ \\.php(/|$) {
        include snippets/php.conf;
        fastcgi_pass unix:@DIR@/php.sock;
    }
}
'''


def start_php(server):
    """php-fpm with the extensions that the applications want."""
    pool = f'pm = static\npm.max_children = {CHILDREN}\n'
    (server.directory / 'php.pool').write_text(f'[www]\nlisten = {server.directory}/php.sock\n{pool}')
    ini = [f'extension={name}' for name in EXTENSIONS] + ['upload_max_filesize=32M', 'post_max_size=40M', 'memory_limit=256M', 'display_errors=0']
    return PhpFpm(server.directory, pool, ini)


def put_conf(directory):
    """The parameters and the snippet as they are shipped, where the configuration is."""
    for name in ('fastcgi.conf', 'fastcgi_params', 'mime.types', 'snippets'):
        source = ROOT / 'conf' / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, directory / name)


def put_tree(source, target):
    # The package's links lead to files elsewhere, which the site's own user would not own.
    subprocess.run(['cp', '-rL', str(source), str(target)], check=True, timeout=120)


def give(path):
    subprocess.run(['chown', '-R', 'www-data:www-data', str(path)], check=True, timeout=60)


class MariaDb:
    """Reached by its socket alone; whoever can open that is whoever he says."""

    def __init__(self, directory):
        self.directory = Path(directory) / 'db'
        self.directory.mkdir()
        self.socket = self.directory / 'db.sock'
        shutil.chown(self.directory, 'mysql', 'mysql')
        common = ['--no-defaults', '--user=mysql', f'--datadir={self.directory}/data']
        subprocess.run(['mariadb-install-db', *common, '--skip-test-db'], check=True, capture_output=True, timeout=120)
        self.output = open(Path(directory) / 'db.out', 'wb')
        self.process = subprocess.Popen(['/usr/sbin/mariadbd', *common, f'--socket={self.socket}', '--skip-networking', '--skip-grant-tables',
                                         '--innodb-flush-log-at-trx-commit=0', f'--pid-file={self.directory}/pid'],
                                        stdout=self.output, stderr=self.output, stdin=subprocess.DEVNULL)
        wait_until(lambda: self.process.poll() is not None or self.socket.exists(), 'MariaDB', 60)
        assert self.process.poll() is None, (Path(directory) / 'db.out').read_text()
        self.run('CREATE DATABASE site')

    def run(self, statement):
        subprocess.run(['mariadb', '--no-defaults', f'--socket={self.socket}', '-e', statement], check=True, capture_output=True, timeout=60)

    def stop(self):
        end_process(self.process, 60)
        self.output.close()


class Browser:
    """One connection and its cookies; follows redirects to the same host when asked."""

    def __init__(self, server, protocol):
        self.server, self.protocol, self.cookies, self.client = server, protocol, {}, None

    def ask(self, path, method='GET', body=None, fields=(), follow=False):
        headers = list(fields)
        if self.cookies:
            headers.append(('Cookie', '; '.join(f'{k}={v}' for k, v in self.cookies.items())))
        for attempt in (1, 2):
            if self.client is None:
                self.client = self.server.connect(self.protocol)
                self.client.socket.settimeout(60)
            try:
                answer = self.client.request(path, method=method, body=body, headers=headers)
                break
            except (EOFError, OSError):
                # A kept connection may have been closed meanwhile; one that is new has no excuse.
                self.close()
                if attempt == 2 or method != 'GET':
                    raise
        if answer.closed:
            self.close()
        for line in answer.all('set-cookie'):
            name, value = line.split(';')[0].split('=', 1)
            if value == 'deleted' or re.search(r'expires=Thu, 01.Jan.1970', line, re.I) or value.strip() == '':
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        if follow and answer.status in (301, 302, 303):
            where = urllib.parse.urlsplit(urllib.parse.urljoin(f'http://localhost{path}', answer['location']))
            assert where.hostname == 'localhost', answer['location']
            return self.ask(where.path + (f'?{where.query}' if where.query else ''), follow=True)
        return answer

    def post(self, path, values, **more):
        body = urllib.parse.urlencode(values).encode()
        return self.ask(path, 'POST', body, [('Content-Type', 'application/x-www-form-urlencoded')], **more)

    def send_json(self, path, value, nonce):
        return self.ask(path, 'POST', json.dumps(value).encode(), [('Content-Type', 'application/json'), ('X-WP-Nonce', nonce)])

    def upload(self, path, values, name, filename, data):
        mark = b'----corehttpd-test'
        parts = [b'--%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (mark, k.encode(), v.encode()) for k, v in values.items()]
        parts.append(b'--%s\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\nContent-Type: application/zip\r\n\r\n' %
                     (mark, name.encode(), filename.encode()))
        body = b''.join(parts) + data + b'\r\n--%s--\r\n' % mark
        return self.ask(path, 'POST', body, [('Content-Type', f'multipart/form-data; boundary={mark.decode()}')])

    def close(self):
        if self.client is not None:
            self.client.close()
        self.client = None


CONFIG = '''<?php
define('DB_NAME', 'site'); define('DB_USER', 'root'); define('DB_PASSWORD', ''); define('DB_HOST', 'localhost:%s');
define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
foreach (['AUTH_KEY','SECURE_AUTH_KEY','LOGGED_IN_KEY','NONCE_KEY','AUTH_SALT','SECURE_AUTH_SALT','LOGGED_IN_SALT','NONCE_SALT'] as $k) define($k, "of a test $k");
$table_prefix = 'wp_';
define('WP_HOME', (empty($_SERVER['HTTPS']) ? 'http' : 'https') . '://localhost'); define('WP_SITEURL', WP_HOME);
define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true); define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_DEFAULT_THEME', 'twentytwentyone');
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
'''
# What shops and trackers do: far more cookies in one answer than a buffer of 4 kB holds.
PLUGIN = '''<?php
add_action('init', function () {
  if (isset($_GET['cookies'])) for ($i = 0; $i < 40; $i++) setcookie("large$i", str_repeat(chr(97 + $i % 26), 300), 0, '/');
});
'''
PASSWORD = 'correct horse battery staple'


def put_wordpress(server, database):
    site = server.root / 'site'
    put_tree('/usr/share/wordpress', site)
    (site / 'wp-config.php').write_text(CONFIG % database.socket)
    (site / 'wp-content/mu-plugins').mkdir()
    (site / 'wp-content/mu-plugins/cookies.php').write_text(PLUGIN)
    (site / 'wp-content/uploads').mkdir(exist_ok=True)
    give(site)
    # php-fpm's workers reach the database by its socket.
    database.directory.chmod(0o755)


def install_wordpress(browser):
    answer = browser.ask('/', follow=True)
    assert answer.status == 200 and b'WordPress' in answer.body
    answer = browser.post('/wp-admin/install.php?step=2', {
        'weblog_title': 'Of a test', 'user_name': 'admin', 'admin_password': PASSWORD, 'admin_password2': PASSWORD, 'pw_weak': 'on',
        'admin_email': 'admin@example.org', 'blog_public': '0', 'language': ''})
    assert answer.status == 200 and b'Success!' in answer.body, answer.body[-2000:]


def log_in(browser):
    assert browser.ask('/wp-login.php').status == 200
    answer = browser.post('/wp-login.php', {'log': 'admin', 'pwd': PASSWORD, 'wp-submit': 'Log In', 'redirect_to': '/wp-admin/', 'testcookie': '1'})
    assert answer.status == 302 and any(name.startswith('wordpress_logged_in') for name in browser.cookies), answer
    answer = browser.ask('/wp-admin/', follow=True)
    assert answer.status == 200 and b'Dashboard' in answer.body


def put_dokuwiki(server):
    site, conf, data = server.root / 'site', server.directory / 'wiki-conf', server.directory / 'wiki-data'
    put_tree('/usr/share/dokuwiki', site)
    put_tree('/etc/dokuwiki', conf)
    put_tree('/var/lib/dokuwiki/data', data)
    (site / 'inc/preload.php').write_text(f"<?php define('DOKU_CONF', '{conf}/');\n")
    (conf / 'local.php').write_text(f"<?php $conf['title'] = 'Of a test'; $conf['savedir'] = '{data}'; $conf['useacl'] = 0; $conf['userewrite'] = 2;\n"
                                    "$conf['updatecheck'] = 0; $conf['send404'] = 1; $conf['disableactions'] = ''; $conf['license'] = '';\n")
    (conf / 'acl.auth.php').write_text('*\t@ALL\t8\n')
    for path in (site, conf, data):
        give(path)

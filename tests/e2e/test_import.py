"""import-nginx: trees of realistic hosting boxes come over, work as before where they can, and are closed where they cannot."""
import json
import os
import re
import shutil
import stat
import subprocess

import pytest
from fastcgi_peer import answer
from harness import BINARY, DEADLINE
from import_box import TREES, box, named, php  # noqa: F401

# --- what holds for every tree

@pytest.mark.parametrize('name', TREES)
def test_the_result_passes_the_test(box, name):
    made = box(name)
    code, out, err = made.run()
    assert code == (0 if name == 'nextcloud' else 2), err  # That one loses nothing.
    assert 'is successful' in out
    code, err = made.test()
    # The certificates that these trees name are on no machine: their sites alone are degraded for it.
    without_certificates = name in ('laravel', 'panel')
    assert code == (2 if without_certificates else 0), err
    assert ('is degraded: cannot load certificate' in err) == without_certificates


@pytest.mark.parametrize('name', TREES)
def test_a_second_run_changes_nothing(box, name):
    made = box(name)
    first = made.imported()
    before = made.snapshot()
    assert made.imported('--force') == first
    assert made.snapshot() == before


@pytest.mark.parametrize('name', [name for name in TREES if name != 'panel'])  # Its Lua is no configuration to -t.
def test_the_report_names_all_that_the_daemon_refuses_or_ignores(box, name):
    made = box(name)
    for path in made.tree.rglob('*'):
        if path.is_symlink() and os.readlink(path).startswith('/etc/nginx'):
            target = os.readlink(path).replace('/etc/nginx', str(made.tree))
            path.unlink()
            path.symlink_to(target)
        elif path.is_file():
            path.write_text(path.read_text().replace('/etc/nginx', str(made.tree)))
    said = subprocess.run([str(BINARY), '-t', '-c', str(made.tree / 'nginx.conf')], capture_output=True, text=True, timeout=DEADLINE).stderr
    wanted = set()
    for directive, path, line in re.findall(r'"(\w+)" directive is not (?:supported|known)[^\n]* in (\S+):(\d+):\d+', said):
        wanted.add((os.path.realpath(path), int(line), directive))
    assert wanted or name in ('nextcloud', 'debian')
    entries = made.imported()
    have = {(os.path.realpath(made.tree / e['file']), e['line'], e['directive']) for e in entries}
    assert wanted <= have


@pytest.mark.parametrize('name', TREES)
def test_what_is_not_touched_stays_byte_for_byte(box, name):
    made = box(name)
    made.imported()
    mark = re.compile(r'^\s*(?:# corehttpd: .*|.*;  # corehttpd: .*)\n', re.M)
    for path in made.tree.rglob('*'):
        if not path.is_file() or path.is_symlink():
            continue
        relative = path.relative_to(made.tree)
        new = made.out / ('corehttpd.conf' if str(relative) == 'nginx.conf' else relative)
        assert stat.S_IMODE(new.stat().st_mode) == stat.S_IMODE(path.stat().st_mode)
        left = [line for line in mark.sub('', new.read_text()).splitlines() if line.strip()]
        unmarked = {re.sub(r'^(\s*)# ', r'\1', line) for line in left}
        for line in path.read_text().splitlines():
            if re.search(r'/etc/nginx|/home/|\$ssl_|\$gzip_ratio|\$edge_zone', line) or not line.strip():
                continue
            # A line of its own that was taken out is the same line behind a mark.
            one_line = '{' in line and '}' in line
            assert one_line or line in left or line in unmarked, (relative, line)


@pytest.mark.parametrize('name', TREES)
def test_nothing_leads_back_to_the_old_tree(box, name):
    made = box(name)
    made.imported()
    for path in made.out.rglob('*'):
        if path.is_symlink():
            assert not os.readlink(path).startswith('/etc/nginx') and path.exists(), path
        elif path.is_file():
            for line in path.read_text().splitlines():
                assert not re.match(r'\s*include\s+/etc/nginx', line), (path, line)


# --- tree by tree

def test_debian(box):
    made = box('debian')
    made.file('html/index.html', 'welcome')
    entries = made.imported()
    assert os.readlink(made.out / 'sites-enabled/default') == f'{made.out}/sites-available/default'
    assert os.readlink(made.out / 'modules-enabled/50-mod-http-geoip.conf') == '../modules-available/50-mod-http-geoip.conf'
    assert named(entries, 'load_module', file='modules-available/50-mod-http-geoip.conf', line=1, kind='info')
    assert not [e for e in entries if e['kind'] == 'replaced']
    made.start()
    assert made.get('/').body == b'welcome'
    assert made.status('/missing') == 404


def test_defaults_of_nginx_are_written_out_unless_set(box):
    made = box('debian')
    entries = made.imported()
    text = made.text()
    for line in ('http2 off;', 'http3 off;', 'root /usr/share/nginx/html;'):
        assert re.search(rf'^\s+{line}  # corehttpd: ', text, re.M), line
    page = os.sysconf('SC_PAGESIZE') // 1024
    assert f'fastcgi_buffers 8 {page}k;' in text and f'fastcgi_buffer_size {page}k;' in text
    assert len(re.findall(r'^\s*sendfile ', text, re.M)) == 1 and 'worker_connections 512' not in text
    assert re.search(r'^# pid /run/nginx.pid;$', text, re.M)
    assert named(entries, 'pid', kind='info')


def test_defaults_that_the_operator_set_nowhere(box):
    made = box()
    made.main(f'server {{ listen 80; root {made.directory}/www; }}')
    made.imported()
    text = made.text()
    for line in ('worker_processes 1;', 'worker_connections 512;', 'sendfile off;', 'tcp_nopush off;', f'root {made.tree}/html;'):
        assert re.search(rf'^\s*{line}  # corehttpd: ', text, re.M), line
    # Nothing else that our tables have differs: the built-in defaults of all others are nginx's.
    written = {e['directive'] for e in made.imported('--force') if 'is written out' in e['message']}
    assert written == {'worker_processes', 'worker_connections', 'sendfile', 'tcp_nopush', 'root', 'http2', 'http3', 'fastcgi_buffers',
                       'fastcgi_buffer_size', 'ssl_ciphers'}


def test_default_in_an_included_file_counts_as_set(box):
    made = box()
    made.write('conf.d/speed.conf', 'sendfile on;\nhttp2 on;\n')
    made.main(f'include conf.d/*.conf; server {{ listen 80; root {made.directory}/www; }}')
    made.imported()
    assert 'sendfile off' not in made.text() and 'http2 off' not in made.text()


def test_layout_of_a_source_build(box):
    made = box()
    prefix = made.directory / 'local'
    (prefix / 'logs').mkdir(parents=True)
    (prefix / 'html').mkdir()
    (prefix / 'html/index.html').write_text('it works')
    made.tree = prefix / 'conf'
    made.tree.mkdir()
    made.write('nginx.conf', 'events { }\nhttp {\naccess_log logs/access.log;\n' + made.temporary() + 'server { listen 80; '
               'ssl_certificate a.crt; location / { root html; } } }\n')
    (made.tree / 'a.crt').write_text('x')
    made.imported()
    text = made.text()
    assert f'error_log {prefix}/logs/error.log;  # corehttpd: ' in text and f'access_log {prefix}/logs/access.log;' in text
    assert f'root {prefix}/html;' in text and f'ssl_certificate {made.out}/a.crt;' in text and 'user nobody' in text
    made.start()
    assert made.get('/').body == b'it works'


def test_wordpress(box):
    made = box('wordpress')
    for name in ('index.php', 'wp-login.php', 'xmlrpc.php', 'style.css', '.htaccess', 'uploads/evil.php'):
        made.file(f'blog/{name}', name)
    peer = php(made)
    entries = made.imported()
    assert named(entries, 'limit_req', file='global/wordpress.conf', line=6, kind='replaced')
    assert named(entries, 'fastcgi_cache', file='global/wordpress.conf', kind='differs')
    assert not named(entries, 'deny') and not named(entries, 'auth_basic')
    made.start()
    host = 'blog.example.org'
    assert made.get('/', host).body == f'php:{made.directory}/www/blog/index.php'.encode()
    assert made.get('/2024/hello', host).body.endswith(b'/index.php')
    assert peer.requests[-1].params['SSL_CIPHER'] == ''
    css = made.get('/style.css', host)
    assert css.status == 200 and css['cache-control'] is not None
    # Closed as it was…
    for path in ('/.htaccess', '/uploads/evil.php', '/xmlrpc.php'):
        assert made.status(path, host) == 403, path
    assert made.status('/', host, headers=[('User-Agent', 'SemrushBot')]) == 403
    # …and what lost its guard.
    asked = len(peer.requests)
    assert made.status('/wp-login.php', host) == 503
    for path, status in (('/', 403), ('/style.css', 403), ('/wp-login.php', 503), ('/index.php', 403)):
        assert made.status(path, 'staging.example.org') == status, path
    assert len(peer.requests) == asked
    moved = made.get('/x?y', 'www.blog.example.org')
    assert (moved.status, moved['location']) == (301, 'http://blog.example.org/x?y')


def test_panel(box):
    made = box('panel')
    for user in ('alice', 'bob'):
        site = made.directory / 'home' / user / 'public_html'
        site.mkdir(parents=True)
        for name in ('index.html', 'private/secret.txt', '.git/config', 'x.php'):
            (site / name).parent.mkdir(exist_ok=True)
            (site / name).write_text(name)
    peer = php(made, 'alice.sock')
    original = (made.directory / 'home/alice/nginx/private.conf').read_text()
    entries = made.imported()
    copy = made.out / f'external{made.directory}/home/alice/nginx/private.conf'
    assert 'return 503' in copy.read_text()
    assert (made.directory / 'home/alice/nginx/private.conf').read_text() == original
    assert not (made.out / f'external{made.directory}/home/bob').exists()
    for directive in ('modsecurity', 'modsecurity_rules_file'):
        assert named(entries, directive, file='vhosts.d/bob.conf', kind='replaced')
    assert named(entries, 'load_module', kind='differs')
    for directive in ('vhost_traffic_status_zone', 'lua_shared_dict', 'init_worker_by_lua_block', 'user'):
        assert named(entries, directive, file='nginx.conf', kind='replaced'), directive
    made.start()
    assert made.get('/index.html', 'alice.example').body == b'index.html'
    assert made.status('/old/x', 'alice.example') == 301
    assert made.status('/.git/config', 'alice.example') == 404
    assert made.status('/private/secret.txt', 'alice.example') == 503
    assert made.get('/x.php', 'alice.example').body.startswith(b'php:')
    assert len(peer.requests) == 1
    for path in ('/', '/index.html', '/private/secret.txt', '/.well-known/acme-challenge/x'):
        assert made.status(path, 'bob.example') == 503, path


def test_laravel(box):
    made = box('laravel')
    for name in ('index.php', 'logo.png', '.env', 'api/users', 'ws/x', 'maintenance.html', 'telescope'):
        made.file(f'app/public/{name}', name)
    made.file('node/assets/a.js', 'js')
    peer = php(made)
    entries = made.imported()
    for line in (28, 38, 66):
        assert named(entries, 'proxy_pass', file='sites-enabled/app', line=line, kind='replaced')
    assert named(entries, 'stream', kind='differs')
    made.start()
    host = 'app.example.org'
    assert made.get('/', host).body.endswith(b'public/index.php')
    logo = made.get('/logo.png', host)
    assert logo.status == 200 and logo['x-frame-options'] == 'SAMEORIGIN'
    assert made.status('/.env', host) == 403
    # "error_page 502 503 = @down" would answer 200 from what stands beside.
    assert made.status('/api/users', host) == 502
    assert made.status('/ws/x', host) == 502
    asked = len(peer.requests)
    assert made.status('/telescope', host) == 401
    assert len(peer.requests) == asked
    assert made.status('/', 'node.example.org') == 502
    assert made.get('/assets/a.js', 'node.example.org').body == b'js'


def test_cdn(box):
    made = box('cdn')
    for name in ('a.css', 'files/x', 'hot/pic.png', 'office/doc', 'signed/file', 'upload/f', 'slow/f', 'blocked.png'):
        made.file(f'cdn/{name}', 'x' * 100)
    entries = made.imported()
    for directive, line in (('valid_referers', 62), ('if', 63), ('if', 67), ('secure_link', 70), ('secure_link_md5', 71), ('if', 72),
                            ('limit_conn', 78)):
        assert named(entries, directive, line=line, kind='replaced'), (directive, line)
    assert not named(entries, 'log_format', kind='differs')  # $ssl_… exist.
    made.start()
    css = made.get('/a.css', headers=[('Accept-Encoding', 'gzip')])
    assert css.status == 200 and css['content-encoding'] == 'gzip' and css['access-control-allow-origin'] == '*'
    assert css['content-type'] == 'text/css; charset=utf-8' and css['x-cache-zone'] is None
    moved = made.get('/old.html')
    assert moved.status == 301 and moved['location'].endswith('/new.html')
    assert made.status('/files/x') == 200 and made.status('/upload/f') == 200
    assert made.status('/upload/f', method='DELETE') == 403
    for path in ('/hot/pic.png', '/office/doc', '/signed/file', '/slow/f'):
        assert made.status(path) == 503, path
    made.stop()
    made.process = None
    lines = [json.loads(line) for line in (made.directory / 'log/edge.log').read_text().splitlines()]
    assert all(line['tls'] == '/' for line in lines) and '/a.css' in [line['u'] for line in lines]


def test_nextcloud(box):
    made = box('nextcloud')
    for name in ('index.php', 'core/a.css', 'data/secret', '.env'):
        made.file(f'nextcloud/{name}', name)
    for name in ('index.php', 'sql/dump.php', 'sql/dump.sql', 'theme.css', 'README', '.git/x', '.well-known/ok'):
        made.file(f'phpmyadmin/{name}', name)
    made.file('.git/config', 'x')
    made.file('.well-known/ok', 'ok')
    made.file('stats/index.html', 'x')
    made.file('stats/open/f', 'x')
    made.file('stats/x.php', 'x')
    peer = php(made)
    made.imported()
    made.start()
    host = 'cloud.example.com'
    assert made.get('/index.php/apps/files', host).body.endswith(b'nextcloud/index.php')
    assert peer.requests[-1].params['PATH_INFO'] == '/apps/files'
    assert made.status('/core/a.css', host) == 200
    assert made.status('/data/secret', host) == 404
    assert made.get('/.well-known/carddav', host)['location'].endswith('/remote.php/dav/')
    # Nested locations inherit the guard of their outer one; nothing reaches PHP around it.
    asked = len(peer.requests)
    host = 'pma.example.com'
    for path in ('/phpmyadmin/index.php', '/phpmyadmin/', '/phpmyadmin/theme.css', '/phpmyadmin/none.php'):
        assert made.status(path, host) == 401, path
    assert len(peer.requests) == asked
    # "auth_basic off" stands there.
    assert made.get('/phpmyadmin/README', host).body == b'README'
    assert made.get('/.well-known/ok', host).body == b'ok'
    # As in nginx, error_page leads a refused request to @app.
    assert made.get('/.git/config', host).body.endswith(b'phpmyadmin/index.php')
    asked = len(peer.requests)
    for path in ('/', '/open/f', '/x.php'):
        assert made.status(path, 'stats.example.com') == 403, path
    assert len(peer.requests) == asked


# --- files

def test_modes_keys_and_kinds_of_files(box):
    made = box()
    made.main(f'server {{ listen 80; root {made.directory}/www; ssl_certificate_key ssl/site.key; ssl_certificate {made.tree}/ssl/site.crt; '
              f'ssl_trusted_certificate {made.directory}/elsewhere.pem; }}')
    key = made.write('ssl/site.key', '-----BEGIN PRIVATE KEY-----\n')
    key.chmod(0o644)
    made.write('ssl/site.crt', 'x').chmod(0o640)
    (made.tree / 'geo.dat').write_bytes(b'\0\1\2')
    os.mkfifo(made.tree / 'pipe')
    (made.tree / 'ssl').chmod(0o710)
    entries = made.imported()
    assert stat.S_IMODE((made.out / 'ssl/site.key').stat().st_mode) == 0o600
    assert stat.S_IMODE((made.out / 'ssl/site.crt').stat().st_mode) == 0o640
    assert stat.S_IMODE((made.out / 'ssl').stat().st_mode) == 0o710
    assert (made.out / 'geo.dat').read_bytes() == b'\0\1\2'
    assert not (made.out / 'pipe').exists() and any(e['file'] == 'pipe' for e in entries)
    text = made.text()
    assert f'{made.out}/ssl/site.key' in text and f'{made.out}/ssl/site.crt' in text and f'{made.directory}/elsewhere.pem' in text


def test_huge_files_are_left_out(box):
    made = box()
    made.main(f'server {{ listen 80; root {made.directory}/www; }}')
    with open(made.tree / 'core.1234', 'wb') as file:
        file.truncate(65 * 1024 * 1024)
    entries = made.imported()
    assert not (made.out / 'core.1234').exists() and [e for e in entries if e['file'] == 'core.1234' and 'too large' in e['message']]


def test_links_out_of_the_tree(box):
    made = box()
    outside = made.directory / 'home/site.conf'
    outside.write_text(made.local(f'server {{ listen 80; root {made.directory}/www; }}\n'))
    guarded = made.directory / 'home/guarded.conf'
    guarded.write_text(made.local('server { listen 80; server_name g; auth_jwt "x"; }\n'))
    (made.tree / 'sites').mkdir()
    (made.tree / 'sites/a').symlink_to(outside)
    (made.tree / 'sites/g').symlink_to('../../home/guarded.conf')
    (made.tree / 'modules').symlink_to('/usr/lib')
    (made.tree / 'self').symlink_to('.')
    (made.tree / 'loop').symlink_to('loop')
    made.main('include sites/*;')
    made.imported()
    assert os.readlink(made.out / 'sites/a') == str(outside)
    assert not (made.out / 'sites/g').is_symlink() and 'return 503' in made.text('sites/g')
    assert 'return' not in guarded.read_text()
    assert os.readlink(made.out / 'modules') == '/usr/lib'
    assert os.readlink(made.out / 'self') == '.' and os.readlink(made.out / 'loop') == 'loop'


def test_windows_files_and_byte_order_marks(box):
    made = box()
    path = made.tree / 'site.conf'
    path.write_bytes(b'\xef\xbb\xbf' + made.local(f'server {{\r\n  listen 80;\r\n  root {made.directory}/www;\r\n  auth_jwt x;\r\n}}\r\n').encode())
    made.main('include site.conf;')
    entries = made.imported()
    assert named(entries, 'auth_jwt', file='site.conf', line=4)
    assert (made.out / 'site.conf').read_bytes().startswith(b'\xef\xbb\xbfserver {\r\n')


# --- trees that cannot be imported

def fails(made, what, *more):
    code, _, err = made.run(*more)
    assert code == 1 and what in err, err
    return err


def test_directories_that_a_configuration_cannot_name(box):
    made = box()
    made.main('server { listen 80; }')
    made.out = made.directory / 'a b'
    fails(made, 'characters')


def test_cycles_end(box):
    made = box()
    made.main('include a.conf;')
    made.write('a.conf', 'include b.conf;\n')
    made.write('b.conf', '\ninclude a.conf;\n')
    assert 'b.conf:2' in fails(made, 'includes itself')


def test_included_files_that_are_no_configuration(box):
    made = box()
    made.main('include x/*;')
    path = made.write('x/a', '')
    path.write_bytes(b'\x7fELF\0\0')
    fails(made, 'not a text file')
    path.write_text('server {\n')
    fails(made, 'x/a')
    path.unlink()
    path.mkdir()
    fails(made, 'Is a directory')
    path.rmdir()
    path.symlink_to('nowhere')
    fails(made, 'link to what does not exist')


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which('setpriv') is None, reason='needs a user without rights')
def test_unreadable_include(box):
    made = box()
    made.main('include secret.conf;')
    made.write('secret.conf', 'deny all;\n').chmod(0)
    made.directory.chmod(0o777)
    command = [str(BINARY), 'import-nginx', str(made.tree), '--out', str(made.out)]
    if os.geteuid() == 0:
        command = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 1 and 'Permission denied' in done.stderr


def test_missing_trees_and_wrong_options(box):
    made = box()
    fails(made, 'nginx.conf" does not exist')
    made.main('server { listen 80; }')
    (made.out).mkdir()
    (made.out / 'mine').write_text('x')
    fails(made, 'is not empty')
    fails(made, 'invalid option', '--nonsense')
    made.out = made.tree / 'new'
    fails(made, 'is inside')
    made.out = made.tree
    fails(made, 'is inside')
    (made.directory / 'by-link').symlink_to(made.tree)
    made.out = made.directory / 'by-link/new'
    fails(made, 'is inside')
    made.out = made.directory / 'www'
    made.tree = made.directory / 'nothing'
    fails(made, 'is not a directory')
    done = subprocess.run([str(BINARY), 'import-nginx', '/etc/nginx'], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 1 and '--out is missing' in done.stderr


def test_ten_thousand_includes(box):
    made = box()
    (made.tree / 'sites').mkdir()
    made.write('guard.conf', 'location /x { limit_req zone=a; }\nlocation /y { auth_jwt "y"; }\n')
    for i in range(400):
        sites = ''.join(f'server {{ listen 127.0.0.1:{made.port}; server_name s{i}-{j}; include guard.conf; }}\n' for j in range(25))
        (made.tree / f'sites/{i}.conf').write_text(sites)
    made.main('include sites/*;')
    entries = made.imported()
    assert len(named(entries, 'limit_req')) == 1 and len(named(entries, 'auth_jwt', file='guard.conf', line=2)) == 1
    assert made.text('guard.conf').count('return 503') == 2

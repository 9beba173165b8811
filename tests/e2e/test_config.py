"""The command line and the configuration: -t, -T, -q, -v, -V, -g, -p, -c, -e, --describe, includes, diagnostics, units."""
import os
import re
import shutil
import signal
import subprocess

import pytest
from harness import BINARY, CLEAR, DEADLINE, ROOT, wait_until

DATA = ROOT / 'tests/e2e/data'


def run(*arguments, cwd=None):
    return subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=DEADLINE, cwd=cwd)


def test_of(directory, text, *more):
    """-t of a whole configuration file; (exit code, stderr)."""
    path = directory / 'x.conf'
    path.write_text(text)
    done = run('-t', '-p', directory, '-c', path, '-e', 'stderr', *more)
    assert done.stdout == '' or '-T' in more
    return done.returncode, done.stderr


test_of.__test__ = False  # A name of the command line's, not a test.


def http(directory, text, *more):
    return test_of(directory, f'pid {directory}/pid;\nerror_log {directory}/e.log;\nevents {{ }}\nhttp {{\naccess_log off;\n{text}\n}}\n', *more)


def test_success(directory):
    code, said = http(directory, 'server { listen unix:x.sock; }')
    assert code == 0
    assert said == (f'corehttpd: the configuration file {directory}/x.conf syntax is ok\n'
                    f'corehttpd: configuration file {directory}/x.conf test is successful\n')
    assert sorted(os.listdir(directory)) == ['e.log', 'x.conf']  # Nothing was bound, no pid file written.


def test_failure(directory):
    code, said = http(directory, 'server { listen unix:x.sock; }\n}')
    assert code == 1 and said.endswith(f'corehttpd: configuration file {directory}/x.conf test failed\n')
    assert 'unexpected "}"' in said and 'successful' not in said


def test_quiet(directory):
    code, said = http(directory, 'server { listen unix:x.sock; gzip_disable msie6; aio on; }', '-q')
    assert (code, said) == (0, '')
    code, said = http(directory, 'server { listen unix:x.sock; nonsense; }', '-q')
    assert code == 1 and 'unknown directive "nonsense"' in said


def test_missing_file(directory):
    done = run('-t', '-c', directory / 'none.conf')
    assert done.returncode == 1
    assert re.search(r'\[emerg\] open\(\) ".*/none.conf" failed \(2: No such file or directory\)', done.stderr)


def test_versions():
    done = run('-v')
    assert done.returncode == 0 and done.stdout == '' and re.fullmatch(r'corehttpd version: corehttpd/\d+(\.\d+)+\n', done.stderr)
    done = run('-V')
    assert done.returncode == 0 and done.stdout == ''
    assert re.match(r'corehttpd version: corehttpd/(\S+)\nnginx version: nginx/[\d.]+ \(compatible; corehttpd/\1\)\nbuilt by gcc ', done.stderr)
    assert re.search(r'^configure arguments: .*--with-http_v2_module', done.stderr, re.M)
    assert run('--version').returncode == 0


def test_version_as_certbot_reads_it():
    """Its plugin for nginx looks for these in what -V writes to stderr, and gives up without the first three."""
    said = run('-c', '/etc/corehttpd/corehttpd.conf', '-V').stderr
    product, version = re.search(r'nginx version: ([^/]+)/([0-9.]*)', said, re.I).groups()
    assert product == 'nginx' and tuple(map(int, version.split('.'))) >= (1, 26)
    assert re.search('TLS SNI support enabled', said, re.I)
    assert re.search(' --with-http_ssl_module', said)
    assert re.findall(r'built with OpenSSL ([^ ]+) ', said)[0].startswith('3.')


def test_help_and_bad_options():
    for option in ('-h', '-?', '--help'):
        done = run(option)
        assert done.returncode == 0 and 'Usage: corehttpd' in done.stderr
    for arguments, words in [(['-x'], 'invalid option: "x"'), (['word'], 'invalid option: "word"'), (['-c'], 'option "-c" requires a parameter'),
                             (['-s', 'x'], 'invalid option: "-s x"'), (['-'], 'invalid option: "-"')]:
        done = run(*arguments)
        assert done.returncode == 1 and words in done.stderr, arguments


def test_describe():
    done = run('--describe', 'client_max_body_size')
    assert done.returncode == 0
    assert re.search(r'^client_max_body_size size;\n.*default: .*1m.*\n.*context: .*http, server, location', done.stdout, re.M)
    everything = run('--describe').stdout.splitlines()
    assert len(everything) > 300 and any(line.startswith('root path;') for line in everything)
    done = run('--describe', 'client_max_bdy_size')
    assert done.returncode == 1 and 'did you mean "client_max_body_size"?' in done.stderr


def test_dump(directory):
    (directory / 'part.conf').write_text('# kept as it is\nlisten unix:x.sock;\n')
    code = test_of(directory, 'events { }\nhttp { access_log off; server { include part.conf; } }\n')
    assert code[0] == 0, code[1]
    done = run('-T', '-p', directory, '-c', directory / 'x.conf', '-e', 'stderr')
    assert done.returncode == 0 and 'test is successful' in done.stderr
    assert done.stdout.startswith(f'# configuration file {directory}/x.conf:\nevents {{ }}\nhttp {{ access_log off; server {{ include part.conf; }} }}\n')
    assert f'# configuration file {directory}/part.conf:\n# kept as it is\nlisten unix:x.sock;\n' in done.stdout


def test_dump_shows_a_file_once(directory):
    (directory / 'part.conf').write_text('charset utf-8;\n')
    code, said = http(directory, 'server { listen unix:x.sock; location /a { include part.conf; } location /b { include part.conf; } }')
    assert code == 0, said
    done = run('-T', '-p', directory, '-c', directory / 'x.conf')
    assert done.stdout.count('# configuration file') == 2


def test_all_errors_with_their_places(directory):
    code, said = http(directory, '''server {
    listen unix:x.sock;
    rooot /srv;
    location / {
        expires sometimes;
        index;
        listen 80;
    }
    client_max_body_size 1q;
    etag maybe;
}''')
    assert code == 1
    path = f'{directory}/x.conf'
    for message, line, column in [('unknown directive "rooot"', 8, 5), ('"expires" ', 10, 17), ('invalid number of arguments in "index" directive', 11, 9),
                                  ('"listen" directive is not allowed here', 12, 9), ('"client_max_body_size"', 14, 26), ('"etag"', 15, 10)]:
        assert re.search(rf'^corehttpd: \[emerg\] .*{re.escape(message.strip())}.* in {re.escape(path)}:{line}:{column}$', said, re.M), (message, said)
    assert '    rooot /srv;\n    ^~~~~\n  help: did you mean "root"?' in said
    assert '    client_max_body_size 1q;\n                         ^~\n' in said
    assert said.count('[emerg]') == 6
    places = [int(n) for n in re.findall(r'x\.conf:(\d+):\d+$', said, re.M)]
    assert places == sorted(places)


def test_errors_in_included_files_name_them(directory):
    (directory / 'conf.d').mkdir()
    (directory / 'conf.d' / 'bad.conf').write_text('\n\tserver {\n\t\tlisten unix:x.sock;\n\t\tbogus on;\n\t}\n')
    code, said = http(directory, 'include conf.d/*.conf;')
    assert code == 1 and f'unknown directive "bogus" in {directory}/conf.d/bad.conf:4:3\n\t\tbogus on;\n\t\t^~~~~' in said


def test_wrong_context_says_where_it_is_allowed(directory):
    code, said = test_of(directory, 'root /srv;\nevents { root /x; }\nhttp { events { } }\n')
    assert code == 1
    assert said.count('directive is not allowed here') == 3
    assert re.search(r'this is "main"; allowed in: .*http, server, location', said)


@pytest.mark.parametrize('text,words', [
    ('server { listen unix:x.sock; root /a; root /b; }', '"root" directive is duplicate'),
    ('server { listen unix:x.sock; etag on; etag off; }', '"etag" directive is duplicate'),
    ('server { listen unix:x.sock; listen unix:x.sock; }', 'duplicate listen'),
    ('server { listen unix:x.sock; location /a { } location /a { } }', 'duplicate location "/a"'),
    ('server { listen unix:x.sock default_server; } server { listen unix:x.sock default_server; }', 'duplicate default server'),
    ('upstream u { server unix:a; } upstream u { server unix:b; }', 'duplicate upstream "u"'),
    ('upstream u { }', 'no servers are inside upstream'),
    ('server { listen unix:x.sock; location ~ "(" { } }', r'missing'),
    ('server { listen unix:x.sock; rewrite ^ /x sometimes; }', 'invalid parameter "sometimes"'),
    ('server { listen unix:x.sock; return 200 "$nothing"; }', 'unknown "nothing" variable'),
    ('server { listen 0.0.0.0:99999; }', 'invalid port'),
    ('server { listen 1.2.3.4.5:80; }', '"1.2.3.4.5:80"'),
    ('server { listen unix:x.sock; location / { location /b { } location c { } } location /d { location /e { } } }', 'location "/e" is outside location "/d"'),
    ('server { listen unix:x.sock; location /a { try_files x; } }', 'invalid number of arguments in "try_files"'),
    ('server { listen unix:x.sock; error_page 99 /x; }', 'value "99" must be between 300 and 599'),
    ('server { listen unix:x.sock; root /srv\nindex x; }', 'is a ";" missing at the end of line'),
    ('server { listen unix:x.sock; location / { fastcgi_pass ; } }', 'invalid number of arguments in "fastcgi_pass"'),
    ('server "', 'unexpected end of file'),
    ('server { listen unix:x.sock; root "/a"b; }', 'unexpected "b"'),
    ('server { listen unix:x.sock; location / { internal; alias /x; root /y; } }', '"root" directive is duplicate, "alias" directive was specified too'),
])
def test_refused(directory, text, words):
    code, said = http(directory, text)
    assert code == 1 and words in said, said


@pytest.mark.parametrize('line', [
    'limit_req zone=x;', 'limit_conn x 1;', 'ssl_ocsp on;', 'valid_referers none;', 'secure_link $arg_x;',
    'auth_jwt x;',
])
def test_guards_that_do_not_work_yet_are_errors(directory, line):
    """Nothing is ever served because a guard was skipped."""
    name = line.split()[0].rstrip(';')
    where = 'server { listen unix:x.sock; location / { %s } }' if not name.startswith('ssl_') else 'server { listen unix:x.sock; %s }'
    code, said = http(directory, where % line)
    assert code == 1 and re.search(rf'\[emerg\] .*"{name}" directive', said), said


@pytest.mark.parametrize('line', ['proxy_pass http://127.0.0.1:8;', 'grpc_pass grpc://127.0.0.1:8;'])
def test_handlers_that_do_not_exist_are_errors(directory, line):
    """Files, perhaps sources of scripts, would be served in their place."""
    code, said = http(directory, 'server { listen unix:x.sock; location / { %s } }' % line)
    assert code == 1 and f'"{line.split()[0]}" directive is not supported' in said


def test_what_has_no_meaning_or_comes_later_is_a_notice(directory):
    code, said = test_of(directory, f'error_log {directory}/e.log;\nevents {{\n use epoll;\n accept_mutex on;\n}}\nhttp {{\n access_log off;\n'
                                    ' aio threads;\n proxy_cache_path /tmp/x keys_zone=a:1m;\n server { listen unix:x.sock; }\n}\n')
    assert code == 0, said
    for name, line, what in [('use', 3, 'has no meaning here and is ignored'), ('accept_mutex', 4, 'has no meaning here and is ignored'),
                             ('aio', 8, 'has no meaning here and is ignored'), ('proxy_cache_path', 9, 'is not supported yet and is ignored')]:
        assert f'[notice] "{name}" directive {what} in {directory}/x.conf:{line}:2\n' in said


def test_sizes_and_times(server, protocol):
    s = server('''server { listen @SOCK@; root @DIR@/www;
        location /k { client_max_body_size 1k; fastcgi_pass unix:@DIR@/none.sock; }
        location /K { client_max_body_size 2K; fastcgi_pass unix:@DIR@/none.sock; }
        location /m { client_max_body_size 1m; fastcgi_pass unix:@DIR@/none.sock; }
        location /b { client_max_body_size 100; fastcgi_pass unix:@DIR@/none.sock; }
        location /day { expires 1d; } location /compound { expires 1h30m; } location /seconds { expires 15; }
        location /year { expires 1y; } location /month { expires 1M; } location /weeks { expires 2w; } }''')

    def post(path, size):
        return s.get(path, protocol, method='POST', body=b'x' * size).status
    for path, size in [('/k', 1024), ('/K', 2048), ('/m', 1 << 20), ('/b', 100)]:
        assert (post(path, size), post(path, size + 1)) == (502, 413), path
    for name, seconds in [('day', 86400), ('compound', 5400), ('seconds', 15), ('year', 365 * 86400), ('month', 30 * 86400), ('weeks', 14 * 86400)]:
        s.file(f'{name}', b'x')
        assert s.get(f'/{name}', protocol)['cache-control'] == f'max-age={seconds}', name


@pytest.mark.parametrize('line', ['client_max_body_size 1x;', 'client_max_body_size -1;', 'client_max_body_size 99999999999999999999;',
                                  'client_max_body_size 9999999999g;', 'send_timeout 1x;', 'send_timeout 1s1m;', 'send_timeout "";',
                                  'keepalive_requests many;', 'keepalive_requests 99999999999999999999;', 'gzip_comp_level 10;'])
def test_bad_units(directory, line):
    code, said = http(directory, f'server {{ listen unix:x.sock; {line} }}')
    assert code == 1 and f'x.conf:6:{30 + len(line.split()[0]) + 1}\n' in said, said  # The value is what is marked.


@pytest.mark.parametrize('protocol', CLEAR)
def test_includes_with_globs(server, protocol):
    s = server('include @DIR@/sites/*.conf; include @DIR@/none/*.conf;', start=False)
    (s.directory / 'sites').mkdir()
    for name in ('20-second', '10-first', 'not-this.txt'):
        (s.directory / 'sites' / (name if '.' in name else f'{name}.conf')).write_text(
            f'server {{ listen unix:{s.socket_path}; server_name {name}; location / {{ return 200 "{name}"; }} }}')
    (s.directory / 'sites' / '.hidden.conf').write_text('this is no configuration')
    (s.directory / 'corehttpd.conf').write_text((s.directory / 'corehttpd.conf').read_text() + '\n# ' + str(s.socket_path))
    s.start()
    assert s.get('/', protocol, host='20-second').body == b'20-second'
    assert s.get('/', protocol, host='unknown').body == b'10-first'  # The first in the order of names is the default.


def test_relative_includes_start_at_the_configuration_file(directory):
    (directory / 'sub').mkdir()
    (directory / 'sub' / 'part.conf').write_text('listen unix:x.sock;')
    (directory / 'sub' / 'x.conf').write_text('events { } http { access_log off; server { include part.conf; } }')
    done = run('-t', '-c', directory / 'sub' / 'x.conf', '-e', 'stderr')
    assert done.returncode == 0, done.stderr


def test_missing_include(directory):
    code, said = http(directory, 'include none.conf;')
    assert code == 1 and re.search(r'\[emerg\] open\(\) ".*/none.conf" failed \(2: No such file or directory\) in .*x.conf:6:9', said)
    code, said = http(directory, 'include none/*.conf;\nserver { listen unix:x.sock; }')
    assert code == 0  # A pattern that matches nothing is right.


def test_include_that_includes_itself(directory):
    (directory / 'loop.conf').write_text('include loop.conf;')
    code, said = http(directory, 'include loop.conf;')
    assert code == 1 and 'loop.conf' in said and len(said) < 100_000


def test_binary_garbage(directory):
    for data in (b'\0\1\2\3', b'\xff\xfe' * 1000, b'{' * 5000, b'"' + b'x' * 100_000, b'a ' * 10000 + b';', b';;;;'):
        (directory / 'x.conf').write_bytes(data)
        done = subprocess.run([str(BINARY), '-t', '-c', str(directory / 'x.conf')], capture_output=True, timeout=DEADLINE)
        assert done.returncode == 1 and b'test failed' in done.stderr, data[:20]


def test_global_directives(server):
    s = server('server { listen @SOCK@; location / { return 200; } }', start=False)
    path = s.directory / 'corehttpd.conf'
    path.write_text(path.read_text().replace('worker_processes 1;', ''))
    s.extra = ['-g', 'worker_processes 3; worker_priority 1;']
    s.start()
    wait_until(lambda: len(s.workers_pids()) == 3, 'three workers')
    code, said = s.test('-q')
    assert (code, said) == (0, '')
    s.extra = ['-g', 'bogus on;']
    code, said = s.test()
    assert code == 1 and 'unknown directive "bogus"' in said and 'command line' in said


def test_duplicate_of_a_global_directive(server):
    s = server('server { listen @SOCK@; }', start=False)
    s.extra = ['-g', 'worker_processes 3;']
    code, said = s.test()
    assert code == 1 and '"worker_processes" directive is duplicate' in said


def test_prefix_is_where_relative_paths_start(server, protocol):
    s = server('server { listen @SOCK@; root www; access_log relative.log; }')
    s.file('a.txt', b'a')
    assert s.get('/a.txt', protocol).body == b'a'
    wait_until(lambda: '/a.txt' in s.log('relative.log'), 'the log')


def test_relative_configuration_file(directory):
    (directory / 'x.conf').write_text('events { } http { access_log off; server { listen unix:x.sock; } }')
    assert run('-t', '-p', directory, '-c', 'x.conf', '-e', 'stderr').returncode == 0
    assert run('-t', '-p', directory, '-cx.conf', '-e', 'stderr', cwd='/').returncode == 0
    assert run('-t', '-c', 'x.conf', '-e', 'stderr', cwd=directory).returncode == 0
    assert run('-t', '-c', 'x.conf', '-e', 'stderr', cwd='/').returncode == 1


def test_error_log_of_the_command_line(server):
    """-e is the log where no error_log says another one."""
    s = server('server { listen @SOCK@; root @DIR@/www; }', start=False)
    path = s.directory / 'corehttpd.conf'
    path.write_text(re.sub(r'^error_log .*\n', '', path.read_text(), flags=re.M))
    s.extra = ['-e', str(s.directory / 'early.log')]
    s.start()
    assert s.get('/none').status == 404
    s.wait_log('/none" failed', 'early.log')
    s.stop(signal.SIGQUIT)


@pytest.fixture
def blueprint():
    """What the file names and a test machine may lack: nothing is left behind."""
    made = [p for p in ('/var/log/nginx',) if not os.path.exists(p)]
    yield DATA / 'blueprint-nginx.conf'
    for path in made:
        shutil.rmtree(path, ignore_errors=True)


@pytest.mark.skipif(os.geteuid() != 0, reason='it names files that only root may write')
def test_blueprint(blueprint):
    """An operator's tuned nginx.conf: accepted, with a notice and a line for each directive whose feature is still to come."""
    done = run('-t', '-c', blueprint)
    assert done.returncode == 0, done.stderr
    assert 'test is successful' in done.stderr
    assert '[emerg]' not in done.stderr
    text = blueprint.read_text().splitlines()
    noticed = {}
    for name, line, column in re.findall(r'\[notice\] "(\w+)" directive .* in .*/blueprint-nginx.conf:(\d+):(\d+)', done.stderr):
        noticed[name] = int(line)
        assert text[int(line) - 1][int(column) - 1:].startswith(name)  # The place is right.
    for name in ('use', 'multi_accept', 'aio', 'directio', 'fastcgi_cache_path', 'fastcgi_cache_key', 'fastcgi_cache_use_stale'):
        assert name in noticed
    works = {'worker_processes', 'keepalive_timeout', 'gzip', 'gzip_types', 'log_format', 'access_log', 'open_file_cache', 'client_max_body_size'}
    assert not works & set(noticed)


@pytest.mark.skipif(os.geteuid() != 0, reason='it names files that only root may write')
def test_blueprint_serves(blueprint, server, protocol):
    """Its http part with a site: what it asks for is what is done."""
    body = blueprint.read_text()
    inside = body[body.index('http {') + 6:body.rindex('}')]
    inside = '\n'.join(line for line in inside.splitlines() if '/etc/nginx/conf.d' not in line and '/etc/nginx/sites' not in line)
    inside = inside.replace('/var/log/nginx/access.log', '@DIR@/own.log').replace('buffer=64k flush=5s', '').replace('/var/log/nginx/error.log', '@DIR@/error.log')
    s = server(inside + '\nserver { listen @SOCK@; root @DIR@/www; }', start=False)
    path = s.directory / 'corehttpd.conf'
    path.write_text(re.sub(r'^  access_log .*access.log;\n', '', path.read_text(), flags=re.M))
    s.start()
    s.file('a.html', b'<p>' * 1000)
    r = s.get('/a.html', protocol, headers=[('Accept-Encoding', 'gzip')])
    assert r.status == 200 and r['content-type'] == 'text/html; charset=utf-8'
    assert r['content-encoding'] == 'gzip' and r['vary'] == 'Accept-Encoding'
    wait_until(lambda: '"status": "200"' in s.log('own.log'), 'the log')

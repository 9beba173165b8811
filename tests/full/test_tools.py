"""Tools that read nginx's logs read ours unmodified: the same requests go to Debian's nginx and to us, and fail2ban's filters and
GoAccess must find the same in both."""
import json
import re
import socket
import subprocess
from pathlib import Path

import pytest
from harness import DEADLINE, free_port, wait_until
from nginx_peer import Nginx, listens

FILTERS = Path('/etc/fail2ban/filter.d')
# What these filters read is written by features that are still to come (limit_req).
LATER = {'nginx-limit-req'}
# What filters include; it is none itself.
PIECES = {'nginx-error-common'}
# The filter reads the access log, the error log, or both.
LOGS = ('access.log', 'error.log')

SITE = '''
  server {
    listen 127.0.0.1:%d;
    server_name www.example.org;
    root %s;
    index index.html;
    location /gone { return 410; }
    location = /quiet.txt { log_not_found off; }
    location /private/ { auth_basic "Staff"; auth_basic_user_file %s.users; }
    location /office/ { allow 192.0.2.0/24; deny all; }
  }
'''


def get(path, more='', version='HTTP/1.1', method='GET'):
    return f'{method} {path} {version}\r\nHost: www.example.org\r\nConnection: close\r\n{more}\r\n'.encode('latin-1')


AGENT = 'User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:115.0) Gecko/20100101 Firefox/115.0\r\n'

# One connection each, from an address of its own (127.0.0.2 and on), so that tools tell clients apart.
TRAFFIC = [
    # What visitors do.
    get('/', AGENT),
    get('/index.html', AGENT + 'Referer: https://search.example/?q=x\r\n'),
    get('/style.css?v=3', AGENT + 'Referer: http://www.example.org/\r\n'),
    get('/style.css', AGENT, method='HEAD'),
    get('/big.bin', AGENT + 'Range: bytes=0-99\r\n'),
    get('/a%20name%22.txt', AGENT),
    get('/missing.png', AGENT),
    get('/missing/', AGENT),
    get('/quiet.txt', AGENT),
    get('/gone', AGENT),
    get('/style.css', 'User-Agent: curl/7.88.1\r\n', version='HTTP/1.0'),
    get('/index.html', AGENT, method='POST'),
    # What bots look for.
    get('/wp-login.php'),
    get('/wp-login.php', AGENT + 'Referer: http://www.example.org/wp-login.php\r\n'),
    get('/wp-signup.php?x=1'),
    get('/phpmyadmin/index.php'),
    get('/phpMyAdmin/'),
    get('/PMA/', method='HEAD'),
    get('/roundcube/'),
    get('/cgi-bin/test.cgi', method='POST', more='Content-Length: 0\r\n'),
    get('/mysqladmin'),
    get('//webmail/login'),
    get('/found/phpmyadmin/'),
    get('/private/'),
    get('/private/', 'Authorization: Basic am9lOnNlY3JldA==\r\n'),
    get('/private/', 'Authorization: Basic am9lOndyb25n\r\n'),
    get('/private/x?y', 'Authorization: Basic bm9ib2R5Ong=\r\nReferer: http://www.example.org/\r\n'),
    get('/private/', 'Authorization: Bearer x\r\n'),
    get('/office/'),
    get('/office/x', method='POST', more='Content-Length: 0\r\n'),
    # What is no request.
    b'GET / HTTP/1.1\r\n\r\n',
    b'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
    b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n',
    b'\x03\x00\x00\x13\x0e\xe0\x00\x00\x00\x00\x00\x01\x00\x08\x00\x03\x00\x00\x00\r\n',
    b'GARBAGE\r\n\r\n',
    b'get / HTTP/1.1\r\nHost: x\r\n\r\n',
    b'GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n',
    b'GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n',
    b'GET / HTTP/1.1\r\nHost: a b\r\n\r\n',
    b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n',
    get('/wp-login.php', 'X-Long: ' + 'x' * 40000 + '\r\n'),
    # Another version's word for GET, as scanners send it.
    b'OPTIONS sip:nm SIP/2.0\r\nVia: SIP/2.0/TCP nm;branch=foo\r\n\r\n',
]


def send_all(port):
    """Each of TRAFFIC on its own connection; waits until the server has closed it."""
    for number, data in enumerate(TRAFFIC):
        with socket.socket() as client:
            client.settimeout(DEADLINE)
            client.bind((f'127.0.0.{2 + number}', 0))
            client.connect(('127.0.0.1', port))
            try:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
            except (ConnectionResetError, BrokenPipeError):
                pass  # What it didn't read is thrown away with a reset.


@pytest.fixture(scope='module')
def sites(tmp_path_factory):
    """Logs of both servers after the same traffic: {name: directory}."""
    from harness import Server
    base = tmp_path_factory.mktemp('tools')
    for path in (base, base.parent, base.parent.parent):
        path.chmod(path.stat().st_mode | 0o055)
    root = base / 'root'
    (root / 'found/phpmyadmin').mkdir(parents=True)
    for name, data in {'index.html': '<p>Hello\n', 'style.css': 'p { color: red }\n', 'big.bin': 'x' * 100000, 'a name".txt': 'named',
                       'found/phpmyadmin/index.html': 'ours'}.items():
        (root / name).write_text(data)
    (root / 'private').mkdir()
    (root / 'private/index.html').write_text('ours')
    Path(f'{root}.users').write_text('# staff\njoe:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/:the boss\n')
    ports = free_port(), free_port()
    (base / 'ours').mkdir()
    ours = Server(base / 'ours', SITE % (ports[0], root, root))
    try:
        theirs = Nginx(base / 'nginx', SITE % (ports[1], root, root), ports[1])
        try:
            wait_until(lambda: listens(ports[0]), 'the port')
            for port in ports:
                send_all(port)
        finally:
            theirs.stop()
    finally:
        ours.stop()
    return {'ours': base / 'ours', 'nginx': base / 'nginx'}


def fail2ban(log, name):
    """(lines matched, addresses found by fail2ban-regex)."""
    summary = subprocess.run(['fail2ban-regex', str(log), str(FILTERS / f'{name}.conf')], capture_output=True, text=True, timeout=240).stdout
    matched = re.search(r'^Lines: (\d+) lines, \d+ ignored, (\d+) matched', summary, re.M)
    assert matched, summary
    found = subprocess.run(['fail2ban-regex', '-o', 'ip', str(log), str(FILTERS / f'{name}.conf')], capture_output=True, text=True, timeout=240)
    return int(matched[2]), sorted(found.stdout.split())


@pytest.mark.parametrize('name', sorted({f.stem for f in FILTERS.glob('nginx-*.conf')} - LATER - PIECES))
def test_fail2ban_finds_what_it_finds_in_nginx(sites, name):
    total = 0
    for log in LOGS:
        theirs = fail2ban(sites['nginx'] / log, name)
        ours = fail2ban(sites['ours'] / log, name)
        assert ours == theirs, f'{log}: {ours} but nginx {theirs}'
        total += theirs[0]
    assert total, 'the traffic has nothing for this filter: the comparison says nothing'


def normal(line):
    """Without the time, and without the size of an error page, which has the server's name in it."""
    line = re.sub(r'\[[^\]]*\d{4}:[^\]]*\]', '[time]', line)
    return re.sub(r'" ([45]\d\d) [1-9]\d* "', r'" \1 page "', line)


def test_access_logs_are_equal(sites):
    ours, theirs = ([normal(line) for line in (sites[name] / 'access.log').read_text().splitlines()] for name in ('ours', 'nginx'))
    assert ours == theirs


def problems(log):
    """What the error log says of each request that had a problem at level error or above; with the times and process numbers gone."""
    lines = (line for line in log.read_text(errors='replace').splitlines() if re.search(r'\[(error|crit|alert|emerg)\]', line))
    return [re.sub(r'^\S+ \S+ (\[\w+\]) \d+#\d+: \*\d+', r'\1', line) for line in lines]


def test_error_logs_are_equal(sites):
    ours, theirs = (problems(sites[name] / 'error.log') for name in ('ours', 'nginx'))
    assert ours == theirs
    assert any(re.match(r'\[error\] open\(\) "\S+" failed \(2: No such file or directory\), client: ', line) for line in ours)


def goaccess(log):
    report = log.with_suffix('.json')
    subprocess.run(['goaccess', str(log), '--log-format=COMBINED', '--no-global-config', '-o', str(report)],
                   capture_output=True, timeout=240, stdin=subprocess.DEVNULL, check=True)
    return json.loads(report.read_text())


def test_goaccess_counts_the_same(sites):
    ours, theirs = goaccess(sites['ours'] / 'access.log'), goaccess(sites['nginx'] / 'access.log')
    for name in ('total_requests', 'valid_requests', 'failed_requests', 'unique_visitors', 'unique_files', 'unique_not_found', 'unique_static_files'):
        assert ours['general'][name] == theirs['general'][name], name
    for panel in ('status_codes', 'not_found', 'requests', 'hosts'):
        assert [(d['data'], d['hits']['count']) for d in ours[panel]['data']] == [(d['data'], d['hits']['count']) for d in theirs[panel]['data']], panel

"""The error log beyond plain lines: JSON, request ids, debugging of chosen clients, folding of floods."""
import json
import re
import signal
import socket

import pytest
from harness import Http1, free_port, wait_until

SITE = 'server { listen @SOCK@; root @DIR@/www; }'


def test_json(server, protocol):
    s = server(SITE, main='error_log_format json request_id;')
    s.get('/none"\\x?y', protocol, host='localhost', headers=[('Referer', 'http://r.example/"')])
    s.wait_log('"open')
    line = next(json.loads(t) for t in s.log().splitlines() if 'open()' in t)
    assert line['level'] == 'error' and line['errno'] == 2 and line['client'] == 'unix:' and line['host'] == 'localhost'
    assert line['message'] == f'open() "{s.root}/none"\\x" failed (2: No such file or directory)'
    assert line['request'].startswith('GET /none"\\x?y HTTP/') and line['referrer'] == 'http://r.example/"'
    assert re.fullmatch(r'[0-9a-f]{32}', line['request_id'])
    assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d', line['time'])
    assert isinstance(line['pid'], int) and isinstance(line['connection'], int)


def test_json_is_valid_whatever_is_asked(server):
    """Bytes that are no UTF-8, control characters, and lines that have to be cut."""
    s = server('large_client_header_buffers 4 32k; ' + SITE, main='error_log_format json;')
    client = Http1(s.socket_path)
    referers = [b'\xff\xfe"\\', bytes(range(0x80, 0x100)), b'"' * 6000, '\u00fc\u20ac\U0001f600'.encode() * 2000]
    for i, referer in enumerate(referers):
        client.send(b'GET /n%d HTTP/1.1\r\nHost: x\r\nReferer: %s\r\n\r\n' % (i, referer))
        assert client.read_response().status == 404
    wait_until(lambda: s.log().count('"open()') == len(referers), 'the lines')
    raw = (s.directory / 'error.log').read_bytes()
    parsed = [json.loads(line.decode()) for line in raw.splitlines()]
    assert all(len(line) < 4096 for line in raw.splitlines())
    found = [p for p in parsed if 'open()' in p['message']]
    assert found[0]['referrer'] == '\ufffd\ufffd"\\'
    assert found[2]['referrer'].strip('"') == '' and len(found[2]['referrer']) > 500


def test_request_id(server, protocol):
    """The same one as in the access log."""
    s = server('log_format own "$request_id"; access_log @DIR@/own.log own;' + SITE, main='error_log_format nginx request_id;')
    s.get('/none', protocol)
    found = s.wait_log(r'\[error\].*, request: "GET /none HTTP/.*", host: "localhost", request_id: "([0-9a-f]{32})"$').group(1)
    wait_until(lambda: s.log('own.log') == found + '\n', 'the same id')


def test_no_request_id_by_default(server):
    s = server(SITE)
    s.get('/none')
    s.wait_log('open')
    assert 'request_id' not in s.log()


def test_levels_and_several(server):
    s = server('server { listen @SOCK@; root @DIR@/www; error_log memory:32k debug; error_log @DIR@/a.log; error_log @DIR@/b.log crit; }')
    s.get('/none')
    s.wait_log('open', 'a.log')
    assert s.log('b.log') == ''
    assert 'error_log to memory is for debuggers only' in s.stderr_text()


def test_stderr(server):
    s = server('server { listen @SOCK@; root @DIR@/www; error_log stderr; }')
    s.get('/none')
    wait_until(lambda: 'open()' in s.stderr_text(), 'the line')


LIFE = ['accept: ', 'http request line: "GET /x ', 'using configuration "/"', 'http response head: 200',
        'http request done: 200, ', 'close http']


def test_debug(server, protocol):
    s = server('error_log @DIR@/debug.log debug; server { listen @SOCK@; location / { return 200; } }')
    s.get('/x', protocol)
    for words in LIFE:
        s.wait_log(r'\[debug\] \d+#\d+: \*\d+ ' + re.escape(words) + '.*, client: unix:', 'debug.log')
    assert '[debug]' not in s.log()


def test_debug_of_an_origin(server):
    s = server('error_log @DIR@/debug.log debug; server { listen @SOCK@; location / { fastcgi_pass unix:@DIR@/none.sock; } }')
    s.get('/x')
    s.wait_log(r'\[debug\].* connect to unix:.*none.sock.*, upstream: "fastcgi:', 'debug.log')


@pytest.mark.parametrize('named,debugged', [('127.0.0.1', True), ('127.0.0.0/8', True), ('localhost', True), ('10.0.0.0/8', False)])
def test_debug_connection(server, named, debugged):
    s = server('server { listen @SOCK@; }', start=False, events=f'debug_connection {named};')
    port = free_port()
    s.write_config(f'server {{ listen @SOCK@; listen 127.0.0.1:{port}; location / {{ return 200; }} }}')
    s.start()
    s.get('/unix')

    def connect():
        try:
            return Http1(('127.0.0.1', port))
        except OSError:
            return None
    client = wait_until(connect, 'the port')
    client.request('/tcp')
    client.close()
    if debugged:
        s.wait_log(r'\[debug\].*http request line: "GET /tcp .*client: 127.0.0.1')
        s.wait_log(r'\[debug\].*close http connection.*client: 127.0.0.1')
    s.stop(signal.SIGQUIT)
    assert 'client: unix:' not in s.log() and ('[debug]' in s.log()) == debugged


def test_debug_connection_of_unix_clients(server, protocol):
    s = server(SITE, events='debug_connection unix:; debug_connection 192.0.2.1;')
    s.get('/none', protocol)
    s.wait_log(r'\[debug\].*http request line: "GET /none ')


@pytest.mark.parametrize('text,words', [
    ('debug_connection 10.0.0.0/33;', 'invalid network "10.0.0.0/33" in debug_connection'),
    ('debug_connection no.such.host.invalid;', 'host not found in debug_connection "no.such.host.invalid"'),
])
def test_errors_in_debug_connection(server, text, words):
    s = server(SITE, start=False, events=text)
    code, said = s.test()
    assert code == 1 and words in said


@pytest.mark.parametrize('text,words', [
    ('error_log_format xml;', 'invalid value "xml"'),
    ('error_log_format json id;', 'invalid parameter "id"'),
])
def test_errors_in_the_format(server, text, words):
    s = server(SITE, start=False, main=text)
    code, said = s.test()
    assert code == 1 and words in said


def same(s, path='/none'):
    return [line for line in s.log().splitlines() if f'{s.root}{path}"' in line]


def test_a_flood_is_folded(server, protocol):
    """The first lines come whole and at once, the rest is counted; none is unaccounted for."""
    s = server(SITE)
    client = s.connect(protocol)
    asked = 400
    for _ in range(asked):
        client.request('/none')
    assert 'open()' in same(s)[0] and 'request: "GET /none' in same(s)[0]

    def accounted():
        lines = same(s)
        folded = [int(m.group(1)) for line in lines if (m := re.search(r'message repeated (\d+) times: \[ open\(\)', line))]
        return lines, folded, len(lines) - len(folded) + sum(folded)
    lines, folded, total = wait_until(lambda: accounted()[2] == asked and accounted(), 'the summing up')
    assert folded and len(lines) < asked / 2
    summary = next(line for line in lines if 'repeated' in line)
    assert re.search(r'\[error\] \d+#\d+: message repeated \d+ times: \[ open\(\) ".*/none" failed \(2: No such file or directory\) \], '
                     r'client: unix:$', summary)


def test_what_differs_is_never_folded(server):
    s = server(SITE)
    client = s.connect()
    for i in range(300):
        client.request(f'/none{i}')
    wait_until(lambda: s.log().count('open()') == 300, 'all lines')
    assert 'repeated' not in s.log()


def test_few_equal_lines_are_not_folded(server, protocol):
    """As many as tools that count lines per client want to see."""
    s = server(SITE)
    client = s.connect(protocol)
    for _ in range(10):
        client.request('/none')
    s.stop(signal.SIGQUIT)
    assert len(same(s)) == 10 and 'repeated' not in s.log()


def test_clients_are_folded_apart(server):
    """fail2ban counts per client."""
    s = server('server { listen @SOCK@; }', start=False)
    port = free_port()
    s.write_config(f'server {{ listen @SOCK@; listen 127.0.0.1:{port}; root @DIR@/www; }}')
    s.start()
    clients = []

    def connect(i):
        with_address = socket.create_connection(('127.0.0.1', port), 20, source_address=(f'127.0.0.{i}', 0))
        client = Http1.__new__(Http1)
        client.socket, client.buffer = with_address, b''
        return client
    wait_until(lambda: not clients and (clients.append(connect(100)) or True), 'the port')
    for i in range(1, 40):
        clients.append(connect(i))
    for client in clients:
        client.request('/none')
    s.wait_log('client: 127.0.0.39,')
    assert len(same(s)) == 40 and 'repeated' not in s.log()


def test_what_is_folded_is_told_at_the_end(server):
    s = server(SITE)
    client = s.connect()
    for _ in range(200):
        client.request('/none')
    client.close()
    s.stop(signal.SIGTERM)
    folded = sum(int(n) for n in re.findall(r'message repeated (\d+) times', s.log()))
    assert folded + len([line for line in same(s) if 'repeated' not in line]) == 200

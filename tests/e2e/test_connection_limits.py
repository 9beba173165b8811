"""How long connections live and how they end: keepalive_*, client_*_timeout, send_timeout, lingering_*, reset_timedout_connection,
chunked_transfer_encoding, server_tokens. Short times are configured and conditions waited for."""
import re
import socket

import pytest
from harness import Http1, free_port, wait_until

SITE = '''%s server { listen @SOCK@; listen 127.0.0.1:@PORT@; root @DIR@/www;
  location /status { access_log off; stub_status; }
  location /post { fastcgi_pass unix:@DIR@/none.sock; }
  location /no { return 403; }
  location /uri { return 200 uri; } }'''


@pytest.fixture
def make(server):
    def made(directives=''):
        port = free_port()
        s = server((SITE % directives).replace('@PORT@', str(port)))
        s.port = port
        s.file('large.bin', b'x' * 8_000_000)
        return s
    return made


def active(s):
    return int(re.search(rb'Active connections: (\d+)', s.get('/status').body)[1])


def slow_reader(s):
    """Asks for much and reads nothing."""
    client = Http1.__new__(Http1)
    client.buffer = b''
    client.socket = socket.socket()
    client.socket.settimeout(20)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.socket.connect(('127.0.0.1', s.port))
    client.send(b'GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\n')
    return client


def test_idle_connections_end(make, protocol):
    s = make('keepalive_timeout 200ms;')
    client = s.connect(protocol)
    assert client.request('/uri').status == 200
    if protocol == 'h1':
        assert client.closed()
    else:
        while client.pump():
            pass
    wait_until(lambda: active(s) == 1, 'the connection to be gone')


def test_keepalive_time(make):
    s = make('keepalive_time 1ms;')
    client = Http1(s.socket_path)
    wait_until(lambda: client.request('/uri').closed, 'the age to be noticed')
    assert client.closed()


@pytest.mark.parametrize('directive,agent,method,closes', [
    ('', 'Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)', 'POST', True),
    ('', 'Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)', 'GET', False),
    ('', 'Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 5.1)', 'POST', False),
    ('keepalive_disable none;', 'Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)', 'POST', False),
    ('keepalive_disable safari;', 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_7) AppleWebKit/534 Version/5.1 Safari/534', 'GET', True),
    ('keepalive_disable msie6;', 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_7) AppleWebKit/534 Version/5.1 Safari/534', 'GET', False),
    ('keepalive_disable safari msie6;', 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) Chrome/99.0 Safari/537', 'GET', False)])
def test_keepalive_disable(make, directive, agent, method, closes):
    s = make(directive)
    assert s.get('/uri', 'h1', method=method, headers=[('User-Agent', agent)]).closed == closes


def test_max_headers(make, protocol):
    s = make('max_headers 10;')
    fields = [(f'F{i}', 'x') for i in range(9)]  # And Host.
    assert s.get('/uri', protocol, headers=fields).status == 200
    assert s.get('/uri', protocol, headers=fields + [('F', 'x'), ('G', 'x')]).status == 400
    if protocol == 'h1':
        assert s.get('/uri', headers=fields + [('F', 'x')]).status == 400
        s.wait_log('client sent too many header lines')


def test_late_heads_and_bodies(make, protocol):
    s = make('client_header_timeout 300ms; client_body_timeout 200ms;')
    if protocol == 'h1':
        for data, status in [(b'GET /uri HTTP/1.1\r\nHo', b'408'), (b'G', b'408'), (b'', b'')]:
            client = Http1(s.socket_path)
            client.send(data)
            assert client.rest()[9:12] == status
        assert s.wait_log('client timed out')
        # A head that comes byte by byte has the same time in all.
        client = Http1(s.socket_path)
        request, answer = b'GET /uri HTTP/1.1\r\nHost: x\r\nA: ' + b'x' * 10_000, b''
        client.socket.settimeout(0.02)
        for byte in request:
            try:
                client.send(bytes([byte]))
                answer = client.socket.recv(1000)
                break
            except TimeoutError:
                continue
        assert answer[9:12] == b'408'
    client = s.connect(protocol)
    if protocol == 'h1':
        client.send(b'POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc')
        response = client.read_response()
        assert response.status == 408 and response.closed and client.closed()
    else:
        stream = client.start('/post', 'POST', end=False)
        client.h2.send_data(stream, b'abc')
        client.flush()
        assert client.read_response(stream).status == 408


@pytest.mark.parametrize('reset', ['on', 'off'])
def test_send_timeout(make, reset):
    s = make(f'send_timeout 200ms; reset_timedout_connection {reset};')
    client = slow_reader(s)
    s.wait_log('client timed out')
    wait_until(lambda: active(s) == 1, 'the connection to be closed')
    ends = 'end'
    try:
        while client.socket.recv(1 << 20):
            pass
    except ConnectionResetError:
        ends = 'reset'
    assert ends == ('reset' if reset == 'on' else 'end')
    s.wait_log(r'GET /large.bin HTTP/1.1" 200', 'access.log')


@pytest.mark.parametrize('lingering', ['on', 'off', 'always'])
def test_lingering_close(make, lingering):
    s = make(f'lingering_close {lingering}; lingering_time 30s; lingering_timeout 20s;')
    client = Http1(('127.0.0.1', s.port))
    client.send(b'POST /no HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\nabc')
    if lingering == 'off':
        # Closed at once, for better or worse.
        wait_until(lambda: active(s) == 1, 'the close')
        return
    assert client.read_response().status == 403
    for _ in range(20):  # It is read past, so that no reset comes.
        client.send(b'x' * 10_000)
    assert active(s) == 2
    client.close()
    wait_until(lambda: active(s) == 1, 'the end of lingering')
    client = Http1(('127.0.0.1', s.port))
    client.send(b'GET /uri HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    assert client.read_response().body == b'uri' and client.closed()
    assert active(s) == (2 if lingering == 'always' else 1)


def test_lingering_ends(make):
    s = make('lingering_timeout 200ms; lingering_time 400ms;')
    client = Http1(('127.0.0.1', s.port))
    client.send(b'POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\nConnection: close\r\n\r\n')
    assert client.read_response().status == 413
    wait_until(lambda: active(s) == 1, 'lingering_timeout')
    client = Http1(('127.0.0.1', s.port))
    client.send(b'POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\nConnection: close\r\n\r\n')
    client.socket.settimeout(0.05)
    with pytest.raises((BrokenPipeError, ConnectionResetError)):  # Though bytes keep coming.
        while True:
            client.send(b'x')
            try:
                client.socket.recv(1000)
            except TimeoutError:
                pass


def test_unchunked_answers_end_with_the_connection(make):
    s = make('chunked_transfer_encoding off; gzip on; gzip_min_length 1; gzip_types *;')
    response = s.get('/large.bin', 'h1', headers=[('Accept-Encoding', 'gzip')])
    assert response['transfer-encoding'] is None and response['content-length'] is None and response.closed
    assert response['content-encoding'] == 'gzip'


@pytest.mark.parametrize('tokens,server_field', [('on', r'corehttpd/\S+'), ('off', 'corehttpd'), ('build', r'corehttpd/\S+.*')])
def test_server_tokens(make, protocol, tokens, server_field):
    s = make(f'server_tokens {tokens};')
    for path in ('/uri', '/no'):
        response = s.get(path, protocol)
        assert re.fullmatch(server_field, response['server'])
    assert (b'corehttpd/' in response.body) == (tokens != 'off')


def test_buffers_for_heads(make, protocol):
    """The limits: a line within one buffer, the head within all of them (nginx's 414 and 400)."""
    s = make('client_header_buffer_size 1k; large_client_header_buffers 2 2k;')
    assert s.get('/uri?' + 'a' * 1900, protocol).status == 200
    assert s.get('/uri?' + 'a' * 2100, protocol).status == 414
    assert s.get('/uri', protocol, headers=[('A', 'b' * 1900)]).status == 200
    response = s.get('/uri', protocol, headers=[('A', 'b' * 2100)])
    assert response.status == 400 and b'Request Header Or Cookie Too Large' in response.body
    # Over HTTP/2 the client was told the limit of the whole.
    assert s.get('/uri', protocol, headers=[(f'a{i}', 'b' * 1500) for i in range(4)]).status == (400 if protocol == 'h1' else 431)


def test_names_of_fields(make, protocol):
    location = 'location /names { return 200 "$http_a_b|$http_c"; } '
    fields = [('A_B', 'under'), ('C', 'c')]
    for directives, body in [('', b'|c'), ('underscores_in_headers on;', b'under|c'), ('ignore_invalid_headers off; underscores_in_headers on;', b'under|c')]:
        s = make(directives)
        text = (s.directory / 'corehttpd.conf').read_text().replace('location /no ', location + 'location /no ')
        (s.directory / 'corehttpd.conf').write_text(text)
        s.reload()
        assert s.get('/names', protocol, headers=fields).body == body


def test_paths_and_redirects(make, protocol):
    s = make('merge_slashes off; port_in_redirect off;')
    s.file('dir/index.html', 'index')
    assert s.get('//uri', protocol).status == 404
    address = ('127.0.0.1', s.port)
    client = s.connect(protocol, address)
    assert client.request('/dir', host=f'a.example:{s.port}')['location'] == 'http://a.example/dir/'
    s = make('')
    s.file('dir/index.html', 'index')
    assert s.get('//uri', protocol).body == b'uri'
    client = s.connect(protocol, ('127.0.0.1', s.port))
    assert client.request('/dir', host='a.example')['location'] == f'http://a.example:{s.port}/dir/'
    s = make('absolute_redirect off;')
    s.file('dir/index.html', 'index')
    assert s.get('/dir', protocol)['location'] == '/dir/'

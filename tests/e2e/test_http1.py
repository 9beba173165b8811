"""HTTP/1.1 on the wire: framing, limits, keep-alive, pipelining, refusals. Cases 1 to 4 and 7 of the field among them."""
import socket

import pytest
from harness import Http1, wait_until

ECHO = '''server { listen @SOCK@; root @DIR@/www; %s
  location /uri { return 200 "$request_method $uri $args"; }
  location = /big { client_max_body_size 10; return 200 big; } }'''


def talk(s, data):
    """Sends data, closes our side, returns everything that comes back."""
    client = Http1(s.socket_path)
    client.send(data)
    client.socket.shutdown(socket.SHUT_WR)
    return client.rest()


def status_of(answer):
    return int(answer.split(b' ')[1]) if answer.startswith(b'HTTP/1.') else None


BAD = {
    'case 1: TE and CL': b'POST /uri HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n',
    'case 1: CL and TE': b'POST /uri HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'case 2: two lengths': b'POST /uri HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
    'case 2: list of lengths': b'POST /uri HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 2\r\n\r\nab',
    'case 4: blank before colon': b'POST /uri HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n',
    'TE on HTTP/1.0': b'POST /uri HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'negative length': b'POST /uri HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n',
    'length with sign': b'POST /uri HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na',
    'huge length': b'POST /uri HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n',
    'hex length': b'POST /uri HTTP/1.1\r\nHost: x\r\nContent-Length: 0x1\r\n\r\na',
    'no host': b'GET /uri HTTP/1.1\r\n\r\n',
    'two hosts': b'GET /uri HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
    'bad host': b'GET /uri HTTP/1.1\r\nHost: a/b\r\n\r\n',
    'host with blank': b'GET /uri HTTP/1.1\r\nHost: a b\r\n\r\n',
    'folded field': b'GET /uri HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n',
    'field without colon': b'GET /uri HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n',
    'NUL in a value': b'GET /uri HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n',
    'bare CR in a value': b'GET /uri HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n',
    'no version': b'GET /uri\r\nHost: x\r\n\r\n',
    'bad version': b'GET /uri HTTX/1.1\r\nHost: x\r\n\r\n',
    'bad method': b'G@T /uri HTTP/1.1\r\nHost: x\r\n\r\n',
    'method in lower case': b'get /uri HTTP/1.1\r\nHost: x\r\n\r\n',
    'control in target': b'GET /u\x01ri HTTP/1.1\r\nHost: x\r\n\r\n',
    'NUL in path': b'GET /uri%00.txt HTTP/1.1\r\nHost: x\r\n\r\n',
    'relative target': b'GET uri HTTP/1.1\r\nHost: x\r\n\r\n',
    'no start': b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
}


@pytest.mark.parametrize('name', BAD)
def test_refused_with_400_and_closed(server, name):
    s = server(ECHO % '')
    answer = talk(s, BAD[name] + b'GET /uri/second HTTP/1.1\r\nHost: x\r\n\r\n')
    assert status_of(answer) == 400, answer
    assert b'second' not in answer  # Nothing behind it was taken for a request.
    assert b'Connection: close' in answer


@pytest.mark.parametrize('method,path,host,said', [
    ('get', '/', 'x', 'client sent invalid method while reading client request line'),
    ('GET', '/%zz', 'x', 'client sent invalid request while reading client request line'),
    ('GET', '/../x', 'x', 'client sent invalid request while reading client request line'),
    ('GET', '/', 'a..b', 'client sent invalid host header while reading client request headers')])
def test_the_log_says_why_a_request_is_invalid(server, method, path, host, said, protocol):
    s = server(ECHO % '')
    assert s.get(path, protocol, method=method, host=host).status == 400
    assert '[info]' in s.wait_log(rf'.*{said}, client: unix:')[0]


@pytest.mark.parametrize('request_line,status', [
    (b'GET /uri HTTP/2.0', 505), (b'GET /uri HTTP/9.9', 505), (b'GET /' + b'a' * 9000 + b' HTTP/1.1', 414),
    (b'TRACE /uri HTTP/1.1', 405), (b'CONNECT x:80 HTTP/1.1', 405)])
def test_request_lines(server, request_line, status):
    s = server(ECHO % '')
    assert status_of(talk(s, request_line + b'\r\nHost: x\r\n\r\n')) == status


def test_transfer_codings(server):
    s = server(ECHO % '')

    def post(coding):
        return status_of(talk(s, b'POST /uri HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: ' + coding + b'\r\n\r\n0\r\n\r\n'))
    assert post(b'chunked') == 200
    assert post(b'CHUNKED') == 200
    assert post(b'gzip, chunked') == 501
    assert post(b'identity') in (400, 501)
    assert status_of(talk(s, b'POST /uri HTTP/1.1\r\nHost: x\r\ntRANSFER-ENCODING: chunked\r\n\r\n0\r\n\r\n')) == 200


def test_too_large_heads(server):
    s = server(ECHO % '')
    assert status_of(talk(s, b'GET /uri HTTP/1.1\r\nHost: x\r\nA: ' + b'a' * 9000 + b'\r\n\r\n')) == 400
    many = b''.join(b'F%d: %s\r\n' % (i, b'x' * 100) for i in range(1000))
    assert status_of(talk(s, b'GET /uri HTTP/1.1\r\nHost: x\r\n' + many + b'\r\n')) == 400
    assert status_of(talk(s, b'GET /uri HTTP/1.1\r\nHost: x\r\nA: ' + b'a' * 7000 + b'\r\n\r\n')) == 200


CHUNKS = {
    'extension': (b'5;a=b;c="d"\r\nhello\r\n0\r\n\r\n', 200),
    'trailer': (b'5\r\nhello\r\n0\r\nX-T: v\r\n\r\n', 200),
    'case 3: size ended by LF': (b'5\nhello\r\n0\r\n\r\n', 400),
    'case 3: extension ended by LF': (b'5;a\nhello\r\n0\r\n\r\n', 400),
    'case 3: XX instead of the last CRLF': (b'5\r\nhello\r\n0\r\nXXGET / HTTP/1.1\r\nHost: x\r\n\r\n', 400),
    'data longer than its size': (b'5\r\nhelloo\r\n0\r\n\r\n', 400),
    'no hex': (b'g\r\nhello\r\n0\r\n\r\n', 400),
    'empty size': (b'\r\nhello\r\n0\r\n\r\n', 400),
    'huge size': (b'fffffffffffffffff\r\nhello\r\n0\r\n\r\n', 400),
    'negative size': (b'-1\r\nhello\r\n0\r\n\r\n', 400),
}


@pytest.mark.parametrize('name', CHUNKS)
def test_chunked(server, name):
    s = server('server { listen @SOCK@; location / { auth_request /check; return 200 ok; } location /check { return 204; } '
               'location /read { client_max_body_size 1m; fastcgi_pass unix:@DIR@/none.sock; } }')
    body, status = CHUNKS[name]
    client = Http1(s.socket_path)
    client.send(b'POST /read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n' + body)
    answer = b'HTTP/1.1 %d ' % client.read_response().status
    # The body is read before the origin is asked: a bad one is 400, a good one reaches the dead origin.
    assert status_of(answer) == (502 if status == 200 else 400), answer


def test_keep_alive_and_versions(server):
    s = server(ECHO % '')
    client = Http1(s.socket_path)
    for i in range(20):
        r = client.request(f'/uri/{i}')
        assert r.body == f'GET /uri/{i} '.encode() and not r.closed
    r = client.request('/uri', headers=[('Connection', 'Close')])
    assert r['connection'] == 'close' and client.closed()
    assert b'Connection: close' in talk(s, b'GET /uri HTTP/1.0\r\n\r\n')
    client = Http1(s.socket_path)
    client.send(b'GET /uri HTTP/1.0\r\nConnection: keep-alive\r\n\r\n')
    assert client.read_response()['connection'] == 'keep-alive'
    assert client.request('/uri').status == 200


def test_keepalive_requests_and_off(server):
    s = server(ECHO % 'keepalive_requests 2;')
    client = Http1(s.socket_path)
    assert not client.request('/uri').closed
    assert client.request('/uri').closed and client.closed()
    assert server(ECHO % 'keepalive_requests 0;').get('/uri', 'h1').closed
    s = server(ECHO % 'keepalive_timeout 0;')
    client = Http1(s.socket_path)
    assert client.request('/uri').closed and client.closed()
    s = server(ECHO % 'keepalive_timeout 60 30;')
    assert s.get('/uri', 'h1')['keep-alive'] == 'timeout=30'


def test_pipelining_in_order(server):
    s = server(ECHO % '')
    s.file('big.bin', b'x' * 300000)
    client = Http1(s.socket_path)
    client.send(b''.join(b'GET /uri/%d HTTP/1.1\r\nHost: x\r\n\r\n' % i for i in range(50)) + b'GET /big.bin HTTP/1.1\r\nHost: x\r\n\r\n'
                b'POST /uri/body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET /uri/last HTTP/1.1\r\nHost: x\r\n\r\n')
    for i in range(50):
        assert client.read_response().body == b'GET /uri/%d ' % i
    assert len(client.read_response().body) == 300000
    assert client.read_response().body == b'POST /uri/body '
    assert client.read_response().body == b'GET /uri/last '


def test_split_at_every_byte(server):
    s = server(ECHO % '')
    request = b'POST /uri/a?b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n'
    client = Http1(s.socket_path)
    for at in range(1, len(request)):
        client.send(request[:at])
        client.send(request[at:])
        assert client.read_response().body == b'POST /uri/a b', at


def test_leading_blank_lines_and_lf(server):
    s = server(ECHO % '')
    assert status_of(talk(s, b'\r\n\r\nGET /uri HTTP/1.1\r\nHost: x\r\n\r\n')) == 200
    assert status_of(talk(s, b'GET /uri HTTP/1.1\nHost: x\n\n')) == 200


def test_absolute_form(server):
    s = server(ECHO % '' + 'server { listen @SOCK@; server_name other.example; location / { return 200 "other $host"; } }')
    client = Http1(s.socket_path)
    client.send(b'GET http://other.example/x HTTP/1.1\r\nHost: localhost\r\n\r\n')
    assert client.read_response().body == b'other other.example'


def test_invalid_and_underscored_names_are_dropped(server):
    site = 'server { listen @SOCK@; %s location / { return 200 "$http_a_b|$http_c"; } }'
    request = b'GET / HTTP/1.1\r\nHost: x\r\nA_B: underscore\r\nC: right\r\nBad@Name: x\r\n\r\n'
    s = server(site % '')
    assert talk(s, request).endswith(b'|right')
    s = server(site % 'underscores_in_headers on;')
    assert talk(s, request).endswith(b'underscore|right')


def test_expect_continue(server):
    """Case 7."""
    s = server('server { listen @SOCK@; location / { fastcgi_pass unix:@DIR@/none.sock; } location /no { return 403; } }')
    client = Http1(s.socket_path)
    client.send(b'POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n')
    assert client._until(b'\r\n\r\n') == b'HTTP/1.1 100 Continue'
    client.send(b'hello')
    assert client.read_response().status == 502
    for path, length, status in [(b'/no', 5, 403), (b'/', 5_000_000, 413)]:
        client = Http1(s.socket_path)
        client.send(b'POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n' % (path, length))
        r = client.read_response()
        assert r.status == status and r.informational == []


def test_unread_body_is_discarded(server):
    s = server(ECHO % '')
    client = Http1(s.socket_path)
    r = client.request('/uri', method='POST', body=b'x' * 100_000)
    assert r.status == 200
    if not r.closed:
        assert client.request('/uri/next').body == b'GET /uri/next '
    r = Http1(s.socket_path).request('/big', method='POST', body=b'x' * 11)
    assert r.status == 413


def test_half_closed_client_is_answered(server):
    s = server(ECHO % '')
    s.file('big.bin', b'x' * 3_000_000)
    answer = talk(s, b'GET /big.bin HTTP/1.1\r\nHost: x\r\n\r\n')
    assert len(answer) > 3_000_000


def test_header_and_body_timeouts(server):
    s = server(ECHO % 'client_header_timeout 100ms; client_body_timeout 100ms;')
    client = Http1(s.socket_path)
    client.send(b'GET /uri HTTP/1.1\r\nHo')
    answer = client.rest()  # Ends by itself.
    assert answer == b'' or status_of(answer) == 408
    s.wait_log(r'408', 'access.log')


def test_reset_at_any_byte(server):
    """A client that vanishes anywhere costs nothing: the server goes on."""
    s = server(ECHO % '')
    s.file('big.bin', b'x' * 3_000_000)
    request = b'GET /big.bin HTTP/1.1\r\nHost: x\r\n\r\n'
    for at in range(1, len(request) + 1):
        client = Http1(s.socket_path)
        client.send(request[:at])
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
        client.close()
    assert s.get('/uri').status == 200
    assert s.log().count('[alert]') == 0


def test_connection_counts_come_back_to_zero(server):
    s = server('server { listen @SOCK@; location / { stub_status; } }')
    clients = [Http1(s.socket_path) for _ in range(20)]
    for c in clients:
        assert c.request('/').status == 200
    assert b'Active connections: 20' in clients[0].request('/').body
    for c in clients[1:]:
        c.close()
    wait_until(lambda: b'Active connections: 1 ' in clients[0].request('/').body, 'connections to be counted down')

"""RFC 9112, request by request: what is answered, and whether the connection goes on. A table; bodies of the field's cases have tests of
their own (tests/issues)."""
import socket

import pytest
from harness import Http1

SITE = '''server { listen @SOCK@; root @DIR@/www; keepalive_timeout 300ms;
  location /uri { return 200 "$request_method $uri|$args|$host"; } }'''
GET = 'GET /uri HTTP/1.1\r\nHost: x\r\n'
POST = 'POST /uri HTTP/1.1\r\nHost: x\r\n'

# name: request, statuses in order, the connection stays open after them.
REQUESTS = {
    # §2.2: messages and lines.
    'one empty line first': ('\r\n' + GET + '\r\n', [200], True),
    'lines that end with LF': (GET.replace('\r\n', '\n') + '\n', [200], True),
    'bare CR in the request line': ('GET /uri\rX HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'bare CR at the line end': ('GET /uri HTTP/1.1\r\r\nHost: x\r\n\r\n', [400], False),
    'nothing but CR': ('GET /uri HTTP/1.1\rHost: x\r\r', [400], False),
    'blank before the first field': ('GET /uri HTTP/1.1\r\n Host: x\r\n\r\n', [400], False),
    'blank before the request line': (' ' + GET + '\r\n', [400], False),
    'something else than HTTP': ('\x16\x03\x01\x02\x00\x01', [400], False),
    # §2.3: versions.
    'HTTP/0.9': ('GET /uri\r\n', [400], False),
    'HTTP/1.0 closes': ('GET /uri HTTP/1.0\r\n\r\n', [200], False),
    'HTTP/1.0 with keep-alive': ('GET /uri HTTP/1.0\r\nConnection: keep-alive\r\n\r\n', [200], True),
    'HTTP/1.2 is read as 1.1': ('GET /uri HTTP/1.2\r\nHost: x\r\n\r\n', [200], True),
    'HTTP/2.0 in a request line': ('GET /uri HTTP/2.0\r\nHost: x\r\n\r\n', [505], False),
    'HTTP/3.0 in a request line': ('GET /uri HTTP/3.0\r\nHost: x\r\n\r\n', [505], False),
    'two digits': ('GET /uri HTTP/1.10\r\nHost: x\r\n\r\n', [400], False),
    'leading zero': ('GET /uri HTTP/01.1\r\nHost: x\r\n\r\n', [400], False),
    'no minor version': ('GET /uri HTTP/1\r\nHost: x\r\n\r\n', [400], False),
    'lower case': ('GET /uri http/1.1\r\nHost: x\r\n\r\n', [400], False),
    'blank after the version': ('GET /uri HTTP/1.1 \r\nHost: x\r\n\r\n', [400], False),
    # §3: request line.
    'two blanks': ('GET  /uri HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'a tab': ('GET\t/uri HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'blank in the target': ('GET /u ri HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'no target': ('GET HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'method in lower case': ('get /uri HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'method of no token': ('GE(T /uri HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'unknown method where anything goes': ('FOO /uri HTTP/1.1\r\nHost: x\r\n\r\n', [200], True),
    'unknown method for a file': ('FOO /f.txt HTTP/1.1\r\nHost: x\r\n\r\n', [405], True),
    'DELETE of a file': ('DELETE /f.txt HTTP/1.1\r\nHost: x\r\n\r\n', [405], True),
    'TRACE': ('TRACE /uri HTTP/1.1\r\nHost: x\r\n\r\n', [405], False),
    'a line that is too long': ('GET /' + 'a' * 9000 + ' HTTP/1.1\r\nHost: x\r\n\r\n', [414], False),
    # §3.2: targets.
    'absolute-form': ('GET http://x/uri HTTP/1.1\r\nHost: y\r\n\r\n', [200], True),
    'absolute-form with user': ('GET http://u@x/uri HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'absolute-form without Host': ('GET http://x/uri HTTP/1.1\r\n\r\n', [400], False),
    'absolute-form with a bad Host': ('GET http://x/uri HTTP/1.1\r\nHost: a/b\r\n\r\n', [400], False),
    'asterisk-form': ('OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n', [200], True),
    'asterisk-form of GET': ('GET * HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'authority-form': ('CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n', [405], False),
    'relative target': ('GET uri HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'control character': ('GET /uri\x01 HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'DEL': ('GET /uri\x7f HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'bytes above ASCII': ('GET /uri\xe4 HTTP/1.1\r\nHost: x\r\n\r\n', [200], True),
    '%00': ('GET /uri%00 HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'no hex after %': ('GET /uri%zz HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    '% at the end': ('GET /uri% HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'above the root': ('GET /../uri HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    'above the root, encoded': ('GET /%2e%2e/uri HTTP/1.1\r\nHost: x\r\n\r\n', [400], False),
    # §3.2: Host.
    'no Host': ('GET /uri HTTP/1.1\r\n\r\n', [400], False),
    'two Hosts': (GET + 'Host: x\r\n\r\n', [400], False),
    'empty Host': ('GET /uri HTTP/1.1\r\nHost:\r\n\r\n', [400], False),
    **{f'Host: {host}': (f'GET /uri HTTP/1.1\r\nHost: {host}\r\n\r\n', [400], False)
       for host in ('a/b', 'a b', 'a@b', 'a?b', 'a:bc', 'a:99999', '[::1', 'a"b', 'a..b', '\xe4', 'a\\b', 'a#b')},
    **{f'Host: {host}': (f'GET /uri HTTP/1.1\r\nHost: {host}\r\n\r\n', [200], True)
       for host in ('a:', 'a:80', 'a.', '[::1]:80', 'A-1.example', '1.2.3.4', 'a_b', 'a%20b')},
    # §5: fields.
    'obs-fold': (GET + 'A: b\r\n c\r\n\r\n', [400], False),
    'blank before the colon': (GET + 'A : b\r\n\r\n', [400], False),
    'blank in a name': (GET + 'A b: c\r\n\r\n', [400], False),
    'no colon': (GET + 'nonsense\r\n\r\n', [400], False),
    'no name': (GET + ': b\r\n\r\n', [400], False),
    'control in a name': (GET + 'A\x01: b\r\n\r\n', [400], False),
    'NUL in a value': (GET + 'A: b\0c\r\n\r\n', [400], False),
    'control in a value': (GET + 'A: b\x01c\r\n\r\n', [400], False),
    'CR in a value': (GET + 'A: b\rc\r\n\r\n', [400], False),
    'tab in a value': (GET + 'A: b\tc\r\n\r\n', [200], True),
    'bytes above ASCII in a value': (GET + 'A: \xff\r\n\r\n', [200], True),
    'empty value': (GET + 'A:\r\n\r\n', [200], True),
    'a field that is too long': (GET + 'A: ' + 'a' * 9000 + '\r\n\r\n', [400], False),
    'fields without end': (GET + ('A: ' + 'a' * 4000 + '\r\n') * 20 + '\r\n', [400], False),
    'too many fields': (GET + 'A: b\r\n' * 1000 + '\r\n', [400], False),
    'many fields': (GET + 'A: b\r\n' * 500 + '\r\n', [200], True),
    # §6: bodies.
    'a body of GET': (GET + 'Content-Length: 3\r\n\r\nabc' + GET + '\r\n', [200, 200], True),
    'no body of POST': (POST + '\r\n' + GET + '\r\n', [200, 200], True),
    'TE and CL': (POST + 'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n' + GET + '\r\n', [400], False),
    'two equal CLs': (POST + 'Content-Length: 1\r\nContent-Length: 1\r\n\r\na' + GET + '\r\n', [400], False),
    'two CLs': (POST + 'Content-Length: 1\r\nContent-Length: 2\r\n\r\na' + GET + '\r\n', [400], False),
    **{f'Content-Length: {value!r}': (f'{POST}Content-Length: {value}\r\n\r\na{GET}\r\n', [400], False)
       for value in ('+1', '-1', '1 1', '1,1', '', '0x1', '1_0', '1a', '1.0', '18446744073709551617', '99999999999999999999999')},
    'Content-Length: 01': (POST + 'Content-Length: 01\r\n\r\na' + GET + '\r\n', [200, 200], True),
    'a length that is too much': (POST + 'Content-Length: 9223372036854775807\r\n\r\na', [413], False),
    **{f'Transfer-Encoding: {value!r}': (f'{POST}Transfer-Encoding: {value}\r\n\r\n0\r\n\r\n{GET}\r\n', [501], False)
       for value in ('gzip, chunked', 'identity', 'xchunked', 'chunked, chunked', '"chunked"', 'chunked,', '')},
    'Transfer-Encoding after VT': (POST + 'Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n' + GET + '\r\n', [400], False),
    'Transfer-Encoding twice': (POST + 'Transfer-Encoding: chunked\r\n' * 2 + '\r\n0\r\n\r\n' + GET + '\r\n', [400], False),
    'Transfer-Encoding of HTTP/1.0': ('POST /uri HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', [400], False),
    # §7.1: what is wrong is refused although nobody reads the body.
    **{f'chunked: {body!r}': (POST + 'Transfer-Encoding: chunked\r\n\r\n' + body + '\r\n' + GET + '\r\n', [400], False)
       for body in ('5;ext\nhello', '5\nhello', '0\r\nXX', '5\r\nhelloXX', 'g', '', '-1', '0x5', 'F' * 17, '5 \r\nhello', '0\r\nX y: z')},
    'chunked, blanks before an extension': (POST + 'Transfer-Encoding: chunked\r\n\r\n3 \t;a\r\nabc\r\n0 ; b=c\r\n\r\n' + GET + '\r\n', [200, 200], True),
    'chunked': (POST + 'Transfer-Encoding: CHUNKED\r\n\r\n3;a="b"\r\nabc\r\n0\r\nA: b\r\n\r\n' + GET + '\r\n', [200, 200], True),
    # §9: connections.
    'pipelined after close': (GET + 'Connection: close\r\n\r\n' + GET + '\r\n', [200], False),
    'pipelined': ((GET + '\r\n') * 3, [200, 200, 200], True),
    'Upgrade is not taken up': (GET + 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n', [200], True),
    # RFC 9110 §10.1.1.
    'another expectation': (GET + 'Expect: 200-ok\r\n\r\n', [417], True),
    'another expectation, and a body': (POST + 'Expect: 200-ok\r\nContent-Length: 1\r\n\r\na', [417], False),
    'another expectation of HTTP/1.0': ('GET /uri HTTP/1.0\r\nExpect: 200-ok\r\n\r\n', [200], False),
    'an expectation without a body': (GET + 'Expect: 100-continue\r\n\r\n', [200], True),
}


@pytest.fixture(scope='module')
def site(tmp_path_factory):
    import shutil
    import tempfile
    from pathlib import Path

    from harness import Server
    path = Path(tempfile.mkdtemp(prefix='core-', dir='/tmp'))
    s = Server(path, SITE)
    s.file('f.txt', 'file')
    yield s
    s.stop()
    shutil.rmtree(path, ignore_errors=True)


def exchange(s, data):
    """The answers, and whether the connection was still open when the last of them had come. Our side stays open meanwhile."""
    client = Http1(s.socket_path)
    client.send(data.encode('latin-1'))
    answers, rest = [], client.rest()  # Ends when the server closes: after keepalive_timeout at the latest.
    client.close()
    while rest:
        head, _, rest = rest.partition(b'\r\n\r\n')
        fields = {line.split(b':')[0].lower(): line.split(b':', 1)[1].strip() for line in head.split(b'\r\n')[1:]}
        length = int(fields[b'content-length'])
        answers.append((int(head.split(b' ')[1]), fields.get(b'connection'), rest[:length]))
        rest = rest[length:]
    return answers


@pytest.mark.parametrize('name', REQUESTS)
def test_request(site, name):
    data, statuses, persists = REQUESTS[name]
    answers = exchange(site, data)
    assert [status for status, _, _ in answers] == statuses, answers
    # What closes says so; and the answers before it do not.
    assert [connection for _, connection, _ in answers] == [b'keep-alive'] * (len(statuses) - 1) + [b'keep-alive' if persists else b'close']


def test_what_was_understood(site):
    def said(data):
        return exchange(site, data)[0][2]
    assert said('GET http://other.example/uri?q HTTP/1.1\r\nHost: x\r\n\r\n') == b'GET /uri|q|other.example'
    assert said('GET HTTP://Other.Example:80/uri HTTP/1.1\r\nHost: x\r\n\r\n') == b'GET /uri||other.example'
    assert said('GET /uri/%41%2f%2E%2e/b#frag?x HTTP/1.1\r\nHost: X.:80\r\n\r\n') == b'GET /uri/b||x'
    assert said('GET //uri/./a/../b?a#b HTTP/1.1\r\nHost: x\r\n\r\n') == b'GET /uri/b|a|x'
    assert exchange(site, 'HEAD /uri HTTP/1.1\r\nHost: x\r\n\r\n'.replace('HEAD', 'OPTIONS').replace('/uri', '*'))[0][2] == b''


def test_a_status_has_three_digits(server):
    s = server('server { listen @SOCK@; location /a { return 000; } location /b { return 99 "x"; } location /c { return 999 "x"; } }')
    for path, line in (('/a', b'HTTP/1.1 000 '), ('/b', b'HTTP/1.1 099 '), ('/c', b'HTTP/1.1 999 ')):
        client = Http1(s.socket_path)
        client.send(b'GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' % path.encode())
        assert client.rest().startswith(line)


@pytest.mark.parametrize('line,fields', [
    ('/a\x7f HTTP/1.1', ''), ('/a\x01 HTTP/1.1', ''), ('/a HTTP/2.0', ''), ('/a HTTP/x', ''), ('/a  HTTP/1.1', ''), ('/%zz HTTP/1.1', ''), ('/%00 HTTP/1.1', ''),
    ('/' + 'a' * 9000 + ' HTTP/1.1', ''), ('/a HTTP/1.1', 'X: \x01\r\n'), ('/a HTTP/1.1', 'X Y: z\r\n'), ('/a HTTP/1.1', 'X: ' + 'y' * 9000 + '\r\n'),
    ('/a HTTP/1.1', 'Host: y\r\n'), ('/a HTTP/1.1', 'Expect: x\r\n'), ('/a HTTP/1.1', 'Content-Length: x\r\n'), ('/a HTTP/1.1', 'Transfer-Encoding: x\r\n')])
def test_refusing_head_has_no_body(site, line, fields):
    client = Http1(site.socket_path)
    client.send(f'HEAD {line}\r\nHost: x\r\n{fields}\r\n'.encode('latin-1'))
    head, blank, body = client.rest().partition(b'\r\n\r\n')
    assert head[9] in b'45' and blank and not body


def test_the_answer_to_each_beginning_of_a_request_is_bounded(site):
    """A request that ends anywhere, by FIN or by RST, gets an answer or nothing, and the next client is served."""
    request = (POST + 'Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: v\r\n\r\n').encode()
    for end in (lambda c: c.socket.shutdown(socket.SHUT_WR), lambda c: c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')):
        for at in range(1, len(request)):
            client = Http1(site.socket_path)
            client.send(request[:at])
            end(client)
            if client.socket.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)[0]:
                client.close()
            else:
                assert client.rest()[:12] in (b'', b'HTTP/1.1 200', b'HTTP/1.1 400')
    assert site.get('/uri').status == 200

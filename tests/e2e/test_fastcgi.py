"""The FastCGI gateway against a scripted peer that can misbehave, and against php-fpm."""
import hashlib
import os
import threading

import pytest
from fastcgi_peer import Peer, PhpFpm, STDERR, answer, end_request, record, stdout, wait_until
from harness import ROOT

OK = b'Content-Type: text/plain\r\n\r\nok'
SITE = '''server { listen @SOCK@; root @DIR@/www; %s
  location / { include ''' + str(ROOT) + '''/conf/fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
               fastcgi_pass unix:@DIR@/origin.sock; %s } }'''


@pytest.fixture
def origin(server, directory):
    """origin(handler, server lines, location lines) → (server, peer)."""
    peers = []

    def make(handler, location='', outer='', early=False):
        s = server(SITE % (outer, location))
        peer = Peer(s.directory / 'origin.sock', handler if callable(handler) else lambda r: r.send(handler), early)
        peers.append(peer)
        return s, peer

    yield make
    for peer in peers:
        peer.close()
        assert not peer.errors, peer.errors


def test_params_and_body(origin, protocol):
    s, peer = origin(answer(OK))
    r = s.get('/a%20b.php/x?q=1&r=%20', protocol, method='POST', body=b'a=b',
              headers=[('Content-Type', 'application/x-www-form-urlencoded'), ('X-Own', 'v'), ('X-Twice', '1'), ('X-Twice', '2'), ('Proxy', 'evil')])
    assert (r.status, r.body, r['content-type']) == (200, b'ok', 'text/plain')
    request = peer.requests[0]
    p = request.params
    assert request.body == b'a=b'
    assert p['SCRIPT_FILENAME'] == f'{s.root}/a b.php/x'
    assert (p['REQUEST_METHOD'], p['QUERY_STRING'], p['CONTENT_LENGTH']) == ('POST', 'q=1&r=%20', '3')
    assert p['CONTENT_TYPE'] == 'application/x-www-form-urlencoded'
    assert p['REQUEST_URI'] == '/a%20b.php/x?q=1&r=%20' and p['DOCUMENT_URI'] == '/a b.php/x'
    assert p['SERVER_PROTOCOL'] == {'h1': 'HTTP/1.1', 'h2': 'HTTP/2.0'}[protocol]
    assert p['GATEWAY_INTERFACE'] == 'CGI/1.1' and p['REDIRECT_STATUS'] == '200'
    assert p['HTTP_X_OWN'] == 'v' and p['HTTP_X_TWICE'] == '1, 2' and p['HTTP_HOST'] == 'localhost'
    assert 'HTTP_PROXY' not in p and 'HTTP_CONTENT_LENGTH' not in p and 'HTTP_CONTENT_TYPE' not in p


@pytest.mark.parametrize('how', ['fastcgi_buffering off;', 'fastcgi_max_temp_file_size 0; fastcgi_buffers 4 4k; fastcgi_buffer_size 4k; fastcgi_busy_buffers_size 8k;'],
                         ids=['unbuffered', 'little memory'])
def test_nothing_is_lost_or_changes_its_place(origin, protocol, how):
    """When room comes while a stop of receiving is still on its way, what came in between is first."""
    data = b''.join(b'%07d\n' % i for i in range(125_000))
    records = b''.join(stdout(data[i:i + 8000]) for i in range(0, len(data), 8000))
    s, peer = origin(lambda r: r.send(stdout(b'Content-Type: text/plain\r\n\r\n') + records + end_request()), how + 'fastcgi_request_buffering off;')
    for _ in range(3):
        assert s.get('/x.php', protocol).body == data
    assert s.get('/x.php', protocol, method='POST', body=data).body == data
    assert peer.requests[-1].body == data


def test_early_hints(origin, protocol):
    hints = b'Status: 103\r\nLink: </a.css>; rel=preload\r\nX-Not: passed on\r\n\r\n'
    s, _ = origin(answer(hints + b'Status: 102\r\n\r\n' + hints.replace(b'a.css', b'b.css') + b'Content-Type: text/plain\r\nLink: </c.css>\r\n\r\nok'))
    r = s.get('/x.php', protocol)
    assert (r.status, r.body, r['link']) == (200, b'ok', '</c.css>')
    assert [(status, [v for n, v in fields if n.lower() == 'link']) for status, fields in r.informational] == [
        (103, ['</a.css>; rel=preload']), (103, ['</b.css>; rel=preload'])]
    assert not any(n.lower() == 'x-not' for _, fields in r.informational for n, _ in fields)


def test_heads(origin, protocol):
    replies = {
        '/status': b'Status: 404 Not here\r\nContent-Type: text/html\r\n\r\nnone',
        '/bare-lf': b'Content-Type: text/plain\n\nlf',
        '/location': b'Location: http://other.example/\r\n\r\n',
        '/length': b'Content-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc',
        '/cookies': b'Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Type: text/plain\r\n\r\nc',
        '/hop': b'Connection: close\r\nKeep-Alive: x\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n\r\nhop',
        '/none': b'Content-Type: text/plain\r\n\r\n',
    }
    s, _ = origin(lambda r: r.send(answer(replies[r.params['DOCUMENT_URI']])))
    assert (s.get('/status', protocol).status, s.get('/status', protocol).body) == (404, b'none')
    assert s.get('/bare-lf', protocol).body == b'lf'
    r = s.get('/location', protocol)
    assert (r.status, r['location']) == (302, 'http://other.example/')
    r = s.get('/length', protocol)
    assert (r['content-length'], r.body) == ('3', b'abc')
    assert s.get('/cookies', protocol).all('set-cookie') == ['a=1', 'b=2']
    r = s.get('/hop', protocol)
    assert r.body == b'hop' and r['keep-alive'] is None
    if protocol == 'h2':
        assert r['connection'] is None and r['transfer-encoding'] is None
    assert s.get('/none', protocol).body == b''
    assert s.get('/length', protocol, method='HEAD').body == b''


@pytest.mark.parametrize('reply,words', [
    (stdout(b'no head at all'), 'upstream prematurely closed'),
    (b'', 'upstream prematurely closed'),
    (answer(b'Bad Name: x\r\n\r\n'), 'invalid header'),
    (stdout(b'X: ' + b'a' * 70000), 'upstream sent too big header'),
    (b'\x07garbage that is no record', 'upstream sent'),
    (end_request(), 'upstream'),
], ids=['cut head', 'nothing', 'bad name', 'big head', 'no record', 'end first'])
def test_bad_answers_are_502(origin, protocol, reply, words):
    def handler(r):
        r.send(reply)
        r.connection.shutdown(1)
    s, _ = origin(handler)
    r = s.get('/', protocol)
    assert r.status == 502 and b'502 Bad Gateway' in r.body
    s.wait_log(words + r'.* while reading response header from upstream(?: \(.*\))?, client: .*, upstream: "fastcgi://unix:.*origin.sock:"')


def test_dead_origin_is_502(server, protocol):
    s = server(SITE % ('', ''))
    r = s.get('/', protocol)
    assert r.status == 502
    s.wait_log(r'\[crit\].*connect\(\) to unix:.*origin.sock failed \(2: No such file or directory\) while connecting to upstream|'
               r'\[(error|crit)\].*connect\(\) to unix:.*failed \(2')


def test_read_timeout_is_504(origin, protocol):
    s, _ = origin(lambda r: threading.Event().wait(5), 'fastcgi_read_timeout 100ms;')
    r = s.get('/', protocol)
    assert r.status == 504
    s.wait_log(r'upstream timed out \(110: Connection timed out\) while reading response header from upstream')


def test_stderr_goes_to_the_log(origin, protocol):
    s, _ = origin(record(STDERR, b'PHP Warning:  one\nPHP Notice:  two') + answer(OK))
    assert s.get('/', protocol).body == b'ok'
    s.wait_log(r'\[error\].*FastCGI sent in stderr: "PHP (message|Warning).*one.*" while reading response header from upstream')


def test_body_shorter_and_longer_than_its_length(origin, protocol):
    """Case 17."""
    s, _ = origin(lambda r: r.send(answer(b'Content-Length: 10\r\n\r\n' + (b'short' if r.params['DOCUMENT_URI'] == '/short' else b'much too long a body'))))
    client = s.connect(protocol)
    if protocol == 'h1':
        with pytest.raises(EOFError):
            client.request('/short')
    else:
        r = client.request('/short')
        assert r.reset is not None
    r = s.get('/long', protocol)
    assert r.body == b'much too l'


def test_many_large_fields(origin, protocol):
    """Case 16."""
    fields = b''.join(b'Set-Cookie: c%d=%s\r\n' % (i, b'x' * 480) for i in range(40))
    s, _ = origin(record(STDERR, b'notice ' * 1000) + answer(fields + OK))
    r = s.get('/', protocol)
    assert r.status == 200 and len(r.all('set-cookie')) == 40
    s.wait_log('FastCGI sent in stderr')


def test_chunked_and_unknown_length_bodies(origin, protocol):
    """Case 14."""
    s, peer = origin(answer(OK))
    body = os.urandom(200_000)
    r = s.get('/', protocol, method='POST', body=body, chunked=True)
    assert r.status == 200
    assert peer.requests[0].body == body and peer.requests[0].params['CONTENT_LENGTH'] == str(len(body))


def test_a_body_of_unknown_length_can_be_streamed(origin, protocol):
    s, peer = origin(lambda r: None, 'fastcgi_request_buffering off;', early=True)
    client = s.connect(protocol)
    if protocol == 'h1':
        client.send(b'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n')
    else:
        stream = client.start('/', 'POST', end=False)
        client.send_body(stream, b'first', end=False)
    wait_until(lambda: peer.requests and peer.requests[0].body == b'first', 'the first piece')
    if protocol == 'h1':
        client.send(b'4\r\nlast\r\n0\r\n\r\n')
    else:
        client.send_body(stream, b'last')
    wait_until(lambda: peer.requests[0].body == b'firstlast', 'the last piece')
    peer.requests[0].send(answer(OK))
    r = client.read_response() if protocol == 'h1' else client.read_response(stream)
    assert (r.status, r.body) == (200, b'ok') and not peer.requests[0].params['CONTENT_LENGTH']


def test_body_too_large_never_reaches_the_origin(origin, protocol):
    s, peer = origin(answer(OK), 'client_max_body_size 1000;')
    assert s.get('/', protocol, method='POST', body=b'x' * 1001).status == 413
    assert s.get('/', protocol, method='POST', body=b'x' * 20000, chunked=True).status == 413
    assert peer.connections == 0


def test_no_origin_is_held_while_a_client_dawdles(origin):
    s, peer = origin(answer(OK))
    client = s.connect('h1')
    client.send(b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345')
    assert s.get('/').status == 200  # Somebody else, meanwhile.
    assert peer.connections == 1
    client.send(b'67890')
    assert client.read_response().status == 200
    assert peer.requests[1].body == b'1234567890'


def test_large_response_to_a_slow_client(origin, protocol):
    """The origin is read to its end while the client has not read a byte: it is never held by a slow client."""
    data = os.urandom(4 << 20)
    done = threading.Event()

    def handler(r):
        r.send(answer(b'Content-Type: application/octet-stream\r\n\r\n' + data))
        done.set()
    s, _ = origin(handler)
    client = s.connect(protocol)
    stream = client.start('/') if protocol == 'h2' else client.send(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    assert done.wait(10)
    r = client.read_response(stream) if protocol == 'h2' else client.read_response()
    assert hashlib.sha256(r.body).digest() == hashlib.sha256(data).digest()


def test_early_answer_during_an_upload(origin, protocol):
    """Cases 18 and 24: the origin refuses without reading; the client sees that answer."""
    def handler(r):
        r.send(answer(b'Status: 403 Forbidden\r\nContent-Type: text/plain\r\n\r\nno'))
        r.connection.close()
    s, _ = origin(handler, 'fastcgi_request_buffering off; client_max_body_size 0;', early=True)
    if protocol == 'h1':
        client = s.connect('h1')
        client.send(b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n' + b'x' * 1000)
        r = client.read_response()
    else:
        client = s.connect('h2')
        stream = client.start('/', 'POST', [('content-length', '5000000')], end=False)
        client.send_body(stream, b'x' * 1000, end=False)
        r = client.read_response(stream)
    assert (r.status, r.body) == (403, b'no')


def test_unbuffered_pieces_arrive_at_once(origin, protocol):
    """Case 20."""
    go = threading.Event()

    def handler(r):
        r.send(stdout(b'X-Accel-Buffering: no\r\nContent-Type: text/plain\r\n\r\nfirst'))
        assert go.wait(10)
        r.send(stdout(b'second') + record(6) + end_request())
    s, _ = origin(handler)
    client = s.connect(protocol)
    if protocol == 'h1':
        client.send(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
        while b'first' not in client.buffer:
            assert client._fill()
        go.set()
        assert client.read_response().body == b'firstsecond'
    else:
        stream = client.start('/')
        while not any(getattr(e, 'data', b'') == b'first' for e in client.events.get(stream, [])):
            assert client.pump()
        go.set()
        assert client.read_response(stream).body == b'firstsecond'


def test_client_gone_closes_the_origin(origin):
    closed = threading.Event()

    def handler(r):
        if not r.connection.recv(1):
            closed.set()
    s, peer = origin(handler)
    client = s.connect('h1')
    client.send(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    wait_until(lambda: peer.requests, 'the request')
    client.close()
    assert closed.wait(10)


def test_accel_redirect(origin, protocol):
    s, _ = origin(answer(b'X-Accel-Redirect: /protected/a.txt\r\nContent-Type: text/x-own\r\nSet-Cookie: a=b\r\n\r\nignored'),
                  outer='location /protected/ { internal; }')
    s.file('protected/a.txt', b'protected')
    r = s.get('/', protocol)
    assert (r.status, r.body, r['set-cookie']) == (200, b'protected', 'a=b')
    assert s.get('/protected/a.txt', protocol).status == 404


def test_intercept_errors(origin, protocol):
    s, _ = origin(answer(b'Status: 503 Down\r\nContent-Type: text/plain\r\n\r\norigin'), 'fastcgi_intercept_errors on; error_page 503 /down.html;',
                  outer='location = /down.html { }')
    s.file('down.html', b'own page')
    r = s.get('/', protocol)
    assert (r.status, r.body) == (503, b'own page')


def test_hide_and_pass(origin, protocol):
    s, _ = origin(answer(b'X-Powered-By: x\r\nX-Keep: k\r\nStatus: 200\r\nContent-Type: text/plain\r\n\r\nok'), 'fastcgi_hide_header X-Powered-By;')
    r = s.get('/', protocol)
    assert r['x-powered-by'] is None and r['x-keep'] == 'k' and r['status'] is None


def test_upstream_group_fails_over(server, protocol):
    s = server('''upstream php { server unix:@DIR@/dead.sock; server unix:@DIR@/origin.sock; }
        server { listen @SOCK@; location / { fastcgi_pass php; fastcgi_param A b; } }''')
    peer = Peer(s.directory / 'origin.sock', lambda r: r.send(answer(OK)))
    try:
        for _ in range(4):
            assert s.get('/', protocol).body == b'ok'
        assert peer.connections == 4
    finally:
        peer.close()


def test_one_cgi_variable_for_two_spellings(origin):
    """Case 6."""
    s, peer = origin(answer(OK), outer='')
    s.get('/', headers=[('X_Forwarded_For', 'evil'), ('X-Forwarded-For', 'right')])
    values = [v for n, v in peer.requests[0].param_list if n == 'HTTP_X_FORWARDED_FOR']
    assert values == ['right']


def test_a_location_that_passes_adds_its_slash(server, protocol):
    s = server('server { listen @SOCK@; location /app/ { fastcgi_pass unix:@DIR@/none.sock; } }')
    r = s.get('/app?x=1', protocol, host='h')
    assert (r.status, r['location']) == (301, f'{s.scheme}://h/app/?x=1')


def test_force_ranges(origin):
    s, _ = origin(answer(b'Content-Type: text/plain\r\nAccept-Ranges: none\r\nContent-Length: 6\r\n\r\nabcdef'), 'fastcgi_force_ranges on;')
    r = s.get('/', headers=[('Range', 'bytes=1-2')])
    assert (r.status, r.body, r['content-range']) == (206, b'bc', 'bytes 1-2/6')
    assert s.get('/').all('accept-ranges') == ['bytes']


def test_limit_rate_of_reading(server):
    s = server("""log_format t '$upstream_response_time'; server { listen @SOCK@; access_log @DIR@/t.log t;
        location / { fastcgi_limit_rate $arg_rate; fastcgi_pass unix:@DIR@/origin.sock; } }""")
    peer = Peer(s.directory / 'origin.sock', lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\n' + b'x' * 150_000)))
    try:
        assert len(s.get('/?rate=100k').body) == 150_000
        assert float(s.wait_log(r'^([\d.]+)$', 't.log')[1]) >= 0.3
    finally:
        peer.close()


def test_bind(server):
    s = server('''server { listen @SOCK@; location / { fastcgi_bind 192.0.2.1; fastcgi_pass 127.0.0.1:1; } location /six { fastcgi_bind ::1; fastcgi_pass [::1]:1; }
        location /v { fastcgi_bind $arg_a; fastcgi_pass 127.0.0.1:1; } }''')
    assert s.get('/').status == 500
    s.wait_log(r'\[crit\].*bind\(192.0.2.1(:0)?\) failed \(99: Cannot assign requested address\) while connecting to upstream')
    assert s.get('/v?a=127.0.0.2').status == 502
    s.wait_log(r'failed \(111: Connection refused\)')
    assert s.get('/v?a=nonsense').status == 502
    s.wait_log('invalid local address "nonsense"')


def test_output_may_end_without_an_end_record(origin, protocol):
    """An origin that closes its output and then the connection has said all."""
    def handler(r):
        r.send(stdout(OK) + record(6))
        r.connection.shutdown(1)
    s, _ = origin(handler)
    assert s.get('/', protocol).body == b'ok'


def test_php_fpm(server, protocol):
    s = server(SITE % ('', ''))
    s.file('post.php', '<?php header("X-Got: " . $_SERVER["CONTENT_LENGTH"]); echo $_SERVER["REQUEST_METHOD"], " ", '
                       '$_GET["q"] ?? "", " ", sha1(file_get_contents("php://input"));')
    s.file('error.php', '<?php error_log("told you"); http_response_code(418); echo "teapot";')
    s.file('flush.php', '<?php header("X-Accel-Buffering: no"); echo "a"; flush(); echo "b";')
    s.file('large.php', '<?php echo str_repeat("0123456789abcdef", 200000);')
    fpm = PhpFpm(s.directory)
    os.symlink(fpm.socket, s.directory / 'origin.sock')
    try:
        body = os.urandom(300_000)
        r = s.get('/post.php?q=%C3%BC', protocol, method='POST', body=body)
        assert r.body.decode() == f'POST ü {hashlib.sha1(body).hexdigest()}' and r['x-got'] == '300000'
        r = s.get('/error.php', protocol)
        assert (r.status, r.body) == (418, b'teapot')
        s.wait_log('FastCGI sent in stderr: "PHP message: told you')
        assert s.get('/flush.php', protocol).body == b'ab'
        assert s.get('/large.php', protocol).body == b'0123456789abcdef' * 200000
        assert s.get('/none.php', protocol).status == 404
    finally:
        fpm.stop()


def test_php_fpm_killed_and_back(server, protocol):
    s = server(SITE % ('', ''))
    s.file('ok.php', '<?php echo "ok";')
    fpm = PhpFpm(s.directory)
    os.symlink(fpm.socket, s.directory / 'origin.sock')
    try:
        assert s.get('/ok.php', protocol).body == b'ok'
        fpm.stop()
        assert s.get('/ok.php', protocol).status == 502
        fpm.start()
        assert s.get('/ok.php', protocol).body == b'ok'
    finally:
        fpm.stop()

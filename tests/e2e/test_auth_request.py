"""auth_request: a subrequest that decides, against static answers and a FastCGI origin."""
import pytest
from fastcgi_peer import Peer, answer
from harness import wait_until


@pytest.fixture
def auth(server):
    """auth(reply bytes or handler, location lines) → (server, peer): /private is guarded by a FastCGI origin."""
    peers = []

    def make(reply, location='', outer=''):
        s = server('''server { listen @SOCK@; root @DIR@/www; %s
            location /private/ { auth_request /auth; %s }
            location = /auth { internal; fastcgi_param URI $request_uri; fastcgi_param METHOD $request_method; fastcgi_param OWN $http_x_own;
                               fastcgi_param LENGTH $content_length; fastcgi_pass_request_body off; fastcgi_pass unix:@DIR@/auth.sock; } }''' % (outer, location))
        s.file('private/a.txt', b'secret')
        peer = Peer(s.directory / 'auth.sock', reply if callable(reply) else lambda r: r.send(reply))
        peers.append(peer)
        return s, peer

    yield make
    for peer in peers:
        peer.close()
        assert not peer.errors, peer.errors


def head(status, fields=b''):
    return answer(b'Status: %d\r\nContent-Type: text/plain\r\n%s\r\nverdict' % (status, fields))


@pytest.mark.parametrize('verdict', [200, 201, 204, 299])
def test_granted(auth, protocol, verdict):
    s, peer = auth(head(verdict))
    r = s.get('/private/a.txt?q=1', protocol, headers=[('X-Own', 'mine')])
    assert (r.status, r.body) == (200, b'secret')
    assert r['etag'] and r['content-length'] == '6'
    params = peer.requests[0].params
    assert params['URI'] == '/private/a.txt?q=1' and params['OWN'] == 'mine'


def test_refused_with_a_challenge(auth, protocol):
    s, _ = auth(head(401, b'WWW-Authenticate: Basic realm="a"\r\nWWW-Authenticate: Bearer\r\nSet-Cookie: x=y\r\n'))
    r = s.get('/private/a.txt', protocol)
    assert r.status == 401 and b'401' in r.body and b'verdict' not in r.body
    assert r.all('www-authenticate') == ['Basic realm="a"', 'Bearer']
    assert r['set-cookie'] is None  # Of the verdict's fields only the challenge is passed on.


def test_refused(auth, protocol):
    s, _ = auth(head(403))
    client = s.connect(protocol)
    r = client.request('/private/a.txt')
    assert r.status == 403 and b'secret' not in r.body
    assert client.request('/private/none').status == 403  # Not 404: what exists is nobody's business.
    assert client.request('/auth').status == 404  # internal


@pytest.mark.parametrize('verdict', [302, 404, 500, 503])
def test_other_statuses_are_errors(auth, protocol, verdict):
    s, _ = auth(head(verdict, b'Location: http://x/\r\n'))
    r = s.get('/private/a.txt', protocol)
    assert r.status == 500 and b'secret' not in r.body and r['location'] is None
    s.wait_log(rf'\[error\].*auth request unexpected status: {verdict}')


def test_dead_origin_is_an_error(server, protocol):
    s = server('server { listen @SOCK@; root @DIR@/www; auth_request /auth; location = /auth { auth_request off; fastcgi_pass unix:@DIR@/none.sock; } }')
    s.file('a.txt', b'secret')
    r = s.get('/a.txt', protocol)
    assert r.status == 500 and b'secret' not in r.body
    s.wait_log('auth request unexpected status: 502')


def test_broken_answer_is_an_error(auth, protocol):
    def cut(r):
        r.send(b'')
        r.connection.shutdown(1)
    s, _ = auth(cut)
    assert s.get('/private/a.txt', protocol).status == 500


def test_static_verdicts(server, protocol):
    s = server('''server { listen @SOCK@; root @DIR@/www;
        location / { auth_request /yes; } location /no/ { auth_request /deny; } location /file/ { auth_request /granted.txt; }
        location /missing/ { auth_request /nothing.txt; } location /open/ { auth_request off; }
        location = /yes { internal; return 204; } location = /deny { internal; return 403; } }''')
    for name in ('a.txt', 'no/a.txt', 'file/a.txt', 'missing/a.txt', 'open/a.txt'):
        s.file(name, b'body')
    s.file('granted.txt', b'x' * 100_000)
    assert s.get('/a.txt', protocol).body == b'body'
    assert s.get('/no/a.txt', protocol).status == 403
    assert s.get('/file/a.txt', protocol).body == b'body'  # The verdict's own body is thrown away.
    assert s.get('/missing/a.txt', protocol).status == 500
    assert s.get('/open/a.txt', protocol).body == b'body'


def test_one_verdict_serves_the_whole_server(server, protocol):
    s = server('''server { listen @SOCK@; root @DIR@/www; auth_request /check;
        location = /check { internal; if ($http_x_pass = right) { return 204; } return 401; } }''')
    s.file('a.txt', b'body')
    s.file('dir/index.html', b'index')
    assert s.get('/a.txt', protocol).status == 401
    right = [('X-Pass', 'right')]
    assert s.get('/a.txt', protocol, headers=right).body == b'body'
    assert s.get('/dir/', protocol, headers=right).body == b'index'
    assert s.get('/none', protocol, headers=right).status == 404


def test_variables(auth, protocol):
    s, _ = auth(head(200, b'X-User: joe\r\nX-Role: admin\r\n'),
                'auth_request_set $user $upstream_http_x_user; auth_request_set $code $upstream_status; '
                'add_header X-Seen "$user $upstream_http_x_role $code" always;')
    r = s.get('/private/a.txt', protocol)
    assert r.body == b'secret'
    assert r['x-seen'] == 'joe  200'  # The variables of the subrequest end with it; those that were set stay.


def test_variables_of_a_refusal(auth, protocol):
    s, _ = auth(head(401, b'X-Go: /login\r\n'), 'auth_request_set $go $upstream_http_x_go; error_page 401 = @login;',
                'location @login { return 302 http://sso.example$go; }')
    r = s.get('/private/a.txt', protocol)
    assert (r.status, r['location']) == (302, 'http://sso.example/login')


def test_variables_reach_the_origin(server, protocol):
    s = server('''server { listen @SOCK@;
        location / { auth_request /auth; auth_request_set $user $upstream_http_x_user; fastcgi_param REMOTE_USER $user; fastcgi_pass unix:@DIR@/app.sock; }
        location = /auth { internal; fastcgi_pass unix:@DIR@/auth.sock; } }''')
    auth = Peer(s.directory / 'auth.sock', lambda r: r.send(head(200, b'X-User: joe\r\n')))
    app = Peer(s.directory / 'app.sock', lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\n' + r.params['REMOTE_USER'].encode())))
    try:
        assert s.get('/', protocol).body == b'joe'
        assert auth.connections == app.connections == 1
    finally:
        auth.close()
        app.close()


def test_body_is_not_sent_to_the_subrequest(server, protocol):
    s = server('''server { listen @SOCK@;
        location / { auth_request /auth; fastcgi_param METHOD $request_method; fastcgi_pass unix:@DIR@/app.sock; }
        location = /auth { internal; fastcgi_param METHOD $request_method; fastcgi_param CONTENT_LENGTH $content_length; fastcgi_pass_request_body off;
                           fastcgi_pass unix:@DIR@/auth.sock; } }''')
    auth = Peer(s.directory / 'auth.sock', lambda r: r.send(head(204)))
    app = Peer(s.directory / 'app.sock', lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\n%d' % len(r.body))))
    try:
        client = s.connect(protocol)
        for size in (5, 100_000):
            r = client.request('/', method='POST', body=b'x' * size)
            assert r.body == b'%d' % size
        assert [r.body for r in auth.requests] == [b'', b'']
        assert app.requests[0].params['METHOD'] == 'POST'
    finally:
        auth.close()
        app.close()


def test_body_is_not_sent_even_unasked(server, protocol):
    """Without fastcgi_pass_request_body off as well: a subrequest of auth_request has no body of its own."""
    s = server('''server { listen @SOCK@;
        location / { auth_request /auth; fastcgi_pass unix:@DIR@/app.sock; }
        location = /auth { internal; fastcgi_pass unix:@DIR@/auth.sock; } }''')
    auth = Peer(s.directory / 'auth.sock', lambda r: r.send(head(204)))
    app = Peer(s.directory / 'app.sock', lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\n%d' % len(r.body))))
    try:
        assert s.get('/', protocol, method='POST', body=b'hello').body == b'5'
        assert [r.body for r in auth.requests] == [b'']
    finally:
        auth.close()
        app.close()


def test_refused_upload(auth, protocol):
    """The body of a refused request is not waited for, nor read as the next request."""
    s, _ = auth(head(403))
    client = s.connect(protocol)
    if protocol == 'h1':
        client.send(b'POST /private/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n' + b'x' * 1000)
        assert client.read_response().status == 403
    else:
        stream = client.start('/private/', 'POST', [('content-length', '1000000')], end=False)
        client.send_body(stream, b'x' * 1000, end=False)
        assert client.read_response(stream).status == 403
        assert client.request('/private/').status == 403


def test_no_100_continue_for_a_refused_request(auth):
    """Case 7."""
    s, _ = auth(head(401), 'fastcgi_pass unix:@DIR@/none.sock;')
    client = s.connect('h1')
    client.send(b'POST /private/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n')
    r = client.read_response()
    assert r.status == 401 and r.informational == []


def test_error_page_of_a_refusal(auth, protocol):
    s, _ = auth(head(403), 'error_page 403 /denied.html;', 'location = /denied.html { internal; }')
    s.file('denied.html', b'go away')
    r = s.get('/private/a.txt', protocol)
    assert (r.status, r.body) == (403, b'go away')


def test_head_and_ranges(auth, protocol):
    s, _ = auth(head(200))
    client = s.connect(protocol)
    r = client.request('/private/a.txt', method='HEAD')
    assert (r.status, r.body, r['content-length']) == (200, b'', '6')
    r = client.request('/private/a.txt', headers=[('Range', 'bytes=0-1')])
    assert (r.status, r.body) == (206, b'se')


def test_client_that_leaves_ends_the_subrequest(server, protocol):
    s = server('''server { listen @SOCK@; root @DIR@/www; location / { auth_request /auth; } location = /auth { internal; fastcgi_pass unix:@DIR@/auth.sock; } }''')
    ended = []
    peer = Peer(s.directory / 'auth.sock', lambda r: ended.append(r.connection.recv(1)))
    try:
        client = s.connect(protocol)
        client.start('/') if protocol == 'h2' else client.send(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
        wait_until(lambda: peer.requests, 'the subrequest')
        client.close()
        wait_until(lambda: ended, 'its end')
    finally:
        peer.close()


def test_many_at_once(auth):
    s, peer = auth(head(200))
    client = s.connect('h2')
    streams = [client.start('/private/a.txt') for _ in range(50)]
    assert all(client.read_response(stream).body == b'secret' for stream in streams)
    assert len(peer.requests) == 50


def test_configuration_errors(server):
    s = server('server { listen @SOCK@; auth_request none; }', start=False)
    code, said = s.test()
    assert code == 1 and 'auth_request' in said
    s.write_config('server { listen @SOCK@; auth_request_set user $uri; }')
    code, said = s.test()
    assert code == 1 and 'invalid variable name "user"' in said
    s.write_config('server { listen @SOCK@; auth_request_set $host $uri; }')
    code, said = s.test()
    assert code == 1 and 'duplicate "host" variable' in said

"""allow, deny, limit_except and satisfy. Clients of the unix socket get an address by real_ip, so that any address can ask."""
import socket

import pytest
from harness import free_port

FROM = 'set_real_ip_from unix:; real_ip_header X-Client;'


def client(address, *more):
    return [('X-Client', address), *more]


@pytest.fixture
def site(server):
    def make(text, outer=''):
        s = server('%s server { listen @SOCK@; root @DIR@/www; %s %s }' % (outer, FROM, text))
        s.file('a.txt', b'body')
        return s
    return make


def statuses(s, protocol, path, addresses):
    connection = s.connect(protocol)
    return [connection.request(path, headers=client(a)).status for a in addresses]


def test_first_match_decides(site, protocol):
    s = site('location / { deny 192.0.2.1; allow 192.0.2.0/24; allow 2001:db8::/32; deny all; }')
    assert statuses(s, protocol, '/a.txt', ['192.0.2.1', '192.0.2.2', '198.51.100.1', '2001:db8::7', '2001:db9::7']) == [403, 200, 403, 200, 403]
    r = s.get('/a.txt', protocol, headers=client('192.0.2.1'))
    assert b'<title>403 Forbidden</title>' in r.body
    s.wait_log(r'\[error\] .*: \*\d+ access forbidden by rule, client: 192\.0\.2\.1, server: , request: "GET /a\.txt HTTP/[12]\.[01]", host: "localhost"')


def test_no_rule_that_matches_lets_in(site, protocol):
    s = site('deny 192.0.2.1;')
    assert statuses(s, protocol, '/a.txt', ['192.0.2.1', '192.0.2.2', '::1']) == [403, 200, 200]


def test_unix_sockets(server, protocol):
    s = server('''server { listen @SOCK@; root @DIR@/www; location /yes/ { allow unix:; deny all; } location /no/ { deny unix:; }
        location /ip/ { allow 0.0.0.0/0; allow ::/0; deny all; } }''')
    for name in ('yes', 'no', 'ip'):
        s.file(f'{name}/a.txt', b'body')
    assert [s.get(f'/{name}/a.txt', protocol).status for name in ('yes', 'no', 'ip')] == [200, 403, 403]


def test_over_tcp(server, protocol):
    port = free_port()
    s = server(f'server {{ listen @SOCK@; listen 127.0.0.1:{port}; listen [::1]:{port}; root @DIR@/www; allow 127.0.0.1; deny all; }}')
    s.file('a.txt', b'body')

    def ask(family, address):
        with_socket = s.connect(protocol, (address, port)) if family == socket.AF_INET else None
        if with_socket is not None:
            return with_socket.request('/a.txt').status
        raw = socket.create_connection((address, port), timeout=20)
        raw.sendall(b'GET /a.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
        return int(raw.makefile('rb').readline().split()[1])
    assert ask(socket.AF_INET, '127.0.0.1') == 200
    assert ask(socket.AF_INET6, '::1') == 403


def test_inheritance(site, protocol):
    """Rules of an outer block hold where there are none; any allow or deny of a block's own replaces all of them."""
    s = site('''location /own/ { allow 192.0.2.9; location /own/deeper/ { } } location /same/ { add_header X-Own 1; }
        location /nested/ { location /nested/open/ { allow all; } }''', 'deny 192.0.2.9; allow 192.0.2.8;')
    for name in ('own', 'own/deeper', 'same', 'nested', 'nested/open'):
        s.file(f'{name}/a.txt', b'body')
    expected = {'same': 403, 'own': 200, 'own/deeper': 200, 'nested': 403, 'nested/open': 200}
    assert {name: statuses(s, protocol, f'/{name}/a.txt', ['192.0.2.9'])[0] for name in expected} == expected


def test_what_comes_before_and_after_access(site, protocol):
    """As nginx: rewrite directives answer before access is looked at; existence is not told to who may not know."""
    s = site('deny all; location /return { return 204; } location /dir/ { } location /index/ { allow all; } error_page 403 /why.html; '
             'location = /why.html { allow all; }')
    s.file('why.html', b'because')
    s.file('index/index.html', b'index')
    connection = s.connect(protocol)
    assert connection.request('/return').status == 204
    assert connection.request('/none').status == 403
    r = connection.request('/none')
    assert (r.status, r.body) == (403, b'because')  # The error page has rules of its own.
    assert connection.request('/index/').body == b'index'


def test_error_page_that_is_forbidden_too(site, protocol):
    s = site('deny all; error_page 403 /why.html;')
    s.file('why.html', b'because')
    r = s.get('/a.txt', protocol)
    assert r.status == 403 and b'because' not in r.body and b'403 Forbidden' in r.body


@pytest.mark.parametrize('text, words', [
    ('deny 192.0.2.1/33;', 'invalid parameter "192.0.2.1/33"'), ('allow localhost;', 'invalid parameter "localhost"'),
    ('satisfy some;', 'invalid value "some"'), ('limit_except GET FETCH { deny all; }', 'invalid method "FETCH"'),
    ('limit_except GET { root /x; }', '"root" directive is not allowed here'), ('auth_delay x;', '"auth_delay" directive invalid value'),
])
def test_refused_configurations(server, text, words):
    s = server('server { listen @SOCK@; location / { %s } }' % text, start=False)
    code, said = s.test()
    assert code == 1 and words in said, said


def test_low_bits_are_warned_of(server):
    code, said = server('server { listen @SOCK@; deny 192.0.2.1/24; }', start=False).test()
    assert code == 0 and 'low address bits of 192.0.2.1/24 are meaningless' in said


def test_limit_except(site, protocol):
    s = site('''location / { limit_except GET POST { allow 192.0.2.1; deny all; } return 200 "$request_method"; }
        location /no/ { limit_except PUT { deny all; } }''')
    s.file('no/a.txt', b'body')
    connection = s.connect(protocol)

    def ask(method, address='192.0.2.2', path='/x'):
        return connection.request(path, method=method, headers=client(address), body=b'x' if method in ('PUT', 'POST') else None).status
    assert [ask(m) for m in ('GET', 'HEAD', 'POST')] == [200, 200, 200]
    # Not even the location's own answer by return is given to the others.
    assert [ask(m) for m in ('PUT', 'DELETE', 'OPTIONS', 'PATCH', 'PROPFIND', 'FANCY')] == [403] * 6
    assert ask('DELETE', '192.0.2.1') in (404, 405)  # Let in, but there is nothing that would delete; return did not run.
    assert [ask(m, path='/no/a.txt') for m in ('GET', 'HEAD', 'POST')] == [403] * 3
    s.wait_log('access forbidden by rule')


def test_limit_except_is_not_inherited(site, protocol):
    """As nginx; the rules of the location itself are, by the block too."""
    s = site('''location /a/ { limit_except POST { deny all; } location /a/b/ { } if ($arg_x) { set $y 1; } }
        location /c/ { deny 192.0.2.1; limit_except POST { } }''')
    for name in ('a', 'a/b', 'c'):
        s.file(f'{name}/f.txt', b'body')
    assert statuses(s, protocol, '/a/f.txt', ['192.0.2.1']) == [403]
    assert statuses(s, protocol, '/a/f.txt?x=1', ['192.0.2.1']) == [403]
    assert statuses(s, protocol, '/a/b/f.txt', ['192.0.2.1']) == [200]
    assert statuses(s, protocol, '/c/f.txt', ['192.0.2.1', '192.0.2.2']) == [403, 200]


def test_limit_except_with_a_password(site, protocol):
    s = site('location / { limit_except GET { auth_basic "Writers"; auth_basic_user_file users; } }')
    (s.directory / 'users').write_text('joe:{PLAIN}secret\n')
    connection = s.connect(protocol)
    assert connection.request('/a.txt').body == b'body'
    r = connection.request('/a.txt', method='DELETE')
    assert r.status == 401 and r['www-authenticate'] == 'Basic realm="Writers"'
    assert connection.request('/a.txt', method='DELETE', headers=[('Authorization', 'Basic am9lOnNlY3JldA==')]).status == 405


GUARDS = '''allow 192.0.2.1; deny all; auth_basic "Staff"; auth_basic_user_file users; auth_request /ask; '''
JOE = ('Authorization', 'Basic am9lOnNlY3JldA==')
TICKET = ('X-Ticket', 'right')


@pytest.fixture
def three(site):
    """All three guards, and what each of them is shown."""
    def make(satisfy, ask='if ($http_x_ticket = right) { return 204; } return 403;'):
        s = site('location / { satisfy %s; %s } location = /ask { internal; %s }' % (satisfy, GUARDS, ask))
        (s.directory / 'users').write_text('joe:{PLAIN}secret\n')
        return s
    return make


def test_satisfy_all(three, protocol):
    s = three('all')
    connection = s.connect(protocol)

    def ask(address, *fields):
        return connection.request('/a.txt', headers=client(address, *fields))
    assert ask('192.0.2.1', JOE, TICKET).body == b'body'
    assert ask('192.0.2.2', JOE, TICKET).status == 403
    r = ask('192.0.2.1', TICKET)
    assert r.status == 401 and r['www-authenticate'] == 'Basic realm="Staff"'
    assert ask('192.0.2.1', JOE).status == 403
    r = ask('192.0.2.2')  # Addresses come first: nobody is asked for a password in vain.
    assert r.status == 403 and r['www-authenticate'] is None


def test_satisfy_any(three, protocol):
    s = three('any')
    connection = s.connect(protocol)

    def ask(address, *fields):
        return connection.request('/a.txt', headers=client(address, *fields))
    for fields in ([], [TICKET], [JOE]):
        r = ask('192.0.2.1', *fields)
        assert r.body == b'body' and r['www-authenticate'] is None
    for fields in ([TICKET], [JOE], [JOE, TICKET]):
        r = ask('192.0.2.2', *fields)
        assert r.body == b'body' and r['www-authenticate'] is None
    r = ask('192.0.2.2')  # 401 before 403, whoever said it.
    assert r.status == 401 and r.all('www-authenticate') == ['Basic realm="Staff"']
    assert 'access forbidden by rule' not in s.log()


def test_satisfy_any_of_two(site, protocol):
    s = site('''satisfy any; location /f/ { deny all; auth_request /no; } location = /no { internal; return 403; }
        location /e/ { deny all; auth_request /broken; } location = /broken { internal; return 500; }
        location /n/ { allow 192.0.2.1; auth_request /no; }''')
    for name in 'fen':
        s.file(f'{name}/a.txt', b'body')
    assert statuses(s, protocol, '/f/a.txt', ['192.0.2.1']) == [403]
    s.wait_log('access forbidden by rule')
    assert statuses(s, protocol, '/e/a.txt', ['192.0.2.1']) == [500]
    assert statuses(s, protocol, '/n/a.txt', ['192.0.2.1', '192.0.2.2']) == [200, 403]


def test_both_challenges_are_sent(three, protocol):
    s = three('any', 'return 401;')
    r = s.get('/a.txt', protocol, headers=client('192.0.2.2'))
    assert r.status == 401 and r.all('www-authenticate') == ['Basic realm="Staff"']


def test_auth_delay(site, protocol):
    s = site('location / { auth_basic x; auth_basic_user_file users; auth_delay 10ms; }')
    (s.directory / 'users').write_text('joe:{PLAIN}secret\n')
    connection = s.connect(protocol)
    assert connection.request('/a.txt').status == 401
    s.wait_log('delaying unauthorized request')
    assert connection.request('/a.txt', headers=[JOE]).body == b'body'


def test_client_that_leaves_while_delayed(server, protocol):
    s = server('server { listen @SOCK@; root @DIR@/www; location / { auth_basic x; auth_basic_user_file users; auth_delay 1h; } location /open { return 204; } }')
    (s.directory / 'users').write_text('')
    waiting = s.connect(protocol)
    if protocol == 'h1':
        waiting.send(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    else:
        waiting.start('/')
    s.wait_log('delaying unauthorized request')
    waiting.close()
    s.wait_log(r'"GET / HTTP/[12]\.[01]" 499', 'access.log')
    assert s.get('/open', protocol).status == 204

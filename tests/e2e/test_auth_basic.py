"""auth_basic: user files, hashes, challenges, log lines."""
import base64
import os
import subprocess

import pytest
from harness import wait_until

HASHES = {
    'plain': '{PLAIN}secret',
    'sha': '{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=',
    'ssha': '{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0',
    'apr1': '$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/',
    'des': 'abFZSxKKdq5s6',  # "foo"
    'md5': '$1$abcdefgh$2jVG8MqUJzJ3s3MOcLyS9/',
}


def basic(user, password):
    pair = f'{user}:{password}'.encode('latin-1') if isinstance(user, str) else user
    return [('Authorization', 'Basic ' + base64.b64encode(pair).decode())]


@pytest.fixture
def site(server):
    """site(text of the user file or None, location lines) → server whose /a.txt is guarded."""
    def make(users, location='auth_basic "Closed site"; auth_basic_user_file users;', outer=''):
        s = server('server { listen @SOCK@; root @DIR@/www; %s location / { %s add_header X-User "$remote_user" always; } }' % (outer, location),
                   start=False)
        s.file('a.txt', b'secret')
        if users is not None:
            (s.directory / 'users').write_text(users)
        s.start()
        return s
    return make


def test_challenge(site, protocol):
    s = site('joe:{PLAIN}secret\n')
    r = s.get('/a.txt', protocol)
    assert r.status == 401 and r.all('www-authenticate') == ['Basic realm="Closed site"']
    assert r['content-type'] == 'text/html' and b'<title>401 Authorization Required</title>' in r.body and b'secret' not in r.body
    s.wait_log(r'\[info\] .*: \*\d+ no user/password was provided for basic authentication, client: unix:, server: , request: "GET /a\.txt')


def test_let_in_and_refused(site, protocol):
    s = site('# a comment\nann:{PLAIN}a\njoe:{PLAIN}secret:a comment:and more\njoe:{PLAIN}other\n')
    client = s.connect(protocol)
    r = client.request('/a.txt', headers=basic('joe', 'secret'))
    assert (r.status, r.body, r['x-user'], r['www-authenticate']) == (200, b'secret', 'joe', None)
    s.wait_log(r'^unix: - joe \[', 'access.log')
    for password in ('', 'Secret', 'secret ', 'other', 'secret:a comment'):
        r = client.request('/a.txt', headers=basic('joe', password))
        assert r.status == 401 and r['www-authenticate'] == 'Basic realm="Closed site"', password
    s.wait_log(r'\[error\] .*: \*\d+ user "joe": password mismatch, client: unix:, server: , request: "GET /a\.txt HTTP/[12]\.[01]", host: "localhost"')
    for user in ('jo', 'joey', '# a comment', 'nobody'):
        assert client.request('/a.txt', headers=basic(user, 'secret')).status == 401
    s.wait_log(rf'\[error\] .*: \*\d+ user "nobody" was not found in "{s.directory}/users", client: unix:')


@pytest.mark.parametrize('field', ['Basic', 'Basic !!!', 'Basic am9l', 'Basic OnNlY3JldA==', 'Bearer am9lOnNlY3JldA==', 'am9lOnNlY3JldA=='])
def test_malformed_credentials(site, protocol, field):
    """Of no user, of no colon, of another scheme."""
    r = site('joe:{PLAIN}secret\n:{PLAIN}secret\n').get('/a.txt', protocol, headers=[('Authorization', field)])
    assert r.status == 401 and r['www-authenticate'] == 'Basic realm="Closed site"'


def test_scheme_name_case_and_blanks(site, protocol):
    s = site('joe:{PLAIN}secret\n')
    for field in ('basic am9lOnNlY3JldA==', 'BASIC   am9lOnNlY3JldA==', 'Basic am9lOnNlY3JldA'):
        assert s.get('/a.txt', protocol, headers=[('Authorization', field)]).status == 200


def crypted(prefix):
    """A hash of "secret" by libcrypt, as cheap as the scheme allows."""
    program = ('import ctypes; c = ctypes.CDLL("libcrypt.so.1"); c.crypt.restype = c.crypt_gensalt.restype = ctypes.c_char_p\n'
               'p = %r; s = c.crypt_gensalt(p, 4 if p[1:2] == b"2" else 1 if p[1:2] in (b"y", b"g") else 0, b"0123456789abcdef0123456789abcdef", 32)\n'
               'print(c.crypt(b"secret", s if p else b"ab").decode())' % prefix.encode())
    return subprocess.run(['/usr/bin/python3', '-c', program], capture_output=True, text=True, check=True, timeout=30).stdout.strip()


@pytest.mark.parametrize('prefix', ['', '$1$', '$2b$', '$2y$', '$5$', '$6$', '$y$', '$gy$'])
def test_schemes_of_the_library(site, protocol, prefix):
    s = site(f'joe:{crypted(prefix)}\n')
    client = s.connect(protocol)
    assert client.request('/a.txt', headers=basic('joe', 'secret')).body == b'secret'
    assert client.request('/a.txt', headers=basic('joe', 'wrong')).status == 401
    assert client.request('/a.txt', headers=basic('joe', 'secret\0x')).status == 401
    assert client.request('/a.txt', headers=basic('joe', 'secret')).body == b'secret'  # Remembered.


@pytest.mark.parametrize('name', ['plain', 'sha', 'ssha', 'apr1'])
def test_schemes_of_our_own(site, protocol, name):
    s = site(f'joe:{HASHES[name]}')
    client = s.connect(protocol)
    assert client.request('/a.txt', headers=basic('joe', 'secret')).body == b'secret'
    assert client.request('/a.txt', headers=basic('joe', 'Secret')).status == 401


@pytest.mark.parametrize('line', ['joe', 'joe:', 'joe:*', 'joe:*0', 'joe:$9$x$y', 'joe:secret', 'joe:!$6$abc', 'joe:{SHA}', 'joe:$apr1$'])
def test_lines_that_let_nobody_in(site, protocol, line):
    s = site(line + '\n')
    client = s.connect(protocol)
    for password in ('', 'secret', '*', '*0', '*1'):
        assert client.request('/a.txt', headers=basic('joe', password)).status == 401


def test_missing_file(site, protocol):
    s = site(None)
    client = s.connect(protocol)
    assert client.request('/a.txt').status == 401  # As nginx: who brings no password is asked first.
    r = client.request('/a.txt', headers=basic('joe', 'secret'))
    assert r.status == 403 and r['www-authenticate'] is None
    s.wait_log(rf'\[error\] .*open\(\) "{s.directory}/users" failed \(2: No such file or directory\), client: unix:')
    (s.directory / 'users').write_text('joe:{PLAIN}secret\n')
    assert client.request('/a.txt', headers=basic('joe', 'secret')).body == b'secret'


def test_file_that_is_none(site, protocol):
    s = site(None)
    (s.directory / 'users').mkdir()
    assert s.get('/a.txt', protocol, headers=basic('joe', 'secret')).status == 500
    s.wait_log(r'\[crit\] .*read\(\) ".*/users" failed \(21: Is a directory\)')


def test_changes_hold_at_once(site, protocol):
    """Also for a password that was remembered."""
    hashed = crypted('$6$')
    s = site(f'joe:{hashed}\n')
    client = s.connect(protocol)
    ask = lambda: client.request('/a.txt', headers=basic('joe', 'secret')).status  # noqa: E731
    assert [ask(), ask()] == [200, 200]
    users = s.directory / 'users'
    users.write_text('joe:{PLAIN}other\n')
    assert ask() == 401
    users.write_text(f'joe:{hashed}\n')
    assert ask() == 200
    users.write_text('')
    assert ask() == 401
    (s.directory / 'new').write_text(f'joe:{hashed}\n')
    os.replace(s.directory / 'new', users)
    assert ask() == 200
    users.unlink()
    assert ask() == 403


def test_large_file(site, protocol):
    """Larger than what is kept in memory: read by a thread, to its last line."""
    s = site(''.join(f'user{i}:{{PLAIN}}x{i}\n' for i in range(20_000)) + f'joe:{crypted("$1$")}')
    client = s.connect(protocol)
    for user, password, status in [('user0', 'x0', 200), ('user19999', 'x19999', 200), ('joe', 'secret', 200), ('joe', 'x', 401), ('jo', 'x', 401)]:
        assert client.request('/a.txt', headers=basic(user, password)).status == status, user


def test_variables_and_off(server, protocol):
    s = server('''map $arg_open $realm { 1 off; default "for $host"; }
        server { listen @SOCK@; root @DIR@/www; auth_basic $realm; auth_basic_user_file $host.users;
            location /open/ { auth_basic off; } location /quoted/ { auth_basic 'a "b" \\ c'; } }''')
    for name in ('a.txt', 'open/a.txt'):
        s.file(name, b'body')
    (s.directory / 'localhost.users').write_text('joe:{PLAIN}secret\n')
    client = s.connect(protocol)
    assert client.request('/a.txt')['www-authenticate'] == 'Basic realm="for localhost"'
    assert client.request('/a.txt', headers=basic('joe', 'secret')).body == b'body'
    assert client.request('/a.txt', headers=basic('joe', 'secret'), host='other').status == 403
    assert client.request('/a.txt?open=1').body == b'body'
    assert client.request('/open/a.txt').body == b'body'
    assert client.request('/quoted/a')['www-authenticate'] == 'Basic realm="a \\"b\\" \\\\ c"'


def test_without_a_file_nobody_is_let_in(site, protocol):
    s = site(None, 'auth_basic "x";')
    code, said = s.test()
    assert code == 0 and '"auth_basic" without "auth_basic_user_file"' in said
    assert s.get('/a.txt', protocol, headers=basic('joe', 'secret')).status == 403
    s.wait_log('nobody is let in')


def test_inheritance(server, protocol):
    s = server('''server { listen @SOCK@; root @DIR@/www; auth_basic outer; auth_basic_user_file users;
        location /inner/ { auth_basic inner; auth_basic_user_file inner.users; } }''')
    (s.directory / 'users').write_text('joe:{PLAIN}a\n')
    (s.directory / 'inner.users').write_text('joe:{PLAIN}b\n')
    s.file('inner/a.txt', b'body')
    s.file('a.txt', b'body')
    client = s.connect(protocol)
    assert client.request('/inner/a.txt')['www-authenticate'] == 'Basic realm="inner"'
    assert client.request('/a.txt')['www-authenticate'] == 'Basic realm="outer"'
    assert client.request('/inner/a.txt', headers=basic('joe', 'b')).status == 200
    assert client.request('/inner/a.txt', headers=basic('joe', 'a')).status == 401
    assert client.request('/a.txt', headers=basic('joe', 'a')).status == 200


def test_error_page(site, protocol):
    s = site('joe:{PLAIN}x\n', outer='error_page 401 /login.html; location = /login.html { auth_basic off; }')
    s.file('login.html', b'please')
    r = s.get('/a.txt', protocol)
    assert (r.status, r.body, r.all('www-authenticate')) == (401, b'please', ['Basic realm="Closed site"'])


def test_error_page_that_is_guarded_too(site, protocol):
    r = site('joe:{PLAIN}x\n', outer='error_page 401 /login.html;').get('/a.txt', protocol)
    assert r.status == 401 and r.all('www-authenticate') == ['Basic realm="Closed site"']


def test_user_cannot_forge_log_lines(site, protocol):
    s = site('joe:{PLAIN}x\n')
    s.get('/a.txt', protocol, headers=basic(b'a\nforged "line:x', None))
    s.wait_log(r'user "a\\x0Aforged "line" was not found')
    assert '\nforged' not in s.log()


def test_slow_hashes_do_not_hold_others_up(site, protocol):
    """Many clients with passwords that take long; one who needs none is answered meanwhile, and all get their own answer."""
    s = site(f'joe:{slow_hash()}\n', outer='location /open { return 204; }')
    clients = [s.connect(protocol) for _ in range(8)]
    streams = []
    for i, client in enumerate(clients):
        fields = basic('joe', 'secret' if i % 2 == 0 else f'wrong{i}')
        if protocol == 'h1':
            client.send(b'GET /a.txt HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n' % tuple(x.encode() for x in fields[0]))
        else:
            streams.append(client.start('/a.txt', headers=fields))
    assert s.get('/open', protocol).status == 204
    answers = [client.read_response() if protocol == 'h1' else client.read_response(streams[i]) for i, client in enumerate(clients)]
    assert [r.status for r in answers] == [200, 401] * 4


def test_client_that_leaves_while_its_password_is_checked(site, protocol):
    s = site(f'joe:{slow_hash()}\n', outer='location /open { return 204; }')
    for i in range(5):
        client = s.connect(protocol)
        fields = basic('joe', f'wrong{i}')
        if protocol == 'h1':
            client.send(b'GET /a.txt HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n' % tuple(x.encode() for x in fields[0]))
        else:
            client.start('/a.txt', headers=fields)
        client.close()
    client = s.connect(protocol)
    assert client.request('/a.txt', headers=basic('joe', 'secret')).status == 200
    wait_until(lambda: s.log('access.log').count('/a.txt') == 6, 'all requests to be logged')


def slow_hash():
    return crypted('$6$')

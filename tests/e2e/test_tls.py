"""TLS: handshakes, protocols, certificates by name, what goes wrong."""
import socket
import ssl
import struct

import pytest
from certificates import authority
from harness import Http1, Https1, Https2, connect_to, tls_context, wait_until



def listen(port, *more):
    return f'listen 127.0.0.1:{port} ssl {" ".join(more)};'


@pytest.fixture(scope='session')
def ca():
    made = authority()
    if not (made.directory / 'a.pem').exists():
        made.make('a', ['a.test', 'www.a.test'])
        made.make('b', ['b.test', '*.b.test'])
        made.make('rsa', ['a.test'], 'rsa')
        made.make('slow', ['slow.test'], 'slow')
        made.make('secret', ['secret.test'], password='open sesame')
    return made


def config(text, ca):
    return text.replace('@CA@', str(ca.directory))


def path_of(s):
    return str(s.directory / 't.sock')


A = '''server { listen unix:@DIR@/t.sock ssl; server_name a.test www.a.test; ssl_certificate @CA@/a.pem; ssl_certificate_key @CA@/a.key;
location / { return 200 "a $scheme $https $ssl_server_name $ssl_protocol $ssl_alpn_protocol"; } location /files/ { alias @DIR@/www/; } }
'''
B = '''server { listen unix:@DIR@/t.sock ssl; server_name b.test *.b.test ~^b[0-9]+\\.test$; ssl_certificate @CA@/b.pem; ssl_certificate_key @CA@/b.key;
http2 off; location / { return 200 "b $scheme"; } }
'''


def subject(client):
    return dict(pair[0] for pair in client.socket.getpeercert()['subject'])['commonName']


@pytest.mark.parametrize('version', [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_protocols(server, ca, version):
    s = server(config(A, ca))
    h1 = Https1(path_of(s), tls_context('http/1.1', version=version), 'a.test')
    name = 'TLSv1.2' if version == ssl.TLSVersion.TLSv1_2 else 'TLSv1.3'
    assert h1.request('/').body == f'a https on a.test {name} http/1.1'.encode()
    assert h1.request('/').body.startswith(b'a https')
    h2 = Https2(path_of(s), tls_context('h2', 'http/1.1', version=version), 'www.a.test')
    assert h2.request('/', host='www.a.test').body == f'a https on www.a.test {name} h2'.encode()


def test_without_alpn(server, ca):
    s = server(config(A, ca))
    client = Https1(path_of(s), tls_context(), 'a.test')
    assert client.socket.selected_alpn_protocol() is None
    assert client.request('/').body == b'a https on a.test TLSv1.3 '
    # The preface alone is no agreement.
    client = Https1(path_of(s), tls_context(), 'a.test')
    client.send(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
    assert client.read_response().status == 505


def test_alpn_of_old_clients(server, ca):
    s = server(config(A, ca))
    client = Https1(path_of(s), tls_context('http/1.0'), 'a.test')
    assert client.socket.selected_alpn_protocol() == 'http/1.0'
    assert client.request('/').body.endswith(b' http/1.0')


def test_alpn_that_nobody_speaks(server, ca):
    s = server(config(A, ca))
    with pytest.raises(ssl.SSLError, match='NO_APPLICATION_PROTOCOL|no application protocol'):
        Https1(path_of(s), tls_context('spdy/1'), 'a.test')


def test_site_by_name(server, ca):
    s = server(config(A + B, ca))
    anyone = tls_context('h2', 'http/1.1')
    anyone.check_hostname = False
    for name, wanted in (('a.test', 'a.test'), ('b.test', 'b.test'), ('x.b.test', 'b.test'), ('b7.test', 'b.test'), ('c.test', 'a.test'),
                         ('B.TEST', 'b.test'), (None, 'a.test')):
        client = Https1(path_of(s), anyone, name)
        assert subject(client) == wanted, name
        assert client.socket.selected_alpn_protocol() == ('h2' if wanted == 'a.test' else 'http/1.1')
        client.close()


def test_servers_beside_one_with_ssl(server, ca):
    """TLS holds for the address: who has a certificate shows it, who has none is served with the default server's."""
    own = 'server { listen unix:@DIR@/t.sock; server_name b.test; ssl_certificate @CA@/b.pem; ssl_certificate_key @CA@/b.key; return 200 "own $scheme"; }'
    s = server(config(A + own + 'server { listen unix:@DIR@/t.sock; server_name c.test; return 200 "none $scheme"; }', ca), tls=False)
    anyone = tls_context('http/1.1')
    anyone.check_hostname = False
    for name, shown, body in (('b.test', 'b.test', b'own https'), ('c.test', 'a.test', b'none https')):
        client = Https1(path_of(s), anyone, name)
        assert (subject(client), client.request('/', host=name).body) == (shown, body)


def test_two_kinds_of_keys(server, ca):
    s = server(config(A.replace('ssl_certificate ', 'ssl_certificate @CA@/rsa.pem; ssl_certificate_key @CA@/rsa.key; ssl_certificate ', 1), ca))
    for ciphers, wanted in (('ECDHE-RSA-AES128-GCM-SHA256', 'RSA'), ('ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDSA')):
        context = tls_context('http/1.1', version=ssl.TLSVersion.TLSv1_2)
        context.set_ciphers(ciphers)
        client = Https1(path_of(s), context, 'a.test')
        assert wanted in client.socket.cipher()[0] and client.request('/').status == 200


def test_reject_handshake(server, ca):
    s = server(config('server { listen unix:@DIR@/t.sock ssl default_server; ssl_reject_handshake on; }' + A, ca))
    assert Https1(path_of(s), None, 'a.test').request('/', host='a.test').status == 200
    with pytest.raises(ssl.SSLError, match='(?i)unrecognized.name'):
        Https1(path_of(s), None, 'c.test')


def test_password_and_data(server, ca):
    (ca.directory / 'passwords').write_text('wrong\nopen sesame\n')
    text = 'server { listen unix:@DIR@/t.sock ssl; server_name secret.test; ssl_password_file @CA@/passwords; ssl_certificate @CA@/secret.pem; ssl_certificate_key @CA@/secret.key; return 200 secret; }'
    pem, key = ((ca.directory / f'a.{end}').read_text() for end in ('pem', 'key'))
    text += f'server {{ listen unix:@DIR@/t.sock ssl; server_name a.test; ssl_certificate "data:{pem}"; ssl_certificate_key "data:{key}"; return 200 data; }}'
    s = server(config(text, ca))
    assert Https1(path_of(s), None, 'secret.test').request('/', host='secret.test').body == b'secret'
    assert Https1(path_of(s), None, 'a.test').request('/', host='a.test').body == b'data'


def test_slow_keys_sign_elsewhere(server, ca):
    s = server(config(A + 'server { listen unix:@DIR@/t.sock ssl; server_name slow.test; ssl_certificate @CA@/slow.pem; ssl_certificate_key @CA@/slow.key; return 200 slow; }', ca))
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = tls_context('http/1.1', version=version)
        clients = [Https1(path_of(s), context, 'slow.test') for _ in range(4)]
        for client in clients:
            assert client.request('/', host='slow.test').body == b'slow'
        again = Https1(path_of(s), context, 'slow.test', clients[0].socket.session)
        assert again.socket.session_reused and again.request('/', host='slow.test').body == b'slow'


@pytest.mark.parametrize('kind', [Https1, Https2])
def test_large_files(server, ca, kind):
    s = server(config(A, ca))
    data = bytes(range(256)) * 40000
    s.file('big.bin', data)
    client = kind(path_of(s), None, 'a.test')
    for _ in range(2):
        assert client.request('/files/big.bin', host='a.test').body == data
    assert client.request('/files/big.bin', host='a.test', headers=[('Range', 'bytes=1000000-1000999')]).body == data[1000000:1001000]


def test_slow_reader(server, ca):
    """Partial writes: the client takes a little at a time."""
    s = server(config(A, ca))
    data = bytes(range(251)) * 20000
    s.file('big.bin', data)
    raw = socket.socket(socket.AF_UNIX)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.settimeout(20)
    raw.connect(path_of(s))
    tls = tls_context('http/1.1').wrap_socket(raw, server_hostname='a.test')
    tls.sendall(b'GET /files/big.bin HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n')
    got = b''
    while part := tls.recv(777 if len(got) < 100000 else 65536):
        got += part
    assert got.partition(b'\r\n\r\n')[2] == data


def test_pipelined_with_the_handshake(server, ca):
    """Requests that come with the handshake's last flight, cut anywhere."""
    s = server(config(A, ca))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = tls_context('http/1.1').wrap_bio(incoming, outgoing, server_hostname='a.test')
    raw = connect_to(path_of(s))
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            for byte in outgoing.read():
                raw.send(bytes([byte]))
            incoming.write(raw.recv(65536))
    tls.write(b'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n' * 2 + b'GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n')
    raw.sendall(outgoing.read())
    got = b''
    while True:
        try:
            part = tls.read(65536)
        except ssl.SSLWantReadError:
            data = raw.recv(65536)
            incoming.write(data) if data else incoming.write_eof()
            continue
        except ssl.SSLZeroReturnError:
            break  # close_notify.
        if not part:
            break
        got += part
    assert got.count(b'HTTP/1.1 200') == 3


def test_end_is_announced(server, ca):
    s = server(config(A, ca))
    client = Https1(path_of(s), None, 'a.test')
    client.send(b'GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n')
    client.socket.suppress_ragged_eofs = False
    assert b'200' in client.rest()  # Raises when the end comes without close_notify.


def test_client_ends_in_either_way(server, ca):
    s = server(config(A, ca))
    for abrupt in (True, False):
        client = Https1(path_of(s), None, 'a.test')
        assert client.request('/').status == 200
        if abrupt:
            client.socket.close()
        else:
            client.socket.unwrap().close()
    wait_until(lambda: s.status()['connections']['active'] == 0 if 'connections' in s.status() else True)
    assert Https1(path_of(s), None, 'a.test').request('/').status == 200


def test_bytes_behind_the_end_are_dropped(server, ca):
    s = server(config(A, ca))
    raw = connect_to(path_of(s))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = tls_context('http/1.1').wrap_bio(incoming, outgoing, server_hostname='a.test')
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            raw.sendall(outgoing.read())
            incoming.write(raw.recv(65536))
    tls.write(b'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n')
    with pytest.raises(ssl.SSLWantReadError):
        tls.unwrap()
    raw.sendall(outgoing.read() + b'\x17\x03\x03\x40\x00' + b'x' * 1000)
    got = b''
    while data := raw.recv(65536):
        got += data
    incoming.write(got)
    assert b'200 OK' in tls.read(65536)  # The request before it was answered.


@pytest.mark.parametrize('data', [b'\x16\x03\x01\x00\x05hello', b'\x80\x2e\x01\x00\x02', b'\x16' + b'\xff' * 300,
                                  b'\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03' + b'x' * 100])
def test_garbage_for_a_hello(server, ca, data):
    s = server(config(A, ca))
    raw = connect_to(path_of(s))
    raw.sendall(data)
    raw.shutdown(socket.SHUT_WR)
    while raw.recv(4096):
        pass
    s.wait_log(r'\[info\] .*while SSL handshaking, client')
    assert Https1(path_of(s), None, 'a.test').request('/').status == 200


def test_handshake_timeout(server, ca):
    s = server('client_header_timeout 300ms;' + config(A, ca))
    raw = connect_to(path_of(s))
    raw.sendall(b'\x16\x03\x01')
    assert raw.recv(100) == b''
    s.wait_log(r'client timed out \(110: Connection timed out\) while SSL handshaking')


def test_plain_http_on_a_tls_port(server, ca):
    s = server(config(A, ca))
    client = Http1(path_of(s))
    response = client.request('/')
    assert response.status == 400 and b'The plain HTTP request was sent to HTTPS port' in response.body
    s.wait_log('client sent plain HTTP request to HTTPS port while reading client request headers')
    # What is no request is a bad one first.
    broken = Http1(path_of(s))
    broken.send(b'\0\1nonsense\r\n\r\n')
    assert b'The plain HTTP request' not in broken.read_response().body
    s = server(config(A.replace('location / {', 'error_page 497 =307 https://$host$request_uri; location / {', 1), ca))
    response = Http1(path_of(s)).request('/x?y', host='a.test')
    assert response.status == 307 and response['location'] == 'https://a.test/x?y'


def test_old_protocols_are_refused(server, ca):
    s = server(config(A, ca))
    context = tls_context('http/1.1')
    context.set_ciphers('ALL:@SECLEVEL=0')
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Https1(path_of(s), context, 'a.test')
    s = server(config(A.replace('server_name', 'ssl_protocols TLSv1.3; server_name', 1), ca))
    with pytest.raises(ssl.SSLError):
        Https1(path_of(s), tls_context(version=ssl.TLSVersion.TLSv1_2), 'a.test')
    s = server('', start=False)
    s.write_config(config(A.replace('server_name', 'ssl_protocols TLSv1 TLSv1.2; server_name', 1), ca))
    code, said = s.test()
    assert code == 0 and '"TLSv1" is not spoken any more' in said
    s.write_config(config(A.replace('server_name', 'ssl_protocols SSLv3; server_name', 1), ca))
    assert s.test()[0] == 1


def test_policy_per_site(server, ca):
    strict = A.replace('server_name', 'ssl_protocols TLSv1.2; ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384; ssl_ecdh_curve P-384; server_name', 1)
    loose = B.replace('server_name', 'ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256; server_name', 1)
    s = server(config(loose + strict.replace('$ssl_server_name', '$ssl_curve $ssl_cipher', 1), ca))
    assert Https1(path_of(s), None, 'a.test').request('/', host='a.test').body.startswith(
        b'a https on secp384r1 ECDHE-ECDSA-AES256-GCM-SHA384 TLSv1.2')
    client = Https1(path_of(s), None, 'b.test')
    assert client.socket.version() == 'TLSv1.3' and client.socket.cipher()[0] == 'TLS_CHACHA20_POLY1305_SHA256'


@pytest.mark.parametrize('bad, said', [
    ('ssl_ciphers nonsense;', r'SSL_CTX_set_cipher_list("nonsense") failed'),
    ('ssl_ecdh_curve nonsense;', r'SSL_CTX_set1_curves_list("nonsense") failed'),
    ('ssl_conf_command Nonsense x;', 'unknown command "Nonsense"'),
    ('ssl_conf_command Options nonsense;', 'SSL_CONF_cmd("Options", "nonsense") failed'),
    ('ssl_verify_client on;', 'no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client'),
    ('ssl_session_cache shared:x;', 'invalid session cache "shared:x"'),
])
def test_what_is_refused(server, ca, bad, said):
    s = server(config(A.replace('server_name', f'{bad} server_name', 1), ca), start=False)
    code, text = s.test()
    assert code == 1 and said in text


def test_key_of_another_certificate(server, ca):
    """Degrades the site alone."""
    s = server(config(A.replace('a.key', 'b.key') + B, ca))
    assert 'site "a.test" is degraded: cannot load certificate key' in s.stderr_text()
    with pytest.raises(ssl.SSLError, match='(?i)unrecognized.name'):
        Https1(path_of(s), None, 'a.test')
    assert Https1(path_of(s), None, 'b.test').request('/', host='b.test').body == b'b https'


def test_reset_in_the_middle(server, ca):
    """Abrupt ends of many connections in all states leave the server in order."""
    s = server(config(A, ca))
    s.file('big.bin', b'x' * 3000000)
    for i in range(30):
        raw = connect_to(path_of(s))
        tls = tls_context('http/1.1').wrap_socket(raw, server_hostname='a.test', do_handshake_on_connect=i % 3 != 0)
        if i % 3:
            tls.send(b'GET /files/big.bin HTTP/1.1\r\nHost: a.test\r\n\r\n')
        if i % 3 == 2:
            tls.recv(1000)
        tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        tls.close()
    assert Https1(path_of(s), None, 'a.test').request('/').status == 200


def test_reload_and_quit_under_tls(server, ca):
    s = server(config(A, ca))
    client = Https1(path_of(s), None, 'a.test')
    assert client.request('/').status == 200
    h2 = Https2(path_of(s), None, 'a.test')
    assert h2.request('/', host='a.test').status == 200
    s.reload()
    response = client.request('/')
    assert response.status == 200 and response.closed
    assert Https1(path_of(s), None, 'a.test').request('/').status == 200
    assert s.stop() == 0

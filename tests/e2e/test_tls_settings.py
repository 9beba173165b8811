"""The directives of TLS that are about how it is spoken: each test fails without its directive."""
import os
import socket
import ssl
import struct
import threading

import pytest
from certificates import authority, openssl
from harness import Https1, Https2, tls_context, wait_until

SITE = '''server { listen unix:@DIR@/t.sock ssl; server_name a.test; ssl_certificate @CA@/settings.pem; ssl_certificate_key @CA@/settings.key; %s
location / { return 200 "$ssl_cipher $ssl_curve $ssl_session_reused"; } location /files/ { alias @DIR@/www/; } }
'''
V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.fixture(scope='session')
def ca():
    made = authority()
    if not (made.directory / 'settings.pem').exists():
        made.make('settings', ['a.test'], 'rsa')
        made.make('override', ['a.test', 'override.test'], 'rsa')
        made.make('sealed', ['a.test'], password='open sesame')
    return made


@pytest.fixture
def start(server, ca):
    return lambda more='', text=SITE, **options: server((text % more).replace('@CA@', str(ca.directory)), **options)


def open_tls(s, version=V13, ciphers=None, curve=None):
    context = tls_context('http/1.1', version=version)
    if ciphers:
        context.set_ciphers(ciphers)
    if curve:
        context.set_ecdh_curve(curve)
    return Https1(str(s.directory / 't.sock'), context, 'a.test')


def answer(s, *how, **more):
    client = open_tls(s, *how, **more)
    try:
        return client.request('/', host='a.test').body.decode().split(' ')
    finally:
        client.close()


def test_ciphers(start):
    ours = 'ssl_ciphers ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256;'
    theirs = 'ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384'
    assert answer(start(ours), V12, theirs)[0] == 'ECDHE-RSA-AES128-GCM-SHA256'
    s = start(ours + 'ssl_prefer_server_ciphers on;')
    assert answer(s, V12, theirs)[0] == 'ECDHE-RSA-AES256-GCM-SHA384'
    with pytest.raises(ssl.SSLError, match='(?i)handshake.failure'):
        answer(s, V12, 'ECDHE-RSA-CHACHA20-POLY1305')
    # And a command takes it back, as in nginx.
    s = start(ours + 'ssl_prefer_server_ciphers on; ssl_conf_command Options -ServerPreference;')
    assert answer(s, V12, theirs)[0] == 'ECDHE-RSA-AES128-GCM-SHA256'
    assert answer(start('ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;'))[0] == 'TLS_AES_128_GCM_SHA256'


def test_commands_that_override(start, ca):
    """Certificates named so win over ssl_certificate; their paths are relative to the configuration."""
    s = start('ssl_session_tickets off; ssl_conf_command Options SessionTicket; ssl_conf_command Certificate override.pem; ssl_conf_command PrivateKey override.key;',
              start=False)
    for part in ('pem', 'key'):
        (s.directory / f'override.{part}').write_bytes((ca.directory / f'override.{part}').read_bytes())
    s.start()
    client = open_tls(s, V12)
    assert ('DNS', 'override.test') in client.socket.getpeercert()['subjectAltName']
    assert client.socket.session.has_ticket


def test_dhparam(start, ca):
    with pytest.raises(ssl.SSLError):
        answer(start('ssl_ciphers HIGH;'), V12, 'DHE-RSA-AES128-GCM-SHA256')
    openssl('genpkey', '-genparam', '-algorithm', 'DH', '-pkeyopt', 'group:ffdhe2048', '-out', ca.directory / 'dh.pem')
    assert answer(start('ssl_ciphers HIGH; ssl_dhparam @CA@/dh.pem;'), V12, 'DHE-RSA-AES128-GCM-SHA256')[0] == 'DHE-RSA-AES128-GCM-SHA256'


def test_curves(start):
    assert answer(start(), curve='secp384r1')[1] == 'secp384r1'
    s = start('ssl_ecdh_curve secp521r1:prime256v1;')
    for version in (V12, V13):
        assert answer(s, version)[1] in ('secp521r1', 'prime256v1')
        with pytest.raises(ssl.SSLError):
            answer(s, version, curve='secp384r1')


def record_sizes(s, path):
    """Payloads of the records of a response, each of 16 bytes of tag and one for its kind less."""
    near, far = socket.socketpair()
    target = socket.socket(socket.AF_UNIX)
    target.connect(str(s.directory / 't.sock'))
    seen = bytearray()

    def forward():
        while data := far.recv(65536):
            target.sendall(data)

    def back():
        while data := target.recv(65536):
            seen.extend(data)
            far.sendall(data)
        far.shutdown(socket.SHUT_WR)
    threads = [threading.Thread(target=forward), threading.Thread(target=back)]
    for thread in threads:
        thread.start()
    client = tls_context('http/1.1', version=V13).wrap_socket(near, server_hostname='a.test')
    client.sendall(f'GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n'.encode())
    while client.recv(65536):
        pass
    client.close()
    for thread in threads:
        thread.join(10)
    for one in (near, far, target):
        one.close()
    sizes = []
    while seen:
        kind, _, length = struct.unpack('!BHH', seen[:5])
        sizes += [length - 17] if kind == 23 else []
        del seen[:5 + length]
    return [size for size in sizes if size > 1000]


def test_record_sizes(start):
    body = os.urandom(120_000)
    s = start('ssl_session_tickets off;')
    s.file('x', body)
    sizes = record_sizes(s, '/files/x')
    first = sizes.index(1369)
    assert sizes[first:first + 9] == [1369] * 4 + [4229] * 4 + [16384]
    s = start('ssl_session_tickets off; ssl_dyn_rec_enable off; ssl_buffer_size 4k;')
    s.file('x', body)
    assert max(record_sizes(s, '/files/x')) == 4096 and 1369 not in record_sizes(s, '/files/x')
    s = start('ssl_session_tickets off; ssl_dyn_rec_size_lo 2000; ssl_dyn_rec_size_hi 3000; ssl_dyn_rec_threshold 2;')
    s.file('x', body)
    sizes = record_sizes(s, '/files/x')
    first = sizes.index(2000)
    assert sizes[first:first + 5] == [2000] * 2 + [3000] * 2 + [16384]


@pytest.mark.parametrize('kind', [Https1, Https2])
def test_what_is_no_record_is_told(start, kind):
    s = start()
    client = kind(str(s.directory / 't.sock'), tls_context('h2' if kind is Https2 else 'http/1.1'), 'a.test')
    assert client.request('/', host='a.test').status == 200
    with socket.socket(fileno=os.dup(client.socket.fileno())) as below:
        below.sendall(b'\x17\x03\x03\x00\x20' + b'x' * 32)
    s.wait_log(r'\[info\].*SSL_read\(\) failed \(SSL: error:[0-9A-F]+:.*bad record mac\) while (waiting for request|processing HTTP/2 connection), client: ')


def test_passphrase_from_a_fifo(start, ca):
    """Read once, for two certificates; as nginx's tests do it."""
    text = SITE.replace('settings', 'sealed') + SITE.replace('settings', 'sealed').replace('a.test', 'b.test')
    s = start(('ssl_password_file @DIR@/fifo;',) * 2, text=text, start=False)
    os.mkfifo(s.directory / 'fifo', 0o600)
    writer = threading.Thread(target=lambda: (s.directory / 'fifo').write_text('open sesame\n'))
    writer.start()
    s.start()
    writer.join(10)
    assert answer(s)[2] == '.'


@pytest.mark.parametrize('text, code, said', [
    ('ssl_ocsp on;', 1, 'It restricts access by client certificates'),
    ('ssl_key_log @DIR@/keys;', 0, 'ssl_key_log'),
    ('ssl_certificate_compression on;', 0, 'ssl_certificate_compression'),
    ('ssl_stapling on;', 0, 'answers of the authority are not fetched'),
    ('ssl_certificate_cache max=3 inactive=1s valid=1s;', 0, 'successful'),
    ('ssl_certificate_cache 3;', 1, 'invalid parameter "3"'),
    ('ssl_conf_command Nothing x;', 1, 'unknown command "Nothing"'),
    ('ssl_stapling_file @CA@/settings.pem;', 2, 'cannot load ssl_stapling_file'),
])
def test_what_is_said(start, text, code, said):
    s = start(text, start=False)
    got, output = s.test()
    assert (got, said in output) == (code, True), output

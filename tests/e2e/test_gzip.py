"""Dynamic gzip: when a response is compressed, what that does to its head, and that its bytes are right. Case 10 of the field."""
import gzip
import os
import time
import zlib

import pytest
from fastcgi_peer import Peer, answer, end_request, record, stdout

ASK = [('Accept-Encoding', 'gzip')]
TEXT = b'The quick brown fox jumps over the lazy dog.\n' * 400
SITE = '''types { text/html html; text/css css; image/png png; application/json json; }
server { listen @SOCK@; root @DIR@/www; gzip on; %s }'''


def is_gzip(r):
    return r['content-encoding'] == 'gzip'


def test_compressed(server, protocol):
    s = server(SITE % '')
    s.file('a.html', TEXT)
    client = s.connect(protocol)
    r = client.request('/a.html', headers=ASK)
    assert r.status == 200 and is_gzip(r) and gzip.decompress(r.body) == TEXT
    assert len(r.body) < len(TEXT) / 10
    assert r['content-length'] in (None, str(len(r.body))) and r['content-type'] == 'text/html'
    assert r['accept-ranges'] is None and r['last-modified']
    assert client.request('/a.html').body == TEXT  # The connection is in step, and nobody is given what they did not ask for.


def test_off_by_default(server, protocol):
    s = server('server { listen @SOCK@; root @DIR@/www; types { text/html html; } }')
    s.file('a.html', TEXT)
    r = s.get('/a.html', protocol, headers=ASK)
    assert not is_gzip(r) and r.body == TEXT and r['vary'] is None


@pytest.mark.parametrize('accept,wanted', [
    ('gzip', True), ('GZIP', True), ('x-gzip', True), ('deflate, gzip', True), ('br, gzip;q=0.5', True), ('gzip;q=0.001', True), ('*', True),
    ('gzip ; q=1.0', True), ('gzip, identity;q=0', True), ('deflate', False), ('', False), ('gzip;q=0', False), ('gzip;q=0.0', False),
    ('gzip;q=0.000, *', False), ('*;q=0', False), ('identity', False), ('gzipped', False), ('*, gzip;q=0', False), ('gzip;q=0, deflate', False),
])
def test_accept_encoding(server, protocol, accept, wanted):
    """Case 10: gzip;q=0 is never used; the order in the list does not decide."""
    s = server(SITE % '')
    s.file('a.html', TEXT)
    r = s.get('/a.html', protocol, headers=[('Accept-Encoding', accept)])
    assert is_gzip(r) == wanted
    assert (gzip.decompress(r.body) if wanted else r.body) == TEXT


def test_several_accept_encoding_fields_are_one_list(server, protocol):
    s = server(SITE % '')
    s.file('a.html', TEXT)
    assert is_gzip(s.get('/a.html', protocol, headers=[('Accept-Encoding', 'br'), ('Accept-Encoding', 'gzip')]))
    assert not is_gzip(s.get('/a.html', protocol, headers=[('Accept-Encoding', 'deflate'), ('Accept-Encoding', 'gzip;q=0')]))


def test_variants_of_one_file(server, protocol):
    """Case 10: Vary on 200, 206 and 304; a different ETag each; a 304 repeats the variant's ETag."""
    s = server(SITE % 'gzip_vary on;')
    path = s.file('a.html', TEXT)
    os.utime(path, (time.time() - 3600,) * 2)
    client = s.connect(protocol)
    plain, packed = client.request('/a.html'), client.request('/a.html', headers=ASK)
    assert plain['vary'] == packed['vary'] == 'Accept-Encoding'
    assert plain['etag'] != packed['etag'] and packed['etag'] == 'W/' + plain['etag']
    for headers, r in (([], plain), (ASK, packed)):
        again = client.request('/a.html', headers=headers + [('If-None-Match', r['etag'])])
        assert again.status == 304 and again.body == b''
        assert again['etag'] == r['etag'] and again['vary'] == 'Accept-Encoding'
        assert again['content-encoding'] is None
    part = client.request('/a.html', headers=[('Range', 'bytes=0-9')])
    assert (part.status, part.body, part['vary']) == (206, TEXT[:10], 'Accept-Encoding')


def test_ranges_and_compression(server, protocol):
    """A range is a range of something: never of one variant's bytes under the other's name."""
    s = server(SITE % 'gzip_vary on;')
    s.file('a.html', TEXT)
    client = s.connect(protocol)
    r = client.request('/a.html', headers=ASK + [('Range', 'bytes=0-9')])
    if r.status == 206:
        assert not is_gzip(r) and r.body == TEXT[:10] and r['content-range'] == f'bytes 0-9/{len(TEXT)}'
    else:
        assert r.status == 200 and is_gzip(r) and gzip.decompress(r.body) == TEXT
    packed = client.request('/a.html', headers=ASK)
    r = client.request('/a.html', headers=[('Range', 'bytes=0-9'), ('If-Range', packed['etag'])])
    assert r.status == 200 and r.body == TEXT  # A weak validator never matches If-Range (RFC 9110 §13.1.5).


def test_vary_only_where_it_varies(server, protocol):
    s = server(SITE % 'gzip_vary on;')
    s.file('a.html', TEXT)
    s.file('a.png', TEXT)
    s.file('small.html', b'tiny')
    assert s.get('/a.html', protocol)['vary'] == 'Accept-Encoding'
    assert s.get('/a.html', protocol, headers=[('Accept-Encoding', 'gzip;q=0')])['vary'] == 'Accept-Encoding'
    assert s.get('/a.png', protocol, headers=ASK)['vary'] is None
    assert s.get('/small.html', protocol, headers=ASK)['vary'] is None
    s = server(SITE % 'gzip_vary off;')
    s.file('a.html', TEXT)
    assert s.get('/a.html', protocol, headers=ASK)['vary'] is None


def test_types(server, protocol):
    s = server(SITE % '''gzip_types text/css application/json; location /all/ { gzip_types *; } location /only/ { gzip_types image/png; }''')
    for name in ('a.html', 'a.css', 'a.json', 'a.png', 'all/a.png', 'all/a.none', 'only/a.css', 'only/a.png'):
        s.file(name, TEXT)
    for name, wanted in [('a.html', True), ('a.css', True), ('a.json', True), ('a.png', False), ('all/a.png', True), ('all/a.none', True),
                         ('only/a.css', False), ('only/a.png', True)]:
        r = s.get(f'/{name}', protocol, headers=ASK)
        assert is_gzip(r) == wanted, name


def test_type_with_charset(server, protocol):
    s = server(SITE % 'charset utf-8;')
    s.file('a.html', TEXT)
    r = s.get('/a.html', protocol, headers=ASK)
    assert is_gzip(r) and r['content-type'] == 'text/html; charset=utf-8'


def test_min_length(server, protocol):
    s = server(SITE % 'location /long/ { gzip_min_length 1000; }')
    for name, size in [('a.html', 19), ('b.html', 20), ('long/a.html', 999), ('long/b.html', 1000)]:
        s.file(name, b'x' * size)
    for name, wanted in [('a.html', False), ('b.html', True), ('long/a.html', False), ('long/b.html', True)]:
        assert is_gzip(s.get(f'/{name}', protocol, headers=ASK)) == wanted, name


def test_head(server, protocol):
    s = server(SITE % 'gzip_vary on;')
    s.file('a.html', TEXT)
    client = s.connect(protocol)
    r, full = client.request('/a.html', method='HEAD', headers=ASK), client.request('/a.html', headers=ASK)
    assert r.status == 200 and r.body == b'' and is_gzip(r)
    assert (r['etag'], r['vary']) == (full['etag'], full['vary']) and r['content-length'] in (None, full['content-length'])


def test_levels(server, protocol):
    s = server(SITE % 'location /1/ { gzip_comp_level 1; } location /9/ { gzip_comp_level 9; }')
    data = b''.join(b'%d %x %o\n' % (i, i * i, i) for i in range(20000))
    for n in (1, 9):
        s.file(f'{n}/a.html', data)
    sizes = []
    for n in (1, 9):
        r = s.get(f'/{n}/a.html', protocol, headers=ASK)
        assert gzip.decompress(r.body) == data
        sizes.append(len(r.body))
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize('size', [1, 20, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, (3 << 20) + 1])
def test_sizes(server, protocol, size):
    s = server(SITE % 'gzip_min_length 0;')
    data = (os.urandom(1 << 16) * (size // (1 << 16) + 1))[:size]
    s.file('a.html', data)
    r = s.get('/a.html', protocol, headers=ASK)
    assert is_gzip(r) and gzip.decompress(r.body) == data


def test_statuses(server, protocol):
    """nginx compresses 200, 403 and 404."""
    s = server(SITE % '''gzip_min_length 0; error_page 403 /403.html; error_page 404 /404.html; error_page 410 /410.html;
        location /forbidden { return 403; } location /gone { return 410; }''')
    for n in (403, 404, 410):
        s.file(f'{n}.html', TEXT)
    for path, status, wanted in [('/forbidden', 403, True), ('/none', 404, True), ('/gone', 410, False)]:
        r = s.get(path, protocol, headers=ASK)
        assert r.status == status and is_gzip(r) == wanted
        assert (gzip.decompress(r.body) if wanted else r.body) == TEXT


def test_proxied(server, protocol):
    s = server(SITE % '''location /off/ { gzip_proxied off; } location /any/ { gzip_proxied any; } location /auth/ { gzip_proxied auth; }
        location /expired/ { gzip_proxied expired; expires epoch; } location /nolm/ { gzip_proxied no_last_modified no_etag; }
        location /nocache/ { gzip_proxied no-cache; expires -1; }''')
    for name in ('a', 'off/a', 'any/a', 'auth/a', 'expired/a', 'nolm/a', 'nocache/a'):
        s.file(f'{name}.html', TEXT)
    via = ASK + [('Via', '1.1 proxy')]
    for name, wanted in [('a', False), ('off/a', False), ('any/a', True), ('auth/a', False), ('expired/a', True), ('nolm/a', False), ('nocache/a', True)]:
        assert is_gzip(s.get(f'/{name}.html', protocol, headers=via)) == wanted, name
        assert is_gzip(s.get(f'/{name}.html', protocol, headers=ASK)), name
    assert is_gzip(s.get('/auth/a.html', protocol, headers=via + [('Authorization', 'Basic eDp5')]))


def test_http_version(server):
    s = server(SITE % 'location /old/ { gzip_http_version 1.0; }')
    s.file('a.html', TEXT)
    s.file('old/a.html', TEXT)

    def ask(path):
        client = s.connect('h1')
        client.send(b'GET %s HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n' % path)
        return client.read_response()
    r = ask(b'/a.html')
    assert not is_gzip(r) and r.body == TEXT
    r = ask(b'/old/a.html')
    assert is_gzip(r) and gzip.decompress(r.body) == TEXT and r['transfer-encoding'] is None


def test_disabled_for_agents(server, protocol):
    s = server(SITE % 'gzip_disable "Bad/[0-9]" msie6;')
    s.file('a.html', TEXT)
    for agent, wanted in [('Good/1', True), ('Bad/1', False), ('Mozilla/4.0 (compatible; MSIE 6.0; Windows)', False),
                          ('Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)', True), ('Mozilla/4.0 (compatible; MSIE 7.0)', True)]:
        assert is_gzip(s.get('/a.html', protocol, headers=ASK + [('User-Agent', agent)])) == wanted, agent


def test_in_if(server, protocol):
    s = server('types { text/html html; } server { listen @SOCK@; root @DIR@/www; location / { if ($arg_gzip) { gzip on; } } }')
    s.file('a.html', TEXT)
    assert is_gzip(s.get('/a.html?gzip=1', protocol, headers=ASK))
    assert not is_gzip(s.get('/a.html', protocol, headers=ASK))


@pytest.fixture
def origin(server):
    peers = []

    def make(handler, more=''):
        s = server('server { listen @SOCK@; gzip on; gzip_vary on; %s location / { fastcgi_param URI $uri; fastcgi_pass unix:@DIR@/origin.sock; } }' % more)
        peers.append(Peer(s.directory / 'origin.sock', handler if callable(handler) else lambda r: r.send(handler)))
        return s

    yield make
    for peer in peers:
        peer.close()
        assert not peer.errors, peer.errors


def test_origin_with_and_without_length(origin, protocol):
    def handler(r):
        length = b'Content-Length: %d\r\n' % len(TEXT) if r.params['URI'] == '/length' else b''
        r.send(answer(b'Content-Type: text/html\r\nETag: "abc"\r\n' + length + b'\r\n' + TEXT))
    s = origin(handler)
    for path in ('/length', '/none'):
        r = s.get(path, protocol, headers=ASK)
        assert is_gzip(r) and gzip.decompress(r.body) == TEXT and r['etag'] == 'W/"abc"'
        assert r['content-length'] in (None, str(len(r.body)))
        r = s.get(path, protocol)
        assert r.body == TEXT and r['etag'] == '"abc"'


def test_what_an_origin_encoded_or_cut_is_left_alone(origin, protocol):
    """Case 10: a 206 from a backend is never compressed."""
    packed = gzip.compress(TEXT)
    replies = {
        '/encoded': b'Content-Type: text/html\r\nContent-Encoding: br\r\n\r\n' + packed,
        '/part': b'Status: 206\r\nContent-Type: text/html\r\nContent-Range: bytes 0-%d/100000\r\n\r\n' % (len(TEXT) - 1) + TEXT,
        '/transform': b'Content-Type: text/html\r\nCache-Control: public, no-transform\r\n\r\n' + TEXT,
        '/none': b'Status: 204\r\n\r\n',
    }
    s = origin(lambda r: r.send(answer(replies[r.params['URI']])))
    r = s.get('/encoded', protocol, headers=ASK)
    assert r.all('content-encoding') == ['br'] and r.body == packed
    r = s.get('/part', protocol, headers=ASK)
    assert (r.status, r['content-encoding'], r.body) == (206, None, TEXT) and r['content-range']
    r = s.get('/transform', protocol, headers=ASK)
    assert r['content-encoding'] is None and r.body == TEXT
    r = s.get('/none', protocol, headers=ASK)
    assert (r.status, r.body, r['content-encoding']) == (204, b'', None)


def test_flushed_pieces_arrive_at_once(origin, protocol):
    """Case 20, compressed: what an unbuffered origin has sent can be decompressed without waiting for more."""
    import threading
    go = threading.Event()

    def handler(r):
        r.send(stdout(b'X-Accel-Buffering: no\r\nContent-Type: text/html\r\n\r\nfirst'))
        assert go.wait(10)
        r.send(stdout(b'second') + record(6) + end_request())
    s = origin(handler)
    inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
    client = s.connect(protocol)
    if protocol == 'h1':
        client.send(b'GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n')
        client._until(b'\r\n\r\n')
        got = b''
        while b'first' not in got:
            got += inflate.decompress(client._exactly(int(client._until(b'\r\n'), 16)))
            client._exactly(2)
        go.set()
        while size := int(client._until(b'\r\n'), 16):
            got += inflate.decompress(client._exactly(size))
            client._exactly(2)
    else:
        stream, got, seen = client.start('/', headers=ASK), b'', 0
        while b'first' not in got:
            data = b''.join(getattr(e, 'data', b'') for e in client.events.get(stream, []))
            got += inflate.decompress(data[seen:])
            seen = len(data)
            assert b'first' in got or client.pump()
        go.set()
        got += inflate.decompress(client.read_response(stream).body[seen:])
    assert got == b'firstsecond' and inflate.eof


def test_origin_that_breaks_off(origin, protocol):
    """A cut response never looks like a complete gzip file."""
    def handler(r):
        r.send(stdout(b'Content-Type: text/html\r\nContent-Length: 1000000\r\n\r\n' + TEXT))
        r.connection.shutdown(2)
    s = origin(handler)
    client = s.connect(protocol)
    if protocol == 'h1':
        client.send(b'GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n')
        assert not client.rest().endswith(b'0\r\n\r\n')
    else:
        r = client.request('/', headers=ASK)
        assert r.reset is not None


def test_slow_reader_of_a_large_response(server, protocol):
    s = server(SITE % 'gzip_min_length 0;')
    data = os.urandom(2 << 20)
    s.file('a.html', data)
    client = s.connect(protocol)
    stream = client.start('/a.html', headers=ASK) if protocol == 'h2' else \
        client.send(b'GET /a.html HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n')
    assert s.get('/a.html', protocol).body == data  # Somebody else, meanwhile.
    r = client.read_response(stream) if protocol == 'h2' else client.read_response()
    assert gzip.decompress(r.body) == data


def test_client_that_leaves(server, protocol):
    s = server(SITE % 'gzip_comp_level 9; location /status { stub_status; }')
    s.file('a.html', os.urandom(8 << 20))
    for _ in range(5):
        client = s.connect(protocol)
        client.start('/a.html', headers=ASK) if protocol == 'h2' else client.send(b'GET /a.html HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n')
        assert client.socket.recv(100)
        client.close()
    from harness import wait_until
    wait_until(lambda: b'Active connections: 1 ' in s.get('/status', protocol).body, 'connections to end')


@pytest.mark.parametrize('line', ['gzip maybe;', 'gzip_comp_level 0;', 'gzip_comp_level 10;', 'gzip_proxied sometimes;', 'gzip_http_version 2.0;',
                                  'gzip_min_length x;', 'gzip_buffers 4;', 'gzip_disable "(";'])
def test_configuration_errors(server, line):
    s = server(f'server {{ listen @SOCK@; {line} }}', start=False)
    code, said = s.test()
    assert code == 1 and '[emerg]' in said

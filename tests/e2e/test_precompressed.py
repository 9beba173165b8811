"""gzip_static with its .br and .zst kin."""
import os

import pytest

SITE = 'server { listen @SOCK@; root @DIR@/www; types { text/css css; } %s }'
ALL = {'': b'identity', '.gz': b'gzipped', '.br': b'brotli!', '.zst': b'zstd...'}
CODING = {'': None, '.gz': 'gzip', '.br': 'br', '.zst': 'zstd'}


def variants(s, *extensions, name='a.css'):
    for extension in extensions:
        path = s.file(name + extension, ALL[extension])
        os.utime(path, (1700000000, 1700000000))


def accept(value):
    return [('Accept-Encoding', value)] if value is not None else []


def expect(s, protocol, value, extension, path='/a.css'):
    r = s.get(path, protocol, headers=accept(value))
    assert (r.status, r.body, r['content-encoding']) == (200, ALL[extension], CODING[extension]), value
    return r


def test_negotiation(server, protocol):
    s = server(SITE % 'gzip_static on;')
    variants(s, '', '.gz', '.br', '.zst')
    for value, extension in [(None, ''), ('', ''), ('identity', ''), ('gzip', '.gz'), ('x-gzip', '.gz'), ('br', '.br'), ('zstd', '.zst'),
                             ('gzip, deflate, br, zstd', '.br'), ('zstd, gzip', '.zst'), ('gzip;q=1.0, br;q=0.5', '.gz'),
                             ('gzip;q=0, br;q=0', ''), ('gzip;q=0, *', '.br'), ('*;q=0', ''), ('br;q=0.1, identity;q=0.5', ''), ('deflate', '')]:
        r = expect(s, protocol, value, extension)
        assert r['vary'] == 'Accept-Encoding' and r['content-type'] == 'text/css' and r['content-length'] == str(len(ALL[extension]))


def test_each_variant_has_its_etag(server, protocol):
    """Case 10. All variants are equally old and long here: nothing but the variant tells the tags apart."""
    s = server(SITE % 'gzip_static on;')
    for extension in ALL:
        os.utime(s.file('b.css' + extension, b'12345678'), (1700000000, 1700000000))
    tags = {}
    for value in (None, 'gzip', 'br', 'zstd'):
        r = s.get('/b.css', protocol, headers=accept(value))
        tags[value] = r['etag']
        assert r['etag'].startswith('"')
        r = s.get('/b.css', protocol, headers=accept(value) + [('If-None-Match', r['etag'])])
        assert (r.status, r['etag'], r['vary'], r['content-encoding']) == (304, tags[value], 'Accept-Encoding', None)
        r = s.get('/b.css', protocol, headers=accept(value) + [('Range', 'bytes=0-1'), ('If-Range', tags[value])])
        assert (r.status, r.body, r['vary'], r['content-range']) == (206, b'12', 'Accept-Encoding', 'bytes 0-1/8')
    assert len(set(tags.values())) == 4
    assert s.get('/b.css', protocol, headers=accept('br') + [('If-None-Match', tags['gzip'])]).status == 200
    assert s.get('/b.css', protocol, headers=accept('br') + [('Range', 'bytes=0-1'), ('If-Range', tags['gzip'])]).status == 200


def test_some_variants(server, protocol):
    s = server(SITE % 'gzip_static on; gzip on; gzip_types text/css; gzip_min_length 1;')
    variants(s, '', '.gz')
    expect(s, protocol, 'br, gzip', '.gz')
    assert expect(s, protocol, 'br', '')['vary'] == 'Accept-Encoding'
    s.file('c.css', b'x' * 100)
    r = s.get('/c.css', protocol, headers=accept('gzip'))  # No variant: compressed on the way.
    assert r['content-encoding'] == 'gzip' and r['etag'].startswith('W/')
    s.file('only.css.gz', b'gzipped')  # nginx serves it without the original too.
    expect(s, protocol, 'gzip', '.gz', '/only.css')
    assert s.get('/only.css', protocol).status == 404
    assert s.get('/', protocol, headers=accept('gzip')).status == 403


def test_switches(server, protocol):
    s = server(SITE % '''gzip_static on;
        location /nobr/ { alias @DIR@/www/; brotli_static off; }
        location /onlybr/ { alias @DIR@/www/; gzip_static off; brotli_static on; }
        location /always/ { alias @DIR@/www/; gzip_static always; }
        location /off/ { alias @DIR@/www/; gzip_static off; }
        location /zstd/ { alias @DIR@/www/; gzip_static off; zstd_static always; }''')
    variants(s, '', '.gz', '.br', '.zst')
    expect(s, protocol, 'br, gzip', '.gz', '/nobr/a.css')
    expect(s, protocol, 'br, gzip', '.br', '/onlybr/a.css')
    expect(s, protocol, 'gzip', '', '/onlybr/a.css')
    assert expect(s, protocol, None, '.gz', '/always/a.css')['vary'] is None
    expect(s, protocol, 'br', '.br', '/always/a.css')
    assert expect(s, protocol, 'br, gzip', '', '/off/a.css')['vary'] is None
    expect(s, protocol, None, '.zst', '/zstd/a.css')


def test_freshness_and_methods(server, protocol):
    s = server(SITE % 'gzip_static on;')
    variants(s, '', '.gz')
    expect(s, protocol, 'gzip', '.gz')
    r = s.get('/a.css', protocol, method='HEAD', headers=accept('gzip'))
    assert (r.status, r['content-encoding'], r['content-length']) == (200, 'gzip', '7')
    os.remove(s.root / 'a.css.gz')
    assert expect(s, protocol, 'gzip', '')['vary'] is None
    (s.root / 'a.css.gz').mkdir()  # No file: not a variant.
    expect(s, protocol, 'gzip', '')
    if os.geteuid() == 0:
        s.file('a.css.br', b'brotli!', 0)
        expect(s, protocol, 'br', '')
        s.wait_log(r'open\(\) ".*a.css.br" failed \(13')


def test_clients_that_must_not_get_them(server):
    """gzip_http_version, gzip_proxied and gzip_disable hold for files compressed before as well."""
    s = server(SITE % '''gzip_static on; gzip_disable old; location /any/ { alias @DIR@/www/; gzip_proxied any; gzip_http_version 1.0; }
        location /always/ { alias @DIR@/www/; gzip_static always; }''')
    variants(s, '', '.gz', '.br', '.zst')

    def get(path, fields=(), version='1.1'):
        client = s.connect('h1')
        client.send(''.join([f'GET {path} HTTP/{version}\r\nHost: x\r\nConnection: close\r\nAccept-Encoding: gzip, br\r\n', *fields, '\r\n']).encode())
        r = client.read_response()
        client.close()
        return r

    via, agent = ['Via: 1.1 proxy\r\n'], ['User-Agent: old\r\n']
    assert get('/a.css')['content-encoding'] == 'br'
    for r in (get('/a.css', via), get('/a.css', agent), get('/a.css', version='1.0'), get('/any/a.css', agent)):
        assert (r.body, r['content-encoding'], r['vary']) == (b'identity', None, 'Accept-Encoding')
    for r in (get('/any/a.css', via), get('/any/a.css', version='1.0')):
        assert r['content-encoding'] == 'br'
    assert get('/always/a.css', via)['content-encoding'] == 'gzip'

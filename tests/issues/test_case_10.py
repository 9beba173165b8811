"""Variants of one file: Vary on 200, 206 and 304; a different ETag each; the 304 repeats the variant's; a backend's 206 is never compressed."""
import gzip

import pytest
from fastcgi_peer import answer

TEXT = b'<p>text</p>\n' * 500
GZIP = 'gzip on; gzip_vary on;'


@pytest.fixture
def site(server):
    s = server('types { text/html html; } server { listen @SOCK@; root @DIR@/www; %s }' % GZIP)
    s.file('a.html', TEXT)
    return s


def test_variants(site, protocol):
    client = site.connect(protocol)
    identity, packed = client.request('/a.html'), client.request('/a.html', headers=[('Accept-Encoding', 'gzip')])
    assert packed['content-encoding'] == 'gzip' and gzip.decompress(packed.body) == identity.body == TEXT
    assert identity['etag'] != packed['etag'] and identity['vary'] == packed['vary'] == 'Accept-Encoding'
    for r, headers in ((identity, []), (packed, [('Accept-Encoding', 'gzip')])):
        same = client.request('/a.html', headers=headers + [('If-None-Match', r['etag'])])
        assert (same.status, same['etag'], same['vary'], same.body) == (304, r['etag'], 'Accept-Encoding', b'')
    part = client.request('/a.html', headers=[('Range', 'bytes=3-9'), ('If-Range', identity['etag'])])
    assert (part.status, part['vary'], part['etag'], part.body) == (206, 'Accept-Encoding', identity['etag'], TEXT[3:10])


@pytest.mark.parametrize('accept,packed', [('gzip;q=0', False), ('gzip;q=0, *', False), ('*, gzip;q=0', False), ('identity, gzip', True), ('gzip, identity', True),
                                           ('br;q=1, gzip;q=0.1', True), ('gzip;q=0.1, br;q=1', True)])
def test_weights(site, protocol, accept, packed):
    r = site.get('/a.html', protocol, headers=[('Accept-Encoding', accept)])
    assert (r['content-encoding'] == 'gzip') == packed


def test_part_from_a_backend(origin, protocol):
    s, _ = origin(answer(b'Status: 206\r\nContent-Type: text/html\r\nContent-Range: bytes 0-%d/99999\r\n\r\n' % (len(TEXT) - 1) + TEXT), outer=GZIP)
    r = s.get('/', protocol, headers=[('Accept-Encoding', 'gzip')])
    assert (r.status, r['content-encoding'], r.body) == (206, None, TEXT)

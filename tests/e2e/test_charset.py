"""charset, source_charset, override_charset, charset_map."""
import pytest

MAP = '''charset_map koi8-r utf-8 { C1 D0B0; C2 D0B1; D7 D0B2; E1 D090; 80 E29480; }
charset_map windows-1251 koi8-r { E0 C1; E1 C2; E2 D7; }'''
SITE = MAP + ' server { listen @SOCK@; root @DIR@/www; types { text/html html; image/png png; application/x-y xy; } %s }'
ABV = b'\xc1\xc2\xd7'  # In koi8-r.


def test_named(server, protocol):
    s = server(SITE % 'charset utf-8; charset_types application/x-y; location /var/ { charset $arg_c; } location /off/ { charset off; }')
    for name in ('a.html', 'a.png', 'a.xy', 'var/a.html', 'off/a.html'):
        s.file(name, b'abc')
    assert s.get('/a.html', protocol)['content-type'] == 'text/html; charset=utf-8'
    assert s.get('/a.xy', protocol)['content-type'] == 'application/x-y; charset=utf-8'
    assert s.get('/a.png', protocol)['content-type'] == 'image/png'
    assert s.get('/var/a.html?c=x', protocol)['content-type'] == 'text/html; charset=x'
    assert s.get('/var/a.html', protocol)['content-type'] == 'text/html'
    assert s.get('/off/a.html', protocol)['content-type'] == 'text/html'


def test_redirects_name_none(server, protocol):
    s = server('server { listen @SOCK@; charset utf-8; location /301 { return 301 /x; } location /302 { return 302 /x; } location /404 { return 404; } }')
    for path, kind in [('/301', 'text/html'), ('/302', 'text/html'), ('/404', 'text/html; charset=utf-8')]:
        assert s.get(path, protocol)['content-type'] == kind, path


def test_recoded_to_utf8(server, protocol):
    s = server(SITE % 'charset utf-8; source_charset koi8-r;')
    s.file('a.html', b'<' + ABV + b'\xff>' * 2)
    r = s.get('/a.html', protocol)
    assert r['content-type'] == 'text/html; charset=utf-8' and r['accept-ranges'] is None
    assert r.body.decode() == '<абв?>?>'
    assert s.get('/a.html', protocol, headers=[('Range', 'bytes=0-1')]).status == 200
    assert s.get('/a.html', protocol, method='HEAD')['content-type'] == 'text/html; charset=utf-8'


def test_recoded_from_utf8(server, protocol):
    s = server(SITE % 'charset koi8-r; source_charset utf-8;')
    text = 'абв€é😀' * 20000  # Characters lie across every boundary of buffers.
    s.file('a.html', text.encode() + b'\xff\xd0')
    expected = (ABV + b'&#8364;&#233;&#128512;') * 20000 + b'??'
    assert s.get('/a.html', protocol).body == expected


def test_recoded_between_bytes(server, protocol):
    s = server(SITE % 'charset windows-1251; source_charset koi8-r; location /back/ { charset koi8-r; source_charset windows-1251; }')
    s.file('a.html', ABV + b'\xff-')
    s.file('back/a.html', b'\xe0\xe1\xe2\xff-')
    r = s.get('/a.html', protocol)
    assert (r.body, r['content-length']) == (b'\xe0\xe1\xe2?-', '5')
    r = s.get('/a.html', protocol, headers=[('Range', 'bytes=1-2')])
    assert (r.status, r.body) == (206, b'\xe1\xe2')
    assert s.get('/back/a.html', protocol).body == ABV + b'?-'


def test_what_cannot_be_recoded_is_called_what_it_is(server, protocol):
    s = server(SITE % 'charset utf-16; source_charset koi8-r; gzip_static always; location /gz/ { charset utf-8; }')
    s.file('a.html', ABV)
    s.file('gz/b.html.gz', b'\x1f\x8b compressed')
    r = s.get('/a.html', protocol)
    assert (r.body, r['content-type']) == (ABV, 'text/html; charset=koi8-r')
    s.wait_log('no "charset_map" between the charsets "koi8-r" and "utf-16"')
    r = s.get('/gz/b.html', protocol)
    assert (r.body, r['content-type'], r['content-encoding']) == (b'\x1f\x8b compressed', 'text/html; charset=koi8-r', 'gzip')


def test_override(server, protocol):
    """default_type stands in for a backend that names its set."""
    s = server(SITE % '''charset utf-8; default_type "text/html; charset=koi8-r"; location /over/ { override_charset on; }''')
    s.file('a', ABV)
    s.file('over/a', ABV)
    r = s.get('/a', protocol)
    assert (r.body, r['content-type']) == (ABV, 'text/html; charset=koi8-r')
    r = s.get('/over/a', protocol)
    assert (r.body.decode(), r['content-type']) == ('абв', 'text/html; charset=utf-8')


@pytest.mark.parametrize('block', ['charset_map a a { }', 'charset_map utf-8 a { }', 'charset_map a b { XX 80; }', 'charset_map a b { 80 8080; }',
                                   'charset_map a utf-8 { 80 FF; }', 'charset_map a utf-8 { 80; }'])
def test_bad_maps(server, block):
    s = server(block + ' server { listen @SOCK@; }', start=False)
    code, text = s.test()
    assert code == 1 and 'charset_map' in text

"""Static files: validators, conditions, ranges, directories, methods. Each over every protocol."""
import os

import pytest
from harness import http_date, old

SITE = 'server { listen @SOCK@; root @DIR@/www; %s }'


def test_small_file(server, protocol):
    s = server(SITE % 'types { text/css css; }')
    when = old(s.file('a.css', b'body {}\n'))
    for _ in range(3):  # Cold, then from the cache.
        r = s.get('/a.css', protocol)
        assert (r.status, r.body) == (200, b'body {}\n')
        assert r['content-type'] == 'text/css'
        assert r['content-length'] == '8'
        assert r['last-modified'] == http_date(when)
        assert r['etag'] == f'"{when:x}-8"'
        assert r['accept-ranges'] == 'bytes'
        assert r['date']


def test_empty_file(server, protocol):
    s = server(SITE % '')
    s.file('empty.txt')
    r = s.get('/empty.txt', protocol)
    assert (r.status, r.body, r['content-length']) == (200, b'', '0')


@pytest.mark.parametrize('size', [65535, 65536, 65537, 1 << 20, (5 << 20) + 3])
def test_large_file(server, protocol, size):
    s = server(SITE % '')
    data = os.urandom(size)
    old(s.file('big.bin', data))
    r = s.get('/big.bin', protocol)
    assert r.status == 200 and r.body == data


def test_head(server, protocol):
    s = server(SITE % '')
    old(s.file('a.txt', b'x' * 1000))
    client = s.connect(protocol)
    r = client.request('/a.txt', method='HEAD')
    assert (r.status, r['content-length'], r.body) == (200, '1000', b'')
    assert client.request('/a.txt').body == b'x' * 1000  # The connection is still in step.


def test_content_is_fresh_after_a_change(server, protocol):
    s = server(SITE % '')
    path = s.file('a.txt', b'one')
    old(path)
    assert s.get('/a.txt', protocol).body == b'one'
    path.write_bytes(b'two')  # Same size, in place.
    assert s.get('/a.txt', protocol).body == b'two'
    other = s.file('b.txt', b'three')
    os.replace(other, path)
    assert s.get('/a.txt', protocol).body == b'three'
    path.unlink()
    assert s.get('/a.txt', protocol).status == 404
    s.file('a.txt', b'four')
    assert s.get('/a.txt', protocol).body == b'four'


def test_hot_file_made_unreadable(server, protocol):
    if os.geteuid() != 0:
        pytest.skip('workers run as another user only when started by root')
    s = server(SITE % '')
    path = s.file('a.txt', b'secret')
    old(path)
    assert s.get('/a.txt', protocol).status == 200
    path.chmod(0)
    assert s.get('/a.txt', protocol).status == 403
    s.wait_log(r'\[error\].*open\(\) ".*/a.txt" failed \(13: Permission denied\)')
    path.chmod(0o644)
    assert s.get('/a.txt', protocol).body == b'secret'


def test_missing_file(server, protocol):
    s = server(SITE % '')
    r = s.get('/none.txt', protocol)
    assert r.status == 404 and b'404 Not Found' in r.body and r['content-type'] == 'text/html'
    s.wait_log(r'\[error\].*open\(\) ".*/none.txt" failed \(2: No such file or directory\), client: .*, server: .*, '
               r'request: "GET /none.txt HTTP/\S+", host: "localhost"')


def test_no_special_files(server, protocol):
    s = server(SITE % '')
    os.mkfifo(s.root / 'fifo')
    (s.root / 'fifo').chmod(0o666)
    assert s.get('/fifo', protocol).status in (403, 404)


def test_directory(server, protocol):
    s = server(SITE % '')
    s.file('dir/index.html', b'index')
    r = s.get('/dir?x=1', protocol, host='example.org')
    assert r.status == 301 and r['location'] == f'{s.scheme}://example.org/dir/?x=1'
    assert s.get('/dir/', protocol).body == b'index'
    (s.root / 'empty').mkdir()
    assert s.get('/empty/', protocol).status == 403
    s.wait_log(r'directory index of ".*/empty/" is forbidden')


def test_methods(server, protocol):
    s = server(SITE % '')
    s.file('a.txt', b'a')
    for method in ('POST', 'PUT', 'DELETE', 'TRACE'):
        assert s.get('/a.txt', protocol, method=method).status == 405, method


def test_not_modified(server, protocol):
    s = server(SITE % '')
    when = old(s.file('a.txt', b'hello'))
    tag = f'"{when:x}-5"'
    for headers, status in [
            ([('If-Modified-Since', http_date(when))], 304),
            ([('If-Modified-Since', http_date(when + 10))], 200),  # exact is the default
            ([('If-None-Match', tag)], 304),
            ([('If-None-Match', f'"x", W/{tag}')], 304),
            ([('If-None-Match', '*')], 304),
            ([('If-None-Match', '"x"')], 200),
            ([('If-None-Match', '"x"'), ('If-Modified-Since', http_date(when))], 200),
            ([('If-Match', '"x"')], 412),
            ([('If-Match', tag)], 200),
            ([('If-Unmodified-Since', http_date(when - 10))], 412),
            ([('If-Unmodified-Since', http_date(when))], 200),
    ]:
        r = s.get('/a.txt', protocol, headers=headers)
        assert r.status == status, headers
        if status == 304:
            assert r.body == b'' and r['etag'] == tag and r['content-length'] is None
        if status == 200:
            assert r.body == b'hello'


def test_single_ranges(server, protocol):
    s = server(SITE % '')
    data = bytes(range(256)) * 4
    when = old(s.file('a.bin', data))
    for value, begin, end in [('bytes=0-0', 0, 1), ('bytes=10-19', 10, 20), ('bytes=1000-', 1000, 1024), ('bytes=-24', 1000, 1024),
                              ('bytes=0-999999', 0, 1024), ('bytes=-999999', 0, 1024)]:
        r = s.get('/a.bin', protocol, headers=[('Range', value)])
        assert r.status == 206, value
        assert r.body == data[begin:end]
        assert r['content-range'] == f'bytes {begin}-{end - 1}/1024'
    r = s.get('/a.bin', protocol, headers=[('Range', 'bytes=1024-')])
    assert r.status == 416 and r['content-range'] == 'bytes */1024'
    for value in ('items=0-5',):
        assert s.get('/a.bin', protocol, headers=[('Range', value)]).status == 200, value
    assert s.get('/a.bin', protocol, headers=[('Range', 'bytes=0-0'), ('If-Range', '"other"')]).status == 200
    assert s.get('/a.bin', protocol, headers=[('Range', 'bytes=0-0'), ('If-Range', f'"{when:x}-400"')]).status == 206
    assert s.get('/a.bin', protocol, headers=[('Range', 'bytes=0-0'), ('If-Range', http_date(when))]).status == 206


def test_range_of_a_large_file(server, protocol):
    s = server(SITE % '')
    data = os.urandom(3 << 20)
    old(s.file('a.bin', data))
    r = s.get('/a.bin', protocol, headers=[('Range', 'bytes=1000000-2999999')])
    assert r.status == 206 and r.body == data[1000000:3000000]


def test_etag_off_and_types(server, protocol):
    s = server(SITE % 'etag off; default_type text/x-own; types { image/png png PNG; }')
    s.file('a.unknown', b'1')
    s.file('b.Png', b'2')
    r = s.get('/a.unknown', protocol)
    assert r['etag'] is None and r['content-type'] == 'text/x-own'
    assert s.get('/b.Png', protocol)['content-type'] == 'image/png'


def test_add_header_and_expires(server, protocol):
    s = server(SITE % '''
        add_header X-Outer outer;
        location /inherits/ { }
        location /own/ { add_header X-Own $uri; add_header X-Always always always; }
        location /old/ { expires 1h; }
        location /epoch/ { expires epoch; }''')
    for name in ('inherits', 'own', 'old', 'epoch'):
        s.file(f'{name}/a.txt', b'a')
    r = s.get('/inherits/a.txt', protocol)
    assert r['x-outer'] == 'outer'
    r = s.get('/own/a.txt', protocol)
    assert r['x-outer'] is None and r['x-own'] == '/own/a.txt' and r['x-always'] == 'always'
    r = s.get('/own/none.txt', protocol)
    assert r.status == 404 and r['x-own'] is None and r['x-always'] == 'always'
    r = s.get('/old/a.txt', protocol)
    assert r['cache-control'] == 'max-age=3600' and r['expires']
    r = s.get('/epoch/a.txt', protocol)
    assert r['cache-control'] == 'no-cache' and r['expires'] == 'Thu, 01 Jan 1970 00:00:01 GMT'


def test_charset(server, protocol):
    s = server(SITE % 'charset utf-8; types { text/html html; image/png png; }')
    s.file('a.html', b'a')
    s.file('a.png', b'a')
    assert s.get('/a.html', protocol)['content-type'] == 'text/html; charset=utf-8'
    assert s.get('/a.png', protocol)['content-type'] == 'image/png'


def test_open_file_cache(server, protocol):
    s = server(SITE % 'open_file_cache max=100 inactive=60s; open_file_cache_valid 60s; open_file_cache_errors on;')
    old(s.file('a.txt', b'one'))
    assert s.get('/a.txt', protocol).body == b'one'
    assert s.get('/a.txt', protocol).body == b'one'
    assert s.get('/none.txt', protocol).status == 404


def test_truncated_while_served(server):
    """A file cut short while it is sent: the connection ends without a clean end, nothing crashes."""
    s = server(SITE % '')
    path = s.file('a.bin', os.urandom(32 << 20))
    old(path)
    client = s.connect('h1')
    client.send(b'GET /a.bin HTTP/1.1\r\nHost: x\r\n\r\n')
    first = client.socket.recv(1000)
    assert first.startswith(b'HTTP/1.1 200')
    with open(path, 'r+b') as file:
        file.truncate(1000)
    rest = client.rest()
    assert len(rest) < 32 << 20
    assert s.get('/a.bin').body == path.read_bytes()


@pytest.mark.parametrize('field,status', [(('If-Match', '"x"'), 412), (('Range', 'bytes=5000-'), 416)])
def test_refused_responses_go_through_error_page(server, protocol, field, status):
    """412 and 416 are errors like others: built-in page with the server's name, error_page with and without its own status."""
    site = 'root @DIR@/www; add_header X-Always y always; add_header X-Fine z; expires 1h;'
    s = server(f'''server {{ listen @SOCK@; {site}
        location /own/ {{ error_page {status} /page.html; }}
        location /other/ {{ error_page {status} =200 /page.html; }}
        location /named/ {{ error_page {status} = @named; }}
        location @named {{ return 202 named; }} }}''')
    for name in ('f', 'own/f', 'other/f', 'named/f'):
        s.file(name, b'x' * 1000)
    s.file('page.html', b'the page')
    s.file('never')
    r = s.get('/f', protocol, headers=[field])
    assert r.status == status and f'{status} '.encode() in r.body and b'corehttpd' in r.body
    assert r.all('x-always') == ['y'] and r['x-fine'] is None and r['etag'] is None and r['cache-control'] is None
    assert r['content-range'] == ('bytes */1000' if status == 416 else None)
    r = s.get('/own/f', protocol, headers=[field])
    assert (r.status, r.body) == (status, b'the page') and r.all('x-always') == ['y']
    r = s.get('/other/f', protocol, headers=[field])
    assert (r.status, r.body) == (200, b'the page')
    r = s.get('/named/f', protocol, headers=[field])
    assert (r.status, r.body) == (202, b'named')

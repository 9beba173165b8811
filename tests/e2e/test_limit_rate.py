"""limit_rate and limit_rate_after over both protocols, $limit_rate and X-Accel-Limit-Rate. Only lower bounds of times are checked: those no
busy machine can break."""
import time

import pytest
from fastcgi_peer import Peer, answer

SITE = '''
map $arg_rate $rate { default $arg_rate; }
server { listen @SOCK@; root @DIR@/www;
  location / { limit_rate $rate; limit_rate_after $arg_after; }
  location /fixed/ { alias @DIR@/www/; limit_rate 1000; limit_rate_after 500; }
  location /none/ { alias @DIR@/www/; limit_rate 0; }
  location /set/ { alias @DIR@/www/; limit_rate 1g; set $limit_rate 1000; add_header X-Rate $limit_rate; }
  location /if/ { alias @DIR@/www/; if ($arg_slow) { limit_rate 1000; } }
  location /chunked/ { alias @DIR@/www/; gzip on; gzip_min_length 0; gzip_types *; limit_rate 100; }
}'''


def timed(s, path, protocol, **more):
    begin = time.monotonic()
    response = s.get(path, protocol, **more)
    return response, time.monotonic() - begin


@pytest.fixture
def site(server):
    s = server(SITE)
    s.file('a.bin', bytes(range(250)) * 4)
    s.file('large.bin', b'x' * 8_000_000)
    return s


@pytest.mark.parametrize('path,least', [
    ('/a.bin?rate=2000', 0.35),            # 1000 bytes, an eighth of a second's worth at once.
    ('/a.bin?rate=1000&after=600', 0.25),
    ('/fixed/a.bin', 0.3),
    ('/set/a.bin', 0.8),
    ('/if/a.bin?slow=1', 0.8)])
def test_a_response_takes_its_time(site, protocol, path, least):
    response, took = timed(site, path, protocol)
    assert response.status == 200 and response.body == bytes(range(250)) * 4
    assert took >= least
    if path.startswith('/set/'):
        assert response['x-rate'] == '1000'


@pytest.mark.parametrize('path', ['/none/large.bin', '/large.bin', '/large.bin?rate=0', '/large.bin?rate=1g', '/large.bin?rate=100m',
                                  '/large.bin?rate=10&after=8m', '/large.bin?rate=9000000000000000000', '/if/large.bin'])
def test_large_rates_do_not_stall(site, protocol, path):
    response = site.get(path, protocol)
    assert len(response.body) == 8_000_000


def test_a_few_bytes_a_second(site, protocol):
    site.file('few.txt', b'abc')
    response, took = timed(site, '/few.txt?rate=3', protocol)
    assert response.body == b'abc' and took >= 0.6


def test_ranges_heads_and_transformed_bodies(site, protocol):
    assert site.get('/a.bin?rate=1', protocol, method='HEAD')['content-length'] == '1000'
    response, took = timed(site, '/a.bin?rate=200', protocol, headers=[('Range', 'bytes=0-99')])
    assert response.status == 206 and len(response.body) == 100 and took >= 0.3
    site.file('z.txt', b'y' * 3000)
    response, took = timed(site, '/chunked/z.txt', protocol, headers=[('Accept-Encoding', 'gzip')])
    assert response['content-encoding'] == 'gzip' and took >= 0.1  # Some 30 bytes at 100 a second.


def test_invalid_rates(server, site, protocol):
    assert len(site.get('/a.bin?rate=fast', protocol).body) == 1000
    site.wait_log('invalid "limit_rate" value "fast"')
    bad = server('server { listen @SOCK@; limit_rate fast; }', start=False)
    code, said = bad.test()
    assert code == 1 and '"limit_rate" directive invalid value' in said


def test_a_limited_response_leaves_others_alone(site):
    """On one connection of HTTP/2 each stream has its own limit; and the client that goes away ends its response."""
    from harness import Http2
    client = Http2(site.socket_path)
    slow = client.start('/large.bin?rate=1000')
    assert client.request('/a.bin').body == bytes(range(250)) * 4
    client.h2.reset_stream(slow)
    client.flush()
    assert client.request('/a.bin').status == 200
    client.close()
    site.wait_log(r'GET /large.bin\?rate=1000', 'access.log')


def test_the_origin_sets_the_rate(server, protocol):
    s = server('''server { listen @SOCK@;
        location / { fastcgi_pass unix:@DIR@/app.sock; }
        location /ignoring { fastcgi_ignore_headers X-Accel-Limit-Rate; fastcgi_pass unix:@DIR@/app.sock; } }''')
    body = b'x' * 700
    Peer(s.directory / 'app.sock',
         lambda request: request.send(answer(b'Content-Type: text/plain\r\nX-Accel-Limit-Rate: 1000\r\n\r\n' + body)))
    response, took = timed(s, '/', protocol)
    assert response.body == body and response['x-accel-limit-rate'] is None and took >= 0.5
    assert s.get('/ignoring', protocol).body == body

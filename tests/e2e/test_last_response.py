"""The last response of a connection: all of it arrives and no reset cuts it off, whatever the client still sends meanwhile."""
import pytest
from fastcgi_peer import Peer
from harness import Http1, free_port, wait_until

SITE = '''server { listen @SOCK@; listen 127.0.0.1:@PORT@; root @DIR@/www; lingering_timeout 20s; client_max_body_size 10m;
  location /slow/ { alias @DIR@/www/; limit_rate 20k; }
  location /php { fastcgi_pass unix:@DIR@/origin.sock; } }'''
BODIES = {'empty': b'', 'small': b'abc' * 100, 'large': bytes(range(256)) * 20_000}


@pytest.fixture
def site(server):
    s = server(SITE.replace('@PORT@', str(free_port())))
    s.address = ('127.0.0.1', int(s.log('corehttpd.conf').split('127.0.0.1:')[1].split(';')[0]))
    for name, body in BODIES.items():
        s.file(name, body)
    return s


def ask(path, more=b''):
    return b'GET /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n' % (path.encode(), more)


@pytest.mark.parametrize('name', BODIES)
@pytest.mark.parametrize('behind', [b'', b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', b'\xff' * 100_000], ids=['nothing', 'request', 'noise'])
def test_what_follows_is_ignored(site, name, behind):
    """Read and thrown away: unread bytes would turn the close into a reset, and the client's copy of the response with it."""
    client = Http1(site.address)
    client.send(ask(name) + behind)
    response = client.read_response()
    assert response.status == 200 and response.body == BODIES[name] and response['connection'] == 'close'
    assert client.closed()


@pytest.mark.parametrize('name', BODIES)
def test_what_comes_later_is_ignored(site, name):
    """The client is still sending when the response has ended."""
    client = Http1(site.address)
    client.send(ask(name, b'Content-Length: 3000000\r\n') + b'x' * 1000)
    response = client.read_response()
    assert response.status == 200 and response.body == BODIES[name]
    for _ in range(29):
        client.send(b'x' * 100_000)
    assert client.closed()


def test_many_requests_then_the_last(site):
    """The answers to what was sent in one piece come in one piece, the last one's end with them."""
    client = Http1(site.address)
    client.send(b'GET /small HTTP/1.1\r\nHost: x\r\n\r\n' * 5 + ask('large') + b'GET /small HTTP/1.1\r\nHost: x\r\n\r\n')
    for name in ['small'] * 5 + ['large']:
        assert client.read_response().body == BODIES[name]
    assert client.closed()


def test_a_limited_rate(site):
    client = Http1(site.address)
    client.send(ask('slow/small') + b'more')
    assert client.read_response().body == BODIES['small'] and client.closed()


def test_half_closed(site):
    client = Http1(site.address)
    client.send(ask('large'))
    client.socket.shutdown(1)
    assert client.read_response().body == BODIES['large'] and client.closed()


def test_a_client_that_leaves_is_noticed_while_the_origin_works(site):
    peer = Peer(site.directory / 'origin.sock', lambda r: r.connection.recv(1))
    try:
        client = Http1(site.address)
        client.send(ask('php'))
        wait_until(lambda: peer.requests, 'the request')
        client.close()
        site.wait_log(r'"GET /php HTTP/1.1" 499', 'access.log')
    finally:
        peer.close()

"""Request bodies on their way to an origin: in memory, in a file, in a kept file; $request_body, $request_body_file; limits per location; a disk
that is full. Trailers of a request are read, bounded and dropped."""
import os
import re
import resource

import pytest
from fastcgi_peer import Peer, answer
from harness import Http1, Http2, wait_until

BODY = bytes(range(256)) * 400  # 102,400 bytes.
SITE = '''server { listen @SOCK@; client_max_body_size 1m; client_body_temp_path @DIR@/kept 1 2;
  fastcgi_param BODY $request_body; fastcgi_param FILE $request_body_file;
  location / { client_body_buffer_size 256k; fastcgi_pass unix:@DIR@/app.sock; }
  location /file { client_body_buffer_size 1k; fastcgi_pass unix:@DIR@/app.sock; }
  location /single { client_body_buffer_size 256k; client_body_in_single_buffer on; fastcgi_pass unix:@DIR@/app.sock; }
  location /on { client_body_in_file_only on; fastcgi_pass unix:@DIR@/app.sock; }
  location /clean { client_body_in_file_only clean; fastcgi_pass unix:@DIR@/app.sock; }
  location /small { client_max_body_size 100; fastcgi_pass unix:@DIR@/app.sock;
    location /small/any { client_max_body_size 0; fastcgi_pass unix:@DIR@/app.sock; } }
  location /static { return 200 static; } }'''


class Origin:
    """Says what it got; keeps what the body's file held while the request was under way."""

    def __init__(self, s):
        self.files = []
        self.peer = Peer(s.directory / 'app.sock', self.handle)

    def handle(self, request):
        name = request.params['FILE']
        self.files.append((name, open(name, 'rb').read() if name else None))
        request.send(answer(b'Content-Type: text/plain\r\n\r\n%d' % len(request.body)))


@pytest.fixture
def site(server):
    s = server(SITE)
    s.origin = Origin(s)
    return s


@pytest.mark.parametrize('chunked', [False, True])
@pytest.mark.parametrize('path,in_memory', [('/', True), ('/file', False), ('/single', True)])
def test_memory_and_file(site, protocol, path, in_memory, chunked):
    body = BODY.replace(b'\0', b'x').replace(b'\n', b'x')  # $request_body as a parameter is compared below.
    assert site.get(path, protocol, method='POST', body=body, chunked=chunked).body == b'102400'
    request = site.origin.peer.requests[0]
    assert request.body == body
    assert request.params['BODY'].encode('latin-1') == (body if in_memory else b'') and request.params['FILE'] == ''
    assert ('a client request body is buffered to a temporary file' in site.log()) != in_memory
    assert not list((site.directory / 'kept').rglob('*')), 'the file has no name'


@pytest.mark.parametrize('path', ['/on', '/clean'])
def test_in_file_only(site, protocol, path):
    assert site.get(path, protocol, method='POST', body=b'short').body == b'5'
    (name, held), = site.origin.files
    assert held == b'short' and site.origin.peer.requests[0].body == b'short'
    number = os.path.basename(name)
    assert re.fullmatch(r'\d{10}', number)
    assert name == f'{site.directory}/kept/{number[9]}/{number[7:9]}/{number}'
    if path == '/on':
        assert open(name, 'rb').read() == b'short'
    else:
        wait_until(lambda: not os.path.exists(name), 'the file to be removed')
    assert site.get(path, protocol).body == b'0'  # Nothing to save.


def test_limits_per_location(site, protocol):
    assert site.get('/small', protocol, method='POST', body=b'x' * 100).body == b'100'
    assert site.get('/small', protocol, method='POST', body=b'x' * 101).status == 413
    assert site.get('/small', protocol, method='POST', body=b'x' * 101, chunked=True).status == 413
    assert site.get('/small/any', protocol, method='POST', body=b'x' * 1_100_000).body == b'1100000'
    assert site.get('/', protocol, method='POST', body=b'x' * 1_100_000).status == 413
    site.wait_log('client intended to send too large body: 101 bytes')
    site.wait_log(r'client intended to send too large chunked body: \d+\+\d+ bytes')


def test_a_body_that_nobody_wants(site, protocol):
    client = site.connect(protocol)
    for _ in range(3):
        assert client.request('/static', method='POST', body=BODY).body == b'static'
        assert client.request('/static', method='POST', body=BODY, chunked=True).body == b'static'
    assert not list((site.directory / 'kept').rglob('*'))


def test_a_full_disk(server, protocol):
    """A limit on the sizes of files stands in for the disk: writes beyond it fail."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        s = server(SITE.replace('client_max_body_size 1m', 'client_max_body_size 4m'))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    s.origin = Origin(s)
    assert s.get('/file', protocol, method='POST', body=b'x' * (2 << 20)).status == 500
    s.wait_log(r'\[crit\].*write\(\) to a temporary file for a request body failed \(27: File too large\)')
    assert s.get('/', protocol, method='POST', body=b'x').body == b'1'


def test_a_directory_that_is_gone(site, protocol):
    (site.directory / 'kept').rmdir()
    assert site.get('/file', protocol, method='POST', body=BODY).status == 500
    site.wait_log(r'\[crit\].*open\(\) ".*kept" failed \(2: No such file or directory\)')
    assert site.get('/', protocol, method='POST', body=b'x').body == b'1'


def test_trailers_of_a_request(site):
    client = Http1(site.socket_path)
    head = b'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\n'
    client.send(head + b'X-Sum: 1\r\nHost: evil\r\nContent-Length: 100\r\n\r\n')
    assert client.read_response().body == b'3'
    params = site.origin.peer.requests[0].params
    assert 'HTTP_X_SUM' not in params and params['BODY'] == 'abc'
    client.send(head + b'X: ' + b'x' * 10_000 + b'\r\n\r\n')
    assert client.read_response().status == 400 and client.closed()
    client = Http2(site.socket_path)
    stream = client.start('/', 'POST', end=False)
    client.h2.send_data(stream, b'abc')
    client.h2.send_headers(stream, [('x-sum', '1')], end_stream=True)
    client.flush()
    assert client.read_response(stream).body == b'3'

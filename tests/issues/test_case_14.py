"""Chunked POST, and h2 POST without a length: buffered, CONTENT_LENGTH right, PHP sees the body; over the limit 413; no child held meanwhile."""
import hashlib
import os

import pytest
from fastcgi_peer import PhpFpm, answer

OK = answer(b'Content-Type: text/plain\r\n\r\nok')


@pytest.mark.parametrize('size', [0, 1, 16 * 1024, 16 * 1024 + 1, 1_000_000])
def test_length_is_known_to_the_origin(origin, protocol, size):
    s, peer = origin(OK)
    body = os.urandom(size)
    assert s.get('/', protocol, method='POST', body=body, chunked=True).status == 200
    assert peer.requests[0].body == body and peer.requests[0].params['CONTENT_LENGTH'] == str(size)
    assert 'HTTP_TRANSFER_ENCODING' not in peer.requests[0].params


@pytest.mark.parametrize('location', ['', 'fastcgi_request_buffering off;'])
def test_limit(origin, protocol, location):
    s, peer = origin(OK, location + 'client_max_body_size 100k;')
    assert s.get('/', protocol, method='POST', body=b'x' * 102400, chunked=True).status == 200
    assert s.get('/', protocol, method='POST', body=b'x' * 102401, chunked=True).status == 413
    # Where bodies are passed on as they come the origin has seen a beginning, and then its connection ended.
    assert [len(r.body) for r in peer.requests if r.complete] == [102400]
    assert location or len(peer.requests) == 1


def test_nobody_is_held_while_a_client_dawdles(origin, protocol):
    s, peer = origin(OK)
    slow = s.connect(protocol)
    if protocol == 'h1':
        slow.send(b'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n')
    else:
        stream = slow.start('/', 'POST', end=False)
        slow.send_body(stream, b'hello', end=False)
    for _ in range(3):
        assert s.get('/', protocol).status == 200
    assert peer.connections == 3
    if protocol == 'h1':
        slow.send(b'0\r\n\r\n')
        assert slow.read_response().status == 200
    else:
        slow.send_body(stream, b'')
        assert slow.read_response(stream).status == 200
    assert peer.requests[3].body == b'hello'


def test_php(server, protocol):
    from harness import ROOT
    s = server('server { listen @SOCK@; root @DIR@/www; location / { include %s/conf/fastcgi_params; '
               'fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:@DIR@/php.sock; } }' % ROOT)
    s.file('a.php', '<?php echo $_SERVER["CONTENT_LENGTH"], " ", sha1(file_get_contents("php://input"));')
    fpm = PhpFpm(s.directory)
    try:
        body = os.urandom(100_000)
        r = s.get('/a.php', protocol, method='POST', body=body, chunked=True)
        assert r.body.decode() == f'100000 {hashlib.sha1(body).hexdigest()}'
    finally:
        fpm.stop()

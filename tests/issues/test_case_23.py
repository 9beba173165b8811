"""A request with trailers and a response larger than the window: no stall."""
import os

import pytest
from fastcgi_peer import answer


@pytest.mark.parametrize('window', [1, 100, 65535])
def test_trailers_and_a_small_window(origin, window):
    data = os.urandom(2000 if window == 1 else 200_000)
    s, peer = origin(lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\n' + data)))
    client = s.connect('h2')
    client.h2.update_settings({4: window})  # INITIAL_WINDOW_SIZE
    stream = client.start('/', 'POST', [('te', 'trailers'), ('trailer', 'x-sum')], end=False)
    client.send_body(stream, b'hello', end=False)
    client.h2.send_headers(stream, [('x-sum', '1')], end_stream=True)
    client.flush()
    r = client.read_response(stream)
    assert (r.status, r.body) == (200, data) and peer.requests[0].body == b'hello'


def test_trailers_on_h1(origin):
    data = os.urandom(500_000)
    s, peer = origin(lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\n' + data)))
    client = s.connect('h1')
    client.send(b'POST / HTTP/1.1\r\nHost: x\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n')
    assert client.read_response().body == data and peer.requests[0].body == b'hello'
    assert 'HTTP_X_SUM' not in peer.requests[0].params
    assert client.request('/').body == data

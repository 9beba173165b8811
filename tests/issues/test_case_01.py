"""Transfer-Encoding: chunked with Content-Length, in either order: 400, or the length ignored and the connection closed; never both to a backend."""
import pytest
from fastcgi_peer import answer
from harness import Http1

CHUNKED, LENGTH = b'Transfer-Encoding: chunked\r\n', b'Content-Length: 6\r\n'


@pytest.mark.parametrize('fields', [CHUNKED + LENGTH, LENGTH + CHUNKED, CHUNKED + b'A: b\r\n' + LENGTH, b'Content-Length: 0\r\n' + CHUNKED])
def test_both(origin, fields):
    s, peer = origin(answer(b'Content-Type: text/plain\r\n\r\nok'))
    client = Http1(s.socket_path)
    client.send(b'POST / HTTP/1.1\r\nHost: x\r\n' + fields + b'\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n')
    r = client.read_response()
    assert r.closed and client.closed()  # Whatever was behind it is no request.
    assert r.status == 400 and peer.requests == []
    assert '/smuggled' not in s.log('access.log')


def test_on_h2(origin):
    """There is no Transfer-Encoding on HTTP/2 (RFC 9113 §8.2.2)."""
    s, peer = origin(answer(b'Content-Type: text/plain\r\n\r\nok'))
    client = s.connect('h2')
    client.h2.config.validate_outbound_headers = False
    stream = client.start('/', 'POST', [('transfer-encoding', 'chunked'), ('content-length', '2')], end=False)
    client.h2.send_data(stream, b'ok', end_stream=True)
    client.flush()
    try:
        status = client.read_response(stream).status
    except EOFError:
        status = None  # The stream was reset.
    assert status in (400, None)
    assert peer.requests == []

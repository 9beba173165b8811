"""Two different Content-Length (also as a list in one field): 400 and close; two equal ones may be merged."""
import pytest
from fastcgi_peer import answer
from harness import Http1


@pytest.mark.parametrize('fields', [b'Content-Length: 5\r\nContent-Length: 6\r\n', b'Content-Length: 5, 6\r\n', b'Content-Length: 5\r\nContent-Length: 5, 6\r\n',
                                    b'content-length: 0\r\nCONTENT-LENGTH: 5\r\n', b'Content-Length: 5,\r\nContent-Length: 4\r\n'])
def test_different(origin, fields):
    s, peer = origin(answer(b'Content-Type: text/plain\r\n\r\nok'))
    client = Http1(s.socket_path)
    client.send(b'POST / HTTP/1.1\r\nHost: x\r\n' + fields + b'\r\nhelloGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n')
    r = client.read_response()
    assert r.status == 400 and r.closed and client.closed() and peer.requests == []


@pytest.mark.parametrize('fields', [b'Content-Length: 5\r\nContent-Length: 5\r\n', b'Content-Length: 5, 5\r\n'])
def test_equal(origin, fields):
    s, peer = origin(answer(b'Content-Type: text/plain\r\n\r\nok'))
    client = Http1(s.socket_path)
    client.send(b'POST / HTTP/1.1\r\nHost: x\r\n' + fields + b'\r\nhello')
    r = client.read_response()
    if r.status == 200:
        assert peer.requests[0].params['CONTENT_LENGTH'] == '5' and peer.requests[0].body == b'hello'
    else:
        assert r.status == 400 and r.closed and peer.requests == []

"""Chunk extension or chunk size ended by a bare LF: 400. `0\\r\\nXX` instead of the last CRLF: 400, nothing swallowed."""
import pytest
from fastcgi_peer import answer
from harness import Http1


@pytest.mark.parametrize('body', [b'5\nhello\r\n0\r\n\r\n', b'5;ext\nhello\r\n0\r\n\r\n', b'5;ext=1\nhello\r\n0\r\n\r\n', b'5\r\nhello\n0\r\n\r\n', b'5\r\nhello\r\n0\n\n',
                                  b'5\r\nhello\r\n0\r\nXX', b'5\r\nhello\r\n0\r\nXX\r\n\r\n', b'5\r\nhello\r\n0;a\n\r\n', b'5\r\nhelloXX0\r\n\r\n', b'5 \nhello\r\n0\r\n\r\n'])
def test_bare_line_feeds(origin, body):
    s, peer = origin(answer(b'Content-Type: text/plain\r\n\r\nok'))
    client = Http1(s.socket_path)
    client.send(b'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n' + body + b'GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n')
    r = client.read_response()
    assert r.status == 400 and r.closed and client.closed() and peer.requests == []
    assert 'smuggled' not in s.log('access.log')

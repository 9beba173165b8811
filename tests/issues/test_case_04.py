"""`Transfer-Encoding : chunked` (blank before the colon): 400; `tRANSFER-ENCODING: chunked`: valid."""
import pytest
from fastcgi_peer import answer
from harness import Http1

BODY = b'\r\n5\r\nhello\r\n0\r\n\r\n'


@pytest.mark.parametrize('field', [b'Transfer-Encoding : chunked', b'Transfer-Encoding\t: chunked', b' Transfer-Encoding: chunked', b'Transfer-Encoding:\x0bchunked',
                                   b'Transfer-Encoding: xchunked', b'Transfer-Encoding: chunked, identity', b'Transfer-Encoding: "chunked"'])
def test_invalid(origin, field):
    s, peer = origin(answer(b'Content-Type: text/plain\r\n\r\nok'))
    client = Http1(s.socket_path)
    client.send(b'POST / HTTP/1.1\r\nHost: x\r\n' + field + b'\r\n' + BODY + b'GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n')
    r = client.read_response()
    assert r.status in (400, 501) and (r.status == 400 or b': ' in field)
    assert r.closed and client.closed() and peer.requests == []


@pytest.mark.parametrize('field', [b'tRANSFER-ENCODING: chunked', b'transfer-encoding:chunked', b'Transfer-Encoding: \t CHUNKED \t'])
def test_valid(origin, field):
    s, peer = origin(answer(b'Content-Type: text/plain\r\n\r\nok'))
    client = Http1(s.socket_path)
    client.send(b'POST / HTTP/1.1\r\nHost: x\r\n' + field + b'\r\n' + BODY)
    r = client.read_response()
    assert r.status == 200 and peer.requests[0].body == b'hello' and peer.requests[0].params['CONTENT_LENGTH'] == '5'
    assert client.request('/').status == 200

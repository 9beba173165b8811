"""Expect: 100-continue: 100 before the body on h1 and h2; when the request will be refused (401, 413) the final status and no 100."""
import pytest
from fastcgi_peer import answer
from h2.events import InformationalResponseReceived

EXPECT = [('expect', '100-continue')]


def test_100_comes_before_the_body(origin, protocol):
    s, peer = origin(answer(b'Content-Type: text/plain\r\n\r\nok'))
    client = s.connect(protocol)
    if protocol == 'h1':
        client.send(b'POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n')
        assert client._until(b'\r\n\r\n') == b'HTTP/1.1 100 Continue'
        client.send(b'hello')
        r = client.read_response()
    else:
        stream = client.start('/', 'POST', EXPECT + [('content-length', '5')], end=False)
        while not any(isinstance(e, InformationalResponseReceived) for e in client.events.get(stream, [])):
            assert client.pump()
        client.send_body(stream, b'hello')
        r = client.read_response(stream)
    assert r.status == 200 and peer.requests[0].body == b'hello'


@pytest.mark.parametrize('path,length,status', [('/closed/', 5, 401), ('/', 5_000_000, 413), ('/closed/', 5_000_000, 413)])
def test_no_100_for_what_is_refused(origin, protocol, path, length, status):
    s, peer = origin(answer(b'Content-Type: text/plain\r\n\r\nok'),
                     outer='location /closed/ { auth_request /no; fastcgi_pass unix:@DIR@/origin.sock; } location = /no { internal; return 401; }')
    client = s.connect(protocol)
    if protocol == 'h1':
        client.send(f'POST {path} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n'.encode())
        r = client.read_response()
    else:
        r = client.read_response(client.start(path, 'POST', EXPECT + [('content-length', str(length))], end=False))
    assert r.status == status and r.informational == [] and peer.requests == []

"""An early response during an upload: HEADERS and DATA with END_STREAM, then RST_STREAM(NO_ERROR); the client gets the response."""
import pytest
from fastcgi_peer import answer
from h2.events import StreamEnded, StreamReset


def test_h2(origin):
    s, peer = origin(answer(b'Content-Type: text/plain\r\n\r\nok'), 'client_max_body_size 1000;')
    client = s.connect('h2')
    for _ in range(5):
        stream = client.start('/', 'POST', end=False)
        client.send_body(stream, b'x' * 2000, end=False)
        while not any(isinstance(e, StreamReset) for e in client.events.get(stream, [])):
            assert client.pump()
        events = client.events[stream]
        kinds = [type(e) for e in events]
        assert kinds.index(StreamEnded) < kinds.index(StreamReset)
        assert [e.error_code for e in events if isinstance(e, StreamReset)] == [0]
        r = client.read_response(stream)
        assert r.status == 413 and b'413' in r.body
    assert client.request('/').status == 200


@pytest.mark.parametrize('framing', [b'Content-Length: 50000000\r\n', b'Transfer-Encoding: chunked\r\n'])
def test_h1(origin, framing):
    """The client goes on sending and still reads the answer: no reset overtakes it."""
    s, peer = origin(answer(b'Content-Type: text/plain\r\n\r\nok'), 'client_max_body_size 1000;')
    client = s.connect('h1')
    client.send(b'POST / HTTP/1.1\r\nHost: x\r\n' + framing + b'\r\n')
    try:
        for _ in range(50):
            client.send((b'2710\r\n' if b'chunked' in framing else b'') + b'x' * 10_000 + (b'\r\n' if b'chunked' in framing else b''))
    except (BrokenPipeError, ConnectionResetError):
        pass
    r = client.read_response()
    assert r.status == 413 and r.closed and peer.requests == []

"""FastCGI body shorter than its Content-Length: h2 RST, h1 closed without a clean end; longer: cut at the length."""
import pytest
from fastcgi_peer import answer, stdout


def reply(body):
    return answer(b'Content-Type: text/plain\r\nContent-Length: 10\r\n\r\n' + body)


@pytest.mark.parametrize('body', [b'', b'short', b'x' * 9])
def test_shorter(origin, protocol, body):
    s, _ = origin(reply(body))
    client = s.connect(protocol)
    if protocol == 'h1':
        with pytest.raises(EOFError):
            client.request('/')
    else:
        r = client.request('/')
        assert r.reset is not None and body.startswith(r.body)
        assert client.request('/').reset is not None  # The connection itself goes on.
    assert s.get('/', protocol, method='HEAD')['content-length'] == '10'


@pytest.mark.parametrize('extra', [b'!', b'x' * 100_000])
def test_longer(origin, protocol, extra):
    s, _ = origin(reply(b'0123456789' + extra))
    client = s.connect(protocol)
    for _ in range(2):
        r = client.request('/')
        assert (r.status, r.body, r.reset) == (200, b'0123456789', None)


def test_cut_without_a_length(origin, protocol):
    """The origin dies in the middle: no clean end either."""
    def handler(r):
        r.send(stdout(b'Content-Type: text/plain\r\n\r\nhalf'))
        r.connection.shutdown(2)
    s, _ = origin(handler)
    client = s.connect(protocol)
    if protocol == 'h1':
        with pytest.raises(EOFError):
            client.request('/')
    else:
        assert client.request('/').reset is not None

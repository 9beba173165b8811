"""The backend answers 4xx without reading a big POST and closes: the client sees the 4xx, not 502, not a reset."""
import pytest
from fastcgi_peer import answer

REFUSAL = answer(b'Status: 413 Too Large\r\nContent-Type: text/plain\r\n\r\nno, thanks')


@pytest.mark.parametrize('buffering', ['on', 'off'])
def test_refused_without_reading(origin, protocol, buffering):
    def handler(r):
        r.send(REFUSAL)
        r.connection.close()  # With unread bytes: the kernel makes a reset of it.
    s, peer = origin(handler, f'client_max_body_size 0; fastcgi_request_buffering {buffering};', early=True)
    r = s.get('/', protocol, method='POST', body=b'x' * 5_000_000)
    assert (r.status, r.body) == (413, b'no, thanks')
    assert s.get('/', protocol, method='POST', body=b'x').body == b'no, thanks'

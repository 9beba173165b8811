"""HEADERS without END_HEADERS, then endless CONTINUATION: bounded, closed."""
import pytest
from raw_http2 import CONTINUATION, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, Raw, frame


@pytest.mark.parametrize('tls', [False, True])
@pytest.mark.parametrize('piece', [b'', b'\x00\x01a\x01b' * 10, b'\x00\x01a\x01b' * 3000], ids=['empty', 'small', 'full'])
def test_endless_continuation(server, piece, tls):
    s = server('server { listen @SOCK@; location / { return 200 x; } }', tls=True)
    other = s.connect('h2')
    raw = Raw(s, tls=tls)
    raw.send(frame(HEADERS, b'\x82\x86\x01\x01x\x84', 0, 1))
    sent = 0
    while not raw.over() and raw.send(frame(CONTINUATION, piece, 0, 1)):
        sent += 1
        assert sent < 2000
        if sent % 10 == 0:
            assert other.request('/').status == 200
    codes = [int.from_bytes(payload[4:8], 'big') for kind, _, _, payload in raw.frames if kind == GOAWAY]
    assert codes in ([ENHANCE_YOUR_CALM], [])  # The end of the socket may have overtaken it.
    assert not [kind for kind, *_ in raw.frames if kind == HEADERS]
    assert other.request('/').status == 200

"""10,000 streams opened and reset at once: bounded work, the connection closed with ENHANCE_YOUR_CALM, others unaffected."""
import struct

import hpack
import pytest
from raw_http2 import CANCEL, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, HEADERS, RST, Raw, frame, get_fields


@pytest.mark.parametrize('tls', [False, True])
def test_rapid_reset(server, tls):
    s = server('server { listen @SOCK@; root @DIR@/www; location /status { stub_status; } }', tls=True)
    s.file('a.bin', b'x' * 1_000_000)
    other = s.connect('h2')
    assert other.request('/a.bin').status == 200
    raw = Raw(s, tls=tls)
    encoder = hpack.Encoder()
    sent = 0
    while sent < 10_000 and raw.send(b''.join(
            frame(HEADERS, encoder.encode(get_fields('/a.bin')), END_HEADERS | END_STREAM, 2 * i + 1) + frame(RST, struct.pack('>I', CANCEL), 0, 2 * i + 1)
            for i in range(sent, sent + 100))):
        sent += 100
    assert raw.goaway() in (ENHANCE_YOUR_CALM, None)
    raw.socket.close()
    assert other.request('/a.bin').status == 200
    assert int(other.request('/status').body.split(b'\n')[2].split()[2]) < 300

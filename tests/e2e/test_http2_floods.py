"""Clients that make work for nothing: bounded, and others are unaffected. Cases 21 and 22 of the field."""
import struct

import pytest
from harness import Http2, wait_until
from raw_http2 import (DATA, HEADERS, PRIORITY, RST, SETTINGS, PING, WINDOW, CONTINUATION, END_STREAM, END_HEADERS, ACK,
                       PROTOCOL_ERROR, CANCEL, ENHANCE_YOUR_CALM, frame, get_fields, Raw, make)


def rapid_reset(raw, count):
    """How many of the streams could be sent before the server closed."""
    encoded = raw.encoder.encode(get_fields('/a.bin'))
    again = raw.encoder.encode(get_fields('/a.bin'))
    for i in range(count):
        stream = 2 * i + 1
        if not raw.send(frame(HEADERS, encoded if i == 0 else again, END_HEADERS | END_STREAM, stream) + frame(RST, struct.pack('>I', CANCEL), 0, stream)):
            return i
    return count


def test_rapid_reset(server):
    """Case 21: 10,000 streams opened and reset at once."""
    s = make(server)
    s.file('a.bin', b'x' * 1_000_000)
    other = Http2(s.socket_path)
    assert other.request('/text').status == 200
    raw = Raw(s)
    rapid_reset(raw, 10_000)
    assert raw.goaway() == ENHANCE_YOUR_CALM
    raw.socket.close()
    assert other.request('/text').status == 200  # Others are unaffected.
    requests = int(s.get('/status').body.split(b'\n')[2].split()[2])
    assert requests < 1000  # Bounded work.
    wait_until(lambda: b'Active connections: 2 ' in s.get('/status').body, 'the connection to be gone')


def test_a_page_left_at_once_is_no_flood(server):
    """A browser that leaves a page cancels what it has asked for."""
    s = make(server)
    s.file('a.bin', b'x' * 1_000_000)
    raw = Raw(s)
    assert rapid_reset(raw, 100) == 100
    assert raw.works(1001)


def test_resets_provoked_from_the_server(server):
    """The same by frames that make the server reset: increments of 0."""
    s = make(server)
    s.file('a.bin', b'x' * 1_000_000)
    raw = Raw(s)
    for i in range(10_000):
        stream = 2 * i + 1
        if not (raw.headers(stream, get_fields('/a.bin')) and raw.send(frame(WINDOW, b'\0\0\0\0', 0, stream))):
            break
    assert raw.goaway() in (ENHANCE_YOUR_CALM, PROTOCOL_ERROR)


def test_continuation_flood(server):
    """Case 22: HEADERS without END_HEADERS, then endless CONTINUATION."""
    s = make(server)
    for piece in (b'', b'\x00\x01a\x01b', raw_field(8000)):
        raw = Raw(s)
        raw.headers(1, get_fields(), 0)
        for _ in range(200_000):
            if not raw.send(frame(CONTINUATION, piece, 0, 1)):
                break
        else:
            raise AssertionError('not closed')
        raw.socket.close()
    assert Raw(s).works(1)
    assert '[alert]' not in s.log()


def raw_field(size):
    value = b'v' * size
    length = size - 127
    encoded = b'\x7f'
    while length >= 128:
        encoded += bytes([length % 128 + 128])
        length //= 128
    return b'\x00\x01a' + encoded + bytes([length]) + value


@pytest.mark.parametrize('name,data', [
    ('ping', frame(PING, b'12345678')), ('settings', frame(SETTINGS)), ('settings with values', frame(SETTINGS, struct.pack('>HI', 4, 65535) * 10)),
    ('priority', frame(PRIORITY, b'\0\0\0\0\x10', 0, 1)), ('empty data', frame(DATA, b'', 0, 1)),
    ('window updates', frame(WINDOW, b'\0\0\0\1')), ('settings ack', frame(SETTINGS, b'', ACK))])
def test_floods(server, name, data):
    """Frames that cost the server something and carry nothing: bounded, whether or not the client reads."""
    s = server('server { listen @SOCK@; location / { fastcgi_pass unix:@DIR@/none.sock; } location /text { return 200 x; } }')
    raw = Raw(s)
    raw.headers(1, get_fields('/', 'POST'), END_HEADERS)
    for _ in range(3000):
        if not raw.send(data * 100):
            break
    else:
        raise AssertionError('not closed')
    raw.socket.close()
    assert Raw(s).works(1)


def test_a_client_that_reads_nothing(server):
    """Its responses wait in bounded memory, and others are served."""
    s = make(server)
    s.file('big.bin', b'x' * (20 << 20))
    raw = Raw(s, struct.pack('>HI', 4, 2**31 - 1))
    raw.send(frame(WINDOW, struct.pack('>I', 2**31 - 1 - 65535)))
    for i in range(100):
        raw.headers(2 * i + 1, get_fields('/big.bin'))
    assert Raw(s).works(1)
    assert s.get('/text').status == 200
    with open(f'/proc/{s.worker()}/statm') as file:
        assert int(file.read().split()[1]) * 4096 < 300 << 20

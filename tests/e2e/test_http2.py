"""HTTP/2 on the wire: the preface, streams and flow control, early responses and ends. Cases 23 and 24 of the field among them."""
import signal
import socket
import struct
import threading

import h2.events
import hpack
import pytest
from fastcgi_peer import Peer, answer
from harness import Http1, Http2, wait_until
from raw_http2 import (DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW, END_STREAM, END_HEADERS, ACK, NO_ERROR, PROTOCOL_ERROR,
                       FLOW_CONTROL_ERROR, REFUSED_STREAM, CANCEL, PREFACE, frame, get_fields, Raw, make)


# --- The beginning.

def test_preface_split_at_every_byte(server):
    s = make(server)
    encoded = hpack.Encoder().encode(get_fields())
    start = PREFACE + frame(SETTINGS) + frame(HEADERS, encoded, END_HEADERS | END_STREAM, 1)
    for at in range(1, len(start)):
        raw = Raw(s, preface=False)
        raw.send(start[:at])
        raw.send(start[at:])
        assert raw.head(1)[':status'] == '200', at
        raw.socket.close()


def test_preface_byte_by_byte(server):
    s = make(server)
    raw = Raw(s, preface=False)
    for byte in PREFACE + frame(SETTINGS):
        raw.send(bytes([byte]))
    assert raw.works(1)


@pytest.mark.parametrize('start', [b'PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n', b'PRI * HTTP/2.0\r\nHost: x\r\n\r\n', b'PRI / HTTP/1.1\r\nHost: x\r\n\r\n'])
def test_what_only_looks_like_a_preface(server, start):
    s = make(server)
    client = Http1(s.socket_path)
    client.send(start)
    client.socket.shutdown(socket.SHUT_WR)
    answer_ = client.rest()
    assert answer_ == b'' or answer_.split(b' ')[1] in (b'400', b'405', b'505'), answer_


def test_first_frame_must_be_settings(server):
    s = make(server)
    raw = Raw(s, preface=False)
    raw.send(PREFACE + frame(PING, b'12345678'))
    assert raw.goaway() == PROTOCOL_ERROR and raw.closes()


def test_http2_off(server):
    s = server('server { listen @SOCK@; http2 off; location / { return 200; } }', start=False)
    code, said = s.test()
    if code != 0 or 'not supported yet' in said:
        return  # The directive is still to come.
    s.start()
    client = Http1(s.socket_path)
    client.send(PREFACE)
    client.socket.shutdown(socket.SHUT_WR)
    assert client.rest().split(b' ')[1] in (b'400', b'405', b'505')


def test_settings_are_acknowledged(server):
    s = make(server)
    raw = Raw(s)
    kind, flags, stream, payload = raw.read()
    assert (kind, flags & ACK, stream) == (SETTINGS, 0, 0)
    settings = dict(struct.unpack('>HI', payload[i:i + 6]) for i in range(0, len(payload), 6))
    assert 100 <= settings[3] <= 1000 and settings.get(2, 0) == 0 and settings[6] >= 8192
    assert raw.until(lambda kind, flags, *_: kind == SETTINGS and flags & ACK)


# --- Streams.

def test_many_streams_at_once(server):
    s = make(server)
    bodies = {}
    client = Http2(s.socket_path)
    for i in range(100):
        s.file(f'{i}.bin', bytes([i]) * (i * 997))
    for _ in range(3):
        streams = {client.start(f'/{i}.bin'): i for i in range(100)}
        for stream, i in streams.items():
            bodies[i] = client.read_response(stream)
        assert all(bodies[i].status == 200 and bodies[i].body == bytes([i]) * (i * 997) for i in range(100))


def test_streams_over_the_limit_are_refused(server):
    begun, release = [], threading.Event()

    def hold(r):
        begun.append(r)
        release.wait(20)
    s = server('server { listen @SOCK@; location / { fastcgi_pass unix:@DIR@/origin.sock; } location /text { return 200 x; } }')
    peer = Peer(s.directory / 'origin.sock', hold)
    try:
        raw = Raw(s)
        for i in range(200):
            raw.headers(2 * i + 1, get_fields('/slow'))
        got = raw.until(lambda kind, *_: kind == RST)
        assert int.from_bytes(got[3], 'big') == REFUSED_STREAM and got[2] == 2 * 128 + 1
        wait_until(lambda: len(begun) == 128, 'the others at the origin')
        raw.send(frame(RST, struct.pack('>I', CANCEL), 0, 1))
        assert raw.works(1001)
    finally:
        release.set()
        peer.close()


def test_small_stream_beside_a_large_one(server):
    """One large download never holds up the others of its connection."""
    s = make(server)
    s.file('big.bin', b'x' * (6 << 20))
    client = Http2(s.socket_path)
    big = client.start('/big.bin')
    for i in range(20):
        assert client.request(f'/text?{i}').status == 200
    assert not client._ended(big)
    assert len(client.read_response(big).body) == 6 << 20


def test_tiny_windows(server):
    """Case 23: a request with trailers, and a response far larger than the window. No stall."""
    s = make(server)
    data = bytes(range(256)) * 40
    s.file('a.bin', data)
    raw = Raw(s, struct.pack('>HI', 4, 1))  # INITIAL_WINDOW_SIZE 1.
    raw.headers(1, get_fields('/a.bin', 'GET', te='trailers'), END_HEADERS)
    raw.send(frame(DATA, b'body', 0, 1))
    raw.headers(1, [('x-trailer', 'v')])
    assert raw.head(1)[':status'] == '200'
    got = b''
    while len(got) < len(data):
        kind, flags, _, payload = raw.until(lambda kind, flags, of, _: kind == DATA and of == 1)
        assert 0 < len(payload) <= 7
        got += payload
        if len(got) < len(data):
            raw.send(frame(WINDOW, struct.pack('>I', 7 if len(got) > 100 else 1), 0, 1))
    assert got == data
    assert flags & END_STREAM or raw.until(lambda kind, flags, of, _: of == 1)[1] & END_STREAM
    raw.headers(3, get_fields('/text', 'HEAD'))
    assert raw.head(3)[':status'] == '200'


def test_window_of_the_connection(server):
    """The windows of streams are wide open, the connection's is not: what was sent never exceeds 65,535."""
    s = make(server)
    s.file('a.bin', b'x' * 300_000)
    raw = Raw(s, struct.pack('>HI', 4, 2**31 - 1))
    raw.headers(1, get_fields('/a.bin'))
    raw.headers(3, get_fields('/a.bin'))
    raw.headers(5, get_fields('/text', 'HEAD'))
    got = 0
    while got < 65535:
        got += len(raw.until(lambda kind, *_: kind == DATA)[3])
    assert got == 65535
    raw.send(frame(PING, b'12345678'))
    answered = raw.until(lambda kind, *_: kind in (DATA, PING))
    assert answered[0] == PING  # Nothing more until there is room.
    total = got
    while total < 600_000:
        raw.send(frame(WINDOW, struct.pack('>I', 100_000)))
        more = 0
        while more < min(100_000, 600_000 - total):
            more += len(raw.until(lambda kind, *_: kind == DATA)[3])
        total += more
    assert total == 600_000


def test_window_grows_and_shrinks_by_settings(server):
    s = make(server)
    s.file('a.bin', b'x' * 1000)
    raw = Raw(s, struct.pack('>HI', 4, 100))
    raw.headers(1, get_fields('/a.bin'))
    assert len(raw.until(lambda kind, *_: kind == DATA)[3]) == 100
    raw.send(frame(SETTINGS, struct.pack('>HI', 4, 0)))  # Now at -100.
    raw.send(frame(WINDOW, struct.pack('>I', 100), 0, 1))  # Now at 0.
    raw.send(frame(PING, b'12345678'))
    assert raw.until(lambda kind, *_: kind in (DATA, PING))[0] == PING
    raw.send(frame(SETTINGS, struct.pack('>HI', 4, 2000)))
    assert len(raw.body(1)) == 900


@pytest.mark.parametrize('stream,code', [(0, FLOW_CONTROL_ERROR), (1, FLOW_CONTROL_ERROR)])
def test_window_overflow(server, stream, code):
    s = make(server)
    s.file('a.bin', b'x' * 1_000_000)
    raw = Raw(s)
    raw.headers(1, get_fields('/a.bin'))
    raw.head(1)
    raw.send(2 * frame(WINDOW, struct.pack('>I', 2**31 - 1), 0, stream))  # The first may be right: all is used up.
    assert (raw.goaway() if stream == 0 else raw.reset(1)) == code


def test_upload_larger_than_the_windows(server, directory):
    s = server('server { listen @SOCK@; client_max_body_size 0; location / { fastcgi_pass unix:@DIR@/origin.sock; } }')
    peer = Peer(s.directory / 'origin.sock', lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\n%d' % len(r.body))))
    try:
        client = Http2(s.socket_path)
        assert client.request('/', method='POST', body=b'x' * 5_000_000).body == b'5000000'
        streams = [client.start('/', 'POST', [('content-length', '300000')], end=False) for _ in range(5)]
        for stream in streams:
            client.send_body(stream, b'y' * 300_000)
        assert [client.read_response(stream).body for stream in streams] == [b'300000'] * 5
    finally:
        peer.close()


def test_data_beyond_the_window_is_an_error(server):
    """A body that nobody reads yet, because the verdict on its request is awaited, is bounded."""
    s = server('server { listen @SOCK@; client_max_body_size 0; location / { auth_request /auth; fastcgi_pass unix:@DIR@/none.sock; } '
               'location /auth { fastcgi_pass unix:@DIR@/auth.sock; } location /text { return 200 x; } }')
    peer = Peer(s.directory / 'auth.sock', lambda r: r.connection.recv(1))
    try:
        raw = Raw(s)
        raw.headers(1, get_fields('/', 'POST'), END_HEADERS)
        for _ in range(400):  # Six and a half megabytes without waiting for anything.
            if not raw.send(frame(DATA, b'x' * 16384, 0, 1)):
                break
        got = raw.until(lambda kind, flags, of, _: kind == GOAWAY or (kind == RST and of == 1))
        assert got is None or int.from_bytes(got[3][-4:] if got[0] == RST else got[3][4:8], 'big') == FLOW_CONTROL_ERROR
        assert Raw(s).works(1)
    finally:
        peer.close()


# --- Early responses and ends.

def test_early_response_during_an_upload(server):
    """Case 24: HEADERS and DATA with END_STREAM, then RST_STREAM(NO_ERROR)."""
    s = server('server { listen @SOCK@; client_max_body_size 100; location / { fastcgi_pass unix:@DIR@/none.sock; } location /text { return 200 x; } }')
    raw = Raw(s)
    raw.headers(1, get_fields('/', 'POST') + [('content-length', '5000000')], END_HEADERS)
    raw.send(frame(DATA, b'x' * 1000, 0, 1))
    assert raw.head(1)[':status'] == '413'
    assert b'413' in raw.body(1)
    assert raw.reset(1) == NO_ERROR
    raw.send(frame(DATA, b'x' * 1000, END_STREAM, 1))  # Was on its way.
    assert raw.works(3)


def test_late_frames_of_an_ended_upload_use_no_window(server):
    """What still arrives for a stream that was reset is counted back to the connection's window."""
    s = server('server { listen @SOCK@; client_max_body_size 100; location / { fastcgi_pass unix:@DIR@/none.sock; } location /text { return 200 x; } }')
    client = Http2(s.socket_path)
    for _ in range(30):
        stream = client.start('/', 'POST', [('content-length', '5000000')], end=False)
        client.send_body(stream, b'x' * 60_000, end=False)
        assert client.read_response(stream).status == 413
    assert client.request('/text').status == 200


def test_expect_continue(server):
    """Case 7."""
    s = server('server { listen @SOCK@; location / { fastcgi_pass unix:@DIR@/none.sock; } location /no { return 403; } }')
    client = Http2(s.socket_path)
    stream = client.start('/', 'POST', [('expect', '100-continue'), ('content-length', '5')], end=False)
    while not any(isinstance(e, h2.events.InformationalResponseReceived) for e in client.events.get(stream, [])):
        assert client.pump()
    client.send_body(stream, b'hello')
    r = client.read_response(stream)
    assert r.status == 502 and [status for status, _ in r.informational] == [100]
    for path, length, status in [('/no', '5', 403), ('/', '5000000', 413)]:
        stream = client.start(path, 'POST', [('expect', '100-continue'), ('content-length', length)], end=False)
        r = client.read_response(stream)
        assert r.status == status and r.informational == []


def test_graceful_stop(server):
    """GOAWAY tells the last stream; what was begun is finished, then the connection ends."""
    s = make(server)
    s.file('a.bin', b'x' * 5_000_000)
    raw = Raw(s, struct.pack('>HI', 4, 100))
    raw.headers(1, get_fields('/a.bin'))
    assert raw.head(1)[':status'] == '200'
    s.process.send_signal(signal.SIGQUIT)
    kind, _, _, payload = raw.until(lambda kind, *_: kind == GOAWAY)
    assert struct.unpack('>II', payload) == (2**31 - 1, NO_ERROR)
    assert raw.works(3)  # It crossed the notice.
    kind, _, _, payload = raw.until(lambda kind, *_: kind == GOAWAY)
    assert struct.unpack('>II', payload) == (3, NO_ERROR)
    raw.send(frame(WINDOW, struct.pack('>I', 5_000_000), 0, 1) + frame(WINDOW, struct.pack('>I', 5_000_000)))
    assert len(raw.body(1)) == 5_000_000 - 100
    assert raw.closes()
    raw.socket.close()
    assert s.process.wait(20) == 0


def test_goaway_of_a_client(server):
    s = make(server)
    raw = Raw(s)
    raw.headers(1, get_fields())
    raw.send(frame(GOAWAY, struct.pack('>II', 0, NO_ERROR)))
    assert raw.head(1)[':status'] == '200'
    assert raw.closes()


def test_keepalive_requests(server):
    s = make(server, 'keepalive_requests 3;')
    raw = Raw(s)
    for stream in (1, 3, 5):
        assert raw.works(stream)
    assert raw.goaway() == NO_ERROR


def test_idle_connection_ends(server):
    s = make(server, 'keepalive_timeout 100ms;')
    raw = Raw(s)
    assert raw.works(1)
    assert raw.goaway() == NO_ERROR and raw.closes()


def test_silent_client_ends(server):
    s = make(server, 'client_header_timeout 100ms;')
    assert Raw(s, preface=False).closes()
    raw = Raw(s, preface=False)
    raw.send(PREFACE[:10])
    assert raw.closes()
    raw = Raw(s)


def test_body_that_never_comes_is_408(server):
    s = server('server { listen @SOCK@; client_body_timeout 100ms; location / { fastcgi_pass unix:@DIR@/none.sock; } location /text { return 200 x; } }')
    raw = Raw(s)
    raw.headers(1, get_fields('/', 'POST') + [('content-length', '5')], END_HEADERS)
    got = raw.until(lambda kind, flags, of, _: of == 1 and kind in (HEADERS, RST))
    assert got[0] == RST or dict(got[3])[':status'] == '408'
    assert raw.works(3)
    s.wait_log(' 408 ', 'access.log')


def test_stream_that_is_not_read_times_out_alone(server):
    s = make(server, 'send_timeout 100ms;')
    s.file('a.bin', b'x' * 1_000_000)
    raw = Raw(s, struct.pack('>HI', 4, 100))
    raw.headers(1, get_fields('/a.bin'))
    assert raw.head(1)[':status'] == '200'
    assert raw.reset(1) is not None
    raw.headers(3, get_fields('/text', 'HEAD'))
    assert raw.head(3)[':status'] == '200'


def test_reset_cancels_the_origin(server):
    ended = []
    s = server('server { listen @SOCK@; location / { fastcgi_pass unix:@DIR@/origin.sock; } location /text { return 200 x; } }')
    peer = Peer(s.directory / 'origin.sock', lambda r: ended.append(r.connection.recv(1)))
    try:
        raw = Raw(s)
        raw.headers(1, get_fields('/'))
        wait_until(lambda: peer.requests, 'the request')
        raw.send(frame(RST, struct.pack('>I', CANCEL), 0, 1))
        wait_until(lambda: ended, 'the end of it')
        assert raw.works(3)
        s.wait_log(' 499 ', 'access.log')
    finally:
        peer.close()


def test_no_connection_fields_in_responses(server):
    s = make(server, 'keepalive_timeout 60 30; location /own { add_header Connection x; add_header Keep-Alive y; return 200 z; }')
    client = Http2(s.socket_path)
    for path in ('/text', '/own', '/none'):
        r = client.request(path)
        assert all(n == n.lower() for n, _ in r.fields)
        assert not {'connection', 'keep-alive', 'transfer-encoding', 'upgrade'} & {n for n, _ in r.fields}, r


def test_compression_table_size_is_obeyed(server):
    s = make(server)
    raw = Raw(s, struct.pack('>HI', 1, 0))  # HEADER_TABLE_SIZE 0.
    raw.decoder.max_allowed_table_size = 0
    for stream in (1, 3, 5):
        assert raw.works(stream)

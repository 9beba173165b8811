"""HTTP/2 on the wire: raw frames, right and wrong. Cases 21 to 24 of the field among them."""
import signal
import socket
import struct

import h2.events
import hpack
import pytest
from fastcgi_peer import Peer, answer
from harness import Http1, Http2, wait_until

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1
NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR = 0, 1, 3, 5, 6
REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 7, 8, 9, 11
PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
SITE = '''server { listen @SOCK@; root @DIR@/www; %s
  location /text { return 200 "$request_method $uri $args $http_x_own"; } location /status { stub_status; } }'''


def frame(kind, payload=b'', flags=0, stream=0, length=None):
    return struct.pack('>I', len(payload) if length is None else length)[1:] + struct.pack('>BBI', kind, flags, stream) + payload


def get_fields(path='/text', method='GET', **more):
    return [(':method', method), (':scheme', 'http'), (':authority', 'x'), (':path', path)] + list(more.items())


class Raw:
    """Sends frames as bytes, and reads the server's as (kind, flags, stream, payload)."""

    def __init__(self, s, settings=b'', preface=True):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(str(s.socket_path))
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.buffer, self.frames = b'', []
        if preface:
            self.send(PREFACE + frame(SETTINGS, settings))

    def send(self, data):
        """False when the server has closed."""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def headers(self, stream, fields, flags=END_HEADERS | END_STREAM):
        return self.send(frame(HEADERS, self.encoder.encode(fields), flags, stream))

    def read(self):
        """The next frame; None at the end."""
        def need(count):
            while len(self.buffer) < count:
                try:
                    data = self.socket.recv(65536)
                except ConnectionResetError:
                    data = b''
                if not data:
                    return False
                self.buffer += data
            return True
        if not need(9):
            return None
        length = int.from_bytes(self.buffer[:3], 'big')
        kind, flags, stream = struct.unpack('>BBI', self.buffer[3:9])
        if not need(9 + length):
            return None
        payload, self.buffer = self.buffer[9:9 + length], self.buffer[9 + length:]
        if kind == HEADERS:
            payload = [(n, v) for n, v in self.decoder.decode(payload)]
        self.frames.append((kind, flags, stream, payload))
        return self.frames[-1]

    def until(self, wanted):
        """Reads until a frame satisfies wanted; it. None when the connection ends first."""
        while (got := self.read()) is not None:
            if wanted(*got):
                return got
        return None

    def head(self, stream):
        got = self.until(lambda kind, flags, of, _: (kind in (HEADERS, RST) and of == stream))
        assert got is not None and got[0] == HEADERS, got
        return dict(got[3])

    def body(self, stream):
        data = b''
        while True:
            kind, flags, _, payload = self.until(lambda kind, flags, of, _: of == stream and kind in (DATA, RST))
            assert kind == DATA
            data += payload
            if flags & END_STREAM:
                return data

    def reset(self, stream):
        """The error code of the stream's reset."""
        got = self.until(lambda kind, flags, of, _: kind == RST and of == stream)
        return None if got is None else int.from_bytes(got[3], 'big')

    def goaway(self):
        """The error code of the connection's end; None without GOAWAY."""
        got = self.until(lambda kind, *_: kind == GOAWAY)
        return None if got is None else int.from_bytes(got[3][4:8], 'big')

    def closes(self):
        while self.read() is not None:
            pass
        return True

    def works(self, stream):
        self.headers(stream, get_fields())
        return self.head(stream)[':status'] == '200'


def make(server, more='', **options):
    return server(SITE % more, **options)


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
    peer_stop = []
    s = server('server { listen @SOCK@; location / { fastcgi_pass unix:@DIR@/origin.sock; } location /text { return 200 x; } }')
    peer = Peer(s.directory / 'origin.sock', lambda r: peer_stop.append(r))
    try:
        raw = Raw(s)
        for i in range(200):
            raw.headers(2 * i + 1, get_fields('/slow'))
        got = raw.until(lambda kind, *_: kind == RST)
        assert int.from_bytes(got[3], 'big') == REFUSED_STREAM and got[2] == 2 * 128 + 1
        raw.send(frame(RST, struct.pack('>I', CANCEL), 0, 1))
        wait_until(lambda: len(peer_stop) >= 127, 'the others at the origin')  # The first may be gone before it gets there.
        assert raw.works(1001)
    finally:
        peer.close()


def test_small_stream_beside_a_large_one(server):
    """One large download never holds up the others of its connection."""
    s = make(server)
    s.file('big.bin', b'x' * (20 << 20))
    client = Http2(s.socket_path)
    big = client.start('/big.bin')
    for i in range(20):
        assert client.request(f'/text?{i}').status == 200
    assert not client._ended(big)
    assert len(client.read_response(big).body) == 20 << 20


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


# --- Requests that are wrong.

BAD_FIELDS = {
    'no method': [(':scheme', 'http'), (':authority', 'x'), (':path', '/text')],
    'no path': [(':method', 'GET'), (':scheme', 'http'), (':authority', 'x')],
    'no scheme': [(':method', 'GET'), (':authority', 'x'), (':path', '/text')],
    'empty path': [(':method', 'GET'), (':scheme', 'http'), (':authority', 'x'), (':path', '')],
    'two methods': [(':method', 'GET'), (':method', 'GET'), (':scheme', 'http'), (':authority', 'x'), (':path', '/text')],
    'two paths': [(':method', 'GET'), (':scheme', 'http'), (':authority', 'x'), (':path', '/text'), (':path', '/')],
    'unknown pseudo field': [(':method', 'GET'), (':scheme', 'http'), (':authority', 'x'), (':path', '/text'), (':own', 'x')],
    'status in a request': [(':method', 'GET'), (':scheme', 'http'), (':authority', 'x'), (':path', '/text'), (':status', '200')],
    'pseudo field after others': [(':method', 'GET'), (':scheme', 'http'), ('a', 'b'), (':authority', 'x'), (':path', '/text')],
    'capitals': get_fields() + [('X-Own', 'v')],
    'connection': get_fields() + [('connection', 'close')],
    'transfer-encoding': get_fields() + [('transfer-encoding', 'chunked')],
    'keep-alive': get_fields() + [('keep-alive', 'x')],
    'upgrade': get_fields() + [('upgrade', 'h2c')],
    'te': get_fields() + [('te', 'gzip')],
    'CR in a value': get_fields() + [('a', 'b\rc')],
    'LF in a value': get_fields() + [('a', 'b\nc: d')],
    'NUL in a value': get_fields() + [('a', 'b\0c')],
    'blank in a name': get_fields() + [('a b', 'c')],
    'colon in a name': get_fields() + [('a:b', 'c')],
    'empty name': get_fields() + [('', 'c')],
    'control in the path': get_fields('/te\x01xt'),
    'blank in the path': get_fields('/te xt HTTP/1.1'),
}


@pytest.mark.parametrize('name', BAD_FIELDS)
def test_malformed_requests(server, name):
    """A stream error or a 400; the connection goes on."""
    s = make(server)
    raw = Raw(s)
    raw.headers(1, BAD_FIELDS[name])
    kind, _, _, payload = raw.until(lambda kind, flags, of, _: kind == GOAWAY or (of == 1 and kind in (HEADERS, RST)))
    if kind == RST:
        assert int.from_bytes(payload, 'big') == PROTOCOL_ERROR
    else:
        assert kind == HEADERS and dict(payload)[':status'] == '400', (kind, payload)
    assert raw.works(3)


@pytest.mark.parametrize('fields,status', [
    ([(':method', 'GET'), (':scheme', 'http'), (':path', '/text'), ('host', 'x')], '200'),
    ([(':method', 'GET'), (':scheme', 'http'), (':path', '/text')], '400'),
    (get_fields() + [('host', 'x')], '200'),
    (get_fields() + [('host', 'other')], '400'),
    ([(':method', 'GET'), (':scheme', 'http'), (':authority', 'a b'), (':path', '/text')], '400'),
    ([(':method', 'GET'), (':scheme', 'http'), (':authority', 'x/y'), (':path', '/text')], '400'),
    (get_fields('http://other/text'), '400'),
    (get_fields('*', 'OPTIONS'), None),
    (get_fields('/%00'), '400'),
    (get_fields('/../..'), '400'),
    (get_fields(method='TRACE'), '405'),
])
def test_heads(server, fields, status):
    s = make(server)
    raw = Raw(s)
    raw.headers(1, fields)
    got = raw.until(lambda kind, flags, of, _: of == 1 and kind in (HEADERS, RST))
    got_status = dict(got[3])[':status'] if got[0] == HEADERS else 'reset'
    if status is not None:
        assert got_status == status or (status == '400' and got_status == 'reset')
    assert raw.works(3)


def test_connect(server):
    s = make(server)
    raw = Raw(s)
    raw.headers(1, [(':method', 'CONNECT'), (':authority', 'x:443')], END_HEADERS)
    assert raw.head(1)[':status'] in ('405', '400', '501')
    raw.headers(3, [(':method', 'CONNECT'), (':protocol', 'websocket'), (':scheme', 'http'), (':authority', 'x'), (':path', '/')], END_HEADERS)
    got = raw.until(lambda kind, flags, of, _: of == 3 and kind in (HEADERS, RST))
    assert got[0] == RST or dict(got[3])[':status'][0] in '45'
    assert raw.works(5)


def test_too_large_header_list(server):
    s = make(server)
    raw = Raw(s)
    encoded = raw.encoder.encode(get_fields() + [(f'x-{i}', 'v' * 1000) for i in range(60)])
    pieces = [encoded[i:i + 16000] for i in range(0, len(encoded), 16000)]
    raw.send(frame(HEADERS, pieces[0], END_STREAM, 1))
    for piece in pieces[1:-1]:
        raw.send(frame(CONTINUATION, piece, 0, 1))
    raw.send(frame(CONTINUATION, pieces[-1], END_HEADERS, 1))
    assert raw.head(1)[':status'] == '431'
    assert raw.works(3)  # The compression state is still right.


def test_header_list_within_the_limit(server):
    s = make(server)
    client = Http2(s.socket_path)
    r = client.request('/text', headers=[(f'x-{i}', 'v' * 500) for i in range(40)] + [('x-own', 'kept')])
    assert r.status == 200 and r.body.endswith(b'kept')


def test_long_path(server):
    s = make(server)
    client = Http2(s.socket_path)
    assert client.request('/text?' + 'a' * 7000).status == 200
    assert client.request('/text?' + 'a' * 9000).status == 414


def test_cookie_crumbs_are_joined(server):
    s = server('server { listen @SOCK@; location / { return 200 "$http_cookie|$cookie_b"; } }')
    r = Http2(s.socket_path).request('/', headers=[('cookie', 'a=1'), ('cookie', 'b=2; c=3')])
    assert r.body == b'a=1; b=2; c=3|2'


@pytest.mark.parametrize('length,body', [('5', b'toolong'), ('5', b'abc'), ('0', b'a'), ('x', b'a'), ('-1', b'a'), ('5, 5', b'hello'), ('1', b'')])
def test_content_length_that_lies(server, length, body):
    """RFC 9113 §8.1.1: malformed. Nothing of it reaches an origin as a complete request."""
    s = server('server { listen @SOCK@; location / { fastcgi_pass unix:@DIR@/origin.sock; } location /text { return 200 x; } }')
    peer = Peer(s.directory / 'origin.sock', lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\nreached')))
    try:
        raw = Raw(s)
        raw.headers(1, get_fields('/', 'POST') + [('content-length', length)], END_HEADERS)
        raw.send(frame(DATA, body, END_STREAM, 1))
        kind, _, _, payload = raw.until(lambda kind, flags, of, _: kind == GOAWAY or (of == 1 and kind in (HEADERS, RST)))
        assert (kind == RST and int.from_bytes(payload, 'big') == PROTOCOL_ERROR) or (kind == HEADERS and dict(payload)[':status'] == '400')
        assert raw.works(3)
        assert peer.connections == 0
    finally:
        peer.close()


def test_trailers_of_a_request(server):
    s = server('server { listen @SOCK@; location / { fastcgi_param METHOD $request_method; fastcgi_pass unix:@DIR@/origin.sock; } location /text { return 200 x; } }')
    peer = Peer(s.directory / 'origin.sock', lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\n' + r.body)))
    try:
        raw = Raw(s)
        raw.headers(1, get_fields('/', 'POST') + [('trailer', 'x-sum')], END_HEADERS)
        raw.send(frame(DATA, b'hello', 0, 1))
        raw.headers(1, [('x-sum', '5')])
        assert raw.head(1)[':status'] == '200' and raw.body(1) == b'hello'
        for stream, trailers, flags in [(3, [(':path', '/x')], END_HEADERS | END_STREAM), (5, [('x-sum', '5')], END_HEADERS)]:
            raw.headers(stream, get_fields('/', 'POST'), END_HEADERS)
            raw.send(frame(DATA, b'hello', 0, stream))
            raw.headers(stream, trailers, flags)
            assert raw.reset(stream) == PROTOCOL_ERROR
        assert raw.works(7)
    finally:
        peer.close()


# --- Frames that are wrong.

CONNECTION_ERRORS = {
    'data on stream 0': (frame(DATA, b'x'), PROTOCOL_ERROR),
    'headers on stream 0': (frame(HEADERS, b'\x82', END_HEADERS), PROTOCOL_ERROR),
    'headers on an even stream': (frame(HEADERS, b'\x82', END_HEADERS, 2), PROTOCOL_ERROR),
    'data on an idle stream': (frame(DATA, b'x', 0, 99), PROTOCOL_ERROR),
    'reset of an idle stream': (frame(RST, b'\0\0\0\0', 0, 99), PROTOCOL_ERROR),
    'window of an idle stream': (frame(WINDOW, b'\0\0\0\1', 0, 99), PROTOCOL_ERROR),
    'window increment 0': (frame(WINDOW, b'\0\0\0\0'), PROTOCOL_ERROR),
    'short window update': (frame(WINDOW, b'\0\0'), FRAME_SIZE_ERROR),
    'ping with 7 bytes': (frame(PING, b'1234567'), FRAME_SIZE_ERROR),
    'ping on a stream': (frame(PING, b'12345678', 0, 1), PROTOCOL_ERROR),
    'settings with 5 bytes': (frame(SETTINGS, b'12345'), FRAME_SIZE_ERROR),
    'settings on a stream': (frame(SETTINGS, b'', 0, 1), PROTOCOL_ERROR),
    'settings ack with a payload': (frame(SETTINGS, b'123456', ACK), FRAME_SIZE_ERROR),
    'too large initial window': (frame(SETTINGS, struct.pack('>HI', 4, 2**31)), FLOW_CONTROL_ERROR),
    'too small frame size': (frame(SETTINGS, struct.pack('>HI', 5, 16383)), PROTOCOL_ERROR),
    'enable push 2': (frame(SETTINGS, struct.pack('>HI', 2, 2)), PROTOCOL_ERROR),
    'frame larger than agreed': (frame(DATA, b'x' * 16385, 0, 1), FRAME_SIZE_ERROR),
    'push from a client': (frame(PUSH, b'\0\0\0\2\x82', END_HEADERS, 1), PROTOCOL_ERROR),
    'continuation without headers': (frame(CONTINUATION, b'\x82', END_HEADERS, 1), PROTOCOL_ERROR),
    'broken compression': (frame(HEADERS, b'\xff\xff\xff\xff\xff\xff', END_HEADERS, 1), COMPRESSION_ERROR),
    'padding longer than the frame': (frame(DATA, b'\xff123', 8, 1), PROTOCOL_ERROR),
    'frame between headers and continuation': (frame(HEADERS, b'\x82', 0, 1) + frame(PING, b'12345678'), PROTOCOL_ERROR),
    'headers of another stream between': (frame(HEADERS, b'\x82', 0, 1) + frame(CONTINUATION, b'\x84', END_HEADERS, 3), PROTOCOL_ERROR),
}


@pytest.mark.parametrize('name', CONNECTION_ERRORS)
def test_connection_errors(server, name):
    s = make(server)
    raw = Raw(s)
    data, code = CONNECTION_ERRORS[name]
    raw.send(data)
    assert raw.goaway() in (code, PROTOCOL_ERROR)
    raw.socket.shutdown(socket.SHUT_WR)
    assert raw.closes()
    assert Raw(s).works(1)


def test_stream_identifiers_must_grow(server):
    s = make(server)
    raw = Raw(s)
    assert raw.works(5)
    raw.headers(3, get_fields('/text?late'))
    raw.send(frame(PING, b'12345678'))
    got = raw.until(lambda kind, flags, of, _: kind in (PING, GOAWAY) or of == 3)
    assert got[0] == PING or (got[0] == GOAWAY and int.from_bytes(got[3][4:8], 'big') in (PROTOCOL_ERROR, STREAM_CLOSED))
    assert 'late' not in s.log('access.log')


def test_unknown_frames_are_ignored(server):
    s = make(server)
    raw = Raw(s)
    raw.send(frame(0x20, b'whatever', 0xff, 77) + frame(PRIORITY, b'\0\0\0\0\x10', 0, 1) + frame(SETTINGS, struct.pack('>HI', 0xf000, 1)))
    assert raw.works(1)


def test_padded_frames(server):
    s = server('server { listen @SOCK@; location / { fastcgi_pass unix:@DIR@/origin.sock; } }')
    peer = Peer(s.directory / 'origin.sock', lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\n' + r.body)))
    try:
        raw = Raw(s)
        encoded = raw.encoder.encode(get_fields('/', 'POST'))
        raw.send(frame(HEADERS, b'\x08' + encoded + b'\0' * 8, END_HEADERS | 8, 1))
        for _ in range(100):  # Padding counts for flow control: it is given back, too.
            raw.send(frame(DATA, b'\xff' + b'ab' + b'\0' * 255, 8, 1))
        raw.send(frame(DATA, b'\0', END_STREAM | 8, 1))
        assert raw.head(1)[':status'] == '200' and raw.body(1) == b'ab' * 100
    finally:
        peer.close()


def test_ping_is_answered(server):
    s = make(server)
    raw = Raw(s)
    raw.send(frame(PING, b'abcdefgh'))
    assert raw.until(lambda kind, *_: kind == PING)[1:] == (ACK, 0, b'abcdefgh')


# --- Floods.

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
    with open(f'/proc/{s.workers_pids()[0]}/statm') as file:
        assert int(file.read().split()[1]) * 4096 < 300 << 20


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
    raw.headers(1, get_fields(), 0)  # And never the rest.
    assert raw.closes()


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

"""Clients that make work for nothing: bounded, and others are unaffected. Cases 21 and 22 of the field among them.

While an attack goes on another client asks on a connection of its own and is answered each time; in the end the worker's memory has hardly
grown, and what it did for the attacker is counted. In clear and over TLS."""
import struct
from pathlib import Path

import pytest
from fastcgi_peer import Peer, answer
from harness import Http2, wait_until
from raw_http2 import (DATA, HEADERS, PRIORITY, RST, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION, PRIORITY_UPDATE, END_STREAM, END_HEADERS,
                       ACK, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, CANCEL, ENHANCE_YOUR_CALM, frame, get_fields, Raw)

SITE = '''server { listen @SOCK@; root @DIR@/www; client_max_body_size 0; send_timeout 1; %s
  location /text { return 200 "$request_method"; } location /status { stub_status; } location /body { fastcgi_pass unix:@DIR@/origin.sock; }
  location /slow { auth_request /wait; fastcgi_pass unix:@DIR@/origin.sock; } location /wait { fastcgi_pass unix:@DIR@/wait.sock; } }'''


def u32(*values):
    return struct.pack('>' + 'I' * len(values), *values)


@pytest.fixture(params=['clear', 'TLS'])
def attack(server, request):
    """An attacker's connection; afterwards attack.over(most) checks what else is to be checked."""
    tls = request.param == 'TLS'
    s = server(SITE % getattr(request.module, 'MORE', ''), tls=True)
    s.file('big.bin', b'x' * (4 << 20))
    s.file('a.bin', b'x' * 100_000)
    peer = Peer(s.directory / 'origin.sock', lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\n%d' % len(r.body))))
    waiting = Peer(s.directory / 'wait.sock', lambda r: r.connection.recv(1))  # No verdict: bodies are not read meanwhile.
    made = Attack(s, tls)
    yield made
    made.raw.socket.close()
    peer.close()
    waiting.close()


class Attack:
    MEMORY = 24 << 20  # What a worker may grow by meanwhile.

    def __init__(self, s, tls):
        self.s, self.tls = s, tls
        self.other = s.connect('h2')
        self.served = 0
        self.serve()
        # An address sanitizer keeps what was freed.
        self.keeps_freed = 'libasan' in Path(f'/proc/{s.worker()}/maps').read_text()
        self.memory = self.resident()
        self.requests = self.count()
        self.raw = self.connect()

    def connect(self, *more):
        return Raw(self.s, *more, tls=self.tls)

    def resident(self):
        with open(f'/proc/{self.s.worker()}/statm') as file:
            return int(file.read().split()[1]) * 4096

    def count(self):
        return int(self.other.request('/status').body.split(b'\n')[2].split()[2])

    def serve(self):
        """The other client is answered."""
        r = self.other.request('/text')
        assert (r.status, r.body) == (200, b'GET')
        self.served += 1

    def flood(self, data, codes=(ENHANCE_YOUR_CALM,), most=4000):
        """Sends data until the server has had enough, with other requests in between; it ends the connection with one of codes. data:
        bytes, or a function of the round's number."""
        sent = 0
        while self.raw.send(data(sent) if callable(data) else data) and not self.raw.over():
            sent += 1
            assert sent < most, 'not closed'
            if sent % 10 == 0:
                self.serve()
        said = [int.from_bytes(payload[4:8], 'big') for kind, _, _, payload in self.raw.frames if kind == GOAWAY]
        if not said:
            said = [self.raw.goaway()]
        assert said[0] is None or said[0] in codes, said  # The end of the socket may have overtaken the GOAWAY.
        self.raw.socket.close()

    def over(self, requests=1000):
        """requests: how many the attacker may have been given."""
        self.serve()
        assert self.count() - self.requests - self.served <= requests
        assert self.keeps_freed or self.resident() - self.memory < self.MEMORY
        assert '[alert]' not in self.s.log()


def streams(*frames, path='/text', method='GET', flags=END_HEADERS | END_STREAM, count=50):
    """count streams a round, each with frames of (kind, payload, flags) after its head."""
    def make(sent):
        data = b''
        for i in range(count):
            of = 2 * (sent * count + i) + 1
            head = b'\x82\x86\x01\x01x\x04' if method == 'GET' else b'\x83\x86\x01\x01x\x04'
            data += frame(HEADERS, head + bytes([len(path)]) + path.encode(), flags, of)
            data += b''.join(frame(kind, payload, flags_[0] if flags_ else 0, of) for kind, payload, *flags_ in frames)
        return data
    return make


# --- Streams for nothing.

def test_rapid_reset(attack):
    """Case 21: streams opened and reset at once."""
    attack.flood(streams((RST, u32(CANCEL)), path='/big.bin'))
    attack.over()
    wait_until(lambda: b'Active connections: 1 ' in attack.other.request('/status').body, 'the connection to be gone')


@pytest.mark.parametrize('frame_', [(WINDOW, u32(2**31 - 1)), (WINDOW, u32(0)), (HEADERS, b'\x00\1a\1b', END_HEADERS)], ids=['window', 'window of 0', 'trailers'])
def test_made_you_reset(attack, frame_):
    """The same, but the client's own frames make the server reset."""
    attack.flood(streams(frame_, path='/big.bin', method='POST', flags=END_HEADERS, count=20), (ENHANCE_YOUR_CALM, PROTOCOL_ERROR), 100)
    attack.over()


def test_more_streams_than_allowed(attack):
    """Refused; not for ever."""
    attack.flood(streams(path='/body', method='POST', flags=END_HEADERS))
    attack.over()


def test_a_page_left_at_once_is_no_flood(attack):
    """A browser that leaves a page cancels what it has asked for; a proxy's visitors do so now and then, for hours."""
    attack.raw.send(streams((RST, u32(CANCEL)), path='/big.bin', count=120)(0))
    for i in range(500):
        assert attack.raw.works(1001 + 4 * i)
        if i % 5 == 0:
            attack.raw.send(streams((RST, u32(CANCEL)), path='/big.bin', count=1)((1002 + 4 * i) // 2))
    attack.over(1350)


# --- Frames for nothing.

HEAD = frame(HEADERS, b'\x83\x86\x01\x01x\x04\x05/body', END_HEADERS, 1)


@pytest.mark.parametrize('name,data', {
    'ping': frame(PING, b'12345678'),
    'settings': frame(SETTINGS),
    'settings with values': frame(SETTINGS, struct.pack('>HI', 4, 65535) * 10),
    'settings ack': frame(SETTINGS, b'', ACK),
    'priority': frame(PRIORITY, u32(0) + b'\x10', 0, 1),
    'priority of streams to come': b''.join(frame(PRIORITY, u32(0) + b'\x10', 0, 2 * i + 5) for i in range(100)),
    'priority update': frame(PRIORITY_UPDATE, u32(1) + b'u=1'),
    'priority update of streams to come': b''.join(frame(PRIORITY_UPDATE, u32(2 * i + 5) + b'u=1') for i in range(100)),
    'empty data': frame(DATA, b'', 0, 1),
    'data of padding': frame(DATA, b'\0', 8, 1),
    'window updates': frame(WINDOW, u32(1)),
    'window updates of a stream': frame(WINDOW, u32(1), 0, 1),
    'unknown frames': frame(0x30, b''),
}.items(), ids=lambda value: value if isinstance(value, str) else '')
def test_frames_for_nothing(attack, name, data):
    """Each is of a kind that honest clients send, now and then."""
    attack.raw.send(HEAD)
    attack.flood(data * (1 if len(data) > 1000 else 100), [ENHANCE_YOUR_CALM] + [PROTOCOL_ERROR] * (name == 'settings ack'))
    attack.over(5)


def test_unread_answers_are_bounded(attack):
    """PING and SETTINGS of a client that reads nothing, slowly: their answers wait in bounded memory."""
    for i in range(300):
        if not attack.raw.send(frame(PING, b'12345678') * 2):
            break
        if i % 10 == 0:
            attack.serve()
    attack.over(5)


def test_what_honest_clients_send(attack):
    """A tree of priorities, settings, pings, updates of the window for each frame read, small DATA frames of an interactive upload."""
    raw = attack.raw
    raw.send(b''.join(frame(PRIORITY, u32(0) + bytes([weight]), 0, 2 * i + 3) for i, weight in enumerate((200, 100, 0, 0, 240))))
    raw.send(frame(SETTINGS, struct.pack('>HI', 4, 131072)) + frame(WINDOW, u32(12_517_377)) + frame(0x1a, b'grease'))
    for i in range(20):
        of = 101 + 2 * i
        raw.headers(of, get_fields('/a.bin', priority='u=1, i'))
        raw.send(frame(PRIORITY_UPDATE, u32(of) + b'u=2') + frame(PING, b'12345678'))
        ended = False
        while not ended:
            kind, flags, _, payload = raw.until(lambda kind, flags, stream, _: kind == DATA and stream == of)
            ended = flags & END_STREAM
            if payload:
                raw.send(frame(WINDOW, u32(len(payload)), 0, of) + frame(WINDOW, u32(len(payload))))
    raw.headers(1001, get_fields('/body', 'POST'), END_HEADERS)
    for _ in range(3000):
        raw.send(frame(DATA, b'x', 0, 1001))
    raw.send(frame(DATA, b'', END_STREAM, 1001))
    assert raw.body(1001) == b'3000'
    attack.over(30)


# --- Heads.

def literal(size, index=0):
    value, length = b'v' * size, size - 127
    encoded = b'\x7f'
    while length >= 128:
        encoded += bytes([length % 128 + 128])
        length //= 128
    return bytes([index, 1]) + b'a' + encoded + bytes([length]) + value


@pytest.mark.parametrize('piece', [b'', b'\x00\x01a\x01b', literal(2000), literal(16000)], ids=['empty', 'small', 'large', 'full'])
def test_continuation_flood(attack, piece):
    """Case 22: HEADERS without END_HEADERS, then endless CONTINUATION."""
    attack.raw.send(frame(HEADERS, b'\x82\x86\x01\x01x\x84', 0, 1))
    attack.flood(frame(CONTINUATION, piece, 0, 1), most=200)
    attack.over(1)


def bomb(stream, references):
    """4 kB put into the compression table once, and named often by one byte each."""
    first = b'\x82\x86\x01\x01x\x84' + literal(4000, 0x40)
    return frame(HEADERS, (first if stream == 1 else b'\x82\x86\x01\x01x\x84') + b'\xbe' * references, END_HEADERS | END_STREAM, stream)


def test_compression_bomb(attack):
    """Lists of 60 MB in 16 kB: they are not stored, and not decoded many times."""
    attack.flood(lambda sent: bomb(2 * sent + 1, 12000), most=30)
    attack.over(30)


def test_lists_that_are_too_large(attack):
    """Each is answered; a page's worth of them is no attack, thousands are."""
    raw = attack.raw
    for i in range(60):
        raw.send(bomb(2 * i + 1, 9))
        assert raw.head(2 * i + 1)[':status'] == '431'
    attack.flood(lambda sent: b''.join(bomb(2 * (sent * 10 + i) + 1001, 9) for i in range(10)))
    attack.over()


# --- Bodies, windows, slow readers.

def test_data_without_credit(attack):
    """More than the windows of a body that nobody reads yet."""
    attack.raw.headers(1, get_fields('/slow', 'POST'), END_HEADERS)
    attack.flood(frame(DATA, b'x' * 16384, 0, 1) * 10, (STREAM_CLOSED, FLOW_CONTROL_ERROR), 100)
    attack.over(5)


def test_windows_that_are_never_opened(attack):
    """Hundreds of responses that cannot be sent: they are not read, and end after send_timeout."""
    raw = attack.connect(struct.pack('>HI', 4, 0))
    for i in range(128):
        raw.headers(2 * i + 1, get_fields('/big.bin'))
        if i % 10 == 0:
            attack.serve()
    assert len([0 for i in range(128) if raw.until(lambda kind, *_: kind == HEADERS)]) == 128
    attack.over(200)
    assert raw.reset(1) == CANCEL


def test_windows_of_a_byte(attack):
    """A response in pieces of one byte: as slow as its client wants to have it, and no one else's business."""
    raw = attack.connect(struct.pack('>HI', 4, 1))
    for i in range(50):
        raw.headers(2 * i + 1, get_fields('/big.bin'))
    for i in range(1000):
        raw.send(frame(WINDOW, u32(1), 0, 2 * (i % 50) + 1))
        if i % 10 == 0:
            attack.serve()
    got = 0
    while got < 1050:
        got += len(raw.until(lambda kind, *_: kind == DATA)[3])
    attack.over(60)


def test_a_client_that_reads_nothing(attack):
    """Its windows are wide open and 128 large files are asked for: the socket is full, the rest waits unread."""
    raw = attack.connect(struct.pack('>HI', 4, 2**31 - 1))
    raw.send(frame(WINDOW, u32(2**31 - 1 - 65535)))
    for i in range(128):
        raw.headers(2 * i + 1, get_fields('/big.bin'))
        attack.serve()
    attack.over(200)

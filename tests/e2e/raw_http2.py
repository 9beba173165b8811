"""Raw HTTP/2: frames as bytes in both directions, for what no library would send."""
import ssl
import struct

import hpack
from harness import connect_to, tls_context

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
PRIORITY_UPDATE = 16
END_STREAM, END_HEADERS, ACK, PADDED, HAS_PRIORITY = 1, 4, 1, 8, 32
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR = 0, 1, 2, 3, 5, 6
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

    def __init__(self, s, settings=b'', preface=True, tls=False):
        self.socket = connect_to(s.tls_path if tls else s.socket_path)
        if tls:
            self.socket = tls_context('h2').wrap_socket(self.socket, server_hostname='localhost')
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.buffer, self.frames = b'', []
        if preface:
            self.send(PREFACE + frame(SETTINGS, settings))

    def send(self, data):
        """False when the server has closed."""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            return False

    def headers(self, stream, fields, flags=END_HEADERS | END_STREAM):
        return self.send(frame(HEADERS, self.encoder.encode(fields), flags, stream))

    def over(self):
        """Takes in what has come, without waiting; True when the server has ended the connection."""
        self.socket.settimeout(0)
        try:
            while data := self.socket.recv(65536):
                self.buffer += data
        except (BlockingIOError, ssl.SSLWantReadError):
            data = None
        except (ConnectionResetError, ssl.SSLError):
            data = b''
        self.socket.settimeout(20)
        while len(self.buffer) >= 9 and len(self.buffer) >= 9 + int.from_bytes(self.buffer[:3], 'big'):
            if self.read()[0] == GOAWAY:
                return True
        return data == b''

    def read(self):
        """The next frame; None at the end."""
        def need(count):
            while len(self.buffer) < count:
                try:
                    data = self.socket.recv(65536)
                except (ConnectionResetError, ssl.SSLEOFError):
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

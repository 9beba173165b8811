"""HTTP/2 that is wrong: malformed requests are the stream's error, wrong frames the connection's."""
import socket
import struct

import pytest
from fastcgi_peer import Peer, answer
from harness import Http2
from raw_http2 import (DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION, END_STREAM, END_HEADERS,
                       ACK, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR, COMPRESSION_ERROR, frame,
                       get_fields, Raw, make)


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

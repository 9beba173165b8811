"""RFC 9113 (and RFC 7541), frame by frame: what is an error of the connection, what of the stream, what is answered, what is ignored. A
table; in clear, and every few rows over TLS."""
import shutil
import struct
import tempfile
from pathlib import Path

import pytest
from fastcgi_peer import Peer, answer
from harness import Http1, Server
from raw_http2 import (DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION, PRIORITY_UPDATE, END_STREAM,
                       END_HEADERS, ACK, PADDED, HAS_PRIORITY, NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED,
                       FRAME_SIZE_ERROR, CANCEL, COMPRESSION_ERROR, PREFACE, frame, Raw)

SITE = '''server { listen @SOCK@; server_name x; root @DIR@/www; keepalive_timeout 20;
  location /uri { return 200 "$request_method $uri|$args|$http_a|$http_cookie"; }
  location /body { fastcgi_pass unix:@DIR@/origin.sock; } }'''


def lit(name, value=b'', index=0):
    """A literal field without indexing, without Huffman coding (RFC 7541 §6.2.2)."""
    name, value = (t if isinstance(t, bytes) else t.encode('latin-1') for t in (name, value))
    return bytes([index]) + (b'' if index else bytes([len(name)]) + name) + bytes([len(value)]) + value


def fields(*more, method='GET', scheme='http', path='/uri', authority='x', **extra):
    pseudo = [(':method', method), (':scheme', scheme), (':path', path), (':authority', authority)]
    return b''.join(lit(n, v) for n, v in pseudo if v is not None) + b''.join(lit(n, v) for n, v in more)


def heads(*more, stream=1, flags=END_HEADERS | END_STREAM, **extra):
    return frame(HEADERS, fields(*more, **extra), flags, stream)


def block(data, flags=END_HEADERS | END_STREAM, stream=1):
    return frame(HEADERS, data, flags, stream)


def u32(*values):
    return struct.pack('>' + 'I' * len(values), *values)


def setting(key, value):
    return frame(SETTINGS, struct.pack('>HI', key, value))


OPEN = heads(method='POST', path='/body', flags=END_HEADERS)  # Its body is awaited: the stream stays open.
DONE = heads()  # Answered and closed before anything that follows in the table's second part.
POST = dict(method='POST', path='/uri', flags=END_HEADERS)
BODY = dict(method='POST', path='/body', flags=END_HEADERS)


class Want:
    """kind: 'connection' (GOAWAY with code), 'stream' (RST_STREAM with code), 'answer' (status, no reset), 'refused' (status, then
    RST_STREAM with PROTOCOL_ERROR), 'nothing' (ignored)."""

    def __init__(self, kind, value=None, stream=1, body=None):
        self.kind, self.value, self.stream, self.body = kind, value, stream, body


def connection(code):
    return Want('connection', code)


def stream(code, of=1):
    return Want('stream', code, of)


def status(code, of=1, body=None):
    return Want('answer', code, of, body)


BAD = Want('refused', 400)
IGNORED = Want('nothing')

# name: parts sent, what comes of it. Before a second part, stream 1 has been answered and is closed.
FRAMES = {
    # §4.1: frame format.
    'unknown type': ([frame(0x16, b'whatever')], IGNORED),
    'unknown type on a stream': ([OPEN + frame(0xff, b'', 0xff, 1) + frame(DATA, b'abc', END_STREAM, 1)], status(200, body=b'abc')),
    'undefined flags': ([frame(PING, b'12345678', 0x16)], IGNORED),
    'undefined flags of HEADERS': ([heads(flags=END_HEADERS | END_STREAM | 0xd2 & ~HAS_PRIORITY)], status(200)),
    'reserved bit of the stream': ([frame(PING, b'12345678', 0, 1 << 31)], IGNORED),
    'reserved bit of a request': ([heads(stream=1 | 1 << 31)], status(200)),
    # §4.2: sizes.
    'DATA of 2^14': ([OPEN + frame(DATA, b'x' * 16384, END_STREAM, 1)], status(200, body=b'x' * 16384)),
    'DATA of more': ([OPEN + frame(DATA, b'x' * 16385, 0, 1)], connection(FRAME_SIZE_ERROR)),
    'HEADERS of more': ([frame(HEADERS, b'\0' * 16385, END_HEADERS, 1)], connection(FRAME_SIZE_ERROR)),
    'a length beyond all': ([b'\xff\xff\xff\0\0\0\0\0\1'], connection(FRAME_SIZE_ERROR)),
    # §4.3: field blocks.
    'block that cannot be decoded': ([block(b'\x40\0\0\1\xff\xff\xff\xff\xff\xff\xff\xff')], connection(COMPRESSION_ERROR)),
    'frame inside a block': ([heads(flags=END_STREAM) + frame(PRIORITY, u32(0) + b'\0', 0, 1)], connection(PROTOCOL_ERROR)),
    'unknown frame inside a block': ([heads(flags=END_STREAM) + frame(0x16, b'', 0, 1)], connection(PROTOCOL_ERROR)),
    'HEADERS inside a block': ([heads(flags=END_STREAM) + heads(stream=3)], connection(PROTOCOL_ERROR)),
    # §5.1: states. Idle:
    'DATA, idle': ([frame(DATA, b'x', END_STREAM, 1)], connection(PROTOCOL_ERROR)),
    'RST_STREAM, idle': ([frame(RST, u32(CANCEL), 0, 1)], connection(PROTOCOL_ERROR)),
    'WINDOW_UPDATE, idle': ([frame(WINDOW, u32(100), 0, 1)], connection(PROTOCOL_ERROR)),
    'CONTINUATION, idle': ([frame(CONTINUATION, fields(), END_HEADERS, 1)], connection(PROTOCOL_ERROR)),
    'PRIORITY, idle': ([frame(PRIORITY, u32(0) + b'\0', 0, 1) + DONE], status(200)),
    # Half-closed (remote): the request has ended, the answer has not.
    'DATA, half-closed': ([heads(path='/body') + frame(DATA, b'x', END_STREAM, 1)], connection(STREAM_CLOSED)),
    'HEADERS, half-closed': ([heads(path='/body') + heads(path='/body')], connection(STREAM_CLOSED)),
    'CONTINUATION, half-closed': ([heads(path='/body') + frame(CONTINUATION, fields(), END_HEADERS, 1)], connection(PROTOCOL_ERROR)),
    'WINDOW_UPDATE, half-closed': ([heads(path='/body') + frame(WINDOW, u32(1), 0, 1)], status(200)),
    # Closed by RST_STREAM:
    'DATA after RST_STREAM': ([OPEN + frame(RST, u32(CANCEL), 0, 1) + frame(DATA, b'x', END_STREAM, 1)], connection(STREAM_CLOSED)),
    'HEADERS after RST_STREAM': ([OPEN + frame(RST, u32(CANCEL), 0, 1) + heads()], connection(PROTOCOL_ERROR)),
    'CONTINUATION after RST_STREAM': ([OPEN + frame(RST, u32(CANCEL), 0, 1) + frame(CONTINUATION, fields(), END_HEADERS, 1)],
                                      connection(PROTOCOL_ERROR)),
    # Closed by END_STREAM:
    'DATA, closed': ([DONE, frame(DATA, b'x', END_STREAM, 1)], connection(STREAM_CLOSED)),
    'HEADERS, closed': ([DONE, heads()], connection(PROTOCOL_ERROR)),
    'CONTINUATION, closed': ([DONE, frame(CONTINUATION, fields(), END_HEADERS, 1)], connection(PROTOCOL_ERROR)),
    'PRIORITY, closed': ([DONE, frame(PRIORITY, u32(0) + b'\0', 0, 1) + heads(stream=3)], status(200, 3)),
    'WINDOW_UPDATE, closed': ([DONE, frame(WINDOW, u32(1), 0, 1) + heads(stream=3)], status(200, 3)),
    'RST_STREAM, closed': ([DONE, frame(RST, u32(CANCEL), 0, 1) + heads(stream=3)], status(200, 3)),
    # Reset by us: what was on its way is decoded and dropped.
    'frames after our reset': ([OPEN + 2 * frame(WINDOW, u32(2**31 - 1), 0, 1), frame(DATA, b'x', 0, 1) + block(lit('a', 'b')) + heads(stream=3)],
                               status(200, 3)),
    # §5.1.1: identifiers.
    'even identifier': ([heads(stream=2)], connection(PROTOCOL_ERROR)),
    'identifier 0': ([heads(stream=0)], connection(PROTOCOL_ERROR)),
    'lower identifier': ([heads(stream=5) + heads(stream=3)], connection(PROTOCOL_ERROR)),
    'same identifier': ([DONE, DONE], connection(PROTOCOL_ERROR)),
    'highest identifier': ([heads(stream=2**31 - 1)], status(200, 2**31 - 1)),
    # RFC 7540 §5.3.1, for those who still check it.
    'HEADERS that depend on themselves': ([frame(HEADERS, u32(1) + b'\x0f' + fields(), END_HEADERS | END_STREAM | HAS_PRIORITY, 1)],
                                          connection(PROTOCOL_ERROR)),
    'PRIORITY that depends on itself': ([frame(PRIORITY, u32(1) + b'\x0f', 0, 1)], connection(PROTOCOL_ERROR)),
    'HEADERS with a priority': ([frame(HEADERS, u32(0) + b'\x0f' + fields(), END_HEADERS | END_STREAM | HAS_PRIORITY, 1)], status(200)),
    'HEADERS too short for a priority': ([frame(HEADERS, b'\0\0\0', END_HEADERS | END_STREAM | HAS_PRIORITY, 1)],
                                         connection(FRAME_SIZE_ERROR)),
    # §6.1: DATA.
    'DATA on stream 0': ([frame(DATA, b'x')], connection(PROTOCOL_ERROR)),
    'DATA, padded': ([OPEN + frame(DATA, b'\x05abc' + b'\0' * 5, END_STREAM | PADDED, 1)], status(200, body=b'abc')),
    'DATA of padding only': ([OPEN + frame(DATA, b'\0', PADDED, 1) + frame(DATA, b'\x03\0\0\0', END_STREAM | PADDED, 1)], status(200, body=b'')),
    'DATA, too much padding': ([OPEN + frame(DATA, b'\x06abcde', END_STREAM | PADDED, 1)], connection(PROTOCOL_ERROR)),
    'DATA, padding without room': ([OPEN + frame(DATA, b'', END_STREAM | PADDED, 1)], connection(PROTOCOL_ERROR)),
    'DATA, empty and last': ([OPEN + frame(DATA, b'abc', 0, 1) + frame(DATA, b'', END_STREAM, 1)], status(200, body=b'abc')),
    # §6.2: HEADERS.
    'HEADERS, padded': ([frame(HEADERS, b'\x08' + fields() + b'\0' * 8, END_HEADERS | END_STREAM | PADDED, 1)], status(200)),
    'HEADERS, too much padding': ([frame(HEADERS, b'\xff' + fields(), END_HEADERS | END_STREAM | PADDED, 1)], connection(PROTOCOL_ERROR)),
    'HEADERS, empty': ([block(b'')], BAD),
    # §6.3: PRIORITY.
    'PRIORITY on stream 0': ([frame(PRIORITY, u32(1) + b'\x0f')], connection(PROTOCOL_ERROR)),
    'PRIORITY of 4 bytes': ([frame(PRIORITY, u32(0), 0, 1)], connection(FRAME_SIZE_ERROR)),
    # §6.4: RST_STREAM.
    'RST_STREAM on stream 0': ([frame(RST, u32(CANCEL))], connection(PROTOCOL_ERROR)),
    'RST_STREAM of 3 bytes': ([OPEN + frame(RST, b'\0\0\0', 0, 1)], connection(FRAME_SIZE_ERROR)),
    'RST_STREAM with an unknown code': ([OPEN + frame(RST, u32(0xff), 0, 1) + heads(stream=3)], status(200, 3)),
    # §6.5: SETTINGS.
    'SETTINGS on a stream': ([frame(SETTINGS, b'', 0, 1)], connection(PROTOCOL_ERROR)),
    'SETTINGS ack with a payload': ([frame(SETTINGS, b'\0' * 6, ACK)], connection(FRAME_SIZE_ERROR)),
    'SETTINGS of 3 bytes': ([frame(SETTINGS, b'\0\3\0')], connection(FRAME_SIZE_ERROR)),
    'SETTINGS, unknown': ([setting(0xff, 1) + DONE], status(200)),
    'SETTINGS, unexpected ack': ([frame(SETTINGS, b'', ACK) * 2], connection(PROTOCOL_ERROR)),
    'ENABLE_PUSH 2': ([setting(2, 2)], connection(PROTOCOL_ERROR)),
    'INITIAL_WINDOW_SIZE 2^31': ([setting(4, 2**31)], connection(FLOW_CONTROL_ERROR)),
    'MAX_FRAME_SIZE 16383': ([setting(5, 2**14 - 1)], connection(PROTOCOL_ERROR)),
    'MAX_FRAME_SIZE 2^24': ([setting(5, 2**24)], connection(PROTOCOL_ERROR)),
    'MAX_FRAME_SIZE 2^24-1': ([setting(5, 2**24 - 1) + DONE], status(200)),
    'HEADER_TABLE_SIZE 2^32-1': ([setting(1, 2**32 - 1) + DONE], status(200)),
    'ENABLE_CONNECT_PROTOCOL 2': ([setting(8, 2)], connection(PROTOCOL_ERROR)),
    'NO_RFC7540_PRIORITIES 2': ([setting(9, 2)], connection(PROTOCOL_ERROR)),
    # §6.6: PUSH_PROMISE; refused before its payload has come.
    'PUSH_PROMISE': ([frame(PUSH, b'', END_HEADERS, 1, length=4)], connection(PROTOCOL_ERROR)),
    # §6.7: PING.
    'PING on a stream': ([frame(PING, b'12345678', 0, 1)], connection(PROTOCOL_ERROR)),
    'PING of 6 bytes': ([frame(PING, b'123456')], connection(FRAME_SIZE_ERROR)),
    'PING ack': ([frame(PING, b'12345678', ACK) + DONE], status(200)),
    # §6.8: GOAWAY.
    'GOAWAY on a stream': ([frame(GOAWAY, u32(0, 0), 0, 1)], connection(PROTOCOL_ERROR)),
    'GOAWAY of 4 bytes': ([frame(GOAWAY, u32(0))], connection(FRAME_SIZE_ERROR)),
    # §6.9: WINDOW_UPDATE.
    'WINDOW_UPDATE 0': ([frame(WINDOW, u32(0))], connection(PROTOCOL_ERROR)),
    # "An endpoint MAY choose to treat a stream error as a connection error" (§5.4.1): the library does.
    'WINDOW_UPDATE 0 of a stream': ([OPEN + frame(WINDOW, u32(0), 0, 1)], connection(PROTOCOL_ERROR)),
    'WINDOW_UPDATE of 3 bytes': ([frame(WINDOW, b'\0\0\1')], connection(FRAME_SIZE_ERROR)),
    'WINDOW_UPDATE to more than 2^31-1': ([frame(WINDOW, u32(2**31 - 1)) * 2], connection(FLOW_CONTROL_ERROR)),
    'WINDOW_UPDATE of a stream to more': ([OPEN + frame(WINDOW, u32(2**31 - 1), 0, 1) * 2], stream(FLOW_CONTROL_ERROR)),
    # As in nginx; §6.9.2 would have the connection ended.
    'INITIAL_WINDOW_SIZE that overflows a stream': ([OPEN + frame(WINDOW, u32(2**31 - 1 - 65535), 0, 1) + setting(4, 65536)],
                                                    stream(FLOW_CONTROL_ERROR)),
    # §6.10: CONTINUATION.
    'CONTINUATION twice': ([heads(flags=END_STREAM) + frame(CONTINUATION, lit('b', '1'), 0, 1) + frame(CONTINUATION, lit('a', '2'), END_HEADERS, 1)],
                           status(200, body=b'GET /uri||2|')),
    'CONTINUATION in the middle of a field': ([block(fields()[:9], END_STREAM) + frame(CONTINUATION, fields()[9:11], 0, 1) +
                                               frame(CONTINUATION, fields()[11:], END_HEADERS, 1)], status(200)),
    'CONTINUATION on stream 0': ([heads(flags=END_STREAM) + frame(CONTINUATION, b'', END_HEADERS, 0)], connection(PROTOCOL_ERROR)),
    'CONTINUATION of another stream': ([heads(flags=END_STREAM) + frame(CONTINUATION, b'', END_HEADERS, 3)], connection(PROTOCOL_ERROR)),
    'CONTINUATION after the end': ([heads() + frame(CONTINUATION, b'', END_HEADERS, 1)], connection(PROTOCOL_ERROR)),
    'CONTINUATION after DATA': ([OPEN + frame(DATA, b'x', 0, 1) + frame(CONTINUATION, b'', END_HEADERS, 1)], connection(PROTOCOL_ERROR)),
    # RFC 9218 §7.1: PRIORITY_UPDATE.
    'PRIORITY_UPDATE': ([frame(PRIORITY_UPDATE, u32(1) + b'u=1, i') + DONE], status(200)),
    'PRIORITY_UPDATE on a stream': ([frame(PRIORITY_UPDATE, u32(1) + b'u=1', 0, 1)], connection(PROTOCOL_ERROR)),
    'PRIORITY_UPDATE of stream 0': ([frame(PRIORITY_UPDATE, u32(0) + b'u=1')], connection(PROTOCOL_ERROR)),
    'PRIORITY_UPDATE of 3 bytes': ([frame(PRIORITY_UPDATE, b'\0\0\1')], connection(FRAME_SIZE_ERROR)),
    'PRIORITY_UPDATE, nonsense': ([frame(PRIORITY_UPDATE, u32(1) + b'u=99, x"') + DONE], status(200)),
    # RFC 7541 §2.3.3, §6.1: indices.
    'index 0': ([block(b'\x80' + fields())], connection(COMPRESSION_ERROR)),
    'index beyond the table': ([block(b'\xff\x00')], connection(COMPRESSION_ERROR)),
    'name index beyond the table': ([block(b'\x7f\x7f\x01x')], connection(COMPRESSION_ERROR)),
    'index beyond all': ([block(b'\xff' + b'\xff' * 9)], connection(COMPRESSION_ERROR)),
    # §4.2, §6.3: the table's size.
    'table size 0': ([block(b'\x20' + fields())], status(200)),
    'table sizes 0 and 4096': ([block(b'\x20\x3f\xe1\x1f' + fields())], status(200)),
    'table size above the setting': ([block(b'\x3f\xe2\x1f' + fields())], connection(COMPRESSION_ERROR)),
    'table size after a field': ([block(fields() + b'\x20')], connection(COMPRESSION_ERROR)),
    # §5.2: Huffman.
    'padding of 8 bits': ([block(fields() + b'\0\1a\x82\x1f\xff')], connection(COMPRESSION_ERROR)),
    'padding of zeros': ([block(fields() + b'\0\1a\x81\x18')], connection(COMPRESSION_ERROR)),
    'EOS in a string': ([block(fields() + b'\0\1a\x84\xff\xff\xff\xff')], connection(COMPRESSION_ERROR)),
    'string longer than the block': ([block(fields() + b'\0\1a\x05ab')], connection(COMPRESSION_ERROR)),
    'Huffman': ([block(fields() + b'\0\1a\x81\x1f')], status(200, body=b'GET /uri||a|')),
}

REQUESTS = {
    # §8.2: fields.
    'capitals': ([heads(('A', 'b'))], BAD),
    **{f'byte {c:#x} in a name': ([heads((b'a' + bytes([c]), 'b'))], BAD) for c in (0, 0x20, 0x3a, 0x5a, 0x7f, 0x80, 0xff)},
    'no name': ([heads(('', 'b'))], BAD),
    **{f'byte {c:#x} in a value': ([heads(('a', b'b' + bytes([c]) + b'c'))], BAD) for c in (0, 0xa, 0xd)},
    **{f'byte {c:#x} in a value is fine': ([heads(('a', b'b' + bytes([c]) + b'c'))], status(200)) for c in (1, 9, 0x20, 0x7f, 0x80, 0xff)},
    'blanks around a value': ([heads(('a', ' \tb c\t '))], status(200, body=b'GET /uri||b c|')),
    'a name with an underscore': ([heads(('a_', 'b'), ('a', 'c'))], status(200, body=b'GET /uri||c|')),
    'an odd name': ([heads(('a"(', 'b'), ('a', 'c'))], status(200, body=b'GET /uri||c|')),
    'control in a field that nobody knows': ([heads(('x-y', b'\0'))], BAD),
    # §8.2.2: fields of the connection.
    **{f'{name}': ([heads((name, value))], BAD) for name, value in (
        ('connection', 'close'), ('keep-alive', 'x'), ('proxy-connection', 'x'), ('transfer-encoding', 'chunked'), ('upgrade', 'h2c'),
        ('te', 'gzip'), ('te', 'trailers, deflate;q=0.5'))},
    'te: trailers': ([heads(('te', 'trailers'))], status(200)),
    # §8.2.3.
    'cookie crumbs': ([heads(('cookie', 'a=1'), ('a', 'b'), ('cookie', 'c=2'))], status(200, body=b'GET /uri||b|a=1; c=2')),
    # §8.3: pseudo-fields.
    'unknown pseudo-field': ([heads((':x', 'b'))], BAD),
    'pseudo-field of responses': ([heads((':status', '200'))], BAD),
    ':protocol': ([heads((':protocol', 'websocket'))], BAD),
    'pseudo-field after others': ([block(fields(authority=None) + lit('a', 'b') + lit(':authority', 'x'))], BAD),
    **{f'no {name}': ([heads(**{name: None})], BAD) for name in ('method', 'scheme', 'path')},
    **{f'two :{name}': ([block(lit(f':{name}', value) + fields())], BAD)
       for name, value in (('method', 'GET'), ('scheme', 'http'), ('path', '/uri'), ('authority', 'x'))},
    'empty :path': ([heads(path='')], BAD),
    'empty :scheme': ([heads(scheme='')], BAD),
    'bad :scheme': ([heads(scheme='ht tp')], BAD),
    'another :scheme': ([heads(scheme='https')], status(200)),
    'empty :method': ([heads(method='')], BAD),
    'bad :method': ([heads(method='GE T')], status(400)),
    'method that nobody knows': ([heads(method='FOO')], status(200, body=b'FOO /uri|||')),
    'control in :path': ([heads(path='/uri\x02')], status(400)),
    'blank in :path': ([heads(path='/u ri')], status(400)),
    'relative :path': ([heads(path='uri')], status(400)),
    'absolute :path': ([heads(path='http://x/uri')], status(400)),
    '* of OPTIONS': ([heads(method='OPTIONS', path='*')], status(200)),
    '* of GET': ([heads(path='*')], status(400)),
    'fragment in :path': ([heads(path='/uri?a#b')], status(200, body=b'GET /uri|a||')),
    'above the root': ([heads(path='/../uri')], status(400)),
    '%00': ([heads(path='/uri%00')], status(400)),
    # §8.3.1: :authority and Host.
    'neither :authority nor host': ([heads(authority=None)], status(400)),
    'empty :authority': ([heads(authority='')], status(400)),
    'host only': ([heads(('host', 'x'), authority=None)], status(200)),
    'host and :authority': ([heads(('host', 'X'))], status(200)),
    'host and another :authority': ([heads(('host', 'y'))], status(400)),
    'ports of host and :authority': ([heads(('host', 'x:1'), authority='x:2')], status(400)),
    'two hosts': ([heads(('host', 'x'), ('host', 'x'), authority=None)], BAD),
    **{f':authority {host}': ([heads(authority=host)], status(400)) for host in ('a b', 'a/b', 'u@x', 'a:bc', '[::1')},
    # §8.5: CONNECT.
    'CONNECT': ([heads(method='CONNECT', scheme=None, path=None, authority='x:443')], status(405)),
    'CONNECT with :path': ([heads(method='CONNECT', scheme=None, path='/')], BAD),
    'CONNECT with :scheme and :path': ([heads(method='CONNECT')], BAD),
    'CONNECT without :authority': ([heads(method='CONNECT', scheme=None, path=None, authority=None)], status(405)),
    'TRACE': ([heads(method='TRACE')], status(405)),
    # §8.1.1: lengths.
    'content-length and no body': ([heads(('content-length', '1'))], BAD),
    'content-length 0 and no body': ([heads(('content-length', '0'))], status(200)),
    **{f'content-length {value!r}': ([heads(('content-length', value), **BODY)], BAD) for value in ('', '-1', '+1', '1a', '1,1', '1 1', '9' * 30)},
    'two content-lengths': ([heads(('content-length', '1'), ('content-length', '1'), **BODY)], BAD),
    'body': ([heads(('content-length', '3'), **BODY) + frame(DATA, b'abc', END_STREAM, 1)], status(200, body=b'abc')),
    'body in parts': ([heads(('content-length', '3'), **BODY) + frame(DATA, b'ab', 0, 1) + frame(DATA, b'c', 0, 1) + frame(DATA, b'', END_STREAM, 1)],
                      status(200, body=b'abc')),
    'shorter body': ([heads(('content-length', '3'), **BODY) + frame(DATA, b'ab', END_STREAM, 1)], BAD),
    'longer body': ([heads(('content-length', '3'), **BODY) + frame(DATA, b'ab', 0, 1) + frame(DATA, b'cd', 0, 1)], BAD),
    'longer body, nobody reads it': ([heads(('content-length', '1'), **POST) + frame(DATA, b'ab', 0, 1)], stream(PROTOCOL_ERROR)),
    'shorter body, nobody reads it': ([heads(('content-length', '3'), **POST) + frame(DATA, b'ab', END_STREAM, 1)], stream(PROTOCOL_ERROR)),
    # §8.1: trailers.
    'trailers': ([OPEN + frame(DATA, b'ab', 0, 1) + block(lit('a', 'b'))], status(200, body=b'ab')),
    'trailers and no body': ([heads(('content-length', '0'), **BODY) + block(lit('a', 'b'))], status(200, body=b'')),
    'trailers that do not end': ([OPEN + frame(DATA, b'ab', 0, 1) + block(lit('a', 'b'), END_HEADERS)], BAD),
    'trailers with a pseudo-field': ([OPEN + frame(DATA, b'ab', 0, 1) + block(lit(':path', '/'))], BAD),
    'trailers with capitals': ([OPEN + frame(DATA, b'ab', 0, 1) + block(lit('A', '/'))], BAD),
    'trailers, and less than the length': ([heads(('content-length', '3'), **BODY) + frame(DATA, b'ab', 0, 1) + block(lit('a', 'b'))], BAD),
    'DATA after trailers': ([OPEN + block(lit('a', 'b')) + frame(DATA, b'x', 0, 1)], connection(STREAM_CLOSED)),
}

ROWS = {**FRAMES, **REQUESTS}
SECURE = set(list(ROWS)[::6])


@pytest.fixture(scope='module')
def site():
    path = Path(tempfile.mkdtemp(prefix='core-', dir='/tmp'))
    s = Server(path, SITE, tls=True)
    peer = Peer(s.directory / 'origin.sock', lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\n' + r.body)))
    yield s
    peer.close()
    log = s.log()
    s.stop()
    assert '[alert]' not in log and 'broken invariant' not in log
    shutil.rmtree(path, ignore_errors=True)


def is_end(kind, flags, of, wanted):
    return of == wanted and (kind == RST or (kind in (DATA, HEADERS) and flags & END_STREAM))


@pytest.mark.parametrize('name', list(ROWS) + [name + ', over TLS' for name in SECURE])
def test_row(site, name):
    tls = name.endswith(', over TLS')
    parts, want = ROWS[name.removesuffix(', over TLS')]
    raw = Raw(site, tls=tls)
    for part in parts[:-1]:
        raw.send(part)
        assert raw.until(lambda kind, flags, of, _: is_end(kind, flags, of, 1))
    del raw.frames[:]
    raw.send(parts[-1])
    if want.kind == 'connection':
        raw.until(lambda kind, *_: kind == GOAWAY)
        assert raw.frames[-1][0] == GOAWAY and int.from_bytes(raw.frames[-1][3][4:8], 'big') == want.value, raw.frames
        assert raw.closes()
        return
    if want.kind != 'nothing':
        raw.until(lambda kind, flags, of, _: kind == GOAWAY or is_end(kind, flags, of, want.stream))
    if want.kind in ('refused', 'stream') and raw.frames[-1][0] != RST:
        raw.until(lambda kind, flags, of, _: kind == RST and of == want.stream)
    raw.send(frame(PING, b'the last'))  # The connection goes on.
    assert raw.until(lambda kind, flags, of, payload: kind == GOAWAY or payload == b'the last')[0] == PING, raw.frames
    statuses = [int(dict(p)[':status']) for kind, _, of, p in raw.frames if kind == HEADERS and of == want.stream]
    resets = [int.from_bytes(p, 'big') for kind, _, of, p in raw.frames if kind == RST and of == want.stream]
    if want.kind == 'stream':
        assert resets == [want.value], raw.frames
    elif want.kind == 'refused':
        assert (statuses, resets) == ([want.value], [PROTOCOL_ERROR]), raw.frames
    elif want.kind == 'answer':
        assert statuses == [want.value] and all(code == NO_ERROR for code in resets), raw.frames
        if want.body is not None:
            assert b''.join(p for kind, _, of, p in raw.frames if kind == DATA and of == want.stream) == want.body
    else:
        assert not statuses and not resets, raw.frames


# §3.4: the preface.

@pytest.mark.parametrize('start', [b'INVALID CONNECTION PREFACE\r\n\r\n', b'PRI * HTTP/2.0\r\n\r\nxxxxxxxx'])
def test_something_else_than_the_preface(site, start):
    client = Http1(site.socket_path)
    client.send(start)
    assert client.rest().startswith((b'HTTP/1.1 400', b'HTTP/1.1 405', b'HTTP/1.1 505'))
    raw = Raw(site, preface=False, tls=True)
    raw.send(start + b'\r\n' * 20)
    assert raw.closes()


@pytest.mark.parametrize('first', [frame(PING, b'12345678'), frame(SETTINGS, b'', ACK), heads()])
def test_something_else_than_settings_first(site, first):
    raw = Raw(site, preface=False)
    raw.send(PREFACE + first)
    assert raw.goaway() == PROTOCOL_ERROR and raw.closes()


def test_our_preface(site):
    """SETTINGS first, once; the client's are acknowledged, also after an error in a stream and not after one in them."""
    raw = Raw(site, preface=False)
    raw.send(PREFACE)
    kind, flags, of, payload = raw.read()
    assert (kind, flags, of) == (SETTINGS, 0, 0)
    assert dict(struct.unpack('>HI', payload[i:i + 6]) for i in range(0, len(payload), 6)) == {3: 128, 4: 65536, 6: 32768, 9: 1}
    raw.send(frame(SETTINGS) + frame(PING, b'12345678'))
    assert [raw.read()[:2] for _ in range(3)] == [(WINDOW, 0), (SETTINGS, ACK), (PING, ACK)]
    raw.send(setting(5, 42))
    assert raw.read()[0] == GOAWAY


def test_the_last_stream_of_a_goaway(site):
    for data, last in ((heads(stream=2), 0), (DONE + heads(stream=3) + b'\xff' * 9, 3), (heads(stream=7) + block(b'\x80', stream=9), 9)):
        raw = Raw(site)
        raw.send(data)
        assert int.from_bytes(raw.until(lambda kind, *_: kind == GOAWAY)[3][:4], 'big') == last


def test_window_sizes_may_be_negative(site):
    site.file('a.bin', b'x' * 1000)
    raw = Raw(site, struct.pack('>HI', 4, 3))
    raw.send(heads(path='/a.bin'))
    assert raw.until(lambda kind, *_: kind == DATA)[3] == b'xxx'
    raw.send(setting(4, 2) + frame(WINDOW, u32(2), 0, 1))  # -1, then 1.
    assert raw.until(lambda kind, *_: kind == DATA)[3] == b'x'

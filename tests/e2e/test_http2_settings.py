"""HTTP/2's own directives, its variables and log lines, and RFC 9218: which response goes first."""
import struct

import pytest
from harness import Http2, old
from raw_http2 import (DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW, PRIORITY_UPDATE, END_STREAM, END_HEADERS, ACK, PROTOCOL_ERROR,
                       REFUSED_STREAM, frame, get_fields, Raw)

SITE = '''server { listen @SOCK@; root @DIR@/www; %s location /text { return 200 "$http2 $server_protocol"; }
  location /chunk { http2_chunk_size 1; return 200 body; } location /eight { http2_chunk_size 8k; alias @DIR@/www; } location /large { http2_chunk_size 64k; alias @DIR@/www; }
  location /origin { fastcgi_pass unix:@DIR@/none.sock; } }'''


def u32(*values):
    return struct.pack('>' + 'I' * len(values), *values)


def make(server, more='', **options):
    s = server(SITE % more, **options)
    old(s.file('p.bin', b'x' * 30_000))  # Small and old: from the content cache, at once.
    old(s.file('big.bin', b'x' * 65_616))
    return s


# --- Directives.

def test_limit_of_streams(server):
    """Announced, refused beyond it whether the limit is acknowledged or not, and the refused ones' fields are in the compression state."""
    s = make(server, 'http2_max_concurrent_streams 1;')
    for acknowledge in (False, True):
        raw = Raw(s)
        payload = raw.until(lambda kind, *_: kind == SETTINGS)[3]
        assert {k: v for k, v in struct.iter_unpack('>HI', payload)}[3] == 1
        if acknowledge:
            raw.send(frame(SETTINGS, b'', ACK))
        raw.headers(1, get_fields('/big.bin'))
        assert raw.head(1)[':status'] == '200'
        for stream in (3, 5):
            raw.headers(stream, get_fields('/text', **{'x-own': f'v{stream}'}))
            assert raw.reset(stream) == REFUSED_STREAM
        raw.send(frame(WINDOW, u32(10_000)) + frame(WINDOW, u32(10_000), 0, 1))
        raw.body(1)
        raw.headers(7, get_fields('/text', **{'x-own': 'v3'}))
        assert raw.head(7)[':status'] == '200'


def lengths(raw, stream):
    found = []
    while True:
        kind, flags, _, payload = raw.until(lambda kind, flags, of, _: kind == DATA and of == stream)
        found.append(len(payload))
        if flags & END_STREAM or sum(found) == 65535:
            return found


def test_chunk_size(server):
    s = make(server)
    raw = Raw(s)
    raw.headers(1, get_fields('/big.bin'))
    assert lengths(raw, 1) == [8192] * 7 + [8191]
    raw.send(frame(WINDOW, u32(100_000)))
    raw.headers(5, get_fields('/eight/big.bin'))
    assert lengths(raw, 5) == [8192] * 7 + [8191]
    raw.headers(7, get_fields('/chunk'))
    assert lengths(raw, 7) == [1] * 4
    for settings, first in ((b'', 16384), (struct.pack('>HI', 5, 32768), 32768)):
        raw = Raw(s, settings + struct.pack('>HI', 4, 200_000))
        raw.send(frame(WINDOW, u32(200_000)))
        raw.headers(1, get_fields('/large/big.bin'))
        assert raw.until(lambda kind, *_: kind == DATA)[3] == b'x' * first


def test_body_preread_size(server):
    s = make(server, 'http2_body_preread_size 10;')
    raw = Raw(s)
    payload = raw.until(lambda kind, *_: kind == SETTINGS)[3]
    assert {k: v for k, v in struct.iter_unpack('>HI', payload)}[4] == 10
    raw.send(frame(SETTINGS, b'', ACK))
    raw.headers(1, get_fields('/text', 'POST'), END_HEADERS)
    raw.send(frame(DATA, b'12345678901', 0, 1))  # Nobody has opened the window.
    assert raw.reset(1) == 3
    raw.headers(3, get_fields('/origin', 'POST') + [('content-length', '100')], END_HEADERS)
    assert raw.until(lambda kind, flags, of, _: kind == WINDOW and of == 3)
    raw.send(frame(DATA, b'x' * 100, END_STREAM, 3))
    assert raw.head(3)[':status'] == '502'


def test_obsolete_directives(server):
    s = make(server, 'http2_push on; http2_max_field_size 4k; http2_max_header_size 16k; http2_recv_timeout 30s; http2_idle_timeout 3m; '
             'http2_max_requests 1000; http2_push_preload on; http2_max_concurrent_pushes 10; http2_pool_size 4k; http2_streams_index_size 32;',
             start=False)
    code, said = s.test()
    assert code == 0, said
    for name, instead in (('http2_max_field_size', 'large_client_header_buffers'), ('http2_max_header_size', 'large_client_header_buffers'),
                          ('http2_recv_timeout', 'client_header_timeout'), ('http2_idle_timeout', 'keepalive_timeout'),
                          ('http2_max_requests', 'keepalive_requests')):
        assert f'the "{name}" directive is obsolete, use the "{instead}" directive instead' in said
    for name in ('http2_push', 'http2_push_preload', 'http2_max_concurrent_pushes'):
        assert f'the "{name}" directive is obsolete, ignored' in said
    for wrong in ('http2_max_concurrent_streams 0;', 'http2_chunk_size x;', 'http2_body_preread_size;'):
        s.write_config(SITE % wrong)
        assert s.test()[0] == 1


def test_what_a_request_says_of_itself(server):
    s = make(server, tls=True)
    for client, name in ((Http2(s.socket_path), b'h2c'), (s.connect('h2'), b'h2')):
        assert client.request('/text').body == name + b' HTTP/2.0'
    assert s.get('/text', 'h1').body == b' HTTP/1.1'
    s.wait_log('"GET /text HTTP/2.0" 200 12 ', 'access.log')


# --- Timeouts.

def test_a_head_that_comes_too_late(server):
    """The request is reset, the connection goes on."""
    s = make(server, 'client_header_timeout 100ms;')
    raw = Raw(s)
    data = frame(HEADERS, raw.encoder.encode(get_fields('/text')), END_HEADERS | END_STREAM, 1)
    raw.send(data[:12])
    assert raw.reset(1) == PROTOCOL_ERROR
    raw.send(data[12:] + frame(PING, b'12345678'))
    assert raw.until(lambda kind, *_: kind in (PING, HEADERS, GOAWAY))[0] == PING
    assert raw.works(3)


def test_a_body_that_comes_too_late(server):
    s = make(server, 'client_body_timeout 100ms;')
    raw = Raw(s)
    raw.headers(1, get_fields('/origin', 'POST'), END_HEADERS)
    raw.send(frame(DATA, b'TEST', END_STREAM, 1)[:10])
    assert raw.head(1)[':status'] == '408' and raw.reset(1) == PROTOCOL_ERROR
    raw.send(b'EST' + frame(PING, b'12345678'))
    assert raw.until(lambda kind, *_: kind in (PING, GOAWAY))[0] == PING


# --- RFC 9218.

def ask(raw, priorities, path='/p.bin'):
    """One request per priority (None: says nothing), all at once: streams 1, 3, 5…"""
    raw.send(b''.join(frame(HEADERS, raw.encoder.encode(get_fields(path, **({} if said is None else {'priority': said}))),
                            END_HEADERS | END_STREAM, 2 * i + 1) for i, said in enumerate(priorities)))


def order(raw, total):
    """The streams whose DATA makes up total bytes, in order; repetitions left out."""
    seen = []
    while total > 0:
        _, _, of, payload = raw.until(lambda kind, *_: kind == DATA)
        total -= len(payload)
        if payload and seen[-1:] != [of]:
            seen.append(of)
    return seen


@pytest.mark.parametrize('said,wanted', [
    (['u=7', 'u=0', 'u=3'], [3, 5, 1]),
    (['u=2', 'u=2', 'u=2'], [1, 3, 5]),
    (['u=4, i', None, 'u=2'], [5, 3, 1]),
    (['i', 'u=1', 'nonsense, u=9'], None)])
def test_urgent_responses_go_first(server, said, wanted):
    s = make(server)
    s.get('/p.bin')
    raw = Raw(s)
    raw.send(frame(WINDOW, u32(30_000)))
    ask(raw, said)
    seen = order(raw, 90_000)
    if wanted is None:
        assert seen[0] == 3 and set(seen) == {1, 3, 5}
    else:
        assert seen == wanted


@pytest.mark.parametrize('said', ['u=3, i', None])
def test_incremental_responses_share(server, said):
    """Also those of clients that say nothing: a small response must not wait for a large one."""
    s = make(server)
    s.get('/p.bin')
    raw = Raw(s)
    ask(raw, [said, said])
    assert order(raw, 60_000) == [1, 3] * 4


def test_priority_update(server):
    s = make(server)
    s.get('/p.bin')
    raw = Raw(s, struct.pack('>HI', 4, 0))
    # Before its request, which says otherwise; and of requests that wait for windows.
    raw.send(frame(PRIORITY_UPDATE, u32(5) + b'u=1'))
    ask(raw, ['u=3', 'u=3', 'u=6', 'u=2'])
    for stream in (1, 3, 5, 7):
        raw.head(stream)
    raw.send(frame(PRIORITY_UPDATE, u32(3) + b'u=0') + frame(PRIORITY_UPDATE, u32(7) + b'u=7') +
             frame(SETTINGS, struct.pack('>HI', 4, 30_000)) + frame(WINDOW, u32(60_000)))
    assert order(raw, 120_000) == [3, 5, 1, 7]

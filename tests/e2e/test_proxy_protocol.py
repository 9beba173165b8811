"""listen … proxy_protocol: both versions, before HTTP/1 and HTTP/2."""
import socket
import struct

import h2.config
import h2.connection
import pytest
from harness import DEADLINE, Http1, Http2, PatientH2, free_port, wait_until

SIGNATURE = b'\r\n\r\n\0\r\nQUIT\n'
V1 = b'PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n'
SHOW = ('return 200 "$remote_addr|$remote_port|$proxy_protocol_addr|$proxy_protocol_port|$proxy_protocol_server_addr|$proxy_protocol_server_port";')
NONE = 'unix:|||||'


def v2(command=1, family=0x11, body=b''):
    return SIGNATURE + bytes([0x20 | command, family]) + struct.pack('!H', len(body)) + body


V2 = v2(body=bytes([192, 0, 2, 1, 198, 51, 100, 2]) + struct.pack('!HH', 56324, 443))
V2_6 = v2(family=0x21, body=socket.inet_pton(socket.AF_INET6, '2001:db8::1') + socket.inet_pton(socket.AF_INET6, '::1') + struct.pack('!HH', 1, 2))


def tlv(kind, value):
    return struct.pack('!BH', kind, len(value)) + value


@pytest.fixture
def connect(protocol):
    """connect(server, header, pieces) → a client that has sent header and its first request's bytes in pieces of that size."""
    def make(s, header, piece=None, address=None):
        if protocol == 'h1':
            client = Http1(address or s.socket_path)
        else:
            client = Http2.__new__(Http2)
            family = socket.AF_INET if address else socket.AF_UNIX
            client.socket = socket.socket(family, socket.SOCK_STREAM)
            client.socket.settimeout(DEADLINE)
            client.socket.connect(address or str(s.socket_path))
            client.h2 = PatientH2(h2.config.H2Configuration(header_encoding='utf-8', validate_outbound_headers=False,
                                                            normalize_outbound_headers=False))
            client.h2.initiate_connection()
            client.events = {}
        raw = client.socket.sendall
        if piece is None and protocol == 'h2':
            raw(header + client.h2.data_to_send())  # The preface in the same segment.
        elif piece is None:
            client.early = header
        else:
            client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1) if address else None
            for i in range(0, len(header), piece):
                raw(header[i:i + piece])
            if protocol == 'h2':
                client.flush()
        if piece is None and protocol == 'h1':
            send = client.send

            def send_first(data):
                client.send = send
                send(client.early + data)  # The request in the same segment.
            client.send = send_first
        return client
    return make


@pytest.fixture
def show(server):
    return server('server { listen @SOCK@ proxy_protocol; location / { %s } }' % SHOW)


@pytest.mark.parametrize('piece', [None, 1, 7, 1000])
@pytest.mark.parametrize('header, said', [
    (V1, '192.0.2.1|56324|198.51.100.2|443'), (V2, '192.0.2.1|56324|198.51.100.2|443'),
    (b'PROXY TCP6 2001:db8::1 ::1 1 2\r\n', '2001:db8::1|1|::1|2'), (V2_6, '2001:db8::1|1|::1|2'),
    (b'PROXY TCP4 192.0.2.1 198.51.100.2 0 0\r\n', '192.0.2.1||198.51.100.2|'),
])
def test_addresses(show, connect, header, said, piece):
    client = connect(show, header, piece)
    for _ in range(2):  # Said once, it holds for the connection.
        assert client.request('/').body.decode() == 'unix:||' + said


@pytest.mark.parametrize('header', [
    b'PROXY UNKNOWN\r\n', b'PROXY UNKNOWN ffff:f:f:f ffff::1 65535 65535\r\n', v2(0), v2(0, 0x11, b'x' * 12), v2(1, 0), v2(1, 0x12, b'x' * 12),
    v2(1, 0x31, b'x' * 216),
])
def test_headers_that_name_nobody(show, connect, header):
    assert connect(show, header).request('/').body.decode() == NONE


@pytest.mark.parametrize('bytes_sent, words', [
    (b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', 'broken header: "GET / HTTP/1.1" while reading PROXY protocol, client: unix:, server: unix:'),
    (b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'broken header: "PRI \\* HTTP/2.0" while reading PROXY protocol'),
    (b'PROXY TCP4 192.0.2.1 198.51.100.2 56324\r\n', 'broken header: "PROXY TCP4 192.0.2.1 198.51.100.2 56324" while'),
    (b'PROXY TCP4 2001:db8::1 ::1 1 2\r\n', 'broken header: "PROXY TCP4'),
    (b'PROXY UNKNOWN ' + b'x' * 200, 'broken header: "PROXY UNKNOWN x+" while'),
    (b'\x16\x03\x01\x02\x00\x01', r'broken header: "\\x16\\x03'),
    (SIGNATURE + b'\x31\x11\x00\x00', 'unknown PROXY protocol version while reading PROXY protocol, client: unix:'),
    (SIGNATURE + b'\x21\x11\xff\xff', 'header is too large while reading PROXY protocol'),
    (v2(1, 0x11, b'x' * 11), 'broken header while reading PROXY protocol'),
    (v2(3, 0x11, b'x' * 12), 'broken header while reading PROXY protocol'),
])
def test_broken_headers(show, bytes_sent, words):
    client = Http1(show.socket_path)
    client.send(bytes_sent)
    assert client.rest() == b''
    show.wait_log(r'\[error\] \d+#\d+: \*\d+ ' + words)
    assert 'return' not in show.log('access.log') and show.log('access.log') == ''


@pytest.mark.parametrize('beginning', [b'', b'PROXY TCP4 192.0', SIGNATURE, V2[:20]])
def test_clients_that_stop_before_its_end(server, beginning):
    s = server('server { listen @SOCK@ proxy_protocol; client_header_timeout 50ms; return 204; }')
    client = Http1(s.socket_path)
    client.send(beginning)
    assert client.closed()
    s.wait_log(r'\[info\] .* client timed out \(110: Connection timed out\) while reading PROXY protocol')
    client = Http1(s.socket_path)
    client.send(beginning)
    client.socket.shutdown(socket.SHUT_WR)
    assert client.closed()
    s.wait_log(r'\[info\] .* client (closed connection|timed out).* while reading PROXY protocol')


def test_real_ip(server, connect):
    s = server('''server { listen @SOCK@ proxy_protocol; set_real_ip_from unix:; real_ip_header proxy_protocol;
        location / { deny 192.0.2.1; return 200 x; } location /show { return 200 "$remote_addr|$remote_port|$realip_remote_addr"; }
        location /f/ { root @DIR@/www; deny 192.0.2.1; } }''')
    s.file('f/a.txt', b'body')
    client = connect(s, V1)
    assert client.request('/show').body == b'192.0.2.1|56324|unix:'
    assert client.request('/f/a.txt').status == 403
    s.wait_log('access forbidden by rule, client: 192.0.2.1')
    s.wait_log(r'^192\.0\.2\.1 - ', 'access.log')
    assert connect(s, V2_6).request('/f/a.txt').body == b'body'
    assert connect(s, b'PROXY UNKNOWN\r\n').request('/show').body == b'unix:||unix:'


def test_values(server, connect):
    s = server('''server { listen @SOCK@ proxy_protocol; return 200 "$proxy_protocol_tlv_alpn|$proxy_protocol_tlv_authority|$proxy_protocol_tlv_unique_id|\
$proxy_protocol_tlv_0xEE|$proxy_protocol_tlv_ssl_version|$proxy_protocol_tlv_ssl_cn|$proxy_protocol_tlv_ssl_verify|$proxy_protocol_tlv_netns|\
$proxy_protocol_tlv_nothing"; }''')
    ssl = b'\x01' + struct.pack('!I', 7) + tlv(0x21, b'TLSv1.3') + tlv(0x22, b'joe')
    values = tlv(1, b'h2') + tlv(2, b'example.org') + tlv(5, b'id') + tlv(0xee, b'own') + tlv(0x20, ssl)
    header = v2(body=bytes(12) + values)
    assert connect(s, header).request('/').body == b'h2|example.org|id|own|TLSv1.3|joe|7||'
    broken = v2(body=bytes(12) + tlv(1, b'h2') + b'\x02\xff\xff')
    assert connect(s, broken).request('/').body == b'h2||||||||'
    assert connect(s, v2(0)).request('/').body == b'||||||||'


def test_addresses_of_one_port(server, connect):
    """Each address of a port has its own word on it, also when the wildcard's socket takes its connections."""
    port = free_port()
    s = server(f'server {{ listen @SOCK@; listen {port}; listen 127.0.0.2:{port} proxy_protocol; location / {{ {SHOW} }} }}')
    assert connect(s, V1, address=('127.0.0.2', port)).request('/').body.decode().endswith('192.0.2.1|56324|198.51.100.2|443')
    assert connect(s, b'', address=('127.0.0.1', port)).request('/').body.decode().endswith('||||')
    client = Http1(('127.0.0.2', port))
    client.send(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    assert client.rest() == b''


def test_end_of_the_server(show):
    """A connection in the middle of its header does not keep a worker from ending."""
    client = Http1(show.socket_path)
    client.send(b'PROXY ')
    wait_until(lambda: show.status()['connections']['reading'] == 1, 'the connection')
    assert show.stop() == 0
    assert client.closed()

"""Names that are looked up while we run: resolver, fastcgi_pass with variables, server ... resolve. A scripted DNS server answers."""
import socket
import struct
import threading

import pytest
from fastcgi_peer import Peer, answer
from harness import wait_until

A, CNAME, AAAA = 1, 5, 28


def encode(name):
    return b''.join(bytes([len(label)]) + label.encode() for label in name.split('.')) + b'\0'


def reply(query, records=(), code=0, flags=0x8180, question=None, identity=None):
    """records: (type, ttl, data), all of the name that was asked for."""
    body = b''.join(b'\xc0\x0c' + struct.pack('>HHIH', kind, 1, ttl, len(data)) + data for kind, ttl, data in records)
    return struct.pack('>HHHHHH', query.id if identity is None else identity, flags | code, 1, len(records), 0, 0) + (question or query.question) + body


class Query:
    def __init__(self, data, tcp, send):
        self.id, self.tcp, self.send = struct.unpack('>H', data[:2])[0], tcp, send
        end, labels = 12, []
        while data[end]:
            labels.append(data[end + 1:end + 1 + data[end]].decode())
            end += 1 + data[end]
        self.name, self.type = '.'.join(labels), struct.unpack('>H', data[end + 1:end + 3])[0]
        self.question = data[12:end + 5]


class Dns:
    """Each query goes to handler(query), in a thread that it has for itself."""

    def __init__(self, handler):
        self.handler, self.queries = handler, []
        self.tcp = socket.create_server(('127.0.0.1', 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(('127.0.0.1', self.port))
        for target in (self._udp, self._tcp):
            threading.Thread(target=target, daemon=True).start()

    def _take(self, data, tcp, send):
        query = Query(data, tcp, send)
        self.queries.append(query)
        self.handler(query)

    def _udp(self):
        while True:
            try:
                data, sender = self.udp.recvfrom(4096)
            except OSError:
                return
            self._take(data, False, lambda b, to=sender: self.udp.sendto(b, to))

    def _tcp(self):
        while True:
            try:
                connection, _ = self.tcp.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                length = struct.unpack('>H', connection.recv(2, socket.MSG_WAITALL))[0]
                self._take(connection.recv(length, socket.MSG_WAITALL), True, lambda b: connection.sendall(struct.pack('>H', len(b)) + b))

    def asked(self, name):
        return [q for q in self.queries if q.name == name]

    def close(self):
        self.udp.close()
        self.tcp.close()


class TcpPeer(Peer):
    def __init__(self, text, address='127.0.0.1', port=0):
        self.path, self.early = '', False
        self.handler = lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\n' + text + r.body))
        self.requests, self.errors, self.connections, self.open = [], [], 0, set()
        self.listener = socket.create_server((address, port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()


def v4(text, ttl=60):
    return A, ttl, socket.inet_aton(text)


HERE = v4('127.0.0.1')


def nodata_for_v6(handler):
    return lambda q: q.send(reply(q)) if q.type == AAAA else handler(q)


def hostile(q):
    good = reply(q, [HERE])
    q.send(reply(q, [v4('127.0.0.9')], identity=q.id ^ 1))
    q.send(reply(q, [v4('127.0.0.9')], question=encode('other.test') + b'\0\1\0\1'))
    q.send(good[:7])
    q.send(b'')
    q.send(good)


def records(q):
    """By the first label of the name."""
    kind = q.name.split('.')[0]
    if kind == 'none':
        return q.send(reply(q, code=3))
    if kind == 'silent':
        return None
    if kind == 'refused':
        return q.send(reply(q, code=2))
    if q.type == AAAA and kind not in ('six', 'loop', 'hostile'):
        return q.send(reply(q))
    if kind == 'six':
        return q.send(reply(q, [(AAAA, 60, b'\0' * 15 + b'\1')] if q.type == AAAA else []))
    if kind == 'hostile':
        return hostile(q) if q.type == A else q.send(reply(q))
    if kind == 'loop':  # Names that point to themselves, and records that promise more than there is.
        start = 12 + len(q.question)
        return q.send(struct.pack('>HHHHHH', q.id, 0x8180, 1, 2, 0, 0) + q.question + struct.pack('>HHHIH', 0xc000 | start, CNAME, 1, 60, 2) +
                      struct.pack('>H', 0xc000 | start + 12) + struct.pack('>HHHIH', 0xc00c, A, 1, 60, 400))
    if kind == 'truncated' and not q.tcp:
        return q.send(reply(q, flags=0x8380))
    if kind == 'alias':
        # alias.test → c1.test → … → here.
        chain, owner = b'', b'\xc0\x0c'
        for i in range(1, 4):
            target = encode(f'c{i}.test')
            chain += owner + struct.pack('>HHIH', CNAME, 1, 60, len(target)) + target
            owner = target
        chain += owner + struct.pack('>HHIH', A, 1, 60, 4) + HERE[2]
        return q.send(struct.pack('>HHHHHH', q.id, 0x8180, 1, 4, 0, 0) + q.question + chain)
    if kind == 'brief':
        return q.send(reply(q, [v4('127.0.0.1', 0)]))
    if kind == 'several':
        return q.send(reply(q, [v4('127.0.0.1'), v4('127.0.0.2')]))
    return q.send(reply(q, [HERE]))


@pytest.fixture
def world(server, directory):
    opened = []

    def opens(thing):
        opened.append(thing)
        return thing

    yield server, opens
    for thing in opened:
        thing.close()
        assert not getattr(thing, 'errors', None)


LOG = 'log_format up "$uri $upstream_addr $upstream_status"; access_log @DIR@/up.log up; error_log @DIR@/error.log info; '


def test_variables(world):
    server, opens = world
    dns, peer = opens(Dns(records)), opens(TcpPeer(b'page'))
    s = server(LOG + f'resolver 127.0.0.1:{dns.port}; server {{ listen @SOCK@; location / {{ fastcgi_pass $arg_h.test:{peer.port}; }} '
               f'location /v4 {{ resolver 127.0.0.1:{dns.port} ipv6=off valid=1h; fastcgi_pass $arg_h.test:{peer.port}; }} '
               f'location /none {{ resolver 127.0.0.1:{dns.port}; resolver_timeout 200ms; fastcgi_pass $arg_h.test:{peer.port}; }} }}')
    for name in ('Plain', 'plain', 'alias', 'truncated', 'hostile', 'several', 'several'):
        reply_ = s.get(f'/?h={name}')
        assert (name, reply_.status, reply_.body) == (name, 200, b'page')
    assert sorted(q.type for q in dns.queries if q.name.lower() == 'plain.test') == [A, AAAA]  # Asked once; kept.
    assert [q.tcp for q in dns.asked('truncated.test') if q.type == A] == [False, True]
    assert s.get('/?h=six').status in (200, 502)  # Nobody listens at ::1: another address is asked for, and taken.
    wait_until(lambda: f'/ [::1]:{peer.port} 502' in s.log('up.log'), 'the address of version 6')
    # One that does not answer is left for the next.
    assert b'127.0.0.2' not in s.get('/?h=several').body
    for name, why in (('none', '3: Host not found'), ('refused', '2: Server failure')):
        assert s.get(f'/?h={name}').status == 502
        assert f'{name}.test could not be resolved ({why})' in s.log('error.log')
    assert s.get('/?h=loop').status == 502
    assert s.get('/none?h=silent').status == 502
    assert 'silent.test could not be resolved (110: Operation timed out)' in s.log('error.log')
    for _ in range(2):
        assert s.get('/v4?h=brief').body == b'page'
    assert [q.type for q in dns.asked('brief.test')] == [A]
    s.get('/?h=brief')
    s.get('/?h=brief')  # What is valid for no time is asked for each time.
    assert len([q for q in dns.asked('brief.test') if q.type == A]) == 3
    # A visitor who does not wait for the name.
    client = s.connect('h1')
    client.socket.sendall(b'GET /?h=silent HTTP/1.1\r\nHost: a\r\n\r\n')
    wait_until(lambda: dns.asked('silent.test'), 'the question')
    client.socket.close()
    wait_until(lambda: s.log('up.log').count('/ - -') >= 4, 'its line')
    assert s.get('/?h=plain', method='POST', body=b'12').body == b'page12'


def test_what_is_no_name(world):
    server, opens = world
    peer = opens(TcpPeer(b'page'))
    s = server(LOG + 'server { listen @SOCK@; location / { fastcgi_pass $arg_t; } location /static { fastcgi_pass localhost:%d; } }' % peer.port)
    for text in ('', 'name', '127.0.0.1', '127.0.0.1:x', 'name:99999'):
        assert (text, s.get(f'/?t={text}').status) == (text, 500)
    assert s.get('/?t=name:9').status == 502
    assert 'no resolver defined to resolve name' in s.log('error.log')
    assert s.get(f'/?t=127.0.0.1:{peer.port}').body == b'page'
    assert s.get(f'/?t=localhost:{peer.port}').body == b'page'  # Known: it stands elsewhere as it is.


def test_second_server(world):
    server, opens = world
    bad, good, peer = opens(Dns(lambda q: q.send(reply(q, code=2)))), opens(Dns(records)), opens(TcpPeer(b'page'))
    s = server(LOG + f'resolver 127.0.0.1:{bad.port} 127.0.0.1:{good.port} ipv6=off; server {{ listen @SOCK@; '
               f'location / {{ fastcgi_pass $arg_h.test:{peer.port}; }} }}')
    for i in range(4):
        assert s.get(f'/?h=name{i}').status == 200
    assert bad.queries


def test_servers_of_a_group(world):
    server, opens = world
    mood = {'reply': lambda q: q.send(reply(q, [v4('127.0.0.1', 0)]))}
    dns = opens(Dns(nodata_for_v6(lambda q: mood['reply'](q))))
    one = opens(TcpPeer(b'one'))
    two = opens(TcpPeer(b'two', '127.0.0.2', one.port))
    s = server(LOG + f'resolver 127.0.0.1:{dns.port}; upstream u {{ server name.test:{one.port} resolve max_fails=0; keepalive 4; }} '
               f'upstream h {{ hash $uri consistent; resolver 127.0.0.1:{dns.port}; server name.test:{one.port} resolve; server 127.0.0.2:{one.port}; }} '
               'server { listen @SOCK@; fastcgi_keep_conn on; location / { fastcgi_pass u; } location /h { fastcgi_pass h; } }')
    assert s.get('/').body == b'one'
    assert s.get('/').body == b'one'
    assert one.connections == 1  # Kept, whatever group the request was given.
    assert {s.get(f'/h{i}').body for i in range(20)} == {b'one', b'two'}
    mood['reply'] = lambda q: q.send(reply(q, [v4('127.0.0.2', 0)]))
    assert s.get('/').body == b'two'
    mood['reply'] = lambda q: q.send(reply(q, code=2))
    assert s.get('/').body == b'two'  # Nobody knows better.
    assert 'name.test could not be resolved (2: Server failure) for upstream "u"' in s.log('error.log')


def test_group_without_servers(world):
    server, opens = world
    dns = opens(Dns(records))
    s = server(LOG + f'resolver 127.0.0.1:{dns.port}; upstream u {{ zone u 64k; server none.test:9 resolve; server silent.test:9 resolve; }} resolver_timeout 300ms; '
               'server { listen @SOCK@; location / { fastcgi_pass u; } }')
    assert s.get('/').status == 502
    assert 'no live upstreams while connecting to upstream' in s.log('error.log')

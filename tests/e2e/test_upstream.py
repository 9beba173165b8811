"""Groups of servers: how one is chosen, what counts as failing, when the next one is asked, what $upstream_... says."""
import threading
import zlib

import pytest
from fastcgi_peer import Peer, answer, wait_until

LOG = '''log_format up "$uri|$upstream_addr|$upstream_status|$upstream_response_length|$upstream_connect_time|$upstream_bytes_sent";
access_log @DIR@/up.log up; fastcgi_param URI $uri; fastcgi_param METHOD $request_method; '''


@pytest.fixture
def group(server, directory):
    """group(upstream lines, location lines, **handlers) → server with unix sockets NAME.sock played by handlers, more locations by outer."""
    peers = {}

    def make(blocks, locations, workers=1, **handlers):
        s = server(LOG + blocks + ' server { listen @SOCK@; root @DIR@/www; ' + locations + ' }', workers=workers)
        for name, handler in handlers.items():
            peers[name] = Peer(s.directory / f'{name}.sock', handler)
        s.peers = peers
        return s

    yield make
    for peer in peers.values():
        peer.close()
        assert not peer.errors, peer.errors


def says(text, status=200):
    return lambda r: r.send(answer(b'Status: %d X\r\nContent-Type: text/plain\r\n\r\n%s' % (status, text)))


def here(*names, more=''):
    return ' '.join(f'server unix:@DIR@/{n}.sock{more};' for n in names)


def bodies(s, path, count, **more):
    return b''.join(s.get(path, **more).body for _ in range(count)).decode()


def lines_of(s, path, count):
    """The fields of that many lines of that path."""
    return wait_until(lambda: (lambda found: found if len(found) >= count else None)(
        [line.split('|')[1:] for line in s.log('up.log').splitlines() if line.startswith(path + '|')]), f'{count} lines of {path}')


def logged(s, path, count=1):
    return lines_of(s, path, count)[count - 1]


def short(s, text):
    return text.replace(f'unix:{s.directory}/', '').replace('.sock', '')


def test_methods(group):
    slow = threading.Event()

    def a(r):
        if r.params['URI'] == '/least' and r.params['METHOD'] == 'POST':
            slow.wait(10)
        says(b'a')(r)
    ring = 'server unix:@DIR@/a.sock weight=2; server unix:@DIR@/b.sock; server unix:@DIR@/c.sock;'
    s = group(f'''upstream rr {{ {here('a', 'b', 'c')} }}
        upstream weights {{ server unix:@DIR@/a.sock weight=5; {here('b', 'c')} }}
        upstream spare {{ server unix:@DIR@/a.sock down; server unix:@DIR@/dead.sock; server unix:@DIR@/c.sock backup; }}
        upstream least {{ least_conn; {here('a', 'b')} }}
        upstream ip {{ ip_hash; {here('a', 'b', 'c')} }}
        upstream hash {{ hash $arg_k; {ring} }}
        upstream ring {{ hash $arg_k consistent; {ring} }}
        upstream rnd {{ random two least_conn; {here('a', 'b', 'c')} }}
        upstream one {{ random; zone z 64k; {here('a', 'b')} }}''',
              ' '.join(f'location /{n} {{ fastcgi_pass {n}; }}' for n in ('rr', 'weights', 'spare', 'least', 'ip', 'hash', 'ring', 'rnd', 'one')),
              a=a, b=says(b'b'), c=says(b'c'))
    assert bodies(s, '/rr', 6) == 'abcabc'
    assert bodies(s, '/weights', 7) == 'aabacaa'
    assert bodies(s, '/spare', 3) == 'ccc'
    # While a has a request under way the others go to b.
    client = s.connect('h1')
    client.send(b'POST /least HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n')
    wait_until(lambda: any(r.params['METHOD'] == 'POST' for r in s.peers['a'].requests), 'the slow request')
    assert bodies(s, '/least', 3) == 'bbb'
    slow.set()
    assert client.read_response().body == b'a'
    assert len(set(bodies(s, '/ip', 5))) == 1
    assert set(bodies(s, '/rnd', 40)) == set('abc')
    assert set(bodies(s, '/one', 40)) == set('ab')
    # Cache::Memcached's: ((crc32(KEY) >> 16) & 0x7fff) mod the sum of the weights.
    for key in ('x', 'user17', 'other', '%41'):
        expected = 'aabc'[((zlib.crc32(key.encode()) >> 16) & 0x7fff) % 4]
        assert bodies(s, '/hash?k=' + key, 2) == expected * 2, key
    # Ketama's ring.
    points = []
    for name, weight in (('a', 2), ('b', 1), ('c', 1)):
        base, previous = f'{s.directory}/{name}.sock'.encode() + b'\0', b'\0' * 4
        for _ in range(160 * weight):
            point = zlib.crc32(base + previous)
            points.append((point, name))
            previous = point.to_bytes(4, 'little')
    points.sort()
    seen = set()
    for i in range(12):
        key = f'key{i}'
        expected = next((n for p, n in points if p >= zlib.crc32(key.encode())), points[0][1])
        seen.add(expected)
        assert s.get(f'/ring?k={key}').body.decode() == expected
    assert len(seen) > 1


def test_next_upstream(group):
    s = group(f'''upstream errors {{ {here('dead', 'a')} }}
        upstream codes {{ server unix:@DIR@/bad.sock max_fails=0; {here('a')} }}
        upstream cut {{ server unix:@DIR@/cut.sock max_fails=0; {here('a')} }}
        upstream three {{ {here('bad', 'cut', 'a', more=' max_fails=0')} }}
        upstream all {{ {here('bad', 'bad', more=' max_fails=0')} }}''',
              '''location /errors { fastcgi_pass errors; }
        location /codes { fastcgi_pass codes; fastcgi_next_upstream http_500; }
        location /keep { fastcgi_pass codes; }
        location /all { fastcgi_pass all; fastcgi_next_upstream http_500; }
        location /cut { fastcgi_pass cut; fastcgi_next_upstream error invalid_header; }
        location /twice { fastcgi_pass cut; fastcgi_next_upstream error invalid_header non_idempotent; }
        location /off { fastcgi_pass cut; fastcgi_next_upstream off; }
        location /three { fastcgi_pass three; fastcgi_next_upstream error http_500; }
        location /tries { fastcgi_pass three; fastcgi_next_upstream error http_500; fastcgi_next_upstream_tries 2; }
        location /redirect { fastcgi_pass codes; error_page 500 = /rr; fastcgi_intercept_errors on; fastcgi_next_upstream off; }
        location /rr { fastcgi_pass codes; }''',
              a=says(b'a'), bad=says(b'bad', 500), cut=lambda r: r.connection.close())
    assert s.get('/errors').body == b'a'
    addresses, status, length, _, sent = logged(s, '/errors')
    assert (short(s, addresses), status, length) == ('dead, a', '502, 200', '0, 1') and sent.startswith('0, ')
    s.wait_log(r'\[warn\].*upstream server temporarily disabled while connecting to upstream')
    assert bodies(s, '/errors', 3) == 'aaa'  # It is left alone now.
    assert short(s, logged(s, '/errors', 4)[0]) == 'a'
    assert bodies(s, '/codes', 2) == 'aa'
    both = sorted(s.get('/keep').status for _ in range(2))
    assert both == [200, 500]
    r = s.get('/all')
    assert (r.status, r.body) == (500, b'bad')  # The last one's own answer.
    assert logged(s, '/all')[1] == '500, 500'
    assert bodies(s, '/cut', 2) == 'aa'
    statuses = {s.get('/cut', method='POST', body=b'x').status for _ in range(4)}
    assert statuses == {200, 502}  # What reached a server is not sent to another.
    assert {s.get('/twice', method='POST', body=b'x').status for _ in range(4)} == {200}
    assert {s.get('/off').status for _ in range(4)} == {200, 502}
    assert bodies(s, '/three', 6) == 'a' * 6
    assert max((fields[1] for fields in lines_of(s, '/three', 6)), key=len) == '500, 502, 200'
    for _ in range(6):
        s.get('/tries')
    assert max(fields[1].count(',') for fields in lines_of(s, '/tries', 6)) == 1
    s.get('/redirect')
    s.get('/redirect')
    assert '500 : 200' in [fields[1] for fields in lines_of(s, '/rr', 1)]


def test_nobody_left(group):
    s = group(f'''upstream u {{ {here('dead', 'gone')} }} upstream single {{ {here('dead')} }}
        upstream timed {{ {here('mute', 'mute')} }}''',
              '''location /u { fastcgi_pass u; } location /single { fastcgi_pass single; }
        location /timed { fastcgi_pass timed; fastcgi_read_timeout 100ms; fastcgi_next_upstream_timeout 50ms; }''',
              mute=lambda r: threading.Event().wait(1))
    assert s.get('/u').status == 502
    assert logged(s, '/u')[1] == '502, 502'
    assert s.get('/u').status == 502
    assert logged(s, '/u', 2)[:2] == ['u', '502']
    s.wait_log('no live upstreams while connecting to upstream.*upstream: "fastcgi://u"')
    for _ in range(2):  # One alone is always asked.
        assert s.get('/single').status == 502
    assert [short(s, fields[0]) for fields in lines_of(s, '/single', 2)] == ['dead', 'dead']
    assert s.get('/timed').status == 504
    assert logged(s, '/timed')[1] == '504'


def test_max_conns_and_queue(group):
    release = threading.Event()

    def slow(r):
        if r.params['URI'].endswith('slow'):
            release.wait(10)
        says(b'a')(r)
    s = group('''upstream u { server unix:@DIR@/a.sock max_conns=1; }
        upstream q { zone q 64k; server unix:@DIR@/a.sock max_conns=1; queue 1 timeout=150ms; }''',
              'location /u { fastcgi_pass u; } location /q { fastcgi_pass q; }', a=slow)
    clients = []
    for path in (b'/u/slow', b'/q/slow'):
        client = s.connect('h1')
        client.send(b'GET ' + path + b' HTTP/1.1\r\nHost: x\r\n\r\n')
        clients.append(client)
    wait_until(lambda: len(s.peers['a'].requests) == 2, 'two requests')
    assert s.get('/u').status == 502
    s.wait_log('no live upstreams')
    r = s.get('/q')  # Waits, and in vain.
    assert (r.status, r['retry-after']) == (503, '5')
    s.wait_log(r'upstream timed out \(110: Connection timed out\) while waiting for a connection to upstream')
    release.set()
    assert [c.read_response().status for c in clients] == [200, 200]
    assert (s.get('/u').status, s.get('/q').status) == (200, 200)


def test_a_zone_is_shared(group):
    s = group(f'upstream u {{ zone u 64k; server unix:@DIR@/cut.sock fail_timeout=1h; {here("a")} }}',
              'location / { fastcgi_pass u; }', workers=2, a=says(b'a'), cut=lambda r: r.connection.close())
    assert bodies(s, '/', 30) == 'a' * 30
    assert s.peers['cut'].connections == 1  # Whichever worker met it, both know.


def test_keepalive(group):
    s = group(f'''upstream k {{ {here('a')} keepalive 2; }} upstream r {{ {here('b')} keepalive 2; keepalive_requests 2; }}
        upstream n {{ {here('c')} keepalive 2; }} upstream t {{ {here('d')} keepalive 2; keepalive_timeout 50ms; }}''',
              '''fastcgi_keep_conn on; location /k { fastcgi_pass k; } location /r { fastcgi_pass r; } location /t { fastcgi_pass t; }
        location /n { fastcgi_pass n; fastcgi_keep_conn off; }''', a=says(b'a'), b=says(b'b'), c=says(b'c'), d=says(b'd'))
    for path in '/k', '/r', '/n', '/t':
        assert len(bodies(s, path, 4)) == 4
    assert [s.peers[n].connections for n in 'abc'] == [1, 2, 4]
    assert s.peers['a'].requests[0].keep and not s.peers['c'].requests[0].keep
    wait_until(lambda: not s.peers['d'].open, 'the idle connection to be closed')
    assert len(bodies(s, '/t', 1)) == 1


def test_a_stale_kept_connection_is_no_failure(group):
    def once(r):
        says(b'a')(r)
        r.connection.close()
    s = group('upstream k { server unix:@DIR@/a.sock; keepalive 2; }', 'location / { fastcgi_keep_conn on; fastcgi_pass k; }', a=once)
    assert bodies(s, '/', 10, method='POST', body=b'x') == 'a' * 10

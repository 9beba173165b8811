"""Backends whose capacity a php-fpm pool file tells: no more connections than workers, used again, shared, and a queue."""
import os
import signal
import socket
import subprocess
import threading

import pytest
from fastcgi_peer import ABORT, STDERR, Peer, PhpFpm, answer, end_request, record, stdout, wait_until
from harness import ROOT

OK = b'Content-Type: text/plain\r\n\r\nok'
HTTP = 'fastcgi_pool_files @DIR@/*.pool; '
SITE = '''server { listen @SOCK@; root @DIR@/www; location / { }
  location ~ php { include ''' + str(ROOT) + '''/conf/fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_pass unix:@DIR@/php.sock; %s } }'''


def pool_file(directory, children, manager='static', listen='real.sock'):
    (directory / 'www.pool').write_text(f'; A pool.\n[www]\nuser = www-data\nlisten = {directory}/$pool.sock ; not this\n'
                                        f'[php]\nlisten = "{directory}/{listen}"\npm = {manager}\npm.max_children = {children}\n')


@pytest.fixture
def origin(server, directory):
    peers = []

    def make(handler, children=2, location='', workers=1, manager='static'):
        pool_file(directory, children, manager)
        os.symlink('real.sock', directory / 'php.sock')  # As Debian's /run/php/php-fpm.sock.
        s = server(HTTP + SITE % location, workers=workers)
        s.file('static.txt', 'static')
        peers.append(Peer(s.directory / 'real.sock', handler if callable(handler) else lambda r: r.send(handler)))
        return s, peers[-1]

    yield make
    for peer in peers:
        peer.close()
        assert not peer.errors, peer.errors


def parallel(s, count, path='/x.php', **more):
    """The responses to that many requests at the same time."""
    results = [None] * count

    def one(i):
        results[i] = s.get(path, **more)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    return results


def ask(s, path):
    """A client that waits for that answer."""
    client = s.connect('h1')
    client.send(f'GET {path} HTTP/1.1\r\nHost: x\r\n\r\n'.encode())
    return client


def wait_for_second(s):
    """Until one request has the only place and another one stands in line."""
    wait_until(lambda: s.status()['pools'] == [{'name': 'php', 'capacity': 1, 'connections': 1, 'idle': 0, 'waiting': 1}], 'the second request to wait')


@pytest.mark.parametrize('workers', [1, 2])
def test_no_more_connections_than_children(origin, workers):
    lock, at_once, most = threading.Lock(), set(), [0]

    def handler(r):
        with lock:
            at_once.add(r)
            most[0] = max(most[0], len(at_once))
        threading.Event().wait(0.003)
        with lock:
            at_once.discard(r)
        r.send(answer(OK))
    s, peer = origin(handler, children=2, workers=workers)
    for _ in range(3):
        assert [r.body for r in parallel(s, 30)] == [b'ok'] * 30
    assert most[0] <= 2 and all(r.keep for r in peer.requests)
    assert peer.connections < 45  # 90 requests: they are used again even when workers have to share.
    if workers == 1:
        assert peer.connections <= 8  # Two, and two more for each burst if the gap was that long.
    wait_until(lambda: not peer.open, 'idle connections to be closed')
    wait_until(lambda: s.status()['pools'] == [{'name': 'php', 'capacity': 2, 'connections': 0, 'idle': 0, 'waiting': 0}], 'nothing left in the counts')


def test_workers_share_a_single_place(origin):
    s, peer = origin(answer(OK), children=1, workers=2)
    clients = [s.connect('h1') for _ in range(8)]  # Both workers have some.
    for _ in range(5):
        for c in clients:
            c.send(b'GET /x.php HTTP/1.1\r\nHost: x\r\n\r\n')
        assert [c.read_response().body for c in clients] == [b'ok'] * 8
    # A worker that dies gives its place back.
    s.may_crash, victim = True, s.worker()
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: victim not in s.workers_pids() and len(s.workers_pids()) == 2, 'another worker')
    assert [r.body for r in parallel(s, 10)] == [b'ok'] * 10


def test_generations_share_the_places(origin):
    """A worker that serves on after a reload has its place still: php-fpm has no child for another connection."""
    go = threading.Event()

    def handler(r):
        if r.params['DOCUMENT_URI'] == '/slow.php':
            go.wait(10)
        r.send(answer(OK))
    s, peer = origin(handler, children=1)
    slow = ask(s, '/slow.php')
    wait_until(lambda: peer.requests, 'the first request')
    s.reload()
    late = ask(s, '/x.php')
    wait_for_second(s)
    assert peer.connections == 1
    go.set()
    assert [slow.read_response().body, late.read_response().body] == [b'ok'] * 2
    # What the ended worker has left behind is not lost either.
    slow.close()
    s.reload()
    assert [r.body for r in parallel(s, 10)] == [b'ok'] * 10


def test_a_client_that_leaves_takes_its_worker_along(origin):
    """php-fpm's child goes on until it has something to say: its place is not free before, and nobody else is sent into its backlog."""
    go = threading.Event()

    def handler(r):
        if r.params['DOCUMENT_URI'] == '/slow.php':
            go.wait(10)
            with pytest.raises(BrokenPipeError):
                r.send(answer(OK))  # php-fpm then ends the script.
            assert peer.read_record(r.connection) == (ABORT, b'')
            raise EOFError
        r.send(answer(OK))
    s, peer = origin(handler, children=1)
    slow = ask(s, '/slow.php')
    wait_until(lambda: peer.requests, 'the first request')
    slow.close()
    s.wait_log('client prematurely closed connection, so upstream connection is closed too')
    late = ask(s, '/x.php')
    wait_for_second(s)
    assert peer.connections == 1
    go.set()
    assert late.read_response().body == b'ok' and peer.connections == 2


def test_a_full_queue_is_503(origin):
    """Case 13."""
    go = threading.Event()

    def handler(r):
        go.wait(10)
        r.send(answer(OK))
    s, peer = origin(handler, children=1, location='fastcgi_queue 3;')
    clients = []
    for i in range(4):
        clients.append(ask(s, '/x.php'))
    wait_until(lambda: peer.requests, 'the first request')
    for _ in range(200):  # The others may not have been read yet.
        refused = ask(s, '/x.php')
        if 'queue is full' in s.log():
            break
    refused = refused.read_response()
    assert (refused.status, refused['retry-after']) == (503, '5')
    s.wait_log(r'upstream queue is full while connecting to upstream: backend "php" has 1 of 1 connections in use and 3 requests waiting')
    assert s.get('/static.txt').body == b'static'
    assert s.status()['pools'] == [{'name': 'php', 'capacity': 1, 'connections': 1, 'idle': 0, 'waiting': 3}]
    clients[2].close()  # Leaves the queue: somebody else may stand in it.
    s.wait_log('client prematurely closed connection')
    late = ask(s, '/x.php')
    go.set()
    assert [c.read_response().body for c in (clients[0], clients[1], clients[3], late)] == [b'ok'] * 4
    assert len(peer.requests) == 4 and peer.connections == 1


def test_a_full_queue_sends_nobody_to_a_busy_child(origin):
    """The place of a client that left is no room for who comes to a full queue: its child is busy, and others wait for it."""
    go = threading.Event()

    def handler(r):
        if r.params['DOCUMENT_URI'] == '/slow.php':
            go.wait(10)
            raise EOFError
        r.send(answer(OK))
    s, peer = origin(handler, children=1, location='fastcgi_queue 1;')

    slow = ask(s, '/slow.php')
    wait_until(lambda: peer.requests, 'the first request')
    slow.close()
    s.wait_log('client prematurely closed connection')
    waiting = ask(s, '/waiting.php')
    wait_for_second(s)
    assert ask(s, '/third.php').read_response().status == 503
    assert peer.connections == 1
    go.set()
    assert waiting.read_response().body == b'ok'
    assert [r.params['DOCUMENT_URI'] for r in peer.requests] == ['/slow.php', '/waiting.php']


def test_a_full_queue_is_served_in_its_order(origin):
    """The child of an ondemand pool that works on behind its answer is waited for no longer once the queue is full; its place is for who waits longest."""
    go = threading.Event()

    def handler(r):
        r.send(answer(OK))
        if r.params['DOCUMENT_URI'] == '/first.php':
            go.wait(10)
    s, peer = origin(handler, children=1, manager='ondemand', location='fastcgi_queue 1;')
    assert s.get('/first.php').body == b'ok'
    second = ask(s, '/second.php')
    wait_for_second(s)
    third = ask(s, '/third.php')
    assert [second.read_response().body, third.read_response().body] == [b'ok'] * 2
    assert [r.params['DOCUMENT_URI'] for r in peer.requests] == ['/first.php', '/second.php', '/third.php']
    go.set()


@pytest.mark.parametrize('tail', [answer(OK) + b'left over', end_request() + record(STDERR, b'late'), answer(OK) + record(STDERR, b'late'),
                                  stdout(OK) + end_request() + stdout(b'more')], ids=['rest', 'end first', 'stderr behind', 'stdout behind'])
def test_odd_ends_never_mix_replies(origin, tail):
    """Case 12."""
    def handler(r):
        r.send(tail if r.params['DOCUMENT_URI'] == '/odd.php' else answer(OK))
    s, peer = origin(handler)
    for _ in range(3):
        assert s.get('/odd.php').status in (200, 502)
        r = s.get('/x.php')
        assert (r.status, r.body) == (200, b'ok')
    assert not any(r.params['DOCUMENT_URI'] == '/x.php' and r.connection is o.connection and peer.requests.index(o) < peer.requests.index(r)
                   for r in peer.requests for o in peer.requests if o.params['DOCUMENT_URI'] == '/odd.php')
    # And where connections go straight from one to the next in line.
    clients = [ask(s, '/odd.php' if i % 2 else '/x.php') for i in range(20)]
    assert [c.read_response().body for c in clients[::2]] == [b'ok'] * 10


def test_the_page_that_php_fpm_has_itself(server, directory):
    pool_file(directory, 2, listen='php.sock')
    with open(directory / 'www.pool', 'a') as file:
        file.write('pm.status_path = /fpm-status\n')
    own = ('location / { } location = /fpm-status { allow unix:; deny all; fastcgi_param SCRIPT_NAME /fpm-status; fastcgi_param SCRIPT_FILENAME /fpm-status; '
           'fastcgi_param REQUEST_METHOD GET; fastcgi_pass unix:@DIR@/php.sock; }')
    s = server(HTTP + SITE.replace('location / { }', own) % '')
    fpm = PhpFpm(s.directory, 'pm = static\npm.max_children = 2\npm.status_path = /fpm-status\n')
    try:
        assert s.status()['pools'][0]['status_path'] == '/fpm-status'
        said = subprocess.run(s.command('--status'), capture_output=True, text=True, timeout=20).stdout
        assert "pool php: 0 of 2 connections (0 idle), 0 requests waiting; php-fpm's own page: /fpm-status" in said
        assert b'idle processes:' in s.get('/fpm-status').body
    finally:
        fpm.stop()


def test_on_demand_pools_keep_no_idle_connection(origin):
    s, peer = origin(answer(OK), manager='ondemand', children=3)
    assert s.get('/x.php').body == b'ok'
    wait_until(lambda: not peer.open, 'the connection to be closed', 0.9)
    assert [r.body for r in parallel(s, 12)] == [b'ok'] * 12
    peer.close()
    assert s.get('/x.php').status == 502
    s.wait_log(r'while connecting to upstream \(there is no such socket: does its service run\?; backend "php": [1-3] of 3 connections in use, 0 requests waiting\), client')


def test_what_the_operator_is_told(server, directory):
    """nginx's words first, which tools look for, then which setting or whose state it was."""
    pool_file(directory, 1, listen='php.sock')
    s = server(HTTP + SITE % 'fastcgi_read_timeout 200ms; client_max_body_size 10; fastcgi_buffer_size 4k; fastcgi_buffers 4 4k;')
    state = r'backend "php": 1 of 1 connections in use, 0 requests waiting\), client: .*, upstream: "fastcgi://unix:.*/php.sock:", host: '

    def told(path, status, words, **more):
        assert s.get(path, **more).status == status
        s.wait_log(words)
    told('/x.php', 502, r'\[crit\] .* connect\(\) to unix:.*/php.sock failed \(2: No such file or directory\) while connecting to upstream '
         r'\(there is no such socket: does its service run\?; ' + state)
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(directory / 'php.sock'))
    os.chmod(directory / 'php.sock', 0o777)
    told('/x.php', 502, r'\[error\] .* connect\(\) to unix:.*/php.sock failed \(111: Connection refused\) while connecting to upstream \(nobody listens there; ' + state)
    dead.close()
    os.unlink(directory / 'php.sock')

    def handler(r):
        name = r.params['DOCUMENT_URI']
        if name == '/close.php':
            raise EOFError
        if name == '/big.php':
            r.send(answer(b'X: ' + b'y' * 9000 + b'\r\n\r\n'))
    peer = Peer(directory / 'php.sock', handler)
    told('/slow.php', 504, r'upstream timed out \(110: Connection timed out\) while reading response header from upstream \(fastcgi_read_timeout 200ms; ' + state)
    told('/close.php', 502, r'upstream prematurely closed connection while reading response header from upstream \(' + state)
    told('/big.php', 502, r'upstream sent too big header while reading response header from upstream \(fastcgi_buffer_size 4096\), client: ')
    told('/x.php', 413, r'client intended to send too large body: 20 bytes \(client_max_body_size 10\), client: ', method='POST', body=b'x' * 20)
    told('/x.php', 413, r'client intended to send too large chunked body: \d+\+\d+ bytes \(client_max_body_size 10\), client: ', method='POST', body=b'x' * 20,
         chunked=True)
    peer.close()
    assert not peer.errors


@pytest.mark.parametrize('script', ['sleep(1); echo "x";', 'for (;;) { usleep(20000); echo "x"; flush(); }'], ids=['silent', 'chatty'])
def test_php_fpm_ends_a_script_that_nobody_waits_for(server, directory, script):
    pool_file(directory, 1, listen='php.sock')
    s = server(HTTP + SITE % 'fastcgi_buffering off;')
    s.file('slow.php', f'<?php touch("{directory}/www/begun"); {script}')
    s.file('ok.php', '<?php echo "ok";')
    (s.root).chmod(0o777)
    fpm = PhpFpm(s.directory, 'pm = static\npm.max_children = 1\n')
    try:
        client = ask(s, '/slow.php')
        wait_until((s.root / 'begun').exists, 'the script')
        client.close()
        s.wait_log('client prematurely closed connection')
        assert s.get('/ok.php').body == b'ok'
        wait_until(lambda: s.status()['pools'][0]['connections'] <= 1, 'one connection at most')
    finally:
        fpm.stop()


def test_php_fpm_with_one_request_per_child_and_restarts(server, directory):
    """Case 11."""
    pool_file(directory, 2, listen='php.sock')
    s = server(HTTP + SITE % '', workers=2)
    s.file('ok.php', '<?php echo "ok ", $_SERVER["REQUEST_METHOD"];')
    fpm = PhpFpm(s.directory, 'pm = static\npm.max_children = 2\npm.max_requests = 1\n')
    try:
        assert [r.body for r in parallel(s, 20, '/ok.php', method='POST', body=b'x')] == [b'ok POST'] * 20
        fpm.stop()
        fpm.pool = 'pm = static\npm.max_children = 2\n'
        fpm.start()
        client = s.connect('h1')
        def reloads():
            return (s.directory / 'fpm.log').read_text().count('ready to handle connections')
        for _ in range(2):
            assert client.request('/ok.php').body == b'ok GET'
            before = reloads()
            fpm.process.send_signal(signal.SIGUSR2)  # A reload: all children end, whoever they serve.
            while reloads() == before:
                assert client.request('/ok.php').body == b'ok GET'
        assert client.request('/ok.php').body == b'ok GET'
        assert ' 502 ' not in s.log('access.log')
    finally:
        fpm.stop()

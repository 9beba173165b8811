"""Master and workers: start, stop, reload, reopened logs, crashes, privileges, the command line's signals."""
import os
import re
import signal
import socket
import stat
import subprocess
import threading

import pytest
from harness import BINARY, DEADLINE, Http1, Http2, free_port, wait_until
import h2.events

SITE = 'server { listen @SOCK@; root @DIR@/www; location /who { return 200 "%s"; } location /status { stub_status; } }'
AS_ROOT = os.geteuid() == 0


def alive(pid):
    try:
        with open(f'/proc/{pid}/stat') as file:
            return file.read().rsplit(')', 1)[1].split()[0] != 'Z'
    except OSError:
        return False


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)


def run_now(s, *more):
    """The daemon's command with more options; (exit code, what it said)."""
    done = run(*s.command(*more))
    return done.returncode, done.stderr


def begin_download(s, protocol, path='/big.bin'):
    """A client that has asked for a large file and has read its head; finish() reads the rest."""
    client = s.connect(protocol)
    if protocol == 'h1':
        client.send(f'GET {path} HTTP/1.1\r\nHost: x\r\n\r\n'.encode())
        while b'\r\n\r\n' not in client.buffer:
            assert client._fill()
        return client, client.read_response
    stream = client.start(path)
    while not any(isinstance(e, h2.events.ResponseReceived) for e in client.events.get(stream, [])):
        assert client.pump()
    return client, lambda: client.read_response(stream)


def had_goaway(client):
    return any(isinstance(e, h2.events.ConnectionTerminated) for e in client.events.get(0, []))


def closes_cleanly(client):
    """Reads to the end of the connection; for h2 a GOAWAY must have come. Ends our side, which the server waits for."""
    if isinstance(client, Http1):
        clean = client.closed()
    else:
        while client.pump():
            pass
        clean = had_goaway(client)
    client.close()
    return clean


def test_start_writes_the_pid_and_stop_removes_it(server):
    s = server(SITE % 'a')
    assert (s.directory / 'pid').read_text() == f'{s.process.pid}\n'
    assert stat.S_IMODE((s.directory / 'pid').stat().st_mode) == 0o644
    assert s.socket_path.exists()
    s.wait_log(r'\[notice\].*start worker process \d+')
    workers = s.workers_pids()
    assert len(workers) == 1
    assert s.stop() == 0
    assert not (s.directory / 'pid').exists() and not s.socket_path.exists()
    assert not any(alive(w) for w in workers)


@pytest.mark.parametrize('sig', [signal.SIGTERM, signal.SIGINT])
def test_fast_stop_does_not_wait_for_clients(server, protocol, sig):
    s = server(SITE % 'a')
    s.file('big.bin', b'x' * (32 << 20))
    client, _ = begin_download(s, protocol)
    idle = s.connect(protocol)
    assert idle.request('/who').body == b'a'
    assert s.stop(sig) == 0
    client.close()
    idle.close()


def test_graceful_stop_finishes_what_was_begun(server, protocol):
    s = server('keepalive_timeout 2s;' + SITE % 'a')
    data = os.urandom(24 << 20)
    s.file('big.bin', data)
    client, finish = begin_download(s, protocol)
    idle = s.connect(protocol)
    assert idle.request('/who').body == b'a'
    s.process.send_signal(signal.SIGQUIT)
    assert closes_cleanly(idle)
    assert s.process.poll() is None  # The download is not done.
    r = finish()
    assert r.status == 200 and r.body == data
    client.close()
    assert s.process.wait(DEADLINE) == 0
    assert not s.socket_path.exists()


def test_reload_brings_the_new_configuration(server, protocol):
    s = server(SITE % 'old')
    assert s.get('/who', protocol).body == b'old'
    old = s.workers_pids()
    s.write_config(SITE % 'new')
    s.reload()
    assert s.get('/who', protocol).body == b'new'
    wait_until(lambda: not any(alive(w) for w in old), 'the old worker to end')
    assert len(s.workers_pids()) == 1 and int((s.directory / 'pid').read_text()) == s.process.pid
    s.wait_log(r'\[notice\].*reconfiguring')


def test_reload_answers_a_kept_connection_once_more(server, protocol):
    """Case 8 without the body: the request that a client sends right after a reload is answered, and the connection ends in order."""
    s = server(SITE % 'old')
    client = s.connect(protocol)
    assert client.request('/who').body == b'old'
    s.write_config(SITE % 'new')
    s.process.send_signal(signal.SIGHUP)
    r = client.request('/who', method='POST', body=b'x' * 100)
    assert r.status == 200 and r.body in (b'old', b'new')
    if protocol == 'h1':
        while not r.closed:  # The signal may not have reached the worker yet.
            r = client.request('/who')
        assert r['connection'] == 'close' and client.closed()
    else:
        assert closes_cleanly(client)


def test_reload_lets_a_download_finish(server, protocol):
    """Case 32: reloads return at once while an old generation still sends."""
    s = server(SITE % 'old')
    data = os.urandom(24 << 20)
    s.file('big.bin', data)
    client, finish = begin_download(s, protocol)
    for name in ('one', 'two', 'three'):
        s.write_config(SITE % name)
        s.reload()
        assert s.get('/who', protocol).body == name.encode()
    assert finish().body == data
    client.close()
    wait_until(lambda: len(s.workers_pids()) == 1, 'old generations to end')


def test_shutdown_timeout_ends_an_endless_download(server, protocol):
    """Case 32: the old generation ends after its set time."""
    s = server(SITE % 'old', main='worker_shutdown_timeout 100ms;')
    s.file('big.bin', b'x' * (32 << 20))
    client, _ = begin_download(s, protocol)
    old = s.workers_pids()
    s.reload()
    wait_until(lambda: not any(alive(w) for w in old), 'the old worker to end')
    client.close()


@pytest.mark.parametrize('broken,words', [
    ('server { listen @SOCK@; no_such_thing on; }', r'\[emerg\].*unknown directive "no_such_thing"'),
    ('server { listen @SOCK@; root', r'\[emerg\].*unexpected end of file'),
    ('server { listen @SOCK@; access_log @DIR@/none/such/access.log; }', r'\[emerg\].*open\(\) ".*/none/such/access.log" failed \(2'),
])
def test_broken_reload_is_refused(server, protocol, broken, words):
    s = server(SITE % 'old')
    kept = s.connect(protocol)
    assert kept.request('/who').body == b'old'
    old = s.workers_pids()
    s.write_config(broken)
    s.process.send_signal(signal.SIGHUP)
    s.wait_log(words)
    s.wait_log('the old one goes on')
    r = kept.request('/who')
    assert r.body == b'old' and not r.closed
    assert s.get('/who', protocol).body == b'old'
    assert s.workers_pids() == old
    s.write_config(SITE % 'repaired')
    s.reload()
    assert s.get('/who', protocol).body == b'repaired'


def test_reload_with_a_taken_port_is_refused(server):
    s = server(SITE % 'old')
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        extra = s.directory / 'extra.sock'
        s.write_config((SITE % 'new') + f'server {{ listen unix:{extra}; listen 127.0.0.1:{taken.getsockname()[1]}; }}')
        s.process.send_signal(signal.SIGHUP)
        s.wait_log(r'\[emerg\].*bind\(\) to 127.0.0.1:\d+ failed \(98: Address already in use\)')
        s.wait_log('the old one goes on')
    assert s.get('/who').body == b'old'
    assert not extra.exists()  # What was bound for the refused configuration is gone again.
    s.reload()
    assert s.get('/who').body == b'new'
    assert Http1(extra).request('/').status in (403, 404)


def test_reload_adds_and_removes_listeners(server):
    port, path = free_port(), '@DIR@/second.sock'
    both = SITE % 'one' + f'server {{ listen 127.0.0.1:{port}; listen unix:{path}; location / {{ return 200 two; }} }}'
    s = server(SITE % 'one')
    second = s.directory / 'second.sock'
    with pytest.raises(ConnectionRefusedError):
        Http1(('127.0.0.1', port))
    s.write_config(both)
    s.reload()
    assert Http1(('127.0.0.1', port)).request('/').body == b'two'
    assert Http1(second).request('/').body == b'two'
    s.write_config(SITE % 'one')
    s.reload()
    wait_until(lambda: len(s.workers_pids()) == 1, 'the old worker to end')

    def refused():
        with socket.socket() as probe:
            return probe.connect_ex(('127.0.0.1', port)) != 0
    wait_until(refused, 'the port to be closed')
    assert not second.exists()
    assert s.get('/who').body == b'one'
    s.write_config(both)
    s.reload()
    assert Http1(('127.0.0.1', port)).request('/').body == b'two' and Http1(second).request('/').body == b'two'


def test_no_connection_is_lost_over_reloads(server, protocol):
    """Clients that come and go all the time notice nothing of ten reloads."""
    s = server(SITE % 'a', workers=2)
    stop, failures, served = threading.Event(), [], [0]

    def client():
        while not stop.is_set():
            try:
                r = s.get('/who', protocol)
                assert r.status == 200, r
                served[0] += 1
            except (OSError, EOFError, AssertionError) as error:
                failures.append(repr(error))
    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            before = served[0]
            s.reload()
            wait_until(lambda: served[0] > before + 8 or failures, 'requests')
    finally:
        stop.set()
        for thread in threads:
            thread.join(DEADLINE)
    assert not failures, failures[:3]


def test_restarts_and_reloads_never_find_the_address_in_use(server):
    """Case 33, with a connection that the server closed left in TIME_WAIT each time."""
    port = free_port()
    s = server(SITE % 'a' + f'keepalive_timeout 500ms; server {{ listen 127.0.0.1:{port}; location / {{ return 200 tcp; }} }}', start=False)

    def up():
        try:
            return Http1(('127.0.0.1', port))
        except OSError:
            return None
    for sig in (signal.SIGTERM, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM):
        s.start()
        client = wait_until(up, 'the port')
        assert client.request('/', headers=[('Connection', 'close')]).body == b'tcp'
        assert client.closed()
        kept = Http1(('127.0.0.1', port))
        assert kept.request('/').status == 200
        s.reload()
        assert Http1(('127.0.0.1', port)).request('/').status == 200
        workers = s.workers_pids()
        s.stop(sig)
        kept.close()
        wait_until(lambda: not any(alive(w) for w in workers), 'workers to end')
    assert 'already in use' not in s.log() + s.stderr_text()


def answers(s):
    try:
        return s.get('/who').status == 200
    except (EOFError, ConnectionError):
        return False


def test_counters_are_kept_over_reloads(server):
    s = server(SITE % 'a')

    def counts():
        text = s.get('/status').body.decode()
        return [int(n) for n in re.search(r'requests\n (\d+) (\d+) (\d+) ', text).groups()]
    for _ in range(10):
        s.get('/who')
    before = counts()
    assert before[2] >= 11
    s.reload()
    after = counts()
    assert after[0] > before[0] and after[1] > before[1] and after[2] == before[2] + 1
    wait_until(lambda: len(s.workers_pids()) == 1, 'the old worker to end')
    os.kill(s.worker(), signal.SIGKILL)
    s.may_crash = True
    # The kernel takes a killed worker's accept down some milliseconds later: what it accepts until then is lost with it.
    s.wait_log('exited on signal 9')
    wait_until(lambda: answers(s), 'the new worker')
    assert counts()[2] >= after[2] + 1
    wait_until(lambda: b'Active connections: 1 ' in s.get('/status').body, 'the dead worker\'s connections to be forgotten')


def test_killed_worker_is_replaced(server, protocol):
    s = server(SITE % 'a', workers=2)
    s.may_crash = True
    victim = s.worker()
    os.kill(victim, signal.SIGKILL)
    s.wait_log(rf'\[alert\].*worker process {victim} exited on signal 9')
    wait_until(lambda: len(s.workers_pids()) == 2 and victim not in s.workers_pids(), 'a new worker')
    for _ in range(8):
        assert s.get('/who', protocol).body == b'a'


def test_workers_end_when_the_master_is_killed(server, protocol):
    s = server('keepalive_timeout 1s;' + SITE % 'a', workers=2)
    workers = s.workers_pids()
    idle = s.connect(protocol)
    assert idle.request('/who').status == 200
    s.process.kill()
    s.process.wait()
    assert closes_cleanly(idle)
    wait_until(lambda: not any(alive(w) for w in workers), 'orphaned workers to end')


def test_reopened_logs_lose_no_line(server, protocol):
    """Case 31: mv and USR1 under load."""
    s = server(SITE % 'a', workers=2)
    stop, asked = threading.Event(), [0]

    def client():
        c = s.connect(protocol)
        for i in range(900):  # Fewer than keepalive_requests.
            if stop.is_set():
                break
            assert c.request(f'/who?n={i}').status == 200
            asked[0] += 1
        c.close()
    thread = threading.Thread(target=client)
    thread.start()
    names = ['access.log', 'error.log']
    parts = []
    try:
        for n in range(1, 4):
            before = asked[0]
            wait_until(lambda: asked[0] > before + 20 or not thread.is_alive(), 'requests')
            for name in names:
                os.rename(s.directory / name, s.directory / f'{name}.{n}')
            parts.append(f'access.log.{n}')
            s.process.send_signal(signal.SIGUSR1)
            for name in names:
                wait_until((s.directory / name).exists, f'a new {name}')
    finally:
        stop.set()
        thread.join(DEADLINE)
    parts.append('access.log')
    s.stop(signal.SIGQUIT)
    lines = ''.join(s.log(name) for name in parts).splitlines()
    numbers = [int(re.search(r'/who\?n=(\d+) ', line).group(1)) for line in lines]
    assert sorted(numbers) == list(range(asked[0]))


def test_reopened_logs_have_mode_and_owner(server):
    s = server(SITE % 'a')
    first = (s.directory / 'access.log').stat()
    os.rename(s.directory / 'access.log', s.directory / 'access.log.1')
    s.process.send_signal(signal.SIGUSR1)
    wait_until((s.directory / 'access.log').exists, 'the new file')
    # It is given away a moment after it was made.
    wait_until(lambda: (s.directory / 'access.log').stat().st_uid == first.st_uid, 'its owner')
    again = (s.directory / 'access.log').stat()
    assert stat.S_IMODE(first.st_mode) == stat.S_IMODE(again.st_mode) == 0o640
    assert (first.st_uid, first.st_gid) == (again.st_uid, again.st_gid)
    if AS_ROOT:
        import pwd
        assert again.st_uid == pwd.getpwnam('www-data').pw_uid

    def logged():
        s.get('/who')
        return '/who' in s.log('access.log')
    wait_until(logged, 'a line in the new file')


def test_command_line_signals(server):
    s = server(SITE % 'old')
    old = s.workers_pids()
    s.write_config(SITE % 'new')
    assert run_now(s, '-s', 'reload') == (0, '')
    wait_until(lambda: s.get('/who').body == b'new', 'the reload')
    wait_until(lambda: not any(alive(w) for w in old), 'the old worker to end')
    os.rename(s.directory / 'access.log', s.directory / 'access.log.1')
    assert run_now(s, '-s', 'reopen') == (0, '')
    wait_until((s.directory / 'access.log').exists, 'the new log')
    assert run_now(s, '-s', 'quit') == (0, '')
    assert s.process.wait(DEADLINE) == 0
    s.start()
    assert run_now(s, '-s', 'stop') == (0, '')
    assert s.process.wait(DEADLINE) == 0
    code, said = run_now(s, '-s', 'stop')
    assert code == 1 and re.search(r'\[error\] open\(\) ".*/pid" failed \(2: No such file or directory\)', said)
    code, said = run_now(s, '-s', 'dance')
    assert code == 1 and 'invalid option: "-s dance"' in said


def test_daemon_goes_to_the_background(server):
    s = server(SITE % 'a', start=False)
    path = s.directory / 'corehttpd.conf'
    path.write_text(path.read_text().replace('daemon off;', 'daemon on;'))
    assert run_now(s) == (0, '')
    pid = int(wait_until(lambda: (s.directory / 'pid').exists() and (s.directory / 'pid').read_text(), 'the pid file'))
    try:
        assert pid != os.getpid() and alive(pid)
        assert os.getsid(pid) == pid
        for fd in (0, 1, 2):
            assert os.readlink(f'/proc/{pid}/fd/{fd}') == '/dev/null'
        assert s.get('/who').body == b'a'
        assert run_now(s, '-s', 'stop')[0] == 0
        wait_until(lambda: not alive(pid), 'the end')
        assert not s.socket_path.exists() and not (s.directory / 'pid').exists()
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_taken_port(server):
    s = server('server { listen @SOCK@; }', start=False)
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        port = taken.getsockname()[1]
        s.write_config(f'server {{ listen @SOCK@; listen 127.0.0.1:{port}; }}')
        code, said = run_now(s)
    assert code == 1
    assert f'[emerg] bind() to 127.0.0.1:{port} failed (98: Address already in use)' in said
    assert not (s.directory / 'pid').exists()
    assert not s.socket_path.exists()  # Bound before the other one failed.


def test_second_instance_on_one_unix_socket_is_refused(server):
    s = server(SITE % 'first')
    code, said = run_now(s)
    assert code == 1 and re.search(r'\[emerg\] bind\(\) to unix:.*web.sock failed \(98: Address already in use\)', said)
    assert s.get('/who').body == b'first'  # Its socket was left alone.
    assert int((s.directory / 'pid').read_text()) == s.process.pid


def test_worker_processes(server, protocol):
    s = server(SITE % 'a', workers=3)
    wait_until(lambda: len(s.workers_pids()) == 3, 'three workers')
    for _ in range(6):
        assert s.get('/who', protocol).body == b'a'
    s.workers = 1
    s.write_config(SITE % 'b')
    s.reload()
    wait_until(lambda: len(s.workers_pids()) == 1, 'one worker')
    assert s.get('/who', protocol).body == b'b'


def test_titles(server):
    s = server(SITE % 'a')
    def title(pid):
        with open(f'/proc/{pid}/cmdline', 'rb') as file:
            return file.read().rstrip(b'\0').decode()
    assert title(s.process.pid).startswith('corehttpd: master process')
    wait_until(lambda: title(s.worker()) == 'corehttpd: worker process', 'the title')


@pytest.mark.parametrize('sig', [signal.SIGTERM, signal.SIGQUIT])
def test_without_a_master(server, protocol, sig):
    s = server(SITE % 'a', main='master_process off;')
    assert s.workers_pids() == []
    assert s.get('/who', protocol).body == b'a'
    os.rename(s.directory / 'access.log', s.directory / 'access.log.1')
    s.process.send_signal(signal.SIGUSR1)
    wait_until((s.directory / 'access.log').exists, 'the new log')
    assert s.get('/who', protocol).body == b'a'
    assert s.stop(sig) == 0
    assert not (s.directory / 'pid').exists() and not s.socket_path.exists()


def ids_of(pid):
    with open(f'/proc/{pid}/status') as file:
        text = file.read()
    return {name: [int(n) for n in re.search(rf'^{name}:[ \t]*(.*)$', text, re.M).group(1).split()] for name in ('Uid', 'Gid', 'Groups')}


@pytest.mark.skipif(not AS_ROOT, reason='only root can change its user')
@pytest.mark.parametrize('line,user,group', [('', 'www-data', 'www-data'), ('user nobody;', 'nobody', 'nogroup'),
                                             ('user nobody daemon;', 'nobody', 'daemon')])
def test_workers_run_as_the_user(server, line, user, group):
    import grp
    import pwd
    s = server(SITE % 'a', main=line)
    uid, gid = pwd.getpwnam(user).pw_uid, grp.getgrnam(group).gr_gid
    assert s.get('/who').body == b'a'
    ids = ids_of(s.worker())
    assert ids['Uid'] == [uid] * 4 and ids['Gid'] == [gid] * 4
    assert 0 not in ids['Groups']
    assert ids_of(s.process.pid)['Uid'] == [0] * 4


def test_unknown_user(server):
    s = server(SITE % 'a', main='user no-such-user;', start=False)
    code, said = run_now(s)
    if AS_ROOT:
        assert code == 1 and re.search(r'\[emerg\].*getpwnam.*"no-such-user"', said)


@pytest.mark.parametrize('closed', [(0,), (0, 1), (0, 1, 2)])
def test_started_with_closed_descriptors(server, closed):
    """No log, socket or file may become descriptor 0, 1 or 2: what is printed would land in it."""
    s = server(SITE % 'a', start=False)

    def close():
        for fd in closed:
            os.close(fd)
    s.stderr = open(s.directory / 'stderr.txt', 'wb')
    s.process = subprocess.Popen(s.command(), stderr=s.stderr, preexec_fn=close)
    wait_until(lambda: s.pid_file_valid() and s.answers(), 'start')
    assert s.get('/who').body == b'a'
    for pid in [s.process.pid] + s.workers_pids():
        for fd in closed:
            assert os.readlink(f'/proc/{pid}/fd/{fd}') == '/dev/null'


def test_workers_hold_no_descriptors_of_others(server):
    """Inherited descriptors of the one who started us aside: a worker has its ring, its sockets and logs, not the master's channels."""
    s = server(SITE % 'a', workers=3)
    assert s.get('/who').body == b'a'
    if not AS_ROOT:
        pytest.skip('the descriptors of an undumpable process are root\'s to see')
    for pid in s.workers_pids():
        links = [os.readlink(f'/proc/{pid}/fd/{fd}') for fd in os.listdir(f'/proc/{pid}/fd')]
        sockets = [link for link in links if link.startswith('socket:')]
        assert len(sockets) <= 3, links  # The listener, the channel, maybe a client.


def test_signals_that_mean_nothing_do_no_harm(server):
    s = server(SITE % 'a')
    worker = wait_until(s.workers_pids, 'a worker')[0]
    for sig in (signal.SIGUSR2, signal.SIGWINCH, signal.SIGPIPE, signal.SIGHUP):
        os.kill(worker, sig)
    for sig in (signal.SIGWINCH, signal.SIGALRM, signal.SIGCHLD):
        s.process.send_signal(sig)
    s.wait_log(r'\[notice\].*signal Window changed received')
    assert s.workers_pids() == [worker]
    assert s.get('/who').body == b'a' and s.process.poll() is None


def test_h2_reload_sends_two_goaways(server):
    """RFC 9113 §6.8: first with the largest stream identifier, so that requests that cross it are served, then with the last one."""
    s = server(SITE % 'old')
    client = Http2(s.socket_path)
    assert client.request('/who').body == b'old'
    s.reload()
    while client.pump():
        pass
    ends = [e for e in client.events[0] if isinstance(e, h2.events.ConnectionTerminated)]
    assert [(e.error_code, e.last_stream_id) for e in ends] == [(0, 2**31 - 1), (0, 1)]


def test_binary_is_ours():
    done = run(str(BINARY), '-v')
    assert done.returncode == 0 and re.match(r'corehttpd version: corehttpd/\d+\.\d+', done.stderr)


def test_worker_connections_is_a_limit(server):
    """Above it accepting stops, with a log line; a connection that is closed makes room for the next."""
    s = server(SITE % 'a', events='worker_connections 8;')
    clients = []
    for _ in range(8):
        client = s.connect('h1')
        client.send(b'GET /who HTTP/1.1\r\nHost: x\r\n\r\n')
        clients.append(client)
    for client in clients:
        assert client.read_response().status == 200
    waiting = s.connect('h1')  # Queued by the kernel.
    waiting.send(b'GET /who HTTP/1.1\r\nHost: x\r\n\r\n')
    s.wait_log(r'worker_connections')
    active = int(re.search(rb'Active connections: (\d+)', clients[0].request('/status').body).group(1))
    assert active == 8
    clients[1].close()
    assert waiting.read_response().status == 200
    for client in clients + [waiting]:
        client.close()


def environment_of(s):
    """The workers' environment, seen through the time zone in which they write the access log."""
    s.get('/who')
    return s.wait_log(r'\[\S+ ([+-]\d{4})\] "GET /who', 'access.log').group(1)


@pytest.mark.parametrize('main,zone', [
    ('', '+0330'), ('env TZ=Etc/GMT-9;', '+0900'), ('env ZONE; env TZ;', '+0330'),
], ids=['TZ is kept', 'set', 'named'])
def test_env(server, main, zone):
    s = server(SITE % 'a', main=main, environment={**os.environ, 'TZ': 'XXX-3:30'})
    assert environment_of(s) == zone


def limits(pid):
    with open(f'/proc/{pid}/limits') as file:
        return {line[:25].strip(): line[26:].split()[:2] for line in file}


def test_core_files_are_off_unless_asked_for(server):
    s = server(SITE % 'a')
    assert limits(s.worker())['Max core file size'] == ['0', '0']
    t = server(SITE % 'a', main='worker_rlimit_core 64k;')
    assert limits(t.worker())['Max core file size'] == ['65536', '65536']


def test_repeated_crashes_back_off(server):
    """A worker that dies young again and again is started ever later; the others serve meanwhile."""
    s = server(SITE % 'a', workers=2)
    s.may_crash = True
    for n in range(2):
        victim = wait_until(lambda: len(s.workers_pids()) == 2 and max(s.workers_pids()), 'two workers')
        os.kill(victim, signal.SIGKILL)
        s.wait_log(rf'worker process {victim} exited on signal 9')
    assert s.wait_log(r'\[alert\].*worker process \d+ is started again in 2 s: it has ended too often')
    assert s.get('/who').body == b'a'
    assert s.stop() == 0


def test_workers_are_confined(server):
    """no_new_privs and a system call filter; off when asked for."""
    def state(s):
        with open(f'/proc/{s.worker()}/status') as file:
            fields = dict(line.rstrip('\n').split(':\t', 1) for line in file if ':\t' in line)
        return fields['NoNewPrivs'], fields['Seccomp']
    s = server(SITE % 'a')
    assert s.get('/who').body == b'a'
    assert state(s) == ('1', '2')
    t = server(SITE % 'a', main='worker_sandbox off;')
    assert t.get('/who').body == b'a'
    assert state(t)[1] != '2'

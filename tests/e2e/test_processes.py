"""Master and workers: start, stop, reload, reopened logs, crashes, privileges, the command line's signals."""
import os
import re
import signal
import socket
import stat
import subprocess
import threading

import pytest
from harness import BINARY, DEADLINE, Http1, free_port, wait_until
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

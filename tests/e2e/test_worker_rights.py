"""Workers: whose rights they have, which descriptors, limits and environment; what they answer to; how they come back."""
import os
import re
import signal
import subprocess

import h2.events
import pytest
from harness import BINARY, Http2, wait_until
from test_processes import AS_ROOT, SITE, run, run_now


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
    s = server(SITE % 'a', events='worker_connections 8;', tls=False)
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

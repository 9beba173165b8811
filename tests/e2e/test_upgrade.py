"""USR2 and -s upgrade: a new binary takes over on the inherited sockets, or the old one goes on."""
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest
from harness import BINARY, DEADLINE, Http1, Successor, free_port, wait_until
from test_processes import SITE, alive, begin_download, closes_cleanly


def run_now(s, *more):
    done = subprocess.run(s.command(*more), capture_output=True, text=True, timeout=DEADLINE * 3)
    return done.returncode, done.stderr


def own_binary(directory):
    """A copy that a test may break."""
    path = directory / 'corehttpd'
    shutil.copy(BINARY, path)
    return path


def replace(path, data, mode=0o755):
    new = path.with_suffix('.new')
    new.write_bytes(data)
    new.chmod(mode)
    os.rename(new, path)


def test_new_binary_takes_over(server, protocol):
    port = free_port()
    s = server('keepalive_timeout 1s;' + SITE % 'a' + f'server {{ listen 127.0.0.1:{port}; location / {{ return 200 tcp; }} }}', workers=2)
    kept = s.connect(protocol)
    assert kept.request('/who').body == b'a'
    old, workers = s.process, wait_until(lambda: len(s.workers_pids()) == 2 and s.workers_pids(), 'workers')
    requests = s.status()['connections']['requests']
    assert s.upgrade() == (0, '')
    assert s.process.pid != old.pid and int((s.directory / 'pid').read_text()) == s.process.pid
    assert closes_cleanly(kept)  # Idle: told to go.
    assert old.wait(DEADLINE) == 0
    wait_until(lambda: not any(alive(w) for w in workers), 'the old workers to end')
    assert not (s.directory / 'pid.oldbin').exists()
    assert (s.directory / 'pid').exists() and s.socket_path.exists()
    assert s.get('/who', protocol).body == b'a'
    assert Http1(('127.0.0.1', port)).request('/').body == b'tcp'
    status = s.status()
    assert status['master'] == s.process.pid and status['generation'] == 2
    assert status['connections']['requests'] == requests + 2  # Counted on.
    new_workers = s.workers_pids()
    s.process.send_signal(signal.SIGTERM)
    s.process.wait()
    assert not (s.directory / 'pid').exists() and not s.socket_path.exists() and not (s.directory / 'pid.sock').exists()
    assert not any(alive(w) for w in new_workers)


def test_usr2_keeps_the_old_pid_aside_while_it_drains(server, protocol):
    s = server(SITE % 'a')
    data = os.urandom(24 << 20)
    s.file('big.bin', data)
    client, finish = begin_download(s, protocol)
    old = s.process
    old.send_signal(signal.SIGUSR2)
    new = wait_until(lambda: (pid := int((s.directory / 'pid').read_text())) != old.pid and pid, 'the new master')
    assert int((s.directory / 'pid.oldbin').read_text()) == old.pid
    s.wait_log(rf'\[notice\].*new binary process {new} serves')
    assert s.get('/who', protocol).body == b'a'
    assert old.poll() is None
    r = finish()
    assert r.status == 200 and r.body == data
    client.close()
    assert old.wait(DEADLINE) == 0
    assert not (s.directory / 'pid.oldbin').exists()
    s.process = Successor(new)


def test_upgrades_follow_each_other_and_take_the_configuration_of_the_day(server):
    s = server(SITE % 'one')
    for n, name in enumerate(('two', 'three', 'four'), 2):
        s.write_config(SITE % name)
        assert s.upgrade() == (0, '')
        assert s.get('/who').body == name.encode()
        assert s.status()['generation'] == n
    s.write_config(SITE % 'five')
    assert run_now(s, '-s', 'reload') == (0, '')
    assert s.get('/who').body == b'five'


@pytest.mark.parametrize('data,mode,words', [
    (b'#!/bin/sh\nexit 7\n', 0o755, 'exited with code 7'),
    (b'#!/bin/sh\nkill -9 $$\n', 0o755, 'exited on signal 9'),
    (b'no program', 0o644, r'execve\(\) of ".*/corehttpd" failed \(13: Permission denied\)'),
    (b'\x7fELF broken', 0o755, r'execve\(\) of ".*/corehttpd" failed \(8: Exec format error\)'),
], ids=['exits', 'dies', 'not-executable', 'no-program'])
def test_broken_binary_leaves_the_old_one(server, directory, data, mode, words):
    binary = own_binary(directory)
    s = server(SITE % 'a', binary=binary)
    kept = s.connect()
    assert kept.request('/who').body == b'a'
    workers = wait_until(s.workers_pids, 'a worker')
    s.may_crash = True
    replace(binary, data, mode)
    s.binary = BINARY  # Asks; what is started is the broken one.
    code, said = s.upgrade()
    assert code == 1 and re.fullmatch(rf'corehttpd: \[error\] failed: {words}\n', said)
    s.wait_log(rf'\[alert\].*did not come up: {words}; the old one goes on')
    assert not (s.directory / 'pid.oldbin').exists()
    assert int((s.directory / 'pid').read_text()) == s.process.pid
    assert kept.request('/who').body == b'a' and s.workers_pids() == workers
    status = s.status()
    assert status['last_upgrade']['result'] == 'refused' and re.fullmatch(words, status['last_upgrade']['reason'])
    shutil.copy(BINARY, directory / 'sound')
    os.rename(directory / 'sound', binary)
    assert s.upgrade() == (0, '')
    assert s.get('/who').body == b'a'


@pytest.mark.parametrize('broken,words', [
    ('server { listen @SOCK@; no_such_thing on; }', 'unknown directive "no_such_thing" in .*:\\d+'),
    ('server { listen @SOCK@; access_log @DIR@/none/such/access.log; }', r'open\(\) ".*/none/such/access.log" failed \(2: .*\)'),
])
def test_broken_configuration_leaves_the_old_binary(server, protocol, broken, words):
    s = server(SITE % 'a')
    s.write_config(broken)
    s.process.send_signal(signal.SIGUSR2)
    s.wait_log(rf'\[alert\].*new binary process \d+ did not come up: {words}; the old one goes on')
    assert s.get('/who', protocol).body == b'a'
    assert s.socket_path.exists() and int((s.directory / 'pid').read_text()) == s.process.pid


def test_new_workers_that_cannot_start_leave_the_old_ones(server, protocol):
    """Its descriptors do not suffice for a ring: neither a reload nor an upgrade may end what serves."""
    s = server(SITE % 'a')
    s.may_crash = True
    workers = wait_until(s.workers_pids, 'a worker')
    s.main = 'worker_rlimit_nofile 4;'
    s.write_config(SITE % 'b')
    code, said = run_now(s, '-s', 'reload')
    assert code == 1 and re.search(r'failed: worker process \d+ exited with code 2 before it was ready', said), said
    s.wait_log(r'\[emerg\].*the new configuration cannot be served: worker process')
    assert s.get('/who', protocol).body == b'a' and s.workers_pids() == workers
    code, said = s.upgrade()
    assert code == 1 and 'its workers cannot start' in said, said
    assert s.get('/who', protocol).body == b'a' and s.workers_pids() == workers
    s.main = ''
    s.write_config(SITE % 'c')
    assert run_now(s, '-s', 'reload') == (0, '')
    assert s.get('/who', protocol).body == b'c'


def test_reload_by_the_command_line_says_how_it_ended(server):
    s = server(SITE % 'a')
    s.write_config(SITE % 'b' + 'server { listen 127.0.0.1:1; access_log @DIR@/none/x; }')
    code, said = run_now(s, '-s', 'reload')
    assert code == 1 and re.fullmatch(r'corehttpd: \[error\] failed: open\(\) ".*/none/x" failed \(2: No such file or directory\)\n', said)
    status = s.status()
    assert status['generation'] == 1 and status['last_reload']['result'] == 'refused'
    assert '/none/x' in status['last_reload']['reason']
    s.write_config('server { nonsense; }')
    code, said = run_now(s, '-s', 'reload')
    assert code == 1 and 'unknown directive "nonsense"' in said
    s.write_config(SITE % 'c')
    assert run_now(s, '-s', 'reload') == (0, '')
    status = s.status()
    assert status['generation'] == 2 and status['last_reload']['result'] == 'taken'
    assert s.get('/who').body == b'c'


def test_at_most_three_generations_and_the_oldest_goes_first(server, protocol):
    s = server(SITE % 'a')
    s.file('big.bin', b'x' * (32 << 20))
    clients, generations = [], []
    for n in range(1, 6):
        clients.append(begin_download(s, protocol)[0])
        # The one that is new: numbers of processes start again at some time.
        generations += set(s.workers_pids()) - set(generations)
        s.write_config(SITE % n)
        assert run_now(s, '-s', 'reload') == (0, '')
    wait_until(lambda: len(s.workers_pids()) == 3, 'the oldest to end')
    wait_until(lambda: [alive(pid) for pid in generations] == [False, False, False, True, True], 'nothing else to be alive')
    assert [g['state'] for g in s.status()['generations']] == ['draining', 'draining', 'serving']
    s.wait_log(r'\[warn\].*the connections of generation 1 are closed')
    # Masters count as well.
    old = s.process
    assert s.upgrade() == (0, '')
    assert s.status()['older_masters'] == 1
    wait_until(lambda: not alive(generations[3]), 'the oldest to end')
    for _ in range(2):
        s.process.send_signal(signal.SIGHUP)
        clients.append(begin_download(s, protocol)[0])
        assert run_now(s, '-s', 'reload') == (0, '')
    assert old.wait(DEADLINE) == 0
    for client in clients:
        client.close()


def test_stop_during_an_upgrade_ends_both(server, directory):
    binary = own_binary(directory)
    s = server(SITE % 'a', binary=binary)
    s.may_crash = True  # The new one ends by our signal.
    replace(binary, b'#!/bin/sh\nexec sleep 60\n')
    s.process.send_signal(signal.SIGUSR2)
    s.wait_log('starting new binary')
    assert s.stop() == 0
    assert not (s.directory / 'pid').exists() and not (s.directory / 'pid.oldbin').exists()


def test_status_as_text(server):
    s = server(SITE % 'a')
    wait_until(lambda: s.status()['generations'][0]['state'] == 'serving', 'its workers')
    done = subprocess.run(s.command('--status'), capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0
    assert re.search(rf'^corehttpd/\S+, master process {s.process.pid}, up ', done.stdout)
    assert re.search(rf'^generation 1: serving since .*, 1 worker: {s.worker()}$', done.stdout, re.M)
    assert 'last reload: none\n' in done.stdout and 'sites degraded: none\n' in done.stdout
    assert re.search(r'^libraries:.* libnghttp2\.so\.\d', done.stdout, re.M)
    assert (s.directory / 'pid.sock').stat().st_mode & 0o777 == 0o600
    s.stop()
    done = subprocess.run(s.command('--status'), capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 1 and 'no master answers at' in done.stderr


def test_control_socket_bears_nonsense(server):
    """Clients that hang, talk nonsense or never read cost the others nothing."""
    s = server(SITE % 'a')
    path = str(s.directory / 'pid.sock')

    def client():
        c = socket.socket(socket.AF_UNIX)
        c.settimeout(DEADLINE)
        c.connect(path)
        return c
    silent = [client() for _ in range(8)]
    for data in (b'dance\n', b'\n', b'x' * 1000, b'status\0\n', b'\xff\xff\n'):
        c = client()
        c.sendall(data)
        try:
            assert c.recv(1000) in (b'failed: unknown request\n', b'')
        except ConnectionResetError:
            pass  # Closed with some of the nonsense unread.
        c.close()
    assert s.status()['generation'] == 1
    for c in silent:
        c.close()
    assert s.get('/who').body == b'a'

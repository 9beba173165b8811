"""A start that fails says so where it was asked for, in the foreground and as a daemon; nothing holds the master up."""
import os
import re
import signal
import subprocess

import pytest
from harness import DEADLINE, Successor, wait_until
from test_processes import SITE


def run(s, *more):
    done = subprocess.run(s.command(*more), capture_output=True, text=True, timeout=DEADLINE)
    return done.returncode, done.stderr


def as_daemon(s):
    path = s.directory / 'corehttpd.conf'
    path.write_text(path.read_text().replace('daemon off;', 'daemon on;'))


@pytest.mark.parametrize('daemon', [False, True])
@pytest.mark.parametrize('pid', ['/nonexistent/x.pid', '@DIR@/www'])
def test_pid_file_that_cannot_be_written(server, daemon, pid):
    s = server(SITE % 'a', start=False)
    path = s.directory / 'corehttpd.conf'
    path.write_text(path.read_text().replace(f'pid {s.directory}/pid;', f'pid {pid};'.replace('@DIR@', str(s.directory))))
    if daemon:
        as_daemon(s)
    code, said = run(s)
    assert code == 1 and re.search(r'\[emerg\] .*(/nonexistent/x.pid|/www)" failed \(\d+: ', said), said
    s.wait_log(r'\[emerg\].* failed \(')
    code, said = run(s, '-t')
    assert code == 1 and re.search(r'open\(\) ".*" failed \((2: No such file|21: Is a directory)', said), said


def test_daemon_returns_when_it_serves(server):
    s = server(SITE % 'a', start=False)
    as_daemon(s)
    assert run(s) == (0, '')
    s.process = Successor(int((s.directory / 'pid').read_text()))
    assert s.get('/who').body == b'a'
    s.stderr = open(os.devnull)


def test_daemon_whose_workers_cannot_start(server):
    s = server(SITE % 'a', start=False, main='worker_rlimit_nofile 4;')
    as_daemon(s)
    code, said = run(s)
    assert code == 1 and 'its workers cannot start' in said, said
    wait_until(lambda: not (s.directory / 'pid').exists(), 'the master to end')


def test_second_master_with_the_same_pid_file_is_refused(server):
    s = server(SITE % 'a')
    for daemon in (False, True):
        (s.directory / 'second.conf').write_text((s.directory / 'corehttpd.conf').read_text()
                                                 .replace('web.sock', 'other.sock').replace('daemon off', 'daemon on' if daemon else 'daemon off'))
        code, said = run(s, '-c', str(s.directory / 'second.conf'))
        assert code == 1 and 'another master is running with the pid file' in said, said
    assert int((s.directory / 'pid').read_text()) == s.process.pid
    assert s.status()['master'] == s.process.pid and not (s.directory / 'other.sock').exists()
    assert s.get('/who').body == b'a'


def test_start_after_a_killed_master(server):
    """Its pid file and socket lie about; nobody is behind them."""
    s = server(SITE % 'a')
    s.process.kill()
    s.process.wait()
    s.start()
    assert s.status()['master'] == s.process.pid


@pytest.mark.parametrize('name', ['fifo', '/dev/zero', '/dev/tty', '@DIR@'])
def test_include_of_what_is_no_file(server, name):
    s = server(SITE % 'a')
    os.mkfifo(s.directory / 'fifo')
    s.main = f'include {name};'.replace('@DIR@', str(s.directory))
    s.write_config(SITE % 'b')
    code, said = run(s, '-t')
    assert code == 1 and re.search(r'open\(\) ".*" failed \((22: Invalid argument|21: Is a directory|6: No such device)', said), said
    s.process.send_signal(signal.SIGHUP)
    s.wait_log('the old one goes on')
    assert s.get('/who').body == b'a'


def test_control_bytes_of_a_file_do_not_reach_the_terminal(server):
    s = server('\x01\x1b[31m;', start=False)
    code, said = run(s, '-t')
    assert code == 1 and '\x1b' not in said and '\x01' not in said


def test_reload_during_an_upgrade_is_kept_for_later(server):
    s = server(SITE % 'a')
    old = s.process
    old.send_signal(signal.SIGUSR2)
    s.write_config(SITE % 'b')
    old.send_signal(signal.SIGHUP)
    new = wait_until(lambda: (pid := int((s.directory / 'pid').read_text())) != old.pid and pid, 'the new master')
    wait_until(lambda: s.get('/who').body == b'b', 'the new configuration')
    assert old.wait(DEADLINE) == 0
    s.process = Successor(new)
    assert s.status()['last_upgrade']['result'] == 'taken'
    assert 'refused' not in s.log()


def test_stop_while_a_new_binary_starts(server):
    s = server(SITE % 'a', workers=2)
    s.process.send_signal(signal.SIGUSR2)
    s.wait_log('start worker process \\d+\n.*start worker process \\d+\n(.*\n)*.*start worker process')
    s.process.send_signal(signal.SIGTERM)
    assert s.process.wait(DEADLINE) == 0
    assert 'the old one goes on' not in s.log()
    wait_until(lambda: not (s.directory / 'pid.oldbin').exists(), 'the pid file to go')

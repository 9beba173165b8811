"""sd_notify: what the master tells the service manager, with a socket of ours in the manager's place."""
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest
from harness import BINARY, DEADLINE, Http1, Successor, wait_until
from test_processes import SITE


@pytest.fixture
def manager(directory):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(directory / 'notify'))
        (directory / 'notify').chmod(0o777)
        listener.settimeout(DEADLINE)
        yield listener


def message(manager):
    """The next message that is no sign of life, as a dict."""
    while True:
        fields = dict(line.split('=', 1) for line in manager.recv(4096).decode().splitlines())
        if 'WATCHDOG' not in fields:
            return fields


def start(server, manager, config=SITE % 'a', **more):
    environment = {**os.environ, 'NOTIFY_SOCKET': manager.getsockname(), **more.pop('environment', {})}
    return server(config, environment=environment, **more)


def test_ready_only_when_listening_and_stopping_at_the_end(server, manager):
    s = start(server, manager, start=False)
    s.start()
    told = message(manager)
    assert told == {'READY': '1', 'STATUS': 'generation 1, 1 workers'}
    assert s.get('/who').body == b'a'
    s.process.send_signal(signal.SIGQUIT)
    assert message(manager) == {'STOPPING': '1'}
    assert s.process.wait(DEADLINE) == 0


def test_broken_start_is_never_ready(server, manager):
    s = start(server, manager, 'server { nonsense; }', start=False)
    assert subprocess.run(s.command(), env=s.environment, capture_output=True, timeout=DEADLINE).returncode == 1
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(4096)


def test_reload_is_announced_and_ended(server, manager):
    s = start(server, manager)
    assert message(manager)['READY'] == '1'
    for config, status in ((SITE % 'b', 'generation 2, 1 workers'),
                           ('server { nonsense; }', 'generation 2, 1 workers; last reload refused: unknown directive "nonsense" in ')):
        s.write_config(config)
        s.process.send_signal(signal.SIGHUP)
        told = message(manager)
        assert told['RELOADING'] == '1' and int(told['MONOTONIC_USEC']) > 0
        told = message(manager)
        assert told['READY'] == '1' and told['STATUS'].startswith(status)
    assert s.get('/who').body == b'b'


def test_upgrade_moves_the_main_process(server, manager):
    s = start(server, manager, 'keepalive_timeout 1s;' + SITE % 'a')
    assert 'MAINPID' not in message(manager)
    old = s.process
    assert s.upgrade() == (0, '')
    told = message(manager)
    assert told['READY'] == '1' and int(told['MAINPID']) == s.process.pid
    assert old.wait(DEADLINE) == 0
    s.stop()
    assert message(manager) == {'STOPPING': '1'}  # The new one's; the old one had nothing more to say.


def test_watchdog_is_fed_also_after_an_upgrade(server, manager):
    s = start(server, manager, environment={'WATCHDOG_USEC': '200000'})

    def fed():
        return wait_until(lambda: manager.recv(4096) == b'WATCHDOG=1', 'a sign of life')
    assert message(manager)['READY'] == '1'
    for _ in range(3):
        fed()
    assert s.upgrade() == (0, '')
    while 'MAINPID' not in message(manager):
        pass
    for _ in range(3):
        fed()


def test_watchdog_of_another_process_is_left_alone(server, manager):
    s = start(server, manager, environment={'WATCHDOG_USEC': '20000', 'WATCHDOG_PID': '1'})
    assert message(manager)['READY'] == '1'
    assert Http1(s.socket_path).request('/who').body == b'a'
    s.stop()
    assert manager.recv(4096) == b'STOPPING=1'


def test_abstract_socket(server, directory):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        name = f'corehttpd-test-{os.getpid()}-{directory.name}'
        listener.bind('\0' + name)
        listener.settimeout(DEADLINE)
        server(SITE % 'a', environment={**os.environ, 'NOTIFY_SOCKET': '@' + name})
        assert listener.recv(4096).startswith(b'READY=1\n')


@pytest.fixture
def library(directory):
    """A copy of one of the daemon's libraries, found before the system's."""
    found = re.search(r'=> (/\S*/libmd\.so\S*)', subprocess.run(['ldd', BINARY], capture_output=True, text=True, timeout=DEADLINE).stdout)
    copy = directory / 'lib' / os.path.basename(found[1])
    copy.parent.mkdir()
    shutil.copy(found[1], copy)
    return copy


def replace(library):
    new = library.with_suffix('.new')
    shutil.copy(library, new)
    os.rename(new, library)


def test_moves_onto_a_replaced_library(server, manager, library):
    s = start(server, manager, environment={'LD_LIBRARY_PATH': str(library.parent)})
    assert message(manager)['READY'] == '1'
    replace(library)
    told = message(manager)
    while told.get('READY') != '1':
        told = message(manager)
    assert int(told['MAINPID']) != s.process.pid
    assert s.process.wait(DEADLINE) == 0
    s.process = Successor(int(told['MAINPID']))
    assert f'"{library}" was replaced, moving onto the new one' in s.log()
    maps = open(f'/proc/{s.process.pid}/maps').read()
    assert str(library) in maps and f'{library} (deleted)' not in maps
    assert s.get('/who').body == b'a'


def test_one_that_nobody_could_follow_stays_and_says_so(server, library):
    s = server(SITE % 'a', environment={**os.environ, 'LD_LIBRARY_PATH': str(library.parent)})
    replace(library)
    wait_until(lambda: f'"{library}" was replaced, this process goes on with the old one' in s.log(), 'the line', 2 * DEADLINE)
    assert s.process.poll() is None and s.get('/who').body == b'a'

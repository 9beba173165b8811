"""access_log and error_log to syslog: the messages' shape, UDP, IPv6, unix sockets; a dead or full server harms nothing."""
import os
import re
import socket

import pytest
from harness import wait_until

SITE = 'server { listen @SOCK@; root @DIR@/www; location / { return 200; } location /file/ { root @DIR@/www; } }'
DATE = r'(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d'
HOST = re.escape(socket.gethostname().lower())


class Receiver:
    """A syslog server; what it got is in messages."""

    def __init__(self, kind, path=None):
        self.path = path
        if kind == 'unix':
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.socket.bind(str(path))
            os.chmod(path, 0o666)
            self.address = f'unix:{path}'
        else:
            self.socket = socket.socket(socket.AF_INET6 if kind == 'udp6' else socket.AF_INET, socket.SOCK_DGRAM)
            self.socket.bind(('::1' if kind == 'udp6' else '127.0.0.1', 0))
            port = self.socket.getsockname()[1]
            self.address = f'[::1]:{port}' if kind == 'udp6' else f'127.0.0.1:{port}'
        self.socket.setblocking(False)
        self.messages = []

    def read(self):
        while True:
            try:
                self.messages.append(self.socket.recv(65536).decode())
            except BlockingIOError:
                return self.messages

    def wait(self, count):
        return wait_until(lambda: len(self.read()) >= count and self.messages, f'{count} messages')

    def close(self):
        self.socket.close()
        if self.path:
            os.unlink(self.path)


@pytest.fixture(params=['udp', 'udp6', 'unix'])
def receiver(request, directory):
    if request.param == 'udp6' and not os.path.exists('/proc/net/if_inet6'):
        pytest.skip('no IPv6')
    made = Receiver(request.param, directory / 'log.sock')
    yield made
    made.socket.close()


def test_access_log(server, protocol, receiver):
    s = server(f'log_format own "$uri $status"; access_log syslog:server={receiver.address} own;' + SITE)
    s.get('/one', protocol)
    assert re.fullmatch(rf'<190>{DATE} {HOST} nginx: /one 200', receiver.wait(1)[0]), receiver.messages


def test_parameters(server, receiver):
    s = server('log_format own "$uri";'
               f'access_log syslog:server={receiver.address},facility=mail,severity=debug,tag=web_1,nohostname own;' + SITE)
    s.get('/x')
    assert re.fullmatch(rf'<23>{DATE} web_1: /x', receiver.wait(1)[0]), receiver.messages


def test_beside_a_file_and_with_a_condition(server, directory):
    receiver = Receiver('udp')
    s = server('log_format own "$uri"; map $uri $wanted { /yes 1; default 0; }'
               f'access_log @DIR@/own.log own; access_log syslog:server={receiver.address} own if=$wanted;' + SITE)
    s.get('/no')
    s.get('/yes')
    assert receiver.wait(1)[0].endswith('nginx: /yes')
    wait_until(lambda: s.log('own.log') == '/no\n/yes\n', 'the file')
    assert len(receiver.read()) == 1


def test_error_log(server, protocol, receiver):
    """The severity is the line's level, and the line is the file's."""
    s = server(f'error_log syslog:server={receiver.address},facility=local3,tag=web info; error_log @DIR@/own.log;' + SITE)
    s.get('/file/none', protocol)
    line = next(m for m in wait_until(lambda: [m for m in receiver.read() if 'open()' in m], 'the message'))
    head, body = re.fullmatch(rf'(<{19 * 8 + 3}>{DATE} {HOST} web: )(.*)', line).groups()
    s.wait_log('open', 'own.log')
    assert body == s.log('own.log').splitlines()[0]
    assert re.match(r'\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[error\] \d+#\d+: \*\d+ open\(\) "', body)


def test_a_new_socket_at_the_path_is_noticed(server, directory):
    """/dev/log after a restart of its daemon."""
    receiver = Receiver('unix', directory / 'log.sock')
    s = server(f'log_format own "$arg_n"; access_log syslog:server={receiver.address} own;' + SITE)
    s.get('/?n=1')
    receiver.wait(1)
    receiver.close()
    fresh = Receiver('unix', directory / 'log.sock')
    s.get('/?n=2')
    assert fresh.wait(1)[0].endswith('nginx: 2')
    assert 'syslog' not in s.log()


def test_no_server(server, directory, protocol):
    """Told once; when one appears its messages arrive, and that is told with the count."""
    s = server(f'log_format own "$arg_n"; access_log syslog:server=unix:{directory}/log.sock own;' + SITE)
    for i in range(30):
        assert s.get(f'/?n={i}', protocol).status == 200
    s.wait_log(r'\[error\].*connect\(\) to syslog server "unix:.*" failed, messages are dropped \(2: No such file or directory\)')
    assert s.log().count('to syslog server') == 1
    receiver = Receiver('unix', directory / 'log.sock')

    def again():
        s.get('/?n=late', protocol)
        receiver.read()
        return 'works again' in s.log()
    wait_until(again, 'the recovery')
    dropped = int(s.wait_log(r'\[warn\].*syslog server "unix:.*" works again, (\d+) messages were dropped').group(1))
    assert dropped >= 30
    assert any(m.endswith(': late') for m in receiver.read())


def test_no_server_over_udp(server, protocol):
    receiver = Receiver('udp')
    s = server(f'log_format own "$arg_n"; access_log syslog:server={receiver.address} own;' + SITE)
    receiver.close()
    for i in range(30):
        assert s.get(f'/?n={i}', protocol).status == 200
    s.wait_log(r'\[error\].*send\(\) to syslog server "127.0.0.1:\d+" failed, messages are dropped \(111: Connection refused\)')
    assert s.log().count('to syslog server') == 1


def test_full_server(server, directory, protocol):
    """Nobody reads: the socket's queue fills, requests do not wait."""
    receiver = Receiver('unix', directory / 'log.sock')
    s = server(f'log_format own "$arg_n"; access_log syslog:server={receiver.address} own;' + SITE)
    client, asked = s.connect(protocol), 0
    while 'to syslog server' not in s.log():
        assert client.request(f'/?n={asked}').status == 200
        asked += 1
        assert asked < 20000
    s.wait_log(r'\[error\].*send\(\) to syslog server "unix:.*" failed, messages are dropped \(11: ')
    receiver.read()

    def again():
        client.request('/?n=late')
        receiver.read()
        return 'works again' in s.log()
    wait_until(again, 'the recovery')


def test_error_log_of_a_dead_server_does_not_call_itself(server, directory):
    """The only error log there is cannot be written: nothing happens."""
    s = server('server { listen @SOCK@; root @DIR@/www; }', main=f'error_log syslog:server=unix:{directory}/none.sock;')
    for i in range(50):
        assert s.get(f'/none{i}').status == 404


def test_names_are_resolved(server):
    receiver = Receiver('udp')
    port = receiver.socket.getsockname()[1]
    s = server(f'log_format own "$uri"; access_log syslog:server=localhost:{port} own;' + SITE)
    s.get('/named')
    if s.log().count('refused') == 0:  # localhost may be ::1 first.
        assert receiver.wait(1)[0].endswith(': /named')


@pytest.mark.parametrize('text,words', [
    ('syslog:', 'no syslog server specified'),
    ('syslog:facility=user', 'no syslog server specified'),
    ('syslog:server=unix:/x,facility=none', 'unknown syslog facility "none"'),
    ('syslog:server=unix:/x,severity=loud', 'unknown syslog severity "loud"'),
    ('syslog:server=unix:/x,tag=a-b', 'syslog "tag" only allows alphanumeric characters and underscore'),
    ('syslog:server=unix:/x,tag=' + 'a' * 33, 'syslog tag length exceeds 32'),
    ('syslog:server=unix:/x,server=unix:/y', 'duplicate syslog "server"'),
    ('syslog:server=unix:/x,colour=red', 'unknown syslog parameter "colour=red"'),
    ('syslog:server=127.0.0.1:0', 'invalid port in syslog server "127.0.0.1:0"'),
    ('syslog:server=', 'no host in syslog server'),
    ('syslog:server=unix:', 'no path in syslog server "unix:"'),
    ('syslog:server=[::x]', 'invalid host in syslog server "[::x]"'),
    ('syslog:server=no.such.host.invalid', 'host not found in syslog server "no.such.host.invalid"'),
])
@pytest.mark.parametrize('directive', ['access_log', 'error_log'])
def test_errors_in_the_configuration(server, directive, text, words):
    s = server(f'{directive} {text}; server {{ listen @SOCK@; }}', start=False)
    code, said = s.test()
    assert code == 1 and words in said, said

"""A FastCGI origin for tests that does exactly what a script tells it, right or wrong. php-fpm for what must be real."""
import glob
import os
import shutil
import socket
import struct
import subprocess
import threading
from pathlib import Path

from harness import end_process, wait_until

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR = 1, 2, 3, 4, 5, 6, 7


def record(kind, content=b'', request=1, padding=0, version=1):
    return struct.pack('>BBHHBx', version, kind, request, len(content), padding) + content + b'\0' * padding


def end_request(status=0, protocol_status=0, request=1):
    return record(END, struct.pack('>IB3x', status, protocol_status), request)


def stdout(data, **more):
    return b''.join(record(STDOUT, data[i:i + 65535], **more) for i in range(0, len(data), 65535))


def answer(data):
    """A complete, well-formed answer."""
    return stdout(data) + record(STDOUT) + end_request()


def _length(data, at):
    if data[at] < 128:
        return data[at], at + 1
    return struct.unpack('>I', data[at:at + 4])[0] & 0x7fffffff, at + 4


def parse_params(data):
    params, at = [], 0
    while at < len(data):
        n, at = _length(data, at)
        v, at = _length(data, at)
        params.append((data[at:at + n].decode('latin-1'), data[at + n:at + n + v].decode('latin-1')))
        at += n + v
    return params


class Request:
    def __init__(self, connection):
        self.connection, self.param_list, self.body, self.aborted = connection, [], b'', False
        self.complete = False  # Its body has ended in good order.
        self.keep = None

    @property
    def params(self):
        return dict(self.param_list)

    def send(self, data):
        self.connection.sendall(data)


class Peer:
    """Listens on a unix socket; handler(request) runs in a thread per connection once the body is complete (or, with early, once
    the parameters are)."""

    def __init__(self, path, handler, early=False):
        self.path, self.handler, self.early = str(path), handler, early
        self.requests, self.errors = [], []
        self.connections = 0
        self.open = set()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o777)
        self.listener.listen(128)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            self.open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _exactly(self, connection, count):
        data = b''
        while len(data) < count:
            more = connection.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def read_record(self, connection):
        version, kind, request, length, padding = struct.unpack('>BBHHBx', self._exactly(connection, 8))
        assert version == 1
        content = self._exactly(connection, length)
        self._exactly(connection, padding)
        return kind, content

    def _serve(self, connection):
        request, params, called = Request(connection), b'', False
        try:
            while True:
                kind, content = self.read_record(connection)
                if kind == BEGIN:
                    request, params, called = Request(connection), b'', False
                    request.keep = bool(content[2] & 1)
                elif kind == PARAMS:
                    params += content
                    if not content:
                        request.param_list = parse_params(params)
                        self.requests.append(request)
                        if self.early:
                            called = True
                            self.handler(request)
                elif kind == STDIN:
                    request.body += content
                    request.complete |= not content
                    if not content and not called:
                        self.handler(request)
                        if not request.keep:
                            break
                elif kind == ABORT:
                    request.aborted = True
        except (EOFError, OSError):
            pass
        except Exception as error:  # Shown by the test: a thread's traceback would be lost.
            self.errors.append(error)
        finally:
            self.open.discard(connection)
            connection.close()

    def close(self):
        self.listener.close()
        if os.path.exists(self.path):
            os.unlink(self.path)


def fpm_binary():
    found = sorted(glob.glob('/usr/sbin/php-fpm*'))
    assert found, 'php-fpm is not installed; packaging/set-up test installs it'
    return found[-1]


class PhpFpm:
    """A php-fpm of the test's own, in the foreground, on a unix socket."""

    def __init__(self, directory, pool='pm = static\npm.max_children = 2\n', ini=()):
        self.directory = Path(directory)
        self.socket = self.directory / 'php.sock'
        self.pool, self.ini = pool, ini
        self.start()

    def start(self):
        owner = ''
        if os.geteuid() == 0:
            owner = 'user = www-data\ngroup = www-data\nlisten.owner = www-data\nlisten.group = www-data\n'
        (self.directory / 'fpm.conf').write_text(
            f'[global]\nerror_log = {self.directory}/fpm.log\ndaemonize = no\n[www]\nlisten = {self.socket}\n{owner}{self.pool}')
        self.output = open(self.directory / 'fpm.out', 'wb')
        flags = [word for value in self.ini for word in ('-d', value)]
        self.process = subprocess.Popen([fpm_binary(), '-n', '-F', '-y', str(self.directory / 'fpm.conf'), *flags],
                                        stdout=self.output, stderr=self.output, stdin=subprocess.DEVNULL)
        wait_until(lambda: self.process.poll() is not None or self.accepts(), 'php-fpm')
        assert self.process.poll() is None, (self.directory / 'fpm.out').read_text()

    def accepts(self):
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self.socket))
            return True
        except OSError:
            return False

    def stop(self):
        end_process(self.process)
        self.output.close()

"""Starts the built daemon on a configuration given inline, and asks it over each protocol from one script.

Everything lives under one temporary directory; sites listen on a unix socket (no port can be taken) unless a test asks for ports.
Tests wait on conditions, never for a time.
"""
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path

import h2.config
import h2.connection
import h2.events

import certificates

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get('COREHTTPD', ROOT / 'build/release/corehttpd'))
DEADLINE = 20  # Seconds after which waiting for a condition is a failure.


def old(path, age=3600):
    """Gives a file a time well in the past, so that its content may be cached; the time."""
    when = int(time.time()) - age
    os.utime(path, (when, when))
    return when


def http_date(when):
    return time.strftime('%a, %d %b %Y %H:%M:%S GMT', time.gmtime(when))


def wait_until(condition, what='condition', deadline=DEADLINE):
    """Polls condition until it is true; its value. Fails the test when the deadline passes."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f'waited {deadline} s for {what}'
        time.sleep(0.005)


def free_port():
    """Below the range of outgoing connections, one of which could take the port between two starts of a test's daemon."""
    while True:
        with socket.socket() as probe:
            port = random.randrange(12000, 32000)
            if probe.connect_ex(('127.0.0.1', port)) == 0:
                continue
        with socket.socket() as probe:
            try:
                probe.bind(('127.0.0.1', port))
                return port
            except OSError:
                pass


class Response:
    """A response, whatever protocol carried it. Field names are lower case; fields is a list of pairs."""

    def __init__(self, status, fields, body, closed=False, informational=(), trailers=(), reset=None):
        self.status, self.fields, self.body = status, fields, body
        self.closed, self.informational, self.trailers, self.reset = closed, list(informational), list(trailers), reset

    def all(self, name):
        return [value for key, value in self.fields if key == name]

    def __getitem__(self, name):
        values = self.all(name)
        return values[0] if values else None

    def __repr__(self):
        return f'<{self.status} {self.fields} {self.body[:200]!r}>'


def connect_to(address, deadline=DEADLINE):
    """A socket connected to a path or to a host and port."""
    family = socket.AF_UNIX if isinstance(address, (str, Path)) else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.settimeout(deadline)
    made.connect(str(address) if family == socket.AF_UNIX else address)
    return made


def tls_context(*protocols, authority=None, version=None, certificate=None, tickets=True):
    """A client's context; trusts the tests' authority. version: of TLS, the only one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority or certificates.authority().pem)
    if protocols:
        context.set_alpn_protocols(protocols)
    if version:
        context.minimum_version = context.maximum_version = version
    if certificate:
        context.load_cert_chain(*certificate)
    if not tickets:
        context.options |= ssl.OP_NO_TICKET
    return context


class Http1:
    """One keep-alive connection. raw() for hand-made bytes."""
    name = 'h1'
    tls = False

    def __init__(self, address):
        self.socket = self.open(address)
        self.buffer = b''

    def open(self, address):
        return connect_to(address)

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def _fill(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b''
        self.buffer += data
        return data

    def _until(self, mark):
        while mark not in self.buffer:
            if not self._fill():
                raise EOFError(f'closed after {self.buffer!r}')
        head, self.buffer = self.buffer.split(mark, 1)
        return head

    def _exactly(self, count):
        parts = []  # Joined once: large bodies would be copied with every read.
        have = len(self.buffer)
        while have < count:
            parts.append(self.buffer)
            self.buffer = b''
            if not self._fill():
                self.buffer = b''.join(parts)
                raise EOFError(f'closed with {count - have} bytes missing')
            have += len(self.buffer)
        self.buffer = b''.join(parts) + self.buffer
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def rest(self):
        """Everything until the server closes."""
        while self._fill():
            pass
        data, self.buffer = self.buffer, b''
        return data

    def closed(self):
        """Waits until the server has closed; false if it sends more instead."""
        return self.buffer == b'' and self._fill() == b''

    def read_response(self, method='GET'):
        informational = []
        while True:
            head = self._until(b'\r\n\r\n').decode('latin-1').split('\r\n')
            version, status = head[0].split(' ')[:2]
            assert version in ('HTTP/1.1', 'HTTP/1.0'), head
            fields = []
            for line in head[1:]:
                name, value = line.split(':', 1)
                fields.append((name.lower(), value.strip()))
            if not 100 <= int(status) < 200:
                break
            informational.append((int(status), fields))
        get = dict(fields).get
        body, trailers, closed = b'', [], False
        if method == 'HEAD' or int(status) in (204, 304):
            pass
        elif get('transfer-encoding') == 'chunked':
            while True:
                size = int(self._until(b'\r\n').split(b';')[0], 16)
                if size == 0:
                    break
                body += self._exactly(size)
                assert self._exactly(2) == b'\r\n'
            while line := self._until(b'\r\n'):
                name, value = line.decode().split(':', 1)
                trailers.append((name.lower(), value.strip()))
        elif get('content-length') is not None:
            body = self._exactly(int(get('content-length')))
        else:
            body = self.rest()
            closed = True
        return Response(int(status), fields, body, closed or get('connection') == 'close', informational, trailers)

    def request(self, path='/', method='GET', headers=(), body=None, host='localhost', chunked=False):
        lines = [f'{method} {path} HTTP/1.1', f'Host: {host}'] + [f'{n}: {v}' for n, v in headers]
        if body is not None and chunked:
            lines.append('Transfer-Encoding: chunked')
            body = b''.join(b'%x\r\n%s\r\n' % (len(body[i:i + 1000]), body[i:i + 1000]) for i in range(0, len(body), 1000)) + b'0\r\n\r\n'
        elif body is not None:
            lines.append(f'Content-Length: {len(body)}')
        self.send('\r\n'.join(lines).encode('latin-1') + b'\r\n\r\n' + (body or b''))
        return self.read_response(method)


class PatientH2(h2.connection.H2Connection):
    """The library takes GOAWAY for the end of the connection; but streams up to its last one go on (RFC 9113 §6.8)."""

    def _receive_goaway_frame(self, frame):
        event = h2.events.ConnectionTerminated()
        event.error_code, event.last_stream_id, event.additional_data = frame.error_code, frame.last_stream_id, frame.additional_data
        return [], [event]


class Http2:
    """One HTTP/2 connection with prior knowledge."""
    name = 'h2'
    tls = False

    def __init__(self, address):
        self.socket = self.open(address)
        self.h2 = PatientH2(h2.config.H2Configuration(header_encoding='utf-8', validate_outbound_headers=False,
                                                            normalize_outbound_headers=False))
        self.h2.initiate_connection()
        self.events = {}
        self.flush()

    def open(self, address):
        return connect_to(address)

    def close(self):
        self.socket.close()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.socket.sendall(data)

    def pump(self):
        """One read's worth of events; false at the end of the connection."""
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b''
        if not data:
            return False
        for event in self.h2.receive_data(data):
            self.events.setdefault(getattr(event, 'stream_id', 0) or 0, []).append(event)
            if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.flush()
        return True

    def start(self, path='/', method='GET', headers=(), host='localhost', end=True, scheme=None):
        scheme = scheme or ('https' if self.tls else 'http')
        stream = self.h2.get_next_available_stream_id()
        fields = [(':method', method), (':scheme', scheme), (':authority', host), (':path', path)]
        self.h2.send_headers(stream, fields + [(n.lower(), v) for n, v in headers], end_stream=end)
        self.flush()
        return stream

    def send_body(self, stream, body, end=True):
        """Sends as much as windows allow, reading meanwhile; stops early if the server ends the stream."""
        view = memoryview(body)
        while view:
            size = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(view))
            if size == 0:
                if not self.pump() or self._ended(stream):
                    return
                continue
            self.h2.send_data(stream, bytes(view[:size]))
            view = view[size:]
            self.flush()
        if end:
            self.h2.end_stream(stream)
            self.flush()

    def _ended(self, stream):
        return any(isinstance(e, (h2.events.StreamEnded, h2.events.StreamReset)) for e in self.events.get(stream, []))

    def read_response(self, stream):
        while not self._ended(stream):
            if not self.pump():
                break
        status, fields, informational, trailers, reset = None, [], [], [], None
        body = b''.join(e.data for e in self.events.get(stream, []) if isinstance(e, h2.events.DataReceived))
        for event in self.events.pop(stream, []):
            if isinstance(event, h2.events.InformationalResponseReceived):
                informational.append((int(dict(event.headers)[':status']), event.headers))
            elif isinstance(event, h2.events.ResponseReceived):
                status = int(dict(event.headers)[':status'])
                fields = [(n, v) for n, v in event.headers if not n.startswith(':')]
            elif isinstance(event, h2.events.TrailersReceived):
                trailers = event.headers
            elif isinstance(event, h2.events.StreamReset):
                reset = event.error_code
        if status is None:
            raise EOFError(f'no response, reset {reset}')
        return Response(status, fields, body, False, informational, trailers, reset)

    def request(self, path='/', method='GET', headers=(), body=None, host='localhost', chunked=False):
        if body is not None and not chunked:
            headers = list(headers) + [('content-length', str(len(body)))]
        stream = self.start(path, method, headers, host, end=body is None)
        if body is not None:
            self.send_body(stream, body)
        return self.read_response(stream)


class Https1(Http1):
    """HTTP/1.1 over TLS. context, name: of the client, of the server."""
    name = 'https'
    tls = True

    def __init__(self, address, context=None, name='localhost', session=None):
        self.context, self.server_name, self.session = context or tls_context('http/1.1'), name, session
        super().__init__(address)

    def open(self, address):
        return self.context.wrap_socket(connect_to(address), server_hostname=self.server_name, session=self.session)


class Https2(Http2):
    """HTTP/2 over TLS, agreed on by ALPN."""
    name = 'h2s'
    tls = True

    def __init__(self, address, context=None, name='localhost'):
        self.context, self.server_name = context or tls_context('h2', 'http/1.1'), name
        super().__init__(address)

    def open(self, address):
        made = self.context.wrap_socket(connect_to(address), server_hostname=self.server_name)
        assert made.selected_alpn_protocol() == 'h2'
        return made


CLEAR = {'h1': Http1, 'h2': Http2}
SECURE = {'h1': Https1, 'h2': Https2}
# As parameters of tests, and what is spoken then.
OVER_TLS = {'https': 'h1', 'h2s': 'h2'}
# Of tests that do not care.
DEFAULT = os.environ.get('E2E_PROTOCOL', 'h1')


def end_process(process, seconds=10):
    """SIGTERM, and SIGKILL for what does not heed it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Successor:
    """A master that took over: no child of ours, but with a Popen's ways."""

    def __init__(self, pid):
        self.pid, self.returncode = pid, None

    def poll(self):
        try:
            state = Path(f'/proc/{self.pid}/stat').read_text().rsplit(')', 1)[1].split()[0]
        except OSError:
            state = 'X'
        if state in 'XZ':
            self.returncode = 0  # Nobody tells us the real one.
        return self.returncode

    def wait(self, timeout=DEADLINE):
        wait_until(lambda: self.poll() is not None, f'process {self.pid} to end', timeout)
        return self.returncode

    def send_signal(self, sig):
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class Server:
    """A running daemon. config is what stands in http { … }; @DIR@ is the directory, @SOCK@ the listening socket's path."""

    def __init__(self, directory, http, main='', workers=1, start=True, extra=(), events='', binary=BINARY, environment=None, tls=False):
        self.binary, self.environment = binary, environment
        self.directory = Path(directory)
        self.directory.chmod(0o755)
        self.socket_path = self.directory / 'web.sock'
        # Every "listen @SOCK@" stands for two, the other with TLS.
        self.tls = tls
        self.tls_path = self.directory / 'tls.web.sock'
        self.scheme = 'https' if tls else 'http'
        self.root = self.directory / 'www'
        self.root.mkdir(exist_ok=True)
        self.process = None
        self.extra = list(extra)
        self.main, self.workers, self.events = main, workers, events
        self.write_config(http)
        if start:
            self.start()

    def write_config(self, http):
        text = f'''daemon off;
pid @DIR@/pid;
error_log @DIR@/error.log info;
worker_processes {self.workers};
{self.main}
events {{ {self.events} }}
http {{
  access_log @DIR@/access.log;
  client_body_temp_path @DIR@/body_temp;
  fastcgi_temp_path @DIR@/fastcgi_temp;
  {http}
}}
'''
        if self.tls:
            pem, key = certificates.localhost()
            text = re.sub(r'listen @SOCK@([^;]*);', rf'listen @SOCK@\1; listen unix:{self.tls_path}\1 ssl;', text)
            text = text.replace('http {\n', f'http {{\n  ssl_certificate {pem}; ssl_certificate_key {key};\n', 1)
        text = text.replace('@DIR@', str(self.directory)).replace('@SOCK@', f'unix:{self.socket_path}')
        (self.directory / 'corehttpd.conf').write_text(text)

    def command(self, *more):
        return [str(self.binary), '-p', str(self.directory), '-c', str(self.directory / 'corehttpd.conf'), *self.extra, *more]

    def file(self, name, data=b'', mode=0o644):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        path.chmod(mode)
        return path

    def test(self, *more):
        """corehttpd -t: (exit code, what it said)."""
        done = subprocess.run(self.command('-t', *more), capture_output=True, text=True, timeout=DEADLINE)
        return done.returncode, done.stderr

    def start(self):
        self.stderr = open(self.directory / 'stderr.txt', 'wb')
        self.process = subprocess.Popen(self.command(), stderr=self.stderr, stdin=subprocess.DEVNULL, env=self.environment)
        wait_until(lambda: self.process.poll() is not None or (self.pid_file_valid() and self.answers()), 'start')
        assert self.process.poll() is None, self.stderr_text()

    def pid_file_valid(self):
        try:
            return int((self.directory / 'pid').read_text()) == self.process.pid
        except (OSError, ValueError):
            return False

    def answers(self):
        """Something listens: on the unix socket if the configuration has one, else the caller's ports are waited for by it."""
        if str(self.socket_path) not in (self.directory / 'corehttpd.conf').read_text():
            return True
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self.socket_path))
            return True
        except OSError:
            return False

    def stderr_text(self):
        return (self.directory / 'stderr.txt').read_text(errors='replace')

    def connect(self, protocol=None, address=None):
        protocol = protocol or OVER_TLS.get(DEFAULT, DEFAULT)
        if address is None and self.tls:
            return SECURE[protocol](self.tls_path)
        return CLEAR[protocol](address or self.socket_path)

    def get(self, path='/', protocol=None, **more):
        client = self.connect(protocol)
        try:
            return client.request(path, **more)
        finally:
            client.close()

    def log(self, name='error.log'):
        path = self.directory / name
        return path.read_text(errors='replace') if path.exists() else ''

    def wait_log(self, pattern, name='error.log'):
        """Waits until a line matches; the match."""
        return wait_until(lambda: re.search(pattern, self.log(name), re.M), f'{pattern!r} in {name}')

    def workers_pids(self):
        out = subprocess.run(['ps', '-o', 'pid=', '--ppid', str(self.process.pid)], capture_output=True, text=True).stdout
        return [int(p) for p in out.split()]

    def worker(self):
        """A worker's process: the sockets listen before the first one has been forked."""
        return wait_until(self.workers_pids, 'a worker')[0]

    def reload(self):
        """HUP; returns when the new generation's workers are there and the old ones are gone or draining."""
        before = set(self.workers_pids())
        self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: len(set(self.workers_pids()) - before) >= self.workers, 'new workers')
        wait_until(lambda: not any(self.accepts(pid) for pid in before), 'old workers to drain')

    def upgrade(self):
        """-s upgrade: (exit code, what it said). When the new master has taken over it is the process from then on."""
        done = subprocess.run(self.command('-s', 'upgrade'), capture_output=True, text=True, timeout=DEADLINE * 3)
        if done.returncode == 0:
            self.process = Successor(int((self.directory / 'pid').read_text()))
        return done.returncode, done.stderr

    def status(self):
        """--status --json, parsed."""
        done = subprocess.run(self.command('--status', '--json'), capture_output=True, text=True, timeout=DEADLINE)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @staticmethod
    def accepts(pid):
        """False for a worker that is draining or gone."""
        try:
            title = Path(f'/proc/{pid}/cmdline').read_bytes()
        except OSError:
            return False
        return title != b'' and b'shutting down' not in title

    def stop(self, sig=signal.SIGTERM):
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(sig)
            try:
                self.process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        code, self.process = self.process.returncode, None
        self.stderr.close()
        return code

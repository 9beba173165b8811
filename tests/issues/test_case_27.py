"""Early data (TLS 1.3): off by default; on, safe requests only, and none of them twice."""
import re
import socket
import subprocess
import threading

import pytest
from certificates import authority
from h2.config import H2Configuration
from h2.connection import H2Connection
from harness import DEADLINE, Https1, Https2

SITE = '''log_format early '"$request" $status $ssl_early_data $ssl_session_reused'; access_log @DIR@/early.log early; client_header_timeout %s;
server { listen unix:@DIR@/t.sock ssl; server_name a.test; ssl_certificate @CA@/early.pem; ssl_certificate_key @CA@/early.key; ssl_early_data %s; %s
  location / { return 200 "early=$ssl_early_data $request_method"; } location /files/ { alias @DIR@/www/; } }
'''


@pytest.fixture
def start(server):
    ca = authority()
    if not (ca.directory / 'early.pem').exists():
        ca.make('early', ['a.test'])
    return lambda early='on', more='', timeout='60s', **options: server((SITE % (timeout, early, more)).replace('@CA@', str(ca.directory)), **options)


def client(s, *more, path=None, wait=(), alpn='http/1.1'):
    """What openssl s_client prints until each of wait was seen, or until it ends by itself."""
    command = ['stdbuf', '-o0', 'openssl', 's_client', '-tls1_3', '-unix', path or s.directory / 't.sock', '-servername', 'a.test', '-alpn', alpn, *more]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    guard = threading.Timer(DEADLINE, process.kill)
    guard.start()
    out = b''
    try:
        while not wait or not all(one in out for one in wait):
            got = process.stdout.read1(65536)
            if not got:
                break
            out += got
    finally:
        process.kill()
        process.wait()
        guard.cancel()
    assert all(one in out for one in wait), out
    return out


def session(s, alpn='http/1.1'):
    """A file with a ticket."""
    path = s.directory / f'session.{alpn[:2]}'
    if not path.exists():
        # The ticket is written before it is shown.
        said = client(s, '-sess_out', path, wait=[b'Max Early Data'], alpn=alpn)
        s.early_size = int(re.search(rb'Max Early Data: (\d+)', said).group(1))
    return path


def ask(s, request, wait, alpn='http/1.1', **more):
    data = s.directory / 'early.bin'
    data.write_bytes(request)
    return client(s, '-sess_in', session(s, alpn), '-early_data', data, '-ign_eof', wait=wait, alpn=alpn, **more)


def http1(method, path='/', more=''):
    return f'{method} {path} HTTP/1.1\r\nHost: a.test\r\n{more}\r\n'.encode()


def test_safe_requests(start):
    s = start(workers=2)
    s.file('page', b'x' * 30000)
    assert b'early=1 GET' in ask(s, http1('GET'), [b'Early data was accepted', b'early=1 GET'])
    assert s.early_size == 16384
    # More than one, and more than a first flight's answer.
    said = ask(s, http1('GET') + http1('GET', '/files/page', 'Connection: close\r\n'), [b'Early data was accepted', b'early=1 GET', b'x' * 4000, b'closed'])
    assert said.count(b'x') >= 30000
    s.wait_log(r'^"GET /files/page HTTP/1.1" 200 . r$', 'early.log')


def test_unsafe_requests(start):
    s = start()
    for method in ('POST', 'PUT', 'DELETE', 'PROPFIND'):
        said = ask(s, http1(method, '/', 'Content-Length: 0\r\n'), [b'Early data was accepted', b'</html>'])
        assert b'HTTP/1.1 425 Too Early' in said and b'early=' not in said
    s.wait_log('client sent an unsafe request in early data while reading client request headers')
    # After the handshake they are served.
    one = Https1(str(s.directory / 't.sock'), None, 'a.test')
    assert one.request('/', 'POST', body=b'x', host='a.test').body == b'early= POST'


def test_http2(start):
    s = start()

    def flight(method):
        made = H2Connection(H2Configuration(client_side=True))
        made.initiate_connection()
        made.send_headers(1, [(':method', method), (':scheme', 'https'), (':authority', 'a.test'), (':path', '/')], end_stream=True)
        return made.data_to_send()
    ask(s, flight('GET'), [b'Early data was accepted', b'early=1 GET'], alpn='h2')
    ask(s, flight('POST'), [b'Early data was accepted', b'425 Too Early'], alpn='h2')
    assert Https2(str(s.directory / 't.sock'), None, 'a.test').request('/', 'POST', body=b'x', host='a.test').body == b'early= POST'


def test_off(start):
    s = start('off')
    said = client(s, '-sess_out', s.directory / 'session.ht', wait=[b'Max Early Data: 0'])
    assert b'Max Early Data: 0' in said


@pytest.mark.parametrize('more', ['ssl_verify_client optional_no_ca;', 'ssl_protocols TLSv1.2 TLSv1.3; ssl_session_timeout 1s;'])
def test_never_from_clients_that_show_certificates(start, more):
    s = start('on', more)
    said = client(s, '-sess_out', s.directory / 'session.ht', wait=[b'Max Early Data'])
    assert (b'Max Early Data: 0' in said) == ('verify' in more)


class Recorder:
    """Stands between client and server; keeps what the client sent first."""

    def __init__(self, s):
        self.path, self.target, self.sent = str(s.directory / 'recorder.sock'), str(s.directory / 't.sock'), b''
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        near, _ = self.listener.accept()
        far = socket.socket(socket.AF_UNIX)
        far.connect(self.target)

        def back():
            while data := far.recv(65536):
                try:
                    near.sendall(data)
                except OSError:
                    return
        other = threading.Thread(target=back)
        other.start()
        try:
            while data := near.recv(65536):
                self.sent += data
                far.sendall(data)
        except OSError:
            pass
        far.shutdown(socket.SHUT_RDWR)
        other.join()
        near.close()
        far.close()
        self.listener.close()


def test_replays(start):
    """The same flight once more is shaken hands with, but its request is not served again: at no worker, after a reload, after an upgrade."""
    s = start(timeout='1s', workers=2)
    session(s)
    recorder = Recorder(s)
    ask(s, http1('GET', '/once'), [b'Early data was accepted', b'early=1 GET'], path=recorder.path)
    recorder.thread.join(DEADLINE)
    s.wait_log('"GET /once HTTP/1.1" 200', 'early.log')

    def replay():
        with socket.socket(socket.AF_UNIX) as again:
            again.settimeout(DEADLINE)
            again.connect(str(s.directory / 't.sock'))
            again.sendall(recorder.sent)
            got = b''
            try:
                while data := again.recv(65536):
                    got += data
            except ConnectionResetError:
                pass
            return got
    for act in (lambda: None, lambda: None, lambda: None, s.reload, s.upgrade):
        act()
        assert replay()[:1] == b'\x16'  # The server's hello.
    assert s.log('early.log').count('/once') == 1

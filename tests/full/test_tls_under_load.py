"""Reloads, an upgrade, renewed certificates and rotated keys of tickets under HTTP/2 over TLS: no request fails, whoever resumes goes on to.
And a client that shakes hands with a large key in a loop, which others do not notice."""
import os
import ssl
import statistics
import subprocess
import threading
import time

import certificates
import pytest
from harness import Https1, Https2, free_port, tls_context, wait_until
from test_changes_under_load import Load, run, settled

SITE = '''
keepalive_requests 100000;
ssl_session_ticket_key @DIR@/new.key;
ssl_session_ticket_key @DIR@/old.key;
server {
  listen 127.0.0.1:%d ssl;
  listen @SOCK@;
  root @DIR@/www;
  ssl_certificate @DIR@/site.pem;
  ssl_certificate_key @DIR@/site.key;
  location /who { return 200 "who"; }
}
'''


class TlsLoad(Load):
    """HTTP/2 over TLS: connections that are kept, new ones, uploads; and HTTP/1.1 that resumes its session at each connection."""

    def __init__(self, address):
        self.resumed = self.full = 0
        self.session = threading.local()
        self.context = tls_context('h2')
        self.context1 = {version: tls_context('http/1.1', version=version) for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)}
        super().__init__(address, b'')

    def work(self):
        return [self.http2, self.http2, self.http2, self.http2_posts, self.fresh2, self.resumes12, self.resumes13]

    def open_http2(self):
        return Https2(self.address, self.context)

    def fresh2(self):
        client = self.open_http2()
        try:
            self.check(client.request('/who'), b'who')
        finally:
            client.close()

    def resumes12(self):
        self.resumes(ssl.TLSVersion.TLSv1_2)

    def resumes13(self):
        self.resumes(ssl.TLSVersion.TLSv1_3)

    def resumes(self, version):
        client = Https1(self.address, self.context1[version], session=getattr(self.session, 'value', None))
        try:
            self.check(client.request('/who', headers=[('Connection', 'close')]), b'who')
            with self.lock:
                if client.socket.session_reused:
                    self.resumed += 1
                else:
                    self.full += 1
            self.session.value = client.socket.session
        finally:
            client.close()


def renew(s):
    """A new certificate for the same name in place of the old one, written beside and renamed as certbot does."""
    directory = s.directory / 'renewed'
    directory.mkdir(exist_ok=True)
    pem, key = certificates.authority().make('localhost', directory=directory)
    shown = subprocess.run(['openssl', 'x509', '-noout', '-serial', '-in', str(pem)], capture_output=True, text=True, check=True).stdout
    serial = shown.strip().removeprefix('serial=')
    os.replace(key, s.directory / 'site.key')
    os.replace(pem, s.directory / 'site.pem')
    return serial


def serial_shown(load):
    client = Https1(load.address, load.context1[ssl.TLSVersion.TLSv1_3])
    try:
        return client.socket.getpeercert()['serialNumber']
    finally:
        client.close()


@pytest.fixture
def loaded(server):
    s = server(SITE % (port := free_port()), workers=2, start=False)
    for name in ('old.key', 'new.key'):
        (s.directory / name).write_bytes(os.urandom(80))
    renew(s)
    s.start()
    load = TlsLoad(('127.0.0.1', port))
    load.more(100)
    yield s, load
    load.end()


def ended(s, load):
    load.end()
    assert not load.failures, (len(load.failures), load.failures[:5])
    print(f'{load.served} requests, none failed; {load.resumed} handshakes resumed, {load.full} did not')


def test_reloads_and_upgrade(loaded):
    s, load = loaded
    for n in range(20):
        run(s, '-s', 'reload')
        load.more(20)
    assert s.upgrade() == (0, '')
    load.more(100)
    ended(s, load)
    # Sessions survive all of it: only each client's first handshake was a full one.
    assert load.full == 2 and load.resumed > 20


def test_renewal(loaded):
    s, load = loaded
    for n in range(10):
        serial = renew(s)
        run(s, '-s', 'reload')
        wait_until(lambda: serial_shown(load) == serial, 'the new certificate')
        load.more(30)
    ended(s, load)
    assert load.full == 2  # A renewed certificate ends no session.


def test_rotation_of_ticket_keys(loaded):
    s, load = loaded
    for n in range(10):
        os.replace(s.directory / 'new.key', s.directory / 'old.key')
        (s.directory / 'new.key').write_bytes(os.urandom(80))
        run(s, '-s', 'reload')
        before = load.resumed
        wait_until(lambda: load.resumed > before + 10, 'clients that come back', 60)
    ended(s, load)
    assert load.full == 2  # Everybody's ticket was renewed in time.
    settled(s)


def test_large_key_in_a_loop(server):
    """Others' p99 beside a client that has an RSA-4096 key sign without pause stays within twice that of a quiet server (median of rounds)."""
    port, dear = free_port(), free_port()
    s = server(f'''keepalive_requests 1000000;
      server {{ listen 127.0.0.1:{port} ssl; ssl_certificate @DIR@/site.pem; ssl_certificate_key @DIR@/site.key;
        location /who {{ return 200 "who"; }} }}
      server {{ listen 127.0.0.1:{dear} ssl; ssl_certificate @DIR@/dear.pem; ssl_certificate_key @DIR@/dear.key;
        listen @SOCK@; location / {{ return 200 "dear"; }} }}''', workers=1, start=False)
    certificates.authority().make('site', ['localhost'], directory=s.directory)
    certificates.authority().make('dear', ['localhost'], kind='slow', directory=s.directory)
    s.start()
    client = Https1(('127.0.0.1', port))

    def p99(count=800):
        took = []
        for _ in range(count):
            before = time.perf_counter()
            assert client.request('/who').body == b'who'
            took.append(time.perf_counter() - before)
        return sorted(took)[count * 99 // 100] * 1e6

    p99()
    ratios, shaken = [], 0
    for _ in range(5):
        quiet = p99()
        loop = subprocess.Popen(['openssl', 's_time', '-connect', f'127.0.0.1:{dear}', '-new', '-time', '60'], stdout=subprocess.PIPE, text=True)
        try:
            wait_until(lambda: loop.stdout.read(40).count('*') > 10, 'the loop to run')
            busy = p99()
        finally:
            loop.kill()
            loop.wait()
        ratios.append(busy / quiet)
        print(f'p99 {quiet:.0f} µs quiet, {busy:.0f} µs beside the loop')
    client.close()
    print(f'p99 × quiet: {statistics.median(ratios):.2f} (median of {[round(r, 2) for r in ratios]})')
    assert statistics.median(ratios) <= 2

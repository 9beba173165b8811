"""50 reloads, 5 upgrades and 5 crashes of workers under a load of clients that count every failed request.

Only what a crashed worker had in hand may fail. Afterwards nothing is left over: no process, descriptor, memory or shared memory.
"""
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from certificates import authority
from harness import DEADLINE, Http1, Http2, Https1, Https2, free_port, tls_context, wait_until

SITE = '''
keepalive_requests 100000;
server {
  listen 127.0.0.1:%d;
  listen @SOCK@;
  root @DIR@/www;
  location /who { return 200 "who"; }
}
'''
BIG = 3 << 20


class Load:
    """Threads that ask without pause; failures are kept with what happened."""

    def __init__(self, address, big, http1=Http1, http2=Http2):
        self.address, self.big, self.http1, self.http2_client = address, big, http1, http2
        self.stop, self.failures, self.served = threading.Event(), [], 0
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.guarded, args=(one,)) for one in self.work()]
        for thread in self.threads:
            thread.start()

    def work(self):
        return [self.kept, self.kept, self.fresh, self.posts, self.http2, self.http2, self.http2_posts, self.downloads]

    def guarded(self, function):
        while not self.stop.is_set():
            try:
                function()
            except (OSError, EOFError, AssertionError) as error:
                with self.lock:
                    self.failures.append(f'{function.__name__}: {error!r}')

    def check(self, response, body):
        assert response.status == 200 and response.body == body, response
        with self.lock:
            self.served += 1

    def kept(self, **request):
        """One connection until the server says that it closes; an idle one is closed only after 10 s."""
        client = self.http1(self.address)
        try:
            while not self.stop.is_set():
                response = client.request('/who', **request)
                self.check(response, b'who')
                if response.closed:
                    return
        finally:
            client.close()

    def posts(self):
        self.kept(method='POST', body=b'x' * 20000)

    def fresh(self):
        client = self.http1(self.address)
        try:
            self.check(client.request('/who', headers=[('Connection', 'close')]), b'who')
        finally:
            client.close()

    def http2(self, **request):
        """One connection until GOAWAY, which allows what was begun to end. (h2load is of no use here: at the first request that it may
        not send after GOAWAY it closes the connection, with answers that it has received unread.)"""
        client = self.open_http2()
        try:
            while not self.stop.is_set() and not any(
                    type(e).__name__ == 'ConnectionTerminated' for e in client.events.get(0, [])):
                if request:
                    self.check(client.request('/who', **request), b'who')
                else:
                    for stream in [client.start('/who') for _ in range(5)]:
                        self.check(client.read_response(stream), b'who')
        finally:
            client.close()

    def open_http2(self):
        return self.http2_client(self.address)

    def http2_posts(self):
        self.http2(method='POST', body=b'x' * 20000)

    def downloads(self):
        client = self.http1(self.address)
        try:
            self.check(client.request('/big.bin', headers=[('Connection', 'close')]), self.big)
        finally:
            client.close()

    def more(self, count):
        """Waits until count more requests were served."""
        before = self.served
        wait_until(lambda: self.served >= before + count or self.failures, f'{count} requests', 60)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()


def descriptors(pid):
    return sorted(re.sub(r'\d+', 'N', os.readlink(f'/proc/{pid}/fd/{fd}')) for fd in os.listdir(f'/proc/{pid}/fd'))


def resident_kib(pid):
    return int(re.search(r'VmRSS:\s+(\d+)', Path(f'/proc/{pid}/status').read_text()).group(1))


def run(s, *more):
    done = subprocess.run(s.command(*more), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def settled(s, workers=2):
    wait_until(lambda: len(s.workers_pids()) == workers, 'old workers to end', 60)


@pytest.fixture
def loaded(server):
    s = server(SITE % (port := free_port()), workers=2)
    big = os.urandom(BIG)
    s.file('big.bin', big)
    load = Load(('127.0.0.1', port), big)
    load.more(100)
    yield s, load
    load.end()


def test_reloads(loaded):
    s, load = loaded
    for _ in range(5):
        run(s, '-s', 'reload')
        load.more(20)
    settled(s)
    before, memory = descriptors(s.process.pid), resident_kib(s.process.pid)
    for n in range(50):
        # By the command and by the signal, and now and then two at once.
        if n % 3:
            run(s, '-s', 'reload')
        else:
            for _ in range(1 + n % 2):
                s.process.send_signal(signal.SIGHUP)
        load.more(20)
    run(s, '-s', 'reload')
    load.end()
    assert not load.failures, (len(load.failures), load.failures[:5])
    settled(s)
    assert descriptors(s.process.pid) == before
    assert resident_kib(s.process.pid) < memory + 2048
    print(f'{load.served} requests, none failed; master {memory} KiB, after 50 reloads {resident_kib(s.process.pid)} KiB')


def test_upgrades(loaded):
    s, load = loaded
    masters = [s.process.pid]
    before = None
    for n in range(6):
        assert s.upgrade() == (0, '')
        masters.append(s.process.pid)
        load.more(50)
        if n == 0:
            wait_until(lambda: s.status()['older_masters'] == 0, 'the first master to end', 60)
            before = descriptors(s.process.pid)
    load.end()
    assert not load.failures, (len(load.failures), load.failures[:5])
    settled(s)
    for pid in masters[1:-1]:
        wait_until(lambda: not Path(f'/proc/{pid}').exists(), 'older masters to end', 60)
    assert not (s.directory / 'pid.oldbin').exists()
    wait_until(lambda: s.status()['older_masters'] == 0, 'the last but one to be forgotten', DEADLINE)
    assert descriptors(s.process.pid) == before
    memfds = sorted(re.search(r'memfd:(\S+)', d)[1] for d in descriptors(s.process.pid) if 'memfd' in d)
    assert memfds == ['corehttpd-counters', 'corehttpd-tickets'], memfds
    print(f'{load.served} requests, none failed')


def test_crashes(loaded):
    s, load = loaded
    s.may_crash = True
    before = descriptors(s.process.pid)
    for n in range(5):
        victim = s.workers_pids()[n % 2]
        os.kill(victim, signal.SIGKILL)
        s.wait_log(rf'\[alert\].*worker process {victim} exited on signal 9')
        wait_until(lambda: len(s.workers_pids()) == 2, 'the new worker', 60)
        served = load.served
        wait_until(lambda: load.served > served + 100, 'requests after the crash', 60)
    load.end()
    # At most one request of each client was with the worker that died.
    assert len(load.failures) <= 5 * len(load.threads), (len(load.failures), load.failures[:5])
    assert not any('refused' in failure for failure in load.failures), load.failures
    assert descriptors(s.process.pid) == before
    print(f'{load.served} requests, {len(load.failures)} were with a worker that was killed')


def test_renewals(server):
    """Certificates and keys of 40 sites are written over again and again while TLS clients come, stay and upload."""
    ca = authority()
    for n in range(2):
        ca.make(f'load{n}', ['localhost'])
    port = free_port()
    more = ''.join(f'server {{ listen 127.0.0.1:{port} ssl; server_name s{n}.test; ssl_certificate @DIR@/s{n}.pem; ssl_certificate_key @DIR@/s{n}.key; }}' for n in range(40))
    site = SITE.replace('listen 127.0.0.1:%d;', f'listen 127.0.0.1:{port} ssl; ssl_certificate @DIR@/site.pem; ssl_certificate_key @DIR@/site.key;')
    s = server(site + more, workers=2, start=False)

    def put(which, name='site'):
        for part in ('pem', 'key'):
            (s.directory / f'{name}.{part}').write_bytes((ca.directory / f'load{which}.{part}').read_bytes())
    for name in ['site'] + [f's{n}' for n in range(40)]:
        put(0, name)
    s.start()
    big = os.urandom(BIG)
    s.file('big.bin', big)
    load = Load(('127.0.0.1', port), big, lambda a: Https1(a, tls_context('http/1.1')), lambda a: Https2(a, tls_context('h2')))
    try:
        load.more(100)
        workers, before, memory = sorted(s.workers_pids()), descriptors(s.process.pid), resident_kib(s.process.pid)
        for n in range(1, 21):
            for name in [f's{n}' for n in range(40)] + ['site']:
                put(n % 2, name)
            wait_until(lambda: s.log().count('/site.pem" has changed and is taken up') >= n, f'renewal {n}', 60)
            load.more(20)
    finally:
        load.end()
    assert not load.failures, (len(load.failures), load.failures[:5])
    assert sorted(s.workers_pids()) == workers and descriptors(s.process.pid) == before
    wait_until(lambda: s.log().count('has changed and is taken up') == 20 * 41, 'the last renewals', 60)
    print(f'{load.served} requests, none failed; master {memory} KiB, after {20 * 41} renewals {resident_kib(s.process.pid)} KiB')

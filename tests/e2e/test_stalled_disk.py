"""A file system that stops answering costs only what lives on it: one worker goes on with everything else."""
import os
import signal
import threading
import time

import pytest

import stalling_fs
from harness import wait_until

SITE = '''server { listen @SOCK@; root @DIR@/www; autoindex on; %s }
server { listen unix:@DIR@/other.sock; root @DIR@/other; }'''


@pytest.fixture
def stalled(server):
    """A server with one worker and a file system at /slow/."""
    made = []

    def make(text='', files=None):
        s = server(SITE % text)
        (s.root / 'slow').mkdir()
        try:
            fs = stalling_fs.StallingFs(s.root / 'slow', files or {'a.txt': b'from afar', 'big.bin': bytes(range(256)) * 2000})
        except stalling_fs.Unavailable as why:
            pytest.skip(str(why))
        made.append(fs)
        s.file('near.txt', b'near')
        return s, fs

    yield make
    for fs in made:
        fs.close()


def ask_later(s, protocol, path, results):
    thread = threading.Thread(target=lambda: results.append(s.get(path, protocol)), daemon=True)
    thread.start()
    return thread


def lives(s, protocol, count=5):
    """Known and never seen files are both served meanwhile."""
    for i in range(count):
        assert s.get('/near.txt', protocol).body == b'near'
        s.file(f'fresh/{time.monotonic_ns()}-{i}.txt', b'fresh')
        assert s.get(f'/fresh/{os.listdir(s.root / "fresh")[-1]}', protocol).body == b'fresh'
        assert s.get('/none.txt', protocol).status == 404


@pytest.mark.parametrize('kind', [stalling_fs.LOOKUP, stalling_fs.GETATTR, stalling_fs.OPEN, stalling_fs.READ, stalling_fs.STATFS])
@pytest.mark.parametrize('path', ['/slow/a.txt', '/slow/big.bin'])
def test_file(stalled, protocol, kind, path):
    s, fs = stalled()
    expected = fs.files[path.rsplit('/', 1)[1]]
    assert s.get(path, protocol).body == expected  # It works at all.
    fs.hold(kind)
    results = []
    threads = [ask_later(s, protocol, path, results) for _ in range(3)]
    wait_until(fs.waiting, 'a request to hang in the file system')
    lives(s, protocol)
    assert results == []
    fs.release()
    for thread in threads:
        thread.join(20)
    assert [r.body for r in results] == [expected] * 3
    assert s.get(path, protocol, headers=[('Range', 'bytes=2-4')]).body == expected[2:5]


@pytest.mark.parametrize('path', ['/slow/', '/try/a.txt', '/if/a.txt', '/slow/none', '/gz/a.txt'])
def test_other_lookups(stalled, protocol, path):
    s, fs = stalled('''location /try/ { try_files /slow$uri /near.txt =404; } location /gz/ { alias @DIR@/www/slow/; gzip_static on; }
        location /if/ { if (-f $document_root/slow/a.txt) { return 202; } return 404; } location /slow/ { index none.html; autoindex on; }''')
    fs.hold(stalling_fs.LOOKUP, stalling_fs.OPENDIR)
    results = []
    thread = ask_later(s, protocol, path, results)
    wait_until(fs.waiting, 'a request to hang in the file system')
    lives(s, protocol)
    fs.release()
    thread.join(20)
    assert results[0].status == {'/slow/': 200, '/try/a.txt': 200, '/if/a.txt': 202, '/slow/none': 404, '/gz/a.txt': 200}[path]


def test_more_requests_than_threads(stalled, protocol):
    """Each file system has its own few threads, so that another one's cold files do not wait behind many hanging requests."""
    s, fs = stalled()
    (s.directory / 'other').mkdir()
    fs.hold(stalling_fs.LOOKUP)
    results = []
    threads = [ask_later(s, protocol, '/slow/a.txt', results) for _ in range(60)]
    wait_until(fs.waiting, 'a request to hang in the file system')
    lives(s, protocol)
    for i in range(5):
        (s.directory / f'other/{i}.txt').write_text('other')
        client = s.connect(protocol, s.directory / 'other.sock')
        assert client.request(f'/{i}.txt').body == b'other'
        client.close()
    fs.release()
    for thread in threads:
        thread.join(20)
    assert [r.body for r in results] == [b'from afar'] * 60


def test_client_leaves_while_it_hangs(stalled):
    s, fs = stalled()
    fs.hold(stalling_fs.LOOKUP)
    clients = [s.connect('h1') for _ in range(20)]
    for client in clients:
        client.send(b'GET /slow/a.txt HTTP/1.1\r\nHost: x\r\n\r\n')
    wait_until(fs.waiting, 'a request to hang in the file system')
    for client in clients:
        client.close()
    assert s.get('/near.txt').body == b'near'
    fs.release()
    assert s.get('/slow/a.txt').body == b'from afar'


def test_stop_while_it_hangs(stalled):
    s, fs = stalled()
    fs.hold(stalling_fs.LOOKUP)
    client = s.connect('h1')
    client.send(b'GET /slow/a.txt HTTP/1.1\r\nHost: x\r\n\r\n')
    wait_until(fs.waiting, 'a request to hang in the file system')
    s.process.send_signal(signal.SIGTERM)
    # The kernel lets a process go only when the file server has answered; nobody can spare us that.
    wait_until(lambda: s.log().count('signal Terminated received'), 'the signal')
    fs.release()
    assert s.stop() == 0


def test_open_file_cache_spares_the_disk(stalled, protocol):
    s, fs = stalled('open_file_cache max=10; open_file_cache_valid 60s;')
    for _ in range(2):
        assert s.get('/slow/a.txt', protocol).body == b'from afar'
    fs.hold(stalling_fs.LOOKUP, stalling_fs.GETATTR, stalling_fs.OPEN)
    assert s.get('/slow/a.txt', protocol).body == b'from afar'

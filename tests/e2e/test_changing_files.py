"""Files that change under the server's hands: every response is wholly of one version, and the next request sees the present."""
import os
import threading

import pytest

from harness import wait_until

SITE = 'server { listen @SOCK@; root @DIR@/www; %s }'


def release(s, number, size=30000):
    """A version of a site whose every file tells its number in every byte."""
    base = s.directory / f'release{number}'
    base.mkdir()
    for name, length in (('small.txt', 1000 + number), ('large.bin', size * 10 + number)):
        (base / name).write_bytes(b'%d' % (number % 10) * length)
    return base


def check_whole(r, number=None):
    assert r.status == 200 and len(r.body) == int(r['content-length']) and len(set(r.body)) == 1
    version = r.body[:1]
    assert int(r['etag'].strip('"').split('-')[1], 16) % 10 == int(version), r  # The tag is of the same version.
    if number is not None:
        assert version == b'%d' % number


def test_current_link_switched(server, protocol):
    s = server('server { listen @SOCK@; root @DIR@/current; }')
    releases = [release(s, i) for i in range(4)]
    link = s.directory / 'current'
    link.symlink_to(releases[0])
    client = s.connect(protocol)
    for i in [1, 2, 3, 0, 2, 1]:
        os.symlink(releases[i], s.directory / 'next')
        os.replace(s.directory / 'next', link)
        for name in ('/small.txt', '/large.bin'):
            check_whole(client.request(name), i)


def test_document_root_made_anew(server, protocol):
    """rsync to a new directory, two renames: for a moment there is no document root at all."""
    s = server('server { listen @SOCK@; root @DIR@/site; }')
    release(s, 1).rename(s.directory / 'site')
    client = s.connect(protocol)
    check_whole(client.request('/small.txt'), 1)
    check_whole(client.request('/large.bin'), 1)
    for i in (2, 3):
        (s.directory / 'site').rename(s.directory / f'old{i}')
        assert client.request('/small.txt').status == 404
        release(s, i).rename(s.directory / 'site')
        check_whole(client.request('/small.txt'), i)
        check_whole(client.request('/large.bin'), i)


@pytest.mark.parametrize('name', ['small.txt', 'large.bin'])
def test_replaced_all_the_time(server, protocol, name):
    s = server(SITE % '')
    versions = [(release(s, i) / name).read_bytes() for i in range(3)]
    s.file(name, versions[0])
    stop = threading.Event()

    def writer():
        i = 0
        while not stop.is_set():
            i = (i + 1) % 3
            (s.directory / 'new').write_bytes(versions[i])
            (s.directory / 'new').chmod(0o644)
            os.replace(s.directory / 'new', s.root / name)

    thread = threading.Thread(target=writer)
    thread.start()
    try:
        client = s.connect(protocol)
        seen = set()
        for _ in range(150):
            r = client.request('/' + name)
            check_whole(r)
            seen.add(r.body[:1])
    finally:
        stop.set()
        thread.join()
    assert len(seen) > 1


def begin_large(s, protocol, size=24 << 20):
    """A download that has begun and is far from its end."""
    path = s.file('big.bin', b'1' * size)
    client = s.connect(protocol)
    if protocol == 'h1':
        client.send(b'GET /big.bin HTTP/1.1\r\nHost: x\r\n\r\n')
        assert client._fill()
        return path, client, client.read_response
    stream = client.start('/big.bin')
    wait_until(lambda: client.pump() and client.events.get(stream), 'the response')
    return path, client, lambda: client.read_response(stream)


@pytest.mark.parametrize('change', ['replaced', 'deleted', 'appended', 'forbidden'])
def test_changed_while_sent(server, protocol, change):
    s = server(SITE % '')
    path, client, finish = begin_large(s, protocol)
    if change == 'replaced':
        (s.root / 'new').write_bytes(b'2' * 100)
        os.replace(s.root / 'new', path)
    elif change == 'deleted':
        path.unlink()
    elif change == 'appended':
        with open(path, 'ab') as file:
            file.write(b'3' * 1000)
    else:
        path.chmod(0)
    r = finish()
    assert r.status == 200 and len(r.body) == 24 << 20 and set(r.body) == {ord('1')}
    r = client.request('/big.bin')
    if change == 'replaced':
        assert r.body == b'2' * 100
    elif change == 'deleted':
        assert r.status == 404
    elif change == 'appended':
        assert len(r.body) == (24 << 20) + 1000
    elif os.geteuid() == 0:
        assert r.status == 403


def test_truncated_while_sent(server, protocol):
    s = server(SITE % '')
    path, client, finish = begin_large(s, protocol)
    os.truncate(path, 100)
    if protocol == 'h1':
        with pytest.raises(EOFError):
            finish()
    else:
        r = finish()
        assert r.reset is not None and len(r.body) < 24 << 20
    s.wait_log('truncated|shorter than its length')
    assert s.get('/big.bin', protocol).body == b'1' * 100


def test_growing_log(server, protocol):
    s = server(SITE % '')
    path = s.file('log.txt', b'')
    client = s.connect(protocol)
    for i in range(1, 40):
        with open(path, 'ab') as file:
            file.write(b'x' * 97)
        assert len(client.request('/log.txt').body) == 97 * i


def replace(path, data):
    new = path.with_name('new')
    new.write_bytes(data)
    new.chmod(0o644)
    os.replace(new, path)


CACHE = 'open_file_cache max=100; '


@pytest.mark.parametrize('size', [5, 100000])
def test_open_file_cache_trusts(server, protocol, size):
    s = server(SITE % (CACHE + 'location /off/ { alias @DIR@/www/; open_file_cache off; }'))
    path = s.file('a.bin', b'1' * size)
    assert s.get('/a.bin', protocol).body == b'1' * size
    replace(path, b'2' * size)
    assert s.get('/a.bin', protocol).body == b'1' * size
    assert s.get('/off/a.bin', protocol).body == b'2' * size
    path.unlink()
    assert s.get('/off/a.bin', protocol).status == 404


def test_open_file_cache_trusts_only_what_it_has_seen(server, protocol):
    """An empty file takes no reading, and was remembered from where no cache is."""
    s = server(SITE % (CACHE + 'location /off/ { alias @DIR@/www/; open_file_cache off; }'))
    path = s.file('a.bin', b'')
    assert s.get('/off/a.bin', protocol).body == b''
    replace(path, b'1')
    assert s.get('/a.bin', protocol).body == b'1'
    replace(path, b'')
    assert s.get('/off/a.bin', protocol).body == b''
    assert s.get('/a.bin', protocol).body == b''
    replace(path, b'2')
    assert s.get('/a.bin', protocol).body == b''
    assert s.get('/off/a.bin', protocol).body == b'2'


def test_open_file_cache_valid(server, protocol):
    s = server(SITE % (CACHE + 'open_file_cache_valid 1s;'))
    path = s.file('a.bin', b'1')
    assert s.get('/a.bin', protocol).body == b'1'
    replace(path, b'2')
    wait_until(lambda: s.get('/a.bin', protocol).body == b'2', 'the new version')


def test_open_file_cache_min_uses(server, protocol):
    s = server(SITE % (CACHE + 'open_file_cache_min_uses 2;'))
    path = s.file('a.bin', b'1' * 100000)
    assert s.get('/a.bin', protocol).body[:1] == b'1'
    replace(path, b'2' * 100000)
    assert s.get('/a.bin', protocol).body[:1] == b'2'  # The second use: from now on it is kept.
    replace(path, b'3' * 100000)
    assert s.get('/a.bin', protocol).body[:1] == b'2'


@pytest.mark.parametrize('errors,status', [('on', 404), ('off', 200)])
def test_open_file_cache_errors(server, protocol, errors, status):
    s = server(SITE % (CACHE + f'open_file_cache_errors {errors};'))
    assert s.get('/a.bin', protocol).status == 404
    s.file('a.bin', b'1')
    assert s.get('/a.bin', protocol).status == status


def test_open_file_cache_max(server, protocol):
    s = server(SITE % 'open_file_cache max=1;')
    a, b = s.file('a.bin', b'1'), s.file('b.bin', b'1')
    assert s.get('/a.bin', protocol).body == b'1'
    assert s.get('/b.bin', protocol).body == b'1'
    replace(a, b'2')
    replace(b, b'2')
    assert s.get('/b.bin', protocol).body == b'1'
    assert s.get('/a.bin', protocol).body == b'2'


def test_open_file_cache_and_directories(server, protocol):
    s = server(SITE % (CACHE + 'open_file_cache_errors on; location /t/ { try_files $uri $uri/ =410; }'))
    s.file('t/d/index.html', b'index')
    for _ in range(2):
        assert s.get('/t/d/', protocol).body == b'index'
        assert s.get('/t/d', protocol).status == 301
        assert s.get('/t/none', protocol).status == 410


@pytest.mark.parametrize('words', ['on', 'max=0', 'inactive=5s', 'max=5 inactive=x', 'max=5 more'])
def test_open_file_cache_configuration(server, words):
    s = server(SITE % f'open_file_cache {words};', start=False)
    code, text = s.test()
    assert code == 1 and 'open_file_cache' in text

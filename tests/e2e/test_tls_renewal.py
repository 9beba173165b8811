"""Certificates that are renewed while the server runs, and what is said of those that expire."""
import os
import ssl
import subprocess

import pytest
from certificates import authority, openssl
from harness import DEADLINE, Https1, Https2, tls_context, wait_until

SITE = '''server { listen unix:@DIR@/t.sock ssl; server_name a.test; ssl_certificate %s; ssl_certificate_key %s; location / { return 200 "$pid"; } }
'''


@pytest.fixture(scope='session')
def ca():
    made = authority()
    if not (made.directory / 'first.pem').exists():
        for name, more in (('first', {}), ('second', {}), ('third', {'kind': 'rsa'}), ('secret2', {'password': 'open sesame'}), ('brief', {'days': 0})):
            made.make(name, ['a.test'], serial={'first': 101, 'second': 102, 'third': 103, 'secret2': 104, 'brief': 105}[name], **more)
    return made


def context(protocol='http/1.1'):
    made = tls_context(protocol)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


def serial(s, name='a.test'):
    client = Https1(str(s.directory / 't.sock'), context(), name)
    try:
        der = client.socket.getpeercert(True)
        # Certificate, tbsCertificate, version 3; then an INTEGER of one byte.
        mark = b'\xa0\x03\x02\x01\x02\x02\x01'
        return der[der.index(mark) + len(mark)]
    finally:
        client.close()


def put(ca, name, folder, part):
    """As acme.sh does: the file is written over."""
    with open(folder / f'site.{part}', 'wb') as file:
        file.write((ca.directory / f'{name}.{part}').read_bytes())


def everywhere(s, wanted):
    """Every worker shows that certificate."""
    wait_until(lambda: serial(s) == wanted, f'certificate {wanted}')
    workers = set()

    def ask():
        client = Https1(str(s.directory / 't.sock'), context(), 'a.test')
        workers.add(client.request('/', host='a.test').body)
        client.close()
        return len(workers) == s.workers
    wait_until(ask, 'all workers')
    assert all(serial(s) == wanted for _ in range(8))


@pytest.fixture
def start(server, ca):
    def make(text=SITE % ('@DIR@/site.pem', '@DIR@/site.key'), name='first', prepare=None, **more):
        s = server(text, start=False, **more)
        if prepare is not None:
            prepare(s.directory)
        if name is not None:
            put(ca, name, s.directory, 'pem')
            put(ca, name, s.directory, 'key')
        s.start()
        return s
    return make


def test_written_over(start, ca):
    """One file after the other; connections and workers stay what they were."""
    s = start(workers=2)
    kept = Https2(str(s.directory / 't.sock'), context('h2'), 'a.test')
    assert kept.request('/', host='a.test').status == 200
    workers = sorted(s.workers_pids())
    put(ca, 'second', s.directory, 'pem')
    assert serial(s) == 101
    put(ca, 'second', s.directory, 'key')
    everywhere(s, 102)
    # Another kind of key.
    put(ca, 'third', s.directory, 'key')
    put(ca, 'third', s.directory, 'pem')
    everywhere(s, 103)
    assert sorted(s.workers_pids()) == workers and kept.request('/', host='a.test').status == 200
    assert len([line for line in s.log().splitlines() if 'has changed and is taken up' in line]) == 2
    assert 'cannot be used' not in s.log()
    # A worker that takes the place of another has it too.
    s.may_crash = True
    os.kill(workers[0], 9)
    wait_until(lambda: len(s.workers_pids()) == 2 and workers[0] not in s.workers_pids(), 'a new worker')
    everywhere(s, 103)


def test_links_are_swapped(start, ca):
    """As certbot does: live/ has links into archive/, which lead to the next number from one moment to the next."""
    s = start(SITE % ('@DIR@/live/cert.pem', '@DIR@/live/key.pem') + 'ssl_password_file @DIR@/passwords;', name=None, prepare=lambda d: archive(ca, d))
    assert serial(s) == 101
    for end, kind in (('key', 'key'), ('cert', 'pem')):
        (s.directory / f'archive/{end}2.pem').write_bytes((ca.directory / f'secret2.{kind}').read_bytes())
        (s.directory / 'live/new').symlink_to(f'../archive/{end}2.pem')
        (s.directory / 'live/new').rename(s.directory / f'live/{end}.pem')
    everywhere(s, 104)
    # What a link leads to is written over.
    for end, kind in (('key', 'key'), ('cert', 'pem')):
        (s.directory / f'archive/{end}2.pem').write_bytes((ca.directory / f'second.{kind}').read_bytes())
    everywhere(s, 102)


def archive(ca, directory):
    (directory / 'live').mkdir()
    (directory / 'archive').mkdir()
    (directory / 'passwords').write_text('open sesame\n')
    for end, kind in (('key', 'key'), ('cert', 'pem')):
        (directory / f'archive/{end}1.pem').write_bytes((ca.directory / f'first.{kind}').read_bytes())
        (directory / f'live/{end}.pem').symlink_to(f'../archive/{end}1.pem')


def test_broken_ones_are_refused(start, ca):
    s = start()
    (s.directory / 'site.pem').write_bytes((ca.directory / 'second.pem').read_bytes()[:300])
    s.wait_log(r'\[error\].*certificate "[^"]*/site.pem" has changed but cannot be used: its CERTIFICATE has no end, what was there before goes on$')
    assert serial(s) == 101
    put(ca, 'second', s.directory, 'pem')
    s.wait_log(r'\[error\].*certificate key "[^"]*/site.key" has changed but cannot be used: it does not belong to its certificate: .*, what was there before goes on$')
    (s.directory / 'site.pem').unlink()
    assert serial(s) == 101 and s.log().count('cannot be used') == 2
    # A reload would degrade the site, which is healthy now.
    code = subprocess.run(s.command('-s', 'reload'), capture_output=True, timeout=DEADLINE).returncode
    assert code == 1 and serial(s) == 101
    put(ca, 'second', s.directory, 'pem')
    put(ca, 'second', s.directory, 'key')
    everywhere(s, 102)
    s.reload()
    assert serial(s) == 102
    put(ca, 'first', s.directory, 'pem')
    put(ca, 'first', s.directory, 'key')
    everywhere(s, 101)


def test_site_without_certificate_is_mended(start, ca):
    s = start(SITE % ('@DIR@/site.pem', '@DIR@/site.key'), name=None)
    assert {site['name'] for site in s.status()['sites_degraded']} == {'a.test'}
    with pytest.raises(ssl.SSLError):
        serial(s)
    put(ca, 'first', s.directory, 'key')
    put(ca, 'first', s.directory, 'pem')

    def shown():
        try:
            return serial(s) == 101
        except ssl.SSLError:
            return False
    wait_until(shown, 'the site')
    assert s.status()['sites_degraded'] == []


def test_expiry(start, ca):
    """Told at the start, and when one is taken up; listed in the status."""
    s = start(name='brief')
    s.wait_log(r'\[error\].*certificate "[^"]*/site.pem" of site "a.test" has expired: 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC$')
    [told] = s.status()['certificates']
    assert told['sites'] == ['a.test'] and told['file'].endswith('/site.pem') and told['seconds_left'] <= 0
    text = subprocess.run(s.command('--status'), capture_output=True, text=True, timeout=DEADLINE).stdout
    assert 'certificates: 1\n  a.test: ' in text and ', expired 20' in text
    put(ca, 'first', s.directory, 'pem')
    put(ca, 'first', s.directory, 'key')
    everywhere(s, 101)
    [told] = s.status()['certificates']
    assert 19 * 86400 < told['seconds_left'] <= 20 * 86400
    assert 'expires in' not in s.log()


def test_stapling(start, ca):
    """The authority's answer is taken up as well."""
    answers = []
    index = ca.directory / 'index.txt'
    index.write_text('')
    for name in ('first', 'second'):
        path = ca.directory / f'{name}.ocsp'
        openssl('ocsp', '-index', index, '-CA', ca.pem, '-rsigner', ca.pem, '-rkey', ca.key, '-issuer', ca.pem, '-cert', ca.directory / f'{name}.pem',
                '-ndays', 1, '-respout', path)
        answers.append(path.read_bytes())
    s = start('ssl_stapling_file @DIR@/answer;' + SITE % ('@DIR@/site.pem', '@DIR@/site.key'), prepare=lambda d: (d / 'answer').write_bytes(answers[0]))

    def stapled():
        done = subprocess.run(['openssl', 's_client', '-unix', s.directory / 't.sock', '-status', '-servername', 'a.test'], input=b'', capture_output=True, timeout=DEADLINE)
        found = [line.split(b':')[1].strip() for line in done.stdout.splitlines() if line.strip().startswith(b'Serial Number:')]
        return found[:1]
    assert stapled() == [b'65']
    (s.directory / 'answer').write_bytes(b'no answer')
    s.wait_log(r'\[error\].*cannot load ssl_stapling_file "[^"]*/answer": d2i_OCSP_RESPONSE\(\) failed: .*, what was there before goes on$')
    assert stapled() == [b'65']
    (s.directory / 'answer').write_bytes(answers[1])
    wait_until(lambda: stapled() == [b'66'], 'the new answer')


def test_names_in_paths(start, ca):
    """$ssl_server_name: every file that it can stand for is there, also those that come later; nothing leads out of the folder."""
    text = 'server { listen unix:@DIR@/t.sock ssl; ssl_certificate_cache max=100 inactive=20s valid=1m; ssl_certificate @DIR@/certs/$ssl_server_name.pem; ' \
        'ssl_certificate_key @DIR@/keys/${ssl_server_name}.key; location / { return 200 "$ssl_server_name $pid"; } }'

    def give(directory, name, which, parts=('pem', 'key')):
        for part in parts:
            (directory / ('certs' if part == 'pem' else 'keys') / f'{name}.{part}').write_bytes((ca.directory / f'{which}.{part}').read_bytes())

    def prepare(directory):
        (directory / 'certs').mkdir()
        (directory / 'keys').mkdir()
        give(directory, 'a.test', 'first')
        give(directory, 'b.test', 'second')
        give(directory, 'half.test', 'first', ['pem'])
        (directory / 'secret.pem').write_bytes((ca.directory / 'first.pem').read_bytes())
        (directory / 'secret.key').write_bytes((ca.directory / 'first.key').read_bytes())
    s = start(text, name=None, prepare=prepare, workers=2)
    assert (serial(s), serial(s, 'b.test'), serial(s, 'B.TEST')) == (101, 102, 102)
    code, said = s.test()
    assert code == 0 and 'cannot load certificate key' in said and 'half.test.key": open() failed (2: No such file' in said

    def refused(name):
        try:
            return not serial(s, name)
        except ssl.SSLError as error:
            return 'unrecognized name' in str(error).lower().replace('_', ' ')
    for name in ('c.test', 'secret', None, 'half.test'):
        assert refused(name), name
    s.wait_log(r'\[info\].*no certificate is for server name "c.test" while SSL handshaking')
    give(s.directory, 'c.test', 'third')
    wait_until(lambda: not refused('c.test'), 'the new name')
    assert {serial(s, 'c.test') for _ in range(8)} == {103}
    give(s.directory, 'b.test', 'first')
    wait_until(lambda: serial(s, 'b.test') == 101, 'the renewed one')
    give(s.directory, 'half.test', 'first', ['key'])
    wait_until(lambda: not refused('half.test'), 'the mended one')
    s.reload()
    assert (serial(s, 'c.test'), serial(s, 'b.test'), refused('d.test')) == (103, 101, True)
    assert {c['sites'][0]: len(c['sites']) for c in s.status()['certificates']} == {n: 1 for n in ('a.test', 'b.test', 'c.test', 'half.test')}


def test_other_variables_in_paths(start):
    s = start('server { listen unix:@DIR@/t.sock ssl; server_name a.test; ssl_certificate @DIR@/$host.pem; ssl_certificate_key @DIR@/site.key; }', name=None)
    code, said = s.test()
    assert code == 2 and '"$host" is not known when a certificate is chosen, only "$ssl_server_name" is' in said

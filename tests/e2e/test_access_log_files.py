"""access_log to compressed files, to files named by variables, to streams and full disks; what is refused to be opened."""
import gzip
import os
import re
import shutil
import signal
import stat
import subprocess
import threading

import pytest
from harness import wait_until

ROOT = os.geteuid() == 0
SITE = 'server { listen @SOCK@; root @DIR@/www; %s location / { return 200; } }'
NUMBERED = 'log_format own "$arg_n"; '


def make_logs(s, name='logs'):
    """A folder that the workers may write to."""
    path = s.directory / name
    path.mkdir()
    if ROOT:
        shutil.chown(path, 'www-data')
    return path


def numbers(text):
    return sorted(int(line) for line in text.split())


def unzipped(path):
    return gzip.decompress(path.read_bytes()).decode() if path.exists() and path.stat().st_size else ''


# --- gzip

@pytest.mark.parametrize('options', ['gzip buffer=1k', 'gzip=9 buffer=1k', 'buffer=1k gzip=1 flush=20ms'])
def test_gzip(server, protocol, options):
    """Whole members only: the file can be read at any moment."""
    s = server(NUMBERED + f'access_log @DIR@/own.gz own {options};' + SITE % '', workers=2)
    path, done, seen = s.directory / 'own.gz', threading.Event(), []

    def ask(first):
        client = s.connect(protocol)
        for n in range(first, first + 400):
            client.request(f'/?n={n}')
    threads = [threading.Thread(target=ask, args=(i * 400,)) for i in range(2)]
    reader = threading.Thread(target=lambda: [seen.append(unzipped(path)) for _ in iter(done.is_set, True)])
    for t in [*threads, reader]:
        t.start()
    for t in threads:
        t.join()
    done.set()
    reader.join()
    assert s.stop(signal.SIGQUIT) == 0
    assert numbers(unzipped(path)) == list(range(800))
    assert any(seen)


def test_gzip_implies_a_buffer(server):
    s = server(NUMBERED + 'access_log @DIR@/own.gz own gzip; access_log @DIR@/plain.log own;' + SITE % '')
    s.get('/?n=1')
    wait_until(lambda: s.log('plain.log') == '1\n', 'the other line')
    assert (s.directory / 'own.gz').stat().st_size == 0
    s.stop()
    assert unzipped(s.directory / 'own.gz') == '1\n'


def test_gzip_and_rotation(server, protocol):
    s = server(NUMBERED + 'access_log @DIR@/own.gz own gzip;' + SITE % '', workers=2)
    path, asked = s.directory / 'own.gz', 0
    for turn in range(4):
        for _ in range(20):
            s.get(f'/?n={asked}', protocol)
            asked += 1
        os.rename(path, s.directory / f'own.{turn}.gz')
        s.process.send_signal(signal.SIGUSR1)
        wait_until(path.exists, 'the new file')
        wait_until(lambda: len(numbers(unzipped(s.directory / f'own.{turn}.gz'))) == 20, 'the lines in the old file')
    assert unzipped(path) == ''


# --- Variables

@pytest.mark.parametrize('cache', ['', 'open_log_file_cache max=10;', 'open_log_file_cache max=10 min_uses=3 valid=1m inactive=20s;'])
def test_variables(server, protocol, cache):
    s = server(NUMBERED + f'access_log @DIR@/logs/$host.log own; {cache}' + SITE % '')
    logs = make_logs(s)
    for n in range(30):
        s.get(f'/?n={n}', protocol, host=f'h{n % 3}')
    for i in range(3):
        wait_until(lambda: numbers(s.log(f'logs/h{i}.log')) == list(range(i, 30, 3)), f'the lines of h{i}')
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o640 for path in logs.iterdir())
    assert s.log() == '' or 'open()' not in s.log()


def test_variables_after_a_reopen(server, protocol):
    """USR1 makes the worker open the names anew; so does the end of valid=."""
    for options, signalled in (('valid=1h', True), ('valid=30ms', False)):
        s = server(NUMBERED + f'open_log_file_cache max=10 inactive=1h {options}; access_log @DIR@/logs/$host.log own;' + SITE % '')
        logs = make_logs(s)
        s.get('/?n=1', protocol, host='a')
        wait_until(lambda: s.log('logs/a.log') == '1\n', 'the line')
        os.rename(logs / 'a.log', logs / 'a.log.1')
        if signalled:
            s.process.send_signal(signal.SIGUSR1)

        def again():
            s.get('/?n=2', protocol, host='a')
            return s.log('logs/a.log').startswith('2\n')
        wait_until(again, 'the new file')
        s.stop()


def test_variables_without_a_signal_stay_with_the_file(server):
    s = server(NUMBERED + 'open_log_file_cache max=10 valid=1h inactive=1h; access_log @DIR@/logs/$host.log own;' + SITE % '')
    logs = make_logs(s)
    s.get('/?n=1', host='a')
    wait_until(lambda: s.log('logs/a.log') == '1\n', 'the line')
    os.rename(logs / 'a.log', logs / 'moved.log')
    s.get('/?n=2', host='a')
    wait_until(lambda: s.log('logs/moved.log') == '1\n2\n', 'the second line')
    assert not (logs / 'a.log').exists()


def test_many_names_need_few_descriptors(server, protocol):
    s = server(NUMBERED + 'open_log_file_cache max=8 inactive=1h; access_log @DIR@/logs/$host.log own;' + SITE % '')
    logs = make_logs(s)
    client = s.connect(protocol)
    for n in range(300):
        client.request(f'/?n={n}', host=f'h{n}')
    wait_until(lambda: sum(path.stat().st_size > 0 for path in logs.iterdir()) == 300, 'all files')
    if ROOT:
        pid = s.worker()

        def open_logs():
            names = [os.readlink(f'/proc/{pid}/fd/{fd}') for fd in os.listdir(f'/proc/{pid}/fd')]
            return sum(name.startswith(str(logs)) for name in names)
        wait_until(lambda: open_logs() <= 8, 'few descriptors')
    assert all((logs / f'h{n}.log').read_text() == f'{n}\n' for n in range(300))


def test_variables_and_the_end_of_the_worker(server):
    s = server(NUMBERED + 'access_log @DIR@/logs/$host.log own;' + SITE % '', workers=2)
    make_logs(s)
    for n in range(50):
        s.get(f'/?n={n}', host='a')
    s.stop()
    assert numbers(s.log('logs/a.log')) == list(range(50))


def test_no_root_no_file(server, protocol):
    """As nginx: names that clients make up do not become files."""
    s = server('log_format own "$uri"; access_log @DIR@/logs/$host.log own;'
               'server { listen @SOCK@; root @DIR@/www/$host; location / { return 200; } }')
    logs = make_logs(s)
    (s.root / 'real').mkdir()
    s.get('/', protocol, host='madeup')
    s.get('/', protocol, host='real')
    wait_until(lambda: s.log('logs/real.log'), 'the line')
    s.wait_log(r'\[error\].*testing ".*/www/madeup" existence failed \(2: ')
    assert [p.name for p in logs.iterdir()] == ['real.log']


def test_variables_lead_nowhere_else(server):
    s = server('log_format own "$uri"; access_log @DIR@/logs/$arg_f.log own;' + SITE % '')
    logs = make_logs(s)
    for value in ('../escaped', 'a/../../escaped', '..', '%2e%2e/escaped'):
        s.get(f'/?f={value}')
    s.get('/?f=fine')
    wait_until(lambda: s.log('logs/fine.log'), 'the line')
    s.wait_log(r'\[error\].*access_log ".*logs/\$arg_f.log" would be ".*/logs/\.\./escaped.log" and is not written')
    assert s.log().count('is not written') == 1
    assert not (s.directory / 'escaped.log').exists()
    assert {p.name for p in logs.iterdir()} <= {'fine.log', '...log', '%2e%2e'}


@pytest.mark.skipif(not ROOT, reason='needs files of others')
def test_variables_follow_no_links_of_others(server):
    s = server('log_format own "$uri"; access_log @DIR@/sites/$host/access.log own;' + SITE % '')
    target = make_logs(s, 'target')
    (s.directory / 'sites').mkdir()
    for name in ('linked', 'inner', 'hard', 'fine'):
        path = s.directory / 'sites' / name
        path.mkdir()
        path.chmod(0o777)
    (target / 'file').write_text('')
    shutil.chown(target / 'file', 'www-data')
    (s.directory / 'sites/linked/access.log').symlink_to(target / 'file')
    os.link(target / 'file', s.directory / 'sites/hard/access.log')
    for name in ('linked', 'hard', 'fine'):
        s.get('/', host=name)
    wait_until(lambda: s.log('sites/fine/access.log'), 'the line')
    s.wait_log(r'\[crit\].*open\(\) ".*/sites/linked/access.log" failed while logging request, 1 lines were lost: it is a symbolic link')
    s.wait_log(r'\[crit\].*open\(\) ".*/sites/hard/access.log" failed while logging request, 1 lines were lost: it is a file with several names')
    assert (target / 'file').read_text() == ''


def test_variables_without_the_right(server, protocol):
    s = server('log_format own "$uri"; access_log @DIR@/logs/$host/none.log own;' + SITE % '')
    make_logs(s)
    assert s.get('/', protocol, host='a').status == 200
    s.wait_log(r'\[crit\].*open\(\) ".*/logs/a/none.log" failed while logging request, 1 lines were lost \(2: ')


def test_relative_names_with_variables(server):
    s = server('log_format own "$uri"; access_log logs/$host.log own;' + SITE % '')
    make_logs(s)
    s.get('/', host='a')
    wait_until(lambda: s.log('logs/a.log') == '/\n', 'the line')


# --- What the master opens

@pytest.mark.skipif(not ROOT, reason='needs files of others')
@pytest.mark.parametrize('kind,words', [
    ('symlink', 'refused: it is a symbolic link in a folder that others may write to'),
    ('folder', 'refused: it is a symbolic link in a folder that others may write to'),
    ('hard link', 'refused: it is a file with several names in a folder that others may write to'),
    ('fifo', 'refused: it is no regular file, in a folder that others may write to'),
])
@pytest.mark.parametrize('directive', ['access_log', 'error_log'])
def test_what_others_may_have_planted(server, directive, kind, words):
    s = server(f'{directive} @DIR@/logs/x.log;' + SITE % '', start=False)
    logs = make_logs(s)
    victim = s.directory / 'victim'
    victim.write_text('')
    reader = None
    if kind == 'symlink':
        (logs / 'x.log').symlink_to(victim)
    elif kind == 'folder':
        (s.directory / 'elsewhere').mkdir()
        (logs / 'sub').symlink_to(s.directory / 'elsewhere')
        s.write_config(f'{directive} @DIR@/logs/sub/x.log;' + SITE % '')
    elif kind == 'hard link':
        os.link(victim, logs / 'x.log')
    else:
        os.mkfifo(logs / 'x.log')
        shutil.chown(logs / 'x.log', 'www-data')
        reader = os.open(logs / 'x.log', os.O_RDONLY | os.O_NONBLOCK)
    code, said = s.test()
    if reader is not None:
        os.close(reader)
    assert code == 1 and words in said, said
    assert victim.read_text() == '' and not (s.directory / 'elsewhere/x.log').exists()


def test_links_of_the_operator_are_followed(server):
    s = server('access_log @DIR@/sub/x.log;' + SITE % '', start=False)
    (s.directory / 'real').mkdir()
    (s.directory / 'sub').symlink_to('real')
    (s.directory / 'real/x.log').symlink_to('../other.log')
    s.start()
    s.get('/')
    wait_until(lambda: '"GET / ' in s.log('other.log'), 'the line')


@pytest.mark.skipif(not ROOT, reason='owners')
def test_owner_and_mode_after_a_rotation_without_a_master(server):
    s = server(NUMBERED + 'access_log @DIR@/own.log own;' + SITE % '', main='master_process off;')
    path = s.directory / 'own.log'
    s.get('/?n=1')
    wait_until(lambda: s.log('own.log') == '1\n', 'the line')
    os.rename(path, s.directory / 'own.log.1')
    s.process.send_signal(signal.SIGUSR1)
    wait_until(path.exists, 'the new file')
    s.get('/?n=2')
    wait_until(lambda: s.log('own.log') == '2\n', 'the line')
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(not ROOT, reason='owners')
def test_owner_and_mode_after_a_rotation(server):
    s = server('access_log @DIR@/own.log;' + SITE % '')
    for name in ('own.log', 'error.log'):
        path = s.directory / name
        first = path.stat()
        os.rename(path, s.directory / (name + '.1'))
        s.process.send_signal(signal.SIGUSR1)
        wait_until(path.exists, 'the new file')
        wait_until(lambda: stat.S_IMODE(path.stat().st_mode) == 0o640, 'the mode')
        wait_until(lambda: (path.stat().st_uid, path.stat().st_gid) == (first.st_uid, first.st_gid), 'the owner')
        assert first.st_uid != 0


# --- Streams

@pytest.mark.parametrize('name', ['stdout', 'stderr'])
def test_standard_streams(server, name):
    s = server('log_format own "$uri"; ' + f'access_log /dev/{name} own;' + SITE % '', start=False)
    path = s.directory / 'stream.txt'
    with open(path, 'ab') as out:
        streams = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL, name: out}
        s.stderr = open(s.directory / 'stderr.txt', 'wb')
        s.process = subprocess.Popen(s.command(), stdin=subprocess.DEVNULL, **streams)
    wait_until(lambda: s.pid_file_valid() and s.answers(), 'start')
    s.get('/one')
    wait_until(lambda: '/one\n' in path.read_text(), 'the line')
    s.process.send_signal(signal.SIGUSR1)
    s.wait_log('reopening logs')
    s.get('/two')
    wait_until(lambda: '/two\n' in path.read_text(), 'the line after the signal')


def test_standard_stream_in_the_background(server):
    """The stream that the daemon was started with, also after USR1, when its own descriptor 1 is /dev/null."""
    s = server('log_format own "$uri"; access_log /dev/stdout own;' + SITE % '', start=False)
    config = s.directory / 'corehttpd.conf'
    config.write_text(config.read_text().replace('daemon off;', 'daemon on;'))
    path = s.directory / 'stream.txt'
    with open(path, 'ab') as out:
        subprocess.run(s.command(), stdout=out, stdin=subprocess.DEVNULL, timeout=20, check=True)
    pid = int(wait_until(lambda: (s.directory / 'pid').exists() and (s.directory / 'pid').read_text().strip(), 'the pid file'))
    try:
        wait_until(s.answers, 'start')
        os.kill(pid, signal.SIGUSR1)
        s.wait_log('reopening logs')
        s.get('/one')
        wait_until(lambda: path.read_text() == '/one\n', 'the line')
    finally:
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not (s.directory / 'pid').exists(), 'the end')


def test_a_pipe_that_nobody_reads(server, protocol):
    """Lines wait, then are lost; requests and the end of the worker do not wait."""
    s = server('log_format own "$uri $http_x_pad"; access_log @DIR@/pipe own;' + SITE % '', start=False)
    os.mkfifo(s.directory / 'pipe')
    reader = os.open(s.directory / 'pipe', os.O_RDONLY | os.O_NONBLOCK)
    try:
        s.start()
        client = s.connect(protocol)
        for _ in range(100):
            assert client.request('/', headers=[('X-Pad', 'p' * 2000)]).status == 200
        client.close()
        assert s.stop(signal.SIGQUIT) == 0
    finally:
        os.close(reader)


def start_on_a_full_disk(s):
    """@DIR@/small is a file system of the daemon's own, full; its path for us. Truncating fill makes room."""
    if not ROOT or subprocess.run(['unshare', '-m', 'true'], capture_output=True).returncode != 0:
        pytest.skip('needs a file system of its own')
    small = s.directory / 'small'
    small.mkdir()
    script = f'mount -t tmpfs -o size=64k,mode=755 tmpfs {small} && head -c 65536 /dev/zero > {small}/fill; exec "$@"'
    s.stderr = open(s.directory / 'stderr.txt', 'wb')
    s.process = subprocess.Popen(['unshare', '-m', '--propagation', 'private', 'sh', '-c', script, 'sh', *s.command()],
                                 stderr=s.stderr, stdin=subprocess.DEVNULL)
    wait_until(lambda: s.pid_file_valid() and s.answers(), 'start')
    return f'/proc/{s.process.pid}/root{small}/'


def test_full_disk_that_clears(server, protocol):
    """Told when it begins and when it clears; what fits into the buffer is written late, not lost."""
    s = server(NUMBERED + 'access_log @DIR@/small/own.log own; access_log @DIR@/small/own.gz own gzip buffer=1k;' + SITE % '', start=False)
    inside = start_on_a_full_disk(s)
    client = s.connect(protocol)
    for n in range(400):
        assert client.request(f'/?n={n}').status == 200
    for name in ('own.log', 'own.gz'):
        s.wait_log(rf'\[alert\].*write\(\) to ".*/small/{name}" failed \(28: No space left on device\)')
    os.truncate(inside + 'fill', 0)
    for name in ('own.log', 'own.gz'):
        s.wait_log(rf'\[warn\].*".*/small/{name}" is written again, 0 lines were lost')
    with open(inside + 'own.log') as log:
        wait_until(lambda: (log.seek(0), numbers(log.read()) == list(range(400)))[1], 'all lines')
    assert s.log().count('failed (28') == 2
    with open(inside + 'own.gz', 'rb') as log:
        s.stop(signal.SIGQUIT)
        assert numbers(gzip.decompress(log.read()).decode()) == list(range(400))


def test_full_disk_of_an_error_log(server):
    s = server('server { listen @SOCK@; root @DIR@/www; error_log @DIR@/small/error.log; }', start=False)
    inside = start_on_a_full_disk(s)
    for n in range(20):
        assert s.get(f'/none{n}').status == 404
    os.truncate(inside + 'fill', 0)
    s.get('/late')
    with open(inside + 'error.log') as log:
        lines = log.read().splitlines()
    assert '/late" failed (2: ' in lines[0]
    assert re.search(r'\[warn\] \d+#\d+: 20 lines of this log were lost while it could not be written$', lines[1])


def test_a_name_that_begins_with_a_variable_opens_everything(server):
    s = server('map $host $folder { default @DIR@/logs; } access_log $folder/x.log;' + SITE % '')
    make_logs(s)
    assert 'workers are allowed to write anywhere' in s.stderr_text()
    s.get('/')
    wait_until(lambda: '"GET / ' in s.log('logs/x.log'), 'the line')


@pytest.mark.parametrize('text,words', [
    ('access_log @DIR@/$host.log combined buffer=1k;', 'buffered logs cannot have variables in name'),
    ('access_log @DIR@/$host.log combined gzip;', 'buffered logs cannot have variables in name'),
    ('access_log syslog:server=unix:/x combined buffer=1k;', 'logs to syslog cannot be buffered'),
    ('access_log @DIR@/x.log combined gzip=0;', 'invalid compression level "gzip=0"'),
    ('access_log @DIR@/x.log combined gzip=10;', 'invalid compression level "gzip=10"'),
    ('access_log @DIR@/x.log combined buffer=1k; access_log @DIR@/x.log combined buffer=2k;', 'already defined with conflicting parameters'),
    ('access_log @DIR@/x.log combined gzip; access_log @DIR@/x.log combined gzip=2;', 'already defined with conflicting parameters'),
    ('access_log @DIR@/$no_such.log;', 'unknown "no_such" variable'),
    ('open_log_file_cache inactive=1s;', '"open_log_file_cache" must have "max" parameter'),
    ('open_log_file_cache max=0;', 'invalid "open_log_file_cache" parameter "max=0"'),
    ('open_log_file_cache max=1 colour=red;', 'invalid "open_log_file_cache" parameter "colour=red"'),
])
def test_errors_in_the_configuration(server, text, words):
    s = server(text + ' server { listen @SOCK@; }', start=False)
    code, said = s.test()
    assert code == 1 and words in said, said


def test_a_file_is_buffered_for_all_that_name_it(server):
    """As in nginx the buffer is the file's."""
    s = server(NUMBERED + 'access_log @DIR@/own.log own buffer=64k; access_log @DIR@/second.log own;'
               'server { listen @SOCK@; location / { return 200; } location /in { access_log @DIR@/own.log own; access_log @DIR@/second.log own; return 200; } }')
    s.get('/in?n=1')
    s.get('/?n=2')
    wait_until(lambda: s.log('second.log') == '1\n2\n', 'the other file')
    assert s.log('own.log') == ''
    s.stop()
    assert s.log('own.log') == '1\n2\n'

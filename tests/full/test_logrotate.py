"""Debian's logrotate with the package's own file, on a daemon under load: no line is lost or written twice, and the new files have the
right owner and mode."""
import grp
import gzip
import pwd
import re
import shutil
import subprocess
import threading
from collections import Counter

import pytest
from harness import DEADLINE, ROOT, wait_until

ROTATE = ROOT / 'packaging/debian/corehttpd.logrotate'

HTTP = '''
  access_log @DIR@/log/access.log;
  log_format short "$request_uri $status";
  access_log @DIR@/log/buffered.log short buffer=32k flush=1s;
  error_log @DIR@/log/error.log;
  server { listen @SOCK@; root @DIR@/www; }
'''

# The file names its logs and the pid file by their places on a Debian machine; in a mount namespace of its own those are ours.
RUN = '''set -e
mount -t tmpfs none /var/log
mkdir /var/log/corehttpd
mount --bind "$1/log" /var/log/corehttpd
mount -t tmpfs none /run
cp "$1/pid" /run/corehttpd.pid
exec logrotate --force --state "$1/state" "$1/rotate.conf"
'''


class Visitors:
    """Two clients that ask for files that exist and files that don't, each name once, until they are told to end."""

    def __init__(self, server):
        self.server, self.ending, self.asked, self.failed = server, threading.Event(), [], []
        self.threads = [threading.Thread(target=self.visit, args=(number,)) for number in range(2)]
        for thread in self.threads:
            thread.start()

    def visit(self, number):
        count = 0
        client = self.server.connect()
        while not self.ending.is_set():
            # Connections are short, as browsers' are: each worker has a part in every minute.
            if count % 50 == 0:
                client.close()
                client = self.server.connect()
            uri = f'/missing/{number}/{count}' if count % 2 else f'/index.html?{number}/{count}'
            try:
                client.request(uri)
                self.asked.append(uri)
            except OSError as error:
                self.failed.append((uri, error))
                return
            count += 1
        client.close()

    def end(self):
        self.ending.set()
        for thread in self.threads:
            thread.join(DEADLINE)


def text_of(directory, name):
    """What was written to a log, from all its files."""
    files = [path for path in directory.iterdir() if path.name.startswith(f'{name}.log')]
    return ''.join(gzip.open(path, 'rt').read() if path.suffix == '.gz' else path.read_text() for path in files)


def test_no_line_is_lost(server):
    s = server('', start=False, workers=2)
    log = s.directory / 'log'
    log.mkdir(mode=0o755)
    shutil.chown(log, 'root', 'adm')
    s.write_config(HTTP)
    s.file('index.html', 'hello')
    shutil.copy(ROTATE, s.directory / 'rotate.conf')
    s.start()
    visitors = Visitors(s)
    try:
        for rotation in range(3):
            enough = len(visitors.asked) + 400
            wait_until(lambda: visitors.failed or len(visitors.asked) >= enough, 'requests')
            before = (log / 'access.log').stat().st_ino
            done = subprocess.run(['unshare', '--mount', 'sh', '-c', RUN, 'sh', str(s.directory)], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0 and not re.search('error|warning', done.stderr), done.stderr
            assert (log / 'access.log').stat().st_ino != before
            # The new files are in use: no descriptor of the daemon is still that of an old one.
            for name in ('access.log', 'buffered.log', 'error.log'):
                wait_until(lambda: (log / name).stat().st_size, f'lines in the new {name}')
    finally:
        visitors.end()
    assert not visitors.failed
    s.stop()

    asked = Counter(visitors.asked)
    assert Counter(re.findall(r'"GET (\S+) HTTP/1\.1"', text_of(log, 'access'))) == asked
    assert Counter(re.findall(r'^(\S+) \d+$', text_of(log, 'buffered'), re.M)) == asked
    missing = Counter({uri: 1 for uri in asked if uri.startswith('/missing/')})
    assert Counter(re.findall(r'open\(\) "\S+" failed .* request: "GET (\S+) HTTP', text_of(log, 'error'))) == missing

    for name in ('access.log', 'buffered.log', 'error.log'):
        facts = (log / name).stat()
        assert (facts.st_mode & 0o7777, pwd.getpwuid(facts.st_uid).pw_name, grp.getgrgid(facts.st_gid).gr_name) == (0o640, 'www-data', 'adm')
        # The last one stays as it is until the next time (delaycompress): its writers may have been at work still.
        assert (log / f'{name}.1').exists() and (log / f'{name}.2.gz').exists()
    assert not re.search(r'\[(emerg|alert|crit)\]', text_of(log, 'error'))

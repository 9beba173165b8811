"""A box of the import tests: a tree of nginx's, what became of it, and the daemon that serves it."""
import json
import os
import re
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import pytest
from fastcgi_peer import Peer, answer
from harness import BINARY, DEADLINE, ROOT, Http1, free_port, wait_until

DATA = Path(__file__).parent / 'data/import'
TREES = sorted(path.name for path in DATA.iterdir())
# Where the trees' directories are in the test's own.
MOVED = (('/var/log/nginx', 'log'), ('/var/lib/nginx', 'lib'), ('/var/www', 'www'), ('/home/', 'home/'), ('/run/php', 'php'))


class Box:
    """A hosting box under one directory: its nginx tree, sites and logs, and the tree made of it."""

    def __init__(self, directory, name=None):
        self.directory, self.port, self.process = directory, free_port(), None
        self.tree, self.out = directory / 'nginx', directory / 'out'
        for made in ('log', 'lib', 'www', 'home', 'php'):
            (directory / made).mkdir()
        if name is None:
            self.tree.mkdir()
            return
        shutil.copytree(DATA / name, self.tree, symlinks=True)
        if (self.tree / 'home').exists():
            shutil.copytree(self.tree / 'home', directory / 'home', dirs_exist_ok=True)
            shutil.rmtree(self.tree / 'home')
        for path in [*self.tree.rglob('*'), *(directory / 'home').rglob('*')]:
            if path.is_file() and not path.is_symlink():
                path.write_text(self.local(path.read_text()))
        for shipped in ('mime.types', 'fastcgi_params', 'fastcgi.conf'):
            shutil.copy(ROOT / 'conf' / shipped, self.tree)

    def local(self, text):
        text = re.sub(r'listen 80\b', f'listen 127.0.0.1:{self.port}', text)
        text = re.sub(r'listen \[::\]:80\b', f'listen unix:{self.directory}/six.sock', text)
        for old, new in MOVED:
            text = text.replace(old, f'{self.directory}/{new}')
        # The tests need not be run by root.
        text = re.sub(r'(include +\S*mime.types;)', rf'\1 {self.temporary()}', text)
        return re.sub(r'worker_processes +auto', 'worker_processes 1', text)

    def temporary(self):
        return f'client_body_temp_path {self.directory}/body; fastcgi_temp_path {self.directory}/fcgi;'

    def write(self, name, text):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.local(text))
        return path

    def main(self, http, more=''):
        self.write('nginx.conf', f'error_log {self.directory}/log/error.log;\n{more}\nevents {{ }}\nhttp {{\naccess_log off; {self.temporary()}\n{http}\n}}\n')

    def file(self, name, data):
        path = self.directory / 'www' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data)

    def run(self, *more, deadline=DEADLINE):
        done = subprocess.run([str(BINARY), 'import-nginx', str(self.tree), '--out', str(self.out), *more], capture_output=True, text=True,
                              timeout=deadline, errors='replace')
        return done.returncode, done.stdout, done.stderr

    def imported(self, *more):
        """Imports; the entries of the report."""
        code, out, err = self.run('--json', *more)
        assert code in (0, 2), (out, err)
        report = json.loads(out)
        assert report['result'] == ('clean' if code == 0 else 'degraded')
        for entry in report['entries']:
            entry['file'] = entry['file'].removeprefix(f'{self.tree}/')
        return report['entries']

    def test(self):
        done = subprocess.run([str(BINARY), '-t', '-q', '-c', str(self.out / 'corehttpd.conf')], capture_output=True, text=True,
                              timeout=DEADLINE)
        return done.returncode, done.stderr

    def text(self, name='corehttpd.conf'):
        return (self.out / name).read_text()

    def start(self):
        pid = self.directory / 'pid'
        command = [str(BINARY), '-c', str(self.out / 'corehttpd.conf'), '-g', f'daemon off; pid {pid};']
        with open(self.directory / 'stderr.txt', 'wb') as stderr:
            self.process = subprocess.Popen(command, stderr=stderr, stdin=subprocess.DEVNULL)
        wait_until(lambda: self.process.poll() is not None or (pid.exists() and self.listens()), 'start')
        assert self.process.poll() is None, (self.directory / 'stderr.txt').read_text()

    def listens(self):
        try:
            Http1(('127.0.0.1', self.port)).close()
            return True
        except OSError:
            return False

    def get(self, path, host='localhost', **more):
        client = Http1(('127.0.0.1', self.port))
        try:
            return client.request(path, host=host, **more)
        finally:
            client.close()

    def status(self, path, host='localhost', **more):
        return self.get(path, host, **more).status

    def snapshot(self):
        return {str(path.relative_to(self.out)): os.readlink(path) if path.is_symlink() else
                (stat.S_IMODE(path.stat().st_mode), path.read_bytes() if path.is_file() else None) for path in self.out.rglob('*')}

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(DEADLINE)


@pytest.fixture
def box(directory):
    boxes = []

    def make(name=None):
        boxes.append(Box(directory, name))
        return boxes[-1]

    yield make
    for made in boxes:
        made.stop()


def named(entries, directive, **wanted):
    return [e for e in entries if e['directive'] == directive and all(e[key] == value for key, value in wanted.items())]


def php(box, name='php-fpm.sock'):
    def handler(request):
        request.send(answer(b'Content-Type: text/html\r\n\r\nphp:' + request.params['SCRIPT_FILENAME'].encode()))
    return Peer(box.directory / 'php' / name, handler)

"""Debian's nginx as a reference: started by a test on loopback under a prefix of its own, never as the service."""
import shutil
import socket
import subprocess
from pathlib import Path

from harness import DEADLINE, end_process, wait_until

NGINX = shutil.which('nginx', path='/usr/sbin:/usr/bin')


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(('127.0.0.1', port)) == 0


class Nginx:
    """A running nginx. http is what stands in http { … }; @DIR@ is its directory."""

    def __init__(self, directory, http, port):
        self.directory = Path(directory)
        self.directory.mkdir(exist_ok=True)
        self.directory.chmod(0o755)
        temp = ''.join(f'{kind}_temp_path @DIR@/{kind};' for kind in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
        text = ('daemon off; pid @DIR@/pid; error_log @DIR@/error.log info; worker_processes 1; events { }\n'
                f'http {{ access_log @DIR@/access.log; {temp} {http} }}\n')
        config = self.directory / 'nginx.conf'
        config.write_text(text.replace('@DIR@', str(self.directory)))
        with open(self.directory / 'stderr.txt', 'wb') as stderr:
            self.process = subprocess.Popen(
                [NGINX, '-p', str(self.directory), '-c', str(config), '-e', str(self.directory / 'error.log')],
                stderr=stderr, stdin=subprocess.DEVNULL)
        wait_until(lambda: self.process.poll() is not None or listens(port), 'nginx')
        assert self.process.poll() is None, (self.directory / 'stderr.txt').read_text()

    def log(self, name):
        path = self.directory / name
        return path.read_text(errors='replace') if path.exists() else ''

    def stop(self):
        if self.process.poll() is not None:
            return
        end_process(self.process, DEADLINE)

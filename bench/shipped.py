"""Servers with the configuration that their packages ship, untouched, each in a network of its own where port 80 is free."""
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import servers


class Shipped(servers.Server):
    """A server in a root of its own; it listens on port 80 of its own loopback."""
    server_core = None
    binary = arguments = package = None

    def __init__(self, name, root, state):
        super().__init__(name, state, state)
        self.root, self.port = Path(root), 80

    def command(self):
        script = 'ip link set lo up && exec chroot "$0" "$@"'
        return ['unshare', '--net', 'sh', '-c', script, str(self.root), self.binary, *self.arguments]

    def inside(self, command):
        return ['nsenter', '--net', '--target', str(self.process.pid)] + command

    def start(self):
        self.output = open(self.state / 'output.txt', 'wb')
        self.process = subprocess.Popen(self.command(), stdout=self.output, stderr=self.output, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 20
        probe = ['bash', '-c', 'exec 3<>/dev/tcp/127.0.0.1/80']
        while subprocess.run(self.inside(probe), capture_output=True).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f'{self.name} does not start: {(self.state / "output.txt").read_text()}')
            time.sleep(0.05)

    def version(self):
        out = subprocess.run(['chroot', str(self.root), 'dpkg-query', '-W', '-f', '${Package} ${Version}', self.package],
                             capture_output=True, text=True).stdout
        return out + ', as shipped'


class Nginx(Shipped):
    binary, arguments, package = '/usr/sbin/nginx', ['-g', 'daemon off;'], 'nginx'


class Apache(Shipped):
    binary, package = '/bin/sh', 'apache2'
    # As apache2ctl does, which would stay between us and the server.
    arguments = ['-c', 'rm -f /run/apache2/apache2.pid; mkdir -p /run/apache2 /run/lock; . /etc/apache2/envvars && exec /usr/sbin/apache2 -D FOREGROUND']


class Corehttpd(Shipped):
    """The tree of conf/ laid out as the package does, in a root that borrows the host's /usr."""
    binary, arguments = '/opt/corehttpd', []

    def __init__(self, name, top, binary, state):
        super().__init__(name, Path(state) / 'root', state)
        self.source = Path(binary)
        conf, root = Path(top) / 'conf', self.root
        etc = root / 'etc/corehttpd'
        for folder in ('opt', 'usr', 'proc', 'dev', 'run', 'tmp', 'var/log/corehttpd', 'var/lib/corehttpd', 'var/cache/corehttpd', 'var/www/html',
                       'etc/corehttpd/conf.d', 'etc/corehttpd/sites-enabled'):
            (root / folder).mkdir(parents=True, exist_ok=True)
        for file in ('corehttpd.conf', 'mime.types', 'fastcgi_params', 'fastcgi.conf'):
            shutil.copy(conf / file, etc / file)
        for folder in ('snippets', 'sites-available'):
            shutil.copytree(conf / folder, etc / folder)
        (etc / 'sites-enabled/default').symlink_to('../sites-available/default')
        shutil.copy(conf / 'html/index.html', root / 'var/www/html/index.corehttpd-debian.html')
        shutil.copy(binary, root / 'opt/corehttpd')
        for file in ('passwd', 'group', 'nsswitch.conf', 'ld.so.cache'):
            shutil.copy(f'/etc/{file}', root / 'etc' / file)
        for name_ in ('bin', 'sbin', 'lib', 'lib64'):
            (root / name_).symlink_to(f'usr/{name_}')

    def command(self):
        script = '''ip link set lo up && mount --bind /usr "$0/usr" && mount --bind /proc "$0/proc" && mount --rbind /dev "$0/dev" &&
exec chroot "$0" "$@" -c /etc/corehttpd/corehttpd.conf -g "daemon off;"'''
        return ['unshare', '--net', '--mount', 'sh', '-c', script, str(self.root), self.binary]

    def version(self):
        out = subprocess.run([str(self.source), '-v'], capture_output=True, text=True).stderr.strip()
        return out + ', as shipped'

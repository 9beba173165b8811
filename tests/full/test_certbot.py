"""certbot's nginx plugin, unmodified, against a test authority (pebble): it finds the site in our tree, proves that the name is ours by
a challenge that we serve, installs the certificate, writes a redirect, and renews.

TLS listeners are left out with a warning until they are served; what is seen here of the installed certificate is the configuration.
The plugin writes redirects only for port 80: the tests have a network of their own, in which every port is free.
"""
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from harness import BINARY, DEADLINE, ROOT, Http1, wait_until
from own_network import own_network  # noqa: F401 (a fixture is found by its name here)
from nginx_peer import listens

NAME, OTHER = 'www.example.test', 'shop.example.test'

CORE = '''user www-data;
worker_processes 1;
pid @DIR@/pid;
error_log @DIR@/error.log info;

events {
}

http {
    include @ROOT@/conf/mime.types;
    access_log @DIR@/access.log;
    client_body_temp_path @DIR@/body_temp;
    fastcgi_temp_path @DIR@/fastcgi_temp;

    include conf.d/*.conf;
    include sites-enabled/*;
}
'''

SITE = '''# A site as an operator has it: with comments, a redirecting block, and a location of its own.
server {
    listen 80;
    listen [::]:80;
    server_name %s;
    root @DIR@/www;
    index index.html;

    location / {
        try_files $uri $uri/ =404;  # no front controller here
    }
}
'''


class Children:
    """Processes that end with the test."""

    def __init__(self, directory):
        self.directory, self.running = directory, []

    def start(self, name, command, **more):
        with open(self.directory / f'{name}.txt', 'wb') as out:
            self.running.append(subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **more))
        return self.running[-1]

    def stop(self):
        for process in reversed(self.running):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(DEADLINE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


@pytest.fixture
def children(directory, own_network):  # noqa: F811
    made = Children(directory)
    yield made
    made.stop()


@pytest.fixture
def authority(directory, children):
    """pebble and its name server: (environment for its clients, URL)."""
    key, certificate = directory / 'pebble.key', directory / 'pebble.crt'
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', str(key), '-out',
                    str(certificate), '-subj', '/CN=pebble', '-days', '2', '-addext', 'subjectAltName=IP:127.0.0.1'], check=True,
                   capture_output=True, timeout=60)
    (directory / 'pebble.json').write_text(json.dumps({'pebble': {
        'listenAddress': '127.0.0.1:14000', 'managementListenAddress': '127.0.0.1:15000',
        'certificate': str(certificate), 'privateKey': str(key), 'httpPort': 80, 'tlsPort': 443,
        'ocspResponderURL': '', 'externalAccountBindingRequired': False}}))
    children.start('names', ['pebble-challtestsrv', '-defaultIPv4', '127.0.0.1', '-defaultIPv6', '', '-dns01', '127.0.0.1:8053', '-http01', '',
                             '-https01', '', '-tlsalpn01', '', '-management', '127.0.0.1:8055'])
    # Every order is to be proven anew, and without pebble's waits. It refuses no nonces: certbot tries again just once, and two in a row
    # would fail a test that is not about that.
    children.start('pebble', ['pebble', '-config', str(directory / 'pebble.json'), '-dnsserver', '127.0.0.1:8053'],
                   env=dict(os.environ, PEBBLE_VA_NOSLEEP='1', PEBBLE_WFE_NONCEREJECT='0', PEBBLE_AUTHZREUSE='0'))
    wait_until(lambda: listens(14000) and listens(8055), 'pebble')
    return dict(os.environ, REQUESTS_CA_BUNDLE=str(certificate)), 'https://127.0.0.1:14000/dir'


class Tree:
    """A server root as the package lays it out, and the daemon that runs it."""

    def __init__(self, directory, children, authority):
        self.directory = directory
        self.environment, self.url = authority
        self.etc = directory / 'etc'
        for name in ('etc/conf.d', 'etc/sites-available', 'etc/sites-enabled', 'www'):
            (directory / name).mkdir(parents=True)
        (directory / 'www/index.html').write_text('hello')
        (self.etc / 'corehttpd.conf').write_text(self.filled(CORE))
        # The plugin opens this name in the server root and no other.
        (self.etc / 'nginx.conf').symlink_to('corehttpd.conf')
        for name in (NAME, OTHER):
            (self.etc / 'sites-available' / name).write_text(self.filled(SITE % name))
            (self.etc / 'sites-enabled' / name).symlink_to(f'../sites-available/{name}')
        self.process = children.start('daemon', [str(BINARY), '-c', str(self.etc / 'nginx.conf'), '-g', 'daemon off;'])
        wait_until(lambda: listens(80) and (self.directory / 'pid').exists(), 'the site')

    def filled(self, text):
        return text.replace('@DIR@', str(self.directory)).replace('@ROOT@', str(ROOT))

    def certbot(self, *arguments):
        folders = [word for kind in ('config', 'work', 'logs') for word in (f'--{kind}-dir', str(self.directory / 'certbot' / kind))]
        done = subprocess.run(['certbot', *arguments, *folders, '--non-interactive', '--nginx-ctl', str(BINARY), '--nginx-server-root', str(self.etc),
                               '--nginx-sleep-seconds', '0', '--server', self.url],
                              env=self.environment, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr + self.log('certbot/logs/letsencrypt.log')[-8000:] + self.log('error.log')
        return done.stdout + done.stderr

    def log(self, name):
        path = self.directory / name
        return path.read_text(errors='replace') if path.exists() else ''

    def site(self, name=NAME):
        return (self.etc / 'sites-available' / name).read_text()

    def get(self, host=NAME, path='/'):
        client = Http1(('127.0.0.1', 80))
        try:
            return client.request(path, host=host)
        finally:
            client.close()

    def challenges(self):
        return re.findall(r'"GET /\.well-known/acme-challenge/\S+ HTTP/1\.1" 200 ', self.log('access.log'))

    def certificate(self):
        return (self.directory / f'certbot/config/live/{NAME}/fullchain.pem').read_text()

    def check_still_serves(self):
        tested = subprocess.run([str(BINARY), '-t', '-c', str(self.etc / 'nginx.conf')], capture_output=True, text=True, timeout=DEADLINE)
        assert tested.returncode == 0, tested.stderr
        assert self.process.poll() is None, self.log('daemon.txt')
        assert self.get(OTHER).body == b'hello'
        # The challenge's own location and include are taken out again.
        assert 'acme-challenge' not in self.site() and 'le_http_01' not in (self.etc / 'corehttpd.conf').read_text()
        assert (self.etc / 'nginx.conf').is_symlink() and (self.etc / 'sites-enabled' / NAME).is_symlink()
        assert not re.search(r'\[(emerg|alert|crit)\]', self.log('error.log')), self.log('error.log')


REGISTER = ('--agree-tos', '--register-unsafely-without-email')


@pytest.fixture
def tree(directory, children, authority):
    return Tree(directory, children, authority)


def test_obtain_install_and_renew(tree):
    tree.certbot('run', '--nginx', *REGISTER, '--redirect', '--hsts', '--staple-ocsp', '-d', NAME)
    assert 'BEGIN CERTIFICATE' in tree.certificate()
    assert len(tree.challenges()) >= 1
    written = tree.site()
    assert re.search(r'listen 443 ssl; # managed by Certbot', written)
    assert f'ssl_certificate {tree.directory}/certbot/config/live/{NAME}/fullchain.pem; # managed by Certbot' in written
    assert 'Strict-Transport-Security' in written and 'ssl_stapling on; # managed by Certbot' in written
    assert '# no front controller here' in written
    tree.check_still_serves()
    answer = tree.get(NAME, '/a?b=c')
    assert (answer.status, answer['location']) == (301, f'https://{NAME}/a?b=c')
    # certbot reloaded us, rather than starting another.
    assert len(re.findall('reconfiguring|signal process started', tree.log('error.log'))) >= 2

    first, proven = tree.certificate(), len(tree.challenges())
    said = tree.certbot('renew', '--force-renewal', '--no-random-sleep-on-renew')
    assert 'all renewals succeeded' in said
    assert tree.certificate() != first
    assert len(tree.challenges()) > proven
    assert tree.site() == written
    tree.check_still_serves()


def test_obtain_only(tree):
    before = tree.site()
    tree.certbot('certonly', '--nginx', *REGISTER, '-d', NAME, '-d', OTHER)
    names = subprocess.run(['openssl', 'x509', '-noout', '-ext', 'subjectAltName'], input=tree.certificate(), capture_output=True, text=True,
                           timeout=60, check=True).stdout
    assert NAME in names and OTHER in names
    assert tree.site() == before
    tree.check_still_serves()
    assert tree.get(NAME).body == b'hello'


def test_files_for_the_challenge(tree):
    """The webroot plugin puts its file into the site; a site that refuses hidden names lets this one through."""
    path = tree.etc / 'sites-available' / NAME
    path.write_text(path.read_text().replace('index index.html;', 'index index.html;\n    location ~ /\\.(?!well-known/) { return 404; }'))
    assert subprocess.run([str(BINARY), '-c', str(tree.etc / 'nginx.conf'), '-s', 'reload'], timeout=DEADLINE).returncode == 0
    tree.certbot('certonly', '--webroot', '-w', str(tree.directory / 'www'), *REGISTER, '-d', NAME)
    assert len(tree.challenges()) >= 1 and 'BEGIN CERTIFICATE' in tree.certificate()
    assert tree.get(NAME, '/.well').status == 404
    tree.check_still_serves()


def test_a_name_that_no_site_has(tree):
    """The plugin makes a block of its own for the challenge; afterwards nothing of it is left."""
    before = {path.name: path.read_text() for path in (tree.etc / 'sites-available').iterdir()}
    tree.certbot('certonly', '--nginx', *REGISTER, '--cert-name', NAME, '-d', NAME, '-d', 'new.example.test')
    assert len(tree.challenges()) >= 2
    assert {path.name: path.read_text() for path in (tree.etc / 'sites-available').iterdir()} == before
    tree.check_still_serves()


def test_a_second_daemon_on_the_same_tree_changes_nothing(tree):
    """What certbot does when a reload is refused: it starts the program. That fails, and the one that runs is untouched."""
    pid = (tree.directory / 'pid').read_text()
    again = subprocess.run([str(BINARY), '-c', str(tree.etc / 'nginx.conf')], capture_output=True, text=True, timeout=DEADLINE)
    assert again.returncode == 1 and 'Address already in use' in again.stderr, again.stderr
    assert (tree.directory / 'pid').read_text() == pid
    assert tree.process.poll() is None and tree.get(NAME).body == b'hello'
    reloaded = subprocess.run([str(BINARY), '-c', str(tree.etc / 'nginx.conf'), '-s', 'reload'], capture_output=True, text=True, timeout=DEADLINE)
    assert reloaded.returncode == 0, reloaded.stderr
    assert tree.get(NAME).body == b'hello'

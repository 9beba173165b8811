"""The servers again, with TLS: one key, TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1 on one port. All link the same release's OpenSSL."""
import subprocess

import servers

NGINX_LIKE = '''daemon off;
worker_processes 1;
user www-data;
pid {state}/pid;
error_log {state}/error.log crit;
worker_rlimit_nofile 20000;
events {{ worker_connections 16384; }}
http {{
    default_type text/html;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 100000000;
    keepalive_timeout 300;
    open_file_cache max=1000 inactive=60s;
    open_file_cache_valid 60s;
    access_log off;
    ssl_certificate {state}/cert.pem;
    ssl_certificate_key {state}/key.pem;
    ssl_protocols TLSv1.2 TLSv1.3;
    server {{
        listen 127.0.0.1:{port} {listen} backlog=4096;
        root {www};
    }}
    {more}
}}
'''
# Of a second site whose signatures are dear.
DEAR_SITE = '''server {{
        listen 127.0.0.1:{port} {listen};
        server_name dear.test;
        ssl_certificate {state}/dear-cert.pem;
        ssl_certificate_key {state}/dear-key.pem;
        root {www};
    }}'''


def make_certificate(directory, kind, prefix=''):
    """A key and a self-signed certificate; kind: 'ec', or 'rsa:BITS'."""
    key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'] if kind == 'ec' else ['-newkey', kind]
    subprocess.run(['openssl', 'req', '-x509', *key, '-nodes', '-days', '7', '-subj', '/CN=localhost', '-addext',
                    'subjectAltName=DNS:localhost,DNS:dear.test,IP:127.0.0.1', '-keyout', str(directory / f'{prefix}key.pem'), '-out',
                    str(directory / f'{prefix}cert.pem')], check=True, capture_output=True, timeout=60)
    (directory / f'{prefix}key.pem').chmod(0o644)  # Of no worth, and some peers read it as the user they become.


class Corehttpd(servers.Server):
    def __init__(self, name, state, www, binary, kind='ec', dear=False):
        super().__init__(name, state, www)
        self.binary = binary
        make_certificate(self.state, kind)
        more = ''
        if dear:
            make_certificate(self.state, 'rsa:4096', 'dear-')
            more = DEAR_SITE.format(state=self.state, port=self.port, listen='ssl', www=www)
        (self.state / 'server.conf').write_text(NGINX_LIKE.format(state=self.state, port=self.port, listen='ssl', www=www, more=more))

    def command(self):
        return [str(self.binary), '-c', str(self.state / 'server.conf'), '-p', str(self.state)]

    def version(self):
        done = subprocess.run([str(self.binary), '-V'], capture_output=True, text=True).stderr.splitlines()
        return '; '.join([done[0]] + [line for line in done if 'OpenSSL' in line][:1])


class Chrooted(servers.Chrooted):
    """A peer in a root, with a key made there."""
    library = 'libssl3'

    def __init__(self, name, root, package, kind='ec'):
        super().__init__(name, root, name.replace(' ', '-') + '-tls-' + kind.replace(':', ''), package)
        make_certificate(self.state, kind)

    def version(self):
        return ', '.join(super().version().splitlines()) + ', ' + subprocess.run(
            ['chroot', str(self.root), 'dpkg-query', '-W', '-f', '${Package} ${Version}', self.library], capture_output=True, text=True).stdout


class Nginx(Chrooted):
    def __init__(self, name, root, kind='ec', dear=False, library='libssl3'):
        super().__init__(name, root, 'nginx', kind)
        self.library = library
        more = ''
        if dear:
            make_certificate(self.state, 'rsa:4096', 'dear-')
            more = DEAR_SITE.format(state=self.home, port=self.port, listen='ssl http2', www='/srv/www')
        (self.state / 'server.conf').write_text(NGINX_LIKE.format(state=self.home, port=self.port, listen='ssl http2', www='/srv/www', more=more))

    def command(self):
        return ['chroot', str(self.root), '/usr/sbin/nginx', '-c', f'{self.home}/server.conf']


class H2o(Chrooted):
    def __init__(self, name, root, kind='ec'):
        super().__init__(name, root, 'h2o', kind)
        (self.state / 'server.conf').write_text(f'''user: www-data
num-threads: 1
max-connections: 16384
http1-request-timeout: 300
http2-idle-timeout: 300
error-log: {self.home}/error.log
listen:
  host: 127.0.0.1
  port: {self.port}
  ssl:
    certificate-file: {self.home}/cert.pem
    key-file: {self.home}/key.pem
hosts:
  default:
    paths:
      "/":
        file.dir: /srv/www
''')

    def command(self):
        return ['chroot', str(self.root), '/usr/bin/h2o', '-c', f'{self.home}/server.conf']


class Apache(Chrooted):
    def __init__(self, name, root, kind='ec'):
        super().__init__(name, root, 'apache2', kind)
        modules = ''.join(f'LoadModule {name}_module modules/mod_{name}.so\n' for name in ('ssl', 'http2'))
        # What is said last counts.
        (self.state / 'server.conf').write_text(servers.APACHE.format(home=self.home, port=self.port, modules=modules, more=f'''KeepAliveTimeout 300
Protocols h2 http/1.1
SSLEngine on
SSLProtocol TLSv1.2 TLSv1.3
SSLCertificateFile {self.home}/cert.pem
SSLCertificateKeyFile {self.home}/key.pem
SSLSessionCache none
'''))

    def command(self):
        return ['chroot', str(self.root), '/usr/sbin/apache2', '-D', 'FOREGROUND', '-f', f'{self.home}/server.conf']


class Nghttpd(Chrooted):
    """The HTTP/2 library's own server: what no server over it can beat. HTTP/2 only."""

    def __init__(self, name, root, kind='ec'):
        super().__init__(name, root, 'nghttp2-server', kind)

    def command(self):
        return ['chroot', str(self.root), '/usr/sbin/nghttpd', '-a', '127.0.0.1', '-n', '1', '-d', '/srv/www', str(self.port),
                f'{self.home}/key.pem', f'{self.home}/cert.pem']


def check_answers(server, sizes):
    """Over both protocols: the body of each file, and that a missing one is missing."""
    problems = []
    for option in ('--http1.1', '--http2'):
        if option == '--http1.1' and isinstance(server, Nghttpd):
            continue
        for name, want in [*((f'{n}.html', '200') for n in sizes), ('none.html', '404')]:
            done = subprocess.run(['curl', '-sk', option, '--max-time', '10', '-w', '%{http_version} %{http_code}',
                                   f'https://localhost:{server.port}/{name}', '--resolve', f'localhost:{server.port}:127.0.0.1'],
                                  capture_output=True, timeout=30)
            right = (server.www / name).read_bytes() if want == '200' else None
            version = '2' if option == '--http2' else '1.1'
            if not done.stdout.endswith(f'{version} {want}'.encode()) or (right and done.stdout[:len(right)] != right):
                problems.append(f'{option} {name}: …{done.stdout[-40:]!r}')
    return problems

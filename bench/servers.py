"""The servers that are compared: how each is configured and started. All serve the same files with one worker pinned to core 0."""
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

SERVER_CORE = '0'


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def processes_of(pid):
    """pid and all its descendants."""
    found, queue = [], [pid]
    while queue:
        current = queue.pop()
        found.append(current)
        try:
            for task in os.listdir(f'/proc/{current}/task'):
                queue += [int(c) for c in Path(f'/proc/{current}/task/{task}/children').read_text().split()]
        except OSError:
            pass
    return found


def cpu_seconds(pids):
    """User and system time so far, in seconds."""
    ticks = os.sysconf('SC_CLK_TCK')
    total = 0
    for pid in pids:
        try:
            fields = Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return total / ticks


def pss_kib(pids):
    total = 0
    for pid in pids:
        try:
            for line in Path(f'/proc/{pid}/smaps_rollup').read_text().splitlines():
                if line.startswith('Pss:'):
                    total += int(line.split()[1])
        except OSError:
            pass
    return total


class Server:
    """name, a way to start, and where its files are."""
    must_be_fresh = False  # No file cache is configured: a changed file has to be seen at once.

    server_core = SERVER_CORE  # None: wherever the kernel likes.

    def __init__(self, name, state, www):
        self.name, self.port, self.state, self.www = name, free_port(), Path(state), Path(www)
        self.process = None
        self.state.mkdir(parents=True, exist_ok=True)
        self.state.chmod(0o777)  # Some peers open their logs as the user they become.

    def command(self):
        raise NotImplementedError

    def version(self):
        return ''

    def start(self):
        command = (['taskset', '-c', self.server_core] if self.server_core else []) + self.command()
        self.output = open(self.state / 'output.txt', 'wb')
        self.process = subprocess.Popen(command, stdout=self.output, stderr=self.output, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(('127.0.0.1', self.port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f'{self.name} does not start: {(self.state / "output.txt").read_text()}')
                time.sleep(0.02)

    def inside(self, command):
        """command, as it has to be called to reach the server."""
        return command

    def pids(self):
        return processes_of(self.process.pid)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


NGINX_LIKE = '''daemon off;
worker_processes 1;
user www-data;
pid {state}/pid;
error_log {state}/error.log crit;
{main}
events {{ worker_connections 16384; }}
http {{
    default_type text/html;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    open_file_cache max=1000 inactive=60s;
    open_file_cache_valid 60s;
    access_log {log};
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root {www};
    }}
}}
'''


LIGHTTPD = '''server.document-root = "/srv/www"
server.port = {port}
server.bind = "127.0.0.1"
server.username = "www-data"
server.groupname = "www-data"
server.max-connections = 8192
server.max-fds = 20000
server.max-keep-alive-requests = 65535
server.errorlog = "{home}/error.log"
mimetype.assign = ( ".html" => "text/html" )
{more}'''
# modules: further LoadModule lines; more: what follows.
APACHE = '''ServerRoot /usr/lib/apache2
LoadModule mpm_event_module modules/mod_mpm_event.so
LoadModule authz_core_module modules/mod_authz_core.so
LoadModule mime_module modules/mod_mime.so
{modules}User www-data
Group www-data
ServerName localhost
PidFile {home}/pid
ErrorLog {home}/error.log
Listen 127.0.0.1:{port}
ListenBacklog 4096
DocumentRoot /srv/www
TypesConfig /dev/null
AddType text/html .html
KeepAlive On
KeepAliveTimeout 65
MaxKeepAliveRequests 0
StartServers 1
ServerLimit 16
ThreadsPerChild 64
MaxRequestWorkers 1024
AsyncRequestWorkerFactor 16
<Directory /srv/www>
  Require all granted
  AllowOverride None
  Options FollowSymLinks
</Directory>
{more}'''


class Corehttpd(Server):
    def __init__(self, name, state, www, binary, log, cache):
        super().__init__(name, state, www)
        self.binary = binary
        text = NGINX_LIKE.format(state=self.state, port=self.port, www=self.www, main='worker_rlimit_nofile 20000;',
                                 log=f'{self.state}/access.log' if log else 'off')
        self.must_be_fresh = not cache
        if not cache:
            text = '\n'.join(line for line in text.splitlines() if 'open_file_cache' not in line)
        (self.state / 'server.conf').write_text(text)

    def command(self):
        return [str(self.binary), '-c', str(self.state / 'server.conf'), '-p', str(self.state)]

    def version(self):
        return subprocess.run([str(self.binary), '-v'], capture_output=True, text=True).stderr.strip()


class Chrooted(Server):
    """A peer in its own Debian root; state and files are inside it."""

    def __init__(self, name, root, inside, package):
        self.root, self.home, self.package = Path(root), f'/bench/{inside}', package
        super().__init__(name, self.root / f'bench/{inside}', self.root / 'srv/www')
        (self.root / 'bench').chmod(0o755)

    def version(self):
        out = subprocess.run(['chroot', str(self.root), 'dpkg-query', '-W', '-f', '${Package} ${Version}', self.package],
                             capture_output=True, text=True).stdout
        return out


class Nginx(Chrooted):
    def __init__(self, name, root, log):
        super().__init__(name, root, name, 'nginx')
        (self.state / 'server.conf').write_text(NGINX_LIKE.format(
            state=self.home, port=self.port, www='/srv/www', main='worker_rlimit_nofile 20000;',
            log=f'{self.home}/access.log' if log else 'off'))

    def command(self):
        return ['chroot', str(self.root), '/usr/sbin/nginx', '-c', f'{self.home}/server.conf']


class Lighttpd(Chrooted):
    def __init__(self, name, root):
        super().__init__(name, root, name, 'lighttpd')
        (self.state / 'server.conf').write_text(LIGHTTPD.format(home=self.home, port=self.port, more=''))

    def command(self):
        return ['chroot', str(self.root), '/usr/sbin/lighttpd', '-D', '-f', f'{self.home}/server.conf']


class H2o(Chrooted):
    def __init__(self, name, root):
        super().__init__(name, root, name, 'h2o')
        (self.state / 'server.conf').write_text(f'''user: www-data
num-threads: 1
max-connections: 16384
error-log: {self.home}/error.log
listen:
  host: 127.0.0.1
  port: {self.port}
hosts:
  default:
    paths:
      "/":
        file.dir: /srv/www
''')

    def command(self):
        return ['chroot', str(self.root), '/usr/bin/h2o', '-c', f'{self.home}/server.conf']


class Apache(Chrooted):
    """Event MPM; limits raised so that it is not they that are measured."""

    def __init__(self, name, root):
        super().__init__(name, root, name, 'apache2')
        (self.state / 'server.conf').write_text(APACHE.format(home=self.home, port=self.port, modules='', more=''))

    def command(self):
        return ['chroot', str(self.root), '/usr/sbin/apache2', '-D', 'FOREGROUND', '-f', f'{self.home}/server.conf']


class Caddy(Chrooted):
    def __init__(self, name, root):
        super().__init__(name, root, name, 'caddy')
        (self.state / 'Caddyfile').write_text(f'''{{
  admin off
  auto_https off
}}
http://127.0.0.1:{self.port}, http://localhost:{self.port} {{
  bind 127.0.0.1
  root * /srv/www
  file_server
}}
''')

    def command(self):
        return ['env', f'HOME={self.home}', 'GOMAXPROCS=1', 'chroot', str(self.root), '/usr/bin/caddy', 'run', '--adapter', 'caddyfile',
                '--config', f'{self.home}/Caddyfile']


class Floor(Server):
    """The fixed answer of the given size, without parsing: what no server can beat."""

    def __init__(self, name, state, binary, size, close=False):
        super().__init__(name, state, state)
        self.binary, self.size, self.close = binary, size, close

    def command(self):
        return [str(self.binary), str(self.port), str(self.size), '1', str(int(self.close))]

"""The servers again, in front of php-fpm: one master, a pool of its own for each, so that connections which one keeps pin nobody else's workers."""
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import servers

CHILDREN = 8
OK, STUCK = '<?php echo "ok";', '<?php sleep(60); echo "ok";'
NGINX_LIKE = '''daemon off;
worker_processes 1;
user www-data;
pid {state}/pid;
error_log {state}/error.log crit;
worker_rlimit_nofile 20000;
events {{ worker_connections 16384; }}
http {{
    default_type text/html;
    keepalive_requests 100000000;
    access_log off;
    {http}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root {www};
        location ~ \\.php$ {{
            fastcgi_param SCRIPT_FILENAME {scripts}$fastcgi_script_name;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param SCRIPT_NAME $fastcgi_script_name;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param DOCUMENT_URI $document_uri;
            fastcgi_param DOCUMENT_ROOT $document_root;
            fastcgi_param SERVER_PROTOCOL $server_protocol;
            fastcgi_param REQUEST_SCHEME $scheme;
            fastcgi_param GATEWAY_INTERFACE CGI/1.1;
            fastcgi_param SERVER_SOFTWARE bench;
            fastcgi_param REMOTE_ADDR $remote_addr;
            fastcgi_param REMOTE_PORT $remote_port;
            fastcgi_param SERVER_ADDR $server_addr;
            fastcgi_param SERVER_PORT $server_port;
            fastcgi_param SERVER_NAME $server_name;
            fastcgi_param REDIRECT_STATUS 200;
            {location}
        }}
        location = /stuck.php {{
            fastcgi_param SCRIPT_FILENAME {scripts}/stuck.php;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_pass unix:{stuck};
        }}
    }}
}}
'''


class PhpFpm:
    """Debian's php-fpm of this machine with a pool of static children for each name; the kernel places them where it likes."""

    def __init__(self, state, names):
        self.state, self.names, self.process = Path(state), names, None
        self.scripts = self.state / 'scripts'
        self.remove()
        self.scripts.mkdir(parents=True)
        self.state.chmod(0o755)
        for name, text in (('ok.php', OK), ('stuck.php', STUCK)):
            (self.scripts / name).write_text(text)
        self.pools = self.state / 'pools.conf'
        self.pools.write_text(''.join(
            f'[{name.replace(" ", "-")}]\nuser = www-data\ngroup = www-data\nlisten = {self.socket(name)}\nlisten.mode = 0666\npm = static\n'
            f'pm.max_children = {CHILDREN}\n' for name in names))
        (self.state / 'fpm.conf').write_text(f'[global]\nerror_log = {self.state}/fpm.log\ndaemonize = no\ninclude = {self.pools}\n')

    def socket(self, name):
        """name: a server's, or one with " stuck" behind it: a second pool, of another site."""
        return self.state / f'{name.replace(" ", "-")}.sock'

    def binary(self):
        return sorted(Path('/usr/sbin').glob('php-fpm[0-9]*'))[-1]

    def start(self):
        self.process = subprocess.Popen([str(self.binary()), '-F', '-y', str(self.state / 'fpm.conf')], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while not all(self.socket(name).exists() for name in self.names) or len(self.pids()) <= CHILDREN * len(self.names):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError('php-fpm does not start: ' + (self.state / 'fpm.log').read_text())
            time.sleep(0.02)

    def pids(self):
        return servers.processes_of(self.process.pid)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)

    def remove(self):
        shutil.rmtree(self.state, ignore_errors=True)

    def version(self):
        return subprocess.run([str(self.binary()), '-v'], capture_output=True, text=True).stdout.split('\n')[0]


class Corehttpd(servers.Server):
    def __init__(self, name, state, www, binary, fpm):
        super().__init__(name, state, www)
        self.binary = binary
        (self.state / 'server.conf').write_text(NGINX_LIKE.format(
            state=self.state, port=self.port, www=www, scripts=fpm.scripts, http=f'fastcgi_pool_files {fpm.pools};',
            location=f'fastcgi_pass unix:{fpm.socket(name)};', stuck=fpm.socket(f'{name} stuck')))

    def command(self):
        return [str(self.binary), '-c', str(self.state / 'server.conf'), '-p', str(self.state)]

    def version(self):
        return subprocess.run([str(self.binary), '-v'], capture_output=True, text=True).stderr.strip()


class Chrooted(servers.Chrooted):
    """A peer in a root, where php-fpm's socket has a second name."""

    def __init__(self, name, root, package, fpm):
        super().__init__(name, root, name.replace(' ', '-') + '-php', package)
        self.fpm = fpm

    def relink(self):
        """After each start of php-fpm."""
        for pool, name in ((self.name, 'fpm.sock'), (f'{self.name} stuck', 'stuck.sock')):
            link = self.state / name
            link.unlink(missing_ok=True)
            if pool in self.fpm.names:
                os.link(self.fpm.socket(pool), link)

    def start(self):
        self.relink()
        super().start()


class Nginx(Chrooted):
    def __init__(self, name, root, fpm, tuned=False):
        super().__init__(name, root, 'nginx', fpm)
        http = f'upstream php {{ server unix:{self.home}/fpm.sock; keepalive {CHILDREN - 1}; }}' if tuned else ''
        location = 'fastcgi_keep_conn on; fastcgi_pass php;' if tuned else f'fastcgi_pass unix:{self.home}/fpm.sock;'
        (self.state / 'server.conf').write_text(NGINX_LIKE.format(
            state=self.home, port=self.port, www='/srv/www', scripts=fpm.scripts, http=http, location=location, stuck=f'{self.home}/stuck.sock'))

    def command(self):
        return ['chroot', str(self.root), '/usr/sbin/nginx', '-c', f'{self.home}/server.conf']


class Lighttpd(Chrooted):
    def __init__(self, name, root, fpm):
        super().__init__(name, root, 'lighttpd', fpm)
        pool = f'"socket" => "{self.home}/fpm.sock", "check-local" => "disable", "docroot" => "{fpm.scripts}"'
        (self.state / 'server.conf').write_text(servers.LIGHTTPD.format(
            home=self.home, port=self.port, more=f'server.modules = ( "mod_fastcgi" )\nfastcgi.server = ( ".php" => (( {pool} )) )\n'))

    def command(self):
        return ['chroot', str(self.root), '/usr/sbin/lighttpd', '-D', '-f', f'{self.home}/server.conf']


class Apache(Chrooted):
    def __init__(self, name, root, fpm):
        super().__init__(name, root, 'apache2', fpm)
        modules = ''.join(f'LoadModule {name}_module modules/mod_{name}.so\n' for name in ('proxy', 'proxy_fcgi'))
        (self.state / 'server.conf').write_text(servers.APACHE.format(home=self.home, port=self.port, modules=modules, more=f'''<LocationMatch "\\.php$">
  SetHandler "proxy:unix:{self.home}/fpm.sock|fcgi://localhost"
  ProxyFCGISetEnvIf "true" SCRIPT_FILENAME "{fpm.scripts}%{{reqenv:SCRIPT_NAME}}"
</LocationMatch>
'''))

    def command(self):
        return ['chroot', str(self.root), '/usr/sbin/apache2', '-D', 'FOREGROUND', '-f', f'{self.home}/server.conf']


class Caddy(Chrooted):
    def __init__(self, name, root, fpm):
        super().__init__(name, root, 'caddy', fpm)
        (self.state / 'Caddyfile').write_text(f'''{{
  admin off
  auto_https off
}}
http://127.0.0.1:{self.port}, http://localhost:{self.port} {{
  bind 127.0.0.1
  root * /srv/www
  reverse_proxy /*.php unix/{self.home}/fpm.sock {{
    transport fastcgi {{
      root {fpm.scripts}
      split .php
    }}
  }}
  file_server
}}
''')

    def command(self):
        return ['env', f'HOME={self.home}', 'GOMAXPROCS=1', 'chroot', str(self.root), '/usr/bin/caddy', 'run', '--adapter', 'caddyfile',
                '--config', f'{self.home}/Caddyfile']

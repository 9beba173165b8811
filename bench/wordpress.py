"""WordPress, uncached: PHP does nearly all of the work, so what is looked for is that nothing is lost on the way."""
import os
import shutil
import subprocess
import sys

import load
import php
import php_servers
import report
import roots
import servers
from load import BUILD, TOP
from report import BASE, US, limit

sys.path[:0] = [str(TOP / 'tests/e2e'), str(TOP / 'tests/full')]
SCENARIOS = {'wordpress': 'WordPress\'s front page, uncached, for visitors and for who is logged in, 16 connections'}
CONNECTIONS = 16
NGINX = '''daemon off;
worker_processes 1;
user www-data;
pid {state}/pid;
error_log {state}/error.log crit;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 100000000;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            {params}
            fastcgi_param SCRIPT_FILENAME {site}/index.php;
            fastcgi_param SCRIPT_NAME /index.php;
            fastcgi_param DOCUMENT_URI /index.php;
            fastcgi_param DOCUMENT_ROOT {site};
            fastcgi_pass unix:{state}/fpm.sock;
        }}
    }}
}}
'''
PARAMS = (('QUERY_STRING', '$query_string'), ('REQUEST_METHOD', '$request_method'), ('REQUEST_URI', '$request_uri'), ('SERVER_PROTOCOL', '$server_protocol'),
          ('GATEWAY_INTERFACE', 'CGI/1.1'), ('SERVER_SOFTWARE', 'bench'), ('REMOTE_ADDR', '$remote_addr'), ('SERVER_ADDR', '$server_addr'),
          ('SERVER_PORT', '$server_port'), ('SERVER_NAME', '$server_name'), ('REDIRECT_STATUS', '200'))


class Peer(php_servers.Chrooted):
    """nginx as Debian configures it for PHP."""

    def __init__(self, root, fpm, site):
        super().__init__(BASE, root, 'nginx', fpm)
        params = ' '.join(f'fastcgi_param {name} {value};' for name, value in PARAMS)
        (self.state / 'server.conf').write_text(NGINX.format(state=self.home, port=self.port, site=site, params=params))

    def command(self):
        return ['chroot', str(self.root), '/usr/sbin/nginx', '-c', f'{self.home}/server.conf']


class Ours(servers.Server):
    """The tests' server, with a port as well."""

    def __init__(self, directory, fpm):
        import applications
        import harness
        super().__init__(US, directory, directory / 'www')
        site = applications.SITE % '/index.php?$args'
        site = site.replace('listen @SOCK@;', f'listen @SOCK@; listen 127.0.0.1:{self.port};').replace('@DIR@/php.sock', str(fpm.socket(US)))
        site = site.replace('@DIR@/php.pool', str(fpm.pools))
        self.made = harness.Server(directory, 'keepalive_requests 100000000; ' + site, start=False, binary=BUILD / 'corehttpd')
        text = (directory / 'corehttpd.conf').read_text().replace(f'access_log {directory}/access.log;', 'access_log off;')
        (directory / 'corehttpd.conf').write_text(text)
        applications.put_conf(directory)

    def start(self):
        self.made.start()
        for pid in self.pids():
            os.sched_setaffinity(pid, {int(self.server_core)})

    def pids(self):
        return servers.processes_of(self.made.process.pid)

    def stop(self):
        self.made.stop()

    def version(self):
        return subprocess.run([str(BUILD / 'corehttpd'), '-v'], capture_output=True, text=True).stderr.strip()


def measure(server, fpm, seconds, cookie):
    more = ['--cookie', cookie] if cookie else []
    php.generate(server, '/', CONNECTIONS, 0.5, *more)
    pids, children = server.pids(), fpm.pids()
    cpu, worked, busy = servers.cpu_seconds(pids), servers.cpu_seconds(children), load.machine_busy()
    result = php.generate(server, '/', CONNECTIONS, seconds, *more)
    cpu, worked, busy = servers.cpu_seconds(pids) - cpu, servers.cpu_seconds(children) - worked, load.machine_busy() - busy
    pages = max(result['requests'] - result['not_200'], 1)
    return {'pages': round(pages / result['wall'], 2), 'cpu_us': round(cpu / pages * 1e6, 1), 'php_ms': round(worked / pages * 1e3, 3),
            'machine_ms': round(busy / pages * 1e3, 3), 'p50_us': result['p50_us'], 'p99_us': result['p99_us'], 'errors': result['errors']}


def run(options, manifest, write, note):
    import applications
    root = roots.make(TOP / 'build/bench/roots', 'trixie', ['nginx', 'lighttpd'])
    (root / 'bench').mkdir(exist_ok=True)
    home = root / 'bench/wordpress'
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    fpm, database, started, rows = php_servers.PhpFpm(root / 'bench/wordpress-fpm', [US, BASE]), None, [], []
    try:
        database = applications.MariaDb(home)
        fpm.start()
        ours = Ours(home / 'core', fpm)
        applications.put_wordpress(ours.made, database)
        peer = Peer(root, fpm, ours.made.root / 'site')
        for server in (ours, peer):
            server.start()
            started.append(server)
        browser = applications.Browser(ours.made, 'h1')
        applications.install_wordpress(browser)
        applications.log_in(browser)
        browser.close()
        cookies = {'visitors': '', 'logged in': '; '.join(f'{k}={v}' for k, v in browser.cookies.items())}
        for round_ in range(options.rounds):
            for server in (ours, peer) if round_ % 2 == 0 else (peer, ours):
                for who, cookie in cookies.items():
                    rows.append({'server': server.name, 'who': who, 'round': round_, **measure(server, fpm, max(options.seconds, 4), cookie)})
                    note(f'wordpress: {rows[-1]}')
        versions = {s.name: s.version() for s in started} | {'php-fpm': fpm.version()}
    finally:
        for server in started:
            server.stop()
        fpm.stop()
        fpm.remove()
        if database:
            database.stop()
        shutil.rmtree(home, ignore_errors=True)
    report_(rows, manifest(options, versions, {}, NGINX), write)


def report_(raw, about, write):
    rows = report.Rows(raw)
    body = [f'{CONNECTIONS} connections, {php_servers.CHILDREN} static children of php-fpm, Debian\'s WordPress and MariaDB, both in the same machine. "errors" are answers '
            'other than 200, and pages that are not the first one\'s bytes.', '']
    targets = []
    for who in ('visitors', 'logged in'):
        where = {'who': who}
        body += [f'## {who}', '', '| server | pages/s | × nginx | CPU µs/page | × nginx | php-fpm\'s ms/page | machine ms/page | p50 ms | p99 ms | errors |',
                 '|---' * 10 + '|']
        for name in rows.servers(**where):
            def m(key):
                return rows.median(name, key, **where)
            body.append(f'| {name} | {m("pages"):.1f} | {rows.ratio(name, "pages", **where):.2f} | {m("cpu_us"):.0f} | {rows.ratio(name, "cpu_us", **where):.2f} | '
                        f'{m("php_ms"):.1f} | {m("machine_ms"):.1f} | {m("p50_us") / 1000:.0f} | {m("p99_us") / 1000:.0f} | {rows.total(name, "errors", **where)} |')
        body.append('')
        # Parity is what is honest; a twentieth is within the rounds' scatter.
        targets.append(limit(f'WordPress, {who}: pages/s × nginx', rows.ratio(US, 'pages', **where), at_least=0.95))
    write('wordpress', raw, targets, about, body)

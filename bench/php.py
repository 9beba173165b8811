"""The scenarios with PHP: what the web server's share of a page is, and what a php-fpm that is full does to everybody else."""
import http.client
import json
import socket
import statistics
import subprocess

import load
import php_servers
import report
import roots
import servers
from load import BUILD, TOP
from plot import bar_chart
from report import BASE, US, limit

SCENARIOS = {
    'php': 'PHP "ok" through php-fpm, 1 to 1,024 connections',
    'php_full': 'other visitors while all workers of one php-fpm pool sleep and 2,000 clients wait for one',
}
TUNED = 'nginx keepalive'
CONNECTIONS = (1, 16, 64, 256, 1024)
WAITING = 2000
TEXT = '''A script that says "ok", {children} static children of php-fpm ({fpm}), a pool for each server. The web server's one worker is on core {server_core}, a
generator of one thread on core {generator_core}, php-fpm's children where the kernel puts them (on the generator's core alone they would be the limit, and the servers idle); rounds of {seconds} s each in alternating order, medians; ratios are
made within a round against nginx as Debian configures it (a connection for each request). "nginx keepalive" has a pool of {pool} connections and fastcgi_keep_conn.
Every answer's status and length are checked, every 64th one's body. Requests/s, CPU and percentiles are of answers with status 200; "longest" is how
long a client has waited, also one whose answer had not come by the round's end: with "nginx keepalive" the clients beyond its pool get none at all
while the others do not pause, and are in no percentile. At 64 connections three times the rounds.
'''


class Field:
    def __init__(self, state, fill):
        cache = TOP / 'build/bench/roots'
        self.www, self.state = state / 'www', state
        trixie = roots.make(cache, 'trixie', ['nginx', 'lighttpd'])
        others = roots.make(cache, 'trixie', ['apache2', 'caddy'], 'trixie-others')
        for root in (trixie, others):
            fill(root / 'srv/www')
            (root / 'bench').mkdir(exist_ok=True)
        fill(self.www)
        # The sockets get a second name in the roots, which must lie in the same file system.
        self.fpm = php_servers.PhpFpm(trixie / 'bench/php-fpm', [US, BASE, TUNED, 'lighttpd', 'apache', 'caddy', f'{US} stuck', f'{BASE} stuck'])
        self.ours = php_servers.Corehttpd(US, state / 'php', self.www, BUILD / 'corehttpd', self.fpm)
        self.nginx = php_servers.Nginx(BASE, trixie, self.fpm)
        self.everybody = [self.ours, self.nginx, php_servers.Nginx(TUNED, trixie, self.fpm, tuned=True), php_servers.Lighttpd('lighttpd', trixie, self.fpm),
                          php_servers.Apache('apache', others, self.fpm), php_servers.Caddy('caddy', others, self.fpm)]


def generate(server, path, connections, seconds, *more):
    out = subprocess.run(load.generator(server, path, connections, '--seconds', str(seconds), *more), capture_output=True, text=True, timeout=seconds + 120)
    return json.loads(out.stdout)


def measure(server, fpm, connections, seconds, expect):
    generate(server, '/ok.php', connections, load.WARM_UP_SECONDS)
    pids, children = server.pids(), fpm.pids()
    cpu, php, busy = servers.cpu_seconds(pids), servers.cpu_seconds(children), load.machine_busy()
    result = generate(server, '/ok.php', connections, seconds, '--expect', str(expect))
    cpu, php, busy = servers.cpu_seconds(pids) - cpu, servers.cpu_seconds(children) - php, load.machine_busy() - busy
    requests = max(result['requests'] - result['not_200'], 1)
    return {'cpu_us': round(cpu / requests * 1e6, 2), 'php_us': round(php / requests * 1e6, 2), 'machine_us': round(busy / requests * 1e6, 2),
            'rps': round(requests / result['wall'], 1), 'p50_us': result['p50_us'], 'p99_us': result['p99_us'],
            'spread': round(result['p99_us'] / max(result['p50_us'], 1), 2), 'longest_us': result['longest_us'], 'not_200': result['not_200'],
            'errors': result['errors'] - result['not_200'], 'failed_sockets': result['failed_sockets'],
            'generator_share': round(result['own_cpu'] / result['wall'], 3), 'generator_bound': result['own_cpu'] / result['wall'] > 0.9}


def right_answer(server):
    connection = http.client.HTTPConnection('127.0.0.1', server.port, timeout=10)
    connection.request('GET', '/ok.php')
    answer = connection.getresponse()
    return (answer.status, answer.read()) == (200, b'ok')


def run_php(field, options, note):
    expect = field.state / 'ok.txt'
    expect.write_text('ok')
    rows, wrong = [], {}
    for server in field.everybody:
        if not right_answer(server):
            wrong[server.name] = ['/ok.php is not answered 200 "ok"']
    for connections in CONNECTIONS:
        # The targets are of 64, and one round differs from the next by a tenth.
        for round_ in range(options.rounds * (3 if connections == 64 else 1)):
            for server in field.everybody if round_ % 2 == 0 else field.everybody[::-1]:
                rows.append({'connections': connections, 'round': round_, 'server': server.name,
                             **measure(server, field.fpm, connections, options.seconds, expect)})
        note(f'php, {connections} connections: ' + ', '.join(
            f'{s.name} {statistics.median(r["rps"] for r in rows if r["server"] == s.name and r["connections"] == connections):.0f}/s' for s in field.everybody))
    return rows, wrong


def php_table(rows, where):
    lines = ['| server | requests/s | × nginx | CPU µs/request | × nginx | php-fpm\'s µs/request | machine µs/request | p50 µs | p99 µs | p99 / p50 | longest ms '
             '| not 200 | errors | failed sockets | generator\'s CPU | |', '|---' * 16 + '|']
    for name in rows.servers(**where):
        def m(key):
            return rows.median(name, key, **where)
        lines.append(f'| {name} | {m("rps"):.0f} | {rows.ratio(name, "rps", **where):.2f} | {m("cpu_us"):.1f} | {rows.ratio(name, "cpu_us", **where):.2f} | '
                     f'{m("php_us"):.1f} | {m("machine_us"):.1f} | {m("p50_us"):.0f} | {m("p99_us"):.0f} | {m("spread"):.2f} | {m("longest_us") / 1000:.0f} | {rows.total(name, "not_200", **where)} | '
                     f'{rows.total(name, "errors", **where)} | {rows.total(name, "failed_sockets", **where)} | {100 * m("generator_share"):.0f} % | '
                     f'{"generator-bound" if any(r["generator_bound"] for r in rows.pick(name, **where)) else ""} |')
    return '\n'.join(lines)


def php_targets(rows):
    at = {'connections': 64}
    many = {'connections': 1024}
    return [limit('PHP "ok" at 64 connections, requests/s × nginx\'s default', rows.ratio(US, 'rps', **at), at_least=1.8),
            limit('PHP "ok" at 64 connections, requests/s × nginx with a pool', rows.ratio(US, 'rps', TUNED, **at), at_least=1.0),
            limit('PHP "ok" at 64 connections, CPU per request × nginx\'s default', rows.ratio(US, 'cpu_us', **at), 0.45),
            limit('PHP "ok" at 64 connections, p99 / median', rows.median(US, 'spread', **at), 3.0),
            limit('PHP "ok" at 1,024 connections: requests without a right answer', sum(
                rows.total(US, key, **many) for key in ('not_200', 'errors', 'failed_sockets')), 0, form='.0f'),
            limit('PHP "ok" at 1,024 connections, p99 × nginx\'s', rows.ratio(US, 'p99_us', **many), 1.0)]


def wait_for_php(server, count):
    """Connections that have asked for a script of the stuck pool."""
    waiting = []
    for n in range(count):
        waiting.append(socket.create_connection(('127.0.0.1', server.port), 5, (f'127.0.1.{1 + n % 64}', 0)))
        waiting[-1].sendall(b'GET /stuck.php HTTP/1.1\r\nHost: localhost\r\n\r\n')
    return waiting


def run_full(field, options, note):
    rows, seconds = [], max(options.seconds, 2)
    for round_ in range(options.rounds):
        for server in (field.ours, field.nginx) if round_ % 2 == 0 else (field.nginx, field.ours):
            for path in ('/small.html', '/ok.php'):
                generate(server, path, 16, load.WARM_UP_SECONDS)
                # The quiet run before and after, so that what changes by itself does not count.
                quiet = [generate(server, path, 16, seconds / 2)]
                waiting = wait_for_php(server, WAITING)
                generate(server, path, 16, load.WARM_UP_SECONDS)  # By its end all of them have been read.
                full = generate(server, path, 16, seconds)
                for one in waiting:
                    one.close()
                # Its children sleep on, and nginx has handed it all of the requests.
                field.fpm.stop()
                field.fpm.start()
                field.nginx.relink()
                generate(server, path, 16, load.WARM_UP_SECONDS)
                quiet.append(generate(server, path, 16, seconds / 2))
                p99 = statistics.mean(one['p99_us'] for one in quiet)
                rows.append({'server': f'{server.name}, {path}', 'round': round_, 'quiet_p50_us': statistics.mean(one['p50_us'] for one in quiet),
                             'quiet_p99_us': p99, 'full_p50_us': full['p50_us'], 'full_p99_us': full['p99_us'], 'p99_ratio': round(full['p99_us'] / p99, 3),
                             'errors': full['errors'] + sum(one['errors'] for one in quiet)})
                note(f'php_full: {rows[-1]}')
    return rows


FULL_COLUMNS = [('quiet p50 µs', 'quiet_p50_us', '.0f'), ('p50 µs', 'full_p50_us', '.0f'), ('quiet p99 µs', 'quiet_p99_us', '.0f'),
                ('p99 µs', 'full_p99_us', '.0f'), ('p99 × quiet', 'p99_ratio', '.2f'), ('errors', 'errors', '.0f')]


def run(chosen, options, state, fill, manifest, write, note):
    """Runs the scenarios of chosen and writes their results."""
    field = Field(state, fill)
    try:
        field.fpm.start()
        for server in field.everybody:
            server.start()
        versions = {s.name: s.version() for s in field.everybody} | {'php-fpm': field.fpm.version()}
        if 'php' in chosen:
            raw, wrong = run_php(field, options, note)
            rows = report.Rows(raw)
            about = manifest(options, versions, wrong, php_servers.NGINX_LIKE)
            body = [TEXT.format(children=php_servers.CHILDREN, pool=php_servers.CHILDREN - 1, fpm=versions['php-fpm'], **about)]
            for connections in CONNECTIONS:
                where, picture = {'connections': connections}, f'php-{connections}.svg'
                (TOP / 'bench/results' / picture).write_text(bar_chart(f'PHP "ok", {connections} connections: requests/s',
                                                                       [(s, rows.median(s, 'rps', **where)) for s in rows.servers(**where)]))
                body += [f'## {connections} connections', '', php_table(rows, where), '', f'![requests/s]({picture})', '']
            write('php', raw, php_targets(rows), about, body)
        if 'php_full' in chosen:
            raw = run_full(field, options, note)
            rows = report.Rows(raw)
            write('php_full', raw, [limit(f'p99 of {path} beside a pool that is stuck × quiet', rows.median(f'{US}, {path}', 'p99_ratio'), 1.2)
                                    for path in ('/small.html', '/ok.php')],
                  manifest(options, versions, {}, php_servers.NGINX_LIKE),
                  [f'16 connections ask for the small file and for PHP\'s "ok", without and with {WAITING} clients that wait for a pool whose '
                   f'{php_servers.CHILDREN} workers sleep. "ok" has a pool of its own.', '',
                   report.plain_table(rows, FULL_COLUMNS), ''])
    finally:
        for server in field.everybody:
            server.stop()
        field.fpm.stop()
        field.fpm.remove()

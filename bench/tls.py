"""The scenarios over TLS: what they run, the tables and targets that they lead to."""
import json
import subprocess
import time
from pathlib import Path

import load
import memory
import report
import roots
import servers
import tls_load
import tls_servers
from load import BUILD, SIZES, TOP
from plot import bar_chart
from report import BASE, US, limit
from tls_load import Cell

SCENARIOS = {
    'tls': 'HTTP/1.1 over TLS 1.3, small file and page, 64 connections',
    'h2': 'HTTP/2 over TLS 1.3, small file and page, 64 connections of 1 and 10 streams',
    'handshakes': 'full and resumed handshakes of TLS 1.3, ECDSA P-256 and RSA-2048',
    'tls_idle': 'memory of 10,000 idle TLS connections',
    'dear': 'other visitors while one client shakes hands with an RSA-4096 key in a loop',
}
IDLE_CONNECTIONS = 10000
OLDER = 'nginx, newer'  # The next Debian's, with its library.
TEXT = '''One worker on core {server_core}, a generator of one thread on core {generator_core}; rounds of {seconds} s each in alternating order, medians;
ratios are made within a round against nginx. All speak TLS 1.3, TLS_AES_128_GCM_SHA256, X25519 and link the same release's OpenSSL, except "nginx, newer" (the
next Debian's nginx and OpenSSL). Where a row says generator-bound, requests/s and latency are the generator's, CPU per request is not.
'''


class Field:
    """Makes the servers that these scenarios compare."""

    def __init__(self, state, fill):
        cache = TOP / 'build/bench/roots'
        self.state, self.www = state, state / 'www'
        self.root = roots.make(cache, 'bookworm', ['nginx', 'h2o', 'apache2', 'nghttp2-server'], 'bookworm-tls')
        self.newer = roots.make(cache, 'trixie', ['nginx', 'lighttpd'])
        for root in (self.root, self.newer):
            fill(root / 'srv/www')
            (root / 'bench').mkdir(exist_ok=True)
        fill(self.www)

    def ours(self, kind='ec', dear=False):
        return tls_servers.Corehttpd(US, self.state / f'tls-{kind.replace(":", "")}', self.www, BUILD / 'corehttpd', kind, dear)

    def nginx(self, kind='ec', dear=False):
        return tls_servers.Nginx(BASE, self.root, kind, dear)

    def everybody(self, kind):
        return [self.ours(kind), self.nginx(kind), tls_servers.Nginx(OLDER, self.newer, kind, library='libssl3t64'),
                tls_servers.H2o('h2o', self.root, kind), tls_servers.Apache('apache', self.root, kind),
                tls_servers.Nghttpd('nghttpd', self.root, kind)]


def cells(scenario, options):
    time_ = {'seconds': options.seconds, 'rounds': options.rounds}
    # nghttpd speaks HTTP/2 alone, and h2o gives a client that resumes no new ticket, by which this client sees that the server is done.
    full, resumed = [US, BASE, OLDER, 'h2o', 'apache'], [US, BASE, OLDER, 'apache']
    return {
        'tls': [Cell('h1', file, **time_) for file in ('small', 'page')],
        'h2': [Cell('h2', file, streams=n, **time_) for file in ('small', 'page') for n in (1, 10)],
        'handshakes': [Cell(kind, key=key, only=full if kind == 'full' else resumed, **time_)
                       for key in ('ec', 'rsa:2048') for kind in ('full', 'resumed')],
    }[scenario]


def run_loads(scenarios, field, options, note):
    """({scenario: rows}, versions, wrong answers)."""
    wanted = {s: cells(s, options) for s in scenarios}
    found, versions, wrong = {s: [] for s in scenarios}, {}, {}
    for kind in sorted({c.key for group in wanted.values() for c in group}):
        everybody = field.everybody(kind)
        try:
            for server in everybody:
                server.start()
                versions[server.name] = server.version()
                wrong[server.name] = tls_servers.check_answers(server, SIZES)
            for scenario, group in wanted.items():
                for cell in group:
                    if cell.key == kind:
                        found[scenario] += tls_load.run_cell(cell, everybody, field.www / f'{cell.file}.html', note)
        finally:
            for server in everybody:
                server.stop()
    return found, versions, {k: v for k, v in wrong.items() if v}


def load_table(rows, cell):
    where = cell.where()
    what = 'handshake' if cell.kind in ('full', 'resumed') else 'request'
    lines = [f'| server | CPU µs/{what} | × nginx | machine µs/{what} | {what}s per CPU second | {what}s/s | {"mean" if cell.kind == "h2" else "p50"} µs '
             f'| {"max" if cell.kind == "h2" else "p99"} µs | errors | generator\'s CPU | spoken | |', '|---|---|---|---|---|---|---|---|---|---|---|---|']
    for name in rows.servers(**where):
        def m(key):
            return rows.median(name, key, **where)
        picked = rows.pick(name, **where)
        bound = any(r['generator_bound'] for r in picked)
        lines.append(f'| {name} | {m("cpu_us"):.2f} | {rows.ratio(name, "cpu_us", **where):.2f} | {m("machine_us"):.2f} | {1e6 / m("cpu_us"):.0f} | '
                     f'{m("rps"):.0f} | {m("p50_us"):.0f} | {m("p99_us"):.0f} | {rows.total(name, "errors", **where)} | '
                     f'{100 * m("generator_share"):.0f} % | {picked[0]["what"]} | {"generator-bound" if bound else ""} |')
    return '\n'.join(lines)


def load_targets(rows):
    found = []
    for kind, file, streams, bound in (('h1', 'small', 1, 0.80), ('h2', 'small', 10, 0.55), ('h2', 'page', 10, 0.95)):
        where = {'kind': kind, 'file': file, 'streams': streams, 'certificate': 'ec'}
        if rows.pick(BASE, **where):
            found.append(limit(f'{"HTTP/2, 10 streams" if kind == "h2" else "HTTP/1.1 over TLS"}, {file} file at 64 connections, CPU per request × nginx',
                               rows.ratio(US, 'cpu_us', **where), bound))
    for kind in ('full', 'resumed'):
        for key, name in (('ec', 'ECDSA P-256'), ('rsa:2048', 'RSA-2048')):
            where = {'kind': kind, 'certificate': key}
            if rows.pick(BASE, **where):
                found.append(limit(f'{kind} handshakes per CPU second, {name}, × nginx', 1 / rows.ratio(US, 'cpu_us', **where), at_least=1.0))
    return found


def idle_once(server, protocol, version):
    """Bytes per connection, of a server that was started just now."""
    server.start()
    try:
        warm = tls_load.client(server, '--path', '/small.html', '--seconds', '0.3', '--connections', '64')
        subprocess.run(warm, capture_output=True, timeout=60, check=True)
        user, kernel = servers.pss_kib(server.pids()), memory.slab_objects()
        hold = tls_load.client(server, '--path', '/small.html', '--connections', str(IDLE_CONNECTIONS), '--hold', protocol, '--tls', version, '--sources', '64')
        if version == '1.2':
            hold[hold.index('--cipher') + 1] = 'ECDHE-ECDSA-AES128-GCM-SHA256'
        holder = subprocess.Popen(hold, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            held = json.loads(holder.stdout.readline())
            time.sleep(memory.IDLE_SECONDS)
            user, kernel = servers.pss_kib(server.pids()) - user, memory.grown_bytes(kernel, memory.slab_objects(), IDLE_CONNECTIONS)
        finally:
            holder.stdin.close()
            holder.wait(60)
    finally:
        server.stop()
    user *= 1024
    return {'server': server.name, 'protocol': protocol, 'version': version, 'held': held['held'], 'errors': held['errors'], 'why': held['why'],
            'user_bytes': round(user / IDLE_CONNECTIONS), 'kernel_bytes': round(kernel / IDLE_CONNECTIONS),
            'both_bytes': round((user + kernel) / IDLE_CONNECTIONS)}


def run_idle(field, rounds, note):
    chosen = [field.ours(), field.nginx(), tls_servers.Nginx(OLDER, field.newer, library='libssl3t64'), tls_servers.H2o('h2o', field.root)]
    rows = []
    for version in ('1.3', '1.2'):
        for protocol in ('http/1.1', 'h2'):
            for round_ in range(rounds):
                for server in chosen if round_ % 2 == 0 else chosen[::-1]:
                    rows.append({'round': round_, **idle_once(server, protocol, version)})
                    note(f'TLS idle: {rows[-1]}')
    return rows, {s.name: s.version() for s in chosen}


def idle_report(rows):
    """(table, targets)."""
    lines = ['| server | TLS | protocol | user, bytes | kernel, both ends, bytes | × nginx, both | held | errors |', '|---' * 8 + '|']
    targets = []
    for version in ('1.3', '1.2'):
        for protocol in ('http/1.1', 'h2'):
            where = {'protocol': protocol, 'version': version}
            for name in rows.servers(**where):
                lines.append(f'| {name} | {version} | {protocol} | {rows.median(name, "user_bytes", **where):.0f} | '
                             f'{rows.median(name, "kernel_bytes", **where):.0f} | {rows.ratio(name, "both_bytes", **where):.2f} | '
                             f'{rows.median(name, "held", **where):.0f} | {rows.total(name, "errors", **where)} |')
            targets.append(limit(f'idle connection, {protocol} over TLS {version}, user memory × nginx', rows.ratio(US, 'user_bytes', **where), 1.0))
    return '\n'.join(lines), targets


def run_dear(field, options, note):
    """p50 and p99 of 16 connections' requests for the small file: quiet, and while one client shakes hands with the RSA-4096 site in a loop."""
    rows, versions = [], {}
    chosen = [field.ours(dear=True), field.nginx(dear=True)]
    try:
        for server in chosen:
            server.start()
            versions[server.name] = server.version()
        cell = Cell('h1', 'small', connections=16, seconds=max(options.seconds, 2))
        for round_ in range(options.rounds):
            for server in chosen if round_ % 2 == 0 else chosen[::-1]:
                quiet = tls_load.run_client(server, cell, cell.seconds, field.www / 'small.html')
                nuisance = subprocess.Popen(tls_load.client(server, '--handshakes', 'full', '--connections', '1', '--sources', '64', '--name', 'dear.test',
                                                            '--seconds', str(cell.seconds + 1)), stdout=subprocess.PIPE, text=True)
                time.sleep(0.3)
                busy = tls_load.run_client(server, cell, cell.seconds, field.www / 'small.html')
                shaken = json.loads(nuisance.communicate(timeout=60)[0])
                rows.append({'server': server.name, 'round': round_, 'quiet_p50_us': quiet['p50_us'], 'busy_p50_us': busy['p50_us'],
                             'quiet_p99_us': quiet['p99_us'], 'busy_p99_us': busy['p99_us'], 'p99_ratio': round(busy['p99_us'] / quiet['p99_us'], 3),
                             'rps_ratio': round(busy['requests'] / busy['wall'] / (quiet['requests'] / quiet['wall']), 3),
                             'handshakes': shaken['requests'], 'errors': quiet['errors'] + busy['errors'] + shaken['errors']})
                note(f'dear: {rows[-1]}')
    finally:
        for server in chosen:
            server.stop()
    return rows, versions


DEAR_COLUMNS = [('quiet p50 µs', 'quiet_p50_us', '.0f'), ('p50 µs', 'busy_p50_us', '.0f'), ('quiet p99 µs', 'quiet_p99_us', '.0f'),
                ('p99 µs', 'busy_p99_us', '.0f'), ('p99 × quiet', 'p99_ratio', '.2f'), ('requests/s × quiet', 'rps_ratio', '.2f'),
                ('RSA-4096 handshakes', 'handshakes', '.0f'), ('errors', 'errors', '.0f')]


def dear_targets(rows):
    return [limit('p99 of others beside an RSA-4096 handshake loop × quiet', rows.median(US, 'p99_ratio'), 2.0)]


def run(chosen, options, state, fill, manifest, write, note):
    """Runs the scenarios of chosen and writes their results."""
    field = Field(state, fill)
    loads = [s for s in chosen if s in ('tls', 'h2', 'handshakes')]
    if loads:
        found, versions, wrong = run_loads(loads, field, options, note)
        about = manifest(options, versions, wrong, tls_servers.NGINX_LIKE)
        for scenario, raw in found.items():
            rows = report.Rows(raw)
            body = [TEXT.format(**about)]
            for cell in cells(scenario, options):
                name = '-'.join(str(part).replace(':', '') for part in (scenario, cell.file or cell.kind, cell.streams if cell.file else cell.key)) + '.svg'
                (Path(load.TOP) / 'bench/results' / name).write_text(bar_chart(
                    f'{cell.title()}: server CPU (µs)', [(s, rows.median(s, 'cpu_us', **cell.where())) for s in rows.servers(**cell.where())]))
                body += [f'## {cell.title()}', '', load_table(rows, cell), '', f'![CPU]({name})', '']
            write(scenario, raw, load_targets(rows), about, body)
    if 'tls_idle' in chosen:
        raw, versions = run_idle(field, min(options.rounds, 3), note)
        table, targets = idle_report(report.Rows(raw))
        write('tls_idle', raw, targets, manifest(options, versions, {}, tls_servers.NGINX_LIKE), [
            f'Per connection of {IDLE_CONNECTIONS}, after one request and {memory.IDLE_SECONDS} s: user is the difference in the PSS of all the server\'s processes, kernel that of ' +
            memory.KERNEL_TEXT, '', table, ''])
    if 'dear' in chosen:
        raw, versions = run_dear(field, options, note)
        rows = report.Rows(raw)
        write('dear', raw, dear_targets(rows), manifest(options, versions, {}, tls_servers.NGINX_LIKE),
              ['16 connections ask for the small file over TLS, without and with one client that shakes hands with another site, whose key is RSA-4096, without pause.'
               ' Both generators share one core.', '', report.plain_table(rows, DEAR_COLUMNS), ''])

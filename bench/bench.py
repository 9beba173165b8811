#!/usr/bin/env python3
"""Compares corehttpd with its peers side by side: CPU per request, requests per second, latency, memory, errors.

All servers run at once, each with one worker on core 0; the one-thread generator runs on core 1 and loads one server at a time, in an order
that alternates from round to round. Figures are medians over rounds; ratios are made within a round, against nginx without a log.
"""
import argparse
import http.client
import json
import os
import platform
import shutil
import statistics
import subprocess
import time
from pathlib import Path

import roots
import servers
from plot import bar_chart

TOP = Path(__file__).resolve().parents[1]
BUILD = TOP / 'build/release'
GENERATOR_CORE = '1'
SIZES = {'small': 612, 'page': 20329}
BASE = 'nginx'


def content(size, seed):
    line = f'<p>The quick brown fox {seed} jumps over the lazy dog.</p>\n'
    return (line * (size // len(line) + 1))[:size].encode()


def machine_busy():
    fields = [int(x) for x in Path('/proc/stat').read_text().splitlines()[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf('SC_CLK_TCK')


def generate(server, path, connections, seconds, expect):
    command = ['taskset', '-c', GENERATOR_CORE, str(BUILD / 'bench/load'), '--address', f'127.0.0.1:{server.port}', '--path', path,
               '--connections', str(connections), '--seconds', str(seconds)]
    if expect:
        command += ['--expect', str(expect)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    return json.loads(out.stdout)


def measure(server, path, connections, seconds, expect):
    generate(server, path, connections, 0.4, expect)  # Warm-up.
    pids = server.pids()
    cpu, busy = servers.cpu_seconds(pids), machine_busy()
    result = generate(server, path, connections, seconds, expect)
    cpu, busy = servers.cpu_seconds(pids) - cpu, machine_busy() - busy
    requests = max(result['requests'], 1)
    generator_share = result['own_cpu'] / result['wall']
    return {
        'cpu_us': cpu / requests * 1e6,
        'machine_us': busy / requests * 1e6,
        'rps': result['requests'] / result['wall'],
        'p50_us': result['p50_us'], 'p99_us': result['p99_us'],
        'errors': result['errors'], 'compared': result['compared'],
        'pss_kib': servers.pss_kib(pids),
        'server_share': cpu / result['wall'],
        'generator_share': generator_share,
        'generator_bound': generator_share > 0.97 and cpu / result['wall'] < 0.90,
    }


def check_answers(server):
    """Body, status and Date of new files and of a missing one; where no file cache is configured also that a changed file is seen."""
    connection = http.client.HTTPConnection('127.0.0.1', server.port, timeout=10)
    problems = []
    for round_ in range(2):
        name = '/fresh.html' if server.must_be_fresh else f'/fresh-{round_}.html'
        (server.www / name[1:]).write_bytes(content(700, round_))
        (server.www / name[1:]).chmod(0o644)
        connection.request('GET', name)
        response = connection.getresponse()
        body = response.read()
        if response.status != 200 or body != content(700, round_):
            problems.append(f'{name}: {response.status}, {len(body)} bytes, {"right" if body == content(700, round_) else "wrong"}')
        if not response.getheader('Date'):
            problems.append('no Date')
    connection.request('GET', '/none.html')
    response = connection.getresponse()
    response.read()
    if response.status != 404:
        problems.append(f'a missing file is answered {response.status}')
    return problems


def fill(www):
    www.mkdir(parents=True, exist_ok=True)
    www.chmod(0o755)
    for name, size in SIZES.items():
        path = www / f'{name}.html'
        path.write_bytes(content(size, 0))
        path.chmod(0o644)
        os.utime(path, (time.time() - 3600,) * 2)


def make_servers(state):
    cache = TOP / 'build/bench/roots'
    trixie = roots.make(cache, 'trixie', ['nginx', 'lighttpd'])
    bookworm = roots.make(cache, 'bookworm', ['h2o'])
    for root in (trixie, bookworm):
        fill(root / 'srv/www')
        (root / 'bench').mkdir(exist_ok=True)
    www = state / 'www'
    fill(www)
    core = BUILD / 'corehttpd'
    return [
        servers.Corehttpd('corehttpd', state / 'core', www, core, log=False, cache=True),
        servers.Corehttpd('corehttpd log', state / 'core-log', www, core, log=True, cache=True),
        servers.Corehttpd('corehttpd no open_file_cache', state / 'core-plain', www, core, log=False, cache=False),
        servers.Nginx('nginx', trixie, log=False),
        servers.Nginx('nginx-log', trixie, log=True),
        servers.Lighttpd('lighttpd', trixie),
        servers.H2o('h2o', bookworm),
    ], {name: servers.Floor('floor', state / f'floor-{name}', BUILD / 'bench/floor', size) for name, size in SIZES.items()}


def run(options, state):
    all_servers, floors = make_servers(state)
    rows, problems = [], {}
    try:
        for server in all_servers + list(floors.values()):
            server.start()
        for server in all_servers:
            problems[server.name] = check_answers(server)
        for name in options.files:
            for connections in options.connections:
                field = all_servers + [floors[name]]
                for round_ in range(options.rounds):
                    order = field if round_ % 2 == 0 else field[::-1]
                    for server in order:
                        expect = None if server.name == 'floor' else state / f'www/{name}.html'
                        result = measure(server, f'/{name}.html', connections, options.seconds, expect)
                        rows.append({'file': name, 'connections': connections, 'round': round_, 'server': server.name, **result})
                print(f'{name}, {connections} connections: ' + ', '.join(
                    f'{s.name} {median(rows, name, connections, s.name, "cpu_us"):.1f}' for s in field), flush=True)
        versions = {s.name: s.version() for s in all_servers}
    finally:
        for server in all_servers + list(floors.values()):
            server.stop()
    return rows, problems, versions


def pick(rows, file, connections, server):
    return [r for r in rows if (r['file'], r['connections'], r['server']) == (file, connections, server)]


def median(rows, file, connections, server, key):
    values = [r[key] for r in pick(rows, file, connections, server)]
    return statistics.median(values) if values else float('nan')


def ratio(rows, file, connections, server, key, base=BASE):
    pairs = zip(pick(rows, file, connections, server), pick(rows, file, connections, base))
    values = [a[key] / b[key] for a, b in pairs if b[key]]
    return statistics.median(values) if values else float('nan')


def table(rows, file, connections):
    names = list(dict.fromkeys(r['server'] for r in rows))
    lines = ['| server | CPU µs/request | × nginx | machine µs/request | × nginx | requests/s | p50 µs | p99 µs | PSS KiB | errors | |',
             '|---|---|---|---|---|---|---|---|---|---|---|']
    for name in names:
        def m(key):
            return median(rows, file, connections, name, key)
        bound = any(r['generator_bound'] for r in pick(rows, file, connections, name))
        errors = sum(r['errors'] for r in pick(rows, file, connections, name))
        lines.append(f'| {name} | {m("cpu_us"):.2f} | {ratio(rows, file, connections, name, "cpu_us"):.2f} | {m("machine_us"):.2f} | '
                     f'{ratio(rows, file, connections, name, "machine_us"):.2f} | {m("rps"):.0f} | {m("p50_us"):.0f} | {m("p99_us"):.0f} | '
                     f'{m("pss_kib"):.0f} | {errors} | {"generator-bound" if bound else ""} |')
    return '\n'.join(lines)


def write_results(options, rows, problems, versions):
    out = TOP / 'bench/results'
    out.mkdir(exist_ok=True)
    commit = subprocess.run(['git', '-C', str(TOP), 'rev-parse', '--short', 'HEAD'], capture_output=True, text=True).stdout.strip()
    manifest = {
        'commit': commit, 'kernel': platform.release(), 'machine': platform.machine(), 'cpus': os.cpu_count(), 'versions': versions,
        'rounds': options.rounds, 'seconds': options.seconds, 'server_core': servers.SERVER_CORE, 'generator_core': GENERATOR_CORE,
        'configuration': servers.NGINX_LIKE, 'answers_wrong': {k: v for k, v in problems.items() if v},
    }
    (out / 'static.json').write_text(json.dumps({'manifest': manifest, 'rows': rows}, indent=1) + '\n')
    text = ['# Static files over HTTP/1.1', '',
            f'Commit {commit}, kernel {manifest["kernel"]}; one worker on core {servers.SERVER_CORE}, a generator of one thread on core '
            f'{GENERATOR_CORE}; {options.rounds} rounds of {options.seconds} s each in alternating order; medians. Ratios are made within a round against '
            'nginx without a log. nginx and corehttpd have open_file_cache on, except the row that says otherwise; floor is a fixed answer '
            'without parsing. Where a row says generator-bound, requests/s and latency are the generator\'s, CPU per request is not.', '',
            'Versions: ' + '; '.join(f'{k}: {v}' for k, v in versions.items()), '']
    for name in options.files:
        for connections in options.connections:
            text += [f'## {name}.html ({SIZES[name]} bytes), {connections} connections', '', table(rows, name, connections), '']
            chart = [(s, median(rows, name, connections, s, 'cpu_us')) for s in dict.fromkeys(r['server'] for r in rows)]
            (out / f'static-{name}-{connections}.svg').write_text(
                bar_chart(f'{name}.html, {connections} connections: server CPU per request (µs)', chart))
            text += [f'![CPU per request](static-{name}-{connections}.svg)', '']
    if manifest['answers_wrong']:
        text += ['**Wrong answers:** ' + json.dumps(manifest['answers_wrong']), '']
    (out / 'static.md').write_text('\n'.join(text))
    print(f'results: {out / "static.md"}')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rounds', type=int, default=int(os.environ.get('ROUNDS', 5)))
    parser.add_argument('--seconds', type=float, default=float(os.environ.get('SECONDS_EACH', 2)))
    parser.add_argument('--connections', type=int, nargs='*', default=[1, 64, 1024])
    parser.add_argument('--files', nargs='*', default=list(SIZES))
    options = parser.parse_args()
    state = Path('/tmp') / f'corehttpd-bench-{os.getpid()}'
    state.mkdir(mode=0o755)
    try:
        rows, problems, versions = run(options, state)
    finally:
        shutil.rmtree(state, ignore_errors=True)
    write_results(options, rows, problems, versions)


if __name__ == '__main__':
    main()

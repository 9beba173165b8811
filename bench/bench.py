#!/usr/bin/env python3
"""Compares corehttpd with its peers side by side: CPU per request, requests per second, latency, memory, errors.

All servers of a scenario run at once, each with one worker on core 0; the one-thread generator runs on core 1 and loads one server at a
time, in an order that alternates from round to round. Figures are medians over rounds; ratios are made within a round, against nginx
without a log. Run it with "nice -n -15" on a machine that others use.
"""
import argparse
import json
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path

import load
import memory
import php
import report
import roots
import servers
import shipped
import tls
import wordpress
from load import BUILD, SIZES, TOP, Cell
from plot import bar_chart

RESULTS = TOP / 'bench/results'
SCENARIOS = {
    'static': 'small file and page, 1 to 1,024 connections',
    'large': 'a file of 1 MB, 16 connections',
    'close': 'a connection for each request',
    'many': '10,000 connections, all active',
    'log': 'with and without the access log',
    'idle': 'memory of 10,000 idle keep-alive connections',
    'rest': 'memory at rest, two workers, as shipped',
    'crowd': '3,000 visitors who click every 10 s, a newcomer every half second, as shipped',
    **tls.SCENARIOS,
    **php.SCENARIOS,
    **wordpress.SCENARIOS,
}


def note(text):
    print(text, flush=True)


def cells(scenario, options):
    seconds, rounds = options.seconds, options.rounds
    quick = ['corehttpd', 'corehttpd log', 'nginx', 'nginx-log', 'lighttpd', 'h2o']  # Others do not get through it in the time.
    return {
        'static': [Cell(file, n, seconds, rounds) for file in ('small', 'page') for n in (1, 16, 64, 256, 1024)],
        'large': [Cell('large', 16, seconds, rounds)],
        'close': [Cell('small', 64, seconds, rounds, close=True)],
        'many': [Cell('small', 10000, max(seconds, 2.5), min(rounds, 3), only=quick)],
        'log': [Cell('small', 64, seconds, rounds * 3, only=['corehttpd', 'corehttpd log'])],
    }[scenario]


def fill(www):
    www.mkdir(parents=True, exist_ok=True)
    www.chmod(0o755)
    for name, size in SIZES.items():
        path = www / f'{name}.html'
        path.write_bytes(load.content(size, 0))
        path.chmod(0o644)
        os.utime(path, (time.time() - 3600,) * 2)


class Field:
    """Makes the servers that a scenario compares."""

    def __init__(self, state):
        cache = TOP / 'build/bench/roots'
        self.state, self.www = state, state / 'www'
        self.trixie = roots.make(cache, 'trixie', ['nginx', 'lighttpd'])
        self.others = roots.make(cache, 'trixie', ['apache2', 'caddy'], 'trixie-others')
        self.bookworm = roots.make(cache, 'bookworm', ['h2o'])
        for root in (self.trixie, self.others, self.bookworm):
            fill(root / 'srv/www')
            (root / 'bench').mkdir(exist_ok=True)
        fill(self.www)

    def ours(self, name, log=False, cache=True):
        return servers.Corehttpd(name, self.state / name.replace(' ', '-'), self.www, BUILD / 'corehttpd', log=log, cache=cache)

    def loaded(self):
        return [self.ours('corehttpd'), self.ours('corehttpd log', log=True), self.ours('corehttpd no open_file_cache', cache=False),
                servers.Nginx('nginx', self.trixie, log=False), servers.Nginx('nginx-log', self.trixie, log=True),
                servers.Lighttpd('lighttpd', self.trixie), servers.H2o('h2o', self.bookworm), servers.Apache('apache', self.others),
                servers.Caddy('caddy', self.others)]

    def floors(self):
        """By the file's name and whether each request has a connection of its own."""
        return {(name, close): servers.Floor('floor', self.state / f'floor-{name}-{close}', BUILD / 'bench/floor', size, close)
                for name, size in SIZES.items() for close in (False, True)}

    def shipped(self):
        return [shipped.Corehttpd('corehttpd', TOP, BUILD / 'corehttpd', self.state / 'shipped'),
                shipped.Nginx('nginx', self.trixie, self.state / 'nginx-shipped'),
                shipped.Apache('apache', self.others, self.state / 'apache-shipped')]


def run_loads(scenarios, field, options, state):
    """The scenarios that load running servers share these."""
    everybody, floors = field.loaded(), field.floors()
    found = {}
    try:
        for server in everybody + list(floors.values()):
            server.start()
        wrong = {server.name: load.check_answers(server) for server in everybody}
        for scenario in scenarios:
            rows = []
            for cell in cells(scenario, options):
                floor = [] if cell.file == 'large' else [floors[cell.file, cell.close]]
                rows += load.run_cell(cell, everybody + floor, state, note)
            found[scenario] = rows
        versions = {s.name: s.version() for s in everybody}
    finally:
        for server in everybody + list(floors.values()):
            server.stop()
    return found, versions, {k: v for k, v in wrong.items() if v}


def manifest(options, versions, wrong, configuration):
    commit = subprocess.run(['git', '-C', str(TOP), 'rev-parse', '--short', 'HEAD'], capture_output=True, text=True).stdout.strip()
    changed = subprocess.run(['git', '-C', str(TOP), 'status', '--porcelain', '-uno', 'src', 'include', 'conf'], capture_output=True, text=True).stdout
    cache = (BUILD / 'CMakeCache.txt').read_text().splitlines()
    kept = ('CMAKE_BUILD_TYPE', 'CORE_LTO', 'CMAKE_CXX_FLAGS', 'CMAKE_CXX_FLAGS_RELEASE', 'CMAKE_CXX_FLAGS_RELWITHDEBINFO', 'CMAKE_CXX_COMPILER')
    cpu = next((line.split(':')[1].strip() for line in Path('/proc/cpuinfo').read_text().splitlines() if line.startswith('model name')), '')
    return {
        'commit': commit + ('+' if changed else ''), 'kernel': platform.release(), 'machine': platform.machine(), 'cpu': cpu,
        'cpus': os.cpu_count(), 'load_average': os.getloadavg()[0], 'nice': os.nice(0), 'versions': versions,
        'flags': {line.split(':')[0]: line.split('=', 1)[1] for line in cache if line.split(':')[0] in kept}, 'rounds': options.rounds,
        'seconds': options.seconds, 'server_core': servers.SERVER_CORE, 'generator_core': load.GENERATOR_CORE,
        'configuration': configuration, 'answers_wrong': wrong,
    }


def heading(scenario, about):
    wrong = ['', '**Wrong answers:** ' + json.dumps(about['answers_wrong'])] if about['answers_wrong'] else []
    return [f'# {SCENARIOS[scenario][0].upper()}{SCENARIOS[scenario][1:]}', '',
            f'Commit {about["commit"]}, kernel {about["kernel"]}, {about["cpu"]}, {about["cpus"]} CPUs, load average {about["load_average"]:.1f} at the '
            f'end, nice {about["nice"]}. Versions: ' + '; '.join(f'{k}: {v}' for k, v in about['versions'].items()) + '.', *wrong, '']


LOAD_TEXT = '''One worker on core {server_core}, a generator of one thread on core {generator_core}; rounds of {seconds} s each in alternating order, medians;
ratios are made within a round against nginx without a log. nginx and corehttpd have open_file_cache on, except the row that says otherwise;
floor is a fixed answer without parsing. Where a row says generator-bound, requests/s and latency are the generator's, CPU per request is not.
'''


def write(scenario, rows, targets, about, body):
    RESULTS.mkdir(exist_ok=True)
    lines = ',\n'.join(json.dumps(r) for r in rows)
    (RESULTS / f'{scenario}.json').write_text(
        '{"manifest": ' + json.dumps(about, indent=1) + ',\n"targets": ' + json.dumps(targets, indent=1, ensure_ascii=False) + ',\n"rows": [\n' +
        lines + '\n]}\n')
    text = heading(scenario, about) + body
    if targets:
        text += ['## Targets', '', report.target_table(targets), '']
    (RESULTS / f'{scenario}.md').write_text('\n'.join(text))
    report.write_all_targets(RESULTS)
    note(f'results: {RESULTS / scenario}.md')


def write_load(scenario, raw, about, options):
    rows = report.Rows(raw)
    body = [LOAD_TEXT.format(**about)]
    for cell in cells(scenario, options):
        where = {'file': cell.file, 'connections': cell.connections, 'close': cell.close}
        body += [f'## {cell.title()}', '', report.load_table(rows, cell), '']
        picture = f'{scenario}-{cell.file}-{cell.connections}.svg'
        (RESULTS / picture).write_text(bar_chart(f'{cell.title()}: server CPU per request (µs)',
                                                 [(s, rows.median(s, 'cpu_us', **where)) for s in rows.servers(**where)]))
        body += [f'![CPU per request]({picture})', '']
    targets = report.log_targets(rows) if scenario == 'log' else report.load_targets(rows)
    write(scenario, raw, targets, about, body)


def run_idle(field, options):
    chosen = [field.ours('corehttpd'), servers.Nginx('nginx', field.trixie, log=False)]
    raw = memory.idle(chosen, 10000, min(options.rounds, 3), note)
    columns = [('user, bytes', 'user_bytes', '.0f'), ('kernel, both ends, bytes', 'kernel_bytes', '.0f'), ('held', 'held', '.0f'), ('errors', 'errors', '.0f')]
    rows = report.Rows(raw)
    about = manifest(options, {s.name: s.version() for s in chosen}, {}, servers.NGINX_LIKE)
    write('idle', raw, report.idle_targets(rows), about, [
        f'Per connection, after one request and {memory.IDLE_SECONDS} s: user is the difference in the PSS of all the server\'s processes, kernel that of ' +
        memory.KERNEL_TEXT, '', report.plain_table(rows, columns), ''])


def run_rest(field, options):
    chosen = field.shipped()
    raw = memory.rest(chosen, note)
    rows = report.Rows(raw)
    about = manifest(options, {s.name: s.version() for s in chosen}, {}, 'as shipped')
    write('rest', raw, report.rest_targets(rows), about, [report.plain_table(rows, [('processes', 'processes', '.0f'), ('PSS KiB', 'pss_kib', '.0f')]), ''])


def run_crowd(field, options):
    # Without Apache: its 150 workers let the crowd in for minutes.
    chosen = [s for s in field.shipped() if s.name != 'apache']
    raw = memory.crowd(chosen, 3000, options.crowd_seconds, options.crowd_rounds, note)
    rows = report.Rows(raw)
    about = manifest(options, {s.name: s.version() for s in chosen}, {}, 'as shipped')
    columns = [('newcomers', 'newcomers', '.0f'), ('without an answer', 'newcomers_failed', '.0f'), ('median µs', 'median_us', '.0f'), ('p90 µs', 'p90_us', '.0f'),
               ('worst µs', 'worst_us', '.0f'), ('clicks', 'clicks', '.0f'), ('visitors without an answer', 'visitors_failed', '.0f'),
               ('connections made anew', 'reopened', '.0f'), ('server CPU s', 'server_cpu', '.2f'), ('PSS KiB', 'pss_kib', '.0f')]
    write('crowd', raw, report.crowd_targets(rows), about, [
        'Configurations untouched, logs on, nothing pinned. Worst is of the worst round for the target, the median of rounds in the table.', '',
        report.plain_table(rows, columns), ''])


def main():
    parser = argparse.ArgumentParser(description=__doc__, epilog='Scenarios: ' + '; '.join(f'{k}: {v}' for k, v in SCENARIOS.items()))
    parser.add_argument('scenarios', nargs='*', default=os.environ.get('SCENARIO', '').split() or list(SCENARIOS))
    parser.add_argument('--rounds', type=int, default=int(os.environ.get('ROUNDS', 5)))
    parser.add_argument('--seconds', type=float, default=float(os.environ.get('SECONDS_EACH', 1)))
    parser.add_argument('--crowd-seconds', type=int, default=30)
    parser.add_argument('--crowd-rounds', type=int, default=1)
    options = parser.parse_args()
    unknown = set(options.scenarios) - set(SCENARIOS)
    if unknown:
        parser.error(f'no such scenario: {", ".join(sorted(unknown))}; there are {", ".join(SCENARIOS)}')
    state = Path('/tmp') / f'corehttpd-bench-{os.getpid()}'
    state.mkdir(mode=0o755)
    try:
        over_tls = [s for s in tls.SCENARIOS if s in options.scenarios]
        with_php = [s for s in php.SCENARIOS if s in options.scenarios]
        clear = [s for s in SCENARIOS if s in options.scenarios and s not in over_tls + with_php + list(wordpress.SCENARIOS)]
        field = Field(state) if clear else None
        loads = [s for s in clear if s not in ('idle', 'rest', 'crowd')]
        if loads:
            found, versions, wrong = run_loads(loads, field, options, state)
            about = manifest(options, versions, wrong, servers.NGINX_LIKE)
            for scenario, raw in found.items():
                write_load(scenario, raw, about, options)
        for scenario, run in (('idle', run_idle), ('rest', run_rest), ('crowd', run_crowd)):
            if scenario in options.scenarios:
                run(field, options)
                shutil.rmtree(state / 'shipped', ignore_errors=True)
        if over_tls:
            tls.run(over_tls, options, state, fill, manifest, write, note)
        if with_php:
            php.run(with_php, options, state, fill, manifest, write, note)
        if 'wordpress' in options.scenarios:
            wordpress.run(options, manifest, write, note)
    finally:
        shutil.rmtree(state, ignore_errors=True)


if __name__ == '__main__':
    main()

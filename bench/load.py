"""Runs the generator against one server and says what that cost."""
import http.client
import json
import os
import statistics
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import servers

TOP = Path(__file__).resolve().parents[1]
BUILD = TOP / 'build/release'
GENERATOR_CORE = '1'
SIZES = {'small': 612, 'page': 20329, 'large': 1 << 20}
WARM_UP_SECONDS = 0.3


@dataclass
class Cell:
    """One point of the comparison: what is asked for, over how many connections, of whom."""
    file: str
    connections: int
    seconds: float
    rounds: int
    close: bool = False
    only: list = field(default_factory=list)  # Names of servers; none: all of them.

    def title(self):
        kind = ', a connection for each request' if self.close else ''
        return f'{self.file}.html ({SIZES[self.file]} bytes), {self.connections} connections{kind}'


def content(size, seed):
    line = f'<p>The quick brown fox {seed} jumps over the lazy dog.</p>\n'
    return (line * (size // len(line) + 1))[:size].encode()


def machine_busy():
    fields = [int(x) for x in Path('/proc/stat').read_text().splitlines()[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf('SC_CLK_TCK')


def generator(server, path, connections, *more):
    return server.inside(['taskset', '-c', GENERATOR_CORE, str(BUILD / 'bench/load'), '--address', f'127.0.0.1:{server.port}', '--path', path,
                          '--connections', str(connections), *more])


def generate(server, cell, seconds, expect):
    more = ['--seconds', str(seconds)]
    if expect:
        more += ['--expect', str(expect)]
    if cell.close:
        more += ['--close', '--sources', '64']
    elif cell.connections > 4096:
        more += ['--sources', '64']
    out = subprocess.run(generator(server, f'/{cell.file}.html', cell.connections, *more), capture_output=True, text=True,
                         timeout=seconds + 120)
    return json.loads(out.stdout)


def measure(server, cell, expect):
    if cell.connections <= 4096:
        generate(server, cell, WARM_UP_SECONDS, expect)
    pids = server.pids()
    cpu, busy = servers.cpu_seconds(pids), machine_busy()
    result = generate(server, cell, cell.seconds, expect)
    cpu, busy = servers.cpu_seconds(pids) - cpu, machine_busy() - busy
    requests = max(result['requests'], 1)
    generator_share, server_share = result['own_cpu'] / result['wall'], cpu / result['wall']
    return {
        'cpu_us': round(cpu / requests * 1e6, 3), 'machine_us': round(busy / requests * 1e6, 3),
        'rps': round(result['requests'] / result['wall'], 1), 'p50_us': result['p50_us'], 'p99_us': result['p99_us'],
        'errors': result['errors'], 'failed_sockets': result['failed_sockets'], 'compared': result['compared'],
        'pss_kib': servers.pss_kib(pids), 'server_share': round(server_share, 3), 'generator_share': round(generator_share, 3),
        'generator_bound': generator_share > 0.97 and server_share < 0.90,
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
        if not response.getheader('Date') and not isinstance(server, servers.Caddy):
            problems.append('no Date')
    connection.request('GET', '/none.html')
    response = connection.getresponse()
    response.read()
    if response.status != 404:
        problems.append(f'a missing file is answered {response.status}')
    return problems


def run_cell(cell, field_, state, note):
    """Loads one server after the other, in an order that alternates from round to round."""
    chosen = [s for s in field_ if not cell.only or s.name in cell.only]
    rows = []
    for round_ in range(cell.rounds):
        for server in chosen if round_ % 2 == 0 else chosen[::-1]:
            expect = None if server.name == 'floor' else state / f'www/{cell.file}.html'
            rows.append({'file': cell.file, 'connections': cell.connections, 'close': cell.close, 'round': round_, 'server': server.name,
                         **measure(server, cell, expect)})
    note(f'{cell.title()}: ' + ', '.join(
        f'{s.name} {statistics.median(r["cpu_us"] for r in rows if r["server"] == s.name):.1f}' for s in chosen))
    return rows

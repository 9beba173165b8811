"""Loads over TLS: HTTP/1.1 and handshakes by tls_load, HTTP/2 by h2load. What each costs the server is its CPU time over what was answered."""
import json
import os
import re
import statistics
import subprocess
from dataclasses import dataclass, field

import load
import servers
import tls_servers
from load import BUILD, GENERATOR_CORE, SIZES

CIPHER = 'TLS_AES_128_GCM_SHA256'


@dataclass
class Cell:
    """One point. kind: 'h1', 'h2', 'full' or 'resumed' (handshakes); the latter two have key instead of a file."""
    kind: str
    file: str = ''
    connections: int = 64
    streams: int = 1
    key: str = 'ec'
    seconds: float = 1
    rounds: int = 5
    only: list = field(default_factory=list)

    def title(self):
        if self.kind in ('full', 'resumed'):
            return f'{self.kind} handshakes, {"ECDSA P-256" if self.key == "ec" else "RSA-2048"}, {self.connections} at a time'
        streams = f', {self.streams} stream{"s"[:self.streams > 1]} each' if self.kind == 'h2' else ''
        return f'{"HTTP/2" if self.kind == "h2" else "HTTP/1.1"} over TLS, {self.file}.html ({SIZES[self.file]} bytes), {self.connections} connections{streams}'

    def where(self):
        return {'kind': self.kind, 'file': self.file, 'streams': self.streams, 'certificate': self.key}


def client(server, *more):
    return ['taskset', '-c', GENERATOR_CORE, str(BUILD / 'bench/tls_load'), '--address', f'127.0.0.1:{server.port}', '--cipher', CIPHER, *more]


def run_client(server, cell, seconds, expect):
    more = ['--connections', str(cell.connections), '--seconds', str(seconds)]
    if cell.kind == 'h1':
        more += ['--path', f'/{cell.file}.html', '--expect', str(expect)]
    else:
        more += ['--handshakes', cell.kind, '--sources', '64']
    out = subprocess.run(client(server, *more), capture_output=True, text=True, timeout=seconds + 60)
    return json.loads(out.stdout)


def number(pattern, text, what=float):
    match = re.search(pattern, text)
    return what(match.group(1)) if match else what(0)


def in_us(text):
    value, unit = re.fullmatch(r'([\d.]+)(us|ms|s)', text).groups()
    return float(value) * {'us': 1, 'ms': 1e3, 's': 1e6}[unit]


def run_h2load(server, cell, count):
    """count requests; every response's status is counted by h2load, and the sum of all bodies must be right."""
    command = ['taskset', '-c', GENERATOR_CORE, 'h2load', '-t', '1', '-c', str(cell.connections), '-m', str(cell.streams), '-n', str(count),
               '--npn-list=h2', f'--tls13-ciphers={CIPHER}', f'https://127.0.0.1:{server.port}/{cell.file}.html']
    before = os.times()
    out = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
    after = os.times()
    done, wall = number(r'(\d+) succeeded', out, int), in_us(re.search(r'finished in ([\d.]+\w+),', out).group(1)) / 1e6
    body = number(r'\((\d+)\) data', out, int)
    errors = count - done + (count - number(r'status codes: (\d+) 2xx', out, int)) + (body != count * SIZES[cell.file])
    times = re.search(r'time for request: +(\S+) +(\S+) +(\S+)', out)
    what = ' '.join(re.findall(r'(?:TLS Protocol|Cipher): (\S+)', out))
    if 'Application protocol: h2' not in out:
        errors += 1
    return {'requests': done, 'errors': errors, 'failed_sockets': 0, 'compared': 0, 'wall': wall, 'what': what,
            'own_cpu': after.children_user + after.children_system - before.children_user - before.children_system,
            'p50_us': in_us(times.group(3)), 'p99_us': in_us(times.group(2))}


def measure(server, cell, expect):
    pids = server.pids()
    if cell.kind == 'h2':
        trial = run_h2load(server, cell, cell.connections * 100)
        count = max(round(trial['requests'] / trial['wall'] * cell.seconds / cell.connections), 10) * cell.connections

        def run():
            return run_h2load(server, cell, count)
    else:
        run_client(server, cell, 0.3, expect)

        def run():
            return run_client(server, cell, cell.seconds, expect)
    cpu, busy = servers.cpu_seconds(pids), load.machine_busy()
    result = run()
    cpu, busy = servers.cpu_seconds(pids) - cpu, load.machine_busy() - busy
    requests = max(result['requests'], 1)
    generator_share, server_share = result['own_cpu'] / result['wall'], cpu / result['wall']
    return {
        'cpu_us': round(cpu / requests * 1e6, 3), 'machine_us': round(busy / requests * 1e6, 3),
        'rps': round(result['requests'] / result['wall'], 1), 'p50_us': result['p50_us'], 'p99_us': result['p99_us'],
        'errors': result['errors'], 'failed_sockets': 0, 'why': result.get('why', ''), 'resumed': result.get('resumed', 0),
        'what': result['what'], 'pss_kib': servers.pss_kib(pids), 'server_share': round(server_share, 3),
        'generator_share': round(generator_share, 3), 'generator_bound': generator_share > 0.97 and server_share < 0.90,
    }


def run_cell(cell, everybody, expect, note):
    """Loads one server after the other, in an order that alternates from round to round."""
    chosen = [s for s in everybody if (not cell.only or s.name in cell.only) and not (
        cell.kind == 'h1' and isinstance(s, tls_servers.Nghttpd))]
    rows = []
    for round_ in range(cell.rounds):
        for server in chosen if round_ % 2 == 0 else chosen[::-1]:
            rows.append({**cell.where(), 'connections': cell.connections, 'round': round_, 'server': server.name,
                         **measure(server, cell, expect)})
    note(f'{cell.title()}: ' + ', '.join(
        f'{s.name} {statistics.median(r["cpu_us"] for r in rows if r["server"] == s.name):.1f}' for s in chosen))
    return rows

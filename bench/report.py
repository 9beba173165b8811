"""Tables, ratios and targets from measured rows."""
import json
import statistics

BASE = 'nginx'
US = 'corehttpd'


class Rows:
    """The rows of a scenario; ratios are made within a round."""

    def __init__(self, rows):
        self.rows = rows

    def pick(self, server, **where):
        return [r for r in self.rows if r['server'] == server and all(r.get(k) == v for k, v in where.items())]

    def median(self, server, key, **where):
        values = [r[key] for r in self.pick(server, **where)]
        return statistics.median(values) if values else float('nan')

    def worst(self, server, key, **where):
        return max((r[key] for r in self.pick(server, **where)), default=float('nan'))

    def total(self, server, key, **where):
        return sum(r[key] for r in self.pick(server, **where))

    def ratio(self, server, key, base=BASE, **where):
        bases = {r['round']: r[key] for r in self.pick(base, **where)}
        values = [r[key] / bases[r['round']] for r in self.pick(server, **where) if bases.get(r['round'])]
        return statistics.median(values) if values else float('nan')

    def servers(self, **where):
        return list(dict.fromkeys(r['server'] for r in self.rows if all(r.get(k) == v for k, v in where.items())))


def load_table(rows, cell):
    where = {'file': cell.file, 'connections': cell.connections, 'close': cell.close}
    lines = ['| server | CPU µs/request | × nginx | machine µs/request | × nginx | requests/s | p50 µs | p99 µs | PSS KiB | errors | failed sockets '
             '| generator\'s CPU | |', '|---|---|---|---|---|---|---|---|---|---|---|---|---|']
    for name in rows.servers(**where):
        def m(key):
            return rows.median(name, key, **where)
        bound = any(r['generator_bound'] for r in rows.pick(name, **where))
        lines.append(f'| {name} | {m("cpu_us"):.2f} | {rows.ratio(name, "cpu_us", **where):.2f} | {m("machine_us"):.2f} | '
                     f'{rows.ratio(name, "machine_us", **where):.2f} | {m("rps"):.0f} | {m("p50_us"):.0f} | {m("p99_us"):.0f} | '
                     f'{m("pss_kib"):.0f} | {rows.total(name, "errors", **where)} | {rows.total(name, "failed_sockets", **where)} | '
                     f'{100 * m("generator_share"):.0f} % | {"generator-bound" if bound else ""} |')
    return '\n'.join(lines)


def plain_table(rows, columns):
    """columns: (heading, key, format) of medians."""
    lines = ['| server | ' + ' | '.join(c[0] for c in columns) + ' |', '|---' * (len(columns) + 1) + '|']
    for name in rows.servers():
        lines.append(f'| {name} | ' + ' | '.join(format(rows.median(name, key), form) for _, key, form in columns) + ' |')
    return '\n'.join(lines)


def limit(what, value, at_most=None, at_least=None, form='.2f'):
    """One target; met is None where nothing was measured."""
    met = None if value != value else value <= at_most if at_most is not None else value >= at_least
    sign, bound = ('≤', at_most) if at_most is not None else ('≥', at_least)
    return {'what': what, 'target': f'{sign} {format(bound, form)}', 'measured': format(value, form), 'met': met}


def load_targets(rows):
    """Those targets that the rows say something about."""
    found = []
    for file, base, bound in (('small', BASE, 0.60), ('small', 'lighttpd', 0.85), ('small', 'floor', 1.35), ('page', 'floor', 1.20),
                              ('page', BASE, 0.90)):
        where = {'file': file, 'connections': 64, 'close': False}
        if rows.pick(base, **where):
            found.append(limit(f'{file} file at 64 connections, CPU per request × {base}', rows.ratio(US, 'cpu_us', base, **where), bound))
    where = {'file': 'small', 'connections': 64}
    if rows.pick(BASE, close=True, **where):
        found.append(limit('without keep-alive, CPU per request × nginx', rows.ratio(US, 'cpu_us', close=True, **where), 0.90))
    points = {r['connections'] for r in rows.rows if r['file'] == 'small' and not r['close']}
    if {64, 1024} <= points:
        best = max(rows.median(US, 'rps', file='small', connections=c, close=False) for c in points if c <= 1024)
        found.append(limit('requests/s at 1,024 connections / at the best point',
                           rows.median(US, 'rps', file='small', connections=1024, close=False) / best, at_least=0.95))
    if 10000 in points:
        many = {'file': 'small', 'connections': 10000}
        found.append(limit('10,000 connections: failed sockets', rows.total(US, 'failed_sockets', **many), 0, form='.0f'))
        found.append(limit('10,000 connections: p99 × nginx', rows.ratio(US, 'p99_us', **many), 1.0))
    return found


def log_targets(rows):
    return [limit('the log, CPU per request × without', rows.ratio('corehttpd log', 'cpu_us', US, file='small', connections=64), 1.08)]


def idle_targets(rows):
    def both(name):
        return rows.median(name, 'user_bytes') + rows.median(name, 'kernel_bytes')
    return [limit('idle connection, user memory in bytes', rows.median(US, 'user_bytes'), 400, form='.0f'),
            limit('idle connection, user and kernel memory × nginx', both(US) / both(BASE), 1.0)]


def rest_targets(rows):
    return [limit('at rest with two workers, MiB', rows.median(US, 'pss_kib') / 1024, 12)]


def crowd_targets(rows):
    return [limit('crowd of 3,000: newcomer\'s wait, median in ms', rows.median(US, 'median_us') / 1000, 1),
            limit('crowd of 3,000: newcomer\'s wait, worst in ms', rows.worst(US, 'worst_us') / 1000, 5),
            limit('crowd of 3,000: newcomers and visitors without an answer',
                  rows.total(US, 'newcomers_failed') + rows.total(US, 'visitors_failed'), 0, form='.0f')]


def target_table(targets):
    lines = ['| what | target | measured | |', '|---|---|---|---|']
    for t in targets:
        lines.append(f'| {t["what"]} | {t["target"]} | {t["measured"]} | {"met" if t["met"] else "?" if t["met"] is None else "**missed**"} |')
    return '\n'.join(lines)


def write_all_targets(out):
    """One page over all scenarios that have been run, each with the commit that it ran at."""
    text = ['# Targets', '', 'From the latest run of each scenario; `make bench SCENARIO="close idle"` repeats some.', '']
    for path in sorted(out.glob('*.json')):
        data = json.loads(path.read_text())
        if data.get('targets'):
            text += [f'## {path.stem} (commit {data["manifest"]["commit"]})', '', target_table(data['targets']), '']
    (out / 'targets.md').write_text('\n'.join(text))

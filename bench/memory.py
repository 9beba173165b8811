"""Memory: of idle keep-alive connections, in user space and in the kernel, and at rest."""
import json
import subprocess
import time
from pathlib import Path

import load
import servers

KERNEL_TEXT = 'the objects of each kind of which every connection has one at least, the generator\'s end among them, which is the same for all.'
IDLE_SECONDS = 12  # A connection counts as idle after ten.


def slab_objects():
    """What the kernel holds: how many of each kind, and their size. Both ends of a connection are in it, so only differences between servers say something."""
    # Names and inodes that other programs have used come and go; those of open sockets stay.
    Path('/proc/sys/vm/drop_caches').write_text('2')
    time.sleep(1.5)  # Objects of closed sockets are freed after a grace period.
    rows = [line.split() for line in Path('/proc/slabinfo').read_text().splitlines()[2:]]
    return {row[0]: (int(row[1]), int(row[3])) for row in rows}


def grown_bytes(before, after, connections):
    """Of the kinds of which each connection has at least one on one side: what else came meanwhile is other programs'."""
    grown = {kind: (count - before.get(kind, (0, 0))[0], size) for kind, (count, size) in after.items()}
    return sum(count * size for count, size in grown.values() if count > connections * 0.8)


def idle_once(server, connections):
    """Bytes per connection, of a server that was started just now."""
    server.start()
    try:
        load.generate(server, load.Cell('small', 64, 0.3, 1), 0.3, None)
        user, kernel = servers.pss_kib(server.pids()), slab_objects()
        holder = subprocess.Popen(load.generator(server, '/small.html', connections, '--hold', '--sources', '64'),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            held = json.loads(holder.stdout.readline())
            time.sleep(IDLE_SECONDS)
            user, kernel = servers.pss_kib(server.pids()) - user, grown_bytes(kernel, slab_objects(), connections)
        finally:
            holder.stdin.close()
            holder.wait(30)
    finally:
        server.stop()
    return {'server': server.name, 'connections': connections, 'held': held['held'], 'errors': held['errors'],
            'user_bytes': round(user * 1024 / connections), 'kernel_bytes': round(kernel / connections)}


def idle(chosen, connections, rounds, note):
    rows = []
    for round_ in range(rounds):
        for server in chosen if round_ % 2 == 0 else chosen[::-1]:
            rows.append({'round': round_, **idle_once(server, connections)})
            note(f'idle: {rows[-1]}')
    return rows


def rest(chosen, note):
    """PSS of all processes of a server with the configuration that it is shipped with, two workers, after a first answer."""
    rows = []
    for server in chosen:
        server.start()
        try:
            subprocess.run(load.generator(server, '/', 1, '--seconds', '0.1'), capture_output=True, timeout=60, check=True)
            pids = server.pids()
            rows.append({'server': server.name, 'processes': len(pids), 'pss_kib': servers.pss_kib(pids)})
            note(f'at rest: {rows[-1]}')
        finally:
            server.stop()
    return rows


def crowd(chosen, visitors, seconds, rounds, note):
    """Each server as it is shipped; the crowd clicks for ten seconds before newcomers are counted."""
    rows = []
    for round_ in range(rounds):
        for server in chosen:
            server.start()
            try:
                command = server.inside([str(load.BUILD / 'bench/crowd'), '--address', f'127.0.0.1:{server.port}', '--visitors', str(visitors),
                                         '--seconds', str(seconds)])
                before = servers.cpu_seconds(server.pids())
                out = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 240)
                result = json.loads(out.stdout)
                rows.append({'server': server.name, 'round': round_, 'visitors': visitors, **result,
                             'server_cpu': round(servers.cpu_seconds(server.pids()) - before, 2), 'pss_kib': servers.pss_kib(server.pids())})
                note(f'crowd: {rows[-1]}')
            finally:
                server.stop()
    return rows

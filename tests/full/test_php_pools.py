"""php-fpm in earnest: more visitors than workers, pools that end idle workers, a php-fpm that is killed, and one site's trouble that stays its own."""
import os
import statistics
import threading
import time
from pathlib import Path

import pytest
from fastcgi_peer import PhpFpm
from harness import ROOT, wait_until

LOCATION = 'include ' + str(ROOT) + '''/conf/fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
  fastcgi_pass unix:@DIR@/php.sock;'''


@pytest.fixture
def site(server, directory):
    """site(pool lines, children) → (server, php-fpm)."""
    started = []

    def make(pool, children):
        directory.joinpath('php.pool').write_text(f'[php]\nlisten = {directory}/php.sock\n{pool}pm.max_children = {children}\n')
        s = server('fastcgi_pool_files @DIR@/*.pool; server { listen @SOCK@; root @DIR@/www; location / { } location ~ php { ' + LOCATION + ' } }', workers=2)
        s.file('ok.php', '<?php echo "ok";')
        s.file('second.php', '<?php usleep(1000000); echo "ok";')
        s.file('static.txt', 'static')
        started.append(PhpFpm(s.directory, f'{pool}pm.max_children = {children}\n'))
        return s, started[-1]

    yield make
    for fpm in started:
        fpm.stop()


def visitors(s, count, path, results):
    def one():
        begun = time.monotonic()
        try:
            client = s.connect('h1')
            client.socket.settimeout(60)
            results.append((client.request(path).status, time.monotonic() - begun))
        except (OSError, EOFError):
            results.append((0, time.monotonic() - begun))
    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def children(fpm):
    return Path(f'/proc/{fpm.process.pid}/task/{fpm.process.pid}/children').read_text().split()


def test_150_visitors_on_8_workers(site):
    s, _ = site('pm = static\n', 8)
    results, static = [], []
    threads = visitors(s, 150, '/second.php', results)
    while any(t.is_alive() for t in threads):
        begun = time.monotonic()
        assert s.get('/static.txt').body == b'static'
        static.append(time.monotonic() - begun)
    assert [status for status, _ in results] == [200] * 150
    assert max(seconds for _, seconds in results) < 60
    assert statistics.median(static) < 0.2  # Nobody who wants a file waits for PHP.


def test_on_demand_workers_end(site):
    s, fpm = site('pm = ondemand\npm.process_idle_timeout = 2s\n', 4)
    for _ in range(3):
        for thread in visitors(s, 20, '/ok.php', results := []):
            thread.join()
        assert [status for status, _ in results] == [200] * 20
    last = time.monotonic()
    assert children(fpm)
    wait_until(lambda: not children(fpm), 'all workers to end', 10)
    assert time.monotonic() - last < 2 + 4 + 2  # php-fpm looks once a second, and ends one at a time.
    # No child is killed for its time-out. That "server reached max_children" is said of any connection that comes while all children exist,
    # idle ones as well, if the master looks before one of them has taken it.
    assert not [line for line in (s.directory / 'fpm.log').read_text().splitlines() if 'WARNING' in line and 'reached max_children' not in line]


def test_killed_under_load_and_back(site):
    s, fpm = site('pm = static\n', 4)
    stop, statuses, lock = threading.Event(), [], threading.Lock()

    def visit():
        client = s.connect('h1')
        while not stop.is_set():
            status = client.request('/ok.php').status
            with lock:
                statuses.append(status)
    threads = [threading.Thread(target=visit) for _ in range(8)]
    for t in threads:
        t.start()
    wait_until(lambda: len(statuses) > 200, 'traffic')
    family = [fpm.process.pid, *map(int, children(fpm))]
    for pid in family:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            pass
    fpm.process.wait()
    wait_until(lambda: 502 in statuses, 'a failure')
    fpm.output.close()
    fpm.start()
    with lock:
        back = len(statuses)
    wait_until(lambda: len(statuses) > back + 200, 'traffic again')
    stop.set()
    for t in threads:
        t.join(30)
    assert set(statuses) == {200, 502}
    assert set(statuses[back + 20:]) == {200}  # It resumes by itself, at once.


def test_100_ondemand_pools(server, directory):
    """A pool and a site each, as hosting boxes have them: an idle connection of ours would keep each one's child from ending."""
    count, idle = 100, 2
    owner = 'user = www-data\ngroup = www-data\nlisten.owner = www-data\nlisten.group = www-data\n' if os.geteuid() == 0 else ''
    settings = f'pm = ondemand\npm.process_idle_timeout = {idle}s\npm.max_children = 4\n'
    pools = ''.join(f'[p{n}]\nlisten = {directory}/p{n}.sock\n{owner}{settings}' for n in range(count))
    (directory / 'sites.pool').write_text(pools)
    location = LOCATION.replace('php.sock', 'p%d.sock')
    sites = ''.join(f'server {{ listen @SOCK@; server_name p{n}.example; root @DIR@/www; location / {{ {location % n} }} }}\n' for n in range(count))
    s = server('fastcgi_pool_files @DIR@/sites.pool;\n' + sites, workers=2)
    s.file('who.php', '<?php echo $_SERVER["SERVER_NAME"];')
    fpm = PhpFpm(s.directory, settings + pools)
    try:
        # Its first socket accepts before the last one has been made.
        wait_until(lambda: 'ready to handle connections' in (s.directory / 'fpm.log').read_text(), 'all pools')

        def ask(wrong, n):
            for _ in range(3):
                answer = s.connect('h1').request('/who.php', host=f'p{n}.example')
                if (answer.status, answer.body) != (200, f'p{n}.example'.encode()):
                    wrong.append((n, answer.status, answer.body[:80]))
        wrong = []
        visiting = [threading.Thread(target=ask, args=(wrong, n)) for n in range(count)]
        for thread in visiting:
            thread.start()
        for thread in visiting:
            thread.join(60)
        last = time.monotonic()
        assert not wrong and not any(thread.is_alive() for thread in visiting)
        titles = [Path(f'/proc/{pid}/cmdline').read_text().strip('\0 ') for pid in children(fpm)]
        assert len(set(titles)) >= count  # They were there, else their end proves nothing.
        further = max(map(titles.count, titles)) - 1  # php-fpm ends one of a pool's children a second.
        wait_until(lambda: not children(fpm), 'all children to end', idle + 10)
        assert time.monotonic() - last < idle + 2 + further
        log = (s.directory / 'fpm.log').read_text()
        assert not any(word in log for word in ('WARNING', 'ERROR', 'ALERT')), log
    finally:
        fpm.stop()

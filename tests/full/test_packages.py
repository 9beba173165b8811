"""The Debian packages, as an operator meets them: installed, used, upgraded and purged in booted Debian 12 and 13 roots."""
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from booted import DEADLINE, TOP, Machine, wait_until

# For whoever works on the tests: packages made elsewhere, DIR/REBUILD/SUITE/*.deb.
READY_MADE = os.environ.get('COREHTTPD_PACKAGES')
SUITES = {'bookworm': ['libfmt9'], 'trixie': ['libfmt10']}
# The libraries that the package depends on are there: a machine has no network.
PACKAGES = ['systemd', 'systemd-sysv', 'dbus', 'curl', 'iproute2', 'php-fpm', 'nginx-light', 'python3', 'logrotate', 'procps', 'liburing2',
            'libnghttp2-14', 'libpcre2-8-0', 'zlib1g']
FIRST, SECOND = 1, 2

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason='only root boots machines')

PHP_SITE = '''server {
    listen 80;
    server_name php.example;
    root /srv/php;
    index index.php;
    location ~ \\.php(/|$) {
        include snippets/php.conf;
        fastcgi_pass unix:/run/php/php-fpm.sock;
    }
    location /~joe/ { alias /home/joe/www/; }
}
'''


def head():
    return subprocess.run(['git', '-C', str(TOP), 'rev-parse', 'HEAD'], check=True, capture_output=True, text=True).stdout.strip()


def built(suite, rebuild):
    """The packages of the commit, as a dict of name to file; what an earlier run built of the same commit is taken."""
    if READY_MADE:
        return {file.name.split('_')[0]: file for file in (Path(READY_MADE) / str(rebuild) / suite).glob('*.deb')}
    directory = TOP / 'build/deb' / (suite if rebuild == FIRST else f'{suite}-{rebuild}')
    stamp = directory / 'commit'
    if not stamp.exists() or stamp.read_text().strip() != head():
        subprocess.run([TOP / 'packaging/build-deb', '--rebuild', str(rebuild), suite], check=True, timeout=3600)
    return {file.name.split('_')[0]: file for file in directory.glob('*.deb')}


@pytest.fixture(scope='module', params=list(SUITES))
def suite(request):
    return request.param


@pytest.fixture(scope='module')
def first(suite):
    return built(suite, FIRST)


@pytest.fixture(scope='module')
def second(suite):
    return built(suite, SECOND)


@pytest.fixture
def boot(suite, tmp_path_factory):
    machines = []

    def start(masked=('nginx',)):
        directory = TOP / 'build/package-machines' / f'{os.getpid()}-{suite}-{len(machines)}'
        directory.mkdir(parents=True)
        machines.append(Machine(suite, PACKAGES + SUITES[suite], directory, masked))
        return machines[-1]

    yield start
    for machine in machines:
        machine.close()


def install(machine, file):
    machine.copy_in(file, f'/root/{file.name}')
    return machine.sh(f'apt-get install -y -q /root/{file.name} 2>&1')


@pytest.fixture
def machine(boot, first):
    """Booted, with the first package installed."""
    m = boot()
    print(install(m, first['corehttpd']))  # Shown when the test fails.
    print(m.sh('systemctl --no-pager -l status corehttpd; journalctl --no-pager -q -n 30', check=False))
    return m


def get(machine, path='/', host='localhost', more=()):
    """(status, body)"""
    done = machine.run('curl', '-sS', '-m', '30', '-w', '\n%{http_code}', '-H', f'Host: {host}', *more, f'http://127.0.0.1{path}')
    body, status = done.stdout.rsplit('\n', 1)
    return int(status), body


def active(machine):
    return machine.run('systemctl', 'is-active', 'corehttpd', check=False).stdout.strip()


def main_pid(machine):
    return int(machine.property('corehttpd', 'MainPID'))


def workers(machine):
    """Children of the main process that serve, not an elder or a successor."""
    listing = machine.sh('ps -e -o pid=,ppid=,user=,args= 2>/dev/null || true')
    main = str(main_pid(machine))
    return [int(pid) for pid, parent, user, _ in (line.split(None, 3) for line in listing.splitlines()) if parent == main and user == 'www-data']


def journal(machine):
    return machine.sh('journalctl --no-pager -q -o cat -u corehttpd')


def add_php_site(machine):
    machine.write('/srv/php/index.php', '<?php echo "php ", PHP_MAJOR_VERSION, " ", $_SERVER["SERVER_SOFTWARE"];')
    machine.write('/srv/php/slow.php', '<?php touch("/run/php/in-flight"); usleep(2500000); echo "slow but whole";')
    machine.write('/etc/corehttpd/sites-available/php.example', PHP_SITE)
    machine.sh('ln -s ../sites-available/php.example /etc/corehttpd/sites-enabled/')
    machine.run('systemctl', 'reload', 'corehttpd')


def all_files(machine):
    """Everything but what other programs write while time goes by."""
    listing = machine.sh("find / -xdev \\( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /root -o -path /var/log/journal "
                         "-o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/lib/systemd -o -path /usr/lib/python3 "
                         "-o -path /var/log/apt -o -path /var/log/dpkg.log -o -path /var/lib/php \\) -prune -o -print")
    return set(listing.splitlines())


# --- the files themselves


def test_same_bytes_in_another_directory(suite, first, tmp_path):
    """Without the compiler's cache: what is compared was compiled twice. One release is enough for that."""
    if suite != 'bookworm':
        pytest.skip('the build is the same for each release')
    environment = dict(os.environ, CCACHE_DISABLE='1')
    subprocess.run([TOP / 'packaging/build-deb', '--directory', tmp_path / 'elsewhere', suite], check=True, timeout=3600, env=environment)
    again = {file.name: file for file in (tmp_path / 'elsewhere' / suite).glob('*.deb')}
    assert len(again) == 3
    for file in first.values():
        assert again[file.name].read_bytes() == file.read_bytes(), f'{file.name} differs'


def test_lintian_is_content(first):
    assert sorted(first) == ['corehttpd', 'corehttpd-dbgsym', 'corehttpd-doc']
    done = subprocess.run(['lintian', '--allow-root', '-EviIL', '+pedantic', '--fail-on', 'none', *first.values()], capture_output=True, text=True,
                          timeout=600)
    assert [line for line in (done.stdout + done.stderr).splitlines() if re.match(r'[EWIPX]: ', line)] == []


# --- installed


def test_serves_static_and_php(machine):
    m = machine
    assert active(m) == 'active'
    assert m.run('systemctl', 'is-enabled', 'corehttpd').stdout.strip() == 'enabled'
    status, body = get(m)
    assert status == 200 and 'corehttpd works' in body
    assert get(m, '/.git/config')[0] == 404
    m.write('/var/www/html/index.html', 'mine')  # Takes the default page's place.
    assert get(m) == (200, 'mine')
    add_php_site(m)
    status, body = get(m, '/', 'php.example')
    assert status == 200 and body.startswith('php 8 corehttpd')
    assert get(m, '/none.php', 'php.example')[0] == 404
    m.write('/home/joe/www/page.html', 'at home')  # The unit closes homes for writing only.
    assert get(m, '/~joe/page.html', 'php.example') == (200, 'at home')
    # Whom things belong to.
    assert m.sh('stat -c "%U:%G %a" /var/log/corehttpd /var/log/corehttpd/access.log /var/log/corehttpd/error.log').split('\n')[:3] == [
        'root:adm 755', 'www-data:adm 640', 'www-data:adm 640']
    assert m.sh('stat -c "%U %a" /var/lib/corehttpd/tmp').strip() == 'www-data 700'
    assert 'GET /none.php' in m.sh('cat /var/log/corehttpd/access.log')
    assert workers(m)
    assert m.sh('dpkg --verify corehttpd') == ''
    conffiles = set(m.sh("dpkg-query -W -f '${Conffiles}' corehttpd | awk '{ print $1 }'").split())
    shipped = set(m.sh('dpkg -L corehttpd | while read -r f; do [ ! -f "$f" ] || case $f in /etc/*) echo "$f";; esac; done').split())
    assert shipped == conffiles and '/etc/corehttpd/sites-available/default' in conffiles
    # certbot's nginx plugin reads the tree under nginx's name.
    assert m.sh('readlink /etc/corehttpd/nginx.conf').strip() == 'corehttpd.conf'


def test_unit_is_shut_in(machine):
    m = machine
    assert m.sh('systemd-analyze verify --man=no corehttpd.service 2>&1') == ''
    overall = m.sh('systemd-analyze security --no-pager corehttpd.service').strip().splitlines()[-1]
    assert float(re.search(r'for corehttpd.service: ([0-9.]+)', overall).group(1)) <= 3.2, overall
    limits = m.sh(f'cat /proc/{main_pid(m)}/limits')
    assert re.search(r'Max core file size\s+0\s+0', limits)
    assert m.property('corehttpd', 'LimitNOFILE') == '524288'  # A machine inside another may not have as many.
    assert main_pid(m) and m.property('corehttpd', 'NRestarts') == '0'


def test_reload(machine):
    m = machine
    m.write('/etc/corehttpd/sites-available/default', 'server { listen 80 default_server; location / { return 200 second; } }\n')
    m.run('systemctl', 'reload', 'corehttpd')
    assert get(m) == (200, 'second')  # No wait: the reload returns when the new workers serve.
    m.write('/etc/corehttpd/sites-available/default', 'server { listen 80 default_server; retrun 200 third; }\n')
    before = main_pid(m)
    refused = m.run('systemctl', 'reload', 'corehttpd', check=False)
    assert refused.returncode != 0
    assert '/etc/corehttpd/sites-enabled/default:1' in journal(m) and 'retrun' in journal(m)
    assert active(m) == 'active' and main_pid(m) == before and get(m) == (200, 'second')
    m.write('/etc/corehttpd/sites-available/default', 'server { listen 80 default_server; location / { return 200 fourth; } }\n')
    m.run('systemctl', 'reload', 'corehttpd')
    assert get(m) == (200, 'fourth')


def test_killed_worker_is_replaced(machine):
    m = machine
    main, before = main_pid(m), workers(m)
    m.run('kill', '-9', str(before[0]))
    wait_until(lambda: before[0] not in workers(m) and len(workers(m)) == len(before), 'a new worker')
    assert get(m)[0] == 200 and main_pid(m) == main and m.property('corehttpd', 'NRestarts') == '0'


def test_killed_master_is_restarted(machine):
    m = machine
    before = main_pid(m)
    m.run('kill', '-9', str(before))
    wait_until(lambda: active(m) == 'active' and main_pid(m) not in (0, before), 'the restart')
    assert get(m)[0] == 200
    # Nothing of the one that died is left.
    assert set(m.sh("cat /sys/fs/cgroup/system.slice/corehttpd.service/cgroup.procs 2>/dev/null || pgrep corehttpd").split()) == set(
        map(str, [main_pid(m), *workers(m)]))


def test_stop_finishes_what_is_in_flight(machine):
    m = machine
    add_php_site(m)
    slow = m.start('curl', '-sS', '-m', '30', '-H', 'Host: php.example', 'http://127.0.0.1/slow.php')
    wait_until(lambda: m.run('test', '-e', '/run/php/in-flight', check=False).returncode == 0, 'the request')
    m.run('systemctl', 'stop', 'corehttpd')
    assert slow.communicate(timeout=DEADLINE)[0] == 'slow but whole'
    assert active(m) == 'inactive' and m.property('corehttpd', 'Result') == 'success'
    m.run('systemctl', 'try-restart', 'corehttpd')
    assert active(m) == 'inactive'  # It was not running.
    m.run('systemctl', 'start', 'corehttpd')
    before = main_pid(m)
    m.run('systemctl', 'try-restart', 'corehttpd')
    assert active(m) == 'active' and main_pid(m) != before and get(m)[0] == 200


def test_watchdog_restarts_a_master_that_hangs(machine):
    m = machine
    m.write('/etc/systemd/system/corehttpd.service.d/watchdog.conf', '[Service]\nWatchdogSec=2\n')
    m.sh('systemctl daemon-reload && systemctl restart corehttpd')
    before = main_pid(m)
    m.run('kill', '-STOP', str(before))
    wait_until(lambda: active(m) == 'active' and main_pid(m) not in (0, before), 'the watchdog')
    assert get(m)[0] == 200 and 'watchdog' in journal(m).lower()


def test_logrotate(machine):
    m = machine
    assert get(m, '/before')[0] == 404
    m.run('logrotate', '-f', '/etc/logrotate.d/corehttpd')
    wait_until(lambda: get(m, '/after')[0] == 404 and '/after' in m.sh('cat /var/log/corehttpd/access.log'), 'the new log')
    assert '/before' in m.sh('cat /var/log/corehttpd/access.log.1') and '/before' not in m.sh('cat /var/log/corehttpd/access.log')
    assert m.sh('stat -c "%U:%G %a" /var/log/corehttpd/access.log').strip() == 'www-data:adm 640'


# --- upgrades


def under_load(machine, *paths):
    machine.copy_in(Path(__file__).parent / 'load.py', '/root/load.py')
    load = machine.start('python3', '/root/load.py', '/root/stop', *paths)
    wait_until(lambda: int(machine.sh('wc -l </var/log/corehttpd/access.log')) > 200, 'the load')
    return load


def end_of(machine, load):
    machine.write('/root/stop', '')
    said = load.communicate(timeout=DEADLINE)[0]
    return json.loads(said.strip().splitlines()[-1])


def test_upgrade_under_load_fails_no_request(machine, second):
    m = machine
    m.write('/var/www/html/page.php', '<?php echo str_repeat("x", 5000);')
    m.write('/etc/corehttpd/sites-available/default', '# edited\n' + m.sh('cat /etc/corehttpd/sites-available/default').replace(
        'server_name _;', 'server_name _; location ~ \\.php(/|$) { include snippets/php.conf; fastcgi_pass unix:/run/php/php-fpm.sock; }'))
    m.run('systemctl', 'reload', 'corehttpd')
    load = under_load(m, '/', '/page.php', '/index.corehttpd-debian.html')
    before, since = main_pid(m), m.property('corehttpd', 'ActiveEnterTimestampMonotonic')
    said = install(m, second['corehttpd'])
    assert 'the new version has taken over' in said, said
    after = main_pid(m)
    assert after != before
    lines = int(m.sh('wc -l </var/log/corehttpd/access.log'))
    wait_until(lambda: int(m.sh('wc -l </var/log/corehttpd/access.log')) > lines + 200, 'more load')
    result = end_of(m, load)
    assert result['failures'] == [] and result['requests'] > 400, result
    assert active(m) == 'active'
    assert m.property('corehttpd', 'NRestarts') == '0' and m.property('corehttpd', 'ActiveEnterTimestampMonotonic') == since
    assert m.sh(f'readlink /proc/{after}/exe').strip() == '/usr/sbin/corehttpd'  # Not the deleted one.
    assert m.sh("dpkg-query -W -f '${Version}' corehttpd").endswith('u2')
    assert m.sh('head -n 1 /etc/corehttpd/sites-available/default').strip() == '# edited'
    wait_until(lambda: not Path(f'/proc/{m.leader}/root/proc/{before}').exists(), 'the old master to end')
    # systemd is attached to the new one: it reloads, and a death is noticed.
    m.run('systemctl', 'reload', 'corehttpd')
    assert main_pid(m) == after
    m.run('kill', '-9', str(after))
    wait_until(lambda: active(m) == 'active' and main_pid(m) not in (0, after), 'the restart')
    assert get(m)[0] == 200


def test_upgrade_that_cannot_start_leaves_the_old_one(machine, second):
    m = machine
    before = main_pid(m)
    m.write('/etc/corehttpd/conf.d/broken.conf', 'no_such_directive on;\n')
    said = install(m, second['corehttpd'])  # Exit code 0: the system's upgrade goes on.
    assert len([line for line in said.splitlines() if line.startswith('corehttpd: the new version did not take over')]) == 1, said
    assert active(m) == 'active' and main_pid(m) == before and get(m)[0] == 200
    m.sh('rm /etc/corehttpd/conf.d/broken.conf; corehttpd -s upgrade')
    assert main_pid(m) != before and active(m) == 'active' and get(m)[0] == 200


def test_upgrade_leaves_a_stopped_service_stopped(machine, second):
    m = machine
    m.run('systemctl', 'stop', 'corehttpd')
    install(m, second['corehttpd'])
    assert active(m) == 'inactive'


def test_policy_of_the_administrator_is_heeded(machine, second):
    m = machine
    before = main_pid(m)
    m.write('/usr/sbin/policy-rc.d', '#!/bin/sh\nexit 101\n', 0o755)
    said = install(m, second['corehttpd'])
    assert 'policy-rc.d forbids it' in said and main_pid(m) == before and get(m)[0] == 200, said
    m.sh('rm /usr/sbin/policy-rc.d && apt-get purge -y -q corehttpd')
    m.write('/usr/sbin/policy-rc.d', '#!/bin/sh\nexit 101\n', 0o755)
    install(m, second['corehttpd'])
    assert active(m) == 'inactive'


# --- beside others, and away again


def test_beside_nginx(boot, first):
    m = boot(masked=())
    wait_until(lambda: 'nginx' in get(m)[1], 'nginx')
    said = install(m, first['corehttpd'])
    assert 'port 80 is taken by nginx' in said and 'systemctl disable --now nginx' in said, said
    assert active(m) == 'inactive' and m.run('systemctl', 'is-enabled', 'corehttpd', check=False).stdout.strip() == 'disabled'
    assert m.run('systemctl', 'is-active', 'nginx').stdout.strip() == 'active' and 'nginx' in get(m)[1]
    assert m.sh('corehttpd -t 2>&1')
    m.sh('systemctl disable --now nginx && systemctl enable --now corehttpd')
    m.sh('rm -f /var/www/html/index.nginx-debian.html /var/www/html/index.html')
    assert active(m) == 'active' and 'corehttpd works' in get(m)[1]


def test_starts_softly_when_it_cannot(boot, first):
    m = boot()
    m.write('/etc/corehttpd/conf.d/mine.conf', 'no_such_directive on;\n')  # Put there before, by a management tool.
    said = install(m, first['corehttpd'])
    assert 'the service did not start' in said, said
    assert m.sh("dpkg-query -W -f '${db:Status-Status}' corehttpd") == 'installed'


def test_purge_leaves_nothing(boot, first):
    m = boot()
    m.write('/var/www/html/page.html', 'content')
    before = all_files(m)
    install(m, first['corehttpd'])
    add_php_site(m)
    assert get(m)[0] == 200
    m.run('apt-get', 'remove', '-y', '-q', 'corehttpd')
    assert active(m) == 'inactive' and m.sh('test -e /etc/corehttpd/corehttpd.conf && ls /etc/corehttpd/sites-enabled').split() == [
        'default', 'php.example']
    install(m, first['corehttpd'])  # A change of mind: it is back, with its sites.
    assert active(m) == 'active' and get(m, '/', 'php.example')[1].startswith('php 8')
    m.run('apt-get', 'purge', '-y', '-q', 'corehttpd')
    left = all_files(m) - before
    assert left == {'/srv/php', '/srv/php/index.php', '/srv/php/slow.php'}
    assert before - all_files(m) == set()
    assert m.sh('ls /run | grep corehttpd || true') == '' and m.sh('pgrep -l corehttpd || true') == ''
    assert 'corehttpd' not in m.sh('systemctl list-units --all --no-legend --plain; systemctl list-unit-files --no-legend')


def test_purge_spares_what_was_made_ones_own(machine):
    m = machine
    m.write('/var/www/html/index.corehttpd-debian.html', 'edited by the administrator')
    m.run('apt-get', 'purge', '-y', '-q', 'corehttpd')
    assert m.sh('cat /var/www/html/index.corehttpd-debian.html') == 'edited by the administrator'

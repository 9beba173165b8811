"""Two thousand sites: they load, and the right one answers."""
import re
import subprocess
import sys

import pytest
from harness import CLEAR, DEADLINE, ROOT

sys.path.insert(0, str(ROOT / 'bench'))
import sites  # noqa: E402

COUNT = 2000


@pytest.mark.parametrize('protocol', CLEAR)
def test_two_thousand_sites(server, protocol):
    s = server('', start=False)
    config = sites.write(s.directory, COUNT)
    (s.directory / 'corehttpd.conf').write_text(config.read_text().replace('worker_processes 2', 'worker_processes 1'))
    done = subprocess.run(s.command('-t', '--json'), capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stdout[-2000:]
    assert re.search(f'"sites":{COUNT + 1},', done.stdout)
    s.start()
    client = s.connect(protocol)
    for number in (0, 1, 777, COUNT - 1):
        name = sites.name_of(number)
        for host in (name, f'www.{name}', name.upper()):
            assert client.request('/index.html', host=host).body.decode() == f'this is {name}\n'
    assert client.request('/index.html', host='unknown.example.org').status == 404
    client.close()


def test_their_logs_are_apart(server):
    """Each line is in the file of its site, though many share one."""
    s = server('', start=False, tls=False)
    sites.write(s.directory, 6, logs=3)
    text = (s.directory / 'main.conf').read_text().replace('worker_processes 2', 'worker_processes 1')
    (s.directory / 'corehttpd.conf').write_text(text)
    s.start()
    for number in range(6):
        assert s.get(f'/index.html?{number}', host=sites.name_of(number)).status == 200
    for number in range(6):
        s.wait_log(rf'"GET /index.html\?{number} ', f'logs/group{number % 3:03}.log')

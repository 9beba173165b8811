"""Each nginx block of the guides in docs/ and of the README is a configuration that passes -t without a warning where a reader puts it."""
import re
import subprocess

import pytest
from harness import BINARY, DEADLINE, ROOT

# The outermost directives tell where a block belongs.
MAIN = {'events', 'http', 'user', 'worker_processes', 'worker_shutdown_timeout'}
HTTP = {'server', 'map', 'upstream', 'log_format', 'error_log', 'access_log'}
AROUND = {
    'file': '%s',
    'main': '%s http { server { listen 127.0.0.1:8080; } }',
    'http': 'events {} http { server { listen 127.0.0.1:8080; } %s }',
    'server': 'events {} http { server { listen 127.0.0.1:8080; root /srv/www; %s } }',
}


def blocks():
    for path in [ROOT / 'README.md', *sorted((ROOT / 'docs').glob('*.md'))]:
        text = path.read_text()
        for found in re.finditer(r'^```nginx\n(.*?)^```', text, re.M | re.S):
            yield pytest.param(found[1], id=f'{path.name}:{text[:found.start()].count(chr(10)) + 1}')


def place(text):
    names = set(re.findall(r'^(\w+)', text, re.M))
    if 'http' in names:
        return 'file'
    return 'main' if names & MAIN else 'http' if names & HTTP else 'server'


@pytest.mark.parametrize('text', blocks())
def test_block_is_right(text, directory):
    for name in (ROOT / 'conf').iterdir():
        (directory / name.name).symlink_to(name)
    (directory / 'log/corehttpd/sites').mkdir(parents=True)
    text = AROUND[place(text)] % text.replace('/path/to/corehttpd/conf', str(directory)).replace('/var/log/', f'{directory}/log/')
    config = directory / 'site.conf'
    config.write_text(f'pid {directory}/pid;\n{text}\n')
    done = subprocess.run([str(BINARY), '-t', '-c', str(config), '-e', str(directory / 'log/first.log')], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    assert '[warn]' not in done.stderr and 'not supported yet' not in done.stderr, done.stderr

"""import-nginx on the tree that Debian's nginx installs, taken from the package itself."""
import os
import re
import shutil
import subprocess

import pytest
from harness import BINARY, DEADLINE, Http1, free_port, wait_until


@pytest.fixture
def package(directory):
    """The files of nginx-common, unpacked but not installed."""
    for command in (['apt-get', 'download', 'nginx-common'], ['sh', '-c', 'dpkg -x nginx-common_*.deb root']):
        subprocess.run(command, cwd=directory, check=True, timeout=300, capture_output=True)
    return directory / 'root'


def test_debians_own_tree(package, directory):
    tree, out, port = package / 'etc/nginx', directory / 'out', free_port()
    # The links that the package's scripts make, and the parts of nginx.conf that need root or a network of the machine.
    (tree / 'sites-enabled').mkdir(exist_ok=True)
    (tree / 'sites-enabled/default').symlink_to('/etc/nginx/sites-available/default')
    www, log = directory / 'www', directory / 'log'
    www.mkdir()
    log.mkdir()
    shutil.copy(package / 'usr/share/nginx/html/index.html', www / 'index.nginx-debian.html')
    for name in ('nginx.conf', 'sites-available/default'):
        text = (tree / name).read_text()
        text = re.sub(r'^(\s*)listen 80\b', rf'\1listen 127.0.0.1:{port}', text, flags=re.M)
        text = re.sub(r'^(\s*)listen \[::\]:80\b', rf'\1listen unix:{directory}/six.sock', text, flags=re.M)
        (tree / name).write_text(text.replace('/var/www/html', str(www)).replace('/var/log/nginx', str(log)))
    done = subprocess.run([str(BINARY), 'import-nginx', str(tree), '--out', str(out)], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode in (0, 2), done.stderr
    assert ' replaced ' not in done.stdout
    assert os.path.realpath(out / 'sites-enabled/default') == str(out / 'sites-available/default')
    assert {path.name for path in out.iterdir()} == {path.name.replace('nginx.conf', 'corehttpd.conf') for path in tree.iterdir()}
    command = [str(BINARY), '-c', str(out / 'corehttpd.conf'), '-g', f'pid {directory}/pid;']
    assert subprocess.run([*command, '-t', '-q'], timeout=DEADLINE).returncode == 0
    process = subprocess.Popen([*command[:-1], command[-1] + ' daemon off;'], stderr=subprocess.DEVNULL)
    try:
        def answer():
            try:
                client = Http1(('127.0.0.1', port))
            except OSError:
                return None
            try:
                return client.request('/')
            finally:
                client.close()
        response = wait_until(answer, 'answer')
        assert response.status == 200 and b'nginx' in response.body
    finally:
        process.terminate()
        process.wait(DEADLINE)

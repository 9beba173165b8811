"""The quickstart site as `make run` starts it: real clients fetch it over HTTP/2 and HTTP/1.1 with TLS, and testssl.sh grades it."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from harness import free_port, wait_until

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / 'bench'))
import roots  # noqa: E402


class Quickstart:
    def __init__(self, directory):
        self.port, self.tls_port = free_port(), free_port()
        self.output = directory / 'output.txt'
        environment = os.environ | {'PORT': str(self.port), 'TLS_PORT': str(self.tls_port), 'TMPDIR': str(directory)}
        self.process = subprocess.Popen([TOP / 'conf/quickstart/run'], stdin=subprocess.DEVNULL, stdout=open(self.output, 'wb'),
                                        stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        wait_until(lambda: 'Ctrl-C ends it' in self.output.read_text() or self.process.poll() is not None, 'the site to be served', 60)
        assert self.process.poll() is None, self.output.read_text()
        self.state, = directory.glob('corehttpd-quickstart.*')
        self.url = f'https://localhost:{self.tls_port}'

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)

    def log(self):
        return (self.state / 'access.log').read_text()

    def key_hash(self):
        """Of the certificate's public key, as browsers pin it."""
        return subprocess.run(f'openssl x509 -in {self.state}/certificate.pem -pubkey -noout | openssl pkey -pubin -outform der | '
                              'openssl dgst -sha256 -binary | base64', shell=True, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope='module')
def site():
    directory = Path(tempfile.mkdtemp(prefix='core-quickstart-', dir='/tmp'))
    directory.chmod(0o755)  # The workers' user reads the site there.
    made = Quickstart(directory)
    try:
        yield made
        made.close()
        assert not made.state.exists()
    finally:
        made.close()
        shutil.rmtree(directory)


def run(*command, deadline=60):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=deadline)


@pytest.mark.parametrize('option, version', [('--http2', '2'), ('--http1.1', '1.1')])
def test_curl(site, option, version):
    """It trusts the authority of the run, and no other."""
    ask = ['curl', '-s', option, '--resolve', f'localhost:{site.tls_port}:127.0.0.1', '-w', '%{http_version} %{http_code}']
    done = run(*ask, '--cacert', site.state / 'authority.pem', f'{site.url}/')
    assert done.stdout.endswith(f'{version} 200') and 'corehttpd serves this page' in done.stdout, done
    page = run(*ask, '--cacert', site.state / 'authority.pem', f'{site.url}/hello.php')
    assert page.stdout.endswith(f'{version} 200') and 'PHP' in page.stdout, page
    assert run(*ask, f'{site.url}/').returncode == 60


def test_nghttp(site):
    """The page and what it links, over one connection."""
    done = run('nghttp', '-nva', f'{site.url}/')
    assert len(re.findall(r':status: 200', done.stdout)) == 2, done.stdout
    assert 'negotiated protocol: h2' in done.stdout.lower()


def test_h2load(site):
    done = run('h2load', '-n', '2000', '-c', '8', '-m', '10', f'{site.url}/style.css')
    assert 'Application protocol: h2' in done.stdout and '2000 succeeded, 0 failed, 0 errored' in done.stdout, done.stdout
    assert 'status codes: 2000 2xx' in done.stdout, done.stdout


def test_chromium(site, tmp_path):
    """The page and its style sheet, over HTTP/2; a name that the certificate has, and another that it has not."""
    browser = ['chromium', '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-background-networking', f'--user-data-dir={tmp_path}',
               '--host-resolver-rules=MAP * 127.0.0.1']
    done = run(*browser, f'--ignore-certificate-errors-spki-list={site.key_hash()}', '--dump-dom', f'{site.url}/')
    assert '<h1>corehttpd serves this page</h1>' in done.stdout, (done.stdout, done.stderr[-2000:])
    lines = [line for line in site.log().splitlines() if 'Chrome' in line]
    for path in ('/', '/style.css'):
        assert any(f'"GET {path} HTTP/2.0" 200 ' in line for line in lines), lines
    refused = run(*browser, '--dump-dom', f'{site.url}/')
    assert 'corehttpd serves this page' not in refused.stdout


def test_testssl(site):
    """Grade A or better from testssl.sh, which runs from a Debian root of its own. A+ would need HSTS, which localhost must not have."""
    root = roots.make(TOP / 'build/package-roots', 'trixie', ['testssl.sh', 'openssl', 'procps', 'bsdextrautils', 'ca-certificates'], 'trixie-testssl')
    (root / 'authority.pem').write_bytes((site.state / 'authority.pem').read_bytes())
    inside = ('mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && '
              'exec chroot "$0" testssl --quiet --color 0 --warnings off --ip 127.0.0.1 --add-ca /authority.pem "$1"')
    done = run('unshare', '--mount', 'sh', '-c', inside, root, f'localhost:{site.tls_port}', deadline=900)
    (site.output.parent / 'testssl.txt').write_text(done.stdout)
    grade = re.search(r'Overall Grade\s+(\S+)', done.stdout)
    assert grade and grade.group(1) in ('A', 'A+'), done.stdout[-6000:]
    print(grade.group(0), *re.findall(r'(?:Grade cap reasons|Grade warning)\s.*', done.stdout), sep='\n')
    assert 'VULNERABLE (NOT ok)' not in done.stdout, done.stdout

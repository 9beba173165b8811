"""Certificates made on the spot, once per run of the tests: an authority, and what it signs."""
import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path


def openssl(*words, data=None):
    done = subprocess.run(['openssl', *map(str, words)], input=data, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


KEYS = {'ec': ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'], 'rsa': ['-newkey', 'rsa:2048'], 'slow': ['-newkey', 'rsa:4096']}


class Authority:
    """Signs certificates; the files of one are NAME.pem and NAME.key in its directory."""

    def __init__(self, directory, name='ca'):
        self.directory, self.name = Path(directory), name
        self.pem, self.key = self.directory / f'{name}.pem', self.directory / f'{name}.key'
        openssl('req', '-x509', *KEYS['ec'], '-nodes', '-subj', f'/CN={name}', '-days', 30, '-keyout', self.key, '-out', self.pem,
                '-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign,cRLSign')

    def make(self, name, names=None, kind='ec', directory=None, serial=None, password=None, days=20):
        """A certificate for names (the first is its subject); the pair of its files."""
        directory = Path(directory or self.directory)
        names = names or [name]
        pem, key, request = directory / f'{name}.pem', directory / f'{name}.key', directory / f'{name}.csr'
        secret = ['-passout', f'pass:{password}'] if password else ['-nodes']
        openssl('req', *KEYS[kind], *secret, '-subj', f'/O=Test/CN={names[0]}', '-keyout', key, '-out', request)
        extensions = directory / f'{name}.ext'
        extensions.write_text('subjectAltName=' + ','.join(f'DNS:{n}' for n in names) + '\n')
        number = ['-set_serial', serial] if serial else ['-CAcreateserial']
        openssl('x509', '-req', '-in', request, '-CA', self.pem, '-CAkey', self.key, '-days', days, '-extfile', extensions, '-out', pem, *number)
        request.unlink()
        extensions.unlink()
        return pem, key


@functools.cache
def authority():
    path = Path(tempfile.mkdtemp(prefix='core-ca-', dir='/tmp'))
    atexit.register(shutil.rmtree, path, True)
    return Authority(path)


@functools.cache
def localhost():
    return authority().make('localhost', ['localhost', '*.localhost'])

"""A Debian release that is booted: systemd-nspawn over a root that is made once, every change in a layer that is thrown away.

Nothing leaves the machine: it has a network of its own (loopback only), and its mounts live in a namespace that ends with it. Commands
enter its namespaces. Needs root.
"""
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / 'bench'))
import roots  # noqa: E402

DEADLINE = 90  # Of a command or a condition; booted roots on busy machines are slow.
ENVIRONMENT = ['/usr/bin/env', '-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'LC_ALL=C.UTF-8', 'DEBIAN_FRONTEND=noninteractive', 'HOME=/root']


def wait_until(condition, what, deadline=DEADLINE):
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f'waited {deadline} s for {what}'
        time.sleep(0.1)


class Machine:
    """suite's root with packages, booted. masked: services that are not to run."""

    def __init__(self, suite, packages, directory, masked=()):
        base = roots.make(TOP / 'build/package-roots', suite, packages)
        self.directory = Path(directory)
        upper, work, merged = (self.directory / name for name in ('upper', 'work', 'merged'))
        for made in (upper, work, merged, upper / 'etc', upper / 'etc/systemd', upper / 'etc/systemd/system'):
            made.mkdir(mode=0o755)
        for service in masked:
            (upper / 'etc/systemd/system' / f'{service}.service').symlink_to('/dev/null')
        self.log = open(self.directory / 'boot.log', 'wb')
        script = (f'mount -t overlay overlay -o lowerdir={base},upperdir={upper},workdir={work} {merged} && '
                  f'exec systemd-nspawn --register=no --keep-unit --private-network --resolv-conf=off --timezone=off '
                  f'--link-journal=no -b -D {merged}')
        # A session of its own, so that a signal to the tests' group does not kill it halfway; it is told to end when they have ended.
        self.process = subprocess.Popen(['setpriv', '--pdeathsig', 'TERM', 'unshare', '-m', 'sh', '-c', script], stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, start_new_session=True)
        try:
            self.leader = wait_until(self._leader, 'the machine to start')
            wait_until(self._up, 'the machine to boot')
        except BaseException:
            self.close()
            raise

    def _children(self, pid):
        try:
            return [int(word) for word in Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]
        except OSError:
            return []

    def _leader(self):
        """Process 1 of the machine, nspawn's child."""
        assert self.process.poll() is None, (self.directory / 'boot.log').read_text(errors='replace')[-2000:]
        for child in self._children(self.process.pid):
            try:
                if os.path.basename(os.readlink(f'/proc/{child}/exe')) == 'systemd':
                    return child
            except OSError:
                pass
        return None

    def _up(self):
        state = self.run('systemctl', 'is-system-running', check=False).stdout.strip()
        return state in ('running', 'degraded')

    def command(self, *words):
        return ['nsenter', '-t', str(self.leader), '-a', '--', *ENVIRONMENT, *words]

    def run(self, *words, check=True, deadline=DEADLINE * 3):
        """Runs a program inside; its output and errors in one text (stdout)."""
        done = subprocess.run(self.command(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors='replace', timeout=deadline)
        assert not check or done.returncode == 0, f'{words}: exit code {done.returncode}\n{done.stdout}'
        return done

    def sh(self, script, **more):
        return self.run('sh', '-c', script, **more).stdout

    def write(self, path, text, mode=0o644):
        subprocess.run(self.command('sh', '-c', 'mkdir -p "$(dirname "$0")" && cat >"$0" && chmod "$1" "$0"', path, f'{mode:o}'), input=text, text=True,
                       check=True, timeout=DEADLINE)

    def copy_in(self, source, path):
        with open(source, 'rb') as file:
            subprocess.run(self.command('sh', '-c', 'cat >"$0"', path), stdin=file, check=True, timeout=DEADLINE)

    def start(self, *words):
        """A program inside that goes on beside the test."""
        return subprocess.Popen(self.command(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def property(self, unit, name):
        return self.run('systemctl', 'show', '--value', '-p', name, unit).stdout.strip()

    def close(self):
        """Power off; what does not end is killed with everything in it."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()  # nspawn's child dies with it, and everything with that.
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

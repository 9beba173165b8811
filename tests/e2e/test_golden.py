"""-t on wrong configurations says what a colleague would: tests/golden/NAME.conf against NAME.txt, whole output and exit code.

GOLDEN_WRITE=1 writes the texts anew; read what changed before committing it.
"""
import os
import shutil
import subprocess

import pytest
from harness import BINARY, DEADLINE, ROOT

GOLDEN = ROOT / 'tests/golden'
CASES = sorted(GOLDEN.glob('*.conf'))


def verdict(directory, case):
    """What -t says of the file, with the directory's name left out."""
    shutil.copy(case, directory)
    (directory / 'open/.git').mkdir(parents=True)
    (directory / 'open/.git/config').write_text('')
    (directory / 'open/.env').write_text('SECRET=1\n')
    command = [str(BINARY), '-t', '-p', str(directory), '-c', case.name, '-e', 'stderr']
    done = subprocess.run(command, capture_output=True, timeout=DEADLINE, stdin=subprocess.DEVNULL)
    assert done.stdout == b''
    said = done.stderr.decode().replace(f'{directory}/', '')
    return f'{said}exit code: {done.returncode}\n'


def test_there_are_enough():
    assert len(CASES) >= 30


@pytest.mark.parametrize('case', CASES, ids=lambda case: case.stem)
def test_golden(tmp_path, case):
    if case.stem == '22_unknown_user' and os.geteuid() != 0:
        pytest.skip('only root can change its user')
    said = verdict(tmp_path, case)
    expected = case.with_suffix('.txt')
    if os.environ.get('GOLDEN_WRITE'):
        expected.write_text(said)
    assert said == expected.read_text()

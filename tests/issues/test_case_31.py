"""`mv access.log access.log.1` and USR1: the new file appears, no line lost, mode and owner as configured."""
import os
import signal
import stat

import pytest
from harness import wait_until


@pytest.mark.parametrize('options', ['', 'buffer=64k', 'buffer=4k flush=10ms'])
def test_rotation(server, protocol, options):
    s = server('log_format own "$arg_n"; access_log @DIR@/own.log own %s; server { listen @SOCK@; location / { return 200; } }' % options, workers=2)
    path, asked = s.directory / 'own.log', 0
    before = path.stat()
    for turn in range(5):
        for _ in range(20):
            s.get(f'/?n={asked}', protocol)
            asked += 1
        os.rename(path, s.directory / f'own.log.{turn}')
        s.process.send_signal(signal.SIGUSR1)
        wait_until(path.exists, 'the new file')
        # It is given away a moment after it was made.
        wait_until(lambda: (path.stat().st_uid, path.stat().st_gid) == (before.st_uid, before.st_gid), 'its owner')
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    s.stop(signal.SIGQUIT)
    lines = [line for name in [f'own.log.{i}' for i in range(5)] + ['own.log'] for line in s.log(name).splitlines()]
    assert sorted(map(int, lines)) == list(range(asked))

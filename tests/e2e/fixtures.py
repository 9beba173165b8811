"""Fixtures: `server` makes daemons that are stopped at the end of the test, `protocol` runs a test over each protocol."""
import shutil
import tempfile
from pathlib import Path

import pytest

from harness import CLEAR, DEFAULT, OVER_TLS, Server

CRASH_MARKS = ('broken invariant', 'exited on signal', 'AddressSanitizer', 'runtime error:', 'LeakSanitizer')


@pytest.fixture
def directory():
    # Short, because a unix socket's path may have 107 bytes only; readable by the workers' user.
    path = Path(tempfile.mkdtemp(prefix='core-', dir='/tmp'))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def server(directory, request):
    running = []
    chosen = request.node.callspec.params if hasattr(request.node, 'callspec') else {}
    over_tls = chosen.get('protocol', DEFAULT) in OVER_TLS

    def make(http, **more):
        sub = directory if not running else directory / str(len(running))
        sub.mkdir(exist_ok=True)
        made = Server(sub, http, **({'tls': over_tls} | more))
        running.append(made)
        return made

    yield make
    for made in running:
        expected = getattr(made, 'may_crash', False)
        made.stop()
        text = made.log() + (made.stderr_text() if (made.directory / 'stderr.txt').exists() else '')
        assert expected or not any(mark in text for mark in CRASH_MARKS), text[-4000:]


@pytest.fixture(params=list(CLEAR) + list(OVER_TLS))
def protocol(request):
    """The name of what is spoken, h1 or h2. Over TLS the server of the test knows, and connects so."""
    return OVER_TLS.get(request.param, request.param)

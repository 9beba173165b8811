"""Makes the harness importable, and its fixtures known."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from fixtures import directory, protocol, server  # noqa: F401, E402 (fixtures are found by their names here)
from harness import DEFAULT  # noqa: E402


def pytest_collection_modifyitems(config, items):
    """With another protocol for those that do not care, the others, which go through all, are left out."""
    if DEFAULT != 'h1':
        cares = [item for item in items if 'protocol' in getattr(item, 'fixturenames', ())]
        config.hook.pytest_deselected(items=cares)
        items[:] = [item for item in items if item not in cares]


def pytest_sessionfinish(session, exitstatus):
    if DEFAULT != 'h1' and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK

"""Makes the harness importable, and its fixtures known."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from fixtures import directory, protocol, server  # noqa: F401, E402 (fixtures are found by their names here)

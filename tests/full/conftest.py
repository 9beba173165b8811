"""The fixtures of the end-to-end tests. What lies here needs the packages of `packaging/set-up full`, or more time than `make test` has."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'e2e'))
from fixtures import directory, protocol, server  # noqa: F401, E402 (fixtures are found by their names here)

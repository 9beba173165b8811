"""The fixtures of the end-to-end tests, and an origin."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'e2e'))
from fixtures import directory, protocol, server  # noqa: F401, E402 (fixtures are found by their names here)
from fastcgi_peer import Peer  # noqa: E402
from harness import ROOT  # noqa: E402


@pytest.fixture
def origin(server):  # noqa: F811
    """origin(handler or bytes, location lines, server lines) → (server, FastCGI peer behind location /)."""
    peers = []

    def make(handler, location='', outer='', early=False):
        s = server('server { listen @SOCK@; root @DIR@/www; %s location / { include %s/conf/fastcgi_params; '
                   'fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:@DIR@/origin.sock; %s } }' % (outer, ROOT, location))
        peer = Peer(s.directory / 'origin.sock', handler if callable(handler) else lambda r: r.send(handler), early)
        peers.append(peer)
        return s, peer

    yield make
    for peer in peers:
        peer.close()
        assert not peer.errors, peer.errors

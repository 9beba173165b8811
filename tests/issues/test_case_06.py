"""A name with underscores beside the dashed one (X_Forwarded_For, X-Forwarded-For): never both to one CGI variable."""
import pytest
from fastcgi_peer import answer


@pytest.mark.parametrize('more', ['', 'underscores_in_headers on;', 'ignore_invalid_headers off;'])
@pytest.mark.parametrize('names', [('X_Forwarded_For', 'X-Forwarded-For'), ('X-Forwarded-For', 'X_Forwarded_For'), ('X-Forwarded_For', 'X-Forwarded-For')])
def test_one_variable(origin, protocol, more, names):
    s, peer = origin(answer(b'Content-Type: text/plain\r\n\r\nok'), outer=more)
    s.get('/', protocol, headers=[(name, 'right' if '_' not in name else 'evil') for name in names])
    values = [v for n, v in peer.requests[0].param_list if n == 'HTTP_X_FORWARDED_FOR']
    assert values == ['right']


def test_alone(origin, protocol):
    s, peer = origin(answer(b'Content-Type: text/plain\r\n\r\nok'))
    s.get('/', protocol, headers=[('X_Own', 'v')])
    assert 'HTTP_X_OWN' not in peer.requests[0].params

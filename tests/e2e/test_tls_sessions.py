"""Sessions: resumed at every worker, after reloads and upgrades."""
import ssl

import pytest
from certificates import authority
from harness import Https1, tls_context

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
SITE = '''%s server { listen unix:@DIR@/t.sock ssl; server_name a.test; ssl_certificate @CA@/session.pem; ssl_certificate_key @CA@/session.key;
location / { return 200 "$pid $ssl_session_reused"; } }'''


@pytest.fixture(scope='session')
def ca():
    made = authority()
    if not (made.directory / 'session.pem').exists():
        made.make('session', ['a.test'])
    return made


@pytest.fixture
def start(server, ca):
    return lambda more='', **options: server((SITE % more).replace('@CA@', str(ca.directory)), **options)


def ask(s, context, session=None):
    """A request on a connection of its own: (worker, was the session resumed, the session)."""
    client = Https1(str(s.directory / 't.sock'), context, 'a.test', session)
    try:
        worker, mark = client.request('/', host='a.test').body.decode().split()
        assert mark == ('r' if client.socket.session_reused else '.')
        return worker, client.socket.session_reused, client.socket.session
    finally:
        client.close()


@pytest.mark.parametrize('version', VERSIONS)
def test_at_every_worker_after_reload_and_upgrade(start, version):
    """Case 30."""
    s = start(workers=2)
    context = tls_context('http/1.1', version=version)
    _, reused, session = ask(s, context)
    assert not reused
    workers = set()
    for _ in range(60):
        worker, reused, _ = ask(s, context, session)
        assert reused
        workers.add(worker)
        if len(workers) == 2:
            break
    assert len(workers) == 2
    s.reload()
    worker, reused, _ = ask(s, context, session)
    assert reused and worker not in workers
    code, said = s.upgrade()
    assert code == 0, said
    assert ask(s, context, session)[1]


@pytest.mark.parametrize('version', VERSIONS)
def test_tickets_off(start, version):
    s = start('ssl_session_tickets off;')
    context = tls_context('http/1.1', version=version)
    session = ask(s, context)[2]
    assert session is None or not session.has_ticket
    assert not ask(s, context, session)[1]


def test_timeout_is_told(start):
    for more, wanted in (('', 300), ('ssl_session_timeout 1h;', 3600)):
        s = start(more)
        context = tls_context('http/1.1', version=ssl.TLSVersion.TLSv1_3)
        assert ask(s, context)[2].ticket_lifetime_hint == wanted


def test_expired(start):
    s = start('ssl_session_timeout 1s;')
    context = tls_context('http/1.1', version=ssl.TLSVersion.TLSv1_2)
    session = ask(s, context)[2]
    assert session.timeout <= 7200 and session.ticket_lifetime_hint == 1

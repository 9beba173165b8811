"""Sessions: resumed at every worker, after reloads and upgrades."""
import os
import signal
import ssl

import pytest
from certificates import authority
from harness import Https1, tls_context, wait_until

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


def resumed_at_both_workers(s, context, session):
    """Their processes."""
    workers = set()
    for _ in range(60):
        worker, reused, _ = ask(s, context, session)
        assert reused
        workers.add(worker)
        if len(workers) == 2:
            break
    assert len(workers) == 2
    return workers


@pytest.mark.parametrize('version', VERSIONS)
def test_at_every_worker_after_reload_and_upgrade(start, version):
    """Case 30."""
    s = start(workers=2)
    context = tls_context('http/1.1', version=version)
    _, reused, session = ask(s, context)
    assert not reused
    workers = resumed_at_both_workers(s, context, session)
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


def test_shared_cache(start):
    """Of clients without tickets, for all workers, after reload and upgrade."""
    s = start('ssl_session_cache shared:tls:1m;', workers=2)
    context = tls_context('http/1.1', version=ssl.TLSVersion.TLSv1_2, tickets=False)
    _, reused, session = ask(s, context)
    assert not reused and not session.has_ticket
    resumed_at_both_workers(s, context, session)
    s.reload()
    assert ask(s, context, session)[1]
    code, said = s.upgrade()
    assert code == 0, said
    assert ask(s, context, session)[1]
    # Of another size it starts anew.
    s.write_config((SITE % 'ssl_session_cache shared:tls:2m;').replace('@CA@', str(authority().directory)))
    s.process.send_signal(signal.SIGHUP)
    wait_until(lambda: not ask(s, context, session)[1], 'the new zone')
    assert ask(s, context, ask(s, context)[2])[1]


def test_no_cache(start):
    for more in ('', 'ssl_session_cache off;', 'ssl_session_cache none;'):
        s = start(more)
        context = tls_context('http/1.1', version=ssl.TLSVersion.TLSv1_2, tickets=False)
        assert not ask(s, context, ask(s, context)[2])[1]


def test_stateful_sessions_of_tls13(start):
    s = start('ssl_session_tickets off; ssl_session_cache shared:tls:1m;')
    context = tls_context('http/1.1', version=ssl.TLSVersion.TLSv1_3)
    assert ask(s, context, ask(s, context)[2])[1]


def test_zone_of_two_sizes(start):
    s = start('ssl_session_cache shared:tls:1m; server { listen unix:@DIR@/u.sock ssl; ssl_session_cache shared:tls:2m; ssl_certificate '
              '@CA@/session.pem; ssl_certificate_key @CA@/session.key; }', start=False)
    code, said = s.test()
    assert code == 1 and 'of shared memory zone "tls" conflicts with already declared size' in said


@pytest.mark.parametrize('version', VERSIONS)
@pytest.mark.parametrize('size', [48, 80])
def test_keys_from_files(start, version, size):
    """Two servers with the same keys take each other's tickets; an older key still decrypts."""
    old, new = os.urandom(size), os.urandom(size)
    context = tls_context('http/1.1', version=version)
    one = start('ssl_session_ticket_key @DIR@/old.key;', start=False)
    (one.directory / 'old.key').write_bytes(old)
    one.start()
    session = ask(one, context)[2]
    assert ask(one, context, session)[1]
    other = start('ssl_session_ticket_key @DIR@/new.key; ssl_session_ticket_key @DIR@/old.key;', start=False)
    (other.directory / 'new.key').write_bytes(new)
    (other.directory / 'old.key').write_bytes(old)
    other.start()
    worker, reused, renewed = ask(other, context, session)
    assert reused
    third = start('ssl_session_ticket_key @DIR@/new.key;', start=False)
    (third.directory / 'new.key').write_bytes(new)
    third.start()
    assert not ask(third, context, session)[1]
    assert ask(third, context, renewed)[1]


def test_key_file_of_the_wrong_size(start):
    s = start('ssl_session_ticket_key @DIR@/x.key;', start=False)
    (s.directory / 'x.key').write_bytes(b'short')
    code, said = s.test()
    assert code == 2 and 'cannot load ticket key' in said and 'it must be 48 or 80 bytes' in said

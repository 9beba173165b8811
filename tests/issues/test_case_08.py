"""A keep-alive client sends a POST at the moment of a reload: answered with Connection: close (h2: GOAWAY), no reset."""
import signal

from fastcgi_peer import answer
from h2.events import ConnectionTerminated
from harness import wait_until


def test_post_at_a_reload(origin, protocol):
    s, peer = origin(lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\n%d' % len(r.body))))
    for _ in range(3):
        client = s.connect(protocol)
        old = s.workers_pids()
        assert client.request('/', method='POST', body=b'x' * 10).body == b'10'
        s.process.send_signal(signal.SIGHUP)
        if protocol == 'h1':
            r = client.request('/', method='POST', body=b'x' * 100_000)
            while not r.closed:  # It was quicker than the signal.
                assert r.body == b'100000'
                r = client.request('/', method='POST', body=b'x' * 100_000)
            assert (r.status, r.body, r['connection']) == (200, b'100000', 'close')
            assert client.closed()
        else:
            while not any(isinstance(e, ConnectionTerminated) for e in client.events.get(0, [])):
                r = client.request('/', method='POST', body=b'x' * 100_000)
                assert (r.status, r.body) == (200, b'100000')
            while client.pump():
                pass
        client.close()
        wait_until(lambda: not set(old) & set(s.workers_pids()), 'the old worker to end')


def test_post_under_way_at_a_reload(origin, protocol):
    """Half of the body before the reload, half after it."""
    s, peer = origin(lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\n%d' % len(r.body))))
    client = s.connect(protocol)
    assert client.request('/', method='POST', body=b'x').body == b'1'  # The old worker has it now.
    if protocol == 'h1':
        client.send(b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345')
        s.reload()
        client.send(b'67890')
        r = client.read_response()
        assert (r.status, r.body, r['connection']) == (200, b'10', 'close') and client.closed()
    else:
        stream = client.start('/', 'POST', [('content-length', '10')], end=False)
        client.send_body(stream, b'12345', end=False)
        s.reload()
        client.send_body(stream, b'67890')
        r = client.read_response(stream)
        assert (r.status, r.body) == (200, b'10')

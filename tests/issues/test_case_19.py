"""PHP sends Connection, Keep-Alive or Transfer-Encoding: on h2 stripped, on h1 without effect on the framing."""
from fastcgi_peer import answer


def test_connection_fields(origin, protocol):
    s, _ = origin(answer(b'Connection: close\r\nKeep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\nUpgrade: x\r\nProxy-Connection: y\r\n'
                         b'Content-Type: text/plain\r\n\r\nbody'))
    client = s.connect(protocol)
    for _ in range(2):
        r = client.request('/')
        assert (r.status, r.body) == (200, b'body') and r['keep-alive'] is None and r['proxy-connection'] is None
        if protocol == 'h2':
            assert not {'connection', 'transfer-encoding', 'upgrade'} & {n for n, _ in r.fields}
        else:
            assert len(r.all('transfer-encoding')) <= 1 and len(r.all('connection')) <= 1
            if r.closed:
                client = s.connect(protocol)

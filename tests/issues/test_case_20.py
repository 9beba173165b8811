"""PHP flushes a line each second with X-Accel-Buffering: no: each arrives at once."""
import threading

import pytest
from fastcgi_peer import STDOUT, end_request, record, stdout


@pytest.mark.parametrize('field,location', [(b'X-Accel-Buffering: no\r\n', ''), (b'', 'fastcgi_buffering off;')])
def test_each_line_arrives_at_once(origin, protocol, field, location):
    lines = [b'line %d\n' % i for i in range(5)]
    seen = [threading.Event() for _ in lines]

    def handler(r):
        r.send(stdout(field + b'Content-Type: text/event-stream\r\n\r\n'))
        for line, event in zip(lines, seen):
            r.send(stdout(line))
            assert event.wait(10)  # The client has it before the next is written.
        r.send(record(STDOUT) + end_request())
    s, _ = origin(handler, location)
    client = s.connect(protocol)
    if protocol == 'h1':
        client.send(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
        assert b' 200 ' in client._until(b'\r\n\r\n')
        for line, event in zip(lines, seen):
            size = int(client._until(b'\r\n'), 16)
            assert client._exactly(size) == line and client._exactly(2) == b'\r\n'  # The chunk's end, too.
            event.set()
        assert client._exactly(5) == b'0\r\n\r\n'
    else:
        stream = client.start('/')
        for i, event in enumerate(seen):
            while b''.join(getattr(e, 'data', b'') for e in client.events.get(stream, [])) != b''.join(lines[:i + 1]):
                assert client.pump()
            event.set()
        assert client.read_response(stream).body == b''.join(lines)

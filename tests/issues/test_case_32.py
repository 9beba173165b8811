"""An endless download and several reloads: reload returns at once, the old generation ends after its set time."""
import signal
import threading

from fastcgi_peer import stdout
from harness import wait_until


def test_endless_download(origin, protocol):
    stop = threading.Event()

    def endless(r):
        r.send(stdout(b'X-Accel-Buffering: no\r\nContent-Type: text/plain\r\n\r\n'))
        while not stop.is_set():
            r.send(stdout(b'x' * 1000))
    s, _ = origin(endless, outer='location /who { return 200 ok; }')
    path = s.directory / 'corehttpd.conf'
    path.write_text('worker_shutdown_timeout 300ms;\n' + path.read_text())
    s.reload()
    wait_until(lambda: len(s.workers_pids()) == 1, 'the first worker to end')
    client = s.connect(protocol)
    stream = client.start('/') if protocol == 'h2' else client.send(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    ended = threading.Event()

    def read():
        try:
            client.read_response(stream) if protocol == 'h2' else client.read_response()
        except (EOFError, OSError):
            pass
        ended.set()
    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(3):
            s.reload()
            assert s.get('/who', protocol).body == b'ok'
        wait_until(lambda: len(s.workers_pids()) == 1, 'old generations to end')
        assert ended.wait(20)
    finally:
        stop.set()
        reader.join(20)
    assert s.stop(signal.SIGQUIT) == 0

"""Repeated restarts and reloads: never "Address already in use"."""
import signal

from harness import Http1, free_port, wait_until


def test_restarts(server):
    port = free_port()
    s = server(f'keepalive_timeout 300ms; server {{ listen @SOCK@; listen 127.0.0.1:{port}; location / {{ return 200; }} }}', start=False, workers=2)

    def up():
        try:
            return Http1(('127.0.0.1', port)).request('/').status == 200
        except OSError:
            return False
    for turn in range(6):
        s.start()
        wait_until(up, 'the port')
        kept = Http1(('127.0.0.1', port))
        assert kept.request('/').status == 200
        for _ in range(3):
            s.reload()
            assert up()
        s.stop((signal.SIGTERM, signal.SIGQUIT, signal.SIGINT)[turn % 3])
        assert 'in use' not in s.stderr_text()
    assert 'in use' not in s.log()

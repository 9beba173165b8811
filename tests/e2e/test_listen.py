"""listen: addresses that are not there yet, options of sockets as clients and the kernel see them, IPv6 and unix sockets."""
import re
import socket
import stat
import subprocess

import pytest
from harness import Http1, free_port, wait_until

SITE = 'location / { return 200 "$server_addr|$remote_addr"; }'


def options_of(port):
    """What ss shows of the listening socket."""
    shown = subprocess.run(['ss', '-Htlnoem', f'sport = :{port}'], capture_output=True, text=True, timeout=20).stdout
    return shown


def test_an_absent_address_does_not_keep_others_down(server):
    port = free_port()
    s = server(f'server {{ listen @SOCK@; listen 192.0.2.1:{port}; {SITE} }}')
    assert s.get('/').status == 200
    said = s.log() + s.stderr_text()
    assert '[warn]' in said and f'bind() to 192.0.2.1:{port}: this machine does not have that address now' in said
    code, said = s.test()
    assert code == 0 and 'it is served when it appears' in said and 'test is successful' in said


def test_options_reach_the_socket_and_follow_a_reload(server):
    port = free_port()
    text = f'server {{ listen 127.0.0.1:{port} %s; {SITE} }} server {{ listen @SOCK@; {SITE} }}'
    s = server(text % 'backlog=77 rcvbuf=64k sndbuf=32k deferred fastopen=5 so_keepalive=10m:30:4')
    assert Http1(('127.0.0.1', port)).request('/').body == b'127.0.0.1|127.0.0.1'
    shown = options_of(port)
    assert re.search(r'LISTEN\s+\d+\s+77\b', shown) and 'rb131072' in shown and 'tb65536' in shown, shown
    s.write_config(text % 'backlog=55 rcvbuf=128k')
    s.reload()
    wait_until(lambda: re.search(r'LISTEN\s+\d+\s+55\b', options_of(port)), 'the new backlog')
    assert 'rb262144' in options_of(port)
    # No longer deferred: nothing has to be sent to be accepted, and counted.
    client = Http1(('127.0.0.1', port))
    assert client.request('/').status == 200


def test_deferred_connections_are_accepted_with_their_bytes(server):
    port = free_port()
    s = server(f'server {{ listen 127.0.0.1:{port} deferred; listen @SOCK@; location / {{ stub_status; }} }}')
    silent = [socket.create_connection(('127.0.0.1', port)) for _ in range(5)]
    active = re.search(rb'Active connections: (\d+)', s.get('/').body)[1]
    assert int(active) == 1
    silent[0].sendall(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    assert silent[0].recv(1000).startswith(b'HTTP/1.1 200')


def test_both_families_on_one_socket_or_two(server):
    if not socket.has_dualstack_ipv6():
        pytest.skip('no IPv6 here')
    port, other = free_port(), free_port()
    server(f'''server {{ listen [::]:{port} ipv6only=off; {SITE} }}
        server {{ listen [::]:{other}; listen 0.0.0.0:{other}; {SITE} }}''')
    for number in (port, other):
        for address in ('127.0.0.1', '::1'):
            with socket.create_connection((address, number)) as client:
                client.sendall(b'GET / HTTP/1.0\r\n\r\n')
                body = client.recv(1000).split(b'\r\n\r\n')[1]
                # As nginx: a dual-stack socket shows IPv4 clients by their mapped addresses.
                mapped = '::ffff:' if number == port and ':' not in address else ''
                assert body == f'{mapped}{address}|{mapped}{address}'.encode()


def test_bad_options(server):
    for bad, said in [('so_keepalive=maybe', 'invalid so_keepalive value: "maybe"'), ('fastopen=x', 'invalid fastopen'),
                      ('backlog=0', 'invalid backlog'), ('rcvbuf=x', 'invalid rcvbuf'), ('nonsense', 'invalid parameter "nonsense"')]:
        code, text = server(f'server {{ listen 8080 {bad}; }}', start=False).test()
        assert code == 1 and said in text, text
    code, text = server('server { listen 127.0.0.1:%d setfib=1 accept_filter=x reuseport; }' % free_port(), start=False).test()
    assert code == 0 and 'setfib=1' in text and 'has no effect' in text


def test_unix_socket_is_open_to_all_and_removed_at_the_end(server):
    s = server(f'server {{ listen @SOCK@; {SITE} }}', tls=False)
    assert stat.S_IMODE(s.socket_path.stat().st_mode) == 0o666
    assert s.get('/').body == f'unix:{s.socket_path}|unix:'.encode()
    s.stop()
    assert not s.socket_path.exists()

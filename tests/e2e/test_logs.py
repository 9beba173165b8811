"""access_log, log_format and error_log: exact lines, escaping, conditions, buffers, levels, a full disk."""
import json
import os
import re
import signal

import pytest
from harness import Http1, wait_until

SITE = 'server { listen @SOCK@; root @DIR@/www; %s location / { return 200 "hello"; } }'
DATE = r'\d{2}/(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4}'


def lines(s, count, name='own.log'):
    """Waits for count lines; all of them."""
    wait_until(lambda: s.log(name).count('\n') >= count, f'{count} lines in {name}')
    return s.log(name).splitlines()


def version(protocol):
    return {'h1': 'HTTP/1.1', 'h2': 'HTTP/2.0'}[protocol]


def test_combined(server, protocol):
    s = server(SITE % '')
    s.get('/a%20b?x=1', protocol, headers=[('Referer', 'http://r.example/'), ('User-Agent', 'agent/1.0 (x)')])
    s.get('/', protocol)
    first, second = lines(s, 2, 'access.log')
    request = re.escape(f'"GET /a%20b?x=1 {version(protocol)}" 200 5 "http://r.example/" "agent/1.0 (x)"')
    assert re.fullmatch(rf'unix: - - \[{DATE}\] {request}', first), first
    assert re.fullmatch(rf'unix: - - \[{DATE}\] "GET / {version(protocol)}" 200 5 "-" "-"', second), second


def test_address_of_a_client(server):
    s = server('server { listen @SOCK@; listen 127.0.0.1:0; }', start=False)
    from harness import free_port
    port = free_port()
    s.write_config(f'log_format own "$remote_addr $remote_port $server_addr $server_port"; access_log @DIR@/own.log own;'
                   f'server {{ listen @SOCK@; listen 127.0.0.1:{port}; location / {{ return 200; }} }}')
    s.start()

    def connect():
        try:
            return Http1(('127.0.0.1', port))
        except OSError:
            return None
    client = wait_until(connect, 'the port')
    client.request('/')
    assert lines(s, 1) == [f'127.0.0.1 {client.socket.getsockname()[1]} 127.0.0.1 {port}']


ESCAPED = {
    'default': r'a\x22b\x5Cc\x09d \xC3\xBC|-|-',
    'json': 'a\\"b\\\\c\\td ü||',
    'none': 'a"b\\c\td ü||',
}


@pytest.mark.parametrize('how', ESCAPED)
def test_escaping(server, protocol, how):
    s = server(f'log_format own escape={how} "$http_x_own|$http_x_none|$arg_empty"; access_log @DIR@/own.log own;' + SITE % '')
    value = 'a"b\\c\td ü'
    s.get('/?empty=', protocol, headers=[('X-Own', value.encode().decode('latin-1') if protocol == 'h1' else value)])
    assert lines(s, 1) == [ESCAPED[how]]


def test_default_escaping_is_the_default(server):
    s = server('log_format own "$http_x_own"; access_log @DIR@/own.log own;' + SITE % '')
    s.get('/', headers=[('X-Own', 'a"b')])
    assert lines(s, 1) == [r'a\x22b']


def test_each_byte_is_escaped_or_not_wherever_it_stands(server):
    """Eight bytes are looked at together: each byte in each of their places, and behind one of each kind."""
    s = server('log_format own "$http_user_agent|$http_referer"; access_log @DIR@/own.log own;' + SITE % '')
    possible = bytes(b for b in range(256) if b == 9 or b >= 32 and b != 127)
    values = [bytes([b]).join([b'x' * place, b'y' * (8 - place)]) for place in range(8) for b in possible]
    values = [b'<' + b'"'.join(values[i:i + 40]) + b'>' for i in range(0, len(values), 40)]
    client = s.connect('h1')
    for value in values:
        client.request('/', headers=[('User-Agent', value.decode('latin-1')), ('Referer', 'a'), ('Referer', 'b')])
    plain = lambda b: 0x20 <= b < 0x7f and b not in b'"\\'
    expected = [''.join(chr(b) if plain(b) else f'\\x{b:02X}' for b in value) + '|a, b' for value in values]
    assert lines(s, len(values)) == expected


def test_json_lines_are_json_whatever_is_asked(server, protocol):
    s = server('''log_format own escape=json '{"uri":"$uri","args":"$args","agent":"$http_user_agent","status":"$status"}';
                  access_log @DIR@/own.log own;''' + SITE % '')
    agents = ['plain', 'quo"te', 'back\\slash', 'tab\there']
    for agent in agents:
        s.get('/%0a%22%5c%01%ff%c3%bc?%22', protocol, headers=[('User-Agent', agent)])
    for agent, line in zip(agents, lines(s, len(agents))):
        parsed = json.loads(line)
        assert parsed['uri'] == '/\n"\\\x01\ufffdü' and parsed['args'] == '%22'
        assert (parsed['agent'], parsed['status']) == (agent, '200')


def test_a_client_cannot_forge_lines(server, protocol):
    s = server('log_format own "$uri $http_x_own"; access_log @DIR@/own.log own;' + SITE % '')
    s.get('/a%0Aforged%0D', protocol)
    assert lines(s, 1) == [r'/a\x0Aforged\x0D -']
    s.get('/none%0Aforged', protocol, host='x')
    assert 'forged' not in [line[:6] for line in s.log('error.log').splitlines()]


def test_format_over_several_strings(server):
    s = server('''log_format own 'a ' "$request_method " '$status';
                  access_log @DIR@/own.log own;''' + SITE % '')
    s.get('/')
    assert lines(s, 1) == ['a GET 200']


def test_several_logs_with_formats(server, protocol):
    s = server('''log_format one "one $uri"; log_format two "two $status";
                  access_log @DIR@/own.log one; access_log @DIR@/second.log two; access_log @DIR@/third.log;''' + SITE % '')
    s.get('/x', protocol)
    assert lines(s, 1) == ['one /x']
    assert lines(s, 1, 'second.log') == ['two 200']
    assert '"GET /x ' in lines(s, 1, 'third.log')[0]


def test_inheritance_and_off(server, protocol):
    s = server('''log_format own "$uri"; access_log @DIR@/own.log own;''' + SITE % '''
        location /silent/ { access_log off; access_log @DIR@/own.log own; return 200; }
        location /silent/but/ { access_log @DIR@/but.log own; return 200; }
        location /other/ { access_log @DIR@/other.log own; return 200; }''' +
               'server { listen @SOCK@; server_name quiet; access_log off; location / { return 200; } }')
    s.get('/silent/x', protocol)
    s.get('/silent/but/x', protocol)
    s.get('/other/x', protocol)
    s.get('/x', protocol, host='quiet')
    s.get('/inherits', protocol)
    assert lines(s, 1) == ['/inherits']
    assert lines(s, 1, 'but.log') == ['/silent/but/x']
    assert lines(s, 1, 'other.log') == ['/other/x']


def test_condition(server, protocol):
    s = server('''log_format own "$uri"; map $status $loggable { ~^[23] 0; default 1; } map $uri $never { default ""; }
                  access_log @DIR@/own.log own if=$loggable; access_log @DIR@/never.log own if=$never;''' +
               SITE % 'location /bad { return 403; } location /zero { return 503; }')
    s.get('/good', protocol)
    s.get('/bad', protocol)
    s.get('/zero', protocol)
    assert lines(s, 2) == ['/bad', '/zero']
    assert s.log('never.log') == ''


def test_buffer_is_written_at_the_end(server, protocol):
    s = server('log_format own "$uri"; access_log @DIR@/own.log own buffer=64k; access_log @DIR@/second.log own;' + SITE % '')
    for i in range(20):
        s.get(f'/{i}', protocol)
    lines(s, 20, 'second.log')
    assert s.log('own.log') == ''  # Held back.
    s.stop(signal.SIGQUIT)
    assert s.log('own.log').splitlines() == [f'/{i}' for i in range(20)]


def test_buffer_is_written_when_it_is_full(server, protocol):
    s = server('log_format own "$uri"; access_log @DIR@/own.log own buffer=1k;' + SITE % '')
    client = s.connect(protocol)
    for i in range(100):
        client.request(f'/{i:050}')
    wait_until(lambda: s.log('own.log').count('\n') >= 75, 'the full buffers')
    s.stop()  # A fast stop loses nothing either.
    assert s.log('own.log').count('\n') == 100


def test_buffer_is_flushed_in_time(server, protocol):
    s = server('log_format own "$uri"; access_log @DIR@/own.log own buffer=64k flush=50ms;' + SITE % '')
    s.get('/timed', protocol)
    assert lines(s, 1) == ['/timed']


def test_buffer_is_written_before_a_reopen(server):
    s = server('log_format own "$uri"; access_log @DIR@/own.log own buffer=64k;' + SITE % '')
    s.get('/before')
    os.rename(s.directory / 'own.log', s.directory / 'own.log.1')
    s.process.send_signal(signal.SIGUSR1)
    assert lines(s, 1, 'own.log.1') == ['/before']
    wait_until((s.directory / 'own.log').exists, 'the new file')


def test_bytes(server, protocol):
    s = server('log_format own "$body_bytes_sent $bytes_sent $request_length $request_time"; access_log @DIR@/own.log own;'
               'server { listen @SOCK@; root @DIR@/www; location /up { fastcgi_pass unix:@DIR@/none.sock; } }')
    s.file('a.bin', b'x' * 100_000)
    client = s.connect(protocol)
    r = client.request('/a.bin')
    client.request('/a.bin', method='HEAD')
    client.request('/a.bin', headers=[('Range', 'bytes=0-9')])
    client.request('/up', method='POST', body=b'y' * 1000)  # Read for the origin, which is dead.
    got = [line.split() for line in lines(s, 4)]
    assert [g[0] for g in got[:3]] == ['100000', '0', '10']
    assert all(re.fullmatch(r'\d+\.\d{3}', g[3]) for g in got)
    body, sent, length = (int(n) for n in got[0][:3])
    if protocol == 'h1':
        head = 'HTTP/1.1 200 OK\r\n' + ''.join(f'{n}: {v}\r\n' for n, v in r.fields) + '\r\n'
        assert sent == body + len(head)
        assert length == len('GET /a.bin HTTP/1.1\r\nHost: localhost\r\n\r\n')
        assert int(got[3][2]) == len('POST /up HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n') + 1000
    else:
        assert body < sent < body + 1000 and 0 < length < 200
        assert 1000 < int(got[3][2]) < 1300


def test_body_bytes_of_a_generated_page(server, protocol):
    s = server(SITE % 'location /none { return 404; }')
    r = s.get('/none', protocol)
    assert f'" 404 {len(r.body)} "' in lines(s, 1, 'access.log')[0]


def test_refused_requests_are_logged(server):
    s = server(SITE % '')
    client = Http1(s.socket_path)
    client.send(b'GET / HTTP/1.1\r\nHost: a b\r\n\r\n')
    assert client.read_response().status == 400
    assert re.search(r'"GET / HTTP/1.1" 400 \d+ "-" "-"$', lines(s, 1, 'access.log')[0])
    client = Http1(s.socket_path)
    client.send(b'\x16\x03\x01\x02\x00\x01"\n\n')
    assert client.read_response().status == 400
    assert re.search(r'"\\x16\\x03\\x01\\x02\\x00\\x01\\x22" 400 \d+ "-" "-"$', lines(s, 2, 'access.log')[1]), s.log('access.log')


def test_timed_out_request_is_logged_as_408(server):
    s = server('client_body_timeout 50ms; ' + SITE % 'location /up { auth_request /ok; fastcgi_pass unix:@DIR@/none.sock; } location /ok { return 204; }')
    client = Http1(s.socket_path)
    client.send(b'POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab')
    client.rest()
    assert '"POST /up HTTP/1.1" 408 ' in lines(s, 1, 'access.log')[0]


def test_client_that_went_away_is_logged_as_499(server, protocol):
    from fastcgi_peer import Peer
    s = server(SITE % 'location /slow { fastcgi_pass unix:@DIR@/origin.sock; }')
    peer = Peer(s.directory / 'origin.sock', lambda r: r.connection.recv(1))
    try:
        client = s.connect(protocol)
        client.start('/slow') if protocol == 'h2' else client.send(b'GET /slow HTTP/1.1\r\nHost: x\r\n\r\n')
        wait_until(lambda: peer.requests, 'the request')
        client.close()
        assert f'"GET /slow {version(protocol)}" 499 0 "' in lines(s, 1, 'access.log')[0]
    finally:
        peer.close()


def test_internal_redirect_is_logged_where_it_ends(server, protocol):
    s = server('log_format own "$uri $request $status"; ' + SITE % '''
        access_log @DIR@/outer.log own;
        location /from { try_files /none /to; }
        location /to { access_log @DIR@/own.log own; return 200; }''')
    s.get('/from', protocol)
    assert lines(s, 1) == [f'/to GET /from {version(protocol)} 200']
    assert s.log('outer.log') == ''


def test_subrequests_are_not_logged_unless_asked(server, protocol):
    s = server('log_format own "$uri"; access_log @DIR@/own.log own;' + SITE % '''
        location /quiet { auth_request /ok; root @DIR@/www; }
        location /loud { auth_request /logged; root @DIR@/www; }
        location /ok { return 204; }
        location /logged { log_subrequest on; return 204; }''')
    s.get('/quiet', protocol)
    s.get('/loud', protocol)
    assert sorted(lines(s, 3)) == ['/logged', '/loud', '/quiet']


def test_full_disk(server, protocol):
    """Serving goes on, the outage is told once, and other logs get their lines."""
    s = server('log_format own "$uri"; access_log /dev/full own; access_log @DIR@/own.log own;' + SITE % '')
    client = s.connect(protocol)
    for i in range(200):
        assert client.request(f'/{i}').status == 200
    assert len(lines(s, 200)) == 200
    s.wait_log(r'\[alert\].*write\(\) to "/dev/full" failed \(28: No space left on device\)')
    client.close()
    assert s.stop(signal.SIGQUIT) == 0
    assert s.log().count('write() to "/dev/full" failed') == 1


def test_error_log_levels(server, protocol):
    s = server('''server { listen @SOCK@; root @DIR@/www; error_log @DIR@/crit.log crit; error_log @DIR@/error2.log error;
                  error_log @DIR@/info.log info; }
                  server { listen @SOCK@; server_name quiet; root @DIR@/www; error_log @DIR@/quiet.log; log_not_found off; }''')
    s.get('/none', protocol)
    s.get('/none', protocol, host='quiet')
    line = (r'^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[error\] \d+#\d+: \*\d+ open\(\) "' + re.escape(str(s.root)) +
            r'/none" failed \(2: No such file or directory\), client: unix:, server: , request: "GET /none ' + version(protocol) +
            r'", host: "localhost"$')
    s.wait_log(line, 'error2.log')
    s.wait_log(line, 'info.log')
    assert s.log('crit.log') == '' and s.log('quiet.log') == ''
    assert '/none' not in s.log('error.log')


def test_error_log_of_a_location(server, protocol):
    s = server('server { listen @SOCK@; root @DIR@/www; error_log @DIR@/outer.log; location /in/ { error_log @DIR@/inner.log; } }')
    s.get('/in/none', protocol)
    s.get('/out', protocol)
    s.wait_log('/in/none', 'inner.log')
    s.wait_log('/out', 'outer.log')
    assert '/out' not in s.log('inner.log') and '/in/none' not in s.log('outer.log')


def test_client_errors_are_info(server):
    s = server(SITE % '')
    client = Http1(s.socket_path)
    client.send(b'GET / HTTP/1.1\r\n\r\n')
    assert client.read_response().status == 400
    s.wait_log(r'\[info\] \d+#\d+: \*\d+ client sent HTTP/1.1 request without "Host" header.*, client: unix:, server: .*'
               r'request: "GET / HTTP/1.1"')


def test_one_file_for_many_sites_is_one_descriptor(server):
    s = server(''.join(f'server {{ listen @SOCK@; server_name s{i}; access_log @DIR@/own.log; location / {{ return 200; }} }}\n' for i in range(20)))
    for i in range(20):
        s.get('/', host=f's{i}')
    lines(s, 20)
    worker = s.worker()
    if os.geteuid() == 0:
        links = [os.readlink(f'/proc/{worker}/fd/{fd}') for fd in os.listdir(f'/proc/{worker}/fd')]
        assert links.count(str(s.directory / 'own.log')) == 1


def test_two_workers_write_whole_lines(server, protocol):
    import threading
    s = server('log_format own "$uri begin $http_x_pad end"; access_log @DIR@/own.log own;' + SITE % '', workers=2)

    def client(n):
        c = s.connect(protocol)
        for i in range(50):
            c.request(f'/{n}/{i}', headers=[('X-Pad', 'p' * 500)])
    threads = [threading.Thread(target=client, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    got = lines(s, 300)
    assert len(got) == 300
    assert sorted(got) == sorted(f'/{n}/{i} begin {"p" * 500} end' for n in range(6) for i in range(50))


@pytest.mark.parametrize('text,words', [
    ('access_log @DIR@/x.log nosuch;', 'unknown log format "nosuch"'),
    ('access_log @DIR@/x.log combined buffer=x;', 'invalid buffer size "buffer=x"'),
    ('access_log @DIR@/x.log combined flush=1s;', 'no buffer is defined for access_log'),
    ('access_log off x;', 'invalid parameter "x"'),
    ('log_format a "$uri"; log_format a "$uri";', 'duplicate "log_format" name "a"'),
    ('log_format combined "x";', 'duplicate "log_format" name "combined"'),
    ('log_format a escape=xml "$uri";', 'unknown log format escaping "xml"'),
    ('log_format a "$no_such_variable";', 'unknown "no_such_variable" variable'),
    ('error_log @DIR@/x.log loud;', 'invalid log level "loud"'),
])
def test_errors_in_the_configuration(server, text, words):
    s = server(text + ' server { listen @SOCK@; }', start=False)
    code, said = s.test()
    assert code == 1 and words in said

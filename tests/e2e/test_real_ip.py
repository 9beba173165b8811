"""set_real_ip_from, real_ip_header, real_ip_recursive."""
import pytest
from harness import free_port

SHOW = 'return 200 "$remote_addr $remote_port $realip_remote_addr $realip_remote_port";'


@pytest.fixture
def show(server, protocol):
    """show(directives) → ask(*fields): what the variables say of a client of the unix socket."""
    def make(text, location=''):
        s = server('server { listen @SOCK@; %s location / { %s %s } }' % (text, location, SHOW))
        connection = s.connect(protocol)

        def ask(*fields):
            return connection.request('/', headers=fields).body.decode()
        ask.server = s
        return ask
    return make


def test_x_real_ip(show):
    ask = show('set_real_ip_from unix:;')
    assert ask(('X-Real-IP', '192.0.2.1')) == '192.0.2.1  unix: '
    assert ask(('X-Real-IP', '192.0.2.1:8080')) == '192.0.2.1 8080 unix: '
    assert ask(('X-Real-IP', '[2001:db8::1]:80')) == '2001:db8::1 80 unix: '
    assert ask(('X-Real-IP', '2001:db8::1')) == '2001:db8::1  unix: '
    assert ask() == 'unix:  unix: '
    for bad in ('x', '192.0.2.1:x', '', 'unix:'):
        assert ask(('X-Real-IP', bad)) == 'unix:  unix: ', bad
    assert ask(('X-Forwarded-For', '192.0.2.1')) == 'unix:  unix: '
    ask.server.wait_log(r'^2001:db8::1 - ', 'access.log')


def test_not_trusted(show):
    ask = show('set_real_ip_from 127.0.0.1;')
    assert ask(('X-Real-IP', '192.0.2.1')) == 'unix:  unix: '


def test_forwarded_for(show):
    ask = show('set_real_ip_from unix:; set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For;')
    assert ask(('X-Forwarded-For', '203.0.113.9, 192.0.2.1')).startswith('192.0.2.1 ')
    assert ask(('X-Forwarded-For', '192.0.2.1, 10.0.0.1')).startswith('10.0.0.1 ')
    assert ask(('X-Forwarded-For', '192.0.2.1'), ('X-Forwarded-For', '203.0.113.9')).startswith('203.0.113.9 ')


def test_recursive(show):
    ask = show('set_real_ip_from unix:; set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on;')
    assert ask(('X-Forwarded-For', '203.0.113.9, 192.0.2.1, 10.0.0.2, 10.0.0.1')).startswith('192.0.2.1 ')
    assert ask(('X-Forwarded-For', '192.0.2.1'), ('X-Forwarded-For', '10.0.0.2')).startswith('192.0.2.1 ')
    assert ask(('X-Forwarded-For', '10.0.0.3, 10.0.0.2')).startswith('10.0.0.3 ')
    assert ask(('X-Forwarded-For', '192.0.2.1, garbage, 10.0.0.2')).startswith('10.0.0.2 ')


def test_any_field(show):
    ask = show('set_real_ip_from unix:; real_ip_header CF-Connecting-IP;')
    assert ask(('cf-connecting-ip', '192.0.2.1')).startswith('192.0.2.1 ')
    assert ask(('X-Real-IP', '192.0.2.1')).startswith('unix: ')


def test_preaccess(server, protocol):
    s = server('''server { listen @SOCK@; root @DIR@/www; location / { set_real_ip_from unix:; deny 192.0.2.1; add_header X-Addr $remote_addr; } }''')
    s.file('a.txt', b'body')
    connection = s.connect(protocol)
    assert connection.request('/a.txt', headers=[('X-Real-IP', '192.0.2.1')]).status == 403
    assert connection.request('/a.txt', headers=[('X-Real-IP', '192.0.2.2')])['x-addr'] == '192.0.2.2'
    s.wait_log('access forbidden by rule, client: 192.0.2.1')


def test_changed_once(server, protocol):
    """Internal redirects and the location do not take the reported address for a proxy's."""
    s = server('''server { listen @SOCK@; root @DIR@/www; set_real_ip_from unix:; set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For;
        add_header X-Addr $remote_addr always; error_page 404 /a.txt; }''')
    s.file('a.txt', b'body')
    r = s.get('/none', protocol, headers=[('X-Forwarded-For', '192.0.2.1, 10.0.0.9')])
    assert (r.status, r['x-addr']) == (404, '10.0.0.9')


def test_over_tcp(server, protocol):
    port = free_port()
    s = server(f'server {{ listen @SOCK@; listen 127.0.0.1:{port}; set_real_ip_from localhost; {SHOW} }}')
    client = s.connect(protocol, ('127.0.0.1', port))
    local = client.socket.getsockname()[1]
    assert client.request('/').body.decode() == f'127.0.0.1 {local} 127.0.0.1 {local}'
    assert client.request('/', headers=[('X-Real-IP', '192.0.2.1')]).body.decode() == f'192.0.2.1  127.0.0.1 {local}'


@pytest.mark.parametrize('text, words', [
    ('set_real_ip_from 10.0.0.0/40;', 'invalid parameter "10.0.0.0/40"'), ('set_real_ip_from unix:/x;', 'invalid parameter "unix:/x"'),
    ('set_real_ip_from nothing.invalid;', 'host not found in set_real_ip_from "nothing.invalid"'),
    ('real_ip_header "a b";', 'invalid field name "a b"'), ('real_ip_recursive x;', 'it must be "on" or "off"'),
])
def test_refused_configurations(server, text, words):
    code, said = server('server { listen @SOCK@; %s }' % text, start=False).test()
    assert code == 1 and words in said, said

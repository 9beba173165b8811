"""Client certificates: who is let in, on which connection."""
import ssl
import subprocess

import pytest
from certificates import Authority, authority, openssl
from harness import Https1, Https2, tls_context

OPEN = '''server { listen unix:@DIR@/t.sock ssl; server_name open.test; ssl_certificate @CA@/open.pem; ssl_certificate_key @CA@/open.key;
error_page 421 /misdirected; location = /misdirected { return 200 "open's own page"; }
location / { return 200 "open $ssl_client_verify"; } }
'''
GUARDED = '''server { listen unix:@DIR@/t.sock ssl; server_name guarded.test; ssl_certificate @CA@/guarded.pem; ssl_certificate_key @CA@/guarded.key;
%s location / { return 200 "guarded $ssl_client_verify $ssl_client_s_dn"; } }
'''
ON = 'ssl_verify_client on; ssl_client_certificate @CLIENTS@/clients.pem;'


@pytest.fixture(scope='session')
def ca():
    made = authority()
    if not (made.directory / 'open.pem').exists():
        made.make('open', ['open.test'])
        made.make('guarded', ['guarded.test'])
    return made


@pytest.fixture(scope='session')
def clients(ca):
    directory = ca.directory / 'clients'
    directory.mkdir(exist_ok=True)
    made = Authority(directory, 'clients')
    made.make('joe', serial=7)
    made.make('jane', serial=8)
    Authority(directory, 'strangers').make('stranger')
    return made


@pytest.fixture
def start(server, ca, clients):
    def make(guard=ON, more='', **options):
        text = OPEN + GUARDED % guard + more
        text = text.replace('@CA@', str(ca.directory)).replace('@CLIENTS@', str(clients.directory))
        return server(text, **options)
    return make


def connect(s, clients, who=None, name='guarded.test', kind=Https1, version=None, **more):
    pair = (clients.directory / f'{who}.pem', clients.directory / f'{who}.key') if who else None
    context = tls_context('h2' if kind is Https2 else 'http/1.1', certificate=pair, version=version)
    return kind(str(s.directory / 't.sock'), context, name, **more)


def ask(s, clients, who=None, host=None, name='guarded.test', **more):
    client = connect(s, clients, who, name, **more)
    try:
        return client.request('/', host=host or name)
    finally:
        client.close()


@pytest.mark.parametrize('kind', [Https1, Https2])
@pytest.mark.parametrize('version', [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_on(start, clients, kind, version):
    s = start()
    with_this = {'kind': kind, 'version': version}
    response = ask(s, clients, 'joe', **with_this)
    assert (response.status, response.body) == (200, b'guarded SUCCESS CN=joe,O=Test')
    response = ask(s, clients, **with_this)
    assert response.status == 400 and b'No required SSL certificate was sent' in response.body
    response = ask(s, clients, 'stranger', **with_this)
    assert response.status == 400 and b'The SSL certificate error' in response.body
    assert ask(s, clients, name='open.test', **with_this).body == b'open NONE'
    s.wait_log('client sent no required SSL certificate while reading client request headers')


def test_pages_for_it(start, clients):
    s = start(ON + ' error_page 495 =403 /bad; error_page 496 =401 /none; location = /bad { return 200 bad; } location = /none { return 200 none; }')
    response = ask(s, clients)
    assert (response.status, response.body) == (401, b'none')
    response = ask(s, clients, 'stranger')
    assert (response.status, response.body) == (403, b'bad')


def test_optional(start, clients):
    s = start('ssl_verify_client optional; ssl_client_certificate @CLIENTS@/clients.pem;')
    assert ask(s, clients, 'joe').body == b'guarded SUCCESS CN=joe,O=Test'
    assert ask(s, clients).body == b'guarded NONE '
    assert ask(s, clients, 'stranger').status == 400


def test_optional_no_ca(start, clients):
    s = start('ssl_verify_client optional_no_ca;')
    assert ask(s, clients).body == b'guarded NONE '
    response = ask(s, clients, 'stranger')
    assert response.status == 200 and response.body.startswith(b'guarded FAILED:unable to ')


def test_trusted_without_being_named(start, clients):
    s = start('ssl_verify_client on; ssl_trusted_certificate @CLIENTS@/clients.pem;')
    assert ask(s, clients, 'joe').status == 200 and ask(s, clients, 'stranger').status == 400


def test_revoked(start, clients):
    directory = clients.directory
    (directory / 'index.txt').write_text('')
    (directory / 'number').write_text('01\n')
    (directory / 'ca.conf').write_text(f'[ca]\ndefault_ca = this\n[this]\ndatabase = {directory}/index.txt\ncrlnumber = {directory}/number\n'
                                       'default_md = sha256\ndefault_crl_days = 10\n')
    base = ['ca', '-config', directory / 'ca.conf', '-keyfile', clients.key, '-cert', clients.pem]
    openssl(*base, '-revoke', directory / 'jane.pem')
    openssl(*base, '-gencrl', '-out', directory / 'crl.pem')
    s = start(ON + ' ssl_crl @CLIENTS@/crl.pem;')
    assert ask(s, clients, 'joe').status == 200
    assert ask(s, clients, 'jane').status == 400
    s.wait_log('certificate revoked while reading client request headers')


def test_depth(start, clients, ca):
    directory = clients.directory
    if not (directory / 'middle.pem').exists():
        openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=middle', '-keyout', directory / 'middle.key',
                '-out', directory / 'middle.csr')
        (directory / 'middle.ext').write_text('basicConstraints=critical,CA:TRUE\n')
        openssl('x509', '-req', '-in', directory / 'middle.csr', '-CA', clients.pem, '-CAkey', clients.key, '-CAcreateserial', '-days', 20,
                '-extfile', directory / 'middle.ext', '-out', directory / 'middle.pem')
        middle = Authority.__new__(Authority)
        middle.directory, middle.name, middle.pem, middle.key = directory, 'middle', directory / 'middle.pem', directory / 'middle.key'
        middle.make('deep')
        with open(directory / 'deep.pem', 'a') as file:
            file.write(middle.pem.read_text())
    # The depth counts certificates between the client's and the authority's, as the library has it.
    assert ask(start(ON + ' ssl_verify_depth 0;'), clients, 'deep').status == 400
    assert ask(start(ON + ' ssl_verify_depth 1;'), clients, 'deep').status == 200


@pytest.mark.parametrize('kind', [Https1, Https2])
def test_host_of_another_site_is_misdirected(start, clients, kind):
    """Case 29: on a connection to the open site nothing of the guarded one is served, with whatever certificate."""
    s = start()
    response = ask(s, clients, host='guarded.test', name='open.test', kind=kind)
    assert response.status == 421 or response.body == b"open's own page"
    assert b'guarded' not in response.body
    # Nor without a name.
    context = tls_context('h2' if kind is Https2 else 'http/1.1')
    context.check_hostname = False
    response = kind(str(s.directory / 't.sock'), context, None).request('/', host='guarded.test')
    assert b'guarded' not in response.body
    # The other way is harmless.
    assert ask(s, clients, 'joe', host='open.test', kind=kind).body == b'open SUCCESS'
    s.wait_log('client attempted to request the server name different from the one that was negotiated')


def test_sites_with_the_same_demands(start, clients):
    more = (GUARDED % ON).replace('guarded.test', 'second.test').replace('"guarded', '"second')
    s = start(more=more)
    assert ask(s, clients, 'joe', host='second.test').body.startswith(b'second SUCCESS')


@pytest.mark.parametrize('version', [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_session_of_another_site(start, clients, version):
    """Case 28: a session of the open site, resumed at the guarded one, counts as none."""
    s = start()
    context = tls_context('http/1.1', version=version)
    first = Https1(str(s.directory / 't.sock'), context, 'open.test')
    assert first.request('/', host='open.test').status == 200
    session = first.socket.session
    again = Https1(str(s.directory / 't.sock'), context, 'open.test', session)
    assert again.socket.session_reused and again.request('/', host='open.test').status == 200
    other = Https1(str(s.directory / 't.sock'), context, 'guarded.test', session)
    assert not other.socket.session_reused
    assert other.request('/', host='guarded.test').status == 400


@pytest.mark.parametrize('version', [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_who_it_was_is_known_after_resumption(start, clients, version):
    s = start()
    pair = (clients.directory / 'joe.pem', clients.directory / 'joe.key')
    context = tls_context('http/1.1', certificate=pair, version=version)
    first = Https1(str(s.directory / 't.sock'), context, 'guarded.test')
    assert first.request('/', host='guarded.test').status == 200
    again = Https1(str(s.directory / 't.sock'), context, 'guarded.test', first.socket.session)
    assert again.socket.session_reused
    assert again.request('/', host='guarded.test').body == b'guarded SUCCESS CN=joe,O=Test'


def test_variables(server, ca, clients):
    names = ['s_dn', 'i_dn', 's_dn_legacy', 'i_dn_legacy', 'serial', 'fingerprint', 'v_start', 'v_end', 'v_remain', 'raw_cert', 'escaped_cert']
    text = GUARDED.replace('"guarded $ssl_client_verify $ssl_client_s_dn"', '"' + '|'.join(f'$ssl_client_{n}' for n in names) + '"') % ON
    s = server(text.replace('@CA@', str(ca.directory)).replace('@CLIENTS@', str(clients.directory)))
    got = dict(zip(names, ask(s, clients, 'joe').body.decode().split('|')))
    pem = clients.directory / 'joe.pem'
    assert got['s_dn'] == 'CN=joe,O=Test' and got['i_dn'] == 'CN=clients'
    assert got['s_dn_legacy'] == '/O=Test/CN=joe' and got['i_dn_legacy'] == '/CN=clients'
    assert got['serial'] == '07' and got['v_remain'] == '19'
    digest = openssl('x509', '-in', pem, '-noout', '-fingerprint', '-sha1').decode().split('=')[1].strip()
    assert got['fingerprint'] == digest.replace(':', '').lower()
    dates = openssl('x509', '-in', pem, '-noout', '-dates').decode()
    assert f"notBefore={got['v_start']}" in dates and f"notAfter={got['v_end']}" in dates
    assert got['raw_cert'] == pem.read_text().strip()
    assert got['escaped_cert'].startswith('-----BEGIN%20CERTIFICATE-----%0A')


def test_authorities_that_are_not_there(start):
    s = start('ssl_verify_client on; ssl_client_certificate @DIR@/none.pem;', start=False)
    done = subprocess.run(s.command('-t'), capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and 'site "guarded.test" is degraded: cannot load client certificate authorities' in done.stderr
    s.start()
    with pytest.raises(ssl.SSLError, match='(?i)unrecognized.name'):
        Https1(str(s.directory / 't.sock'), None, 'guarded.test')

"""One site's missing certificate or unresolvable backend: the other sites start and stay up; the log and -t name it."""
SITES = '''server { listen @SOCK@; server_name good; location / { return 200 good; } }
server { listen @SOCK@; server_name bad; location / { fastcgi_pass no-such-host.invalid:9000; } location /fine { return 200 fine; } }'''


def test_unresolvable_backend(server, protocol):
    s = server(SITES)
    assert s.get('/', protocol, host='good').body == b'good'
    assert s.get('/fine', protocol, host='bad').body == b'fine'
    assert s.get('/', protocol, host='bad').status == 503
    s.wait_log('site "bad" is degraded: host not found in upstream "no-such-host.invalid:9000"')
    s.reload()
    assert s.get('/', protocol, host='good').body == b'good'
    code, said = s.test()
    assert code == 2 and 'site "bad" is degraded: host not found in upstream "no-such-host.invalid' in said


def test_missing_certificate(server, protocol):
    s = server('''server { listen @SOCK@; server_name good; location / { return 200 good; } }
server { listen @SOCK@; listen unix:@DIR@/tls.sock ssl; server_name bad; ssl_certificate @DIR@/none.pem; ssl_certificate_key @DIR@/none.key;
location / { return 200 clear; } }''')
    assert s.get('/', protocol, host='good').body == b'good'
    assert s.get('/', protocol, host='bad').body == b'clear'
    s.wait_log('site "bad" is degraded: cannot load certificate ".*/none.pem": open')
    code, said = s.test()
    assert code == 2 and 'site "bad" is degraded: cannot load certificate' in said

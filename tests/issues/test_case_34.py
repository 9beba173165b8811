"""One site's unresolvable backend: the other sites start and stay up; the log and -t name it."""
SITES = '''server { listen @SOCK@; server_name good; location / { return 200 good; } }
server { listen @SOCK@; server_name bad; location / { fastcgi_pass no-such-host.invalid:9000; } location /fine { return 200 fine; } }'''


def test_unresolvable_backend(server, protocol):
    s = server(SITES)
    assert s.get('/', protocol, host='good').body == b'good'
    assert s.get('/fine', protocol, host='bad').body == b'fine'
    assert s.get('/', protocol, host='bad').status in (502, 503)
    assert 'no-such-host.invalid' in s.log() + s.stderr_text()
    s.reload()
    assert s.get('/', protocol, host='good').body == b'good'
    code, said = s.test()
    assert code == 1 and 'host not found in upstream "no-such-host.invalid' in said

"""What is wrong with one site degrades that site: at start, in -t's exit code and JSON, and at a reload."""
import json
import signal
import subprocess

import pytest
from harness import CLEAR, DEADLINE, wait_until

SITES = '''server { listen @SOCK@; server_name good; location / { return 200 good; } }
server { listen @SOCK@; server_name bad www.bad; location / { fastcgi_pass no-such-host.invalid:9000; } location /fine { return 200 fine; } }'''
TLS = '''server { listen @SOCK@; listen unix:@DIR@/tls.sock ssl; server_name a; ssl_certificate @DIR@/a.pem; ssl_certificate_key @DIR@/a.key;
location / { return 200 a; } }
server { listen @SOCK@; server_name b; location / { return 200 b; } }'''


def certificate(directory, name='a'):
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=a', '-days', '30',
                    '-keyout', f'{directory}/{name}.key', '-out', f'{directory}/{name}.pem'], check=True, capture_output=True, timeout=DEADLINE)


def document(server, *more):
    done = subprocess.run(server.command('-t', '--json', *more), capture_output=True, text=True, timeout=DEADLINE)
    assert done.stderr == ''
    made = json.loads(done.stdout)
    assert made['exit_code'] == done.returncode
    return made


def test_backend_that_does_not_resolve(server, protocol):
    s = server(SITES)
    assert s.get('/', protocol, host='good').body == b'good'
    assert s.get('/fine', protocol, host='bad').body == b'fine'
    assert s.get('/', protocol, host='bad').status == 503
    line = r'\[warn\] .*site "bad" is degraded: host not found in upstream "no-such-host.invalid:9000" in .*/corehttpd.conf:'
    s.wait_log(line)
    assert 'site "bad" is degraded' in s.stderr_text()
    s.reload()  # It was so before: nothing refuses the reload.
    assert s.get('/', protocol, host='good').body == b'good'


def test_exit_codes(server):
    s = server('server { listen @SOCK@; }', start=False)
    assert s.test()[0] == 0
    code, said = s.test('-q')
    assert (code, said) == (0, '')
    s.write_config(SITES)
    code, said = s.test()
    assert code == 2 and 'site "bad" is degraded: host not found' in said
    assert said.endswith('corehttpd.conf test is successful, but 1 of 2 sites is degraded\n')
    code, said = s.test('-q')
    assert code == 2 and 'site "bad" is degraded' in said and 'syntax is ok' not in said
    s.write_config(SITES + 'nonsense;')
    assert s.test()[0] == 1


def test_a_group_with_another_server_is_no_fault(server):
    s = server('upstream u { server no-such-host.invalid:1; server unix:@DIR@/none.sock; } server { listen @SOCK@; location / { fastcgi_pass u; } }',
               start=False)
    code, said = s.test()
    assert code == 0 and '[warn] host not found in upstream "no-such-host.invalid:1"' in said
    s.write_config('upstream u { server no-such-host.invalid:1; } server { listen @SOCK@; location / { fastcgi_pass u; } }')
    code, said = s.test()
    assert code == 2 and f'site "unix:{s.socket_path}" is degraded: host not found in upstream "no-such-host.invalid:1"' in said


def test_every_site_degraded_still_starts(server):
    s = server('server { listen @SOCK@; server_name only; location / { fastcgi_pass no-such-host.invalid:9000; } }')
    assert s.get('/', host='only').status == 503


def test_json(server):
    s = server(SITES, start=False, tls=False)
    made = document(s)
    assert made['result'] == 'degraded' and made['exit_code'] == 2 and made['file'] == str(s.directory / 'corehttpd.conf') and made['sites'] == 2
    [fault] = made['degraded']
    assert (fault['site'], fault['names'], fault['kind']) == ('bad', ['bad', 'www.bad'], 'backend')
    assert fault['addresses'] == [f'unix:{s.socket_path}'] and fault['file'] == made['file']
    assert fault['reason'] == 'host not found in upstream "no-such-host.invalid:9000"'
    [said] = made['diagnostics']
    assert (said['severity'], said['file'], said['line'], said['column']) == ('warning', fault['file'], fault['line'], fault['column'])
    lines = (s.directory / 'corehttpd.conf').read_text().splitlines()
    assert said['text'] == lines[said['line'] - 1] and said['text'][said['column'] - 1:].startswith('no-such-host')
    assert 'degraded' in said['message'] and 'reload' in said['hint']


def test_json_of_errors(server):
    s = server('server { listen @SOCK@; }\nnonsense "\\"";\nrott /x;', start=False)
    made = document(s)
    assert made['result'] == 'refused' and made['exit_code'] == 1 and made['degraded'] == []
    assert [d['message'] for d in made['diagnostics'] if d['severity'] == 'error'] == ['unknown directive "nonsense"', 'unknown directive "rott"']
    assert 'did you mean "root"' in made['diagnostics'][-1]['hint']
    s.write_config('server { listen @SOCK@; }')
    assert document(s)['result'] == 'right'
    # Of the machine: without a place in the file.
    s.write_config('server { listen 192.0.2.1:8080; }')
    made = document(s)
    last = made['diagnostics'][-1]
    assert last['severity'] == 'warning' and last['line'] == 0 and 'bind() to 192.0.2.1:8080: this machine does not have' in last['message']
    assert made['result'] == 'right' and made['exit_code'] == 0
    s.write_config('server { listen 8080; } access_log @DIR@/none/access.log;')
    last = document(s)['diagnostics'][-1]
    assert last['severity'] == 'error' and last['line'] == 0 and 'failed (2: No such file or directory)' in last['message']


@pytest.mark.parametrize('data', [b'', b'\xff\xfe\x00', b'a "b', b'x' * 70000 + b';', b'http { server { root "\xc3\x28\x01"; oops } }'])
def test_json_is_always_valid(server, data):
    s = server('', start=False)
    (s.directory / 'corehttpd.conf').write_bytes(data)
    assert document(s)['result'] == 'refused'  # An empty file too: it has no http block.
    (s.directory / 'corehttpd.conf').unlink()
    made = document(s)
    assert made['result'] == 'refused' and 'No such file' in made['diagnostics'][0]['message']


@pytest.mark.parametrize('protocol', CLEAR)
def test_certificate_that_cannot_be_read(server, protocol):
    """Only the site's TLS is out."""
    s = server(TLS, start=False)
    certificate(s.directory)
    assert s.test()[0] == 0
    (s.directory / 'a.pem').unlink()
    code, said = s.test()
    assert code == 2 and f'site "a" is degraded: cannot load certificate "{s.directory}/a.pem": open() failed (2: No such file or directory)' in said
    s.start()
    assert s.get('/', protocol, host='a').body == b'a' and s.get('/', protocol, host='b').body == b'b'
    s.wait_log('site "a" is degraded: cannot load certificate')


@pytest.mark.parametrize('name, what', [('a.pem', 'certificate'), ('a.key', 'certificate key')])
def test_certificate_file_that_is_none(server, name, what):
    s = server(TLS, start=False)
    certificate(s.directory)
    good = (s.directory / name).read_text()
    for text, reason in [('', 'in PEM'), ('some other file\n', 'in PEM'), (good[:-20], 'has no end'), (good[:60] + '!' + good[60:], 'is damaged')]:
        (s.directory / name).write_text(text)
        code, said = s.test()
        assert code == 2 and f'cannot load {what} "{s.directory}/{name}": it' in said and reason in said, text
    (s.directory / name).write_text('')
    assert [fault['kind'] for fault in document(s)['degraded']] == ['certificate']


def test_certificates_that_are_not_there_at_all(server):
    """A mistake of the file, not of the machine: refused."""
    s = server('server { listen @SOCK@; listen unix:@DIR@/tls.sock ssl; }', start=False, tls=False)
    code, said = s.test()
    assert code == 1 and 'no "ssl_certificate" is defined for the "listen ... ssl" directive' in said
    s.write_config('server { listen @SOCK@; listen unix:@DIR@/tls.sock ssl; ssl_certificate x; }')
    code, said = s.test()
    assert code == 1 and 'no "ssl_certificate_key" is defined for certificate' in said
    # Inherited ones do. Of variables only the server name that a client sends.
    certificate(s.directory)
    s.write_config('ssl_certificate a.pem; ssl_certificate_key a.key; server { listen @SOCK@; listen unix:@DIR@/tls.sock ssl; }')
    assert s.test()[0] == 0
    s.write_config('ssl_certificate $host.pem; ssl_certificate_key $host.key; server { listen @SOCK@; listen unix:@DIR@/tls.sock ssl; }')
    code, said = s.test()
    assert code == 2 and '/$host.pem": "$host" is not known when a certificate is chosen' in said


def test_reload_that_would_degrade_a_healthy_site_is_refused(server):
    s = server(TLS, start=False, tls=False)
    certificate(s.directory)
    s.start()
    workers = s.workers_pids()
    (s.directory / 'a.key').rename(s.directory / 'kept')
    s.process.send_signal(signal.SIGHUP)
    s.wait_log(r'\[emerg\] .*site "a" is healthy now and would be degraded: cannot load certificate key ".*/a.key": open\(\) failed .* in .*:\d+')
    s.wait_log('the new configuration was refused, the old one goes on')
    assert s.workers_pids() == workers and s.get('/', host='a').body == b'a'
    # Another site may come in degraded: it is not healthy now.
    (s.directory / 'kept').rename(s.directory / 'a.key')
    s.write_config(TLS + '\n' + SITES)
    s.reload()
    assert s.get('/', host='bad').status == 503 and s.get('/', host='a').body == b'a'
    # And once its fault is gone it is healthy, and protected.
    s.write_config((TLS + '\n' + SITES).replace('no-such-host.invalid:9000', f'unix:{s.directory}/none.sock'))
    s.reload()
    wait_until(lambda: s.get('/', host='bad').status == 502, 'the backend that is there but does not answer')
    s.write_config(TLS + '\n' + SITES)
    s.process.send_signal(signal.SIGHUP)
    s.wait_log('site "bad" is healthy now and would be degraded: host not found')


def test_status_names_degraded_sites(server):
    s = server(SITES)
    done = subprocess.run(s.command('--status', '--json'), capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    [fault] = json.loads(done.stdout)['sites_degraded']
    assert fault['name'] == 'bad' and fault['reason'] == 'host not found in upstream "no-such-host.invalid:9000"' and fault['line'] > 0
    done = subprocess.run(s.command('-s', 'reload'), capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    # What refuses a reload is what "-s reload" says.
    s.write_config(SITES.replace('return 200 good', 'fastcgi_pass no-such-host.invalid:1'))
    done = subprocess.run(s.command('-s', 'reload'), capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 1 and 'site "good" is healthy now and would be degraded: host not found' in done.stderr

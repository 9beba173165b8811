"""fastcgi_* as nginx documents them, one after another: parameters, heads in odd pieces, conditions, error pages, variables."""
import threading

import pytest
from fastcgi_peer import STDERR, STDOUT, Peer, answer, end_request, record, stdout, wait_until

LOG = ('log_format up "$uri|$upstream_addr|$upstream_status|$upstream_response_length|$upstream_header_time|$upstream_response_time|$upstream_connect_time'
       '|$upstream_bytes_received|$upstream_http_x_one|$upstream_cookie_c|$upstream_trailer_x"; access_log @DIR@/up.log up; error_log @DIR@/error.log info; ')
HEAD = b'Content-Type: text/plain\r\n'


def show(r):
    """The parameters, as they came."""
    r.send(answer(HEAD + b'\r\n' + '\n'.join(f'{n}={v}' for n, v in r.param_list).encode('latin-1') + b'\n' + r.body))


@pytest.fixture
def site(server, directory):
    peers = []

    def make(locations, handler=show, http='', **more):
        s = server(LOG + http + ' server { listen @SOCK@; root @DIR@/www; fastcgi_pass_header X-Kept; ' + locations + ' }', **more)
        peers.append(Peer(s.directory / 'a.sock', handler if callable(handler) else lambda r: r.send(handler)))
        return s

    yield make
    for peer in peers:
        peer.close()
        assert not peer.errors, peer.errors


PASS = 'fastcgi_pass unix:@DIR@/a.sock; '


def test_parameters(site):
    s = site('location /none { ' + PASS + '} location /own { fastcgi_param OWN 1; ' + PASS + '} '
             'location /empty { fastcgi_param A "" if_not_empty; fastcgi_param B $arg_b if_not_empty; fastcgi_param C $arg_c; ' + PASS + '} '
             'location /same { fastcgi_param X 1; fastcgi_param X 2; fastcgi_param HTTP_X_FOO ours; fastcgi_param HTTP_X_GONE "" if_not_empty; ' + PASS + '} '
             'location /index { fastcgi_index i.php; fastcgi_param S $fastcgi_script_name; fastcgi_param P "$fastcgi_path_info"; ' + PASS + '} '
             r'location /split { fastcgi_split_path_info ^(.+\.php)(/.*)$; fastcgi_param S $fastcgi_script_name; fastcgi_param P "$fastcgi_path_info"; ' + PASS + '} '
             'location /plain { fastcgi_pass_request_headers off; fastcgi_pass_request_body off; fastcgi_param L $content_length; ' + PASS + '} '
             'location /outer/ { fastcgi_param OUTER 1; location /outer/in { ' + PASS + '} }',
             http='fastcgi_param OF_HTTP yes; ')

    def params(path, **more):
        return s.get(path, **more).body.decode().splitlines()
    assert 'OF_HTTP=yes' in params('/none')
    assert [p for p in params('/own') if not p.startswith('HTTP_')] == ['OWN=1']
    assert [p for p in params('/empty?b=1') if not p.startswith('HTTP_')][:2] == ['B=1', 'C=']
    same = params('/same', headers=[('X-Foo', 'theirs'), ('X-Gone', 'theirs'), ('X-Bar', '1'), ('X-Bar', '2'), ('Cookie', 'a=1'), ('Cookie', 'b=2')])
    assert [p for p in same if p.startswith('X=')] == ['X=1', 'X=2']
    assert [p for p in same if 'FOO' in p or 'GONE' in p] == ['HTTP_X_FOO=ours']
    assert 'HTTP_X_BAR=1, 2' in same and 'HTTP_COOKIE=a=1; b=2' in same
    assert {'S=/index/i.php', 'P='} <= set(params('/index/'))
    assert {'S=/split/a.php', 'P=/b/c'} <= set(params('/split/a.php/b/c'))
    assert {'S=/split/a', 'P='} <= set(params('/split/a'))
    plain = params('/plain', method='POST', body=b'body')
    assert not [p for p in plain if p.startswith('HTTP_')] and 'body' not in plain
    assert 'OUTER=1' in params('/outer/in')


def test_a_body_that_is_not_passed_is_read(site, protocol):
    """Its limit holds, its length is known, and the origin may be told of its file."""
    s = site('location / { fastcgi_pass_request_body off; client_max_body_size 10k; fastcgi_param L $content_length; ' + PASS + '} '
             'location /file { client_body_in_file_only clean; fastcgi_pass_request_body off; fastcgi_param F $request_body_file; ' + PASS + '} ')
    said = s.get('/', protocol, method='POST', body=b'a' * 5000, chunked=True).body.decode()
    assert 'L=5000' in said.splitlines() and 'aaa' not in said
    assert s.get('/', protocol, method='POST', body=b'a' * 20000, chunked=True).status == 413
    assert any(line.startswith('F=/') for line in s.get('/file', protocol, method='POST', body=b'a').body.decode().splitlines())


def test_heads_in_pieces(site):
    def handler(r):
        path = r.params['URI']
        page = HEAD + b'X-One: 1\r\n\r\npage'
        if path == '/bytes':  # Each byte its own record, with padding of every size, among empty ones and the error stream.
            r.send(b''.join(record(STDOUT, page[i:i + 1], padding=i % 256) for i in range(len(page))))
            r.send(record(STDERR, b'in between') + record(STDERR) + record(STDOUT) + end_request())
        elif path == '/torn':
            data = answer(page)
            for i in range(0, len(data), 7):
                r.send(data[i:i + 7])
        elif path == '/behind':  # What follows the end is nobody's.
            r.send(answer(page) + stdout(b'more') + end_request())
        elif path == '/alone':
            r.send(answer(b'Status: 404\r\n\r\n'))
        elif path == '/reason':
            r.send(answer(b'Status: 299 Very Odd Indeed\n\n'))
        elif path == '/noend':
            r.send(stdout(HEAD + b'Content-Length: 4\r\n\r\npage'))
            r.connection.close()
        elif path == '/short':
            r.send(answer(HEAD + b'Content-Length: 100\r\n\r\nSEE'))
        elif path == '/long':
            r.send(answer(HEAD + b'Content-Length: 4\r\n\r\npage-and-more'))
        elif path == '/empty':
            r.send(answer(HEAD + b'\r\n'))
        elif path == '/location':
            r.send(answer(b'Location: http://elsewhere.example/\r\n\r\n'))
        elif path == '/dated':
            r.send(answer(HEAD + b'Last-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\nETag: "tag"\r\nSet-Cookie: c=1\r\n\r\npage'))
        elif path == '/ranges':
            r.send(answer(HEAD + b'Content-Length: 4\r\n\r\npage'))
        elif path == '/hop':
            r.send(answer(HEAD + b'Connection: close, X-Gone\r\nX-Gone: 1\r\nTransfer-Encoding: chunked\r\nX-Kept: 1\r\nX-Accel-Expires: 1\r\n\r\npage'))
    s = site('location / { fastcgi_param URI $uri; ' + PASS + '} location /ranges { fastcgi_force_ranges on; fastcgi_param URI $uri; ' + PASS + '} location /behind { fastcgi_keep_conn on; fastcgi_param URI $uri; ' + PASS + '} ', handler)
    for path in ('/bytes', '/torn', '/behind', '/noend'):
        r = s.get(path)
        assert (path, r.status, r.body) == (path, 200, b'page')
    s.wait_log('FastCGI sent in stderr: "in between" while reading')
    r = s.get('/alone')
    assert (r.status, r.body) == (404, b'')
    assert s.get('/reason').status == 299
    assert s.get('/long').body == b'page'
    client = s.connect('h1')
    client.send(b'GET /short HTTP/1.1\r\nHost: x\r\n\r\n')
    assert b'SEE' in client.rest()  # And the connection ends: it was promised more.
    r = s.get('/empty')
    assert (r.status, r.body, r['content-length']) == (200, b'', '0')
    r = s.get('/location')
    assert (r.status, r['location']) == (302, 'http://elsewhere.example/')
    for path in ('/bytes', '/noend', '/long', '/empty', '/dated'):
        r = s.get(path, method='HEAD')
        assert (r.status, r.body) == (200, b'')
    for conditions in ([('If-None-Match', '"tag"')], [('If-Modified-Since', 'Mon, 28 Sep 1970 06:00:00 GMT')]):
        r = s.get('/dated', headers=conditions)
        assert (r.status, r.body, r['set-cookie']) == (200, b'page', 'c=1')
    # The script has run: it was for it to judge.
    assert s.get('/dated', headers=[('If-Match', '"other"')]).body == b'page'
    assert s.get('/noend', method='POST', body=b'x', headers=[('If-None-Match', '*')]).body == b'page'
    assert s.get('/ranges', headers=[('Range', 'bytes=9-')]).status == 416
    assert s.get('/ranges', headers=[('Range', 'bytes=1-2')]).body == b'ag'
    assert s.get('/dated', headers=[('If-None-Match', '"other"')]).body == b'page'
    r = s.get('/hop')
    assert (r.body, r['x-kept'], r['x-gone'], r['x-accel-expires']) == (b'page', '1', None, None)


def test_error_pages_and_variables(site):
    def handler(r):
        status = r.params['URI'][1:4]
        r.send(answer(b'Status: ' + status.encode() + b' X\r\nX-One: one\r\nSet-Cookie: c=crumb; Path=/\r\nWWW-Authenticate: Basic\r\nX-Accel-Redirect: ' +
                      r.params.get('TO', '').encode() + b'\r\n\r\nown') if r.params.get('TO') else
               answer(b'Status: ' + status.encode() + b' X\r\nX-One: one\r\nSet-Cookie: c=crumb; Path=/\r\nWWW-Authenticate: Basic\r\n\r\nown'))
    s = site('fastcgi_param URI $uri; location / { fastcgi_intercept_errors on; error_page 404 /page.html; error_page 401 /page.html; error_page 500 =200 @named; ' + PASS + '} '
             'location = /page.html { } location @named { return 201 named; } location /404/off { error_page 404 /page.html; ' + PASS + '} '
             'location /200/jump { fastcgi_param URI $uri; fastcgi_param TO /page.html; ' + PASS + '} '
             'location /200/stay { fastcgi_param URI $uri; fastcgi_param TO /page.html; fastcgi_ignore_headers X-Accel-Redirect; fastcgi_hide_header X-One; ' + PASS + '} '
             'location /200/two { fastcgi_param URI $uri; fastcgi_pass two; } ', handler, http='upstream two { server unix:@DIR@/gone.sock max_fails=0; server unix:@DIR@/a.sock backup; } ')
    s.file('page.html', 'the page')
    r = s.get('/404/x')
    assert (r.status, r.body) == (404, b'the page')
    r = s.get('/401/x')
    assert (r.status, r.body, r['www-authenticate']) == (401, b'the page', 'Basic')
    r = s.get('/503/x')  # No page of ours.
    assert (r.status, r.body) == (503, b'own')
    assert s.get('/500/x').body == b'named'
    assert s.get('/404/off').body == b'own'
    assert s.get('/200/jump').body == b'the page'
    r = s.get('/200/stay')
    assert (r.body, r['x-one'], r['x-accel-redirect']) == (b'own', None, None)
    assert s.get('/200/two').body == b'own'
    line = wait_until(lambda: [x for x in s.log('up.log').splitlines() if x.startswith('/200/two|')], 'the line')[0].split('|')
    assert line[1].endswith('a.sock') and line[1].count(', ') == 1
    assert line[2:4] == ['502, 200', '0, 3']
    header, response, connect = (x.split(', ') for x in line[4:7])
    assert header[0] == '-' and float(header[1]) >= 0 and len(response) == 2 and connect[0] == '-' and float(connect[1]) >= 0
    assert line[7].startswith('0, ') and line[8:] == ['one', 'crumb', '-']


def test_files_in_place_of_an_answer(site):
    s = site('fastcgi_param TO $arg_to; location / { fastcgi_x_sendfile on; ' + PASS + '} location /more { fastcgi_x_sendfile @DIR@/own; ' + PASS + '} '
             'location /again { error_page 404 =200 /off; fastcgi_x_sendfile on; ' + PASS + '} location /off { ' + PASS + '} location /accel { fastcgi_param ACCEL 1; fastcgi_param TO $arg_to; ' + PASS + '} location /in/ { internal; }',
             lambda r: r.send(answer(b'Content-Type: image/x-own\r\nSet-Cookie: c=1\r\n' + (b'X-Accel-Redirect: ' if 'ACCEL' in r.params else b'X-Sendfile: ') +
                                     r.params['TO'].encode() + b'\r\n\r\nown')))
    s.file('in/a.txt', b'the file')
    directory = s.directory
    (directory / 'own').mkdir()
    (directory / 'own' / 'b').write_bytes(b'another')
    inside, outside = f'{s.root}/in/a.txt', f'{directory}/own/b'
    for r in (s.get(f'/?to={inside}'), s.get('/accel?to=/in/a.txt'), s.get(f'/?to={inside}', method='POST', body=b'x')):
        assert (r.status, r.body, r['content-type'], r['set-cookie'], r['x-sendfile']) == (200, b'the file', 'image/x-own', 'c=1', None)
    r = s.get(f'/?to={inside}', headers=[('Range', 'bytes=4-')])
    assert (r.status, r.body) == (206, b'file')
    assert s.get(f'/more?to={outside}').body == b'another'
    for path in (outside, f'{s.root}/../own/b', 'in/a.txt', f'{s.root}x/b'):
        assert s.get(f'/?to={path}').status == 403
    s.wait_log('which may not be sent')
    assert s.get(f'/?to={s.root}/gone').status == 404
    assert s.get(f'/off?to={inside}').body == b'own'
    assert s.get(f'/again?to={s.root}/gone').body == b'own'  # The error's page is an origin's, which is asked.


def test_uploads_as_they_come(site):
    s = site('location / { fastcgi_request_buffering off; fastcgi_param L $content_length; ' + PASS + '}')
    client = s.connect('h1')
    client.send(b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc')
    client.send(b'end')
    r = client.read_response()
    assert r.status == 200 and r.body.endswith(b'abcend') and b'L=6' in r.body


def test_a_queued_request_goes_on_alone(site, directory):
    directory.joinpath('x.pool').write_text(f'[php]\nlisten = {directory}/a.sock\npm = static\npm.max_children = 1\n')
    release, bodies = threading.Event(), []

    def handler(r):
        bodies.append((r.params['URI'], r.body))
        if r.params['URI'] == '/first':
            release.wait(10)
        r.send(answer(HEAD + b'\r\nok'))
    s = site('location / { fastcgi_param URI $uri; fastcgi_ignore_client_abort on; ' + PASS + '} location /no { fastcgi_param URI $uri; ' + PASS + '}', handler,
             http='fastcgi_pool_files @DIR@/*.pool; ')
    first = s.connect('h1')
    first.send(b'GET /first HTTP/1.1\r\nHost: x\r\n\r\n')
    wait_until(lambda: bodies, 'the first request')
    for path in (b'/second', b'/no'):
        client = s.connect('h1')
        client.send(b'POST ' + path + b' HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody')
        wait_until(lambda: s.status()['pools'][0]['waiting'] >= 1, 'its place in the queue')
        client.close()
    s.wait_log('client prematurely closed connection')
    release.set()
    assert first.read_response().status == 200
    wait_until(lambda: len(bodies) == 2, 'the second request')
    assert bodies[1] == ('/second', b'body')
    assert s.get('/no').status == 200
    assert [path for path, _ in bodies] == ['/first', '/second', '/no']


def test_orders_of_the_script(site):
    heads = {
        '/charset': HEAD + b'X-Accel-Charset: koi8-r\r\n', '/same': HEAD + b'X-Accel-Charset: utf-8\r\n', '/named': b'X-Accel-Redirect: @second\r\n',
        '/uri': b'X-Accel-Redirect: /second\r\n', '/status': b'Status: 404 Gone away\r\n' + HEAD,
        '/up': b'X-Accel-Redirect: /files/../files/a.txt\r\n', '/escaped': b'X-Accel-Redirect: /files/%2E./a.txt\r\n',
        '/slash': b'X-Accel-Redirect: /files/x%2f../a.txt\r\n', '/dots': b'X-Accel-Redirect: /files/..a..\r\n',
    }

    def handler(r):
        uri = r.params['URI']
        r.send(answer(heads[uri] + b'\r\npage') if uri in heads else answer(HEAD + b'\r\n' + r.params['METHOD'].encode()))
    s = site('fastcgi_param URI $uri; fastcgi_param METHOD $request_method; charset utf-8; charset_types *; location / { ' + PASS + '} '
             'location @second { fastcgi_param URI /method; fastcgi_param METHOD $request_method; ' + PASS + '} '
             'location = /second { fastcgi_param URI /method; fastcgi_param METHOD $request_method; ' + PASS + '} location = /status { fastcgi_pass_header Status; ' + PASS + '} '
             'location /files/ { internal; alias @DIR@/www/; }', handler)
    s.file('a.txt', 'a file')
    s.file('..a..', 'a name')
    assert s.get('/charset')['content-type'] == 'text/plain; charset=koi8-r'
    assert s.get('/same')['content-type'] == 'text/plain; charset=utf-8'
    assert s.get('/named', method='POST', body=b'x').body == b'POST'
    assert s.get('/uri', method='POST', body=b'x').body == b'GET'
    r = s.get('/status')
    assert (r.status, r['status']) == (404, '404 Gone away')
    assert [s.get(path).status for path in ('/up', '/escaped', '/slash')] == [404] * 3
    assert s.log().count('was detected in X-Accel-Redirect') == 3
    assert s.get('/dots').body == b'a name'

"""Servers by name, locations, root and alias, index, try_files, return, rewrite, error_page, internal redirects."""
import pytest


def test_server_names(server, protocol):
    def site(names, text, more=''):
        return f'server {{ listen @SOCK@ {more}; server_name {names}; location / {{ return 200 "{text} $host"; }} }}\n'
    s = server(site('first.example', 'first') + site('exact.example other.example', 'exact') + site('*.wild.example', 'leading') +
               site('trailing.*', 'trailing') + site('.dot.example', 'dot') + site(r'~^re(\d+)\.example$', 'regex $1') +
               site('""', 'empty') + site('_', 'default', 'default_server'))
    for host, text in [('first.example', 'first'), ('EXACT.example', 'exact'), ('exact.example:8080', 'exact'), ('other.example.', 'exact'),
                       ('a.wild.example', 'leading'), ('a.b.wild.example', 'leading'), ('trailing.org', 'trailing'),
                       ('dot.example', 'dot'), ('x.dot.example', 'dot'), ('re42.example', 'regex 42'), ('unknown', 'default')]:
        r = s.get('/', protocol, host=host)
        assert r.body.decode() == f'{text} {host.lower().split(":")[0].rstrip(".")}', host


def test_location_precedence(server, protocol):
    s = server(r'''server { listen @SOCK@;
        location = / { return 200 "exact /"; }
        location / { return 200 "prefix /"; }
        location /documents/ { return 200 "prefix /documents/"; }
        location ^~ /images/ { return 200 "^~ /images/"; }
        location ~* \.(gif|jpg)$ { return 200 "regex $1"; }
        location ~ \.PHP$ { return 200 "case"; }
        location = /documents/exact.gif { return 200 "exact gif"; }
        location /nested/ { location /nested/in/ { return 200 "nested"; } location ~ \.txt$ { return 200 "nested regex"; } return 200 "outer"; }
        }''')
    for path, text in [('/', 'exact /'), ('/index.html', 'prefix /'), ('/documents/document.html', 'prefix /documents/'),
                       ('/images/1.gif', '^~ /images/'), ('/documents/1.JPG', 'regex JPG'), ('/a.php', 'prefix /'), ('/a.PHP', 'case'),
                       ('/documents/exact.gif', 'exact gif'), ('/nested/in/x', 'nested'), ('/nested/x.txt', 'nested regex'), ('/nested/x', 'outer')]:
        assert s.get(path, protocol).body.decode() == text, path


def test_normalized_path(server, protocol):
    s = server('server { listen @SOCK@; location / { return 200 "$uri|$args|$request_uri"; } }')
    for path, text in [('/a/../b', '/b||/a/../b'), ('/a/./b//c?x=1', '/a/b/c|x=1|/a/./b//c?x=1'), ('/%61%2Fb', '/a/b||/%61%2Fb'),
                       ('/a%20b', '/a b||/a%20b'), ('/?a?b', '/|a?b|/?a?b')]:
        assert s.get(path, protocol).body.decode() == text, path
    for path in ('/%00', '/a%0', '/%zz', '/../x', '/a/../../x'):
        assert s.get(path, protocol).status == 400, path


def test_root_alias_index(server, protocol):
    s = server(r'''server { listen @SOCK@; root @DIR@/www; index first.html second.html /fallback.html;
        location /alias/ { alias @DIR@/www/target/; }
        location ~ ^/users/(\w+)/(.*)$ { alias @DIR@/www/home/$1/$2; }
        location /other/ { root @DIR@/www/rooted; }
        location /fallback.html { return 200 fallback; } }''')
    s.file('dir/second.html', b'second')
    s.file('target/a.txt', b'aliased')
    s.file('home/me/x.txt', b'home')
    s.file('rooted/other/a.txt', b'rooted')
    (s.root / 'none').mkdir()
    assert s.get('/dir/', protocol).body == b'second'
    assert s.get('/none/', protocol).body == b'fallback'
    assert s.get('/alias/a.txt', protocol).body == b'aliased'
    assert s.get('/users/me/x.txt', protocol).body == b'home'
    assert s.get('/other/a.txt', protocol).body == b'rooted'


def test_try_files(server, protocol):
    s = server(r'''server { listen @SOCK@; root @DIR@/www;
        location / { try_files $uri $uri/ /index.txt?from=$uri; }
        location /code/ { try_files $uri =418; }
        location /named/ { try_files /nowhere @named; }
        location @named { return 200 "named $uri"; }
        location = /index.txt { return 200 "index $args"; } }''')
    s.file('a.txt', b'a')
    s.file('dir/index.html', b'dir index')
    assert s.get('/a.txt', protocol).body == b'a'
    assert s.get('/dir/', protocol).body == b'dir index'
    assert s.get('/missing?x=1', protocol).body == b'index from=/missing'
    assert s.get('/code/x', protocol).status == 418
    assert s.get('/named/x', protocol).body == b'named /named/x'


def test_return(server, protocol):
    s = server(r'''server { listen @SOCK@; default_type text/x-own;
        location /text { return 200 "text $arg_a"; }
        location /code { return 404; }
        location /moved { return 301 /new$is_args$args; }
        location /url { return https://other.example$request_uri; }
        location /temp { return 307 http://other.example/; }
        location /empty { return 204; } }''')
    r = s.get('/text?a=1', protocol)
    assert (r.status, r.body, r['content-type']) == (200, b'text 1', 'text/x-own')
    assert s.get('/code', protocol).status == 404
    r = s.get('/moved?q', protocol, host='h.example')
    assert (r.status, r['location']) == (301, f'{s.scheme}://h.example/new?q')
    r = s.get('/url?x', protocol)
    assert (r.status, r['location']) == (302, 'https://other.example/url?x')
    assert s.get('/temp', protocol).status == 307
    r = s.get('/empty', protocol)
    assert (r.status, r.body, r['content-length']) == (204, b'', None)


def test_return_444_closes_without_an_answer(server, protocol):
    s = server('server { listen @SOCK@; location / { return 444; } }')
    client = s.connect(protocol)
    with pytest.raises((EOFError, ConnectionError)):
        client.request('/')


def test_redirect_forms(server, protocol):
    s = server('''server { listen @SOCK@; server_name named.example;
        location /relative { absolute_redirect off; return 301 /x; }
        location /name { server_name_in_redirect on; return 301 /x; } }''')
    assert s.get('/relative', protocol)['location'] == '/x'
    assert s.get('/name', protocol, host='other.example')['location'] == f'{s.scheme}://named.example/x'


def test_rewrite_set_if(server, protocol):
    s = server(r'''server { listen @SOCK@;
        set $from server;
        rewrite ^/old/(.*)$ /new/$1 last;
        location /new/ { return 200 "$uri $from $args"; }
        location /redirect/ { rewrite ^/redirect/(.*) /to/$1 permanent; }
        location /break/ { rewrite ^/break/(.*)$ /broken/$1 break; return 200 "not reached"; }
        location /if/ { if ($arg_a = yes) { return 200 yes; } if ($http_x_y ~* "^ab(.)$") { return 200 "match $1"; } return 200 no; }
        location /cycle { rewrite ^ /cycle last; } }''')
    assert s.get('/old/a?b=c', protocol).body == b'/new/a server b=c'
    r = s.get('/redirect/x?q=1', protocol, host='h')
    assert (r.status, r['location']) == (301, f'{s.scheme}://h/to/x?q=1')
    assert s.get('/break/x', protocol).status == 404
    assert s.get('/if/?a=yes', protocol).body == b'yes'
    assert s.get('/if/', protocol, headers=[('X-Y', 'ABc')]).body == b'match c'
    assert s.get('/if/', protocol).body == b'no'
    assert s.get('/cycle', protocol).status == 500
    s.wait_log('rewrite or internal redirection cycle')


def test_error_page(server, protocol):
    s = server(r'''server { listen @SOCK@; root @DIR@/www;
        error_page 404 /404.html; error_page 403 =200 /ok.html; error_page 410 = @gone; error_page 502 http://other.example/down;
        location /forbidden { return 403; } location /gone { return 410; } location /down { return 502; }
        location @gone { return 299 "gone $uri"; }
        location = /404.html { internal; } }''')
    s.file('404.html', b'own 404')
    s.file('ok.html', b'fine')
    r = s.get('/missing', protocol)
    assert (r.status, r.body) == (404, b'own 404')
    assert s.get('/404.html', protocol).status == 404  # internal
    r = s.get('/forbidden', protocol)
    assert (r.status, r.body) == (200, b'fine')
    r = s.get('/gone', protocol)
    assert (r.status, r.body) == (299, b'gone /gone')
    r = s.get('/down', protocol)
    assert (r.status, r['location']) == (302, 'http://other.example/down')
    assert s.get('/missing', protocol, method='HEAD').status == 404


def test_error_page_after_post(server, protocol):
    s = server('server { listen @SOCK@; root @DIR@/www; error_page 405 /405.html; }')
    s.file('405.html', b'static only')
    client = s.connect(protocol)
    r = client.request('/405.html', method='POST', body=b'x' * 1000)
    assert (r.status, r.body) == (405, b'static only')
    if not r.closed:
        assert client.request('/405.html').body == b'static only'


def test_map(server, protocol):
    s = server(r'''map $arg_k $v { default none; a one; ~^b(.*)$ "two $1"; }
        server { listen @SOCK@; location / { return 200 "$v"; } }''')
    assert s.get('/?k=a', protocol).body == b'one'
    assert s.get('/?k=bee', protocol).body == b'two ee'
    assert s.get('/', protocol).body == b'none'


def test_variables(server, protocol):
    s = server('server { listen @SOCK@; server_name n; location / { return 200 '
               '"$request_method $scheme $server_protocol $server_name $http_x_own $cookie_c $remote_user $connection_requests"; } }')
    r = s.get('/', protocol, headers=[('X-Own', 'v'), ('Cookie', 'b=1; c=2')])
    version = {'h1': 'HTTP/1.1', 'h2': 'HTTP/2.0'}[protocol]
    assert r.body.decode() == f'GET {s.scheme} {version} n v 2  1'

"""What configuration says about responses for files: fields, expiry, conditions, redirects, error pages; and what it may say in vain."""
import time

import pytest

from harness import http_date, old, wait_until

SITE = 'server { listen @SOCK@; root @DIR@/www; %s }'


def test_add_header_inherit(server, protocol):
    s = server('add_header X http; ' + SITE % '''add_header X server; add_header_inherit merge;
        location /merge/ { add_header X own; } location /on/ { add_header_inherit on; add_header X own; }
        location /off/ { add_header_inherit off; } location /off/own/ { add_header X own; add_header_inherit off; }
        location /if/ { if ($arg_a) { add_header X if; } }''')
    for name in ('f', 'merge/f', 'on/f', 'off/f', 'off/own/f', 'if/f'):
        s.file(name, b'x')
    for path, values in [('/f', ['server', 'http']), ('/merge/f', ['own', 'server', 'http']), ('/on/f', ['own']), ('/off/f', []), ('/off/own/f', ['own']),
                         ('/if/f?a=1', ['if', 'server', 'http']), ('/if/f', ['server', 'http'])]:
        assert s.get(path, protocol).all('x') == values, path


@pytest.mark.parametrize('name', ['Authorization', 'If-Modified-Since', 'If-Unmodified-Since', 'If-Range', 'Content-Range'])
def test_single_fields_come_once(server, protocol, name):
    """Whoever looks at the first and whoever looks at the last would see two requests."""
    s = server(SITE % 'location / { return 200; }')
    assert s.get('/', protocol, headers=[(name, 'a')]).status == 200
    assert s.get('/', protocol, headers=[(name, 'a'), ('X', 'b'), (name, 'a')]).status == 400
    s.wait_log(f'client sent duplicate header line: "{name}: a"'.lower() if protocol != 'h1' else f'client sent duplicate header line: "{name}: a"')


def test_add_trailer_inherit(server, protocol):
    s = server(SITE % 'add_trailer X outer; location /merge/ { add_trailer X own; add_trailer_inherit merge; } location /off/ { add_trailer_inherit off; }')
    for name in ('f', 'merge/f', 'off/f'):
        s.file(name, b'x')
    assert s.get('/f', protocol).trailers == [('x', 'outer')]
    assert s.get('/merge/f', protocol).trailers == [('x', 'own'), ('x', 'outer')]
    assert s.get('/off/f', protocol).trailers == []


def test_trailers_where_there_is_room(server, protocol):
    """HTTP/1.1 needs chunks for them: without chunks, as in HTTP/1.0 and for HEAD, the length stays and no trailer is sent."""
    s = server(SITE % '''add_trailer X-A a; add_trailer X-Empty ""; add_trailer X-Sent $sent_trailer_x_a; add_trailer X-Always b always;
        location /plain/ { chunked_transfer_encoding off; }''')
    for name in ('f', 'plain/f'):
        s.file(name, b'0123456789')
    r = s.get('/f', protocol)
    assert (r.body, r.trailers) == (b'0123456789', [('x-a', 'a'), ('x-sent', 'a'), ('x-always', 'b')])
    assert s.get('/none', protocol).trailers == [('x-always', 'b')]
    assert s.get('/f', protocol, method='HEAD')['content-length'] == '10'
    if protocol == 'h1':
        r = s.get('/plain/f', protocol)
        assert (r['content-length'], r.trailers) == ('10', [])
        client = s.connect()
        client.send(b'GET /f HTTP/1.0\r\n\r\n')
        head, body = client.rest().split(b'\r\n\r\n', 1)
        assert b'Content-Length: 10' in head and body == b'0123456789'


def test_trace_ends_the_connection(server):
    s = server(SITE % '')
    client = s.connect('h1')
    client.send(b'TRACE / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n')
    r = client.read_response()
    assert (r.status, r['connection']) == (405, 'close') and client.closed()


def test_expires(server, protocol):
    s = server('''map $arg_t $life { a 30d; b epoch; c off; d -1; e max; default nonsense; }
    ''' + SITE % 'location /map/ { expires $life; } location /mod/ { expires modified +1h; } location /day/ { expires @23h59m; } location /neg/ { expires -5; }')
    when = {name: old(s.file(f'{name}/f', b'x')) for name in ('map', 'mod', 'day', 'neg')}

    def get(path):
        r = s.get(path, protocol)
        return r['cache-control'], r['expires']

    assert get('/map/f?t=a')[0] == 'max-age=2592000'
    assert get('/map/f?t=b') == ('no-cache', 'Thu, 01 Jan 1970 00:00:01 GMT')
    assert get('/map/f?t=c') == (None, None)
    assert get('/map/f?t=d')[0] == 'no-cache'
    assert get('/map/f?t=e') == ('max-age=315360000', 'Thu, 31 Dec 2037 23:55:55 GMT')
    assert get('/map/f') == (None, None)
    assert get('/mod/f')[1] == http_date(when['mod'] + 3600)
    control, date = get('/day/f')
    assert 0 <= int(control.split('=')[1]) <= 86400 and ':59:00 GMT' in date
    assert get('/neg/f')[0] == 'no-cache'
    r = s.get('/map/f?t=a', protocol, headers=[('If-Modified-Since', http_date(when['map']))])
    assert r.status == 304 and r['cache-control'] == 'max-age=2592000' and r['expires'] and r['etag']
    r = s.get('/map/none?t=a', protocol)
    assert r.status == 404 and r['expires'] is None


def test_if_modified_since(server, protocol):
    s = server(SITE % 'location /exact/ { } location /before/ { if_modified_since before; } location /off/ { if_modified_since off; etag off; }')
    for mode, later, same in [('exact', 200, 304), ('before', 304, 304), ('off', 200, 200)]:
        when = old(s.file(f'{mode}/f', b'x'))
        for date, status in [(when + 60, later), (when, same), (when - 60, 200)]:
            assert s.get(f'/{mode}/f', protocol, headers=[('If-Modified-Since', http_date(date))]).status == status, (mode, date - when)
        # The obsolete forms of dates (RFC 9110 §5.6.7) mean the same; what is none is ignored.
        if same == 304:
            for form in ('%A, %d-%b-%y %H:%M:%S GMT', '%a %b %e %H:%M:%S %Y'):
                value = time.strftime(form, time.gmtime(when))
                assert s.get(f'/{mode}/f', protocol, headers=[('If-Modified-Since', value)]).status == 304, value
        assert s.get(f'/{mode}/f', protocol, headers=[('If-Modified-Since', 'yesterday')]).status == 200


def test_conditions_in_their_order(server, protocol):
    """RFC 9110 §13.2.2: If-Match before If-Unmodified-Since before If-None-Match before If-Modified-Since; If-Range last."""
    s = server(SITE % '')
    when = old(s.file('f', b'0123456789'))
    tag = f'"{when:x}-a"'
    for fields, status in [
            ([('If-Match', tag), ('If-Unmodified-Since', http_date(when - 60))], 200),
            ([('If-Match', f'W/{tag}')], 412),
            ([('If-Match', '*')], 200),
            ([('If-Match', f'"a", {tag}')], 200),
            ([('If-Match', '"a"'), ('If-None-Match', tag)], 412),
            ([('If-Unmodified-Since', http_date(when - 60)), ('If-None-Match', tag)], 412),
            ([('If-Match', tag), ('If-None-Match', tag)], 304),
            ([('If-None-Match', tag), ('Range', 'bytes=0-1')], 304),
            ([('Range', 'bytes=0-1'), ('If-Match', '"a"')], 412),
            ([('Range', 'bytes=0-1'), ('If-Range', f'W/{tag}')], 200),
            ([('Range', 'bytes=0-1'), ('If-Range', http_date(when - 1))], 200),
            ([('Range', 'bytes=0-1'), ('If-Range', 'nonsense')], 200),
            ([('Range', 'bytes=20-'), ('If-Range', '"a"')], 200),
            ([('Range', 'bytes=20-'), ('If-Range', tag)], 416)]:
        assert s.get('/f', protocol, headers=fields).status == status, fields
    r = s.get('/f', protocol, method='HEAD', headers=[('If-None-Match', tag)])
    assert r.status == 304
    r = s.get('/f', protocol, method='HEAD', headers=[('Range', 'bytes=0-1')])
    assert (r.status, r['content-length']) == (200, '10')


def test_multipart_ranges(server, protocol):
    s = server(SITE % 'types { text/plain txt; } location /two/ { max_ranges 2; } location /none/ { max_ranges 0; }')
    data = bytes(range(256)) * 800
    for name in ('f.txt', 'two/f.txt', 'none/f.txt'):
        old(s.file(name, data))
    r = s.get('/f.txt', protocol, headers=[('Range', 'bytes=70000-70009, -5,0-2')])
    assert r.status == 206 and r['content-range'] is None and int(r['content-length']) == len(r.body)
    kind, boundary = r['content-type'].split('; boundary=')
    assert kind == 'multipart/byteranges'
    parts = r.body.split(b'\r\n--' + boundary.encode())
    assert parts[0] == b'' and parts[-1] == b'--\r\n'
    size = len(data)
    for part, (first, last) in zip(parts[1:-1], [(70000, 70009), (size - 5, size - 1), (0, 2)]):
        head, body = part.split(b'\r\n\r\n', 1)
        assert head.decode() == f'\r\nContent-Type: text/plain\r\nContent-Range: bytes {first}-{last}/{size}'
        assert body == data[first:last + 1]
    three = [('Range', 'bytes=0-0,10-10,20-20')]
    assert s.get('/two/f.txt', protocol, headers=three).status == 200
    assert s.get('/two/f.txt', protocol, headers=[('Range', 'bytes=0-0,10-10')]).status == 206
    r = s.get('/none/f.txt', protocol, headers=three)
    assert r.status == 200 and r['accept-ranges'] is None


def test_directory_redirects(server, protocol):
    s = server('''server { listen @SOCK@; server_name first.example; root @DIR@/www; location /rel/ { absolute_redirect off; }
        location /name/ { server_name_in_redirect on; } }''')
    for name in ('d', 'rel/d', 'name/d', 'a b%'):
        (s.root / name).mkdir(parents=True)
    for path, location in [('/d?x=1', f'{s.scheme}://asked.example/d/?x=1'), ('/rel/d', '/rel/d/'), ('/name/d', f'{s.scheme}://first.example/name/d/'),
                           ('/a%20b%25', f'{s.scheme}://asked.example/a%20b%25/')]:
        r = s.get(path, protocol, host='asked.example')
        assert (r.status, r['location']) == (301, location)


def test_merge_slashes(server, protocol):
    s = server('server { listen @SOCK@; server_name on; root @DIR@/www; } server { listen @SOCK@; server_name off; root @DIR@/www; merge_slashes off; location /a/b { return 204; } }')
    s.file('a/b', b'x')
    assert s.get('//a///b', protocol, host='on').body == b'x'
    assert s.get('/a/b', protocol, host='off').status == 204
    assert s.get('/a//b', protocol, host='off').status == 200


def test_error_pages_in_all_forms(server, protocol):
    s = server(SITE % '''error_page 404 /404.html; error_page 403 =200 /403.html; log_not_found off;
        location /other/ { error_page 404 = /page; } location = /page { return 202 made; }
        location /away/ { error_page 404 http://example.org/x; } location /moved/ { error_page 404 =301 http://example.org/x; }
        location /named/ { error_page 404 @name; } location @name { return 204; }
        location /deep/ { recursive_error_pages on; error_page 404 /deep2/none; } location /deep2/ { error_page 404 =203 /404.html; }
        location /flat/ { error_page 404 /deep2/none; }''')
    s.file('404.html', b'missing page')
    s.file('403.html', b'forbidden page')
    (s.root / 'empty').mkdir()
    for path, status, body in [('/none', 404, b'missing page'), ('/empty/', 200, b'forbidden page'), ('/other/x', 202, b'made'), ('/deep/x', 203, b'missing page')]:
        r = s.get(path, protocol)
        assert (r.status, r.body) == (status, body), path
    for path, status in [('/away/x', 302), ('/moved/x', 301)]:
        r = s.get(path, protocol)
        assert (r.status, r['location']) == (status, 'http://example.org/x')
    assert s.get('/named/x', protocol).status in (204, 404)
    assert b'404 Not Found' in s.get('/flat/x', protocol).body
    assert 'No such file' not in s.log()


def test_media_types(server, protocol):
    s = server('types { text/css css; image/x-own own OWN2; } types_hash_max_size 4096; types_hash_bucket_size 128; ' + SITE %
               'default_type x/default; location /inner/ { types { text/x-inner css; } default_type ""; }')
    for name in ('a.css', 'a.OWN', 'a.own2', 'a', '.css', 'a.b/c', 'inner/a.css', 'inner/a.own'):
        s.file(name, b'x')
    for path, kind in [('/a.css', 'text/css'), ('/a.OWN', 'image/x-own'), ('/a.own2', 'image/x-own'), ('/a', 'x/default'), ('/.css', 'x/default'),
                       ('/a.b/c', 'x/default'), ('/inner/a.css', 'text/x-inner')]:
        assert s.get(path, protocol)['content-type'] == kind, path
    assert not s.get('/inner/a.own', protocol)['content-type']


def test_hidden_files_as_configured(server, protocol):
    s = server(SITE % r'location ~ /\.(?!well-known/) { return 404; }')
    s.file('.git/config', b'secret')
    s.file('.well-known/acme', b'token')
    assert s.get('/.git/config', protocol).status == 404
    assert s.get('/%2egit/config', protocol).status == 404
    assert s.get('/.well-known/acme', protocol).body == b'token'


def test_directives_without_meaning_are_accepted(server):
    s = server(SITE % '''aio threads; aio_write on; directio 4m; directio_alignment 512; read_ahead 1m; output_buffers 2 32k; postpone_output 1460; send_lowat 0;
        sendfile_max_chunk 2m; subrequest_output_buffer_size 8k; msie_padding on; msie_refresh on; types_hash_max_size 1024; types_hash_bucket_size 64;
        open_file_cache_errors on; open_file_cache_valid 5m; open_file_cache_min_uses 2;''', start=False)
    code, text = s.test()
    assert code == 0 and 'unknown directive' not in text


def test_ranges_that_are_none(server, protocol):
    """What is no range at all is 416, as nginx has it; another unit, or one that ends before it begins, is ignored (RFC 9110 §14.2 allows both)."""
    s = server(SITE % '')
    data = bytes(range(250)) * 4
    s.file('f', data)
    for value in ('alpha', '10-alpha', '10', '10-11 12-', '-', '1-2-3', '0-1,x'):
        r = s.get('/f', protocol, headers=[('Range', f'bytes={value}')])
        assert (r.status, r['content-range']) == (416, 'bytes */1000'), value
    for value in ('bytes=9-5', 'lines=0-1', 'bytes'):
        assert s.get('/f', protocol, headers=[('Range', value)]).status == 200, value
    r = s.get('/f', protocol, headers=[('Range', 'bytes=1 - 2')])
    assert (r.status, r.body) == (206, data[1:3])


def test_overlapping_ranges_become_one(server, protocol):
    s = server(SITE % '')
    data = bytes(range(250)) * 4
    s.file('f', data)
    r = s.get('/f', protocol, headers=[('Range', 'bytes=0-99,50-149')])
    assert (r.status, r['content-range'], r.body) == (206, 'bytes 0-149/1000', data[:150])
    r = s.get('/f', protocol, headers=[('Range', 'bytes=500-509,0-9,505-519')])
    parts = [part.split(b'\r\n\r\n', 1) for part in r.body.split(b'\r\n--')[1:-1]]
    assert [body for _, body in parts] == [data[:10], data[500:520]]
    assert s.get('/f', protocol, headers=[('Range', 'bytes=0-499,500-999')]).body == data  # With their heads longer than the file.


def test_error_page_is_no_version_of_what_was_asked_for(server, protocol):
    s = server(SITE % 'error_page 404 /404.html; location /ok/ { error_page 404 =200 /404.html; }')
    old(s.file('404.html', b'missing'))
    r = s.get('/none', protocol)
    assert (r.status, r.body, r['last-modified']) == (404, b'missing', None)
    assert s.get('/ok/none', protocol)['last-modified']
    # A condition on the page's date must not turn the error into 304.
    assert s.get('/none', protocol, headers=[('If-Modified-Since', http_date(time.time()))]).status == 404


def test_status_in_texts(server, protocol):
    s = server(SITE % '''location /a { return 202 "$status"; } location /b { error_page 404 @n; return 404; }
        location /c { error_page 404 =203 @n; return 404; } location @n { return 200 "$status"; } location /d { add_header X $status; return 204; }''')
    for path, status in [('/a', 202), ('/b', 404), ('/c', 203)]:
        r = s.get(path, protocol)
        assert (r.status, r.body.decode()) == (status, str(status)), path
    assert s.get('/d', protocol)['x'] == '204'


def test_numbers_nobody_knows(server, protocol):
    s = server(SITE % 'location /a { return 599; } location /b { return 404; }')
    r = s.get('/a', protocol)
    assert (r.status, r.body, r['content-length']) == (599, b'', '0')
    assert b'404 Not Found' in s.get('/b', protocol).body


def test_empty_gif(server, protocol):
    s = server(SITE % 'location = /pixel { empty_gif; expires epoch; } location /in/ { empty_gif; location /in/file { } }')
    s.file('in/file', b'file')
    r = s.get('/pixel', protocol)
    assert (r.status, r['content-type'], r['content-length'], r['last-modified']) == (200, 'image/gif', '43', 'Mon, 28 Sep 1970 06:00:00 GMT')
    assert r.body[:10] == b'GIF89a\x01\0\x01\0' and r.body[-1:] == b';' and len(r.body) == 43 and r['cache-control'] == 'no-cache'
    assert s.get('/pixel', protocol, method='HEAD')['content-length'] == '43'
    assert s.get('/pixel', protocol, headers=[('If-Modified-Since', 'Mon, 28 Sep 1970 06:00:00 GMT')]).status == 304
    r = s.get('/pixel', protocol, method='POST', body=b'x')
    assert (r.status, r['allow']) == (405, 'GET, HEAD')
    assert s.get('/in/file', protocol).body == b'file'


def test_stub_status(server, protocol):
    """nginx's text; whoever asks is counted as being answered."""
    s = server(SITE % 'location /status { stub_status; location /status/none { } add_header X "$connections_active $connections_reading $connections_writing $connections_waiting"; }')
    client = s.connect(protocol)
    r = client.request('/status')
    assert r['content-type'] == 'text/plain' and r['content-length'] == str(len(r.body))
    lines = r.body.decode().split('\n')
    assert lines[0] == 'Active connections: 1 ' and lines[1] == 'server accepts handled requests'
    accepts, handled, requests = map(int, lines[2].split())
    assert accepts == handled >= 1 and requests >= 1 and lines[2].startswith(' ') and lines[2].endswith(' ')
    assert lines[3:] == ['Reading: 0 Writing: 1 Waiting: 0 ', ''] and r['x'] == '1 0 1 0'
    idle = s.connect('h1')
    wait_until(lambda: client.request('/status').body.endswith(b'Reading: 0 Writing: 1 Waiting: 1 \n'), 'an idle connection')
    idle.send(b'GET / HT')
    wait_until(lambda: client.request('/status').body.endswith(b'Reading: 1 Writing: 1 Waiting: 0 \n'), 'a request being read')
    idle.close()
    assert client.request('/status', method='HEAD').status == 200
    assert client.request('/status', method='POST', body=b'').status == 405
    assert s.get('/status/none', protocol).status == 404  # A nested location does not inherit it.

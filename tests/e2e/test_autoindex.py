"""autoindex: nginx's four formats to the byte, and names that try to be more than names."""
import html
import json
import os
import re
import time
import xml.etree.ElementTree

import pytest

SITE = 'server { listen @SOCK@; root @DIR@/www; %s }'
WHEN = 1700000000  # Tue, 14 Nov 2023 22:13:20 GMT


def fill(s, names):
    for name, size in names:
        if name.endswith('/'):
            (s.root / name).mkdir(parents=True)
        else:
            s.file(name, b'x' * size)
        os.utime(s.root / name, (WHEN, WHEN))


def test_html(server, protocol):
    s = server(SITE % 'autoindex on;')
    fill(s, [('d/', 0), ('d/zdir/', 0), ('d/b.txt', 5), ('d/A.txt', 12345678), ('d/.hidden', 1)])
    r = s.get('/d/', protocol)
    assert r.status == 200 and r['content-type'] == 'text/html'
    assert r.body.decode() == (
        '<html>\r\n<head><title>Index of /d/</title></head>\r\n<body>\r\n<h1>Index of /d/</h1><hr><pre><a href="../">../</a>\r\n'
        + '<a href="zdir/">zdir/</a>' + ' ' * 45 + ' 14-Nov-2023 22:13                   -\r\n'
        + '<a href="A.txt">A.txt</a>' + ' ' * 45 + ' 14-Nov-2023 22:13            12345678\r\n'
        + '<a href="b.txt">b.txt</a>' + ' ' * 45 + ' 14-Nov-2023 22:13                   5\r\n'
        + '</pre><hr></body>\r\n</html>\r\n')


def test_rounded_sizes_and_local_time(server, protocol):
    s = server(SITE % 'autoindex on; autoindex_exact_size off; autoindex_localtime on;', environment={**os.environ, 'TZ': 'UTC-3'})
    fill(s, [('d/', 0), ('d/sub/', 0), ('d/a', 9999), ('d/b', 10000), ('d/c', 1048575), ('d/d', 1048576), ('d/e', 1572864)])
    lines = s.get('/d/', protocol).body.decode().split('\r\n')[4:-3]
    assert [line[-26:] for line in lines] == [
        ' 15-Nov-2023 01:13       -', ' 15-Nov-2023 01:13    9999', ' 15-Nov-2023 01:13     10K', ' 15-Nov-2023 01:13   1024K',
        ' 15-Nov-2023 01:13      1M', ' 15-Nov-2023 01:13      2M']


def test_long_names_are_cut_by_characters(server, protocol):
    s = server(SITE % 'autoindex on;')
    fill(s, [('d/', 0), ('d/' + 'ü' * 50, 1), ('d/' + 'ä' * 51, 1), ('d/' + 'o' * 50 + '/', 0), ('d/' + '&' * 60, 1)])
    body = s.get('/d/', protocol).body.decode()
    assert '>' + 'ü' * 50 + '</a> 14-Nov' in body
    assert '>' + 'ä' * 47 + '..&gt;</a> 14-Nov' in body
    assert '>' + 'o' * 50 + '</a> 14-Nov' in body
    assert '>' + '&amp;' * 47 + '..&gt;</a> 14-Nov' in body


def test_json(server, protocol):
    s = server(SITE % 'autoindex on; autoindex_format json;')
    fill(s, [('d/', 0), ('d/sub/', 0), ('d/a "b"\n', 7)])
    os.mkfifo(s.root / 'd/pipe')
    os.utime(s.root / 'd/pipe', (WHEN, WHEN))
    r = s.get('/d/', protocol)
    assert r['content-type'] == 'application/json'
    date = 'Tue, 14 Nov 2023 22:13:20 GMT'
    assert r.body.decode().startswith('[\r\n{ "name":"sub", "type":"directory", "mtime":"%s" },\r\n{ "name":"a ' % date)
    assert json.loads(r.body) == [{'name': 'sub', 'type': 'directory', 'mtime': date}, {'name': 'a "b"\n', 'type': 'file', 'mtime': date, 'size': 7},
                                  {'name': 'pipe', 'type': 'other', 'mtime': date}]
    assert s.get('/d/sub/', protocol).body == b'[\r\n]'


def test_jsonp(server, protocol):
    s = server(SITE % 'autoindex on; autoindex_format jsonp;')
    fill(s, [('d/', 0), ('d/a', 1)])
    r = s.get('/d/?x=1&callback=my.fn_1', protocol)
    assert r['content-type'] == 'application/javascript'
    assert r.body.startswith(b'/* callback */\r\nmy.fn_1([\r\n{') and r.body.endswith(b'}\r\n]);')
    r = s.get('/d/', protocol)
    assert r['content-type'] == 'application/json' and r.body.startswith(b'[')
    for callback in ('alert(1)//', 'a%28', 'a' * 129, 'a;b'):
        assert s.get('/d/?callback=' + callback, protocol).status == 400, callback
    s.wait_log('client sent invalid callback name: "a;b"')


def test_xml(server, protocol):
    s = server(SITE % 'autoindex on; autoindex_format xml;')
    fill(s, [('d/', 0), ('d/sub/', 0), ('d/a<b>&"', 9), ('d/\x01c', 1)])
    r = s.get('/d/', protocol)
    assert r['content-type'] == 'text/xml; charset=utf-8'
    assert r.body.startswith(b'<?xml version="1.0"?>\r\n<list>\r\n<directory mtime="2023-11-14T22:13:20Z">sub</directory>\r\n')
    found = [(e.tag, e.text, e.get('size')) for e in xml.etree.ElementTree.fromstring(r.body)]
    assert found == [('directory', 'sub', None), ('file', '\ufffdc', '1'), ('file', 'a<b>&"', '9')]


HOSTILE = ['<script>alert(1)</script>'.replace('/', '\\'), '" onmouseover="x', "javascript:alert(1)", 'a%2e%2e?x#y', '\u202egpj.exe', "'+\"-&lt;",
           'new\nline', 'x\r\nSet-Cookie: a=b']


def test_hostile_names(server, protocol):
    """Each link leads to its file, and nothing in the page is markup but ours."""
    s = server(SITE % 'autoindex on; location /json/ { alias @DIR@/www/d/; autoindex on; autoindex_format json; }')
    for i, name in enumerate(HOSTILE):
        s.file('d/' + name, b'%d' % i)
    s.file(b'd/raw\xff\xfe<i>'.decode('utf-8', 'surrogateescape'), b'raw')
    r = s.get('/d/', protocol)
    body = r.body.decode('latin-1')
    assert not re.search(r'<(?!/?(html|head|title|body|h1|hr|pre|a)[ >])', body.replace('<a href="', '<a '))
    links = re.findall(r'<a href="([^"]*)">', body)[1:]
    assert len(links) == len(HOSTILE) + 1 and all(re.fullmatch(r'[A-Za-z0-9._~%-]+', link) for link in links)
    bodies = [s.get('/d/' + link, protocol).body for link in links]
    assert sorted(bodies) == sorted([b'%d' % i for i in range(len(HOSTILE))] + [b'raw'])
    names = {entry['name'] for entry in json.loads(s.get('/json/', protocol).body)}
    assert set(HOSTILE) <= names and 'raw\ufffd\ufffd<i>' in names


def test_hostile_uri(server, protocol):
    s = server(SITE % 'autoindex on;')
    fill(s, [('<b>&/', 0)])
    body = s.get('/%3Cb%3E&/', protocol).body.decode()
    assert '<title>Index of /&lt;b&gt;&amp;/</title>' in body and html.unescape('&lt;b&gt;') not in body


def test_head_and_refusals(server, protocol):
    s = server(SITE % 'location / { autoindex on; } location /off/ { } location /index/ { autoindex on; }')
    fill(s, [('d/', 0), ('off/', 0), ('secret/', 0)])
    s.file('index/index.html', b'index')
    client = s.connect(protocol)
    r = client.request('/d/', method='HEAD')
    assert r.status == 200 and r['content-type'] == 'text/html' and r.body == b''
    assert client.request('/d/').status == 200
    assert client.request('/off/').status == 403
    assert client.request('/none/').status == 404
    assert client.request('/index/').body == b'index'
    assert client.request('/d/', method='POST').status in (403, 405)
    s.wait_log('directory index of ".*/off/" is forbidden')
    if os.geteuid() == 0:
        (s.root / 'secret').chmod(0)
        assert client.request('/secret/').status == 403


def test_links_are_followed_or_listed_as_themselves(server, protocol):
    s = server(SITE % 'autoindex on; autoindex_format json; location /strict/ { alias @DIR@/www/d/; disable_symlinks on from=@DIR@/www/d; }')
    fill(s, [('d/', 0), ('target/', 0)])
    (s.root / 'd/to').symlink_to('../target')
    (s.root / 'd/nowhere').symlink_to('gone')
    (s.root / 'd/loop').symlink_to('loop')
    kinds = {e['name']: e['type'] for e in json.loads(s.get('/d/', protocol).body)}
    assert kinds == {'to': 'directory', 'nowhere': 'other', 'loop': 'other'}
    kinds = {e['name']: e['type'] for e in json.loads(s.get('/strict/', protocol).body)}
    assert kinds == {'to': 'other', 'nowhere': 'other', 'loop': 'other'}


def test_large_directory_and_slow_reader(server, protocol):
    """The listing is written as it is read: the worker's memory does not hold it as text, and other requests go on."""
    s = server(SITE % 'autoindex on;')
    (s.root / 'd').mkdir()
    for i in range(4000):
        (s.root / f'd/{"n" * 60}{i:05}').touch()
    r = s.get('/d/', protocol)
    assert r.status == 200 and len(re.findall(rb'<a href="n', r.body)) == 4000
    assert r.body.endswith(b'</html>\r\n')


def test_configuration(server):
    s = server(SITE % 'autoindex on; autoindex_format yaml;', start=False)
    code, text = s.test()
    assert code == 1 and 'html, json, jsonp, xml' in text


def test_random_index(server, protocol):
    s = server(SITE % 'location / { random_index on; } location /off/ { random_index off; } location /idx/ { random_index on; index a; }')
    for name in ('d/a', 'd/b', 'd/.hidden', 'd/sub/x', 'e/sub/x', 'off/a', 'idx/a', 'idx/b'):
        s.file(name, name)
    os.mkfifo(s.root / 'd/pipe')
    seen = {s.get('/d/?x=1', protocol).body for _ in range(60)}
    assert seen == {b'd/a', b'd/b'}
    assert {s.get('/idx/', protocol).body for _ in range(60)} == {b'idx/a', b'idx/b'}  # Before index.
    assert s.get('/e/', protocol).status == 403  # No file among them: as without.
    assert s.get('/off/', protocol).status == 403
    assert s.get('/none/', protocol).status == 404

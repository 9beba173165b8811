"""Real applications behind php-fpm: WordPress, from its installer on, and DokuWiki, whose pages are paths behind a script."""
import json
import re
import threading

import applications
import pytest
from applications import Browser

OVER = {'h1': 'h1', 'h2 over TLS': 'h2'}


@pytest.fixture(params=list(OVER))
def spoken(request):
    return request.param


@pytest.fixture
def application(server, directory, spoken):
    """application(what an unknown path becomes) → a server with php-fpm, speaking what the test speaks."""
    started = []

    def make(fallback):
        s = server(applications.SITE % fallback, start=False, workers=2, tls=spoken != 'h1')
        applications.put_conf(s.directory)
        started.append(applications.start_php(s))
        return s

    yield make
    for one in started:
        one.stop()


@pytest.fixture
def wordpress(application, directory, spoken):
    """(server, a browser that has installed WordPress and is logged in)."""
    database = applications.MariaDb(directory)
    s = application('/index.php?$args')
    applications.put_wordpress(s, database)
    s.start()
    browser = Browser(s, OVER[spoken])
    applications.install_wordpress(browser)
    applications.log_in(browser)
    yield s, browser
    browser.close()
    database.stop()


def no_trouble(s):
    said = [line for line in s.log().splitlines() if re.search(r'\[(warn|error|crit|alert|emerg)\]', line) and 'temporary file' not in line]
    assert not said, said[:5]


def use_permalinks(browser):
    form = browser.ask('/wp-admin/options-permalink.php').body.decode()
    nonce = re.search(r'name="_wpnonce" value="(\w+)"', form).group(1)
    answer = browser.post('/wp-admin/options-permalink.php', {'_wpnonce': nonce, '_wp_http_referer': '/wp-admin/options-permalink.php', 'selection': 'custom',
                                                              'permalink_structure': '/%year%/%postname%/', 'submit': 'Save Changes'}, follow=True)
    assert answer.status == 200 and b'Permalink structure updated' in answer.body


def test_wordpress(wordpress):
    s, browser = wordpress
    use_permalinks(browser)
    nonce = browser.ask('/wp-admin/admin-ajax.php?action=rest-nonce').body.decode()
    # Publishing, and the page by its pretty link for a visitor who is not logged in.
    made = browser.send_json('/wp-json/wp/v2/posts', {'title': 'Grüße & more', 'content': 'Written over the REST API.', 'status': 'publish'}, nonce)
    assert made.status == 201, made.body[:500]
    link = json.loads(made.body)['link']
    path = re.sub(r'^https?://localhost', '', link)
    assert re.fullmatch(r'/\d{4}/gruse-more/', path)
    visitor = Browser(s, browser.protocol)
    page = visitor.ask(path)
    assert page.status == 200 and b'Written over the REST API.' in page.body and page['content-type'].startswith('text/html')
    assert visitor.ask(path.rstrip('/')).status == 301
    assert visitor.ask('/no/such/page/').status == 404 and b'wp-includes' in visitor.ask('/no/such/page/').body
    found = json.loads(visitor.ask('/wp-json/wp/v2/posts?search=Written').body)
    assert [post['slug'] for post in found] == ['gruse-more']
    assert visitor.ask('/wp-json/wp/v2/users/me').status == 401
    assert visitor.ask('/?s=Written').status == 200
    # A comment, as visitors leave one.
    answer = visitor.post('/wp-comments-post.php', {'comment': 'Well said.', 'author': 'V', 'email': 'v@example.org', 'comment_post_ID': json.loads(made.body)['id'],
                                                    'comment_parent': '0', 'submit': 'Post Comment'})
    assert answer.status == 302 and 'unapproved=' in answer['location']
    # Files are the server's, scripts are PHP's.
    style = visitor.ask('/wp-includes/css/dashicons.min.css')
    assert (style.status, style['content-type'], style['x-powered-by']) == (200, 'text/css', None)
    assert visitor.ask('/wp-content/uploads/x.php').status == 404
    assert visitor.ask('/wp-includes/css/dashicons.min.css/x.php').status == 404
    visitor.close()
    for page in ('', 'edit.php', 'upload.php', 'plugins.php', 'options-general.php', 'profile.php'):
        answer = browser.ask('/wp-admin/' + page)
        assert answer.status == 200 and answer.body.rstrip().endswith(b'</html>'), page
    no_trouble(s)


def test_upload_of_20_megabytes(wordpress):
    s, browser = wordpress
    data = b'PK\x03\x04' + bytes(range(256)) * (20 * 4096)
    form = browser.ask('/wp-admin/media-new.php').body.decode()
    nonce = re.search(r'"_wpnonce":"(\w+)"', form).group(1)
    answer = browser.upload('/wp-admin/async-upload.php', {'name': 'large.zip', 'action': 'upload-attachment', '_wpnonce': nonce}, 'async-upload', 'large.zip', data)
    said = json.loads(answer.body)
    assert answer.status == 200 and said['success'], said
    path = re.sub(r'^https?://localhost', '', said['data']['url'])
    kept = browser.ask(path)
    assert (kept.status, kept['content-type'], kept['x-powered-by']) == (200, 'application/zip', None) and kept.body == data
    part = browser.ask(path, fields=[('Range', 'bytes=1000000-1000099')])
    assert part.status == 206 and part.body == data[1000000:1000100]
    no_trouble(s)


def test_large_cookies(wordpress):
    s, browser = wordpress
    answer = browser.ask('/?cookies=1')
    assert answer.status == 200 and len([c for c in answer.all('set-cookie') if c.startswith('large')]) == 40
    # What comes back must be within what a request's line may have (large_client_header_buffers).
    for i in range(20, 40):
        browser.cookies.pop(f'large{i}')
    assert browser.ask('/wp-admin/').status == 200
    no_trouble(s)


def test_150_visitors(wordpress):
    s, browser = wordpress
    use_permalinks(browser)
    answers = []

    def visit():
        visitor = Browser(s, browser.protocol)
        answer = visitor.ask('/')
        visitor.close()
        answers.append((answer.status, b'</html>' in answer.body))

    threads = [threading.Thread(target=visit) for _ in range(150)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert answers == [(200, True)] * 150
    no_trouble(s)


def test_dokuwiki(application, spoken):
    s = application('/doku.php/$uri')
    applications.put_dokuwiki(s)
    s.start()
    browser = Browser(s, OVER[spoken])
    page = browser.ask('/doku.php/wiki:syntax')
    assert page.status == 200 and b'Formatting Syntax' in page.body
    assert browser.ask('/doku.php/of:a:test').status == 404
    form = browser.ask('/doku.php/of:a:test?do=edit')
    values = dict(re.findall(r'<input type="hidden" name="([\w-]+)" value="([^"]*)"', form.body.decode()))
    assert form.status == 200 and 'sectok' in values
    answer = browser.post('/doku.php/of:a:test', values | {'id': 'of:a:test', 'wikitext': '====== A page ======\n\nWritten **by a test**.', 'do[save]': '1',
                                                           'summary': 's'})
    assert answer.status == 302 and answer['location'].endswith('/doku.php/of:a:test'), answer
    page = browser.ask('/doku.php/of:a:test')
    assert page.status == 200 and b'Written <strong>by a test</strong>.' in page.body
    assert b'of:a:test' in browser.ask('/doku.php/of:a:test?do=search&q=written').body
    assert browser.ask('/lib/exe/css.php?t=dokuwiki')['content-type'].startswith('text/css')
    image = browser.ask('/lib/exe/fetch.php/wiki:dokuwiki-128.png')
    assert (image.status, image['content-type']) == (200, 'image/png') and image.body[1:4] == b'PNG'
    browser.close()
    no_trouble(s)

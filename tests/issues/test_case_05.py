"""`GET /%0d%0ax-injection:/wp-admin` where a rewrite redirects with $uri: one clean Location, no injected field."""
import pytest

PATH = '/%0d%0ax-injection:/wp-admin'
FORMS = ['rewrite ^ $uri/ permanent;', 'return 301 $uri/;', 'return 302 http://$host$uri;', 'rewrite ^(.*)$ http://other.example$1 redirect;',
         'rewrite ^/(.*)/wp-admin$ /$1/wp-admin/ permanent;', 'add_header X-Seen $uri; return 204;', 'error_page 404 = @x; return 404;']


@pytest.mark.parametrize('form', FORMS)
def test_redirect(server, protocol, form):
    s = server('server { listen @SOCK@; location / { %s } location @x { return 301 $uri/; } }' % form)
    r = s.get(PATH, protocol)
    assert r['x-injection'] is None
    # A dot does not match a line feed, so that some of these rewrite nothing.
    assert len(r.all('location')) == (0 if form.startswith('add_header') or r.status == 404 else 1)
    for name, value in r.fields:
        assert '\r' not in value and '\n' not in value, (name, value)
    if r['location']:
        assert '%0d%0ax-injection:' in r['location'].lower()

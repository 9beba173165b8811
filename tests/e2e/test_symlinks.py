"""disable_symlinks, in everything that looks at files."""
import os

import pytest

SITE = 'server { listen @SOCK@; root @DIR@/www; %s }'


@pytest.fixture
def tree(server):
    def make(text):
        s = server(SITE % text)
        s.file('plain.txt', b'plain')
        s.file('dir/a.txt', b'in dir')
        s.file('dir/index.html', b'index')
        (s.root / 'link.txt').symlink_to('plain.txt')
        (s.root / 'absolute.txt').symlink_to(s.root / 'plain.txt')
        (s.root / 'linkdir').symlink_to('dir')
        (s.root / 'chain.txt').symlink_to('link.txt')
        return s
    return make


LINKS = ('/link.txt', '/absolute.txt', '/linkdir/a.txt', '/chain.txt')


def test_off(tree, protocol):
    s = tree('')
    for path in LINKS:
        assert s.get(path, protocol).status == 200, path


def test_on(tree, protocol):
    s = tree('disable_symlinks on from=@DIR@;')
    for _ in range(2):  # Cold and kept.
        assert s.get('/plain.txt', protocol).body == b'plain'
        assert s.get('/dir/', protocol).body == b'index'
        for path in LINKS + ('/linkdir/',):
            assert s.get(path, protocol).status == 403, path
    s.wait_log(r'open\(\) ".*/link.txt" failed \(40: Too many levels of symbolic links\)')
    # A link that takes a served file's place is not followed on the strength of what was kept.
    os.remove(s.root / 'plain.txt')
    os.symlink('dir/a.txt', s.root / 'plain.txt')
    assert s.get('/plain.txt', protocol).status == 403


def test_from(tree, protocol):
    """What comes before "from" may hold links: deployers' current is one."""
    s = tree('location /app/ { root @DIR@/deploy; disable_symlinks on from=$document_root; } location /bad/ { root @DIR@/deploy; disable_symlinks on; }')
    (s.directory / 'release').mkdir()
    for name in ('app', 'bad'):
        (s.directory / 'release' / name).mkdir()
        (s.directory / 'release' / name / 'a.txt').write_text('released')
    (s.directory / 'release/app/link.txt').symlink_to('a.txt')
    (s.directory / 'deploy').symlink_to('release')
    assert s.get('/app/a.txt', protocol).body == b'released'
    assert s.get('/app/link.txt', protocol).status == 403
    assert s.get('/bad/a.txt', protocol).status == 403


def test_from_is_the_file_itself(tree, protocol):
    """With alias and captures $document_root is the whole path: nothing is left to check, as in nginx."""
    s = tree(r'location ~ ^/exact/(.+)$ { disable_symlinks on from=$document_root; alias @DIR@/www/$1; }')
    s.file('plain2.txt', b'plain')
    (s.root / 'exact.txt').symlink_to('plain2.txt')
    assert s.get('/exact/exact.txt', protocol).body == b'plain'


def test_if_not_owner(tree, protocol):
    if os.geteuid() != 0:
        pytest.skip('needs files of several owners')
    s = tree('disable_symlinks if_not_owner from=@DIR@;')
    for path in LINKS + ('/plain.txt', '/linkdir/'):
        assert s.get(path, protocol).status == 200, path
    os.lchown(s.root / 'link.txt', 12345, 12345)
    assert s.get('/link.txt', protocol).status == 403
    assert s.get('/chain.txt', protocol).status == 403  # A link on the way is compared as well.
    os.chown(s.root / 'plain.txt', 12345, 12345)
    assert s.get('/link.txt', protocol).status == 200
    assert s.get('/absolute.txt', protocol).status == 403
    assert s.get('/chain.txt', protocol).status == 403
    (s.root / 'round').symlink_to('round')
    assert s.get('/round', protocol).status == 403


def test_with_open_file_cache(tree, protocol):
    """An answer kept for a location that follows links is not one for a location that doesn't."""
    s = tree('''open_file_cache max=100; open_file_cache_errors on;
        location /a/ { alias @DIR@/www/; } location /b/ { alias @DIR@/www/; disable_symlinks on from=@DIR@; }''')
    for _ in range(2):
        assert s.get('/a/link.txt', protocol).status == 200
        assert s.get('/b/link.txt', protocol).status == 403
        assert s.get('/b/plain.txt', protocol).status == 200


def test_try_files_index_and_if(tree, protocol):
    s = tree('''disable_symlinks on from=@DIR@;
        location = /try { try_files /link.txt /plain.txt =404; }
        location = /if { if (-f @DIR@/www/link.txt) { return 202; } return 204; }
        location /idx/ { index linked.html plain.html; }''')
    assert s.get('/try', protocol).body == b'plain'
    assert s.get('/if', protocol).status == 204
    s.file('idx/plain.html', b'p')
    (s.root / 'idx/linked.html').symlink_to('plain.html')
    assert s.get('/idx/', protocol).status == 403


@pytest.mark.parametrize('words', ['yes', 'on off', 'from=/x', 'off from=/x', 'on from='])
def test_bad_configuration(server, words):
    s = server(SITE % f'disable_symlinks {words};', start=False)
    code, text = s.test()
    assert code == 1 and 'disable_symlinks' in text

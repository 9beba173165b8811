"""`GET /index.php%00.txt`: 400. `GET /index.php/PHP%0Ainfo.php?x` with an empty PATH_INFO: the split does not break; no script: 404 before FPM is asked."""
from fastcgi_peer import Peer, answer

SITE = r'''server { listen @SOCK@; root @DIR@/www;
  location ~ [^/]\.php(/|$) { fastcgi_split_path_info ^(.+?\.php)(/.*)$; %s
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param PATH_INFO $fastcgi_path_info; fastcgi_param SCRIPT_NAME $fastcgi_script_name;
    fastcgi_pass unix:@DIR@/origin.sock; } }'''


def start(server, more=''):
    s = server(SITE % more)
    s.file('index.php', '<?php')
    peer = Peer(s.directory / 'origin.sock', lambda r: r.send(answer(b'Content-Type: text/plain\r\n\r\nok')))
    return s, peer


def test_nul(server, protocol):
    s, peer = start(server)
    try:
        for path in ('/index.php%00.txt', '/index.php%00', '/%00/index.php', '/x.txt%00.php'):
            assert s.get(path, protocol).status == 400, path
        assert peer.requests == []
    finally:
        peer.close()


def test_line_feed_in_path_info(server, protocol):
    s, peer = start(server)
    try:
        assert s.get('/index.php/PHP%0Ainfo.php?x', protocol).status == 200
        params = peer.requests[0].params
        # Never a script that is not there, with an empty PATH_INFO.
        assert (params['SCRIPT_NAME'], params['PATH_INFO']) == ('/index.php', '/PHP\ninfo.php')
        assert params['SCRIPT_FILENAME'] == f'{s.root}/index.php'
        assert s.get('/index.php', protocol).status == 200
        assert (peer.requests[1].params['SCRIPT_NAME'], peer.requests[1].params['PATH_INFO']) == ('/index.php', '')
    finally:
        peer.close()


def test_missing_script_is_404_before_the_origin_is_asked(server, protocol):
    s, peer = start(server, 'try_files $fastcgi_script_name =404;')
    try:
        for path in ('/none.php', '/none.php/x', '/none.php/PHP%0Ainfo.php?x'):
            assert s.get(path, protocol).status == 404, path
        assert peer.requests == []
        assert s.get('/index.php/a/b', protocol).status == 200
        assert peer.requests[0].params['SCRIPT_FILENAME'] == f'{s.root}/index.php'
    finally:
        peer.close()

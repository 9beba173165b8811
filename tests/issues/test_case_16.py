"""40 Set-Cookie fields (20 kB) and 8 kB of notices on stderr: 200 with all fields; stderr in the error log with the request's context."""
from fastcgi_peer import STDERR, answer, record


def test_large_heads_and_notices(origin, protocol):
    fields = b''.join(b'Set-Cookie: c%d=%s\r\n' % (i, b'x' * 490) for i in range(40))
    notices = b''.join(b'PHP Notice:  number %d %s\n' % (i, b'y' * 60) for i in range(100))
    assert len(fields) > 20000 and len(notices) > 8000
    s, _ = origin(record(STDERR, notices[:4000]) + record(STDERR, notices[4000:]) + answer(fields + b'Content-Type: text/plain\r\n\r\nok'))
    r = s.get('/page', protocol)
    assert (r.status, r.body) == (200, b'ok')
    assert r.all('set-cookie') == [f'c{i}={"x" * 490}' for i in range(40)]
    s.wait_log(r'\[error\].*FastCGI sent in stderr: "PHP Notice:  number 0 y+')
    s.wait_log(r'while reading response header from upstream.*, client: .*, request: "GET /page HTTP/.*", upstream: "fastcgi://unix:.*", host: "localhost"')

"""SCGI and uwsgi origins."""
import socket
import struct
import threading

import pytest

from harness import DEFAULT


class Origin:
    """Answers every request with what answer(params, body) says, then closes."""

    def __init__(self, path, read_head, answer):
        self.read_head, self.answer, self.errors = read_head, answer, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        path.chmod(0o777)
        self.listener.listen(16)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            try:
                with connection, connection.makefile('rb') as stream:
                    params = self.read_head(stream)
                    connection.sendall(self.answer(params, stream.read(int(params.get('CONTENT_LENGTH') or 0))))
            except Exception as error:
                self.errors.append(error)

    def close(self):
        self.listener.close()
        assert not self.errors, self.errors


def scgi(stream):
    length = b''
    while not length.endswith(b':'):
        length += stream.read(1)
    words = stream.read(int(length[:-1])).split(b'\0')
    assert stream.read(1) == b',' and words[0] == b'CONTENT_LENGTH' and words.pop() == b''
    names = [w.decode() for w in words[::2]]
    assert len(names) == len(set(names)) and 'SCGI' in names
    return dict(zip(names, [w.decode() for w in words[1::2]]))


def uwsgi(stream):
    modifier1, length, modifier2 = struct.unpack('<BHB', stream.read(4))
    assert (modifier1, modifier2) == (5, 7)
    data, at, params = stream.read(length), 0, {}
    words = []
    while at < len(data):
        size, = struct.unpack_from('<H', data, at)
        words.append(data[at + 2:at + 2 + size].decode())
        at += 2 + size
    return dict(zip(words[::2], words[1::2]))


@pytest.mark.parametrize('name,read_head', [('scgi', scgi), ('uwsgi', uwsgi)], ids=['scgi', 'uwsgi'])
def test_cgi_origins(server, directory, name, read_head):
    def answer(params, body):
        page = f'{params["METHOD"]} {params["HTTP_X_OWN"]} {body.decode()}'.encode()
        return {
            '/line': b'HTTP/1.1 404 Gone fishing\r\nContent-Type: text/x\r\n\r\n' + page,
            '/status': b'Status: 403 No\r\nContent-Type: text/x\r\n\r\n' + page,
            '/length': b'Content-Type: text/x\r\nContent-Length: 3\r\n\r\nabcd',
            '/short': b'Content-Type: text/x\r\nContent-Length: 300\r\n\r\nabcd',
            '/bad': b'no head',
        }[params['URI']]
    origin = Origin(directory / 'o.sock', read_head, answer)
    own = 'uwsgi_modifier1 5; uwsgi_modifier2 7;' if name == 'uwsgi' else ''
    s = server(f'''upstream u {{ server unix:@DIR@/dead.sock; server unix:@DIR@/o.sock; }}
        {name}_param URI $uri; {name}_param METHOD $request_method; {name}_param CONTENT_LENGTH $content_length; {own}
        server {{ listen @SOCK@; location / {{ {name}_pass {'uwsgi://' if name == 'uwsgi' else ''}unix:@DIR@/o.sock; {name}_hide_header X-Hidden; }}
          location /length {{ {name}_pass u; {name}_next_upstream error; }} }}''')
    fields = [('X-Own', 'v')]
    r = s.get('/line', headers=fields)
    assert (r.status, r.body, r['content-type']) == (404, b'GET v ', 'text/x')
    r = s.get('/status', headers=fields, method='POST', body=b'body', chunked=True)
    assert (r.status, r.body) == (403, b'POST v body')
    assert s.get('/length', headers=fields).body == b'abc'
    try:
        assert s.get('/short', headers=fields).reset is not None
    except EOFError:
        assert DEFAULT in ('h1', 'https')
    assert s.get('/bad', headers=fields).status == 502
    s.wait_log(rf'upstream prematurely closed connection while reading response header from upstream.*upstream: "{name}://unix:')
    origin.close()

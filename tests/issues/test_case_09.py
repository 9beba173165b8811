"""Overlapping ranges of a 1,024-byte file: whole or coalesced, never a body larger than the file; 206 clamped; 416 only past the end."""
import pytest

DATA = bytes(range(256)) * 4
MANY = 'bytes=724-817,888-927,859-931,449-,404-429,860-957,14-18,530-627'


@pytest.fixture
def site(server):
    s = server('server { listen @SOCK@; root @DIR@/www; }')
    s.file('a.bin', DATA)
    return s


def test_many_ranges(site, protocol):
    r = site.get('/a.bin', protocol, headers=[('Range', MANY)])
    assert r.status in (200, 206)
    if r.status == 200:
        assert r.body == DATA
    else:
        # Parts and what separates them; of the file's bytes none twice.
        assert r['content-type'].startswith('multipart/byteranges')
        boundary = r['content-type'].split('boundary=')[1].strip('"').encode()
        parts = [part.split(b'\r\n\r\n', 1)[1][:-2] for part in r.body.split(b'--' + boundary)[1:-1]]
        assert sum(map(len, parts)) <= len(DATA)
        assert DATA[449:] in parts[0] + parts[1] + parts[-1]


def test_amplification(site, protocol):
    r = site.get('/a.bin', protocol, headers=[('Range', 'bytes=' + ','.join(['0-'] * 500))])
    assert len(r.body) <= len(DATA) + 500


@pytest.mark.parametrize('value,begin,end', [('bytes=0-999999', 0, 1024), ('bytes=1023-', 1023, 1024), ('bytes=1000-5000', 1000, 1024), ('bytes=-5000', 0, 1024),
                                             ('bytes=0-18446744073709551615', 0, 1024), ('bytes=0-99999999999999999999999999', 0, 1024)])
def test_clamped(site, protocol, value, begin, end):
    r = site.get('/a.bin', protocol, headers=[('Range', value)])
    assert (r.status, r.body, r['content-range']) == (206, DATA[begin:end], f'bytes {begin}-{end - 1}/1024')


@pytest.mark.parametrize('value', ['bytes=1024-', 'bytes=1024-2000', 'bytes=9999999999999999999999-', 'bytes=-0'])
def test_past_the_end(site, protocol, value):
    r = site.get('/a.bin', protocol, headers=[('Range', value)])
    assert r.status == 416 and r['content-range'] == 'bytes */1024'

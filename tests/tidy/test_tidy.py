"""tidy itself: it must fail on each kind of planted violation, and be silent on a clean tree."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import tidy

LAYERS = '0 base\n1 io base\n2 http base\n4 proto base io http\n5 handlers base http\n'
CLEAN = {
    'src/LAYERS': LAYERS,
    'include/corehttpd/base/a.h': '#pragma once\n',
    'src/http/x.cc': '#include "corehttpd/base/a.h"\nint f() { return 1; }\n',
}


def plant(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for top in ('src', 'include', 'tests', 'bench'):
        (root / top).mkdir(exist_ok=True)
    return list(tidy.check(root))


def test_clean_tree(tmp_path):
    assert plant(tmp_path, CLEAN) == []


PLANTED = {
    'layer': ({'src/http/y.cc': '#include "corehttpd/io/loop.h"\n', 'include/corehttpd/io/loop.h': '#pragma once\n'},
              'http may not include io'),
    'same layer': ({'src/handlers/y.cc': '#include "proto/z.h"\n', 'src/proto/z.h': '#pragma once\n'},
                   'handlers may not include proto'),
    'liburing': ({'src/http/y.cc': '#include <liburing.h>\n'}, 'liburing.h is confined'),
    'nghttp2': ({'src/proto/h1/y.cc': '#include <nghttp2/nghttp2.h>\n'}, 'nghttp2/nghttp2.h is confined'),
    'seccomp': ({'src/http/y.cc': '#include <seccomp.h>\n'}, 'seccomp.h is confined'),
    'pcre2': ({'src/http/y.cc': '#include <pcre2.h>\n'}, 'pcre2.h is confined'),
    'column': ({'src/http/y.cc': '// ' + 'x' * 98 + '\n'}, '101 columns'),
    'file': ({'src/http/y.cc': '\n' * 601}, '601 lines'),
    'function': ({'src/http/y.cc': 'int f(int a) {\n' + '  ++a;\n' * 69 + '}\n'}, 'function of 71 lines'),
    'method': ({'src/http/y.cc': 'struct A {\n int f(int a) const {\n' + '  ++a;\n' * 69 + '}\n};\n'},
               'function of 71 lines'),
    'protocol': ({'src/handlers/y.cc': 'void f(int v) { if (v == Version::k11) {} }\n'}, 'knows a protocol'),
    'dead header': ({'include/corehttpd/base/b.h': '#pragma once\n'}, 'nobody includes it'),
    'missing header': ({'src/http/y.cc': '#include "http/none.h"\n'}, 'does not exist'),
    'todo': ({'src/http/y.cc': '// TODO: later\n'}, 'a TODO needs the number of an issue'),
    'guard': ({'include/corehttpd/base/b.h': 'int x;\n', 'src/base/b.cc': '#include "corehttpd/base/b.h"\n'},
              'no #pragma once'),
    'stale ratchet': ({'tests/tidy/ratchet.txt': 'src/http/x.cc 700\n'}, 'lower or delete its entry'),
}


@pytest.mark.parametrize('name', PLANTED)
def test_planted(tmp_path, name):
    files, message = PLANTED[name]
    violations = plant(tmp_path, CLEAN | files)
    assert len(violations) == 1 and message in violations[0], violations


def test_ratchet_lets_through_what_has_not_grown(tmp_path):
    files = CLEAN | {'src/http/y.cc': '\n' * 601, 'tests/tidy/ratchet.txt': 'src/http/y.cc 601\n'}
    assert plant(tmp_path, files) == []


def test_braces_in_literals_do_not_count(tmp_path):
    body = '  const char* a = "}{"; char b = \'{\'; // {\n' * 69
    files = CLEAN | {'src/http/y.cc': 'void f() {\n' + body + '}\n'}
    assert [v for v in plant(tmp_path, files) if 'function of 71' in v]

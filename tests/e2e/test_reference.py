"""docs/reference is made from the tables; what is committed must be what they say now."""
import subprocess

from harness import BINARY, ROOT


def test_reference_is_up_to_date(tmp_path):
    subprocess.run([str(BINARY), '--reference', str(tmp_path)], check=True, timeout=60)
    made = {p.name: p.read_text() for p in tmp_path.iterdir()}
    kept = {p.name: p.read_text() for p in (ROOT / 'docs/reference').iterdir()}
    assert made == kept, 'run "make docs" and commit docs/reference'


def test_no_handler_knows_a_protocol():
    """What answers or transforms is written once for all protocols."""
    words = r'\b(h1|h2|h3)::|Version::k(10|11|2|3)\b|#include.*proto/'
    found = subprocess.run(['grep', '-rnE', words, 'src/handlers', 'src/transform', 'src/access', 'include/corehttpd/handlers',
                            'include/corehttpd/transform', 'include/corehttpd/access'], cwd=ROOT, capture_output=True, text=True)
    lines = [line for line in found.stdout.splitlines() if 'gzip' not in line.split(':')[0]]
    assert lines == []


def test_describe():
    done = subprocess.run([str(BINARY), '--describe', 'try_files'], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and 'try_files' in done.stdout and 'server' in done.stdout
    done = subprocess.run([str(BINARY), '--describe', 'try_file'], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and 'try_files' in done.stderr

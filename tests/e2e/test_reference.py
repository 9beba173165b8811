"""docs/reference is made from the tables; what is committed must be what they say now."""
import re
import shutil
import subprocess

import pytest
from harness import BINARY, ROOT


def test_reference_is_up_to_date(tmp_path):
    subprocess.run([str(BINARY), '--reference', str(tmp_path)], check=True, timeout=60)
    made = {p.name: p.read_text() for p in tmp_path.iterdir()}
    kept = {p.name: p.read_text() for p in (ROOT / 'docs/reference').iterdir()}
    assert made == kept, 'run "make docs" and commit docs/reference'


def test_manual_pages_are_up_to_date(tmp_path):
    subprocess.run([str(BINARY), '--man', str(tmp_path)], check=True, timeout=60)
    made = sorted(tmp_path.iterdir())
    assert [p.name for p in made] == ['corehttpd.8', 'corehttpd.conf.5']
    for page in made:
        assert page.read_text() == (ROOT / 'docs/man' / page.name).read_text(), 'run "make docs" and commit docs/man'
    assert subprocess.run([str(BINARY), '--man', str(tmp_path / 'none')], timeout=60, capture_output=True).returncode == 1


@pytest.mark.skipif(shutil.which('groff') is None, reason='no groff')
@pytest.mark.parametrize('page', sorted((ROOT / 'docs/man').iterdir()), ids=lambda p: p.name)
def test_manual_pages_are_good_roff(page):
    done = subprocess.run(['groff', '-man', '-Tutf8', '-wall', '-K', 'utf8', str(page)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, '')
    shown = re.sub('.\x08', '', done.stdout)
    assert '\nNAME\n' in shown and page.stem in shown


def test_manual_pages_list_every_row():
    """Escapes of roff taken out, each option and each directive is there."""
    page = (ROOT / 'docs/man/corehttpd.8').read_text().replace('\\-', '-')
    usage = subprocess.run([str(BINARY), '-h'], capture_output=True, text=True, timeout=60).stderr
    options = [line.split(' : ')[0].strip() for line in usage.splitlines() if line.startswith('  ') and ' : ' in line]
    assert len(options) > 15 and not [option for option in options if f'\\fB{option}' not in page]
    page = (ROOT / 'docs/man/corehttpd.conf.5').read_text()
    directives = subprocess.run([str(BINARY), '--describe'], capture_output=True, text=True, timeout=60).stdout.splitlines()
    names = {line.split('[')[0].split()[0].rstrip(';') for line in directives}
    assert len(names) > 300 and not [name for name in names if f'\\fB{name}' not in page]


def test_completion_is_up_to_date():
    made = subprocess.run([str(BINARY), '--completion'], check=True, capture_output=True, text=True, timeout=60).stdout
    assert made == (ROOT / 'packaging/completion/corehttpd').read_text(), 'run "make docs" and commit packaging/completion'


def complete(directory, *words):
    """What bash offers for the last word."""
    script = f'''compopt() {{ :; }}
source {ROOT}/packaging/completion/corehttpd
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _corehttpd; printf '%s\n' "${{COMPREPLY[@]}}"'''
    done = subprocess.run(['bash', '-c', script, 'bash', 'corehttpd', *words], capture_output=True, text=True, timeout=60, cwd=directory)
    assert done.stderr == ''
    return done.stdout.split('\n')[:-1]


def test_completion(tmp_path):
    (tmp_path / 'a file.conf').write_text('')
    (tmp_path / 'a-directory').mkdir()
    assert complete(tmp_path, '-s', '') == ['stop', 'quit', 'reopen', 'reload', 'upgrade']
    assert complete(tmp_path, '-s', 're') == ['reopen', 'reload']
    assert complete(tmp_path, '--describe', 'try_') == ['try_files']
    assert complete(tmp_path, '-c', 'a') == ['a file.conf', 'a-directory']
    assert complete(tmp_path, '-p', 'a') == ['a-directory']
    assert complete(tmp_path, '-t', '--js') == ['--json']
    assert complete(tmp_path, 'imp') == ['import-nginx']
    assert complete(tmp_path, '-t', 'imp') == ['']
    assert complete(tmp_path, 'import-nginx', '--') == ['--out']
    assert complete(tmp_path, 'import-nginx', 'a') == ['a-directory']


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

"""docs/troubleshooting.md has an entry for each message that the daemon logs at warn or above, or prints as [emerg] or [alert].

An entry is a code span with the text of the format string in it; what the daemon fills in is "…" there:
log(…, LogLevel::kCrit, "open() \\"{}\\" failed") wants `open() "…" failed`. Complaints about a configuration are not looked for: they come
with their line, a caret and a hint, and the page has them in groups.
"""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUIET = {'Notice', 'Info', 'Debug'}


def arguments(text, start):
    """The text from start to the parenthesis that closes the call."""
    depth, at = 1, start
    while depth and at < len(text):
        literal = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'').match(text, at)
        if literal:
            at = literal.end()
            continue
        depth += text[at] in '([{'
        depth -= text[at] in ')]}'
        at += 1
    return text[start:at - 1]


def first_literal(code):
    """The first string of some code, adjacent ones joined as the compiler does."""
    match = re.search(r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*', code)
    return ''.join(re.findall(r'"((?:[^"\\]|\\.)*)"', match[0])) if match else None


def shown(literal):
    """A format string as the page writes it."""
    text = re.sub(r'\\n$', '', literal).replace('\\"', '"').replace('\\\\', '\\')
    text = re.sub(r'\{[^{}]*\}|%(?:\.\*)?[a-z]+', '…', text.replace('{{', '\0').replace('}}', '\1'))
    return re.sub('…+', '…', text.replace('\0', '{').replace('\1', '}'))


def messages(text):
    """(offset, text) of what is logged at warn or above, or at a level that is not known before."""
    text = re.sub(r'//[^\n"]*$', lambda m: ' ' * len(m[0]), text, flags=re.M)
    for call in re.finditer(r'\b(?:log|log_errno|log_in)\(', text):
        code = arguments(text, call.end())
        levels = set(re.findall(r'\bLogLevel::k([A-Z]\w+)', code))
        if levels and levels <= QUIET or not (levels or re.search(r'\blevel\b', code)):
            continue
        literal = first_literal(code)
        if literal is not None:
            yield call.start(), shown(literal)
    for call in re.finditer(r'\bfprintf\(stderr,', text):
        literal = first_literal(arguments(text, call.end())) or ''
        if match := re.match(r'corehttpd: \[(?:emerg|alert|crit|error)\] (.*)', literal):
            yield call.start(), shown(match[1])


def missing(source, page):
    """Messages of source that page has no entry for. One that is nothing but what is filled in has its text, and its entry, elsewhere."""
    entries = '\n'.join(re.findall(r'`([^`\n]+)`', page))
    return [(offset, text) for offset, text in messages(source) if re.search('[A-Za-z]{2}', text) and text not in entries]


FILES = sorted([*ROOT.glob('src/**/*.cc'), *ROOT.glob('src/**/*.h'), *ROOT.glob('include/**/*.h')])


def test_each_message_has_an_entry():
    page = (ROOT / 'docs/troubleshooting.md').read_text()
    found = [f'{path.relative_to(ROOT)}: {text}' for path in FILES for _, text in missing(path.read_text(), page)]
    assert not found, 'no entry in docs/troubleshooting.md:\n' + '\n'.join(found)


@pytest.mark.parametrize('code,text', [
    ('log(nullptr, LogLevel::kEmerg, "the sky is {}", color());', 'the sky is …'),
    ('log_errno(nullptr, LogLevel::kAlert, errno,\n  "moon of \\"{}\\" "\n  "failed", name);', 'moon of "…" failed'),
    ('exchange.log(LogLevel::kCrit, 0, "no air in {:x}", place);', 'no air in …'),
    ('log(clean ? LogLevel::kNotice : LogLevel::kAlert, "sun {}", x);', 'sun …'),
    ('exchange.log(level, error, "rain on \\"{}\\"", path);', 'rain on "…"'),
    ('std::fprintf(stderr, "corehttpd: [emerg] no wind in %s\\n", x);', 'no wind in …')])
def test_an_entry_is_wanted(code, text):
    assert [said for _, said in missing(code, 'nothing')] == [text]
    assert missing(code, f'- `{text}`: it is so.') == []


@pytest.mark.parametrize('code', ['log(nullptr, LogLevel::kNotice, "all is well");', 'exchange.log(LogLevel::kInfo, 0, "as ever");',
                                  'log(nullptr, LogLevel::kEmerg, "{}", message);'])
def test_no_entry_is_wanted(code):
    assert missing(code, 'nothing') == []

#!/usr/bin/env python3
"""Style as a test: layers, confinement of third-party headers, columns, lengths, dead files, TODOs.

Run as `tidy.py ROOT`; prints one line per violation and exits 1 if there is any. What is longer than allowed today
is listed in ratchet.txt with its length; an entry may only shrink, and one that is no longer needed is a violation too.
"""
import re
import sys
from pathlib import Path

COLUMNS = 100
FILE_LINES = 600
FUNCTION_LINES = 70

# Third-party headers and the only places that may include them (path prefixes under src/ and include/corehttpd/).
CONFINED = [
    (re.compile(r'^liburing'), ['io/']),
    (re.compile(r'^(openssl|gnutls)/'), ['tls/']),
    (re.compile(r'^nghttp2/'), ['proto/h2']),
    (re.compile(r'^(ngtcp2|nghttp3)/'), ['proto/h3', 'tls/quic']),
    (re.compile(r'^pcre2'), ['expr/']),
    (re.compile(r'^(seccomp\.h|linux/landlock)'), ['server/']),
    (re.compile(r'^ares'), ['upstream/']),
    (re.compile(r'^(crypt|md5|sha|sha1|sha2)\.h$'), ['access/']),
    (re.compile(r'^(zlib|brotli/|zstd|libdeflate|zopfli)'), ['transform/', 'helper/', 'handlers/access_log_gzip']),
]
# What answers a request must not know which protocol carries it.
PROTOCOL_WORDS = re.compile(r'\b(h1|h2|h3)::|Version::k(09|10|11|2|3)\b|proto/')
PROTOCOL_FREE = ['handlers/', 'transform/', 'access/', 'assets/', 'cache/', 'upstream/']
# CGI variables and logs print the version; gzip_http_version compares it because its meaning is just that.
PROTOCOL_ALLOWED = {'src/assets/gzip_policy.cc'}


def module_of(path):
    """('http', 'http/fields.h') for src/http/… and include/corehttpd/http/…; None elsewhere."""
    parts = path.parts
    if parts[0] == 'src' and len(parts) > 2:
        return parts[1], '/'.join(parts[1:])
    if parts[:2] == ('include', 'corehttpd') and len(parts) > 3:
        return parts[2], '/'.join(parts[2:])
    return None, None


def read_layers(root):
    allowed = {}
    for line in (root / 'src/LAYERS').read_text().splitlines():
        words = line.split()
        if words and not words[0].startswith('#'):
            allowed[words[1]] = set(words[2:]) | {words[1]}
    return allowed


def included_module(name):
    if name.startswith('corehttpd/'):
        return name.split('/')[1]
    return name.split('/')[0] if '/' in name else None


def check_includes(root, path, text, layers):
    module, inner = module_of(path)
    if module is None:
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        kind, name = match.groups()
        if kind == '"':
            other = included_module(name)
            if other in layers and other not in layers.get(module, set()):
                yield f'{path}:{number}: {module} may not include {other} ({name}); see src/LAYERS'
            if not ((root / 'src' / name).exists() or (root / 'include' / name).exists()):
                yield f'{path}:{number}: {name} does not exist'
        for pattern, places in CONFINED:
            if pattern.match(name) and not any(inner.startswith(p) for p in places):
                yield f'{path}:{number}: {name} is confined to {", ".join(places)}'


def check_protocol_free(path, text):
    _, inner = module_of(path)
    if inner is None or not any(inner.startswith(p) for p in PROTOCOL_FREE) or str(path) in PROTOCOL_ALLOWED:
        return
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith('#') and PROTOCOL_WORDS.search(line.split('//')[0]):
            yield f'{path}:{number}: knows a protocol: {line.strip()}'


def blank_literals(text):
    """Comments, strings and character literals replaced by blanks, so that braces in them do not count."""
    pattern = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|//[^\n]*|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'')
    return pattern.sub(lambda m: re.sub(r'[^\n]', ' ', m.group(0)), text)


def functions(text):
    """(first line, lines) of each function body, found by its braces."""
    text = blank_literals(text)
    text = re.sub(r'^\s*#.*?(?<!\\)$', lambda m: ' ' * len(m.group(0)), text, flags=re.M)
    stack, start, line, found = [], 0, 1, []
    for i, c in enumerate(text):
        if c == '\n':
            line += 1
        elif c == '{':
            before = text[start:i].strip()
            inside = any(kind == 'function' for kind, _ in stack)
            scope = re.search(r'\b(namespace|class|struct|union|enum|extern)\b', before) and not before.endswith(')')
            is_function = not inside and not scope and re.search(r'\)[^=;]*$', before)
            stack.append(('function' if is_function else 'scope', line))
            start = i + 1
        elif c == '}':
            if stack:
                kind, first = stack.pop()
                if kind == 'function':
                    found.append((first, line - first + 1))
            start = i + 1
        elif c == ';':
            start = i + 1
    return found


def check_lengths(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS:
            yield f'{path}:{number}: {len(line)} columns', None
    lines = text.count('\n')
    if lines > FILE_LINES:
        yield f'{path}: {lines} lines', (f'{path}', lines)
    for first, length in functions(text):
        if length > FUNCTION_LINES:
            yield f'{path}:{first}: function of {length} lines', (f'{path}#function', length)


def check_ratchet(violations, ratchet):
    """Lets through what ratchet lists, as long as it has not grown."""
    used = {}
    for message, key in violations:
        if key is None:
            yield message
            continue
        name, length = key
        allowed = ratchet.get(name, 0)
        if length > allowed:
            yield message
        else:
            used[name] = max(used.get(name, 0), length)
    for name, allowed in ratchet.items():
        if used.get(name, 0) < allowed:
            yield f'tests/tidy/ratchet.txt: {name} is {used.get(name, 0) or "fine"} now; lower or delete its entry'


def check_dead(root, sources):
    """A header that nobody includes."""
    included = set()
    for path in sources:
        included |= set(re.findall(r'#\s*include\s*"([^"]+)"', (root / path).read_text()))
    for path in sources:
        if path.suffix != '.h':
            continue
        name = '/'.join(path.parts[1:])
        if name not in included and path.parts[0] in ('src', 'include'):
            yield f'{path}: nobody includes it'


def check_words(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r'\b(TODO|FIXME|XXX|HACK)\b(?!.*#\d+)', line):
            yield f'{path}:{number}: a TODO needs the number of an issue'
        if path.suffix == '.h' and number == 1 and '#pragma once' not in text:
            yield f'{path}: no #pragma once'


def list_sources(root):
    for top in ('src', 'include', 'tests', 'bench'):
        for path in sorted((root / top).rglob('*')):
            if path.suffix in ('.h', '.cc') and 'results' not in path.parts:
                yield path.relative_to(root)


def check(root):
    layers = read_layers(root)
    sources = list(list_sources(root))
    lengths = []
    for path in sources:
        text = (root / path).read_text()
        yield from check_includes(root, path, text, layers)
        yield from check_protocol_free(path, text)
        yield from check_words(path, text)
        lengths.extend(check_lengths(path, text))
    ratchet = {}
    ratchet_file = root / 'tests/tidy/ratchet.txt'
    if ratchet_file.exists():
        for line in ratchet_file.read_text().splitlines():
            if line and not line.startswith('#'):
                name, length = line.split()
                ratchet[name] = int(length)
    yield from check_ratchet(lengths, ratchet)
    yield from check_dead(root, sources)


def main():
    violations = list(check(Path(sys.argv[1] if len(sys.argv) > 1 else '.').resolve()))
    for violation in violations:
        print(violation)
    print(f'{len(violations)} violations')
    return 1 if violations else 0


if __name__ == '__main__':
    sys.exit(main())

"""Throw-away Debian roots that the peers run from, so that nothing is installed on the host."""
import glob
import re
import subprocess
from pathlib import Path


def mirror():
    """The Debian archive of the host's own apt sources; None leaves it to mmdebstrap."""
    for name in glob.glob('/etc/apt/sources.list.d/*') + ['/etc/apt/sources.list']:
        try:
            text = Path(name).read_text()
        except OSError:
            continue
        for pattern in (r'^URIs:\s*(\S*/debian/?)\s*$', r'^deb\s+(?:\[[^]]*\]\s+)?(\S*/debian/?)\s'):
            match = re.search(pattern, text, re.M)
            if match:
                return match.group(1)
    return None


def make(directory, suite, packages, name=None):
    """Makes (once) and returns a root of suite with packages in it; name, if there is to be another one of that suite."""
    root = Path(directory) / (name or suite)
    marker = root / '.complete'
    if marker.exists() and marker.read_text() == ' '.join(packages):
        return root
    subprocess.run(['rm', '-rf', str(root)], check=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    print(f'making a Debian root ({suite}: {", ".join(packages)})', flush=True)
    command = ['mmdebstrap', '--variant=minbase', f'--include={",".join(packages)}', suite, str(root)]
    if mirror():
        command.append(mirror())
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=900)
    marker.write_text(' '.join(packages))
    return root

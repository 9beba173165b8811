#!/usr/bin/env python3
"""Thousands of sites: how long reading them takes and what they cost, corehttpd beside nginx.

    bench/sites.py write DIRECTORY [SITES]          writes the configuration and the sites' folders
    bench/sites.py measure [SITES] [--nginx ROOT] [--tls] [--write]
                                                    writes them to a temporary folder, measures, prints Markdown; --write puts it
                                                    into bench/results/sites.md (sites-tls.md)

With --tls each site has a certificate (P-256) of its own as well, and the first answer is one over TLS with the right certificate. Each site is what a hosting box has: two names, a root, index, try_files, a PHP location, long-lived static files, hidden
files kept in, error pages, logs of its own. ROOT is a Debian root with nginx in it (bench/run makes one); it runs there by chroot.
"""
import argparse
import os
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BINARY = Path(os.environ.get('COREHTTPD', Path(__file__).resolve().parents[1] / 'build/release/corehttpd'))
RESULTS = Path(__file__).resolve().parent / 'results'
DEADLINE = 120

MAIN = '''daemon off;
worker_processes 2;
pid {directory}/pid;
error_log {directory}/error.log;
events {{ worker_connections {connections}; }}
http {{
  types {{ text/html html; text/css css; image/png png; }}
  server_names_hash_bucket_size 128;
  server_names_hash_max_size 8192;
  sendfile on;
  gzip on;
  access_log {directory}/logs/default.log;
  client_body_temp_path {directory}/tmp/body;
  fastcgi_temp_path {directory}/tmp/fastcgi;
  server {{ listen unix:{directory}/web.sock default_server; return 404; }}
  include {directory}/sites/*.conf;
}}
'''

SITE = '''server {{
  listen unix:{directory}/web.sock;
  server_name {name} www.{name};
  root {directory}/www/{name};
  index index.php index.html;
  access_log {directory}/logs/{log}.log;
  client_max_body_size 64m;
  error_page 404 /errors/404.html;
  error_page 500 502 503 504 /errors/50x.html;
  add_header X-Content-Type-Options nosniff always;
  location / {{
    try_files $uri $uri/ /index.php?$args;
  }}
  location = /favicon.ico {{ log_not_found off; access_log off; }}
  location = /robots.txt {{ log_not_found off; access_log off; }}
  location ~ /\\.(?!well-known/) {{ return 404; }}
  location ~* \\.(?:css|js|png|jpe?g|gif|svg|woff2?)$ {{
    expires 30d;
    access_log off;
  }}
  location ~ \\.php$ {{
    fastcgi_pass unix:/run/php/{name}.sock;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_param QUERY_STRING $query_string;
    fastcgi_param REQUEST_METHOD $request_method;
    fastcgi_param CONTENT_TYPE $content_type;
    fastcgi_param CONTENT_LENGTH $content_length;
    fastcgi_read_timeout 120s;
  }}
}}
'''


TLS = '''  listen unix:{directory}/tls.sock ssl;
  ssl_certificate {directory}/certificates/{name}.pem;
  ssl_certificate_key {directory}/certificates/{name}.key;
'''


def name_of(number):
    return f'site{number:05}.example.org'


def make_certificate(directory, name):
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', f'/CN={name}', '-addext',
                    f'subjectAltName=DNS:{name},DNS:www.{name}', '-days', '60', '-keyout', f'{directory}/{name}.key', '-out', f'{directory}/{name}.pem'],
                   check=True, capture_output=True)


def make_certificates(directory, sites):
    directory.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda number: make_certificate(directory, name_of(number)), range(sites)))


def write(directory, sites, logs=50, certificates=None):
    """logs: how many files the sites' logs are spread over; each is a descriptor, as in nginx."""
    directory = Path(directory)
    for folder in ('sites', 'logs', 'tmp', 'www'):
        (directory / folder).mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)
    (directory / 'main.conf').write_text(MAIN.format(directory=directory, connections=1024))
    for number in range(sites):
        name = name_of(number)
        (directory / 'www' / name).mkdir(exist_ok=True)
        (directory / 'www' / name / 'index.html').write_text(f'this is {name}\n')
        text = SITE.format(directory=directory, name=name, log=f'group{number % logs:03}')
        if certificates:
            text = text.replace('  server_name', TLS.format(directory=directory, name=name) + '  server_name', 1)
        (directory / 'sites' / f'{name}.conf').write_text(text)
    if certificates:
        shutil.copytree(certificates, directory / 'certificates', dirs_exist_ok=True)
    return directory / 'main.conf'


def timed(command):
    """(seconds, processor seconds, peak resident KiB) of a command that has to succeed."""
    started = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f'{command} failed:\n{said.decode()[-2000:]}')
    return time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def answer(path, host, trusted=None):
    """trusted: the certificate that the server has to show, over TLS."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(DEADLINE)
        client.connect(str(path))
        if trusted:
            client = ssl.create_default_context(cafile=str(trusted)).wrap_socket(client, server_hostname=host)
        client.sendall(f'GET /index.html HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n'.encode())
        data = b''
        while part := client.recv(65536):
            data += part
        return data


def private_kib(pid):
    """What a process has for itself and what it shares, in KiB (Pss counts shared pages in parts)."""
    values = {}
    for line in Path(f'/proc/{pid}/smaps_rollup').read_text().splitlines()[1:]:
        name, value = line.split(':')
        values[name] = int(value.split()[0])
    return values


def started(command, socket_path, host, expected, trusted):
    """Seconds from exec to the first right answer, and the Pss of all its processes in KiB."""
    begin = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                if expected in answer(socket_path, host, trusted):
                    break
            except OSError:
                pass
            if child.poll() is not None or time.monotonic() - begin > DEADLINE:
                sys.exit(f'{command} did not start')
            time.sleep(0.005)
        seconds = time.monotonic() - begin
        out = subprocess.run(['ps', '-o', 'pid=', '--ppid', str(child.pid)], capture_output=True, text=True).stdout
        pids = [child.pid, *map(int, out.split())]
        return seconds, sum(private_kib(pid)['Pss'] for pid in pids), len(pids) - 1
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(DEADLINE)


def measure_one(command, root, count, runs, certificates):
    """What one server needs for count sites: the best time of several runs, the largest memory."""
    inside = f'/tmp/sites-{os.getpid()}-{count}'
    outside = Path(root + inside)
    write_at(outside, inside, count, certificates)
    trusted = certificates and certificates / f'{name_of(count - 1)}.pem'
    web = outside / ('tls.sock' if certificates else 'web.sock')
    config, last = f'{inside}/main.conf', name_of(count - 1)
    try:
        tests = [timed([*command, '-t', '-c', config]) for _ in range(runs)]
        starts = [started([*command, '-c', config], web, last, f'this is {last}'.encode(), trusted) for _ in range(runs)]
    finally:
        shutil.rmtree(outside, ignore_errors=True)
    return {'test': min(t[0] for t in tests), 'cpu': min(t[1] for t in tests), 'rss': max(t[2] for t in tests),
            'start': min(s[0] for s in starts), 'pss': max(s[1] for s in starts), 'workers': starts[0][2]}


def version(command):
    return subprocess.run([*command, '-v'], capture_output=True, text=True).stderr.strip().split(': ', 1)[-1]


def measure(sites, nginx_root, certificates, runs=5):
    """The report, in Markdown."""
    servers = [('corehttpd', [str(BINARY)], '')]
    if nginx_root:
        servers.append(('nginx', ['chroot', str(nginx_root), '/usr/sbin/nginx'], str(nginx_root)))
    load = os.getloadavg()[0]
    rows = []
    for name, command, root in servers:
        one = measure_one(command, root, 1, runs, certificates)
        many = measure_one(command, root, sites, runs, certificates)
        per_site = {key: (many[key] - one[key]) / (sites - 1) for key in ('rss', 'pss')}
        rows.append('| {} | {:.2f} | {:.2f} | {:.1f} | {:.1f} | {:.2f} | {:.1f} | {:.1f} |'.format(
            name, many['test'], many['cpu'], many['rss'] / 1024, per_site['rss'], many['start'], many['pss'] / 1024, per_site['pss']))
    versions = '; '.join(f'{name}: {version(command)}' for name, command, _ in servers)
    tls = '--tls ' if certificates else ''
    return f'''# {sites} sites{' with a certificate each' if certificates else ''}

`bench/sites.py measure {tls}{sites}` on kernel {os.uname().release}, {os.cpu_count()} CPUs, load average {load:.1f} when it began. {versions}. Each site has two names, a
root, try_files, a PHP location, static files, error pages and a log (shared by every fiftieth site); see the script. Best time of {runs} runs,
largest memory; per site: what {sites} sites need more than one, divided by {sites - 1}. Processor time is what the machine's other work does not change.

| server | `-t`, s | processor time of `-t`, s | peak RSS of `-t`, MiB | per site, KiB | start to first answer, s | master and 2 workers, MiB (Pss) | per site, KiB |
|---|---|---|---|---|---|---|---|
''' + '\n'.join(rows) + '\n'


def write_at(outside, inside, count, certificates):
    """Writes to one path what is read under another: in a chroot."""
    write(outside, count, certificates=certificates)
    if str(outside) != inside:
        for path in [outside / 'main.conf', *(outside / 'sites').iterdir()]:
            path.write_text(path.read_text().replace(str(outside), inside))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('action', choices=['write', 'measure'])
    parser.add_argument('words', nargs='*')
    parser.add_argument('--nginx', help='a Debian root with nginx in it')
    parser.add_argument('--tls', action='store_true', help='a certificate for each site')
    parser.add_argument('--write', action='store_true', help='into bench/results')
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    if options.action == 'write':
        print(write(options.words[0], int(options.words[1]) if len(options.words) > 1 else 2000))
    else:
        sites = int(options.words[0]) if options.words else 2000
        with tempfile.TemporaryDirectory() as folder:
            certificates = Path(folder) / 'certificates' if options.tls else None
            if certificates:
                make_certificates(certificates, sites)
            report = measure(sites, options.nginx, certificates)
        print(report, end='')
        if options.write:
            (RESULTS / ('sites-tls.md' if options.tls else 'sites.md')).write_text(report)


if __name__ == '__main__':
    main()

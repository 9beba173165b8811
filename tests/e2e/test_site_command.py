"""corehttpd-site: sites are switched on and off, never into a configuration that the daemon refuses."""
import json
import os
import re
import subprocess

import pytest
from harness import BINARY, DEADLINE, ROOT, Http1, free_port, wait_until

SCRIPT = ROOT / 'packaging/corehttpd-site'


class Root:
    def __init__(self, directory):
        self.directory = directory / 'etc'
        self.pid = directory / 'pid'
        self.port = free_port()
        for name in ('sites-available', 'sites-enabled'):
            (self.directory / name).mkdir(parents=True)
        (self.directory / 'corehttpd.conf').write_text(
            f'daemon off;\npid {self.pid};\nerror_log {directory}/error.log;\nworker_processes 1;\nevents {{ }}\nhttp {{\n'
            f'  access_log off;\n  client_body_temp_path {directory}/body;\n  fastcgi_temp_path {directory}/fcgi;\n'
            f'  server {{ listen 127.0.0.1:{self.port}; return 200 "default"; }}\n'
            '  include sites-enabled/*;\n}\n')

    def site(self, name, body=None, host=None):
        if body is None:
            body = f'server {{ listen 127.0.0.1:{self.port}; server_name {host or name}; return 200 "{name}"; }}\n'
        (self.directory / 'sites-available' / name).write_text(body)

    def link(self, name):
        return self.directory / 'sites-enabled' / name

    def run(self, *words):
        done = subprocess.run([str(SCRIPT), '--root', str(self.directory), *words], capture_output=True, text=True, timeout=DEADLINE,
                              env={**os.environ, 'COREHTTPD': str(BINARY)})
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def root(directory):
    return Root(directory)


def test_enable_makes_a_relative_link_and_is_idempotent(root):
    root.site('a')
    assert root.run('enable', 'a')[0] == 0
    assert os.readlink(root.link('a')) == '../sites-available/a'
    code, out, _ = root.run('enable', 'a')
    assert code == 0 and 'already' in out


def test_name_without_conf_finds_the_file_with_it(root):
    root.site('b.conf')
    assert root.run('enable', 'b')[0] == 0
    assert root.link('b.conf').is_symlink()
    assert root.run('disable', 'b')[0] == 0
    assert not os.path.lexists(root.link('b.conf'))
    code, out, _ = root.run('disable', 'b')
    assert code == 0 and 'not enabled' in out


def test_refused_site_is_taken_back_with_the_reason(root):
    root.site('bad', 'server { lisssten 80; }\n')
    code, _, err = root.run('enable', 'bad')
    assert code == 1
    assert 'unknown directive "lisssten"' in err and 'was not enabled' in err
    assert not os.path.lexists(root.link('bad'))


def test_what_was_enabled_before_a_refused_one_stays(root):
    root.site('a')
    root.site('bad', 'nonsense;\n')
    assert root.run('enable', 'a', 'bad')[0] == 1
    assert root.link('a').is_symlink() and not os.path.lexists(root.link('bad'))


def test_disable_keeps_what_others_need(root):
    root.site('zone', 'map $uri $needed { default 1; }\n')
    root.site('user', f'server {{ listen 127.0.0.1:{root.port}; server_name u; return 200 $needed; }}\n')
    assert root.run('enable', 'zone', 'user')[0] == 0
    code, _, err = root.run('disable', 'zone')
    assert code == 1 and 'would be refused without it' in err and 'needed' in err
    assert root.link('zone').is_symlink()


def test_a_broken_site_can_be_disabled(root):
    root.site('broken', 'nonsense;\n')
    root.site('other', 'nonsense;\n')
    for name in ('broken', 'other'):
        root.link(name).symlink_to(f'../sites-available/{name}')
    code, _, err = root.run('disable', 'broken')
    assert code == 1 and 'as it was with it' in err
    assert not os.path.lexists(root.link('broken'))
    assert root.run('disable', 'other')[0] == 0


@pytest.mark.parametrize('name', ['../a', 'x/y', '.hidden', '-rf', '', 'a\nb'])
def test_names_that_lead_elsewhere_are_refused(root, name):
    root.site('a')
    assert root.run('enable', name)[0] == 2
    assert root.run('disable', name)[0] == 2
    assert list((root.directory / 'sites-enabled').iterdir()) == []


def test_usage_errors_exit_2(root):
    for words in ((), ('enable',), ('disable',), ('frobnicate', 'a'), ('list', 'a'), ('--nonsense', 'list'), ('enable', 'missing'),
                  ('disable', 'missing'), ('enable', '--json', 'a')):
        code, _, err = root.run(*words)
        assert code == 2 and err, words
    assert root.run('--help')[0] == 0


def test_files_that_are_no_links_are_left_alone(root):
    root.site('own')
    root.link('own').write_text('# mine\n')
    assert root.run('enable', 'own')[0] == 1
    assert root.run('disable', 'own')[0] == 1
    assert root.link('own').read_text() == '# mine\n'


def test_list_tells_the_states_apart(root):
    root.site('on')
    root.site('off "quoted" name')
    root.link('gone').symlink_to('../sites-available/gone')
    root.link('own').write_text('')
    root.link('on').symlink_to('../sites-available/on')
    code, out, _ = root.run('list')
    assert code == 0
    assert sorted(re.split(r'\s+', line, maxsplit=1)[::-1] for line in out.splitlines()) == [
        ['gone', 'dangling'], ['off "quoted" name', 'available'], ['on', 'enabled'], ['own', 'file']]
    code, out, _ = root.run('list', '--json')
    assert code == 0
    assert {entry['name']: entry['state'] for entry in json.loads(out)} == {
        'gone': 'dangling', 'off "quoted" name': 'available', 'on': 'enabled', 'own': 'file'}


def get(root, host):
    client = Http1(('127.0.0.1', root.port))
    try:
        return client.request('/', host=host).body
    finally:
        client.close()


def test_the_running_daemon_takes_it_over(root):
    root.site('a')
    process = subprocess.Popen([str(BINARY), '-c', str(root.directory / 'corehttpd.conf')], stderr=subprocess.DEVNULL)
    try:
        wait_until(root.pid.exists, 'pid file')
        wait_until(lambda: answers(root), 'listener')
        code, out, err = root.run('enable', 'a')
        assert code == 0 and 'reloaded' in out, (out, err)
        wait_until(lambda: get(root, 'a') == b'a', 'the site')
        code, out, _ = root.run('--no-reload', 'disable', 'a')
        assert code == 0 and 'reloaded' not in out
        assert get(root, 'a') == b'a'
    finally:
        process.terminate()
        process.wait(DEADLINE)


def answers(root):
    try:
        return get(root, 'localhost') == b'default'
    except OSError:
        return False


def test_a_stale_pid_file_signals_nobody(root):
    root.site('a')
    root.pid.write_text(str(os.getpid()))
    code, out, _ = root.run('enable', 'a')
    assert code == 0 and 'reloaded' not in out

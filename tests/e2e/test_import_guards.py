"""import-nginx: what guards a place, or decides who answers, and is not understood closes it rather than open it."""
import re

from harness import free_port
from import_box import box, named  # noqa: F401


def closed(made, http, paths, more=''):
    """Imports and starts; the statuses of paths."""
    made.file('f', 'data')
    made.file('p/f', 'data')
    made.main(http.replace('SERVER', f'listen 80; root {made.directory}/www;'), more)
    made.imported()
    made.start()
    return [made.status(path) for path in paths]


def test_guard_of_http_closes_every_site(box):
    assert closed(box(), 'auth_jwt "x"; server { SERVER }', ['/f', '/p/f']) == [503, 503]


def test_unknown_directive_counts_as_a_guard(box):
    assert closed(box(), 'server { SERVER location /p { waf_enabled on; } }', ['/f', '/p/f']) == [200, 503]


def test_rules_that_end_early_do_not_jump_over_the_closing(box):
    http = 'server { SERVER location /p { rewrite ^ /f break; auth_jwt "x"; auth_jwt_key_file x; } }'
    assert closed(box(), http, ['/p/f']) == [503]


def test_rules_before_a_guard_still_answer(box):
    http = 'server { SERVER location /p { auth_jwt "x"; if ($arg_r) { return 302 /x; } } location /r { auth_jwt "x"; return 204; } }'
    assert closed(box(), http, ['/p/f?r=1', '/p/f', '/r']) == [302, 503, 204]


def test_error_page_does_not_open_what_was_closed(box):
    http = ('server { SERVER error_page 502 503 =200 @all; location /p { limit_req zone=z; } location /q { proxy_pass http://127.0.0.1:1; } '
            'location @all { try_files /f =404; } }')
    assert closed(box(), http, ['/p/f', '/q']) == [503, 502]


def test_rule_that_a_lost_map_feeds_is_closed(box):
    # $deny is known, since a rule sets it elsewhere: without the map it would silently be empty.
    http = ('map $no_such_variable $deny { default 1; } server { SERVER if ($deny) { return 403; } } '
            'server { listen unix:/tmp/never.sock; server_name b; set $deny ""; }')
    assert closed(box(), http, ['/f']) == [503]


def test_location_that_cannot_be_read_closes_its_server(box):
    assert closed(box(), 'server { SERVER location ~ ^/(p { deny all; } }', ['/f', '/p/f']) == [503, 503]


def test_listen_that_is_not_understood_does_not_move_the_site(box):
    made = box()
    http = f'server {{ SERVER }} server {{ listen 127.0.0.1:{free_port()} nonsense; server_name b; root /tmp; }}'
    assert closed(made, http, ['/f']) == [200]
    assert not re.search(r'^\s*server_name b;', made.text(), re.M)


def test_deny_all_is_inherited(box):
    http = 'server { SERVER location /p { deny all; location ~ f$ { expires 1h; } location /p/open { allow all; return 200; } } }'
    assert closed(box(), http, ['/p/x', '/p/f', '/p/open']) == [403, 403, 200]


def test_satisfy_any_does_not_open_what_lost_one_of_its_guards(box):
    assert closed(box(), 'server { SERVER satisfy any; location /p { allow all; auth_jwt "x"; } }', ['/p/f']) == [503]


def test_authorization_by_a_closed_location_refuses(box):
    http = ('server { SERVER location /p { auth_request /auth; } location = /auth { internal; proxy_pass http://127.0.0.1:1; } '
            'location /f { satisfy any; auth_request /auth; allow 127.0.0.1; deny all; } }')
    assert closed(box(), http, ['/p/f', '/f', '/auth']) == [500, 200, 404]


def test_guard_in_a_shared_snippet_closes_each_place(box):
    made = box()
    made.write('guard.conf', 'auth_jwt "x";\nauth_jwt_key_file x;\n')
    http = 'server { SERVER location /p { include guard.conf; } location /f { include guard.conf; } location /g { return 200; } }'
    assert closed(made, http, ['/p/f', '/f', '/g']) == [503, 503, 200]


def test_unguarded_at_the_operators_word(box):
    made = box()
    made.file('f', 'data')
    made.main(f'limit_req_zone $binary_remote_addr zone=z:1m rate=1r/s; server {{ listen 80; root {made.directory}/www; limit_req zone=z; }}')
    entries = made.imported('--unguarded', 'limit_req')
    assert 'open' in named(entries, 'limit_req')[0]['message']
    made.start()
    assert made.status('/f') == 200


def test_rules_on_addresses_work(box):
    made = box()
    made.file('p/f', 'data')
    made.file('f', 'data')
    made.main(f'set_real_ip_from 127.0.0.1; server {{ listen 80; root {made.directory}/www; deny 192.0.2.1; location /p {{ allow 192.0.2.0/24; deny all; }} }}')
    entries = made.imported()
    assert not [e for e in entries if e['directive'] in ('set_real_ip_from', 'allow', 'deny')]
    made.start()

    def ask(path, address):
        return made.status(path, headers=[('X-Real-IP', address)])
    assert [ask('/f', '192.0.2.1'), ask('/f', '192.0.2.2'), ask('/p/f', '192.0.2.9'), ask('/p/f', '198.51.100.1')] == [403, 200, 200, 403]


def test_rule_on_addresses_that_cannot_be_read_closes(box):
    assert closed(box(), 'server { SERVER location /p { deny 192.0.2.1/33; } }', ['/f', '/p/f']) == [200, 503]


def test_lost_upstream_is_not_looked_up_as_a_host(box):
    # The group's only server is wrong; "localhost" would be found by other means.
    http = 'upstream localhost { server 127.0.0.1:9 frobnicate=1; } server { SERVER location /p { fastcgi_pass localhost; } }'
    assert closed(box(), http, ['/p/f', '/f']) == [502, 200]


def test_condition_that_holds_does_not_open_a_closed_location(box):
    http = 'server { SERVER location /p { auth_jwt "x"; if ($arg_r) { set $y 1; } if ($arg_r) { add_header X-Y z; } } }'
    assert closed(box(), http, ['/p/f', '/p/f?r=1']) == [503, 503]


def test_lua_programs_are_not_read_as_configuration(box):
    made = box()
    program = 'location /lua { content_by_lua_block { -- it\'s } "\n ngx.say([==[ } ]==], "}\\"", {1}) } }'
    assert closed(made, f'server {{ SERVER {program} location /after {{ return 204; }} }}', ['/lua', '/after']) == [502, 204]


def test_listen_http2_keeps_http2(box):
    made = box()
    made.main(f'server {{ listen 80 http2; root {made.directory}/www; }} server {{ listen 80; server_name b; }}')
    made.imported()
    assert len(re.findall(r'http2 on;', made.text())) == 1 and 'http2 off;' in made.text()

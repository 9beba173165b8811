"""Runs inside a booted root: asks for a page over and over until a file appears, and counts every request that was not answered right.

  load.py STOP-FILE URL-PATH...

Prints one JSON object. No request is tried again, whatever the reason: that is the point. Half of the clients keep their connection
as long as the server lets them, the others open one per request, and one of them speaks HTTP/2 (curl).
"""
import http.client
import json
import os
import subprocess
import sys
import threading

stop, paths = sys.argv[1], sys.argv[2:]
lock = threading.Lock()
total = {'requests': 0, 'connections': 0, 'failures': []}


def count(failure=None, connections=0):
    with lock:
        total['requests'] += 1
        total['connections'] += connections
        if failure:
            total['failures'].append(failure)


def over_http1(keep):
    connection = None
    turn = 0
    while not os.path.exists(stop):
        path = paths[turn % len(paths)]
        turn += 1
        fresh = connection is None
        try:
            if fresh:
                connection = http.client.HTTPConnection('127.0.0.1', 80, timeout=30)
            connection.request('GET', path, headers={} if keep else {'Connection': 'close'})
            response = connection.getresponse()
            body = response.read()
            right = response.status == 200 and len(body) > 0
            count(None if right else f'{path}: {response.status}, {len(body)} bytes', fresh)
            if response.will_close:
                connection.close()
                connection = None
        except (OSError, http.client.HTTPException) as error:
            count(f'{path}: {error!r} on a {"new" if fresh else "kept"} connection', fresh)
            connection = None


def over_http2():
    while not os.path.exists(stop):
        for path in paths:
            done = subprocess.run(['curl', '-sS', '-o', '/dev/null', '-w', '%{http_code} %{http_version}', '--http2-prior-knowledge', '-m', '30',
                                   f'http://127.0.0.1{path}'], capture_output=True, text=True)
            count(None if done.stdout == '200 2' else f'h2 {path}: {done.stdout} {done.stderr}', 1)


threads = [threading.Thread(target=over_http1, args=(keep,)) for keep in (True, False, True, False)] + [threading.Thread(target=over_http2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(total))

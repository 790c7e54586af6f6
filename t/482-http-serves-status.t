#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The HTTP server shows sums to all, names to clients with the token, answers GET and HEAD only, and delays nobody.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no settings"
TOKEN=kZ8-token.of_the~test+1/2=
# A port that no program uses.
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export PORT TOKEN M
conf() { printf '%s\n' "$@" >"$W/conf" && chmod 600 "$W/conf"; }
sockets_of() { find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null | tr -dc '0-9\n'; }
# Local addresses, in hexadecimal, on which the process listens.
listens() { sockets_of "$1" | while read -r i; do awk -v i="$i" '$4 == "0A" && $10 == i { print $2 }' /proc/net/tcp /proc/net/tcp6; done; }

ok "mount" mount_store
is "$(listens "$daemon")" "" "without the setting there is no socket"
ok "unmount" unmount_store

refused() { # DESC PATTERN SETTING
	conf "$3"
	fails "$1 is refused" "^tabletfs: .*$2" "$TABLETFS" -f "$D" "$M" -o config="$W/conf"
	is "$(wc -l <"$W/.out")" 1 "  in one line"
}
refused "a name as address" "conf:1: http: must be a numeric address with a port" 'http = "localhost:9180";'
refused "an address without a port" "conf:1: http: must be" 'http = "127.0.0.1";'
refused "a port that is too large" "conf:1: http: must be" 'http = "127.0.0.1:70000";'
refused "a name that is too long" "conf:1: name: must be a string of at most 128 bytes" "name = \"$(printf '%0129d' 0)\";"
refused "a slow time of nothing" "conf:1: slow: must be from 1ms to 1d" 'slow = "10us";'
refused "a slow time that is none" "conf:1: slow: must be a duration" 'slow = 5;'
refused "a short token" "conf:1: http_token: must be 16 to 128" 'http_token = "short";'
refused "a token with a blank" "conf:1: http_token: must be" 'http_token = "0123456789abcdef 0123";'
fails "an address of another machine is refused" "^tabletfs: http: cannot listen on 192\.0\.2\.1:$PORT: Cannot assign" \
	"$TABLETFS" -f "$D" "$M" -o "http=192.0.2.1:$PORT"
fails "-o http with a name is refused" "^tabletfs: http: here:1: not a numeric address" "$TABLETFS" -f "$D" "$M" -o http=here:1

conf "http = \"127.0.0.1:$PORT\"; http_token = \"$TOKEN\";"
ok "mount" mount_store -o config="$W/conf"
mkdir -p "$W/D2" "$W/M2"
fails "a port in use is an error at the start" "^tabletfs: http: cannot listen on 127\.0\.0\.1:$PORT: Address already in use" \
	"$TABLETFS" -f "$W/D2" "$W/M2" -o "http=127.0.0.1:$PORT"
is "$(wc -l <"$W/.out") $(ls "$W/D2")" "1 " "  in one line, before a store is made"
is "$(listens "$daemon")" "$(printf '0100007F:%04X' "$PORT")" "the daemon listens on the configured address only"
like "$(grep http "$M/.tabletfs/config")" "^# http = \"127\.0\.0\.1:$PORT\"; .*" "the address is shown"
is "$(grep -c "$TOKEN" "$M/.tabletfs/config" "$M/.tabletfs/log" "$W/daemon.err")" \
	"$(printf '%s:0\n' "$M/.tabletfs/config" "$M/.tabletfs/log" "$W/daemon.err")" "the token is not shown"

unlike "$(cat "$M/.tabletfs/log")" warning "there is no warning"

mkdir -p "$M/secret/hidden.row/zfam" "$M/secret2/<script>/zfam"
echo a >"$M/secret/hidden.row/zfam/q"
echo b >"$M/secret2/<script>/zfam/q"
echo "split hidden.row" >"$M/secret/.ctl"
echo "unknown-secret" 2>/dev/null >"$M/secret/.ctl"
py <<'E'
import http.client, json, os, re, socket, threading, time
from tap import *
PORT, TOKEN, M = int(os.environ['PORT']), os.environ['TOKEN'], os.environ['M']
BEARER = {'Authorization': 'Bearer ' + TOKEN}


def ask(path, method='GET', headers={}, body=None):
    c = http.client.HTTPConnection('127.0.0.1', PORT, timeout=20)
    c.request(method, path, body=body, headers=headers)
    r = c.getresponse()
    return r.status, r, r.read().decode()


def raw(text):
    """The status of the answer to these bytes; 0: the connection was closed without one."""
    with socket.create_connection(('127.0.0.1', PORT), timeout=20) as s:
        try:
            s.sendall(text)
            got = s.recv(4096)
        except ConnectionError:
            return 0
    return int(got.split()[1]) if got else 0


def names_of(metrics):
    return [l.split(' ')[0] for l in metrics.splitlines() if not l.startswith('#')]


status, answer, named = ask('/metrics', headers=BEARER)
same(status, 200, 'metrics with the token')
same(names_of(named), names_of(open(M + '/.tabletfs/metrics').read()), 'they are those of /.tabletfs/metrics')
same(answer.getheader('Content-Type'), 'text/plain; version=0.0.4; charset=utf-8', 'their type')
status, answer, sums = ask('/metrics')
ok(status == 200 and 'secret' not in sums and 'zfam' not in sums, 'without a token they have no name')
value = lambda text, name: sum(int(l.split()[1]) for l in text.splitlines() if re.match(name + r'[{ ]', l))
same(value(sums, 'tabletfs_table_tablets'), value(named, 'tabletfs_table_tablets'), 'but the sum over the tables')
same(sums.count('\ntabletfs_family_cells '), 1, 'and the sum over the families')
same(names_of(sums).count('tabletfs_request_seconds_count{request="read"}'), 1, 'other labels stay')

status, answer, text = ask('/status.json')
hidden = ('secret', 'hidden', 'zfam', 'script', 'unknown', D)
ok(status == 200 and not any(h in text for h in hidden), 'the status without a token has no name and no message')
same(json.loads(text)['named'], False, '  and says so')
status, answer, text = ask('/status.json', headers=BEARER)
state = json.loads(text)
tables = {t['name']: t['tablets'] for t in state['tables']}
same([(t['begin'], t['end'], t['last']) for t in tables['secret']], [('', 'hidden.row', False), ('hidden.row', '', True)],
    'with it, the borders of each tablet')
ok(any('split at' in e[1] for e in tables['secret'][0]['events']), 'a split is among the events of both parts')
ok(any('split at' in e[1] for e in tables['secret'][1]['events']), '  of both')
ok(sum(t['writes'] for t in tables['secret2']) >= 1, 'writes are counted by tablet')
ok('unknown-secret' in state['messages'][0], 'the newest message is the first')
same(len(state['status']), 9, 'the nine lines of the status')

for given in (TOKEN[:-1], TOKEN + 'x', '', TOKEN.upper(), 'x' * 500, 'x' * len(TOKEN)):
    same(ask('/status.json', headers={'Authorization': 'Bearer ' + given})[0], 401, 'the token %.30r is refused' % given)
same(ask('/metrics', headers={'Authorization': 'Basic ' + TOKEN})[0], 401, 'another scheme is refused')
same(ask('/metrics', headers={'Authorization': 'bearer ' + TOKEN})[0], 200, 'the scheme has no case')
same(json.loads(ask('/status.json?token=' + TOKEN)[2])['named'], False, 'a token in the address means nothing')
same(json.loads(ask('/status.json', headers={'Cookie': 'token=' + TOKEN})[2])['named'], False, 'nor one in a cookie')

for method in ('POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'BREW'):
    status, answer, text = ask('/metrics', method, BEARER)
    same((status, answer.getheader('Allow')), (405, 'GET, HEAD'), method + ' is refused')
same(ask('/', 'POST', body='x' * 100000)[0], 405, 'a POST with a body is refused')
same(ask('/', 'GET', body='x')[0], 400, 'a GET with a body, too')


def statuses(*lines):
    """The statuses of the answers to raw header lines, in front of a second request."""
    with socket.create_connection(('127.0.0.1', PORT), 20) as s:
        s.sendall(('\r\n'.join(('GET /status.json HTTP/1.1',) + lines) + '\r\n\r\n'
                   'GET /smuggled HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n').encode())
        got = b''
        try:
            while piece := s.recv(65536):
                got += piece
        except ConnectionResetError:
            pass
    return [int(n) for n in re.findall(rb'HTTP/1\.1 (\d+)', got)]


H = 'Host: localhost'
same(statuses(H), [200, 404], 'two requests on one connection')
same(statuses(H, 'Content-Length: 0'), [200, 404], 'a length of 0')
for name, lines in (('two lengths', ('Content-Length: 0', 'Content-Length: 44')), ('the same length twice', ('Content-Length: 0', 'Content-Length: 0')),
                    ('lengths in other letters', ('content-length: 0', 'CONTENT-LENGTH: 44')),
                    ('a length beside an encoding', ('Content-Length: 0', 'Transfer-Encoding: chunked')),
                    ('an encoding beside a length', ('Transfer-Encoding: chunked', 'Content-Length: 44')),
                    ('two encodings', ('Transfer-Encoding: identity', 'Transfer-Encoding: chunked')),
                    ('an encoding', ('Transfer-Encoding: chunked',)), ('an unknown encoding', ('Transfer-Encoding: xchunked',)),
                    ('a length of two numbers', ('Content-Length: 0, 44',)), ('a negative length', ('Content-Length: -1',)),
                    ('a length with a sign', ('Content-Length: +0',)), ('no number', ('Content-Length: 0x0',)),
                    ('a blank before the colon', ('Content-Length : 44',)),
                    ('two hosts', ('Host: 127.0.0.1',)), ('two tokens', ('Authorization: Bearer a', 'Authorization: Bearer b'))):
    got = statuses(H, *lines)
    ok(set(got) <= {400, 401, 403, 413, 501}, '%s: refused, and the connection is closed: %r' % (name, got))
status, answer, text = ask('/metrics', 'HEAD')
ok(status == 200 and int(answer.getheader('Content-Length')) > 1000 and text == '', 'HEAD')
same(ask('/../etc/passwd')[0], 404, 'other paths do not exist')

status, answer, page = ask('/')
policy = answer.getheader('Content-Security-Policy')
nonces = set(re.findall(r"nonce-(\w+)'", policy))
ok(len(nonces) == 1 and page.count('nonce="%s"' % nonces.copy().pop()) == 2, 'script and style of the page have the nonce of the policy')
ok(policy.startswith("default-src 'none';") and 'unsafe' not in policy, 'the policy permits nothing else')
ok(nonces != set(re.findall(r"nonce-(\w+)'", ask('/')[1].getheader('Content-Security-Policy'))), 'the next answer has another nonce')
ok('://' not in page.replace('https://www.apache.org', ''), 'the page names no other server')

for host, want in (('127.0.0.1:%d' % PORT, 200), ('localhost', 200), ('LOCALHOST:1', 200), ('[::1]:80', 200), ('10.1.2.3', 200),
                   (socket.gethostname(), 200), ('evil.example', 403), ('127.0.0.1.evil.example', 403), ('localhost.evil.example:80', 403),
                   ('[::1].evil.example', 403), ('[evil]', 403), ('', 403), ('a' * 300, 403)):
    same(raw(b'GET /metrics HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' % host.encode()), want, 'Host %.40r: %d' % (host, want))
ok(raw(b'GET /metrics HTTP/1.0\r\n\r\n') in (400, 403), 'no Host is refused')
ok(raw(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ' + b'x' * 100000 + b'\r\n\r\n') in (0, 413, 431), 'long headers are refused')
ok(raw(b'GET /' + b'x' * 100000 + b' HTTP/1.1\r\nHost: localhost\r\n\r\n') in (0, 414, 431), 'a long address, too')

# Slow clients: as many as may connect, each in the middle of a request, or after bytes that are none.
HELD_S = 60  # a delayed request would take so long, because the connections are not idle before
class Trickle(threading.Thread):
    """Sends a byte of a header to each connection, twice a second, for HELD_S or until it is stopped."""
    def __init__(self, connections):
        super().__init__(daemon=True)
        self.connections, self.enough = connections, threading.Event()
        self.start()
    def run(self):
        until = time.monotonic() + HELD_S
        while time.monotonic() < until and not self.enough.wait(0.5):
            for s in self.connections:
                errno_of(s.send, b'x')
    def stop(self):
        self.enough.set()
        self.join()
slow = [socket.create_connection(('127.0.0.1', PORT), timeout=20) for _ in range(40)]
for i, s in enumerate(slow):
    try:
        s.sendall(b'GET / HTTP/1.1\r\nHost: local' if i % 2 else b'\x00\xff\r\n\r\n')
    except ConnectionError:
        pass
began = time.monotonic()
trickle = Trickle(slow[::2])
for i in range(50):
    with open(M + '/secret/hidden.row/zfam/n%d' % i, 'w') as f:
        f.write('x')
took = time.monotonic() - began
trickle.stop()
ok(took < HELD_S, 'slow clients delay no write of the mount')
print('# 50 writes took %.2f s' % took)
ends = 0
for s in slow:
    try:
        ends += s.recv(100) is not None
    except ConnectionError:
        ends += 1
same(ends, 40, 'the server ends their connections within seconds')  # 20 s each
soon(lambda: errno_of(ask, '/metrics'), '0', 'and answers others')

# Clients that hold their connections: each sends a byte now and then, so none is idle.
held = [socket.create_connection(('127.0.0.1', PORT), timeout=20) for _ in range(100)]
for s in held:
    errno_of(s.sendall, b'GET / HTTP/1.1\r\nHost: localhost\r\nX: ')
trickle = Trickle(held)
began = time.monotonic()
same([ask('/metrics')[0] for _ in range(5)], [200] * 5, 'clients that hold connections keep nobody out')
took = time.monotonic() - began
trickle.stop()
ok(took < HELD_S, '  nor do they delay the answers')
print('# 5 answers took %.2f s' % took)
for s in held:
    s.close()
E
exec 5<>"/dev/tcp/127.0.0.1/$PORT"
ok "unmount with an open connection" unmount_store
exec 5>&-

chmod 644 "$W/conf"
ok "mount" mount_store -o config="$W/conf"
like "$(cat "$M/.tabletfs/log")" "warning: $W/conf: other users can read http_token" "a token that others can read is a warning"
ok "unmount" unmount_store

conf "http = \"127.0.0.1:$PORT\";"
ok "mount without a token" mount_store -o config="$W/conf"
py <<'E'
import os, urllib.request, urllib.error
from tap import *
url = 'http://127.0.0.1:%s/status.json' % os.environ['PORT']
ok(b'secret' not in urllib.request.urlopen(url, timeout=20).read(), 'there are no names without a token')
for given in ('', 'x'):
    try:
        code = urllib.request.urlopen(urllib.request.Request(url, headers={'Authorization': 'Bearer ' + given}), timeout=20).status
    except urllib.error.HTTPError as e:
        code = e.code
    same(code, 401, 'nor with the token %r' % given)
E
ok "unmount" unmount_store

# ---- the name, and slow requests ----
conf "http = \"127.0.0.1:$PORT\"; http_token = \"$TOKEN\"; name = \"the web\"; slow = \"1ms\";"
ok "mount with a name and a time for slow requests" mount_store -o config="$W/conf"
is "$("$TABLETCTL" config "$M" | grep -E ' (name|slow) = ')" "$(printf '# name = "the web"; (at the mount only)\n# slow = "1ms"; (at the mount only)')" "both are in .tabletfs/config"
mkdir -p "$M/deep/a%2Frow/f"
head -c 3000000 /dev/urandom >"$M/deep/a%2Frow/f/large"
echo compact >"$M/deep/.ctl"
py <<'E'
import json, os, urllib.request
from tap import *
url = 'http://127.0.0.1:%s/status.json' % os.environ['PORT']
ask = lambda **headers: json.load(urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20))
state = ask(Authorization='Bearer ' + os.environ['TOKEN'])
same((state['name'], state['slow_us']), ('the web', 1000), 'the document has both')
paths = [(s['request'], s['path']) for s in state['slow']]
ok(('WRITE', '/deep/.ctl') in paths, 'a slow request has the path of a control file')
ok(any(p == '/deep/a%2Frow/f/large' for _, p in paths), '  and of a cell, as it is typed')
note(paths)
state = ask()
ok('slow' not in state and '/deep' not in json.dumps(state), 'without the token there is no path')
E
ok "unmount" unmount_store
ok "-o is stronger than the file" mount_store -o "config=$W/conf,name=other,slow=2s"
is "$("$TABLETCTL" config "$M" | grep -cE 'name = "other"|slow = "2s"')" 2 "  for both"
ok "unmount" unmount_store
fails "-o slow of nothing is refused" "slow=0s: must be from 1ms to 1d" "$TABLETFS" -f "$D" "$M" -o slow=0s
conf "http = \"127.0.0.1:$PORT\";"
ok "an address of the configuration is replaced by -o" mount_store -o config="$W/conf",http=
is "$(listens "$daemon")" "" "  by none"
done_testing

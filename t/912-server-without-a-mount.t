#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletfs-server serves a store without a mount: to mounts, tabletctl and programs; with
# the file of settings, signals, the service manager and the page of a mount's daemon.  If
# the process that has a store does not serve it, others are told its number and its name.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2120,SC2012,SC2015,SC2016,SC2317
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no server"
SERVER=$BUILD/tabletfs-server
ctl() { t "$TABLETCTL" "$@"; }
server=
# serve [ARGUMENT...]: starts it in the foreground, and waits until it serves.
serve() {
	: >"$W/server.err" # what the server before has said is no sign of this one
	"$SERVER" -f "$D" "$@" >"$W/server.out" 2>"$W/server.err" </dev/null &
	server=$!
	wait_for "the server" grep -q ' is served$' "$W/server.err"
}
# ends SIGNAL: the exit status.
ends() {
	kill "-$1" "$server"
	wait "$server"
}
row() { printf 'r\tf:a\t1\t%s\n' "$1" | ctl import -p "$D/t" - >"$W/.import" 2>&1; }

# ---- the command ----
like "$(t "$SERVER" --version)" '^tabletfs-server [0-9]' "--version"
like "$(t "$SERVER" --help)" '^usage: tabletfs-server DATADIR' "--help"
fails "no data directory" '^usage: tabletfs-server DATADIR ' t "$SERVER"
fails "a mount point" 'one argument too many' t "$SERVER" "$D" "$M"
for o in ro allow_other latest nosuch; do fails "-o $o, which is a mount's" "tabletfs-server: $o: no such option" t "$SERVER" -o "$o" "$D"; done
fails "a store that another serves" "not a data directory" t "$SERVER" "unix:$D"
same <("$SERVER" --print-config) <("$TABLETFS" --print-config) "--print-config prints the settings of tabletfs"
printf 'data = "%s";\nmountpoint = "%s";\nmount_options = "ro,allow_other";\nsync_interval = "2s";\n' "$D" "$M" >"$W/conf"
ok "--check-config" t "$SERVER" --check-config "$W/conf"
echo 'colour = 1;' >"$W/bad.conf"
is "$(t "$SERVER" --check-config "$W/bad.conf" 2>&1)" "tabletfs-server: $W/bad.conf:1: colour: unknown setting" "  an error has file, line and cause"
ok "nothing was made" test ! -e "$D"

# ---- in the background ----
cd "$W" || exit 1
exec 7>"$W/lock"
flock 7
ok "in the background it returns when it serves" t "$SERVER" -o config="$W/conf"
exec 7>&-
is "$(stat -c %F:%a "$D/socket")" socket:600 "  at its socket"
ok "  it keeps nothing that the caller had open" flock -n "$W/lock" true
ok "  nothing is mounted" eval '! mounted "$M"'
pid=$(pgrep -f "^$SERVER -o config=$W/conf\$")
like "$(cat "/proc/$pid/comm"):$(readlink "/proc/$pid/cwd")" '^tabletfs-server:/$' "  its working directory is /"
ok "tabletctl imports through it" row one
is "$(ctl get "$D/t" r f:a)" one "  and reads"
for how in "$SERVER $D" "$TABLETFS $D $M" "$TABLETCTL check $D" "$TABLETCTL repair $D" "$TABLETCTL dump meta $D"; do
	# shellcheck disable=SC2086
	fails "${how##*/} is refused, with the number and the name of the process" "in use by process $pid \(tabletfs-server\)" t $how
done
ok "a mount by its relative path" t "$TABLETFS" unix:data mnt
is "$(cat "$M/t/r/f/a")" one "  shows the store"
echo two >"$M/t/r/f/a"
is "$(ctl get "$D/t" r f:a)" two "  and writes it"
is "$(awk -F'\t' '$4 != "tabletctl" { print $4 }' "$M/.tabletfs/clients" | tail -n 1)" "$M" "  the list of clients has its absolute mount point"
printf 'sync_interval = "3s";\n' >"$W/conf"
kill -HUP "$pid"
soon 'sed -n "s/^sync_interval = //p" "$M/.tabletfs/config"' '"3s";' "SIGHUP reads the settings again"
kill -TERM "$pid"
released() { ctl check "$D"; }
wait_for "its end" released
ok "SIGTERM ends it; the store is clean" ctl check "$D"
ok "  and the socket is gone" test ! -e "$D/socket"

# ---- a mount survives its server ----
t cat "$M/t/r/f/a" >"$W/waits" &
waits=$!
serve
wait $waits
is "$? $(cat "$W/waits")" "0 two" "a call of the mount waits for the next server"
for s in TERM INT; do
	# A shell's background processes ignore SIGINT.
	[ $s = TERM ] || { wait_for "the end" released; : >"$W/server.err"; env --default-signal=INT "$SERVER" -f "$D" >"$W/server.out" 2>"$W/server.err" & server=$!; wait_for "the server" grep -q ' is served$' "$W/server.err"; }
	is "$(cat "$M/t/r/f/a")" two "the mount goes on"
	ends $s
	is $? 0 "SIG$s ends it with 0"
	like "$(cat "$W/server.err")" 'socket: closed; [12] connections? waits? for the next server' "  the log says how many wait for the next one"
	wait_for "the end" released
done
serve
echo three >"$M/t/r/f/a"
kill -9 "$server"
wait "$server" 2>/dev/null
serve
is "$(cat "$M/t/r/f/a")" three "kill -9 loses nothing that was acknowledged"
ok "the next mount" t fusermount3 -u "$M"
ends TERM
for s in PIPE USR1 USR2; do
	serve
	kill "-$s" "$server"
	is "$(ctl get "$D/t" r f:a)" three "SIG$s does not end it"
	ends TERM
	is $? 0 "  SIGTERM does"
done

# ---- HTTP, and the service manager ----
py "$SERVER" "$W" "$D" <<'PY'
from tap import same, ok
import http.client, json, os, signal, socket, struct, subprocess, sys
server, W, D = sys.argv[1:]
token = "0123456789abcdef"
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(W + "/notify")
manager.settimeout(60)
probe = socket.socket()
probe.bind(("127.0.0.1", 0))
port = probe.getsockname()[1]
probe.close()
with open(W + "/http.conf", "w") as f:
    f.write('http_token = "%s";\n' % token)
os.chmod(W + "/http.conf", 0o600)
daemon = subprocess.Popen([server, "-f", "-o", "config=%s/http.conf,http=127.0.0.1:%d" % (W, port), D], stderr=subprocess.DEVNULL,
    env=dict(os.environ, NOTIFY_SOCKET=W + "/notify", WATCHDOG_USEC="1000000"))
same(manager.recv(1000), b"READY=1", "a service manager is told that it serves")
same(manager.recv(1000), b"WATCHDOG=1", "  and that it answers")
def ask(path, headers={}):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    c.request("GET", path, headers=headers)
    r = c.getresponse()
    return r.status, r.read().decode()
same(ask("/")[0], 200, "the page")
status, text = ask("/metrics")
ok(status == 200 and "tabletfs_tables 1" in text, "the metrics")
import wire
client = socket.socket(socket.AF_UNIX)
client.connect(D + "/socket")
client.sendall(wire.hello(wire.field(7, b"secret")))
same(client.recv(1000)[4], 1, "a client is greeted")
status, text = ask("/status.json")
same((status, D in text, "secret" in text), (200, False, False), "the status names no path and no client without a token")
state = json.loads(ask("/status.json", {"Authorization": "Bearer " + token})[1])
same([x[1].split(" is served")[0] for x in state["status"] if x[0] == "mount"], ["none: " + D], "  with it, it does")
same([t["name"] for t in state["tables"]], ["t"], "  and has the tables")
ok(any(x[0] == "client" and ": secret, user %d, process %d, address unix" % (os.getuid(), os.getpid()) in x[1] for x in state["status"]), "  and the clients")
client.close()
def heard(what):
    while (m := manager.recv(1000)) == b"WATCHDOG=1":
        pass
    return m
daemon.send_signal(signal.SIGHUP)
same([heard("") for _ in range(2)], [b"RELOADING=1", b"READY=1"], "SIGHUP reads the settings again")
daemon.send_signal(signal.SIGTERM)
same(heard(""), b"STOPPING=1", "SIGTERM is announced")
same(daemon.wait(60), 0, "  and ends it with 0")
PY

# ---- while used ----
start() { "$SERVER" -f -o while-used "$D" >"$W/one.$1" 2>&1 </dev/null; echo "$?" >"$W/status.$1"; }
start 1 &
start 2 &
start 3 &
serves() { grep -q ' is served$' "$W"/one.?; }
wait_for "one of three" serves
ok "a mount uses it" t "$TABLETFS" "unix:$D" "$M"
refused() { [ "$(cat "$W"/status.? 2>/dev/null)" = $'1\n1' ]; }
ok "of three that start at once one serves" wait_for "the others" refused
is "$(cat "$W"/one.? | grep -c 'in use by process [0-9]* (tabletfs-server)$')" 2 "  and two are refused"
is "$(ctl get "$D/t" r f:a)" three "  one more client comes and leaves"
# Longer than the time after which it would end.
unused() { [ "$(awk -F'\t' '$4 == m { print $6 }' m="$M" "$M/.tabletfs/clients")" -ge 3 ]; }
ok "  it serves as long as the mount lasts" wait_for "three seconds" unused
is "$(cat "$M/t/r/f/a")" three "  and longer"
ok "the last client leaves" t fusermount3 -u "$M"
ended() { [ "$(sort -u "$W"/status.? | tr -d '\n')" = 01 ] && [ "$(cat "$W"/status.? | wc -l)" = 3 ]; }
ok "  it ends, with 0" wait_for "its end" ended
ok "  the store is clean" ctl check "$D"
rm "$W"/status.?
start 4
is "$(cat "$W/status.4")" 0 "without a client it ends after a while"

# ---- holders that do not serve ----
# held_by PID NAME WHAT: each of these is refused.
held_by() {
	local how
	for how in "$SERVER $D" "$TABLETFS $D $W/mnt2" "$TABLETCTL get $D/t r f:a" "$TABLETCTL check $D" "$TABLETCTL repair $D" "$TABLETCTL dump meta $D"; do
		# shellcheck disable=SC2086
		fails "$3: ${how##*/} is refused, with its number and name" "$D: in use by process $1 \($2\)" t $how
	done
}
seq -f 'wide%05.0f	f:q	1	xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' 1 20000 | ctl import -p "$D/wide" - 2>"$W/.import"
mkdir "$W/mnt2"
mkfifo "$W/unread"
"$TABLETCTL" scan "$D/wide" >"$W/unread" &
holder=$!
exec 8<"$W/unread"
read -r _ <&8
held_by $holder tabletctl "a scan that nobody reads"
exec 8<&-
wait $holder
mount_store -o ro
held_by "$daemon" tabletfs "a read-only mount"
unmount_store
done_testing

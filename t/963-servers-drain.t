#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Servers of a cluster end by SIGTERM, one after the other, while a shell appends lines: the tablets move to the others first,
# so no write fails and none waits for the end of a session.  tabletctl drain empties a server that goes on.
# shellcheck source=t/lib/cluster.sh disable=SC2119
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
tablets_of() { awk -v a="$1" '$1 == a { print $3 }' "$M/.tabletfs/servers"; }
address_of() { awk -v n="$1" '$1 == n { print $2 }' "$C/members"; }

cluster_mounted
for i in {1..9}; do mkdir -p "$M/t$i/r/f"; done
for i in {1..9}; do seq "$i" 500 >"$M/t$i/r/f/seq"; done
cat >"$W/loop" <<'SH'
n=0
while [ ! -e "$W/enough" ]; do
	n=$((n + 1))
	for i in 1 2 3; do
		if ! echo "$n" >>"$M/t$i/r/f/q"; then echo "$n $i" >>"$W/refused"; fi
	done
	echo "$EPOCHREALTIME" >>"$W/acknowledged"
done
SH
: >"$W/refused"
: >"$W/acknowledged"
bash "$W/loop" 2>"$W/loop.err" &
loop=$!
ok "a shell appends lines" goes_on

# ---- SIGTERM ----
for name in server1 server2 server3; do
	pid=$(process $name)
	ok "$name gets SIGTERM" kill "$pid"
	ok "  it ends" wait_for "its end" eval "! kill -0 $pid"
	like "$(cat "$C/$name.log")" "has no tablets any more" "  after it had no tablets"
	ok "  the loop goes on" goes_on
	ok "  all servers serve again" all_serve
done

# ---- a server that goes on ----
fails "drain knows the servers" "no such server" ctl drain "$CLUSTER" 4711
fails "  and wants a cluster" "not tls://" ctl drain "$D" 1
a=$(address_of server3)
ok "server3, which has been started again, is drained" ctl drain "$CLUSTER" "$a"
is "$(tablets_of "$a")" 0 "  it has no tablets"
ok "  also by its incarnation" ctl drain "$CLUSTER" "$(awk -v a="$a" '$1 == a { print $2 }' "$M/.tabletfs/servers")"
ok "  the loop goes on" goes_on
ok "  a new table" mkdir -p "$M/new/r/f"
is "$(tablets_of "$a")" 0 "  is on another one"
a=$(address_of server2)
ok "server2 is drained" ctl drain "$CLUSTER" "$a"
is "$(tablets_of "$a")" 0 "  it has no tablets"
a=$(address_of server1)
fails "the last server keeps its tablets" "no other server" ctl drain "$CLUSTER" "$a"
ok "  the loop goes on" goes_on
: >"$W/enough"
wait "$loop"
is "$(cat "$W/refused" "$W/loop.err")" "" "no write failed"
rounds=$(wc -l <"$W/acknowledged")
for i in 1 2 3; do
	ok "table t$i has every line once" cmp "$M/t$i/r/f/q" <(seq "$rounds")
done
for i in {1..9}; do cmp "$M/t$i/r/f/seq" <(seq "$i" 500) || fail "t$i has another file"; done
pause=$(awk 'NR > 1 && $1 - last > most { most = $1 - last } { last = $1 } END { printf "%d\n", most * 1000 }' "$W/acknowledged")
echo "# $rounds rounds; the longest took $pause ms"
ok "no write waited as long as a session lasts" [ "$pause" -lt 4000 ]
t fusermount3 -u "$M"
wait_daemon

# ---- the end of all ----
began=${EPOCHREALTIME/./}
ok "the cluster is stopped" ctl cluster stop "$C"
echo "# its end took $(((${EPOCHREALTIME/./} - began) / 1000)) ms"
wait "$server"
is $? 0 "  its exit status"
server=
is "$(cat "$W/cluster.err")" "$(grep "is started again" "$W/cluster.err")" "  no process had to be killed"
done_testing

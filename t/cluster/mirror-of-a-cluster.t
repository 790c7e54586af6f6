#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletctl mirror from a cluster to an embedded store: it follows a table of three tablets under writes while each server
# is killed, and tabletctl compare finds both tables equal.
# shellcheck source=t/lib/cluster.sh disable=SC2119
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
SERVERS=2
COPY=$W/copy/c
end_mirror() {
	kill "$mirror"
	wait "$mirror"
}

cluster_mounted --servers 2
mkdir "$M/c"
echo 'changes = "7d"; families = ({name = "f";}, {name = "g"; gc = "maxversions=2";});' >"$M/c/.schema"
for i in 1 2 3; do printf 'row%s\tf:q\t0\tx\n' "$i"; done >"$M/c/.import"
for i in 2 3; do echo "split row$i" >"$M/c/.ctl"; done
cat >"$W/loop" <<'SH'
n=0
while [ ! -e "$W/enough" ]; do
	n=$((n + 1))
	for i in 1 2 3; do
		until printf 'row%s\tf:q\t%s\tv%s\nrow%s\tg:%s\t%s\tw%s\n' "$i" "$n" "$n" "$i" "$((n % 7))" "$n" "$n" >"$M/c/.import"; do
			echo "$n $i" >>"$W/refused"
		done
	done
	rm -rf "$M/c/row2/g/$((n % 5))"@* 2>>"$W/refused"
	echo "$n" >>"$W/acknowledged"
done
SH
: >"$W/acknowledged"
bash "$W/loop" 2>"$W/loop.err" &
loop=$!
ok "a shell writes rows of three tablets" goes_on
"$TABLETCTL" mirror --follow "$CLUSTER/c" "$COPY" 2>"$W/mirror.err" </dev/null &
mirror=$!
ok "a mirror of them begins" wait_for "the target" [ -d "$W/copy" ]
ok "  the writes go on" goes_on
for name in server1 server2; do
	pid=$(process $name)
	ok "$name is killed" kill -9 "$pid"
	ok "  it is replaced" wait_for "another process" is_replaced $name "$pid"
	ok "  the writes go on" goes_on
	ok "  all serve again" all_serve 2
	ok "  the writes go on" goes_on
	ok "  and the mirror follows" kill -0 "$mirror"
done
: >"$W/enough"
wait "$loop"
end_mirror
is $? 143 "SIGTERM ends the mirror"
diag <"$W/mirror.err"
mirrored() { ctl mirror "$CLUSTER/c" "$COPY" 2>"$W/mirror.err"; }
ok "another run has the rest" mirrored
diag <"$W/mirror.err"
ok "both tables are equal" ctl compare "$CLUSTER/c" "$COPY"
ctl scan "$CLUSTER/c" | sort >"$W/a"
ctl scan "$COPY" | sort >"$W/b"
same "$W/a" "$W/b" "  and scans print the same"
is "$(grep -c "	f:q	" "$W/b")" $((3 * $(wc -l <"$W/acknowledged") + 3)) "  which is each write"
printf 'row2\tf:q\t1\tother\n' >"$M/c/.import"
ctl compare "$CLUSTER/c" "$COPY" >"$W/out"
is "$? $(cat "$W/out")" "1 value	row2	f:q	1" "a cell that differs is found"
ok "the copy is sound" ctl check "$W/copy"
end_cluster

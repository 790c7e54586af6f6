#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The changes of a table in a cluster: a reader that follows, through a second mount, gets each acknowledged write once and in the
# order of its row, while tablets are moved, one server is drained and another one is killed.
# shellcheck source=t/lib/cluster.sh disable=SC2119
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900 SERVERS=2
address_of() { awk -v n="$1" '$1 == n { print $2 }' "$C/members"; }
both_serve() { [ "$(tail -n +2 "$M/c/.tablets" | cut -f "$1" | sort -u | wc -l)" = 2 ]; }

cluster_mounted --servers 2
mkdir "$M/c"
echo 'changes = "7d"; families = ({name = "f";});' >"$M/c/.schema"
for i in 1 2 3; do printf 'row%s\tf:q\t0\tx\n' "$i"; done >"$M/c/.import"
for i in 2 3; do echo "split row$i" >"$M/c/.ctl"; done
ok "a second mount" mount_second
(exec cat "$M2/c/.changes/from=start/.follow") >"$W/followed" 2>"$W/follow.err" &
follower=$!
cat >"$W/loop" <<'SH'
n=0
while [ ! -e "$W/enough" ]; do
	n=$((n + 1))
	for i in 1 2 3; do
		until printf 'row%s\tf:q\t%s\tv%s\n' "$i" "$n" "$n" >"$M/c/.import"; do echo "$n $i" >>"$W/refused"; done
	done
	echo "$n" >>"$W/acknowledged"
done
SH
: >"$W/acknowledged"
bash "$W/loop" 2>"$W/loop.err" &
loop=$!
ok "a shell writes rows of three tablets" goes_on
column=$(head -n 1 "$M/c/.tablets" | tr '\t' '\n' | grep -nx server | cut -d : -f 1)
ok "  which both servers serve" wait_for "both servers" both_serve "$column"
ok "a server is drained" ctl drain "$CLUSTER" "$(address_of server1)"
ok "  the writes go on" goes_on
pid=$(process server2)
ok "the other one, which has all tablets, is killed" kill -9 "$pid"
ok "  it is replaced" wait_for "another process" is_replaced server2 "$pid"
ok "  the writes go on" goes_on
ok "  both serve again" all_serve 2
ok "  the writes go on" goes_on
: >"$W/enough"
wait "$loop"
rounds=$(wc -l <"$W/acknowledged")
ok "the reader gets the last change" wait_for "the last change" grep -q "row3	f:q	$rounds	" "$W/followed"
ok "  and still runs" kill -0 $follower
# A write whose answer is lost is sent again by the shell, and is then another change with the same timestamp.
is "$(cut -f 4,6 "$W/followed" | sort -u | wc -l)" $((3 * rounds + 3)) "each acknowledged write is a change"
[ -s "$W/refused" ] || is "$(wc -l <"$W/followed")" $((3 * rounds + 3)) "  and is listed once"
for i in 1 2 3; do
	ok "the changes of row$i are in order" sh -c "grep '	row$i	' '$W/followed' | cut -f 6 | sort -nc"
done
is "$(cut -f 1 "$W/followed" | sort | uniq -d | head -n 1)" "" "no token is there twice"
ok "times of commit rise" sh -c "cut -f 2 '$W/followed' | sort -nc"
cat "$M2/c/.changes/from=start/.tsv" >"$W/listed"
# Two tokens may stand for the same place: behind the last change of a time, or before the first one of the next time.
changes() { cut -f 2- "$1"; }
same <(changes "$W/listed") <(changes "$W/followed") "the list from the start is the same"
half=$((3 * rounds / 2))
cat "$M/c/.changes/from=$(sed -n "${half}p" "$W/followed" | cut -f 1)/.tsv" >"$W/rest"
tail -n +$((half + 1)) "$W/followed" >"$W/wanted"
same <(changes "$W/rest") <(changes "$W/wanted") "a token of the middle continues, through the other mount"
kill $follower
wait $follower 2>/dev/null
diag <"$W/follow.err"
end_cluster

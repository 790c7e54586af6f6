#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rsync into the cluster and out of it is exact, while each server dies.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
has rsync || cannot_run "there is no rsync"
cluster_mounted
mkdir -p "$M/t2/.families/f" "$M/t2/.families/g" "$W/from" "$W/to"
for ((r = 0; r < 200; r++)); do
	mkdir -p "$W/from/row$r/f" "$W/from/row$r/g"
	for ((i = 0; i < 5; i++)); do
		echo "row $r cell $i" >"$W/from/row$r/f/c$i"
		head -c $((r * 97 + i * 1000)) /dev/urandom >"$W/from/row$r/g/c$i"
	done
done
find "$W/from" -depth -exec touch -h -d "2024-05-06 07:08:09.123456" {} +
kills=0
kill_servers() { # one after another, until the file "copied" is there, or each has died five times
	local name was round
	for ((round = 0; round < 5; round++)); do
		for name in server1 server2 server3; do
			[ ! -e "$W/copied" ] || return
			was=$(process $name)
			kill -9 "$was" && kills=$((kills + 1)) && echo $kills >"$W/kills"
			wait_for "$name" is_replaced $name "$was"
			all_serve
		done
	done
}
copy() { # DESCRIPTION FROM TO
	rm -f "$W/copied"
	kill_servers &
	killer=$!
	ok "$1" t rsync -a --bwlimit=600 "$2/" "$3/"
	: >"$W/copied"
	wait $killer
}
copy "rsync into the cluster" "$W/from" "$M/t2"
echo "# $(cat "$W/kills") kills"
is "$(t rsync -acin "$W/from/" "$M/t2/" | files)" "" "  is exact"
copy "rsync out of it" "$M/t2" "$W/to"
echo "# $(cat "$W/kills") kills"
is "$(t rsync -acin "$M/t2/" "$W/to/" | files)" "" "  is exact"
# A cell's file has its version in its name.
sums() { (cd "$1" && find row* -type f -exec md5sum {} + | sed 's/@[0-9]*$//' | LC_ALL=C sort); }
is "$(sums "$W/to" | cmp - <(sums "$W/from") 2>&1)" "" "  all bytes are as before"
ok "all servers serve" all_serve
end_cluster

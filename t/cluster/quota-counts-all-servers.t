#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A quota counts the bytes on all servers: two servers have half of it each, and then each refuses puts.  Removals are accepted,
# and after them puts.
# shellcheck source=t/lib/cluster.sh disable=SC2119
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
SERVERS=2
both_serve() { [ "$(tail -n +2 "$M/c/.tablets" | cut -f "$1" | sort -u | wc -l)" = 2 ]; }
# settles COMMAND...: within some multiples of the 10 s in which the sizes are read again
settles() { wait_for "$*" "$@"; }
refused() { ! echo x >"$M/c/row$1/f/late"; }
accepted() { echo x >"$M/c/row$1/f/late"; }

cluster_mounted --servers 2
mkdir "$M/c"
echo 'quota = "1M"; families = ({name = "f";});' >"$M/c/.schema"
for i in 1 2 3 4; do printf 'row%s\tf:q\t1\tx\n' "$i"; done >"$M/c/.import"
for i in 2 3 4; do echo "split row$i" >"$M/c/.ctl"; done
column=$(head -n 1 "$M/c/.tablets" | tr '\t' '\n' | grep -nx server | cut -d : -f 1)
ok "both servers have tablets" wait_for "both servers" both_serve "$column"
head -c 300000 /dev/urandom >"$W/third"
for i in 1 2 3 4; do ok "row $i of 300,000 bytes" cp "$W/third" "$M/c/row$i/f/big"; done
for i in 1 2 3 4; do
	settles refused "$i" 2>"$W/.null"
	fails "a put into row $i is refused" "Disk quota exceeded" cp "$W/third" "$M/c/row$i/f/late"
done
like "$(tail -n 1 "$M/.tabletfs/refused")" "the table has reached its quota" "  with the reason"
ok "rows are removed" rm -r "$M/c/row1" "$M/c/row2"
ok "their bytes, too" sh -c "echo compact >'$M/c/.ctl'"
for i in 3 4; do
	settles accepted "$i" 2>"$W/.null"
	ok "then a put into row $i is accepted" accepted "$i"
done
end_cluster

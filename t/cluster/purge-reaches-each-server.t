#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The verb purge in a cluster: tablets of a table are on two servers, and no file of either one's has deleted bytes when it returns.
# shellcheck source=t/lib/cluster.sh disable=SC2119
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
SERVERS=2
both_serve() { [ "$(tail -n +2 "$M/c/.tablets" | cut -f "$1" | sort -u | wc -l)" = 2 ]; }

cluster_mounted --servers 2
mkdir "$M/c"
echo 'changes = "7d"; families = ({name = "f"; group = "g";}); groups = ({name = "g"; compression = "none";});' >"$M/c/.schema"
for i in 1 2 3 4; do printf 'row%s\tf:q\t1\tx\n' "$i"; done >"$M/c/.import"
for i in 2 3 4; do echo "split row$i" >"$M/c/.ctl"; done
column=$(head -n 1 "$M/c/.tablets" | tr '\t' '\n' | grep -nx server | cut -d : -f 1)
ok "both servers have tablets" wait_for "both servers" both_serve "$column"
for i in 1 2 3 4; do printf 'row%s\tf:secret\t1\tRosebud-4711\n' "$i"; done >"$M/c/.import"
echo flush >"$M/c/.ctl"
rm "$M"/c/row?/f/secret
ok "deleted bytes are on the disk" grep -r -q -a -F Rosebud-4711 "$C"
cat "$M/c/.changes/from=start/.tsv" >"$W/before"
is "$(wc -l <"$W/before")" 12 "and in the changes"
ok "purge" sh -c "echo purge >'$M/c/.ctl'"
is "$(grep -r -l -a -F Rosebud-4711 "$C")" "" "no file has them"
is "$(cat "$M/c/.changes/from=start/.tsv")" "" "no change is kept"
fails "a place before them is ESTALE" "Stale file handle" cat "$M/c/.changes/from=$(head -n 1 "$W/before" | cut -f 1)/.tsv"
is "$(cat "$M/c/.changes/from=$(tail -n 1 "$W/before" | cut -f 1)/.tsv")" "" "  and the place behind them is valid"
is "$(wc -l <"$M/c/.scan/.keys")" 4 "the table has its cells"
end_cluster

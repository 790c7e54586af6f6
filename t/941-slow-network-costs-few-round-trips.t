#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A mount over a network with a delay costs few round trips: for a walk through a table, for the
# values of cells, and for a large value.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
# shellcheck source=t/lib/network.sh
. "$SRC/t/lib/network.sh"
network 2 0 1

# 40 rows and 80 families, with the table 121 directories, and 240 cells.
mkdir "$W/tree"
for r in $(seq 100 139); do
	for f in f g; do
		mkdir -p "$W/tree/r$r/$f"
		for c in 1 2 3; do echo "$r$f$c" >"$W/tree/r$r/$f/c$c"; done
	done
done
head -c 3000000 /dev/urandom >"$W/large"
mount_store
mkdir -p "$M/t/.families/f" "$M/t/.families/g" "$M/other/row/f"
cp -r "$W/tree/." "$M/t/.latest"
cp "$W/large" "$M/other/row/f/large"
echo small >"$M/other/row/f/small"
seq 3000 | awk '{ printf "wide\tf:cell%d\t%d\tx\n", $1, $1 }' >"$W/wide.tsv"
cp "$W/wide.tsv" "$M/other/.import.tsv"
unmount_store
# On a busy machine, too, the mount keeps what it has read.
mount_over_network coherence=60s

# requests: how many the mount has sent.
requests() { awk -F '\t' -v m="$M" '$4 == m { print $5 }' "$M/.tabletfs/clients"; }
# costs MOST DESC COMMAND...: the command succeeds, and the mount sends at most so many requests for it.
costs() {
	local most=$1 what=$2 before after
	shift 2
	before=$(requests)
	t "$@" >"$W/costs.out" 2>"$W/costs.err" || diag <"$W/costs.err"
	after=$(requests)
	ok "$what: at most $most requests (now $((after - before - own)))" test $((after - before - own)) -le "$most"
}
requests >"$W/costs.out"
own=$(requests) own=$(($(requests) - own))

costs 60 "find of a table asks for many rows at once" find "$M/t"
is "$(wc -l <"$W/costs.out")" 362 "  and finds all, and .schema"
costs 60 "so does ls -lR of .latest" ls -lR "$M/t/.latest"
costs 10 "  once more, names and sizes are remembered" ls -lR "$M/t/.latest"
costs 300 "tar of .latest asks once for each file" bash -c 'tar cf - -C "$1" . >"$2"' - "$M/t/.latest" "$W/latest.tar"
mkdir "$W/untar"
tar xf "$W/latest.tar" -C "$W/untar"
ok "  and has the cells" diff -r "$W/tree" "$W/untar"
costs 60 "tar of Q@TS names reads the values of many rows at once" bash -c 'tar cf - -C "$1" . >"$2"' - "$M/t" "$W/versions.tar"
is "$(tar xOf "$W/versions.tar" --exclude .schema | sort | sum)" "$(find "$W/tree" -type f -exec cat {} + | sort | sum)" "  and has the cells"
costs 8 "a large version is read ahead" bash -c 'cat "$1"@* >"$2"' - "$M/other/row/f/large" "$W/read"
same "$W/read" "$W/large" "  and has its bytes"
costs 2 "a small plain name costs a round trip" cat "$M/other/row/f/small"
mkdir -p "$M/in/.families/f" "$M/in/.families/g"
# A file: its LOOKUP and its commit.  A row: two LOOKUPs of a row and its families, and the checks of mkdir.
costs 800 "a new file costs two round trips, a new directory few" cp -r "$W/tree/." "$M/in/.latest"
ok "  and they are there" diff -r "$W/tree" "$M/in/.latest"
costs 24 "a directory of 3,000 names is listed in large batches" ls "$M/other/wide/f"
is "$(sort -u "$W/costs.out" | wc -l)" 3000 "  and has all names"
network_end
done_testing

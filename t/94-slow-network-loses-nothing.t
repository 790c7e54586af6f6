#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A mount over TLS and a network whose packets are late and sometimes lost shows what its
# server has, and calls wait while the line is cut.  A scan asks for one batch ahead, and an
# import keeps its order although many of its requests are under way.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
# shellcheck source=t/lib/network.sh
. "$SRC/t/lib/network.sh"
network 30 5 "${TEST_SEED:-1}"

mount_over_network
mkdir -p "$W/in/r1/f" "$W/in/r2/f"
for i in $(seq 10); do echo "value $i" >"$W/in/r$((i % 2 + 1))/f/c$i"; done
head -c 3000000 /dev/urandom >"$W/in/r1/f/large"
mkdir -p "$M/t/.families/f"
ok "files are written" t cp -r "$W/in/." "$M/t/.latest"
ok "  and are there" t diff -r "$W/in" "$M/t/.latest"
many() {
	local i failed=0 pids=
	for i in $(seq 30); do cat "$M/t/.latest/r1/f/c2" >/dev/null 2>>"$W/many.err" & pids="$pids $!"; done
	for i in $pids; do wait "$i" || failed=$((failed + 1)); done
	cat "$W/many.err"
	[ $failed = 0 ]
}
ok "30 calls of one user at once do not count as waits for a server that is silent" many

# ---- a scan asks for one batch ahead ----
# Each batch has one cell.  The program reads the first cell, waits, and reads the rest.
cat >"$W/reader.c" <<'C'
#include <stdio.h>
#include <tabletfs.h>
int main(int argc, char **argv)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .row_from = TFS_S("batch"), .row_to = TFS_S("batci"), .batch_bytes = 1};
	struct tfs_store *s;
	struct tfs_table *t;
	struct tfs_scan *scan;
	struct tfs_cell c;
	char *why;
	int n = 0;
	if (argc != 2 || tfs_open(argv[1], NULL, &s, &why) || tfs_table_open(s, "t", &t) || tfs_scan_new(t, &spec, &scan))
		return 1;
	while (tfs_scan_next(scan, &c) == 1)
		if (n++ == 0 && (puts("one") < 0 || fflush(stdout) || getchar() < 0))
			return 1;
	printf("%d\n", n);
	tfs_scan_free(scan);
	tfs_table_close(t);
	return tfs_close(s) ? 1 : 0;
}
C
ln -s "$BUILD/libtabletfs.so.0.0.0" "$W/libtabletfs.so.0"
ok "a program of the library compiles" "${CC:-cc}" -I"$SRC/engine" -o "$W/reader" "$W/reader.c" "$BUILD/libtabletfs.so.0.0.0"
scanned() { awk -F'[ "]' '/^tabletfs_table_scanned_cells_total/ && $2 == "t" { print $4 }' "$W/here/.tabletfs/metrics"; }
two_more() { [ "$(scanned)" = $((before + 2)) ]; }
for i in 1 2 3 4; do mkdir -p "$M/t/.latest/batch$i/f" && echo "$i" >"$M/t/.latest/batch$i/f/q"; done
mkdir "$W/here"
"$TABLETFS" "unix:$D" "$W/here"
before=$(scanned)
mkfifo "$W/next"
LD_LIBRARY_PATH=$W TABLETFS_KEYS="$W/key" nsenter -t "$near" -n -- "$W/reader" tls://10.99.0.2:7000 <"$W/next" >"$W/cells" 2>&1 &
reader=$!
exec 5>"$W/next"
wait_for "the next batch at the server" two_more
is "$(scanned)" $((before + 2)) "a scan asks for the next batch before its reader wants it, and for one only"
wait_for "the first cell" test -s "$W/cells"
echo >&5
exec 5>&-
wait $reader
is "$? $(tr '\n' ' ' <"$W/cells")" "0 one 4 " "  and returns all cells"

# ---- an import ----
# Many requests are under way at once.  Each column is written twice with one timestamp.
for value in first last; do
	for i in $(seq 10000 19999); do printf 'import%s\tf:q\t1000000\t%s %s\n' "$i" $value "$i"; done
done >"$W/cells.tsv"
ok "an import through the mount" t cp "$W/cells.tsv" "$M/t/.import.tsv"
tail -n 10000 "$W/cells.tsv" >"$W/expected.tsv"
same "$W/here/t/.scan/prefix=import/.tsv" "$W/expected.tsv" "  stores all cells, and of each column the last one"
t fusermount3 -u "$W/here"

# ---- the line is cut ----
kill -USR1 $relay
t cat "$M/t/.latest/r1/f/c2" >"$W/read" 2>"$W/read.err" &
reader=$!
t bash -c 'echo new >"$1"' - "$M/t/.latest/r1/f/new" 2>"$W/write.err" &
writer=$!
# Time itself is the subject: longer than a client waits for a sign of life of its server.
read -r -t 7 <>"$W/.never"
ok "a read waits while the line is cut" runs $reader
kill -USR2 $relay
wait $reader
is "$? $(cat "$W/read" "$W/read.err")" "0 value 2" "  and ends well when the line is back"
wait $writer
is "$? $(cat "$M/t/.latest/r1/f/new") $(find "$M/t/r1/f" -name 'new@*' | wc -l)" "0 new 1" "  a write, too, which is applied once"
network_end
done_testing

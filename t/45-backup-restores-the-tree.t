#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A backup made by each tool, restored and backed up again, is the same tree.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2086
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store

py <<'EOF2'
from tap import *
import random
rnd = random.Random(7)
os.chdir(M)
def fam(t, name, mode=None, uid=-1, gid=-1, **settings):
    os.mkdir("%s/.families/%s" % (t, name))
    for k, v in settings.items():
        spill("%s/.families/%s/%s" % (t, name, k), v.encode() + b"\n")
    if mode is not None:
        os.chmod("%s/.families/%s" % (t, name), mode)
    if uid != -1 or gid != -1:
        os.chown("%s/.families/%s" % (t, name), uid, gid)
def cell(t, row, family, name, data):
    os.makedirs("%s/%s/%s" % (t, row, family), exist_ok=True)
    spill("%s/%s/%s/%s" % (t, row, family, name), data)
# A table with all settings.
os.mkdir("web")
os.mkdir("web/.groups/pages")
spill("web/.groups/pages/compression", b"lz4\n")
fam("web", "contents", 0o640, 33, 33, gc="maxversions=5", group="pages")
fam("web", "anchor", 0o604, 1000, 100, gc="maxversions=9 or maxage=90000d")
fam("web", "hits", 0o600, 7, 7, type="counter")
fam("web", "plain")
os.chmod("web", 0o750)
os.chown("web", 12, 34)
for i in range(40):
    row = "com.site%02d.www" % i
    for v in range(i % 4 + 1):
        cell("web", row, "contents", "html@%d" % (1_700_000_000_000_000 + v * 1001 + i), rnd.randbytes(rnd.choice((0, 1, 100, 1000, 5000))))
    cell("web", row, "anchor", "ref%2F" + str(i), b"text %d" % i)
    cell("web", row, "hits", "n", b"%d\n" % rnd.randrange(-2 ** 63, 2 ** 63))
# Hard names, times and values, in a table whose schema was never set.
os.mkdir("odd")
rows = ["%2Ehidden", "with space", "%00", "%25%25", "caf\u00e9", "back\\slash", "new%0Aline", "quote'\"", "-rf", "~", "*", "raw\udcff\udcfe", "%2E.", "a@1", "$HOME", "#", "end "]
for r in rows:
    cell("odd", r, "f", "q", b"plain")
    cell("odd", r, "f", "neg@-1", b"just before the epoch")
    cell("odd", r, "f", "neg@-2147483648000000", b"1901")
    cell("odd", r, "f", "@7", b"the empty qualifier")
    cell("odd", r, "f", "a%401@9", b"a@1")
    cell("odd", r, "f", "mary@foobar.com@1307099848", b"")
    cell("odd", r, "g.2", "%2Edot", bytes(range(256)))
    cell("odd", r, "g.2", "zeros", bytes(100000))
    cell("odd", r, "g.2", "far@15000000000000000", b"2445")
# Split names: a row of 600 bytes and a cell of 700.
def split_name(n, last):
    return "/".join(["x" * 254 + "%"] * (n // 254)) + "/" + "x" * (n % 254) + last
os.makedirs("odd/" + split_name(600, "") + "/f")
spill("odd/" + split_name(600, "") + "/f/q", b"row of 600 bytes")
os.makedirs("odd/long/f/" + os.path.dirname(split_name(700, "@5")))
spill("odd/long/f/" + split_name(700, "@5"), b"cell of 700 bytes")
spill("odd/long/f/big", rnd.randbytes(3_000_000))
os.mkdir("empty")
os.makedirs("schemaonly/.families/one")
ok(True, "a store to back up")
EOF2

# tree of everything; directories' times do not count for the backup (0 in the mount).
all() { tree "$1"; }
first=$(all "$M")
like "$first" '\./web/com.site00.www/hits/n@[0-9]+ f [0-9]+ [0-9.]+ 600 7 7' "modes and owners are the families'"
like "$first" '\./web/com.site00.www/contents d - 0.0000000000 750 33 33' "directories have x wherever r"
like "$first" '\./web/.schema f' "the schema is listed"
unlike "$first" '\./odd/.schema' "where it was set"

# ---- rsync, both directions ----
ok "rsync out" t rsync -a "$M/" "$W/b1/"
is "$(t rsync -ai "$M/" "$W/b1/")" "" "a second rsync out itemises nothing"
is "$(t rsync -aicn "$M/" "$W/b1/")" "" "nor does --checksum find a difference"
is "$(t rsync -ai "$W/b1/" "$M/")" "" "rsync back in itemises nothing"
is "$(t rsync -ai --delete "$W/b1/" "$M/")" "" "with --delete neither"
ok "diff -r" t diff -r "$M" "$W/b1"
is "$(all "$W/b1")" "$first" "names, sizes, times, modes and owners are the same"
unmount_store

# ---- restore into an empty store by each tool, and back it up again ----
for tool in rsync tar cp "rsync --inplace" "rsync --delay-updates" "tar by reverse names"; do
	rm -rf "$D" "$W/b2"
	mount_store || break
	case $tool in
	rsync*) ok "$tool: restore" t rsync -a ${tool#rsync} "$W/b1/" "$M/" ;;
	tar) ok "$tool: restore" t bash -c "set -o pipefail; tar -C '$W/b1' -cf - --format=posix . | tar -C '$M' --same-owner -xpf -" ;;
	"tar by"*) ok "$tool: restore" t bash -c "set -o pipefail; cd '$W/b1'; find . -mindepth 1 ! -type d -print0 | LC_ALL=C sort -zr | tar --null -T - --format=posix -cf - | tar -C '$M' --same-owner -xpf -" ;;
	cp) ok "$tool: restore" t cp -a "$W/b1/." "$M/" ;;
	esac
	if [ "$tool" = "tar by reverse names" ]; then
		ok "$tool: each cell is there" test "$(all "$M" | grep -av ' d ')" = "$(grep -av ' d ' <<<"$first")"
		unmount_store
		continue
	fi
	ok "$tool: diff -r" t diff -r "$W/b1" "$M"
	all "$M" >"$W/restored"
	is "$(diff <(echo "$first") "$W/restored")" "" "$tool: names, sizes, times, modes and owners"
	is "$(t rsync -ai "$M/" "$W/b1/")" "" "$tool: rsync out itemises nothing"
	is "$(t rsync -ai "$W/b1/" "$M/")" "" "$tool: rsync in itemises nothing"
	case $tool in
	rsync) ok "$tool: backed up again" t rsync -a "$M/" "$W/b2/" ;;
	tar) mkdir "$W/b2"; ok "$tool: backed up again" t bash -c "set -o pipefail; tar -C '$M' -cf - --format=posix . | tar -C '$W/b2' --same-owner -xpf -" ;;
	cp) ok "$tool: backed up again" t cp -a "$M" "$W/b2" ;;
	*) unmount_store; continue ;;
	esac
	ok "$tool: diff -r of the backups" t diff -r "$W/b1" "$W/b2"
	if [ "$tool" = rsync ]; then
		is "$(diff <(echo "$first") <(all "$W/b2"))" "" "$tool: the backups are the same"
	else
		is "$(diff <(grep -av ' d ' <<<"$first") <(all "$W/b2" | grep -av ' d '))" "" "$tool: the backups are the same"
	fi
	is "$(cat "$M/web/.families/contents/gc" "$M/web/.families/contents/group" "$M/web/.families/hits/type" "$M/web/.groups/pages/compression" | tr '\n' ,)" \
		"maxversions=5,pages,counter,lz4," "$tool: the settings are back"
	remount
	is "$(diff "$W/restored" <(all "$M"))" "" "$tool: the same after a remount"
	[ "$tool" != rsync ] || ino1=$(cd "$M" && find . -printf '%i %p\n' | sort | md5sum)
	[ "$tool" != rsync ] || { remount; is "$(cd "$M" && find . -printf '%i %p\n' | sort | md5sum)" "$ino1" "inode numbers stay"; }
	unmount_store
done
done_testing

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tablets are split and merged, by hand and automatically, while directories are
# listed, cells are written and trees are copied: no caller sees a difference.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model's tablets do not move by themselves"
printf 'memtable = "1M";\n' >"$W/conf"
ok "mount" mount_store -o config="$W/conf"
ctl() { echo "$*" >"$M/t/.ctl"; }
ranges() { sed 1d "$M/t/.tablets" | cut -f1,2 | sed 's/^-	/	/; s/	-$/	/' | tr '\t\n' '- '; }
reasons() { grep -c "/t/.ctl: $1" "$M/.tabletfs/log"; }

mkdir "$M/t" "$M/t/.families/f"
for i in $(seq 100 160); do
	mkdir -p "$M/t/row$i/f"
	echo "v$i" >"$M/t/row$i/f/q@1"
done
is "$(ranges)" "- " "one tablet"
ok "split" ctl split row130
is "$(ranges)" "-row130 row130- " "two"
is "$(cat "$M/t/row129/f/q@1" "$M/t/row130/f/q@1" | tr '\n' ' ')" "v129 v130 " "rows on either side are read"
ok "a row that is not there, in the escapes of names" ctl split 'row1%2Fx'
is "$(ranges)" "-row1%2Fx row1%2Fx-row130 row130- " "is where a tablet begins, and is shown so"
ok "merge" ctl merge row0
is "$(ranges)" "-row130 row130- " "two again"
odd=$(printf '%%2Ea%%09%%25\xc3\xa4\xff')
ok "any bytes" ctl "split $odd"
is "$(ranges)" "-$odd $odd-row130 row130- " "  are shown as they were given"
ok "  so that what .tablets shows can be given back" ctl "merge $(sed -n 3p "$M/t/.tablets" | cut -f1)"
ok "merge" ctl 'merge !'
is "$(ranges)" "- " "one again"
ok "split" ctl split row130
for bad in 'split row130' 'split .x' 'split row%2fx' 'split a/b' 'split' 'split ' 'merge row130' 'merge zzz' 'merge' 'splitrow' 'drop-rows' 'drop-rows a/b' 'drop-rows row%'; do
	before=$(ranges)
	lines=$(reasons .)
	is "$(ctl "$bad" 2>&1 | sed 's/.*: //')" "Invalid argument" "\"$bad\" is refused"
	is "$(reasons .)" "$((lines + 1))" "  with a line of reason"
	is "$(ranges)" "$before" "  and nothing has changed"
done

py <<'EOF2'
from tap import *
import threading
# A directory is listed in two parts, with splits and merges between them; no name is skipped or repeated.
for i in range(3000):
    os.makedirs("%s/t/s%05d/f" % (M, i))
    spill("%s/t/s%05d/f/q@1" % (M, i), b"x" * 20)
want = [".schema"] + sorted(["row%d" % i for i in range(100, 161)] + ["s%05d" % i for i in range(3000)])
def ctl(line):
    with open(M + "/t/.ctl", "w") as f:
        f.write(line + "\n")
with os.scandir(M + "/t") as it:
    seen = [next(it).name for _ in range(700)]
    for at in ("s00500", "s00650", "s00700", "s02000"):
        ctl("split " + at)
    seen += [next(it).name for _ in range(700)]
    ctl("merge s00660")
    ctl("flush")
    ctl("merge s00600")
    seen += [e.name for e in it]
same(sorted(seen), want, "a listing goes on through splits and merges")
same(seen, want, "in order")

over = False
def move():
    import random
    r = random.Random(1)
    n = 0
    while not over:
        at = "s%05d" % r.randrange(3000)
        try:
            ctl(r.choice(["split ", "merge "]) + at)
            n += 1
        except OSError as e:
            if e.errno != errno.EINVAL:
                raise
    return n
t = threading.Thread(target=move)
t.start()
bad = []
for turn in range(2, 5):
    for i in range(0, 3000, 7):
        p = "%s/t/s%05d/f/q" % (M, i)
        with open(p, "w") as f:
            f.write("turn %d" % turn)
        if open(p).read() != "turn %d" % turn:
            bad.append(p)
    if sorted(os.listdir(M + "/t")) != sorted(want):
        bad.append("listing %d" % turn)
over = True
t.join()
same(bad, [], "writers and listings beside splits and merges")
EOF2
ok "a tree copied out while tablets move" bash -c '(for i in $(seq 50); do echo "split s0$((i * 37 % 3000 + 1000))"; echo "merge s00000"; done | while read -r l; do echo "$l" >"$1/t/.ctl" 2>/dev/null; done) & cp -r "$1/t" "$2/out"; wait' - "$M" "$W"
is "$(find "$W/out" -type f | wc -l)" "$(find "$M/t" -type f | wc -l)" "is whole"

# By size.
mkdir "$M/big"
echo 'tablet_size = "256K"; families = ( { name = "f"; } ); groups = ( { name = "default"; compression = "none"; } );' >"$M/big/.schema"
py <<'EOF2'
from tap import *
for i in range(300):
    os.makedirs("%s/big/r%04d/f" % (M, i))
    spill("%s/big/r%04d/f/q@1" % (M, i), os.urandom(8000))
EOF2
echo flush >"$M/big/.ctl"
six() { [ "$(wc -l <"$M/big/.tablets")" -ge 7 ]; }
ok "tablets of a large table come about by themselves" wait_for six
is "$(ls "$M/big" | wc -l)" 300 "with all rows"
ok "none is empty" bash -c '! awk -F "\t" "\$9 == 0" "$1" | grep .' - "$M/big/.tablets"
ok "mounted again, and clean between" remount -o config="$W/conf"
is "$(ls "$M/big" | wc -l) $(ls "$M/t" | wc -l)" "300 3061" "everything is there"
done_testing

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Names that users choose choose no places: they cannot have the inode number of another
# cell, they get no value of another cell, and they make no long chains in tables.
# shellcheck source=t/lib/mount.sh disable=SC2012,SC2119,SC2317
. "${SRC:-$(dirname "$0")/..}/t/lib/mount.sh"
KEYS=$W/keys.py
cat >"$KEYS" <<'E2'
# Keys of 8 bytes with a chosen XXH3 hash, for a known seed: XXH3 can be inverted for keys of 4 to 8 bytes.
MASK, PRIME = (1 << 64) - 1, 0x9FB21C651E98DF25
INVERSE = pow(PRIME, -1, 1 << 64)
SECRET = bytes.fromhex("b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f")


def rotate(x, n):
    return (x << n | x >> (64 - n)) & MASK


def chosen(hash, seed):
    seed ^= int.from_bytes((seed & 0xffffffff).to_bytes(4, "little"), "big") << 32
    flip = (int.from_bytes(SECRET[8:16], "little") ^ int.from_bytes(SECRET[16:24], "little")) - seed & MASK
    h = hash ^ hash >> 28 ^ hash >> 56
    h = h * INVERSE & MASK
    h = h ^ (h >> 35) + 8
    h = h * INVERSE & MASK
    for k in range(6):  # x ^ rotate(x, 49) ^ rotate(x, 24) is its own inverse after 64 times
        h = h ^ rotate(h, 49 * 2**k % 64) ^ rotate(h, 24 * 2**k % 64)
    h ^= flip
    return (h >> 32).to_bytes(4, "little") + (h & 0xffffffff).to_bytes(4, "little")


def text(key):
    return "".join("\\x%02x" % b for b in key)
E2
export PYTHONPATH="$PYTHONPATH:$W"
mount_store || { fail "mount"; done_testing; }

# ---- the number of another cell ----
mkdir -p "$M/t/r/secret" "$M/t/r/mine"
# The kernel asks for two pages or more, so the daemon may answer from the values of a listing.
printf 'the secret%06000d' 0 >"$M/t/r/secret/key@1000"
py <<'E2'
from keys import *
from tap import *
row = M + "/t/r/"
victim = os.stat(row + "secret/key@1000").st_ino
parent = os.stat(row + "mine").st_ino
VERSION = 7
for ts in (5, 6, 7):
    seed = ((parent ^ ts * 0x9e3779b97f4a7c15) + VERSION * 0xd1b54a32d192ed03) & MASK
    spill(row + ".mutate", ("set mine:%s@%d\tmy 10 byte%06000d\ncommit\n" % (text(chosen(victim, seed)), ts, 0)).encode())
mine = [row + "mine/" + n for n in os.listdir(row + "mine") if n.endswith(("@5", "@6", "@7"))]
same(len(mine), 3, "three cells with chosen names")
ok(all(os.stat(f).st_ino != victim for f in mine), "none has the inode number of another cell")
E2

for option in rw ro; do
	remount -o $option
	for f in "$M"/t/r/mine/*@[567]; do
		ls -l "$M/t/r/secret" >/dev/null # this fills the cache of values
		is "$(head -c 10 "$f")" "my 10 byte" "-o $option: the value is its own, not the one that a listing has cached"
		echo 2 >/proc/sys/vm/drop_caches # the kernel's entries, so that the next listing returns their attributes again
	done 2>/dev/null
done

# ---- a daemon whose hashes all collide: only whole keys tell cells apart ----
unmount_store
mv "$D" "$D.attack"
texts() { tail -n +1 "$M"/t/.families/*/{gc,group,type} 2>&1; }
mount_store
for r in r1 r2 r3; do
	for f in a b c; do
		mkdir -p "$M/t/$r/$f"
		for q in x y z; do printf '%s%06000d' "$r/$f/$q@1000" 0 >"$M/t/$r/$f/$q@1000"; done
	done
done
echo maxversions=7 >"$M/t/.families/b/gc"
right=$(texts)
unmount_store
strong=$TABLETFS
TABLETFS=$BUILD/t/lib/tabletfs-weak
mount_store || { fail "mount with a weak hash"; done_testing; }
ok "27 cells have at most three inode numbers" test "$(stat -c %i "$M"/t/r?/?/*@1000 | sort -u | wc -l)" -le 3
for option in rw ro; do
	wrong=
	remount -o $option
	for ((i = 0; i < 2; i++)); do
		for d in "$M"/t/r?/?; do ls -l "$d" >/dev/null; done
		for c in "$M"/t/r?/?/*@1000; do
			name=${c#"$M/t/"}
			[ "$(head -c ${#name} "$c")" = "$name" ] || wrong+=" $name"
		done
	done
	is "$wrong" "" "-o $option: each cell has its own value"
	is "$(texts)" "$right" "  each control file has its own text"
	is "$(texts)" "$right" "  also when it is read again"
	is "$(for n in 1 2 3; do cd "$M/t/.scan/limit=$n/.rows" && echo *; done)" $'r1\nr1 r2\nr1 r2 r3' "  each view has its own end"
done
remount
for n in 1 2 3; do touch -d "@$n" "$M/t/.latest/r$n/b"; done
is "$(stat -c %Y "$M"/t/.latest/r?/? | tr '\n' ' ')" "0 1 0 0 2 0 0 3 0 " "each directory has its own time"
is "$(rmdir "$M/t/.latest/r1/b" 2>&1; rm -r "$M/t/r2/b"; echo "$M"/t/r2/?/*@1000 | wc -w)" "rmdir: failed to remove '$M/t/.latest/r1/b': Directory not empty"$'\n'6 "a removal removes its own cells"
unmount_store
TABLETFS=$strong
rm -rf "$D"
mv "$D.attack" "$D"
mount_store

# ---- inode numbers are the store's ----
numbers() { find "$M/t" -printf '%i %P\n' | sort; }
before=$(numbers)
remount
is "$(numbers)" "$before" "a remount has the same inode numbers"
remount -o ro
is "$(numbers)" "$before" "a read-only mount, too"
unmount_store
is "$(stat -c %a "$D/lock/store")" 600 "the secret is readable for its owner only"
mv "$D" "$D.one"
mount_store
mkdir -p "$M/t/r/secret"
printf 'the secret' >"$M/t/r/secret/key@1000"
[ "$(stat -c %i "$M/t/r/secret/key@1000")" != "$(grep "secret/key@1000$" <<<"$before" | cut -d" " -f1)" ]
is $? 0 "another store has other numbers"
unmount_store
rm -rf "$D"
mv "$D.one" "$D"
rm "$D/lock/store"
"$TABLETFS" -f "$D" "$M" >"$W/.e" 2>&1
is "$?:$(wc -l <"$W/.e")" 1:1 "a store that has lost its secret is refused in one line"
like "$(cat "$W/.e")" "lock/store: missing.*tabletctl repair" "  which names the file and the remedy"
t "$TABLETCTL" repair --write "$D" >"$W/.r"
is "$?:$(grep -c '^repair: .*lock/store: .*inode numbers' "$W/.r")" 0:1 "repair makes another one, and says so in one line"
mount_store || { fail "mount after the repair"; done_testing; }
is "$(head -c 10 "$M/t/r/secret/key@1000")" 'the secret' "  the cells are there"
[ "$(numbers)" != "$before" ]
is $? 0 "  with other numbers"

# ---- chains ----
# ticks COMMAND...: the processor time that the daemon uses for it, in ticks.
used() { awk '{ print $14 + $15 }' "/proc/$daemon/stat"; }
ticks() {
	local from
	from=$(used)
	"$@" >"$W/.out" 2>&1 || diag <"$W/.out"
	echo $(($(used) - from))
}
mkdir -p "$M/c/r/f" "$M/c/s/f" "$M/c/t/f"
chmod 700 "$M/c/t/f"
python3 - <<'E2' || fail "names"
import os, random
from keys import *
M, W = os.environ["M"], os.environ["W"]
N, rnd = 60000, random.Random(1)
parent = os.stat(M + "/c/r/f").st_ino
seed = ((parent ^ 1000 * 0x9e3779b97f4a7c15) + 7 * 0xd1b54a32d192ed03) & MASK
# The lowest 20 bits, which choose the place in a table of up to a million, are the same.
names = [text(chosen((i + 7 << 40) | 5, seed)) for i in range(N)]
others = [text(rnd.randbytes(8)) for i in range(N)]
for row, keys in (("r", names), ("s", others)):
    with open(W + "/" + row + ".tsv", "w") as f:
        f.writelines("%s\tf:%s\t1000\tv\n" % (row, k) for k in keys)
family = 1
checks = [text(chosen((i + 7 << 24) | 5, family)) for i in range(N)]
for name, keys in (("chosen", checks), ("random", others)):
    with open(W + "/" + name + ".mutate", "w") as f:
        f.writelines("check-absent f:%s\n" % k for k in keys)
        f.write("set f:x\tdone\ncommit\n")
E2
list() { ls -l "$M/c/$1/f" | wc -l; }
for row in r s; do cat "$W/$row.tsv" >"$M/c/.import" || fail "import"; done
random=$(ticks list s)
is "$(cat "$W/.out")" 60001 "60,000 random names are listed"
chosen=$(ticks list r)
is "$(cat "$W/.out")" 60001 "60,000 chosen names are listed"
echo "# listing: $random ticks for random names, $chosen for chosen ones"
ok "  at about the same cost" test "$chosen" -le $((2 * random + 100))
apply() { cat "$W/$1.mutate" >"$M/c/t/.mutate"; }
random=$(ticks apply random)
chosen=$(ticks apply chosen)
is "$(cat "$M"/c/t/f/x@* | tr '\n' ' ')" "donedone" "two mutations with 60,000 checks are applied"
echo "# checks: $random ticks for random names, $chosen for chosen ones"
ok "  chosen names cost about the same" test "$chosen" -le $((2 * random + 100))
done_testing

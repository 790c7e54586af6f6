#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A daemon that may open 150 descriptors serves a store of more SSTables.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no files"
printf '#!/bin/sh\nulimit -n 150\nexec "%s" "$@"\n' "$TABLETFS" >"$W/few"
chmod +x "$W/few"
TABLETFS=$W/few

mount_store
is "$(prlimit --noheadings --output SOFT,HARD --nofile --pid "$daemon" | xargs)" "150 150" "a hard limit of 150"
mkdir "$M/t"
printf 'salt = 200; families = ( { name = "f"; } );\n' >"$M/t/.schema"
py <<'EOF2'
from tap import *
t = os.fsencode(os.environ["M"]) + b"/t"
def byte(b):
    return b"%%%02X" % b if b < 32 or b in b"/%." or b == 127 else bytes([b])
def rows(n):
    for i in range(n):
        os.makedirs(t + b"/row%04d/f" % i)
        with open(t + b"/row%04d/f/q" % i, "wb") as f:
            f.write(b"%d" % i)
def ctl(verb):
    with open(t + b"/.ctl", "wb", buffering=0) as f:
        f.write(verb + b"\n")
rows(2000)
for b in range(1, 200):
    ctl(b"split " + byte(b))
ctl(b"compact")
EOF2
is "$(wc -l <"$M/t/.tablets" | awk '{ print ($1 >= 200) }')" 1 "200 tablets"
ok "each with files of its own" test "$(find "$D/sst" -name '*.sst' | wc -l)" -ge 200
remount
is "$(ls "$M/t" | wc -l)" 2000 "ls of all their rows"
is "$(find "$M/t" -name 'q@*' | wc -l)" 2000 "find"
is "$(cat "$M"/t/row*/f/q | wc -c)" 6890 "cat"
for i in $(seq 300); do
	mkdir -p "$M/t/new$i/f" && echo "$i" >"$M/t/new$i/f/q" || break
done
is "$i" 300 "writes go on"
ok "flush and compact" bash -c "printf 'flush\ncompact\n' >'$M/t/.ctl'"
listings=
for n in $(seq 4); do
	find "$M/t" -name 'q@*' >"$W/list$n" &
	listings="$listings $!"
done
# shellcheck disable=SC2086
wait $listings
is "$(wc -l <"$W/list4")" 2300 "four listings at once"
ok "  descriptors are fewer than allowed" test "$(ls "/proc/$daemon/fd" | wc -l)" -lt 150
unlike "$(cat "$M/.tabletfs/log")" 'damaged|EIO|Too many|Input/output' "nothing is called damaged"
unmount_store
(ulimit -n 30; exec "$TABLETCTL" check "$D") >"$W/check"
is "$?" 0 "tabletctl check with 30"
done_testing

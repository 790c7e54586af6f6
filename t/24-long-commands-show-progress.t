#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check, repair, import, export and compact: a line on a terminal that is written
# again each second; ^C in the middle of each, which leaves the store sound, so
# that the same command then succeeds.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1

cd "$W" || exit 1
export TABLETCTL
${CC:-cc} -shared -fPIC -O2 -o interrupt_at.so "$SRC/t/lib/interrupt_at.c" -ldl || cannot_run "there is no C compiler"
python3 - >in.tsv <<'PY'
import random
random.seed(5)
for r in range(3000):
    for q in range(4):
        print("row%05d\tf:q%d\t%d\t%0400x" % (r, q, 1000 + r, random.getrandbits(1600)))
PY

# status WANTED DESC COMMAND...
status() {
	local wanted=$1 what=$2
	shift 2
	t "$@" >"$W/.out" 2>&1
	is $? "$wanted" "$what"
}
said() { like "$(cat "$W/.out")" "$1" "  $2"; }
# interrupted CALL DESC COMMAND...: SIGINT at its CALL-th call of the file system
interrupted() {
	local call=$1 what=$2
	shift 2
	status 130 "$what" env INTERRUPT_AT="$call" LD_PRELOAD="$W/interrupt_at.so" "$@"
}

ok "mount" mount_store
for place in mnt/t data/d; do
	[ $place = mnt/t ] || unmount_store
	PLACE=$place py <<'PY'
import os
from tap import *
from terminal import Terminal
ctl, place = os.environ["TABLETCTL"], os.environ["PLACE"]
out, in_ = os.pipe()
p = Terminal(ctl, "import", "-p", place, stdin=out)
os.close(out)
os.write(in_, open("in.tsv", "rb").read(40000))
ok(p.until(rb"\r\x1b\[Kimported 39.1 KiB, \d+ cells, \d+ rows, [0-9.]+ KiB/s"), place + ": an import shows its progress")
same(p.interrupt(), 130, "  ^C ends it while it waits for its input")
ok(b"import: interrupted: the cells that were read are stored" in p.text, "  with a message")
PY
	status 0 "  whole cells are stored" "$TABLETCTL" export $place part.tsv
	ok "  which the file has" cmp -n "$(stat -c %s part.tsv)" part.tsv in.tsv
	status 0 "  the import succeeds then" "$TABLETCTL" import $place in.tsv
	PLACE=$place py <<'PY'
import os
from tap import *
from terminal import Terminal
ctl, place = os.environ["TABLETCTL"], os.environ["PLACE"]
out, in_ = os.pipe()
p = Terminal(ctl, "export", place, stdout=in_)
os.close(in_)
got = 0
while got < 1500000:
    got += len(os.read(out, 65536))
ok(p.until(rb"\r\x1b\[Kexported .*, [1-9]\d* cells, [1-9]\d* rows, .*/s, about \d+ (s|min) left"),
   place + ": an export shows rows and the time left")
same(p.interrupt(), 130, "  ^C ends it while it waits for its reader")
ok(b"export: interrupted: standard output is not whole" in p.text, "  with a message")
PY
	status 0 "  the export succeeds then" "$TABLETCTL" export $place out.tsv
	said 'exported .* 12000 cells, 3000 rows' "and counts"
	same in.tsv out.tsv "  with all cells"
	status 0 "  as an archive" "$TABLETCTL" export $place out.tar
	said 'exported .* 12000 cells, 3000 rows' "and counts"
	status 0 "  as JSON" "$TABLETCTL" export $place out.jsonl
	said 'exported .* 12000 cells, 3000 rows' "and counts"
done
check_store

for call in 5 300; do
	interrupted $call "check gets SIGINT at its call $call" "$TABLETCTL" check "$D"
	said 'check: interrupted: the rest was not checked' "it says so"
	interrupted $call "repair gets SIGINT at its call $call" "$TABLETCTL" repair "$D"
	said 'repair: interrupted: nothing was changed' "it says so"
done
cp -a "$D" whole
for call in 20 100 200; do
	rm -rf "$D"
	cp -a whole "$D"
	interrupted $call "compact gets SIGINT at its call $call" "$TABLETCTL" compact "$D/d"
	said 'compact: interrupted: ' "it says so"
	check_store
done
status 0 "the compaction succeeds then" "$TABLETCTL" compact "$D/d"
check_store
status 0 "all cells are there" "$TABLETCTL" export "$D/d" out.tsv
same in.tsv out.tsv "  unchanged"

# One byte of the largest SSTable is wrong.
sst=$(find "$D/sst" -name '*.sst' -printf '%s %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2)
printf '\377\000\377' | dd of="$sst" bs=1 seek=20000 conv=notrunc status=none
for call in 100 250; do
	interrupted $call "repair --write gets SIGINT at its call $call" "$TABLETCTL" repair --write "$D"
	said 'repair: interrupted: run the same command again' "it says so"
done
status 1 "the repair succeeds then" "$TABLETCTL" repair --write "$D"
check_store

rm -rf "$D"
cp -a whole "$D"
ok "mount" mount_store
daemon=$daemon py <<'PY'
import os, signal, time
from tap import *
from terminal import Terminal

def children(pid):
    try:
        return open("/proc/%d/task/%d/children" % (pid, pid)).read().split()
    except OSError:
        return []

# The daemon stops before it has done the compaction.
p = Terminal(os.environ["TABLETCTL"], "compact", "mnt/d")
end = time.monotonic() + 30
while not children(p.pid) and time.monotonic() < end:
    pass
os.kill(int(os.environ["daemon"]), signal.SIGSTOP)
child = children(p.pid)
same(p.interrupt(), 130, "^C ends a compact of a mount")
os.kill(int(os.environ["daemon"]), signal.SIGCONT)
ok(b"compact: interrupted: a mount continues the compaction" in p.text, "  with a message")
PY
status 0 "the compaction succeeds then" "$TABLETCTL" compact mnt/d
status 0 "all cells are there" "$TABLETCTL" export mnt/d out.tsv
same in.tsv out.tsv "  unchanged"

done_testing

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TABLE/.changes: a place from which a change is missing is an error, and no other place is: after expiry, after `changes` is
# left out of the schema, and after a repair.  A reader whose place fails while it reads does not harm the daemon.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model keeps no changes"
ok "mount" mount_store
export TOKEN=$W/token
py <<'EOF2'
from tap import *
import glob, signal

os.chdir(M)
place = lambda table, p, s=".tsv": "%s/.changes/from=%s/%s" % (table, p, s)
lines = lambda table, p="start": [l.split("\t") for l in slurp(place(table, p)).decode().splitlines()]
FAMILIES = b'families = ({name = "f";});'


def make(table, changes=b'changes = "7d"; '):
    os.mkdir(table)
    spill(table + "/.schema", changes + FAMILIES)


# ---- expiry ----
make("short", b'changes = "500ms"; ')
spill("short/.import", b"a\tf:q\t1\tx\nb\tf:q\t1\ty\n")
first = lines("short")
if len(first) == 2:
    soon(lambda: errno_of(slurp, place("short", first[0][0])), "ESTALE", "a place before an expired change is ESTALE")
    same(lines("short", first[1][0]), [], "  but a place behind the last change stays valid")
else:
    note("the machine is too slow for this")

# ---- a place that fails while it is read ----
make("seek")
spill("seek/.import", b"a\tf:q\t1\tx\n")
fd = os.open(place("seek", "start", ".follow"), os.O_RDONLY)
same(len(os.read(fd, 1000).splitlines()), 1, "a reader gets a change")


def interrupt(*args):
    raise InterruptedError


signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
try:
    os.read(fd, 1000)
except InterruptedError:
    pass
signal.setitimer(signal.ITIMER_REAL, 0)
spill("seek/.schema", FAMILIES)
same([errno_of(os.pread, fd, 1000, 0) for i in range(2)], ["EOPNOTSUPP"] * 2, "  waits for the next one, begins again, and fails")
os.close(fd)
ok(os.path.exists("seek"), "  and ends, and the daemon does not")

# ---- changes that are not kept any more ----
make("off")
spill("off/.import", b"a\tf:q\t1\tx\n")
files = lambda: glob.glob(os.environ["D"] + "/sst/*/*")
before = len(files())
spill("off/.ctl", b"flush\n", os.O_WRONLY)
same(len(files()), before + 2, "a flush writes cells and changes")
spill("off/.schema", FAMILIES)
spill("off/.ctl", b"compact\n", os.O_WRONLY)
soon(lambda: len(files()), before + 1, "  and the changes are removed without another write, if they are not to be kept")

# ---- for the repair ----
make("mend")
spill("mend/.import", b"a\tf:q\t1\tx\nb\tf:q\t1\ty\n")
known = set(files())
spill("mend/.ctl", b"flush\n", os.O_WRONLY)
spill(os.environ["TOKEN"], lines("mend")[0][0].encode())
with open(os.environ["TOKEN"] + ".files", "w") as f:
    f.write("\n".join(sorted(set(files()) - known)))

make("salted", b'changes = "7d"; salt = 16; ')
spill("salted/.import", b"".join(b"%d\tf:q\t1\tx\n" % i for i in range(300)))
spill("salted/.ctl", b"flush\n", os.O_WRONLY)

# ---- readers that stop in the middle of large values ----
make("huge")
spill("huge/.import", b"a\tf:q\t1\t" + b"\x01" * (30 << 20) + b"\n")


def begin():
    fds.append(os.open(place("huge", "start"), os.O_RDONLY))
    os.read(fds[-1], 4096)


fds = []
same([errno_of(begin) for i in range(5)], ["0"] * 4 + ["ENOMEM"], "the unread lines of a user have at most 512 MiB")
same(errno_of(os.read, fds[4], 4096), "ENOMEM", "  and a reader that got no line gets none behind it")
os.close(fds[0])
same(errno_of(begin), "0", "  but when another reader has ended, a new one gets it")
for fd in fds[1:]:
    os.close(fd)
same(len(lines("huge")[0][6]), 4 * (30 << 20), "  and the value is whole")
EOF2
ok "unmount" unmount_store

# ---- a damaged file of changes ----
victim=
while read -r file || [ -n "$file" ]; do
	"$TABLETCTL" dump sst "$file" | grep -q "group 65535" && victim=$file
done <"$TOKEN.files"
ok "a file has the changes" [ -n "$victim" ]
printf XXXX | dd of="$victim" bs=1 seek=10 conv=notrunc status=none
is "$("$TABLETCTL" repair --write "$D" >"$W/out" 2>&1; grep -c "^lost: .*: changes" "$W/out")" 1 "the repair of a damaged file of changes names the loss"
ok "the store is sound" check_store
ok "mount" mount_store
py <<'EOF2'
from tap import *
os.chdir(M)
same(errno_of(slurp, "mend/.changes/from=%s/.tsv" % slurp(os.environ["TOKEN"]).decode()), "ESTALE", "  and a place before a lost change is ESTALE")
spill("mend/.import", b"c\tf:q\t1\tz\n")
same([l.split(b"\t")[3] for l in slurp("mend/.changes/from=start/.tsv").splitlines()], [b"c"], "  and the next changes are listed")
same(slurp("mend/.scan/.tsv"), b"a\tf:q\t1\tx\nb\tf:q\t1\ty\nc\tf:q\t1\tz\n", "  and no cell is lost")
EOF2
ok "unmount" unmount_store
ok "the store is sound" check_store

# ---- a lost schema ----
rm "$D/lock/tables/salted"
"$TABLETCTL" repair --write "$D" >"$W/out" 2>&1
is "$(grep -o "a new schema.*salt [0-9]*" "$W/out" | grep -o "[0-9]* families.*")" "1 families, named family-ID, salt 16" "a schema is restored from the cells, and not from the changes"
ok "the store is sound" check_store
done_testing

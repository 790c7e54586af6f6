#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TABLE/.changes: each change of a table is listed once, in the order of commits, and each line has the token from which
# the rest is listed, also after splits, merges, compactions, kill -9 and truncation.  Readers that follow wait without work.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model keeps no changes"
ok "mount" mount_store -o allow_other
export CHANGES=$W/changes.py BEFORE=$W/before
cat >"$CHANGES" <<'EOF2'
from tap import *
import base64, json, pty, signal, subprocess

os.chdir(M)


def lines(table, place="start"):
    return [tuple(line.split("\t")) for line in slurp("%s/.changes/from=%s/.tsv" % (table, place)).decode().splitlines()]


def what(line):
    return line[2:]


def make(table, schema='changes = "7d"; '):
    os.mkdir(table)
    spill(table + "/.schema", schema.encode() + b'families = ({name = "f";}, {name = "g"; gc = "maxversions=1";});')


def tails(table, all_lines, name):
    """Each token continues with the lines behind its own."""
    wrong = [i for i, line in enumerate(all_lines) if lines(table, line[0]) != all_lines[i + 1:]]
    same(wrong, [], name)
EOF2
py <<'EOF2'
from tap import *
exec(slurp(os.environ["CHANGES"]))
make("t")
same(lines("t"), [], "a new table has no changes")
same((os.listdir("t/.changes"), os.listdir("t/.changes/from=start")), ([], []), "  and lists no names")
ok(".changes" not in os.listdir("t"), "  in .changes, which is not listed")
spill("t/.import", b"a\tf:q\t5\tone\na\tf:q\t7\ttwo\na\tg:q\t5\tx\n")
spill("t/.import", b"b\tf:t\\tab\\xff\t5\tl\\n\\x00\n")
os.makedirs("t/a/f", exist_ok=True)
os.unlink("t/a/f/q@5")
os.unlink("t/a/f/q")
subprocess.run(["rm", "-r", "t/b"], check=True)
got = lines("t")
same([what(l) for l in got[:6]], [("set", "a", "f:q", "5", "one"), ("set", "a", "f:q", "7", "two"), ("set", "a", "g:q", "5", "x"),
    ("set", "b", "f:t\\tab\\xFF", "5", "l\\n\\x00"), ("delete-cell", "a", "f:q", "5", ""), ("delete-column", "a", "f:q", "", "")], "lines of each kind")
same([int(l[1]) for l in got], sorted(int(l[1]) for l in got), "  in the order of commits")
ok(all(len(l[0]) <= 255 for l in got) and len({l[0] for l in got}) == len(got), "  each with a token of its own")
tails("t", got, "  from which the rest is listed")
objects = [json.loads(line) for line in slurp("t/.changes/from=start/.jsonl").splitlines()]
same([(o["token"], str(o["commit"]), o["kind"]) for o in objects], [l[:3] for l in got], ".jsonl has the same changes")
same([o.get("value_base64", o.get("value")) for o in objects[:4]], ["one", "two", "x", "l\n\0"], "  and values")
same(base64.b64decode(objects[3]["qualifier_base64"]), b"t\tab\xff", "  and qualifiers")
same(lines("t", "now"), [], "from=now lists nothing")
same([lines("t", str(int(l[1]))) for l in got[:1]], [got], "from=TIME lists the changes from this time on")
same(lines("t", "1h"), got, "  which may be an age")
spill("t/.ctl", b"split b\n", os.O_WRONLY)
same(lines("t"), got, "the same lines after a split")
spill("t/.ctl", b"flush\n", os.O_WRONLY)
same(lines("t"), got, "  after a flush")
spill("t/.ctl", b"merge a\n", os.O_WRONLY)
spill("t/.ctl", b"compact\n", os.O_WRONLY)
same(lines("t"), got, "  after a merge and a compaction")
same(slurp("t/.scan/.tsv"), b"a\tg:q\t5\tx\n", "the table itself has only its cells")
spill("t/.import", b"big\tf:q\t1\t" + b"v" * 3000000 + b"\n")
same([(what(l)[:4], len(l[6])) for l in lines("t", got[-1][0])], [(("set", "big", "f:q", "1"), 3000000)], "a large value is whole")
got = lines("t")
# Rules of garbage collection are no changes.
for i in range(1, 5):
    spill("t/.import", b"v\tg:q\t%d\tx\n" % i)
os.unlink("t/v/g/q@4")
same([what(l)[:4] for l in lines("t", got[-1][0])], [("set", "v", "g:q", str(i)) for i in range(1, 5)] + [("delete-cell", "v", "g:q", "4")], "versions that rules hide are no changes")

# ---- bad places ----
make("other")
make("none", "")
place = lambda table, p, s=".tsv": "%s/.changes/from=%s/%s" % (table, p, s)
token = got[0][0]
for bad in ("", "x", "0-0-0-0-0", token + "-1", token.upper() + "x", token[:-1], token[1:], "f" * 16 + token[16:], "2026-99-01", "-5", "0" + token):
    same(errno_of(slurp, place("t", bad)), "EINVAL", "from=%s is EINVAL" % bad)
same(errno_of(slurp, place("other", token)), "EINVAL", "a token of another table is EINVAL")
same(errno_of(slurp, place("none", "start")), "EOPNOTSUPP", "a table that keeps no changes says so")
same((errno_of(os.stat, "t/.changes/.tsv"), errno_of(os.stat, "t/.changes/from=now/.x"), errno_of(os.stat, "t/.changes/x")), ("ENOENT", "ENOENT", "EINVAL"), "nothing else is there")
same(errno_of(spill, place("t", "now"), b"x", os.O_WRONLY), "EACCES", "no stream is written")
ok("from= needs" in slurp(".tabletfs/log").decode() and "keeps no changes" in slurp(".tabletfs/log").decode(), "the log has the reasons")

# ---- changes that begin and end ----
spill("none/.import", b"a\tf:q\t1\tx\n")
spill("none/.schema", b'changes = "7d"; families = ({name = "f";});')
spill("none/.import", b"a\tf:q\t2\ty\n")
same([what(l) for l in lines("none")], [("set", "a", "f:q", "2", "y")], "a table keeps changes from then on")
old = lines("none")[0][0]
spill("none/.schema", b'families = ({name = "f";});')
spill("none/.import", b"a\tf:q\t3\tz\n")
spill("none/.schema", b'changes = "7d"; families = ({name = "f";});')
spill("none/.import", b"a\tf:q\t4\tz\n")
same([what(l)[3] for l in lines("none")], ["4"], "  and again, after it kept none")
same(errno_of(slurp, place("none", old)), "ESTALE", "  with an error for the gap")

# ---- expiry ----
make("short", 'changes = "500ms"; ')
spill("short/.import", b"a\tf:q\t1\tx\nb\tf:q\t1\ty\n")
first = lines("short")
if len(first) == 2:
    soon(lambda: errno_of(slurp, place("short", first[0][0])), "ESTALE", "a place before expired changes is ESTALE")
    spill("short/.import", b"c\tf:q\t1\tz\n")
    same(errno_of(slurp, place("short", first[0][0])), "ESTALE", "  also when there are later changes")
else:
    note("the machine is too slow for this")

# ---- truncation and drop ----
spill("other/.import", b"a\tf:q\t1\tx\n")
token = lines("other")[0][0]
spill("other/.ctl", b"truncate\n", os.O_WRONLY)
same([what(l) for l in lines("other", token)], [("truncate", "", "", "", "")], "a truncation is a line")
spill("other/.import", b"b\tf:q\t1\ty\n")
got = lines("other", token)
same([what(l) for l in got], [("truncate", "", "", "", ""), ("set", "b", "f:q", "1", "y")], "  and later changes follow")
tails("other", got, "  and tokens continue")
EOF2

# ---- kill -9 ----
py <<'EOF2'
from tap import *
exec(slurp(os.environ["CHANGES"]))
make("k")
spill("k/.import", b"".join(b"%d\tf:q\t%d\tv%d\n" % (i % 17, i, i) for i in range(200)))
spill("k/.ctl", b"split 4\n", os.O_WRONLY)
spill("k/.ctl", b"flush\n", os.O_WRONLY)
spill("k/.import", b"".join(b"%d\tf:r\t%d\tv%d\n" % (i % 17, i, i) for i in range(200)))
spill(os.environ["BEFORE"], slurp("k/.changes/from=start/.tsv"))
same(len(lines("k")), 400, "400 changes")
EOF2
kill_daemon
ok "kill -9, and a mount" mount_store -o allow_other
is "$(cksum <"$M/k/.changes/from=start/.tsv")" "$(cksum <"$BEFORE")" "the same changes after kill -9"
ok "remount" remount -o allow_other
is "$(cksum <"$M/k/.changes/from=start/.tsv")" "$(cksum <"$BEFORE")" "the same changes after a remount"

# ---- following ----
py <<'EOF2'
from tap import *
exec(slurp(os.environ["CHANGES"]))
make("w")
cat = subprocess.Popen(["cat", "w/.changes/from=start/.follow"], stdout=subprocess.PIPE)
spill("w/.import", b"a\tf:q\t1\tx\n")
line = cat.stdout.readline()
same(line.split(b"\t")[2:5], [b"set", b"a", b"f:q"], ".follow returns a change as soon as it is there")
spill("w/.import", b"b\tf:q\t1\tx\n")
same(cat.stdout.readline().split(b"\t")[3], b"b", "  and the next one")
# A shell's read takes what is there, and seeks back to the end of its line.
shell = subprocess.Popen(["bash", "-c", "while IFS= read -r line; do echo \"$line\"; done <w/.changes/from=start/.follow"], stdout=subprocess.PIPE)
spill("w/.import", b"".join(b"s%d\tf:q\t1\t%s\n" % (i, b"v" * (i * 100)) for i in range(60)))
looped = [shell.stdout.readline().split(b"\t")[3] for i in range(62)]
same((looped[:2], sorted(looped[2:])), ([b"a", b"b"], sorted(b"s%d" % i for i in range(60))), "a loop of the shell gets each line once")
same([cat.stdout.readline().split(b"\t")[3] for i in range(60)], looped[2:], "  as cat does")
fd = os.open("w/.changes/from=start/.follow", os.O_RDONLY)
text = os.read(fd, 4000)
os.lseek(fd, 100, os.SEEK_SET)
same(os.read(fd, 50), text[100:150], "  the bytes of the last read can be read again")
os.read(fd, 100000)
same(errno_of(os.pread, fd, 10, 99), "ESPIPE", "  and no others")
os.lseek(fd, 0, os.SEEK_SET)
same(os.read(fd, 4000)[:len(text)] == text, True, "  and the file from its start")
os.close(fd)
# tail writes its output into a pipe in blocks.
terminal, slave = pty.openpty()
tail = subprocess.Popen(["tail", "-n", "+1", "-f", "w/.changes/from=start/.follow"], stdout=slave)
os.close(slave)
same(os.fdopen(terminal, "rb").readline().strip(), line.strip(), "tail -f works as on a log file")
jsonl = subprocess.Popen(["cat", "w/.changes/from=now/.follow.jsonl"], stdout=subprocess.PIPE)
idle = [subprocess.Popen(["cat", "w/.changes/from=now/.follow"], stdout=subprocess.PIPE) for i in range(100)]
soon(lambda: sum(b"S" in slurp("/proc/%d/stat" % p.pid).split(b")")[-1].split()[0] for p in idle), 100, "100 readers wait")
ok(os.path.exists("w/a/f/q"), "  and other requests are served")
spill("w/.import", b"c\tf:q\t1\tx\n")
same({p.stdout.readline().split(b"\t")[3] for p in idle}, {b"c"}, "  each of them gets the next change")
same(json.loads(jsonl.stdout.readline())["row"], "c", "  as JSON, too")
idle[0].send_signal(signal.SIGINT)
same(idle[0].wait(30), -signal.SIGINT, "^C ends a reader at once")
spill("w/.ctl", b"truncate\n", os.O_WRONLY)
same(idle[1].stdout.readline().split(b"\t")[2], b"truncate", "a truncation reaches a reader that waits")
os.rmdir("w")
rest = idle[1].stdout.read().splitlines()
same(rest[-1].split(b"\t")[2] if rest else None, b"drop", "a drop is the last line, and then the file ends")
for p in [cat, shell, tail, jsonl] + idle:
    p.kill()
    p.wait()
EOF2

# ---- access ----
py <<'EOF2'
from tap import *
exec(slurp(os.environ["CHANGES"]))
if os.getuid() != 0:
    note("only root can be another user")
else:
    os.mkdir("p")
    spill("p/.schema", b'changes = "7d"; families = ({name = "open"; mode = "0644";}, {name = "closed"; mode = "0600";});')
    spill("p/.import", b"a\topen:q\t1\tx\na\tclosed:q\t1\ty\nb\tclosed:q\t1\tz\nc\topen:q\t1\tx\n")
    path = M + "/p/.changes/from=start/.tsv"
    all_lines = lines("p")
    out = subprocess.run(["cat", path], user=65534, group=65534, extra_groups=[], capture_output=True)
    if out.returncode:
        note("another user cannot use this mount", out.stderr)
    else:
        same([tuple(l.split("\t")) for l in out.stdout.decode().splitlines()], [l for l in all_lines if l[4].startswith("open")], "a user sees changes of families that he may read")
        again = subprocess.run(["cat", path.replace("start", all_lines[1][0])], user=65534, group=65534, extra_groups=[], capture_output=True)
        same([tuple(l.split("\t")) for l in again.stdout.decode().splitlines()], [l for l in all_lines[2:] if l[4].startswith("open")], "  and the same tokens hold for all users")
EOF2
ok "unmount" unmount_store
ok "the store is sound" check_store
done_testing

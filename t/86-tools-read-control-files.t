#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A control file whose size is known shows it, so every program copies it.  A stream has the
# size 0: programs that read to the end copy it, and the others are those that
# tabletfs-scan(7) lists.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "snapshots and streams are of the store"
ok "mount" mount_store
cd "$M" || exit 1
mkdir -p t/r/f
head -c 300000 /dev/urandom >t/r/f/big
echo hello >t/r/f/q
mkdir t/.snap/s1
echo two >t/r/f/q2
rm t/r/f/q
mkdir t/.snap/s2
cat >"$W/copies.py" <<'PY'
from tap import *
import mmap
import shutil
import subprocess
os.chdir(M)
OUT = W + "/copy"
SIZED = ["t/r/.row.json", "t/r/.row.flat.json", "t/.ctl", "t/.tablets", "t/.splits", ".tabletfs/version", ".tabletfs/servers", ".tabletfs/config", ".tabletfs/ctl",
         "t/.families/f/gc", "t/.families/f/group", "t/.families/f/type", "t/.families/f/usage", "t/.groups/default/level",
         "t/.groups/default/compression", "t/.scan/.help", "t/.snap/s2/.usage", "t/.snap/s2/.ctl", "t/.snap/s2/.splits"]
STREAMS = ["t/.scan/.tsv", "t/.scan/.jsonl", "t/.scan/.csv", "t/.scan/.wide.tsv", "t/.scan/.tar", "t/.scan/.keys", "t/.scan/.count", "t/.export.tar",
           "t/.snap/s2/.since/s1/.changed", "t/.snap/s2/.since/s1/.deleted"]


def run(*argv):
    return lambda p: subprocess.run([a.replace("@", p) for a in argv], stdout=open(OUT, "wb"), stderr=subprocess.DEVNULL, timeout=60)


def sendfile(p):
    with open(p, "rb") as i, open(OUT, "wb") as o:
        while os.sendfile(o.fileno(), i.fileno(), None, 1 << 20):
            pass


def mapped(p):
    with open(p, "rb") as i, open(OUT, "wb") as o:
        o.write(mmap.mmap(i.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE)[:])


def archived(p):
    tar = subprocess.run(["tar", "cf", "-", p], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
    subprocess.run(["tar", "xOf", "-"], input=tar.stdout, stdout=open(OUT, "wb"), timeout=60)


# Programs that read to the end, and those that read as many bytes as the size states.
TO_THE_END = {"cat": run("cat", "@"), "cp": run("cp", "@", OUT), "cp -a": run("cp", "-a", "@", OUT), "install": run("install", "@", OUT),
              "dd": run("dd", "if=@", "bs=7777"), "head -c": run("head", "-c", "99999999", "@"), "tail -c": run("tail", "-c", "99999999", "@"),
              "gzip": lambda p: subprocess.run("gzip -c '%s' | gzip -dc >'%s'" % (p, OUT), shell=True, timeout=60),
              "perl": run("perl", "-MFile::Copy", "-e", "copy($ARGV[0], $ARGV[1])", "@", OUT),
              "read": lambda p: spill(OUT, slurp(p))}
BY_SIZE = {"rsync": run("rsync", "@", OUT), "rsync --inplace": run("rsync", "-W", "--inplace", "@", OUT), "tar": archived,
           "shutil.copyfile": lambda p: shutil.copyfile(p, OUT), "sendfile": sendfile, "mmap": mapped}


def copied(fn, p):
    if os.path.exists(OUT):
        os.chmod(OUT, 0o600)
        os.unlink(OUT)
    try:
        fn(p)
    except (OSError, ValueError):
        pass
    return slurp(OUT) if os.path.exists(OUT) else None


def wrong(tools, paths):
    out = []
    for p in paths:
        want = slurp(p)
        for name, fn in tools.items():
            if name.split()[0] in ("rsync",) and not shutil.which("rsync"):
                continue
            got = copied(fn, p)
            if got != want:
                out.append((name, p, None if got is None else len(got), len(want)))
    return out


same([p for p in SIZED if os.stat(p).st_size != len(slurp(p))], [], "each of %d control files shows its size" % len(SIZED))
same(wrong({**TO_THE_END, **BY_SIZE}, SIZED), [], "%d programs copy each of them" % (len(TO_THE_END) + len(BY_SIZE)))
same([p for p in STREAMS if os.stat(p).st_size], [], "each of %d streams has the size 0" % len(STREAMS))
same(wrong(TO_THE_END, STREAMS), [], "%d programs that read to the end copy each of them" % len(TO_THE_END))
if shutil.which("rsync"):
    same({copied(BY_SIZE["rsync"], p) for p in STREAMS}, {b""}, "rsync copies nothing of them")
same({copied(archived, p) for p in STREAMS}, {b""}, "nor does tar")
same({copied(BY_SIZE["sendfile"], p) for p in STREAMS}, {b""}, "nor does sendfile")
same([int(subprocess.run(["wc", "-c", p], stdout=subprocess.PIPE).stdout.split()[0]) - len(slurp(p)) for p in SIZED + STREAMS],
     [0] * len(SIZED + STREAMS), "wc -c counts the bytes of both")

# ---- .row.json: read at any place, as of the asking user, and of a row that changes ----
R = "t/r/.row.json"
whole = slurp(R)
fd = os.open(R, os.O_RDONLY)
same([os.pread(fd, 100, at) for at in (200000, 5, 0, len(whole) - 3, len(whole) + 5)],
     [whole[200000:200100], whole[5:105], whole[:100], whole[-3:], b""], ".row.json is read at any place")
os.close(fd)
before = os.stat(R)
spill("t/r/f/q3", b"new")
after = os.stat(R)
ok(after.st_size > before.st_size and after.st_mtime_ns > before.st_mtime_ns, "size and time of .row.json change with the row")
fd = os.open("t/.scan/.tsv", os.O_RDONLY)
err("ESPIPE", "a stream is not read from its middle", os.pread, fd, 10, 5)
same(os.pread(fd, 1, 0), b"r", "  but from its start")
os.close(fd)
with open(R, "r+b") as f:
    text = f.read()
    f.seek(0, 2)
    f.write(text)
same(slurp("t/r/f/q3"), b"new", "a program that has read .row.json writes it behind the end")
fd = os.open("t/.ctl", os.O_WRONLY | os.O_APPEND)
same(os.write(fd, b"flush\n"), 6, "a verb is appended to .ctl")
os.close(fd)
same([errno_of(spill, p, b"flush\n", os.O_WRONLY | os.O_TRUNC) for p in ("t/.ctl", ".tabletfs/ctl")], ["0", "0"], "and written")
PY
py <"$W/copies.py"

# ---- the shell's read goes back to the end of a line ----
mkdir -p lines/.families/f
seq 1 3000 | sed 's/.*/r&\tf:q\t5\tvalue &/' >lines/.import
mkdir lines/.snap/one
for n in 5 2990; do echo more >lines/r$n/f/q; done
printf 'local n = output.count_by()\nfunction row(r) n:add(r.key) end\n' >lines/.scripts/keys.lua
mkdir lines/.snap/two
loop() { while IFS= read -r line; do printf '%s\n' "$line"; done <"$1"; }
for f in lines/.scan/.tsv lines/.scan/.jsonl lines/.scan/.csv lines/.scan/prefix=r1/.keys lines/.scan/.names lines/.scan/.count \
	lines/.scan/.run/keys lines/.snap/two/.since/one/.changed t/r/.row.json lines/.tablets; do
	cat "$f" >"$W/whole" 2>&1
	loop "$f" >"$W/lines" 2>&1
	ok "while read ... done <$f" cmp "$W/whole" "$W/lines"
	ok "  which has lines" test -s "$W/whole" -a -f "$f"
done
ok "a line by read, then the rest by cat" sh -c 'exec 3<lines/.scan/.tsv; read -r one <&3; { echo "$one"; cat <&3; } >"$1"' - "$W/lines"
same "$W/lines" lines/.scan/.tsv "  is the stream"

# ---- the documents name them ----
man=$(sed 's/\\//g' "$SRC/man/tabletfs-scan.7")
for tool in rsync tar sendfile mmap; do
	like "$man" "$tool" "tabletfs-scan(7) names $tool"
	like "$(cat "$SRC/README")" "$tool" "README too"
done
ok "the command that works instead of rsync of a stream" bash -c "cat t/.export.tar >'$W/whole.tar' && tar tf '$W/whole.tar'"
cd "$W" || exit 1
done_testing

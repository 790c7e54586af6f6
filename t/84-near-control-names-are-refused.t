#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A name that looks like a control name and is none is refused, with the right name in the log.
# The names that programs make beside control files are scratch.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1
mkdir -p t/r/f u/r/f
echo x >t/r/f/q
py <<'EOF2'
from tap import *
import string
os.chdir(M)
new = os.O_WRONLY | os.O_CREAT
TABLE = [".schema", ".families", ".groups", ".scripts", ".latest", ".scan", ".snap", ".tablets", ".splits", ".ctl", ".import", ".import.tsv",
         ".import.jsonl", ".import.csv", ".import.wide.tsv", ".import.tar", ".export.tar"]
ROW = [".mutate", ".row.json", ".row.flat.json"]
TRIED = """.import.cvs .import.csv.gz .import.wide.csv .import.tar.gz .import.json .import.txt .imports .imprt .snaps .snapshot .ctrl .ct .clt .schemas .schem
.shcema .schema.txt .schema.json .schema.conf .row.jsonl .row.jso .rowjson .row.json.gz .mutate.txt .mutates .mutat
.familes .group .latests .lates .scans .tablet .split .splits.txt .export.tar.gz .export.tar.zst .import.tar.bz2
.import.jsonl.gz .ctl.txt ..schema .schema.""".split()


def log():
    return slurp(".tabletfs/log").decode(errors="replace")


def makers(path):
    """Each way to make the name."""
    return {"create": lambda: os.close(os.open(path, new)), "mkdir": lambda: os.mkdir(path), "mknod": lambda: os.mknod(path, 0o600 | 0o100000),
            "rename": lambda: os.rename(os.path.dirname(path) + "/.~source~", path)}


def all_refused(what, names, dirs, want="EOPNOTSUPP"):
    wrong = []
    for d in dirs:
        spill(d + "/.~source~", b"text")
        for n in names:
            if n in (TABLE if d == "t" else ROW if d.endswith("/r") else []):
                continue  # it is a control name there
            for how, fn in makers(d + "/" + n).items():
                got = errno_of(fn)
                if got != want:
                    wrong.append((how, d + "/" + n, got))
        os.unlink(d + "/.~source~")
    same(wrong, [], "%s: %d names are %s in each way of making one" % (what, len(names), want))


all_refused("what users write", TRIED, ["t", "t/r"])
all_refused("  in a table", ".familys .family .snapshots .snapshot.tar .export .exports .export.csv".split(), ["t"])
all_refused("  in a row", ".row .rows .row.csv .row.tsv.gz".split(), ["t/r"])
all_refused("control names elsewhere", TABLE + ROW, ["t", "t/r", "t/.latest", "t/.latest/r", "t/r/f", "t/.latest/r/f"])
for n in (".schema", ".row.json"):
    same(errno_of(os.symlink, "x", "t/r/%ss" % n), "EPERM", "a symlink %ss is refused, as all are" % n)


def edits(name):
    a = string.ascii_lowercase + "."
    out = {name[:i] + name[i + 1:] for i in range(1, len(name))} | {name[:i] + c + name[i:] for i in range(1, len(name) + 1) for c in a}
    out |= {name[:i] + c + name[i + 1:] for i in range(1, len(name)) for c in a}
    out |= {name[:i] + name[i + 1] + name[i] + name[i + 2:] for i in range(1, len(name) - 1)}
    return out - {name}


near = sorted(set().union(*(edits(n) for n in TABLE + ROW)) - set(TABLE + ROW))
wrong = [(d, n, got) for n in near for d in ("t", "t/r") for got in [errno_of(os.open, d + "/" + n, new)]
         if got != "EOPNOTSUPP"]
same(wrong, [], "each of %d names that are one edit away is refused" % len(near))
same((sorted(os.listdir("t")), os.listdir("t/r")), (["r"], ["f"]), "none of them has been made")

# ---- the log has the right name ----
for d, n, right in (("t", ".import.cvs", "TABLE/.import.csv"), ("t", ".import.txt", "TABLE/.import"), ("t", ".import.tar.gz", "TABLE/.import.tar"), ("t", ".snaps", "TABLE/.snap"),
                    ("t", ".snapshot", "TABLE/.snap"), ("t", ".ctrl", "TABLE/.ctl"), ("t", ".schemas", "TABLE/.schema"),
                    ("t/r", ".row.jsonl", "TABLE/ROW/.row.json"), ("t/r", ".mutate.txt", "TABLE/ROW/.mutate"),
                    ("t", ".familys", "TABLE/.families"), ("t/r", ".schema", "TABLE/.schema"), ("t/r/f", ".mutate", "TABLE/ROW/.mutate"),
                    ("t", ".mutate", "TABLE/ROW/.mutate")):
    errno_of(os.open, d + "/" + n, new)
    last = log().splitlines()[-1]
    ok(d + "/" + n + ":" in last and last.split(": Operation")[0].endswith(" " + right), "%s/%s: the log has %s" % (d, n, right))

# ---- what programs make beside them ----
beside = [".schema~", "..schema.swp", "..schema.swo", "..schema.swx", ".schema.swp", ".schema.bak", ".schema.orig", ".schema.rej", ".schema.new",
          ".schema.tmp", ".schema.save", ".schema.lock", ".row.json~", "..row.json.swp", ".row.json.bak", ".#.schema", "#.schema#"[1:], "._schema",
          "..schema.AbCdEf", "..schema.abcdef", ".import.x9Kq2a", ".row.x.AbCdEf", ".~tmp~", ".unison.schema.0123abcd.unison.tmp", ".git", ".new",
          ".late", ".d", ".tmp", ".lock", ".rsync-partial", ".nfs0000001", ".DS_Store", ".Trash-1000", ".cache", ".hidden", ".svn", ".hg", ".env",
          ".scratch", ".temporary", ".part", ".stage", ".swp", ".old", ".log"]
wrong = []
for d in ("t", "t/r", "t/.latest", "t/.latest/r"):
    for n in beside:
        p = d + "/" + n
        got = (errno_of(spill, p, b"x", os.O_WRONLY | os.O_CREAT | os.O_EXCL), errno_of(os.unlink, p), errno_of(os.mkdir, p), errno_of(os.rmdir, p))
        if set(got) != {"0"}:
            wrong.append((p, got))
same(wrong, [], "%d names that programs make beside control files are scratch" % len(beside))
wrong = [(n, got) for n in (".schemas", ".ctrl", ".tar", ".run", ".git", ".scan.txt", ".x.ctl.AbCdEf", ".snapshot") for p in ["t/r/f/" + n]
         for got in [(errno_of(spill, p, b"x"), errno_of(os.unlink, p))] if got != ("0", "0")]
same(wrong, [], "in a family, where programs choose names, only control names themselves are refused")
spill("t/.d~", b"x")
same((errno_of(os.rename, "t/.d~", "t/.schema~"), slurp("t/.schema~")), ("0", b"x"), "a rename among scratch")
os.unlink("t/.schema~")
os.mkdir("t/.dir")
spill("t/.dir/.schemas", b"x")
same(slurp("t/.dir/.schemas"), b"x", "in a directory of scratch all names are scratch")

# ---- the root, .families, .groups, .snap, .scan, .tabletfs ----
wrong = []
os.mkdir("t/.groups/g1")
for d, names in ((".", (".tabletf", ".snaps", ".schema", ".latest", ".x")), (".tabletfs", ("confg", "config.txt", "ctrl", "log2", ".config")),
                 (".snap", (".x", "a b")), ("t/.snap", (".x", "a b")), ("t/.families", (".x", ".schema")), ("t/.groups", (".x",)),
                 ("t/.families/f", ("gcs", "gc.txt", "gc~", ".gc", "groups", "typ", "mode", "acl")), ("t/.groups/g1", ("levels", "blocksize", ".x")),
                 ("t/.scan", ("prefx=a", ".tsvs", ".json", "limit=x", "reverse=maybe")), ("t/.scan/limit=1", (".rowss", ".cvs"))):
    for n in names:
        got = errno_of(os.open, d + "/" + n, new)
        if got not in ("EPERM", "EINVAL", "EROFS", "EOPNOTSUPP", "ENOENT"):
            wrong.append((d + "/" + n, got))
        got = errno_of(os.mkdir, d + "/" + n)
        if got not in ("EPERM", "EINVAL", "EROFS", "EOPNOTSUPP"):
            wrong.append((d + "/" + n + "/", got))
same(wrong, [], "a name that is no setting is refused where settings are")
EOF2
if [ -z "$MODEL" ]; then
	ok ".import.tsv takes lines as .import does" bash -c "printf 'r2\tf:q\t7\tv\n' >u/.import.tsv"
	is "$(cat u/.scan/prefix=r2/.tsv)" "$(printf 'r2\tf:q\t7\tv')" "  and stores them"
fi
fails "mkdir -p t/.snaps/today" 'not supported' mkdir -p t/.snaps/today
fails "cp onto t/.import.cvs" 'not supported' cp "$W/.out" t/.import.cvs
if has rsync; then
	mkdir "$W/from" && echo 'text' >"$W/from/.schemas"
	fails "rsync of .schemas" 'not supported' rsync "$W/from/.schemas" t/
fi
if has vim; then
	echo 'families = ({ name = "f"; });' >"$W/schema" && cat "$W/schema" >t/.schema
	ok "vim writes .schema with a backup and a swap file beside it" t vim -u NONE -N -es -c 'set backup swapfile directory=. backupdir=.' \
		-c 'e t/.schema' -c 's/"f";/"f"; gc = "maxversions=2";/' -c 'wq'
	is "$(cat t/.families/f/gc)" "maxversions=2" "  and it is applied"
fi
cd "$W" || exit 1
done_testing

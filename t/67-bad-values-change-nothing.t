#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each bad value written to .families, .groups, .schema or .ctl is refused with
# the documented error, writes one line to the log that names the file, and
# changes nothing.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1
mkdir -p t/.families/f t/.families/n t/.groups/g
echo counter >t/.families/n/type
echo g >t/.families/f/group
for r in a b c; do mkdir -p "t/$r/f" && echo x >"t/$r/f/q"; done
echo 'split b' >t/.ctl
cat >"$W/bad.py" <<'PY'
from tap import *
os.chdir(M)

def state():
    """All that a schema is, as users see it, the tablets' borders, and the rows."""
    found = [slurp("t/.schema"), os.stat("t/.schema").st_mtime_ns]
    for where in ("t/.families", "t/.groups"):
        for top, dirs, files in os.walk(where):
            found += [top, sorted(dirs)] + [(f, slurp(top + "/" + f)) for f in sorted(files) if f != "usage"]
    found.append([line.split(b"\t")[:2] for line in slurp("t/.tablets").splitlines()[1:]])
    return found + [sorted(os.listdir(d)) for d in ("t", "t/a/f", "t/b/f", "t/c/f")]

def whole(path, value):
    spill(path, value, os.O_WRONLY | os.O_TRUNC)

def unended(path, value):
    """Without its newline a setting is applied at close."""
    spill(path, value.rstrip(b"\n"), os.O_WRONLY | os.O_TRUNC)

def bad(path, values, want="EINVAL", how=(whole,)):
    """Every value is refused; one line of TAP for all."""
    was, wrong, before = state(), [], len(slurp(".tabletfs/log").splitlines())
    for value in values:
        value = value if isinstance(value, bytes) else value.encode()
        for write in how if value.strip() else how[:1]:
            got = errno_of(write, path, value)
            log = slurp(".tabletfs/log").splitlines()
            lines, before = log[before:], len(log)
            # write(2) of more than the kernel passes on at once is two, each of which is refused.
            if got != want or len(lines) != (1 if want != "EFBIG" else 2) or b" /" + path.encode() + b": " not in lines[0] or state() != was:
                wrong.append((write.__name__, value[:60], got, lines, state() == was))
    ok(not wrong, "%s: %d values: each is %s, has one line in the log, and changes nothing" % (path, len(values), want))
    for w in wrong:
        note(*w)
PY
export PYTHONPATH="$PYTHONPATH:$W"

py <<'EOF2'
from bad import *
both = (whole, unended)
junk = ["\n", "  \n", "x\n", "-1\n", "1 2\n", b"\xff\xfe\n", "1\0\n", "1\0002\n", "1\x01\n", "9" * 40 + "\n", "1" + " " * 5000 + "1\n", "1\n2\n", "\u2460\n",
        "0x10\n", "1e3\n", "1.5\n", "+1\n", "'1'\n", "y" * (1 << 20)]
G = "t/.groups/g/"
bad(G + "block_size", junk + ["0\n", "1\n", "1023\n", "4G\n", "5M\n", "4097K\n", "64KB\n", "64 K\n", "K\n", "18446744073709551616\n",
                              "4503599627370496K\n", "64P\n", "-64K\n"], how=both)
bad(G + "bloom_bits", junk + ["99\n", "21\n", "10K\n", "256\n", "4294967306\n", "1000000000000000000000\n"], how=both)
bad(G + "level", junk + ["0\n", "20\n", "3K\n", "4294967299\n"], how=both)
bad(G + "compression", junk + ["gzip\n", "ZSTD\n", "zstd -9\n", "zstd,lz4\n", "none\0\n", "zstd\nlz4\n", "z" * 3000 + "\n"], how=both)
bad(G + "in_memory", junk + ["maybe\n", "yes\n", "TRUE\n", "1\n", "true false\n", "true\nfalse\n"], how=both)
for codec in ("none", "snappy", "lz4"):
    spill(G + "compression", codec.encode() + b"\n")
    bad(G + "level", ["1\n", "9\n", "19\n"], how=both)
spill(G + "compression", b"zstd-dict\n")
bad(G + "level", ["0\n", "20\n"])

F = "t/.families/f/"
bad(F + "gc", junk[2:] + [
    "never\n", "maxversions\n", "maxversions=\n", "maxversions=0\n", "maxversions=-1\n", "maxversions=two\n", "maxversions=99999999999999999999\n",
    "maxversions=3 or\n", "or maxage=1d\n", "(maxage=1d\n", "maxage=1d)\n", "()\n", "maxage=d\n", "maxage=1y2\n", "maxage=99999999999999999999d\n",
    "maxage=-1d\n", "maxversions=3,maxage=1d\n", "maxversions=3 xor maxage=1d\n", "maxversions==3\n", "maxversions=3\0\n",
    "(" * 400 + "maxversions=1" + ")" * 400 + "\n", "maxversions=1 and " * 300 + "maxversions=1\n"], how=both)
bad(F + "group", junk + ["absent\n", ".g\n", "g/../g\n", "g g\n", "#0\n", "G\n", "g\0\n", "g" * 65 + "\n", "g\nx\n"], how=both)
bad(F + "type", junk + ["text\n", "Bytes\n", "bytes counter\n", "int64\n", "counter\0\n"], how=both)
bad(F + "gc", ["z" * ((1 << 20) + 1) + "\n"], "EFBIG", both)
EOF2

py <<'EOF2'
from bad import *
def family(s):
    return 'families = ( { name = "f"; ' + s + ' } );'
def group(s):
    return 'groups = ( { name = "default"; ' + s + ' } );'
def table(s):
    return 'families = ( { name = "f"; }, { name = "n"; type = "counter"; } );\n' + s
bad("t/.schema", [
    "x", "families", "families = 1;", "families = ( 1 );", "families = ( { } );", "families = [ ];", "families = ( );;x", "families = { };",
    'families = ( { name = "x"; was = "y"; } );', 'families = ( { name = "x"; was = "#1"; } );', 'families = ( { name = "#1"; } );',
    'families = ( { name = "x"; was = 1; } );', 'families = ( { name = "x"; was = "f"; }, { name = "y"; was = "f"; } );',
    'families = ( { name = "f"; }, { name = "f"; } );', 'families = ( { name = "x/y"; } );', 'families = ( { name = ".x"; } );',
    'families = ( { name = "' + "x" * 65 + '"; } );', 'families = ( { name = ""; } );', 'families = ( { name = 1; } );',
    family('name = "f";'), family('colour = "red";'), family('gc = "never";'), family("gc = 3;"), family('group = "absent";'), family("group = 0;"),
    family('type = "float";'), family("type = true;"), family("mode = 0644;"), family('mode = "0888";'), family('mode = "7777";'), family('mode = "";'),
    family('owner = "nobody there";'), family("owner = -1;"), family("owner = 99999999999L;"), family('owner_group = "";'), family('acl = 1;'),
    group('compression = "gzip";'), group('compression = "none"; level = 9;'), group('compression = "lz4"; level = 1;'), group("level = 0;"), group("level = 20;"),
    group('level = "3";'), group("block_size = 1;"), group('block_size = "4G";'), group('block_size = "64 K";'), group("block_size = -4096;"),
    group("bloom_bits = 99;"), group('bloom_bits = "10";'), group("bloom_bits = -1;"), group('in_memory = "maybe";'), group("in_memory = 1;"),
    group('was = "g";'), group("size = 1;"), 'groups = ( { name = "x"; was = "default"; } );', 'groups = ( { name = "g"; }, { name = "g"; } );', "groups = 1;",
    table('owner = "nobody there";'), table('mode = "9";'), table("mode = 755;"), table('tablet_size = "1";'), table('tablet_size = "2T";'),
    table("tablet_size = -1;"), table('tablet_size = "128 M";'), table("tablet_size = true;"), table("salt = -1;"), table("salt = 256;"), table('salt = "x";'),
    table("allow_delete = 1;"), table('allow_delete = "true";'), table("more = 1;"), table('@include "/etc/passwd"\n'), table("/* no end"), table('owner = "no end'),
    "x" * 300000 + " = 1;", "#" * (257 << 10), "y" * (1 << 20), "(" * 1000, "families = (" + "{ " * 50,
    b'owner = "\xff";', b'owner = "root";\0', b'\xef\xbb\xbfmode = "0755";', b"# \x07\n", b'owner = "\\x00";', "a = 1; " * 100])
bad("t/.schema", ['families = ( { name = "n"; type = "counter"; } );', "allow_delete = false;",
                  'families = ( { name = "g"; }, { name = "n"; type = "counter"; } );'], "EBUSY")
bad("t/.schema", ["y" * ((1 << 20) + 1)], "EFBIG")
EOF2

py <<'EOF2'
from bad import *
both = (whole, unended)
verbs = ["split", "merge", "drop-rows"]
bad("t/.ctl", ["explode\n", "Flush\n", "flush now\n", " flush\n", "flush\t\n", "flush\r\n", "flush compact\n", "compact all\n", "\0\n",
               "flush\0\n", b"\xff\xfe\n", "flushcompact\n", "z" * 5000 + "\n", "z" * (1 << 20), "  \n"] + [v + "\n" for v in verbs] + [v + " \n" for v in verbs], how=both)
names = ["/", "a//b", "/a", "a/", ".", "..", ".hidden", "%2e", "%41", "%4", "%", "a%zz", "a%0", "%2fb", "%00"[:2], "x" * 256, "x" * 5000, "x" * 254 + "%", "x" * 254 + "%/",
         "x" * 253 + "%/x", "a\x01b", "a\tb", "a\x7f", b"a\0b"]
for v in ("split ", "merge ", "drop-rows "):
    bad("t/.ctl", [v.encode() + (n if isinstance(n, bytes) else n.encode()) + b"\n" for n in names], how=both)
bad("t/.ctl", ["split b\n"], how=both)                    # a border is there
bad("t/.ctl", ["merge b\n", "merge c\n", "merge zzz\n"], how=both)    # none behind it
before = state()
err("EINVAL", "two verbs in a line", whole, "t/.ctl", b"compact flush\n")
err("EINVAL", "a bad line behind good ones", whole, "t/.ctl", b"flush\nflush\nexplode\n")
same(state(), before, "  changes nothing of what is shown")
bad(".tabletfs/ctl", ["explode\n", "flush t\n", "split b\n", "sync now\n", "\0\n", b"\xff\n", "z" * (1 << 20)], how=both)
for f in ("t/.tablets", "t/.families/f/usage", ".tabletfs/version"):
    before = state()
    ok(errno_of(whole, f, b"x\n") in ("EACCES", "EPERM", "EINVAL"), "%s cannot be written" % f)
    same(state(), before, "  and nothing has changed")
EOF2
is "$(cat t/a/f/q t/b/f/q t/c/f/q | tr -d '\n')" xxx "the cells are what they were"
cd / || exit 1
unmount_store
ok "mount again" mount_store
is "$(cat "$M/t/.families/f/group")" g "the schema is what it was after a remount"
done_testing

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Hostile texts and names are refused completely, quickly and with their errno.
# They change nothing, and the daemon answers as before.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the limits are ours"
ok "mount" mount_store
py <<'EOF2'
from tap import *
import json
import re
import subprocess
T = M + "/t"
os.makedirs(T + "/r/f")
spill(T + "/r/f/q@7", b"precious")
SCHEMA = b'families = ( { name = "f"; gc = "maxversions=3"; } );\n'
spill(T + "/.schema", SCHEMA)

slow = []
def write(path, text):
    """The errno of writing and closing; "0" if it was taken."""
    start = time.monotonic()
    got = errno_of(spill, path, text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    if time.monotonic() - start > 5:
        slow.append((path, text[:60]))
    return got

def each(what, fn, cases, want):
    wrong = [(c[:60], got) for c in cases for got in [fn(c)] if got not in want]
    same(wrong, [], "%s: %d, all %s" % (what, len(cases), " or ".join(sorted(want))))

def fam(rest):
    return b'families = ( { name = "f"; } , { ' + rest + b' } );'

deep = 10000
each("texts of .schema", lambda c: write(T + "/.schema", c), [
    b"(" * deep, b"a = " + b"(" * deep, b"a = " + b"{ a = " * deep, b"families = ( " + b"( " * deep + b") " * deep + b");",
    b"[" * deep, b"families = [ ];", b"families = 1;", b'families = "f";', b"families = ( 1 );", b"families = ( { } );",
    b"families = ( { name = 1; } );", b"families = ( { gc = \"\"; } );",
    b"/* for ever", b'owner = "', b'owner = "a\\', b'@include "/etc/passwd"', b' \t@include "/etc/passwd"', b'/*\n@include "x"\n*/',
    b"a\0b", SCHEMA + b"\0", b"\xff\xfe", b"\xef\xbb\xbf" + SCHEMA, b'owner = "\xc3\x28";', b'owner = "\x1b[31m";', b'owner = "a\\x00b";',
    b'owner = "a\\x1bb";', b'owner = "a\\nb";', b"x" * 300000, b"# " + b"x" * (256 * 1024), b"\n" * 300000,
    b";".join(b"a%d = 1" % i for i in range(10000)) + b";",
    b"families = ( " + b", ".join(b'{ name = "f%d"; }' % i for i in range(1001)) + b" );",
    b"families = ( " + b", ".join(b"{ }" for i in range(50000)) + b" );",
    b"groups = ( " + b", ".join(b'{ name = "g%d"; }' % i for i in range(101)) + b" );",
    fam(b'name = "f";'), fam(b'name = "a"; name = "b";'), fam(b'name = "";'), fam(b'name = ".";'), fam(b'name = "..";'),
    fam(b'name = "../x";'), fam(b'name = "a/b";'), fam(b'name = "-a";'), fam(b'name = "a b";'), fam(b'name = "' + b"a" * 65 + b'";'),
    fam(b'name = "a"; gc = "' + b"(" * 500 + b"maxversions=1" + b")" * 500 + b'";'), fam(b'name = "a"; gc = "' + b"(" * deep + b'";'),
    fam(b'name = "a"; gc = "' + b" or ".join([b"maxversions=1"] * 65) + b'";'), fam(b'name = "a"; gc = "maxversions=99999999999999999999";'),
    fam(b'name = "a"; gc = "maxage=9223372036854775807d";'), fam(b'name = "a"; gc = "maxage=0s";'), fam(b'name = "a"; gc = "maxversions=-1";'),
    fam(b'name = "a"; gc = "maxversions=1 maxage=1d";'), fam(b'name = "a"; gc = "maxversions=\\x311\\x00";'), fam(b'name = "a"; acl = "' + b"a" * 5000 + b'";'),
    fam(b'name = "a"; group = "nowhere";'), fam(b'name = "a"; group = "../g";'), fam(b'name = "a"; type = "";'), fam(b'name = "a"; mode = "1644";'),
    fam(b'name = "a"; mode = 420;'), fam(b'name = "a"; owner = "-1";'), fam(b'name = "a"; owner = 4294967295L;'), fam(b'name = "a"; owner = -1;'),
    fam(b'name = "a"; owner = "' + b"r" * 300 + b'";'), fam(b'name = "a"; colour = "red";'),
    b'tablet_size = "99999999999G";', b'tablet_size = "18446744073709551616";', b'tablet_size = "17179869184G";', b'tablet_size = "0";',
    b'tablet_size = "-1";', b'tablet_size = "1e9";', b'tablet_size = "0x100000";', b'tablet_size = "";', b'tablet_size = "K";', b'tablet_size = "2T";',
    b"tablet_size = 4294967296;", b"tablet_size = 0x100400000;", b"tablet_size = 1.5;", b"tablet_size = true;", b"tablet_size = 128MM;",
    b"splits = ( " + b", ".join(b'"%d"' % i for i in range(1001)) + b" );", b'splits = ( "' + b"a" * 65537 + b'" );', b'splits = ( "%" );',
    b'splits = ( "%0" );', b'splits = ( "a%2f" );', b'splits = ( "" );', b'splits = ( ( "a" ) );', b'splits = "a";', b'splits = ( "a", "%61" );',
    b'salt = 2; splits = ( "%02" );', b"protect = 1;",
    b"salt = 1;", b"salt = -1;", b"salt = 256;", b"salt = 4294967296L;", b'mode = "99";', b'mode = "777777";', b'mode = "";', b"allow_delete = 1;",
    b'allow_delete = "true";', b'owner = "";', b'owner_group = "no such group";', b"owner = ;", b"= 1;", b"a.b = 1;", b"*", b"mode",
    b'groups = ( { name = "default"; level = 0; } );', b'groups = ( { name = "default"; level = 20; } );',
    b'groups = ( { name = "default"; level = 99999999999L; } );', b'groups = ( { name = "default"; block_size = "5M"; } );',
    b'groups = ( { name = "default"; block_size = "1"; } );', b'groups = ( { name = "default"; bloom_bits = -1; } );',
    b'groups = ( { name = "default"; bloom_bits = 21; } );', b'groups = ( { name = "default"; in_memory = 1; } );',
    b'groups = ( { name = "default"; compression = "zstd\\x00"; } );',
], {"EINVAL"})
def in_write(text, end=b""):
    """The errno of the write alone: a shell ignores that of the close."""
    fd = os.open(T + "/.schema", os.O_WRONLY | os.O_TRUNC)
    got = errno_of(os.write, fd, text + end)
    closed = errno_of(os.close, fd)
    return got if got != "0" else "close: " + closed
def group(rest):
    return b'groups = ( { name = "default"; ' + rest + b' } );'
NONSENSE = [k + b" = " + v + b";" for k, values in {
    b"owner": [b'"no such user"', b"true"], b"owner_group": [b'"no such group"', b"1.5"], b"mode": [b'"9999"', b"0644", b'"rw"'],
    b"tablet_size": [b'"much"', b'"1K"', b"false"], b"salt": [b"1", b"300", b'"x"'], b"mkdir_families": [b'"maybe"', b"1"],
    b"protect": [b'"yes"', b"0", b'"dat"'], b"readonly": [b'"data"', b"0"], b"quota": [b'"10X"', b"-1", b"true", b'"9999999T"', b'""'], b"snapshot_maxage": [b'"soon"', b"30", b'"0d"'], b"changes": [b'"soon"', b"7", b'"0d"', b'""'], b"allow_delete": [b'"x"', b"2"], b"splits": [b'"a"', b"( 1 )", b'( "%zz" )'],
    b"families": [b"1", b'( "f" )'], b"groups": [b"1", b'( "g" )'], b"nonsense": [b"1"]}.items() for v in values]
NONSENSE += [fam(b'name = "a"; ' + k + b" = " + v + b";") for k, values in {
    b"gc": [b'"sometimes"', b"3", b'"maxversions=x"'], b"group": [b"1", b'"a b"'], b"type": [b'"number"', b"1"], b"owner": [b'"no such user"'],
    b"owner_group": [b'"no such group"'], b"mode": [b'"9999"', b"6"], b"was": [b'"nobody"', b"1"], b"nonsense": [b"1"],
    b"acl": [b'"nonsense"', b'"u:root"', b'"u:no such user:rw-"', b'"g:root:rwz"', b'"u::rw-"', b'"u:root:rw-,"', b'"u:root:r--,u:root:rw-"', b"1"]}.items() for v in values]
NONSENSE += [group(k + b" = " + v + b";") for k, values in {
    b"compression": [b'"best"', b"9"], b"level": [b"0", b"99", b'"high"'], b"block_size": [b'"1"', b'"huge"'], b"bloom_bits": [b"99", b'"x"'],
    b"in_memory": [b'"maybe"', b"1"], b"nonsense": [b"1"]}.items() for v in values]
NONSENSE += [group(b'compression = "snappy"; level = 9;'), b"mode == \"0644\";", b"mode = ;", fam(b'name = "a b";'), fam(b'gc = "";'), b"families = ( { name = } );",
             b'# \xc2\x9b31m\nmode = "0755";', b'mode = "0755"; # \xe2\x80\xae\n']
each("wrong values, in the write itself", in_write, NONSENSE, {"EINVAL"})
each("  with a newline behind them", lambda c: in_write(c, b"\n"), NONSENSE, {"EINVAL"})
each("  the families on lines of their own", lambda c: in_write(c.replace(b"; ", b";\n").replace(b"{ ", b"{\n"), b"\n"), NONSENSE, {"EINVAL"})
WHOLE = SCHEMA + b'groups = ( { name = "default"; level = 9; }, { name = "g2"; } );\nmode = "0755";\n'
def in_pieces(step):
    fd = os.open(T + "/.schema", os.O_WRONLY | os.O_TRUNC)
    got = [errno_of(os.write, fd, WHOLE[i:i + step]) for i in range(0, len(WHOLE), step)]
    return set(got + [errno_of(os.close, fd)])
same([in_pieces(n) for n in (1, 2, 3, 7, 20, 512)], [{"0"}] * 6, "a right text in pieces of any size")
late = b'families = ( { name = "f"; gc = "maxversions=3"; group = "g2"; } );\n'
late += b"#" * (1023 - len(late)) + b"\n"
fd = os.open(T + "/.schema", os.O_WRONLY | os.O_TRUNC)
same([errno_of(os.write, fd, late), errno_of(os.write, fd, b'groups = ( { name = "g2"; } );\n'), errno_of(os.close, fd)], ["0"] * 3,
     "a group may follow")
spill(T + "/.schema", SCHEMA, os.O_WRONLY | os.O_TRUNC)
def grow(path):
    """Writes two megabytes; the errno of the write, not that of the close after it."""
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    got = errno_of(lambda: [os.write(fd, b"#" * 65536) for i in range(32)] and None)
    errno_of(os.close, fd)
    return got
same(grow(T + "/.schema"), "EFBIG", "two megabytes of .schema")
err("EBUSY", "a text that leaves the family with cells out", spill, T + "/.schema", b"families = ( );", os.O_WRONLY | os.O_TRUNC)
same(slurp(T + "/.schema"), SCHEMA, "the schema is what it was")

def setting(path):
    return lambda c: write(T + path, c)
each(".families/f/gc", setting("/.families/f/gc"), [
    b"(" * deep + b"\n", b"(" * 500 + b"maxversions=1" + b")" * 500, b"maxversions=99999999999999999999\n", b"maxage=106751992d\n", b"or\n",
    b"maxversions=1\0\n", b"maxversions=1 # or\n", b"\xff\n", b"maxversions=3\nmaxversions=\n", b"maxversions=1\x1b[31m\n", b"x" * 100000 + b"\n"], {"EINVAL"})
each(".families/f/group and type", lambda c: write(T + "/.families/f/" + c[0], c[1]), [
    ("group", b"..\n"), ("group", b"../default\n"), ("group", b"a" * 65 + b"\n"), ("group", b"\n"), ("type", b"BYTES\n"), ("type", b"\n"),
    ("type", b"counters\n"), ("type", b"bytes\0\n")], {"EINVAL"})
each(".groups/default", lambda c: write(T + "/.groups/default/" + c[0], c[1]), [
    ("block_size", b"99999999999G\n"), ("block_size", b"18446744073709551616\n"), ("block_size", b"-1\n"), ("block_size", b"\n"), ("block_size", b"64 K\n"),
    ("level", b"4294967299\n"), ("level", b"-3\n"), ("level", b"3.0\n"), ("bloom_bits", b"4294967306\n"), ("bloom_bits", b"0x0a\n"),
    ("in_memory", b"TRUE\n"), ("in_memory", b"1\n"), ("compression", b"zstd\0\n"), ("compression", b"ZSTD\n"), ("compression", b"x" * 70000 + b"\n")], {"EINVAL"})
same(grow(T + "/.families/f/gc"), "EFBIG", "two megabytes of gc")
same(slurp(T + "/.families/f/gc"), b"maxversions=3\n", "the settings are what they were")
same(slurp(T + "/.schema"), SCHEMA, "  and so is the text")

# ---- control characters beyond ASCII go to no terminal ----
HIDDEN = [chr(c) for c in list(range(0x80, 0xa0)) + [0x61c, 0x200e, 0x200f] + list(range(0x202a, 0x202f)) + list(range(0x2066, 0x206a))]
SHOWN = ["\u00a0", "\u00e9", "\u0100", "\u2014", "\u202f", "\u2065", "\u206a", "\u65e5", "\U0001f600"]
row = "row" + "".join(HIDDEN + SHOWN)
os.makedirs(M + "/c/" + row + "/f")
spill(M + "/c/" + row + "/f/q" + HIDDEN[3] + "@1", (HIDDEN[27] + "value" + SHOWN[1]).encode())
hidden = re.compile("[" + "".join(HIDDEN) + "]")
def clean(what, text, *kept):
    text = text.decode("utf-8", "strict") if isinstance(text, bytes) else text
    ok(not hidden.search(text) and all(k in text for k in kept), what)
C = M + "/c/.scan/"
clean(".tsv", slurp(C + ".tsv"), *SHOWN)
clean(".jsonl", slurp(C + ".jsonl"), *SHOWN)
clean(".keys", slurp(C + ".keys"), *SHOWN)
clean(".row.json", slurp(M + "/c/" + row + "/.row.json"), *SHOWN)
first = json.loads(slurp(C + ".jsonl"))
same((first["row"], first["qualifier"], first["value"]), (row, "q" + HIDDEN[3], HIDDEN[27] + "value" + SHOWN[1]), "  JSON means the same text")
for name in (".import", ".import.jsonl"):
    os.mkdir(M + "/copy")
    spill(M + "/copy/" + name, slurp(C + (".tsv" if name == ".import" else ".jsonl")), os.O_WRONLY)
    same(os.listdir(M + "/copy"), [row], "  and an import of it makes the same row: " + name)
    same(slurp(M + "/copy/" + row + "/f/q" + HIDDEN[3]), (HIDDEN[27] + "value" + SHOWN[1]).encode(), "  with the same value")
    spill(M + "/copy/.ctl", b"truncate\n", os.O_WRONLY)
    for d in os.listdir(M + "/copy"):
        if d[0] != ".":
            os.rmdir(M + "/copy/" + d)
    os.rmdir(M + "/copy")
same(write(M + "/c/.ctl", ("split " + row + "\n").encode()), "0", "a split at that row, as ls shows it")
tablets = slurp(M + "/c/.tablets")
clean(".tablets", tablets, *SHOWN)
border = tablets.decode().splitlines()[1].split("\t")[1]
same(write(M + "/c/.ctl", ("merge " + border + "\n").encode()), "EINVAL", "a verb takes the name as .tablets shows it: there is no tablet behind it")
ok("no tablet after it" in slurp(M + "/.tabletfs/log").decode().splitlines()[-1], "  which the log says")
for fn in (lambda: os.mkdir(M + "/c/" + row + "/f/" + HIDDEN[30]), lambda: os.open(M + "/c/x" + HIDDEN[3], os.O_WRONLY | os.O_CREAT)):
    errno_of(fn)
clean("the log", slurp(M + "/.tabletfs/log"))
clean("what the daemon prints", slurp(W + "/daemon.err"))
ctl = os.environ.get("TABLETCTL") or os.environ["BUILD"] + "/tabletctl"
for args in (["scan", M + "/c"], ["get", M + "/c", row], ["get", M + "/no" + HIDDEN[3], row], ["count", M + "/c" + HIDDEN[32]], ["check", W + "/" + HIDDEN[3]],
             ["get", M + "/c", row, "f:" + HIDDEN[3] + "\t"], ["status", M], ["complete", "--", "tabletctl", "get", M + "/c", "row"]):
    done = subprocess.run([ctl] + args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100)
    clean("tabletctl " + ascii(args[0]) + ": what it prints", done.stdout + done.stderr)
for d in os.listdir(M + "/c/" + row + "/f"):
    os.unlink(M + "/c/" + row + "/f/" + d)
os.rmdir(M + "/c/" + row + "/f")
os.rmdir(M + "/c/" + row)
os.rmdir(M + "/c")

bad = ["-a", "a b", "a\n", "\u00e4", "a*", "a:b", "a\\b", "a" * 65, "a%2Fb", "%00", "\x7f"]
each("names of tables", lambda c: errno_of(os.mkdir, M + "/" + c), bad, {"EINVAL"})
each("  that begin with a dot", lambda c: errno_of(os.mkdir, M + "/" + c), [".a", "...", ".schema", ".families", ".tabletfs"], {"EPERM", "EEXIST"})
each("names of families", lambda c: errno_of(os.mkdir, T + "/.families/" + c), bad + [".a", "..."], {"EINVAL", "EPERM"})
each("names of groups", lambda c: errno_of(os.mkdir, T + "/.groups/" + c), bad + [".a", "..."], {"EINVAL", "EPERM"})
each("names too long", lambda c: errno_of(os.mkdir, c), [M + "/" + "a" * 256, T + "/.families/" + "a" * 256, T + "/" + "a" * 256], {"ENAMETOOLONG"})
same(sorted(os.listdir(M)) + sorted(os.listdir(T + "/.families")) + sorted(os.listdir(T + "/.groups")), ["t", "f", "default"], "nothing was made")

each("lines of .ctl", lambda c: write(T + "/.ctl", c), [
    b"explode\n", b"flush now\n", b"compact \xff\n", b"drop-rows\n", b"drop-rows \n", b"FLUSH\n", b" flush\n", b"flush\0\n", b"\0\n", b"flush\r\n", b"\xff" * 5000 + b"\n",
    b"flush" * 100000 + b"\n", b"flush\nexplode\nflush\n", b"split\n", b"merge x\n", b"truncate t\n", b"truncates\n"], {"EINVAL"})
each("lines of /.tabletfs/ctl", lambda c: write(M + "/.tabletfs/ctl", c), [b"drop-rows r\n", b"sync x\n", b"\x1b]0;x\a\n"], {"EINVAL"})
each("texts of /.tabletfs/config", lambda c: write(M + "/.tabletfs/config", c), [
    b"colour = 1;\n", b"sync = 2;\n", b"sync = ( true );\n", b"log_level = 7;\n", b"memtable = -1;\n", b"memtable = \"1\\x00M\";\n", b"log_segment = \"2M\";\n",
    b"@include \"/etc/passwd\"\n", b"\xff\n", b"\0\n", b"sync = true\x1b]0;x\a;\n", b"compaction_rate = \"1\";\n", b"a" * 300000 + b"\n"], {"EINVAL"})
each("lines of .mutate", lambda c: write(T + "/r/.mutate", c), [
    b"\0\n", b"\xff" * 5000 + b"\n", b"set " * 100000 + b"\n", b"set f:" + b"\\" * 9999 + b"\tv\ncommit\n", b"set f:q\t\\x\ncommit\n", b"set f:q\t\x1b[31m\ncommit\ncommit\n",
    b"set f:q@" + b"9" * 1000 + b"\tv\ncommit\n", b"set " + b"f" * 70000 + b":q\tv\n", b"set ../f:q\tv\n", b"set f\0:q\tv\n", b"set f:" + b"q" * 70000 + b"\tv\n",
    b"increment f:q\t" + b"1" * 1000 + b"\n", b"increment f:q\t0x1\n", b"increment f:q\t1\0\n", b"delete rows\n", b"delete row \n", b"delete\n", b"delete  f:q\n", b"COMMIT\n", b"commit \n", b" commit\n",
    b"check-match f:q\t(\ncommit\n", b"check-match f:q\t" + b"(" * 10000 + b"\ncommit\n", b"check-match f:q\t" + b"a" * 20000 + b"\ncommit\n", b"check-match f:q\t(?C1)(*MARK\ncommit\n"], {"EINVAL"})
each("  and checks that fail", lambda c: write(T + "/r/.mutate", c + b"set f:q\tx\ncommit\n"), [
    b"check f:q\t\n", b"check-absent f:q\n", b"check-match f:q\t\n", b"check-match f:q\t.{1,65535}x\n", b"check-match f:\t.*\n"], {"ECANCELED"})
each("objects of .row.json", lambda c: write(T + "/r/.row.json", c), [
    b"{" * deep, b'{"cells":' + b"[" * deep, b'{"cells":[' + b"{}," * deep + b"{}]}", b'{"cells":[{"family":"f","qualifier":"\\ud800","value":""}]}', b"\xef\xbb\xbf{}", b"{'cells':[]}",
    b'{"cells":[],}', b'{"cells":[]/**/}', b'{"cells":NaN}', b'{"cells":[{"family":"../f","qualifier":"q","value":"v"}]}', b'{"cells":[{"family":"f\\u0000","qualifier":"q","value":"v"}]}',
    b'{"cells":[{"family":"f","qualifier":"q","value":1e999}]}', b'{"cells":[{"family":"f","qualifier":"q","value":"v","timestamp":1e3}]}', b'{"cells":[{"family":"f","qualifier":"q","value_base64":"===="}]}',
    b'{"cells":[{"family":"f","qualifier":"q","value_base64":"YR=="}]}', b'{"cells":[],"sequence":"' + b"0" * 5000 + b'"}', b'{"\x1b[31m":1}', b'"{}"', b"null", b"\0"], {"EINVAL"})
each("lines of .import", lambda c: write(T + "/.import", c), [
    b"\0\n", b"\xff\n", b"\t" * 100000 + b"\n", b"k\tf:q\t1\tv\x1b\\", b"k\tf:q\t1\tv\\u0041\n", b"k\t../f:q\t1\tv\n", b"k\tf\0:q\t1\tv\n",
    b"k\tf\\x00:q\t1\tv\n", b"k\t" + b"f" * 70000 + b":q\t1\tv\n", b"k" * 65537 + b"\tf:q\t1\tv\n", b"k\tf:" + b"q" * 16385 + b"\t1\tv\n",
    b"k\tf:q\t" + b"1" * 100000 + b"\tv\n", b"k\tf:q\t-0\tv\n", b"k\tf:q\t0x1\tv\n", b"k\tf:q\t1e3\tv\n", b"k\tf:q\t 1\tv\n", b"k\tf:q\t1\tv\r\n",
    b"k" * (70 << 20), b"\\x00" * (17 << 20) + b"\n", b"k\tf:q\t1\t" + b"v" * ((64 << 20) + 1) + b"\n", b"\x1b[31m\tnone:q\t1\tv\n"], {"EINVAL"})
each("lines of .import.jsonl", lambda c: write(T + "/.import.jsonl", c), [
    b"{" * deep, b"[" * deep + b"\n", b'{"row":' + b"[" * deep, b'{"row":"' + b"k" * (70 << 20), b'{"row_base64":"' + b"A" * (95 << 20) + b'"}\n',
    b'{"' + b"r" * 100000 + b'":1}\n', b'{"row":"\\ud800"}\n', b'{"row":"\\ud800\\ud800"}\n', b'{"row":"\\u12"}\n', b'{"row":"k\0"}\n', b'{"row":null}\n',
    b'{"timestamp":' + b"9" * 100000 + b"}\n", b'{"timestamp":-}\n', b'{"timestamp":1.0}\n', b'{"timestamp":true}\n', b'{"value_base64":"===="}\n',
    b'{"value_base64":"A==="}\n', b'{"value_base64":"AA=A"}\n', b'{"value_base64":"AAAA\n"}\n', b'{"\x1b[31m":"x"}\n', b"\xef\xbb\xbf{}\n", b"{}{}\n", b"{},\n"],
    {"EINVAL"})
each("lines of .import.csv", lambda c: write(T + "/.import.csv", c), [
    b",\n", b"\n\nkey\xff\0\n" * 2 + b"a,b\n", b"key,f\n", b"key,f:a" + b",f:b" * 17000 + b"\n", b"key,f:" + b"q" * 16385 + b"\n", b"key," + b"f" * 70000 + b":q\n",
    b'key,f:a\n"' + b"k" * (70 << 20), b"key,f:a\nr," + b'"' * 1001 + b"\n", b"key,f:a\n" + b"k" * 65537 + b",v\n", b"key,f:a\nr\n", b"key,f:a\nr,1,2\n",
    b"key,../f:a\nr,1\n", b"key,none\x1b[31m:a\nr,1\n", b'key,f:a\nr,"1\n', b'key,f:a\nr,1"\n', b'key,"f:a"b\nr,1\n', b"key,f:a\nr,\r1\n", b"\xff\xfek\0", b"PK\x03\x04",
    b"key,f:a,f:a\n", b"key,none:a\nr,1\n"], {"EINVAL"})
import io, tarfile
def archive(*entries, end=True):
    out = io.BytesIO()
    for name, value, kw in entries:
        info = tarfile.TarInfo(name)
        info.size = len(value)
        for k, v in kw.items():
            setattr(info, k, v)
        out.write(info.tobuf(tarfile.PAX_FORMAT if "%" not in name else tarfile.GNU_FORMAT, "utf-8", "surrogateescape"))
        out.write(value + b"\0" * (-len(value) % 512))
    return out.getvalue() + b"\0" * (1024 * end)
good = ("k/f/q@1", b"v", {})
def damaged(at, byte):
    a = bytearray(archive(good))
    a[at] = byte
    return bytes(a)
each("archives of .import.tar", lambda c: write(T + "/.import.tar", c), [
    b"x", b"x" * 100000, os.urandom(100000), archive(good)[:700], archive(good, end=False), damaged(148, 0x37), damaged(0, 0x41), damaged(257, 0),
    archive(("../r/f/q@7", b"v", {})), archive(("/r/f/q@7", b"v", {})), archive(("r/../r/f/q@7", b"v", {})), archive(("r//f/q@7", b"v", {})),
    archive(("q@7", b"v", {})), archive(("r/q@7", b"v", {})), archive(("r/f/q@07", b"v", {})), archive(("r/f/q%@7", b"v", {})), archive(("r/f/%41@7", b"v", {})),
    archive(("r/none\x1b/q@7", b"v", {})), archive(("\x1b[31m/f/q@7", b"v", {})), archive(("r/f/.q@7", b"v", {})), archive((".schema2", b"v", {})),
    archive((".schema", b"colour = 1;", {})), archive((".schema", b"x" * 300000, {})), archive((".schema", b"families = ( );", {})),
    archive(("r/f/q@7", b"", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"})), archive(("r/f/q@7", b"", {"type": tarfile.LNKTYPE, "linkname": "r/f/p@1"})),
    archive(("r/f/q@7", b"", {"type": tarfile.FIFOTYPE})), archive(("r/f/q@7", b"", {"type": tarfile.CHRTYPE})),
    archive(("r/f/q@8", b"", {"size": (64 << 20) + 1})), archive(("r/f/q@8", b"", {"size": 1 << 40})), archive(("r/f/q@8", b"", {"size": 1 << 62})),
    archive(("r/f/q@8", b"v", {"pax_headers": {"size": "9" * 40}}))[:4096], archive(("x" * 3000000 + "/f/q@7", b"v", {}))], {"EINVAL"})
ok(not os.path.exists(T + "/none"), "no family was made")
same(slurp(T + "/.schema"), SCHEMA, "and the schema is what it was")
each("files that are only read", lambda c: write(c, b"x\n"), [T + "/.tablets", T + "/.splits", T + "/.families/f/usage", M + "/.tabletfs/status", M + "/.tabletfs/log"], {"EACCES"})
err("0", "a prefix that no row has", spill, T + "/.ctl", b"drop-rows \xff\xff\n", os.O_WRONLY)
log = slurp(M + "/.tabletfs/log")
ok(not any(b < 32 and b != 10 or b == 127 for b in log), "no byte of all that reaches a terminal through the log")
same(slow, [], "none of it took long")
same(slurp(T + "/r/f/q@7"), b"precious", "the data is there")
EOF2
remount
is "$(cat "$M/t/r/f/q")" precious "and after a remount"
done_testing

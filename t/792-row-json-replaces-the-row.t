#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# .row.json shows a row as of one instant; written back, it replaces the row in
# one step if the row is still as it was read.  A user replaces only families
# that he may read and write, here and through .mutate.  With "merge", and in .row.flat.json,
# an object changes what it names and nothing else.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
if [ "$(id -u)" = 0 ]; then ok "mount" mount_store -o allow_other; else ok "mount" mount_store; fi
cd "$M" || exit 1
mkdir -p t/r/f t/r/g t/.families/c
echo counter >t/.families/c/type
printf 'hello' >t/r/f/q
printf 'old' >t/r/f/q@7
printf '\377\000bin' >$'t/r/g/b\xff@5'
head -c 700000 /dev/urandom >t/r/g/big@1
echo 41 >t/r/f/.scratch

py <<'EOF2'
from tap import *
import base64, json
T = M + "/t"
R = T + "/r/.row.json"

def read(path=R):
    return json.loads(slurp(path))
def write(d, path=R, indent=None):
    text = json.dumps(d, indent=indent).encode()
    return errno_of(spill, path, text, os.O_WRONLY | os.O_TRUNC)
def find(d, family, qualifier):
    return [c for c in d["cells"] if c["family"] == family and c.get("qualifier") == qualifier]
def tree():
    return sorted((os.path.relpath(os.path.join(d, n), T), slurp(os.path.join(d, n)), os.stat(os.path.join(d, n)).st_mtime_ns)
        for d, _, names in os.walk(T + "/r") for n in names if n[0] != ".")

d = read()
same(sorted(d), ["cells", "row", "sequence"], "the members of the object")
same([(c["family"], c["timestamp"]) for c in d["cells"]][-2:], [("g", 1), ("g", 5)], "each cell with its family and timestamp")
same(find(d, "f", "q")[1], {"family": "f", "qualifier": "q", "timestamp": 7, "value": "old"}, "a cell that is text")
binary = d["cells"][-1]
same((base64.b64decode(binary["qualifier_base64"]), base64.b64decode(binary["value_base64"])), (b"b\xff", b"\xff\0bin"), "  and one that is not")
same(base64.b64decode(d["cells"][-2]["value_base64"]), slurp(T + "/r/g/big@1"), "a large value")
same(len(slurp(R).splitlines()), len(d["cells"]) + 2, "a line for each cell")

# ---- written back ----
before = tree()
same((write(d), tree()), ("0", before), "written back as it was: nothing is changed")
same(write(d), "ECANCELED", "  once: the cells have been written again")
d = read()
find(d, "f", "q")[0]["value"] = "edited"
d["cells"].remove(find(d, "f", "q")[1])
d["cells"].append({"family": "f", "qualifier": "added", "value": "now"})
d["cells"].append({"family": "c", "qualifier": "n", "value": " 12 "})
same(write(d, indent=2), "0", "an edit, with another layout")
same((slurp(T + "/r/f/q"), slurp(T + "/r/f/added"), slurp(T + "/r/c/n")), (b"edited", b"now", b"12\n"), "  changes and adds cells")
ok(not os.path.exists(T + "/r/f/q@7"), "  and removes them")
same(write(d), "ECANCELED", "the old sequence")
d = read()
d["cells"] += [{"family": "f", "qualifier": "twice", "timestamp": 3, "value": v} for v in "ab"]
same((write(d), slurp(T + "/r/f/twice@3")), ("0", b"b"), "of two cells with one timestamp the later one counts")
for what, change in [("a write", lambda: spill(T + "/r/f/x", b"1")), ("a removal", lambda: os.unlink(T + "/r/f/x")),
                     ("the same bytes again", lambda: spill(os.fsencode(T) + b"/r/g/b\xff@5", b"\xff\0bin")),
                     ("a mutation", lambda: spill(T + "/r/.mutate", b"set f:x\t1\ncommit\n", os.O_WRONLY))]:
    d = read()
    change()
    before = tree()
    same((write(d), tree() == before), ("ECANCELED", True), "%s in between is noticed" % what)
d = read()
del d["sequence"]
spill(T + "/r/f/x", b"2")
same((write(d), slurp(T + "/r/f/x")), ("0", b"1"), "without a sequence the row is replaced anyway")
d = read()
with open(T + "/r/.tmp", "w") as f:
    find(d, "f", "q")[0]["value"] = "renamed"
    json.dump(d, f)
os.rename(T + "/r/.tmp", R)
same((slurp(T + "/r/f/q"), os.path.exists(T + "/r/.tmp")), (b"renamed", False), "a scratch file that is renamed to it")
spill(T + "/r/.tmp", json.dumps(d).encode())
err("ECANCELED", "  with an old sequence", os.rename, T + "/r/.tmp", R)
ok(os.path.exists(T + "/r/.tmp"), "  it stays")
os.unlink(T + "/r/.tmp")
os.mkdir(T + "/copy")
del d["sequence"]
same((write(d, T + "/copy/.row.json"), slurp(T + "/copy/g/big@1") == slurp(T + "/r/g/big@1")), ("0", True), "a copy to another row")
same(write({"cells": []}, T + "/copy/.row.json"), "0", "no cells")
ok("copy" not in os.listdir(T), "  removes the row")

# ---- descriptors ----
fd = os.open(R, os.O_RDWR)
text = b""
while True:
    piece = os.read(fd, 1000)
    if not piece:
        break
    text += piece
same(json.loads(text), read(), "it is read in pieces")
new = json.loads(text)
find(new, "f", "q")[0]["value"] = "through one"
new = json.dumps(new).encode()
for i in range(0, len(new), 4096):
    os.write(fd, new[i:i + 4096])
same(slurp(T + "/r/f/q"), b"through one", "  and written back in pieces: the last one applies it")
os.write(fd, b"\n")
same(find(json.loads(os.read(fd, 1 << 24)), "f", "q")[0]["value"], "through one", "  and read again")
err("EINVAL", "  nothing follows the object", os.write, fd, b"{}")
os.close(fd)

before = tree()
for text in [b"x", b"[]", b"{}", b'{"cells":1}', b'{"cells":[1]}', b'{"cells":[{}]}', b'{"cells":[],"x":1}', b'{"cells":[]} x', b'{"cells":[]}{}', b'{"cells":[}}',
             b'{"cells":[],"sequence":"x"}', b'{"cells":[],"sequence":1}', b'{"cells":[],"cells":[]}', b'{"cells":[{"family":"f","qualifier":"q"}]}',
             b'{"cells":[{"family":"no","qualifier":"q","value":"v"}]}', b'{"cells":[{"family":"#1","qualifier":"q","value":"v"}]}',
             b'{"cells":[{"family":"f","qualifier":"q","value":"v","timestamp":1.5}]}', b'{"cells":[{"family":"f","qualifier":"q","value":"v","timestamp":99999999999999999999}]}',
             b'{"cells":[{"family":"f","qualifier":"q","value_base64":"a"}]}', b'{"cells":[{"family":"f","qualifier":"q","value":"v","value_base64":"YQ=="}]}',
             b'{"cells":[{"family":"c","qualifier":"q","value":"text"}]}', b'{"cells":[{"family":"f","qualifier":"\xff","value":"v"}]}', b'{"cells":' + b"[" * 100000 + b"]" * 100001,
             b'{"cells":[{"family":"f","qualifier":"' + b"q" * 16385 + b'","value":"v"}]}', b'{"cells":[', b'}', b'{"cells":[]\0}']:
    lines = len(slurp(M + "/.tabletfs/log").splitlines())
    got = errno_of(spill, R, text, os.O_WRONLY | os.O_TRUNC)
    same((got, tree() == before, len(slurp(M + "/.tabletfs/log").splitlines()) - lines), ("EINVAL", True, 1), "refused with one line in the log: %r" % text[:50])
err("EPERM", "it cannot be removed", os.unlink, R)
ok(".row.json" not in os.listdir(T + "/r"), "  and is not listed")

# ---- while others write ----
os.makedirs(T + "/busy/f")
os.mkdir(T + "/busy/g")
pid = os.fork()
if pid == 0:
    for i in range(300):
        spill(T + "/busy/.mutate", b"delete row\nset f:a\t%d\nset g:b\t%d\ncommit\n" % (i, i), os.O_WRONLY)
    os._exit(0)
torn = done = reads = 0
while not done:
    done = os.waitpid(pid, os.WNOHANG)[0]
    try:
        cells = {(c["family"], c["qualifier"]): c["value"] for c in read(T + "/busy/.row.json")["cells"]}
    except FileNotFoundError:
        continue # the row is absent until its first write
    reads += 1
    torn += len(cells) > 0 and cells.get(("f", "a")) != cells.get(("g", "b"))
same(torn, 0, "%d reads during mutations: no mixture" % reads)
same({c["value"] for c in read(T + "/busy/.row.json")["cells"]}, {"299"}, "  and the last one is there")

# ---- another user ----
if os.getuid() == 0:
    os.makedirs(T + "/.families/secret")
    os.makedirs(T + "/.families/public")
    for family, mode in (("f", 0o644), ("g", 0o644), ("c", 0o644), ("secret", 0o600), ("public", 0o666)):
        os.chmod(T + "/.families/" + family, mode)
    os.makedirs(T + "/u/secret")
    os.makedirs(T + "/u/public")
    os.mkdir(T + "/u/f")
    spill(T + "/u/secret/s", b"hidden")
    spill(T + "/u/public/p", b"1")
    spill(T + "/u/f/q", b"read only")
    U = T + "/u/"
    as_user = []
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        out = []
        d = read(U + ".row.json")
        out.append(sorted(c["family"] for c in d["cells"]))
        find(d, "public", "p")[0]["value"] = "2"
        find(d, "f", "q")[0]["value"] = "not mine"
        out.append(write(d, U + ".row.json"))
        out.append(write({"cells": [{"family": "secret", "qualifier": "s", "value": "x"}]}, U + ".row.json"))
        for line in (b"set secret:s\tx\n", b"set f:q\tx\n", b"check secret:s\thidden\n", b"delete row\n", b"increment f:n\t1\n", b"set public:p\t3\n"):
            out.append(errno_of(spill, U + ".mutate", line + b"commit\n", os.O_WRONLY))
        os.write(w, json.dumps(out).encode())
        os._exit(0)
    os.close(w)
    out = json.loads(os.read(r, 65536) or b"[]")
    os.waitpid(pid, 0)
    same(out[0], ["f", "public"], "a user reads the families that he may read")
    same(out[1], "0", "  and replaces those that he may write, too")
    same(out[2], "EACCES", "  but none that he may not read")
    same(out[3:], ["EACCES"] * 5 + ["0"], "the same through .mutate")
    same([slurp(U + p) for p in ("secret/s", "public/p", "f/q")], [b"hidden", b"3", b"read only"], "  and nothing else is changed")
EOF2
vim=$(command -v vim || command -v vim.tiny || :)
if [ -n "$vim" ]; then
	printf 'by hand' >t/r/f/vim
	ok "vim" t "$vim" -es -c '%s/by hand/by vim/' -c 'wq' t/r/.row.json </dev/null
	is "$(cat t/r/f/vim):$(find t/r -name '.*' -o -name '4913')" "by vim:t/r/f/.scratch" "  edits the row, and leaves nothing else"
fi
cp t/r/.row.json "$W/saved"
printf 'v1' >t/r/f/q@1 && echo truncate >t/.ctl && mkdir -p t/r/f
printf 'v1' >t/r/f/q@1 && cp t/r/.row.json "$W/saved"
echo truncate >t/.ctl && mkdir -p t/r/f && printf 'v2' >t/r/f/q@1
fails "after a truncation the sequence is another one, although the cell has the same name" "anceled" cp "$W/saved" t/r/.row.json
is "$(cat t/r/f/q@1)" v2 "  and the cell stays"
cp t/r/.row.json "$W/saved"
cd / || exit 1
remount
printf 'changed' >"$M/t/r/f/late"
fails "after a remount a change is noticed" "anceled" cp "$W/saved" "$M/t/r/.row.json"
rm "$M/t/r/f/late@"*
cp "$M/t/r/.row.json" "$W/saved"
echo compact >"$M/t/.ctl"
remount
ok "after a compaction and a remount the sequence is the same" cp "$W/saved" "$M/t/r/.row.json"
cd "$M" || exit 1
mkdir -p flat/r/f flat/r/g flat/.families/c
echo counter >flat/.families/c/type
py <<'EOF2'
from tap import *
import json, shutil, subprocess
R = M + "/flat/r/"
F, J = R + ".row.flat.json", R + ".row.json"
spill(R + "f/a@1", b"old")
spill(R + "f/a@2", b"new")
spill(R + "f/b@1", b"b")
spill(R + "g/@3", b"\xff\0")
read = lambda: json.loads(slurp(F))
patch = lambda d, path=F: errno_of(spill, path, json.dumps(d).encode(), os.O_WRONLY | os.O_TRUNC)
same(slurp(F), b'{"f":{\n"a":"new",\n"b":"b"},\n"g":{\n"":"base64:/wA="}}\n', ".row.flat.json has the newest version of each column")
shutil.copyfile(F, W + "/flat.1")
subprocess.check_call(["rsync", F, W + "/flat.2"])
same((os.stat(F).st_size, slurp(W + "/flat.1"), slurp(W + "/flat.2")), (len(slurp(F)), slurp(F), slurp(F)), "  its size is that of its text, so shutil and rsync copy it")
same(patch({"f": {"a": "patched", "c": "added", "b": None}}), "0", "an object changes what it names")
same(read(), {"f": {"a": "patched", "c": "added"}, "g": {"": "base64:/wA="}}, "  adds, changes, deletes, and leaves the rest")
same((slurp(R + "f/a@1"), os.path.exists(R + "f/b")), (b"old", False), "  older versions stay, and all versions of a deleted column are gone")
same((patch({"g": None, "f": {}}), sorted(read())), ("0", ["f"]), "null in the place of a family deletes its cells")
same((patch({"c": {"n": " 7 "}}), slurp(R + "c/n")), ("0", b"7\n"), "a counter is set")
odd = {"base64:x": "base64:", "\xfc\"\n": "", "\x01": "\x7f"}
import base64
b = lambda s: "base64:" + base64.b64encode(s).decode()
same(patch({"f": {"a": None, "c": None, b(b"base64:x"): b(b"base64:"), b(b"n\0"): b(b"\xff"), "\xfc\"\n": ""}}), "0", "bytes that are no text")
same(read()["f"], {b(b"base64:x"): b(b"base64:"), b(b"n\0"): b(b"\xff"), "\xfc\"\n": ""}, "  return")
before = slurp(F)
for text in ('[]', '{"f":[]}', '{"f":"x"}', '{"f":{"q":1}}', '{"f":{"q":"base64:*"}}', '{"f":{"q":"1","q":"2"}}', '{"no":{"q":"1"}}', '{"f":{"q":"1"}', '{"f":{"q":"v","x":{}}}', '{"c":{"n":"seven"}}'):
    same(errno_of(spill, F, text.encode(), os.O_WRONLY | os.O_TRUNC), "EINVAL", "refused: " + text)
same(slurp(F), before, "  which changes nothing")
same((patch({}), slurp(F)), ("0", before), "an empty object changes nothing")
open(R + ".new", "w").write('{"f":{"moved":"1"}}')
os.rename(R + ".new", F)
same(slurp(R + "f/moved"), b"1", "a scratch file that is renamed to it")
same(errno_of(os.unlink, F), "EPERM", "it is not removed")
# ---- "merge" in .row.json ----
spill(R + "f/v@5", b"five")
spill(R + "f/v@6", b"six")
count = len(json.loads(slurp(J))["cells"])
same(patch({"merge": True, "cells": [{"family": "f", "qualifier": "v", "timestamp": 6, "value": None}, {"family": "f", "qualifier": "w", "value": "new"}]}, J), "0", '"merge": true')
same((slurp(R + "f/v"), slurp(R + "f/w"), len(json.loads(slurp(J))["cells"])), (b"five", b"new", count), "  deletes one version, and writes one cell")
same((patch({"merge": True, "cells": [{"family": "f", "qualifier": "v", "value": None}]}, J), os.path.exists(R + "f/v")), ("0", False), "  or all versions")
d = json.loads(slurp(J))
d.update(merge=True, cells=[{"family": "f", "qualifier": "w", "value": "x"}])
same((patch(d, J), patch(d, J), slurp(R + "f/moved")), ("0", "ECANCELED", b"1"), "  with a sequence: once")
for bad in ({"merge": 1, "cells": []}, {"merge": False, "cells": [{"family": "f", "qualifier": "w", "value": None}]}):
    same(patch(bad, J), "EINVAL", "refused: " + json.dumps(bad))
same((patch({"merge": False, "cells": []}, J), os.path.exists(R)), ("0", False), "false replaces the row")
os.mkdir(R)
same(slurp(F), b"{}\n", "a directory without cells is {}")
EOF2
cd / || exit 1
unmount_store
mount_store -o ro
[ -n "$OVER" ] || fails "a read-only mount has no .row.json" "not supported" cat "$M/t/r/.row.json"
done_testing

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A key and its file name are converted in both directions as names.tsv says.
# Any other spelling of a name does not exist and cannot be created.  Keys of
# 64 KiB work.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012,SC2001
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
mkdir "$M/rows" "$M/cells" "$M/large"

cat >"$W/names.py" <<'PY'
"""The rules of tabletfs(7) for names, written a second time: returns the name of a key."""
import re


def units(raw, cell_end):
    """cell_end: raw is a qualifier, of which an @ before digits to the end is escaped."""
    out, i = [], 0
    while i < len(raw):
        b = raw[i]
        if b in b"/%\0" or b < 0x20 or b == 0x7f:
            out.append(b"%%%02X" % b)
        elif b == 0x40 and cell_end and re.fullmatch(rb"-?[0-9]*", raw[i + 1:]):
            out.append(b"%40")
        else:
            n = 1
            for size in (2, 3, 4):
                try:
                    if len(raw[i:i + size].decode("utf-8")) == 1 and b >= 0x80:
                        n = size
                except UnicodeDecodeError:
                    pass
            out.append(raw[i:i + n])
            i += n - 1
        i += 1
    return out


def split(us):
    parts, at, left = [], 0, sum(map(len, us))
    while True:
        if at < len(us) and us[at] == b".":
            us[at] = b"%2E"
            left += 2
        if left <= 255:
            return parts + [b"".join(us[at:])]
        n, first = 0, at
        while n + len(us[at]) <= 254:
            n += len(us[at])
            at += 1
        parts.append(b"".join(us[first:at]) + b"%")
        left -= n


def encode(kind, key, ts):
    us = units(key, kind != "row")
    if kind == "version":
        us += [bytes([c]) for c in b"@%d" % ts]
    elif kind == "newest" and not key:
        us = [b"@"]
    return split(us)


def vectors(path):
    for line in open(path):
        if line.startswith("#"):
            continue
        kind, key, ts, name = line.rstrip("\n").split("\t")
        yield kind, bytes.fromhex(key), int(ts) if ts else None, [bytes.fromhex(p) for p in name.split("/")]
PY
export PYTHONPATH="$PYTHONPATH:$W"

py <<'EOF2'
import os
from tap import *
from names import *
V = list(vectors(os.environ["SRC"] + "/t/names.tsv"))
R, C = os.path.join(M, "rows"), os.path.join(M, "cells")
bad = [v for v in V if encode(*v[:3]) != v[3]]
same(len(bad), 0, "the test's own encoder agrees with every vector")
for v in bad[:3]:
    note(v, encode(*v[:3]))

def make_dirs(fd, name):
    try:
        os.mkdir(name, dir_fd=fd)
    except FileExistsError:
        pass
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)

# ---- rows ----
rows = [v for v in V if v[0] == "row" and v[1]]
wrong = []
for kind, key, ts, parts in rows:
    fd = walk_open(R, parts, True)
    rfd = make_dirs(fd, parts[-1])
    os.close(fd)
    try:
        os.close(make_dirs(rfd, "f"))
        w = os.open("f/q", os.O_WRONLY | os.O_CREAT, dir_fd=rfd)
        os.write(w, key)
        os.close(w)
        r = os.open("f", os.O_RDONLY, dir_fd=rfd)
        got = os.getxattr("/proc/self/fd/%d" % r, "user.tabletfs.row")
        os.close(r)
        if got != key:
            wrong.append((key, got))
    finally:
        os.close(rfd)
same(wrong, [], "%d row keys make their rows, and the xattr tells the key" % len(rows))

def listing(root, leaf):
    """All paths (as lists of components) below a table or family, leaf(fd) at each end; part directories are walked."""
    out = []
    def go(fd, parts):
        with os.scandir(fd) as it:
            names = [os.fsencode(e.name) for e in it]
        for n in names:
            if n.startswith(b"."):
                continue
            if n.endswith(b"%"):
                sub = os.open(n, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
                go(sub, parts + [n])
                os.close(sub)
            else:
                out.append((parts + [n], leaf(fd, n)))
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    go(fd, [])
    os.close(fd)
    return out

def read_at(fd, name):
    r = os.open(name, os.O_RDONLY, dir_fd=fd)
    data = b""
    while True:
        piece = os.read(r, 1 << 17)
        if not piece:
            break
        data += piece
    os.close(r)
    return data

seen = listing(R, lambda fd, n: read_at(fd, n + b"/f/q"))
same(sorted(p for p, _ in seen), sorted({tuple(v[3]): v[3] for v in rows}.values()), "rows are listed by their names")
same([p for p, data in seen if encode("row", data, None) != p], [], "and each leads to its own row")

# ---- cells ----
os.makedirs(C + "/r/f")
versions = {tuple(v[3]): v for v in V if v[0] == "version"}
for kind, key, ts, parts in versions.values():
    fd = walk_open(C + "/r/f", parts, True)
    w = os.open(parts[-1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=fd)
    os.write(w, b"%d " % ts + key)
    os.close(w)
    os.close(fd)
wrong = []
for kind, key, ts, parts in versions.values():
    fd = walk_open(C + "/r/f", parts)
    r = os.open(parts[-1], os.O_RDONLY, dir_fd=fd)
    p = "/proc/self/fd/%d" % r
    got = (os.getxattr(p, "user.tabletfs.qualifier"), int(os.getxattr(p, "user.tabletfs.timestamp")), os.fstat(r).st_mtime_ns)
    if got != (key, ts, ts * 1000):
        wrong.append((key, ts, got))
    os.close(r)
    os.close(fd)
same(wrong, [], "%d versions: the qualifier, the timestamp, the mtime" % len(versions))
seen = listing(C + "/r/f", read_at)
same(sorted(p for p, _ in seen), sorted(v[3] for v in versions.values()), "versions are listed by their names")
same([p for p, d in seen if (lambda a: encode("version", a[1], int(a[0])) != p)(d.split(b" ", 1))], [], "and each is its own cell")
newest = {}
for kind, key, ts, parts in versions.values():
    newest[key] = max(ts, newest.get(key, ts))
wrong = []
for kind, key, ts, parts in V:
    if kind == "newest" and key in newest:
        fd = walk_open(C + "/r/f", parts)
        if read_at(fd, parts[-1]) != b"%d " % newest[key] + key:
            wrong.append(parts)
        os.close(fd)
same(wrong, [], "plain names read the newest version")

# ---- mutations: a name that is not canonical does not exist and cannot be created ----
def mutants(parts):
    import itertools
    for n, p in enumerate(parts):
        def put(*new):
            return parts[:n] + list(new) + parts[n + 1:]
        for i in range(len(p)):
            if p[i:i + 1] == b"%":
                if re.match(rb"%[0-9A-F]{2}", p[i:i + 3]):
                    yield put(p[:i] + bytes([int(p[i + 1:i + 3], 16)]) + p[i + 3:])
                    if p[i + 1:i + 3] != p[i + 1:i + 3].lower():
                        yield put(p[:i] + p[i:i + 3].lower() + p[i + 3:])
                yield put(p[:i] + p[i + 1:])
                yield put(p[:i] + b"%25" + p[i + 1:])
            elif i < 3 or i > len(p) - 3:
                yield put(p[:i] + b"%%%02X" % p[i] + p[i + 1:])
        yield put(p + b"%")
        yield put(p[:-1] + b"%", p[-1:])
        if n + 1 < len(parts) and len(parts[n + 1]) > 1:
            yield put(p[:-1]) if len(p) > 1 else put(p)
            yield parts[:n] + [p[:-2] + b"%", p[-2:-1] + parts[n + 1]] + parts[n + 2:]
            yield parts[:n] + [p[:-1] + parts[n + 1]] + parts[n + 2:]
        if b"@" in p and p == parts[-1]:
            head, at, tail = p.rpartition(b"@")
            for other in (b"0" + tail, b"+" + tail, b"-0", b" " + tail, tail + b" ", tail + b"0" * 19, b"-" + tail + b"9" * 18):
                yield put(head + b"@" + other)

def meaning(kind, parts):
    """The kind of thing that a canonical path of components means, or None."""
    if any(len(p) > 255 or not p or b"/" in p or b"\0" in p or p in (b".", b"..") for p in parts):
        return "unspeakable"
    if any(p.startswith(b".") for p in parts):
        return "scratch"
    if any(not p.endswith(b"%") for p in parts[:-1]) or parts[-1].endswith(b"%"):
        return "other"
    text = b"".join(p[:-1] for p in parts[:-1]) + parts[-1]
    def unescape(b):
        if re.search(rb"%(?![0-9A-F]{2})", b):
            return None
        return re.sub(rb"%([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), b)
    if kind == "row":
        key = unescape(text)
        return None if key is None or encode("row", key, None) != parts else "row"
    m = re.fullmatch(rb"(?s)(.*)@(-?[0-9]+)", text)
    if m and -2 ** 63 <= int(m[2]) < 2 ** 63:
        key = unescape(m[1])
        if key is not None and encode("version", key, int(m[2])) == parts:
            return "version"
    key = unescape(text)
    if text == b"@":
        key = b""
    return None if key is None or encode("newest", key, None) != parts else "newest"

def errno_at(root, parts, act):
    """Walks as deep as it goes; the errno of the first step that fails, else that of act on the last."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for p in parts[:-1]:
            try:
                nfd = os.open(p, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
            except OSError as e:
                return errno.errorcode[e.errno]
            os.close(fd)
            fd = nfd
        try:
            act(fd, parts[-1])
        except OSError as e:
            return errno.errorcode[e.errno]
        return "0"
    finally:
        os.close(fd)

def create(fd, name):
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd))

tried = 0
lookups, creates = {}, {}
for vec in V:
    kind, key, ts, parts = vec
    root = R if kind == "row" else C + "/r/f"
    seen_m = set()
    for m in mutants(parts):
        if tuple(m) in seen_m or m == parts:
            continue
        seen_m.add(tuple(m))
        what = meaning("row" if kind == "row" else "cell", m)
        if what is not None:
            continue
        tried += 1
        e = errno_at(root, m, lambda fd, n: os.stat(n, dir_fd=fd))
        if e != "ENOENT":
            lookups.setdefault(e, m)
        if len(parts) == 1 and len(m) == 1:
            e = errno_at(root, m, (lambda fd, n: os.mkdir(n, dir_fd=fd)) if kind == "row" else create)
            if e != "EINVAL":
                creates.setdefault(e, m)
note(tried, "mutated names")
ok(tried > 1000, "there are many mutated names")
same(lookups, {}, "no mutated name is found: ENOENT")
same(creates, {}, "none can be made: EINVAL")
EOF2

py <<'EOF2'
import os
from tap import *
from names import *
# The largest keys, of the bytes that are the hardest: each escaped, each its own unit, dots, UTF-8, and not UTF-8.
R = M + "/large"
cases = [("letters", b"k" * 65536), ("NULs", b"\0" * 65536), ("dots", b"." * 65536), ("percents", b"%" * 65536),
         ("UTF-8", "é€𝄞".encode() * 7281), ("broken UTF-8", b"\xe2\x82" * 32768), ("newlines", b"\n" * 65536)]
for what, key in cases:
    parts = encode("row", key, None)
    try:
        fd = walk_open(R, parts, True)
        os.mkdir(parts[-1], dir_fd=fd)
        rfd = os.open(parts[-1], os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        os.mkdir("f", dir_fd=rfd)
        w = os.open("f/q@7", os.O_WRONLY | os.O_CREAT, dir_fd=rfd)
        os.write(w, what.encode())
        os.close(w)
        os.close(rfd)
        fd = walk_open(R, parts)
        with os.fdopen(os.open(parts[-1] + b"/f/q", os.O_RDONLY, dir_fd=fd), "rb") as f:
            got = f.read()
        os.close(fd)
    except OSError as e:
        got = repr(e)
    same(got, what.encode(), "a row key of %d bytes (%s) in %d components" % (len(key), what, len(parts)))
over = encode("row", b"k" * 65537, None)
err("ENAMETOOLONG", "a row key of 65537 bytes", lambda: os.mkdir(over[-1], dir_fd=walk_open(R, over, True)))

F = M + "/large/big/f"
os.makedirs(F)
for what, key in [("letters", b"q" * 16384), ("@", b"@" * 16384), ("@ and digits", b"@1" * 8192), ("NULs", b"\0" * 16384), ("dots", b"." * 16384)]:
    for ts in (-2 ** 63, 2 ** 63 - 1):
        parts = encode("version", key, ts)
        try:
            fd = walk_open(F, parts, True)
            w = os.open(parts[-1], os.O_WRONLY | os.O_CREAT, dir_fd=fd)
            os.write(w, what.encode())
            os.close(w)
            r = os.open(parts[-1], os.O_RDONLY, dir_fd=fd)
            got = (os.read(r, 100), os.getxattr("/proc/self/fd/%d" % r, "user.tabletfs.qualifier") == key)
            os.close(r)
            os.close(fd)
        except OSError as e:
            got = repr(e)
        same(got, (what.encode(), True), "a qualifier of %d bytes (%s) at %d" % (len(key), what, ts))
over = encode("newest", b"q" * 16385, None)
err("ENAMETOOLONG", "a qualifier of 16385 bytes", lambda: os.open(over[-1], os.O_WRONLY | os.O_CREAT, dir_fd=walk_open(F, over, True)))
err("ENAMETOOLONG", "a component of 256 bytes", os.mkdir, R + "/" + "x" * 256)
same(os.statvfs(M).f_namemax, 255, "statfs says 255")
EOF2

# find and tar walk by openat (the largest keys take them minutes: a name is hundreds of levels deep).
ok "tar packs them" t tar -C "$M" -cf "$W/names.tar" rows cells
sums() { (cd "$M" && find "$@" -type f -printf '%s %T@\n' | sort | md5sum); }
before=$(sums rows cells)
remount
is "$(sums rows cells)" "$before" "all names are there after a remount"
unmount_store
rm -rf "$D"
mount_store
ok "tar restores them" t tar -C "$M" -xf "$W/names.tar"
is "$(sums rows cells)" "$before" "into the same tree"
ok "rm -r takes them all away" t rm -r "$M/rows" "$M/cells"
is "$(ls -A "$M")" "" "nothing is left"
done_testing

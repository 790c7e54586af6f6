#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each byte of a store's files is what the byte tables of doc/formats say.  The
decoder here was written from those tables alone, in another language.  It
also notices each single byte that is changed."""
import glob
import os
import random
import re
import shutil
import subprocess
import tempfile

BUILD = os.environ.get("BUILD", ".")
FILL = BUILD + "/t/lib/fill"
count = 0
bad = 0


def ok(good, what):
    global count, bad
    count += 1
    bad += not good
    print("%s %d - %s" % ("ok" if good else "not ok", count, what))


TABLE = []
for i in range(256):
    c = i
    for _ in range(8):
        c = (c >> 1) ^ 0x82F63B78 if c & 1 else c >> 1
    TABLE.append(c)


def crc(data, start=0):
    c = start ^ 0xFFFFFFFF
    for x in data:
        c = TABLE[(c ^ x) & 255] ^ (c >> 8)
    return c ^ 0xFFFFFFFF


class Wrong(Exception):
    pass


def must(good, what):
    if not good:
        raise Wrong(what)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        v = self.data[self.at:self.at + n]
        must(len(v) == n, "cut short")
        self.at += n
        return v

    def u(self, n):
        return int.from_bytes(self.take(n), "big")

    def i64(self):
        return int.from_bytes(self.take(8), "big", signed=True)

    def varint(self):
        v = shift = 0
        while True:
            b = self.u(1)
            v |= (b & 127) << shift
            shift += 7
            if b < 128:
                must(b or shift == 7, "a varint that is not its shortest form")
                return v

    def lstr(self):
        return self.take(self.varint())

    def left(self):
        return len(self.data) - self.at

    def end(self):
        must(not self.left(), "%d bytes too many" % self.left())


def copies(data):
    """Two copies, the second at a multiple of 4 KiB."""
    at = (len(data) + 8191) // 8192 * 4096
    must(len(data) > at and at - 4096 < len(data) - at <= at, "the size of two copies")
    one = data[at:]
    must(data == one + bytes(at - len(one)) + one, "two equal copies")
    return one


def envelope(data, magic):
    """u32 magic, u16 format 1, u32 length of the contents, contents, u32 CRC of all before."""
    must(len(data) >= 14 and int.from_bytes(data[-4:], "big") == crc(data[:-4]), "CRC")
    r = Reader(data[:-4])
    must(r.take(4) == magic and r.u(2) == 1, "magic and format")
    must(r.u(4) == r.left(), "length of the contents")
    return r


# ---- 4.2, 4.3 ----

def batch(data):
    r = Reader(data)
    must(r.u(1) == 2, "batch version")
    must(r.i64() > 1600000000 * 10**6, "the time of commit")
    row, cells = r.lstr(), []
    while r.left():
        kind, family, qualifier, ts = r.u(1), r.u(2), r.lstr(), r.i64()
        must(1 <= kind <= 5 and (family == 0) == (kind == 1), "kind and family of a cell")
        must(kind > 2 or (not qualifier and ts == 2**63 - 1), "qualifier and time of a marker")
        cells.append((kind, family, qualifier, ts, r.lstr() if kind == 5 else None))
    return row, cells


def segment_header(data):
    must(data[:8] == b"TFSLOG\r\n", "magic of a segment")
    r = Reader(data[8:64])
    must(r.u(4) == 1 and r.u(4) == 0, "version")
    h = [r.u(8) for _ in range(5)]
    must(r.u(4) == 0 and r.u(4) == crc(data[:60]) and not any(data[64:]), "segment header")
    return h


ends = {}  # of each segment: the offset at which each LSN ends


def segment(data, name):
    if not any(data[:1024]):
        return []  # not finished, or to be used again
    incarnation, number, first, durable, salt = segment_header(data[:512])
    must(segment_header(data[512:1024]) == [incarnation, number, first, durable, salt], "the two headers agree")
    ends[number] = {}
    must("%010d.log" % number == os.path.basename(name), "the segment's name")
    must(str(incarnation) == os.path.basename(os.path.dirname(name)).removesuffix(".dead"), "the incarnation's directory")
    at, lsn, records, seed = 1024, first, [], (salt ^ (salt >> 32)) & 0xFFFFFFFF

    def whole(at):
        f = data[at:at + 40]
        return len(f) == 40 and f[4:8] == b"TLR1" and f[:4] == crc(f[4:], seed).to_bytes(4, "big")

    def lsn_at(at):
        return int.from_bytes(data[at + 8:at + 16], "big")

    while whole(at) and (lsn_at(at) >= first or data[at + 35] == 3):
        r = Reader(data[at + 8:at + 40])
        this, known, n, body_crc, kind, table = r.u(8), r.u(8), r.u(4), r.u(4), r.u(4), r.u(4)
        total = (40 + n + 7) // 8 * 8
        body = data[at + 40:at + total]
        must(len(body) == total - 40 and not any(body[n:]), "body and padding")
        if kind == 1:
            must(body_crc == crc(body), "CRC of a body")
            b = Reader(body[:n])
            token, seq, row = [b.varint() for _ in range(3)], b.varint(), b.lstr()
            last = row if b.u(1) == 1 else b.lstr()
            in_batch, cells = batch(b.take(b.left()))
            must(row <= in_batch <= last, "row of a batch")
            records.append((this, table, seq, in_batch, cells))
        else:
            must(kind in (2, 3) and n == 0, "kind of a record")
        if kind == 3:
            must(known == this < lsn, "a mark states its own LSN")
        else:
            must(this == lsn and known < this, "gapless LSNs")
            ends[number][lsn] = at + total
            lsn += 1
        at += total
    if any(data[at:]):
        earlier = [lsn_at(i) for i in range(at, len(data), 8) if whole(i)]
        must(earlier, "zeros after the last record, or records of an earlier life")
        must(all(i < first for i in earlier), "which are below the first LSN")
    return records


def seal(data, name):
    r = envelope(data, b"TFSL")
    must(str(r.u(8)) == os.path.basename(name), "incarnation of a seal")
    r.u(8)
    stated, lost, before = r.u(8), r.u(8), (0, 0)
    for _ in range(r.u(4)):
        number, first, last, end = r.u(8), r.u(8), r.u(8), r.u(8)
        must(before[0] < number and before[1] < first <= last, "order of a seal")
        must(ends[number].get(last) == end and first in ends[number], "LSNs and end of a sealed segment")
        before = (number, last)
    r.end()
    must(before[0] and before[1] >= stated and not lost, "a seal of a whole log")


# ---- 4.4, 4.5 ----

def cell_key(k):
    def raw(at):
        out = b""
        while True:
            i = k.index(b"\0", at)
            out += k[at:i]
            if k[i + 1] == 1:
                return out, i + 2
            must(k[i + 1] == 255, "an escape")
            out += b"\0"
            at = i + 2

    row, at = raw(0)
    family = int.from_bytes(k[at:at + 2], "big")
    at += 2
    marker = k[at:at + 2] == b"\0\0"
    qualifier, at = (None, at + 2) if marker else raw(at)
    all_ones = 2**64 - 1
    ts = (~int.from_bytes(k[at:at + 8], "big") & all_ones) ^ 2**63
    ts -= 2**64 if ts >= 2**63 else 0
    seq, kind = ~int.from_bytes(k[at + 8:at + 16], "big") & all_ones, k[at + 16]
    at += 17
    if kind == 5:
        commit = k[at:]
        must(len(commit) <= 8 and commit[:1] != b"\0", "the field of the time of commit")
        z = int.from_bytes(commit, "big")
        must(ts + ((z >> 1) ^ -(z & 1)) > 1600000000 * 10**6, "a time of commit")
        at = len(k)
    must(at == len(k) and 1 <= kind <= 5 and marker == (kind <= 2) and (family == 0) == (kind == 1), "a cell key")
    return row, family, qualifier, ts, seq, kind


kinds_of_block = {}
dictionaries = 0
ZSTD_FRAME = bytes.fromhex("28b52ffd")


def place_crc(identity, place, b):
    return int.from_bytes(b[:4], "big") == crc((identity + place & 2**64 - 1).to_bytes(8, "big") + b[4:])


def units(data, at, end, identity, seen):
    """The units between two places of the file, which say their raw length only; seen: their codecs and lengths."""
    while at < end:
        for to in range(at + 12, end + 1):
            if (to == end or (data[to + 4] < 6 and not any(data[to + 5:to + 8]))) and place_crc(identity, 2**63 + at, data[at:to]):
                break
        else:
            must(False, "CRC of a unit")
        b = data[at:to]
        must(b[4] < 6 and not any(b[5:8]), "header of a unit")
        kinds_of_block[b[4]] = kinds_of_block.get(b[4], 0) + 1
        if b[4] == 5:
            against = Reader(b[12:])
            base, stored = at - against.varint(), against.varint()
            must(base in seen and seen[base][0] != 5 and seen[base][1] == stored and against.take(4) == ZSTD_FRAME, "a unit against another")
        seen[at] = (b[4], len(b), int.from_bytes(b[8:12], "big"))
        at = to


def past_copies(data, run):
    """The bytes of the second copies behind a run of blocks: places, stored lengths, distances."""
    second = [b for b in run if b[2]]
    must(not second or {b[2] for b in second} == {sum(b[1] for b in second)}, "a run is written twice as a whole")
    for at, stored, copy in second:
        must(data[at:at + stored] == data[at + copy:at + copy + stored], "a second copy")
    return sum(b[1] for b in second)


blocks_twice = 0


def sstable(data):
    global dictionaries, blocks_twice
    t = data[-128:]
    must(t[120:] == b"TFSSST01" and int.from_bytes(t[116:120], "big") == crc(t[:116]), "trailer")
    r = Reader(t)
    version = r.u(4)
    codec, blocks, raw_bytes, keys, partitions = r.u(4), r.u(8), r.u(8), r.u(8), r.u(8)
    parts = []
    for _ in range(4):
        offset, n, c = r.u(8), r.u(4), r.u(4)
        must((crc(data[offset:offset + n]) if n else 0) == c, "CRC of a section")
        must(not parts or offset == parts[-1][0] + len(parts[-1][1]), "sections lie back to back")
        parts.append((offset, data[offset:offset + n]))
    must(parts[-1][0] + len(parts[-1][1]) == len(data) - 128, "sections end at the trailer")
    largest = r.u(4)
    identity = r.u(8)
    must(codec < 5 and identity, "codec, identity")
    must(version == 3, "version")
    dictionaries += bool(parts[0][1])
    must(not parts[0][1] or parts[0][1][:4] == ZSTD_FRAME, "a packed dictionary")

    p = Reader(parts[2][1])
    must(p.u(1) == 1, "properties version")
    table, _group, seq_min, seq_max, oldest, newest = p.u(4), p.u(2), p.u(8), p.u(8), p.i64(), p.i64()
    cells, _tombstones, _rows, _families, _raw = [p.varint() for _ in range(5)]
    first, last = p.lstr(), p.lstr()
    ids = [(p.u(2), p.varint(), p.varint(), p.varint())[0] for _ in range(p.varint())]
    p.end()
    must(ids == sorted(set(ids)) and first <= last and seq_min <= seq_max and oldest <= newest and cells <= keys, "properties")

    if parts[1][1]:
        f = Reader(parts[1][1])
        must(f.varint() == partitions, "partitions")
        firsts = [(f.lstr(), f.lstr())[0] for _ in range(partitions)]
        end = f.lstr()
        f.end()
        must(firsts == sorted(firsts) and firsts[-1] <= end, "order of partitions")
        must(cell_key(firsts[0])[0] == first and cell_key(end)[0] == last, "rows of filters and properties")

    m = Reader(parts[3][1])
    logical = at = n = most = shares = 0
    seen = {}
    of_units = m.varint(), m.varint()
    run = []
    while m.left():
        raw, stored, gap, copy, share = m.varint(), m.varint(), m.varint(), m.varint(), m.varint()
        blocks_twice += copy != 0
        if gap:
            past = past_copies(data, run)
            units(data, at + past, at + gap, identity, seen)
            run = []
        at += gap
        run.append((at, stored, copy))
        shares += share
        b = data[at:at + stored]
        must(place_crc(identity, logical, b), "CRC of a block")
        must(b[4] < 5 and not any(b[5:8]) and int.from_bytes(b[8:12], "big") == raw, "header of a block")
        kinds_of_block[b[4]] = kinds_of_block.get(b[4], 0) + 1
        logical, at, n, most = logical + raw, at + stored, n + 1, max(most, raw)
    at += past_copies(data, run)
    must((logical, at, n, most) == (raw_bytes, parts[0][0], blocks, largest), "sums of the map")
    must(of_units == (len(seen), sum(u[2] for u in seen.values())) and shares == sum(u[1] for u in seen.values()), "sums of the units")
    return table


# ---- 4.6 ----

merges = []


def metadata_cell(family, qualifier, value):
    """A column of METADATA, as a batch has it."""
    r = Reader(value)
    must(r.u(1) == 1, "format of a value")
    if family == 1:
        must(qualifier in (b"begin", b"server", b"seq", b"clock", b"major", b"changes", b"tokens", b"merge"), "a tablet column")
        if qualifier == b"merge":
            row(r.take(r.left()))
            merges.append(qualifier)
        elif qualifier == b"tokens":
            must(r.left(), "tokens")
            tokens(r)
        else:
            r.take(r.left() if qualifier == b"begin" else 16 if qualifier == b"server" else 8)
    elif family == 2:
        must(len(qualifier) == 22, "an sst column")
        for _ in range(8):
            r.varint()
        r.i64()
        r.i64()
        flags = r.u(1)
        must(flags < 8, "flags of a file")
        for _ in range(2 + (flags & 1) + (not flags & 2)):
            r.lstr()
        must(not flags & 4 or r.i64() != 0, "a time of commit")
    elif family == 3:
        must(len(qualifier) == 8, "a redo column")
        r.u(8)
    else:
        must(family == 4 and r.take(r.left()).isascii(), "an event")
    r.end()


def tokens(r):
    before = (-1, 0)
    while r.left():
        this = (r.u(8), r.u(8))
        must(before < this, "order of tokens")
        before = this
        r.lstr()


def root(data):
    table, begin, end = row(data)
    must((table, begin, end) == (1, b"", b"\0\0\0\2"), "the root tablet's range")


def row(data, last=0):
    """A METADATA row in the root file's form."""
    r = envelope(data, b"TFRT")
    table = r.u(4)
    must(r.u(1) == last, "not a last tablet")
    begin, end = r.lstr(), r.lstr()
    for _ in range(6):
        r.u(8)
    for _ in range(r.u(4)):
        key = r.take(22)
        metadata_cell(2, key, r.lstr())
    for _ in range(r.u(4)):
        r.take(16)
    tokens(Reader(r.lstr()))
    r.end()
    return table, begin, end


# ---- 4.7, 4.8 ----

def lock_file(data):
    r = envelope(copies(data), b"TFLF")
    must(r.u(8) > 0, "version of a file")
    return r.take(r.left())


def identity(data):
    r = envelope(data, b"TFID")
    id, secret = r.take(16), r.take(32)
    r.end()
    must(id != bytes(16) and secret != bytes(32), "random bytes of a store")


def schema(data, name):
    r = envelope(data, b"TFSC")
    table, tablets = r.u(4), r.u(4)
    must(16 <= table <= tablets, "ids of a table and of its tablets")
    r.u(8)
    own = r.lstr().decode()
    r.take(4 + 4 + 2)
    flags = r.u(1)
    must(flags & 24 != 16, "flags of a schema")
    r.take(8 + 8)
    must(r.u(1) != 1 and r.u(1) != 1, "salts")
    next_family, next_group = r.u(4), r.u(4)
    splits = [r.lstr() for _ in range(r.u(2))] if flags & 64 else []
    must(splits == sorted(set(splits)) and (splits or not flags & 64), "splits")
    groups = []
    for _ in range(r.u(2)):
        groups.append(r.u(2))
        r.lstr()
        must(r.u(1) < 5 and 1 <= r.u(1) <= 19 and r.u(4) >= 1024 and r.u(1) <= 20 and r.u(1) < 2, "a group")
    families = []
    for _ in range(r.u(2)):
        families.append(r.u(2))
        r.lstr()
        r.lstr()
        must(r.u(2) in groups and r.u(1) < 2, "group and type of a family")
        r.take(4 + 4 + 2)
        r.lstr()
    r.lstr()
    if flags & 8:
        of = r.u(4)
        must(16 <= of < table and r.u(8) > 0, "table and time of a snapshot")
        must(name == "snapshots/%d.%s" % (of, own), "a snapshot's name")
    else:
        must(name == "tables/" + own, "a table's name")
    must(not flags & 128 or r.u(8) > 0, "an age")
    if r.left():
        numbers = r.u(8) | r.u(8)
        must(numbers or r.left(), "numbers of requests")
    if r.left():
        scripts = [(r.lstr(), r.u(8), r.lstr())[0] for _ in range(r.u(2))]
        must((scripts or r.left()) and scripts == sorted(set(scripts)), "scripts")
    must(not r.left() or r.u(8) > 0, "the time for which changes are kept")
    r.end()
    must(groups == sorted(groups) and families == sorted(families) and max(families) < next_family and max(groups) < next_group, "ids")


# ---- a store ----

def read(path):
    with open(path, "rb") as f:
        return f.read()


def decode(path, data):
    """Any file of a store; what it holds, for the kinds that are counted."""
    rest = path.split("/store/")[1]
    if rest == "FORMAT":
        line = b"tabletfs data directory, format 4"
        must(copies(data) == b"%s, CRC-32C %08x\n" % (line, crc(line)), "the line of FORMAT")
    elif rest.startswith("log/"):
        found = segment(data, path)
        for _lsn, table, _seq, _row, cells in found:
            for kind, family, qualifier, _ts, value in cells:
                if table == 1 and kind == 5:
                    metadata_cell(family, qualifier, value)
        return found
    elif rest.startswith("sst/"):
        table = rest.split("/")[1]
        must(str(sstable(copies(data) if table == "1" else data)) == table, "the table's directory")
    elif rest.startswith("lock/tables/") or rest.startswith("lock/snapshots/"):
        schema(lock_file(data), rest[5:])
    elif rest.startswith("lock/seals/"):
        seal(lock_file(data), rest)
    elif rest.startswith("lock/rows/"):
        rows = lock_file(data)
        while rows:
            n = 14 + int.from_bytes(rows[6:10], "big")
            must(row(rows[:n], rows[14])[0] == int(rest[10:].split(".")[0]), "table of a row")
            rows = rows[n:]
    elif rest == "lock/root":
        root(lock_file(data))
    elif rest == "lock/store":
        identity(lock_file(data))
    elif rest in ("lock/incarnation", "lock/ids", "lock/clock"):
        must(len(lock_file(data)) == (4 if rest == "lock/ids" else 8), "a number")
    else:
        must(rest in ("lock/held", "ballast"), "a file that doc/formats does not name")
    return None


def main():
    top = tempfile.mkdtemp(prefix="tfs-formats-")
    store = top + "/store"
    try:
        subprocess.run([FILL, store, "write", "300", "flush", "delete", "40", "write", "20", "large", "flush", "split", "snapshot", "merge", "write", "30",
                        "versions", "compact", "write", "30", "crash"],
                       check=False, timeout=300)
        subprocess.run([FILL, store, "seal"], check=True, timeout=60)
        said = subprocess.run([BUILD + "/tabletctl", "check", store], capture_output=True, text=True)
        ok(said.returncode == 0 and re.search(r" [1-9]\d+ log records", said.stdout), "tabletctl check reads a sealed log: " + said.stdout.strip())
        files = sorted((f for f in glob.glob(store + "/**", recursive=True) if os.path.isfile(f)), key=lambda f: (not f.startswith(store + "/log/"), f))
        ok(os.path.exists(store + "/FORMAT"), "a store was made")
        records, seen, sample = 0, {}, {}
        for path in files:
            data = read(path)
            try:
                found = decode(path, data)
                records += len(found or ())
                what = None
            except (Wrong, ValueError, IndexError) as e:
                what = e
            kind = path.split("/store/")[1].split("/")
            kind = "/".join(kind[:1] if kind[0] != "lock" else kind[:2])
            seen[kind] = seen.get(kind, 0) + 1
            if data and (kind not in sample or len(data) < len(sample[kind][1])):
                sample[kind] = (path, data)
            if what:
                ok(False, "%s: %s" % (path, what))
        ok(bad == 0, "%d files are as the tables say" % len(files))
        ok(merges, "a merge among them")
        ok(records >= 300, "%d records of the log among them" % records)
        ok(dictionaries and kinds_of_block.get(4) and kinds_of_block.get(5), "a dictionary, and units against others: %s" % kinds_of_block)
        ok(blocks_twice, "%d blocks of keys with a second copy" % blocks_twice)
        for kind in ("FORMAT", "log", "sst", "lock/root", "lock/ids", "lock/incarnation", "lock/store", "lock/tables", "lock/seals"):
            ok(seen.get(kind), "%d files: %s" % (seen.get(kind, 0), kind))

        # In a segment whose file was reused, this decoder and tabletctl find the same end.
        logs = sorted(f for f in files if f.endswith(".log"))
        pairs = [p for p in zip(logs, logs[1:]) if os.path.dirname(p[0]) == os.path.dirname(p[1])]
        ok(pairs, "a log of several segments")
        for one, two in pairs[:1]:
            new, old, path = read(two).rstrip(b"\0"), read(one), top + "/spliced.log"
            new += bytes(-len(new) % 8)
            old = old[:1024] + old[1024:] * (1 + len(new) // len(old))
            for cut in (len(new), 1024):
                data = new[:cut] + old[cut:]
                ok(decode(two, data) == (decode(two, new) if cut == len(new) else []), "an earlier life behind %d bytes is not read" % cut)
                with open(path, "wb") as f:
                    f.write(data)
                said = subprocess.run([BUILD + "/tabletctl", "dump", "log", path], capture_output=True, text=True).stdout
                ok("\n%d: no whole record" % cut in said, "tabletctl dump stops there too")

        # One byte wrong, anywhere that is written, is seen.
        rng = random.Random(1)
        for kind in sorted(sample):
            path, data = sample[kind]
            used = len(data.rstrip(b"\0")) if kind == "log" else len(data)
            missed = []
            for _ in range(40):
                at = rng.randrange(used)
                changed = bytearray(data)
                changed[at] ^= 1 << rng.randrange(8)
                try:
                    decode(path, bytes(changed))
                    missed.append(at)
                except (Wrong, ValueError, IndexError):
                    pass
            if kind not in ("ballast", "lock/held"):
                ok(not missed, "%s: 40 damaged bytes noticed%s" % (kind, "" if not missed else ", but not at %s" % missed))
    finally:
        shutil.rmtree(top)
    print("1..%d" % count)


if os.access(FILL, os.X_OK):
    main()
else:
    print("not ok 1 - t/lib/fill is not built")
    print("1..1")

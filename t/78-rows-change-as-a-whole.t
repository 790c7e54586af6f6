#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Mutations of a row through .mutate apply all their lines or none; a refusal
# names its line; the same descriptor reads the result.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1
mkdir -p t/r/f t/r/g t/.families/c
echo counter >t/.families/c/type
printf 'hello' >t/r/f/greeting

# ---- the lines ----
ok "a row that does not exist: mkdir" mkdir t/new
ok "  and a mutation, by one printf" bash -c "printf 'set f:a\tv1\nset f:b@5\tx\\\\ty\\\\n\nset g:\tempty\nincrement c:n\t5\ncommit\n' >t/new/.mutate"
is "$(cat t/new/f/a t/new/f/b@5 t/new/g/@ t/new/c/n | od -c -An | tr -d ' \n')" 'v1x\ty\nempty5\n' "  stores every cell"
ok "several writes through one open" bash -c '{ printf "append f:greeting\t, world\n"; printf "set f:later\tx\n"; echo commit; } >t/r/.mutate'
is "$(cat t/r/f/greeting):$(cat t/r/f/later)" "hello, world:x" "  are one mutation"
ok "a last line without a newline" bash -c 'printf "set f:nonl\t1\ncommit" >t/r/.mutate'
is "$(cat t/r/f/nonl)" 1 "  counts"
ok "a close without commit" bash -c 'printf "set f:no\t1\n" >t/r/.mutate'
ok "  applies nothing" test ! -e t/r/f/no
[ -n "$MODEL" ] || soon "grep -c '/t/r/.mutate: it was closed without a line commit: nothing is applied' .tabletfs/log" 1 "  which the log says"
printf 'delete f:greeting@%s\ndelete g:\ndelete f:later\ncommit\n' "$(basename "$(find t/r/f/ -name 'greeting@*' | sort | tail -n 1)" | sed 's/.*@//')" >t/r/.mutate
is "$(cat t/r/f/greeting):$(ls t/r/f)" "hello:$(cd t/r/f && printf '%s\n' greeting@* nonl@*)" "deletes of a version and a column"
printf 'set f:x\\x401\tat\nset f:a\\tb\ttab\ncommit\n' >t/r/.mutate
is "$(cat t/r/f/x%401 t/r/f/a%09b)" "attab" "escapes in qualifiers"
printf 'delete f:@\ndelete f:x\\x401\ncommit\n' >t/r/.mutate
ok "  and in deletes" test ! -e t/r/f/x%401 -a -e t/r/f/a%09b
printf 'check f:nonl\t1\ncheck-absent f:no\ncheck-match f:greeting\thel+o\ndelete row\ncommit\n' >t/r/.mutate
ok "checks that hold, and a delete of the row" test ! -e t/r
is "$(ls t)" new "  of which nothing is listed"
mkdir t/r
printf 'delete row\nset f:only\tone\ncommit\n' >t/new/.mutate
is "$(ls t/new):$(cat t/new/*/*)" "f:one" "delete row and set: the row is replaced"

# ---- refusals ----
py <<'EOF2'
from tap import *
import re
T = M + "/t"
R = T + "/refused"
os.makedirs(R + "/f")
spill(R + "/f/q", b"v")

def attempt(*texts, row=R):
    """The results of the writes through one descriptor, and what it reads then."""
    fd = os.open(row + "/.mutate", os.O_RDWR)
    try:
        return [errno_of(lambda: os.write(fd, t) and None) for t in texts], os.pread(fd, 4096, 0).decode()
    finally:
        os.close(fd)

def log():
    return slurp(M + "/.tabletfs/log").decode().splitlines()

for text, number, why in [
    (b"check f:q\tother\n", "ECANCELED", "line 2: check f:q: its newest version has another value"),
    (b"check f:none\t\n", "ECANCELED", "line 2: check f:none: "),
    (b"check-absent f:q\n", "ECANCELED", "line 2: check-absent f:q: there is a version"),
    (b"check-match f:q\t[a-c]\n", "ECANCELED", "line 2: check-match f:q: its newest version does not match"),
    (b"check-match f:q\t(\n", "EINVAL", "line 2: check-match f:q: not a regular expression"),
    (b"increment f:q\t1\n", "EINVAL", "line 2: increment f:q: its newest version is not a decimal number"),
    (b"increment c:n\t1x\n", "EINVAL", "line 2: the value is not a number"),
    (b"set c:n\tone\n", "EINVAL", "line 2: a counter is set to one decimal number"),
    (b"append c:n\t1\n", "EINVAL", "line 2: a counter"),
    (b"set none:q\tv\n", "EINVAL", "line 2: the table has no such family"),
    (b"set f:q v\n", "EINVAL", "line 2: a tab and the value are missing"),
    (b"delete f:q\tv\n", "EINVAL", "line 2: this verb takes no value"),
    (b"append f:q@1\tv\n", "EINVAL", "line 2: this verb takes no timestamp"),
    (b"set f:q@99999999999999999999\tv\n", "EINVAL", "line 2: the timestamp"),
    (b"set f:q\ta\\z\n", "EINVAL", "line 2: a backslash in the value"),
    (b"set f:\\x0\tv\n", "EINVAL", "line 2: a backslash in the qualifier"),
    (b"set f:" + b"q" * 16385 + b"\tv\n", "EINVAL", "line 2: a qualifier is at most"),
    (b"set q\tv\n", "EINVAL", "line 2: FAMILY:QUALIFIER is missing"),
    (b"frobnicate f:q\n", "EINVAL", "line 2: it begins with no verb"),
    (b"\n", "EINVAL", "line 2: it begins with no verb"),
]:
    before = len(log())
    got, answer = attempt(b"set f:new\tx\n" + text + b"commit\n", b"set f:q\ty\n", b"commit\n")
    same(got, [number] * 3, "%r and the writes after it: %s" % (text[:30], number))
    ok(answer.startswith("refused\t" + why) and answer.count("\n") == 1, "  the descriptor reads the reason: %r" % answer[:100])
    ok(len(log()) == before + 1 and why in log()[-1], "  the log has one line with it")
got, answer = attempt(b"set f:new\tx\ncommit\nset f:more\tx\n")
same(got, ["EINVAL"], "text behind commit")
got, answer = attempt(b"set f:done\tx\ncommit", b"\n", b"set f:more\tx\n")
same(got, ["0", "0", "EINVAL"], "  in a later write, which changes nothing any more")
same(sorted(n.split("@")[0] for n in os.listdir(R + "/f")), ["done", "q"], "nothing else was applied")
got, answer = attempt(b"check-match f:q\t((v|vv)+)+\nset f:q\t" + b"v" * 60 + b"w\ncommit\n")
same(got, ["0"], "a pattern that could take long, on a short value")
got, answer = attempt(b"check-match f:q\t((v|vv)+)+\ncommit\n")
same(got, ["ETIME"], "  and on a long one")

os.mkdir(T + "/made")
got, answer = attempt(b"set f:a\tx\ncheck f:a\ty\ncommit\n", row=T + "/made")
same((got, os.listdir(T + "/made"), slurp(T + "/.scan/prefix=made/.count")), (["ECANCELED"], [], b"rows\t0\ncells\t0\n"), "after a refusal a new row is an empty directory")
os.rmdir(T + "/made")
same(os.path.exists(T + "/made"), False, "  which rmdir removes")

# ---- results ----
os.makedirs(T + "/r2/f")
spill(T + "/r2/f/q", b"ab")
got, answer = attempt(b"set f:a\t1\nset f:b@7\t2\nappend f:q\tcde\nincrement c:n\t41\nincrement c:n\t1\ndelete f:z\ncheck f:q\tab\ncommit\n", row=T + "/r2")
lines = answer.splitlines()
ok(re.fullmatch(r"set f:a@\d+", lines[0]) and os.path.exists(T + "/r2/f/" + lines[0][6:]), "set: its timestamp")
same(lines[1], "set f:b@7", "  which may be given")
ok(re.fullmatch(r"append f:q@\d+\t5", lines[2]), "append: the size of the value")
ok(re.fullmatch(r"increment c:n@\d+\t41", lines[3]) and re.fullmatch(r"increment c:n@\d+\t42", lines[4]), "increment: the value")
same(lines[5:7], ["delete f:z", "check f:q"], "delete and check")
ok(re.fullmatch(r"committed \d+", lines[7]) and len(lines) == 8, "the time of commit")
fd = os.open(T + "/r2/.mutate", os.O_RDWR)
same(os.read(fd, 10), b"", "before a commit nothing is read")
os.write(fd, b"set f:a@9\tx\ncommit\n")
same(os.read(fd, 10) + os.read(fd, 100)[:10], b"set f:a@9\ncommitted ", "after it the result, in pieces")
os.close(fd)

# ---- long mutations, which the kernel splits ----
value = bytes(range(256)) * 4096 * 3
escaped = b"".join(b"\\x%02x" % b for b in range(256)) * 4096 * 3
spill(T + "/r2/.mutate", b"set f:big\t" + escaped + b"\nset f:small\tx\ncommit\n", os.O_WRONLY)
same(slurp(T + "/r2/f/big"), value, "a value of 3 MiB, each byte escaped")
many = b"".join(b"set f:m%05d\tv%d\n" % (i, i) for i in range(65536))
spill(T + "/r2/.mutate", many + b"commit\n", os.O_WRONLY)
same(len([n for n in os.listdir(T + "/r2/f") if n.startswith("m")]), 65536, "65,536 lines")
fd = os.open(T + "/r2/.mutate", os.O_WRONLY)
got = [errno_of(lambda: os.write(fd, b"set f:q\t" + b"x" * (1 << 20) + b"\n") and None) for i in range(130)]
same(got[-1], "EFBIG", "more than 128 MiB")
same(got.count("0"), 127, "  at the limit")
os.close(fd)

# ---- open files, and the kernel's copies ----
os.makedirs(T + "/r3/f")
spill(T + "/r3/f/q@1", b"old")
spill(T + "/r3/f/k", b"kept")
reader = os.open(T + "/r3/f/q@1", os.O_RDONLY)
plain = os.open(T + "/r3/f/k", os.O_RDONLY)
writer = os.open(T + "/r3/f/k", os.O_WRONLY)
os.listdir(T + "/r3/f")
os.stat(T + "/r3/f/q@1")
spill(T + "/r3/.mutate", b"delete f:q@1\ndelete f:k\nset f:fresh@3\tx\ncommit\n", os.O_WRONLY)
same((os.pread(reader, 10, 0), os.pread(plain, 10, 0)), (b"old", b"kept"), "files that were open keep their bytes")
err("ESTALE", "  a writer of a removed column is told so", os.write, writer, b"lost")
err("ESTALE", "  when it closes, too", os.close, writer)
same(os.listdir(T + "/r3/f"), ["fresh@3"], "  a listing is current, and the writer has stored nothing")
err("ENOENT", "  a removed name is not found", os.stat, T + "/r3/f/q@1")
spill(T + "/r3/.mutate", b"set f:fresh@3\tlonger\ncommit\n", os.O_WRONLY)
same((os.stat(T + "/r3/f/fresh@3").st_size, slurp(T + "/r3/f/fresh@3"), slurp(T + "/.latest/r3/f/fresh")), (6, b"longer", b"longer"),
    "a replaced version has its new size and bytes")
spill(T + "/.latest/r3/.mutate", b"set f:fresh\tnewer\ncommit\n", os.O_WRONLY)
same(slurp(T + "/r3/f/fresh"), b"newer", ".latest has the same files")
for fd in (reader, plain):
    os.close(fd)
err("EPERM", "it cannot be removed", os.unlink, T + "/r3/.mutate")
err("EPERM", "  or renamed", os.rename, T + "/r3/.mutate", T + "/r3/.x")
ok(".mutate" not in os.listdir(T + "/r3"), "  and is not listed")

# ---- atomic: a compare and set by many processes ----
procs, rounds = 4, 50
spill(T + "/r3/f/total", b"0")
start = time.monotonic()
kids = []
for i in range(procs):
    pid = os.fork()
    if pid:
        kids.append(pid)
        continue
    done = 0
    while done < rounds:
        old = slurp(T + "/r3/f/total")
        fd = os.open(T + "/r3/.mutate", os.O_WRONLY)
        try:
            os.write(fd, b"check f:total\t%s\nset f:total\t%d\nset g:twin\t%d\ncommit\n" % (old, int(old) + 1, int(old) + 1))
            done += 1
        except OSError as e:
            if e.errno != errno.ECANCELED:
                os._exit(1)
        os.close(fd)
    os._exit(0)
same([os.waitpid(k, 0)[1] for k in kids], [0] * procs, "%d processes compare and set" % procs)
same((slurp(T + "/r3/f/total"), slurp(T + "/r3/g/twin")), (b"200", b"200"), "  none of them lost an update")
EOF2
# ---- tabletctl ----
table=$M/t
ctl() { t "$TABLETCTL" "$@"; }
ok "put: a row that does not exist" ctl put "$table" com.cnn.www f:html 'a	b'
is "$(cat "$table/com.cnn.www/f/html")" "a	b" "  the value"
ok "  standard input, at a timestamp" bash -c "head -c 300000 /dev/zero | '$TABLETCTL' put '$table' com.cnn.www f:zeros@7 -"
same "$table/com.cnn.www/f/zeros@7" <(head -c 300000 /dev/zero) "  the value"
ok "  a key of any bytes" ctl put "$table" '.a/b\x00%\\' 'f:q\t@1\x401' v/
is "$(cat "$table/%2Ea%2Fb%00%25\\/f/q%09@1%401")" v/ "  has its name"
long=$(printf 'k%.0s' {1..60000})
ok "  a key of 60,000 bytes" ctl put "$table" "$long" f:q v
is "$(ctl increment "$table" "$long" c:n)$(ctl increment "$table" "$long" c:n -5)" "1-4" "increment prints the number"
ok "delete: a version" ctl delete "$table" com.cnn.www f:zeros@7
is "$(ls "$table/com.cnn.www/f" | grep -c zeros)" 0 "  is removed"
ok "  a column, a family, a row" bash -c "'$TABLETCTL' delete '$table' com.cnn.www f:html && '$TABLETCTL' delete '$table' r2 f: && '$TABLETCTL' delete '$table' $long"
is "$(ls "$table/com.cnn.www" "$table/r2/f" | grep -c @):$(ls "$table" | grep -c k%)" "0:0" "  are removed"
like "$(printf 'set f:a\t1\nincrement c:n\t2' | ctl mutate "$table" r2 | tr '\n' ' ')" '^set f:a@[0-9]+ increment c:n@[0-9]+.44 committed [0-9]+ $' "mutate prints the results"
printf 'check f:a\t2\nset f:a\t3\ncommit\n' >"$W/lines"
ctl mutate "$table" r2 "$W/lines" 2>"$W/said"
is "$?:$(cat "$W/said")" "1:tabletctl: $table: r2: line 1: check f:a: its newest version has another value, or there is none" "a check that fails: 1"
ctl mutate "$table" absent "$W/lines" 2>"$W/said"
is "$?:$(ls "$table" | grep -c absent)" "1:0" "  leaves no directory of an absent row"
ctl mutate "$table" absent </dev/null >"$W/said"
is "$?:$(cat "$W/said"):$(ls "$table" | grep -c absent)" "0:committed 0:0" "  nor does an empty mutation"
ctl mutate "$table" absent <<<"delete f:q" >/dev/null
is "$?:$(ls "$table" | grep -c absent)" "0:0" "  nor one that deletes nothing"
racer() { for _ in {1..30}; do printf "$1" | ctl mutate "$table" raced >/dev/null 2>&1; echo $?; done; }
racers=$(for i in 1 2 3 4; do racer 'check f:q\tnever\n' & racer 'check-absent f:q\n' & done; wait)
is "$(sort <<<"$racers" | uniq -c | tr -s ' \n' ' '):$(ls "$table" | grep -c raced)" " 120 0 120 1 :0" "  nor do processes that make and remove it at the same time"
code() { ctl "$@" >"$W/said" 2>&1 </dev/null; echo $?; }
codes() {
	local column
	for column in f :q 'f:\q' f:q@99999999999999999999 'no such:q' '../r2/f:a' $'f:q\n'; do code "$@" "$column"; done | tr -d '\n'
}
is "$(code put "$table" r2)$(code put "$table" '\q' f:q v)$(code delete "$table" r2 f)$(code nosuch)$(code increment "$table" r2 f:q x)" 22222 "bad usage: 2"
is "$(codes put "$table" r2):$(codes delete "$table" r2):$(codes increment "$table" r2):$(codes get "$table" r2)" 2222222:2222222:2222222:2222222 "  a column that is none"
code mutate "$table" r2 <(echo 'set f:q') >"$W/code"
is "$(cat "$W/code" "$W/said")" "2
tabletctl: mutate: line 1: a tab and the value are missing; see 'tabletctl mutate -h'" "  a line that is none"
is "$(code scan --limit x "$table")$(code count --row '(' "$table")$(code get --since never "$table" r2)$(code scan --prefix '\q' "$table")$(code get "$table" '\q')" 22222 "  a clause or a row that is none"
is "$(code put "$table" r2 none:q v)$(code put "$M" r2 f:q v)$(code put "$W/none" r2 f:q v)$(code put "$table" r2 c:n one)" 3333 "other errors: 3"
is "$(code scan "$W/none")$(code count "$M")$(code get "$W/none" r2)$(code get "$W/none" r2 f:q)" 3333 "  a table that is none"
is "$(code get "$table" r2 f:none)$(code get "$table" none)$(code get "$table" r2 none:q)" 111 "nothing to print: 1"
is "$(ctl put "$table" r2 f: empty && ctl get "$table" r2 f:@ && ctl get "$table" r2 f:)" emptyempty "the empty qualifier"

# ---- flock on a row's directory ----
mkdir -p "$table/locked/f"
echo 0 >"$table/locked/f/n"
worker='for i in $(seq 40); do
	flock "$0/locked" bash -c "n=\$(cat $0/locked/f/n); echo \$((n + 1)) >$0/locked/f/n; [ $1 != a ] || [ \$((n % 5)) != 0 ] || printf \"delete row\\nset f:n\\t\$((n + 1))\\ncommit\\n\" >$0/locked/.mutate"
done'
for who in a b c; do t bash -c "$worker" "$table" $who & pids="${pids:-} $!"; done
# shellcheck disable=SC2086
wait $pids
is "$(cat "$table/locked/f/n")" 120 "flock on a row serialises read, change and write by three processes, while the row is replaced"
exec 9<"$table/locked"
ok "  a process holds the lock" flock -n 9
is "$(flock -n "$table/locked" echo taken)" "" "  another does not get it"
ok "  other rows are free" flock -n "$table/r3" true
exec 9<&-
ok "  when the descriptor is closed, it is free" flock -n "$table/locked" true

cd / || exit 1
remount
is "$(cat "$M/t/r2/f/a"):$(cat "$M/t/r3/f/total")" "1:200" "all of it is there after a remount"
unmount_store
mount_store -o ro
fails "a read-only mount" "Read-only file system" bash -c "echo commit >$M/t/r2/.mutate"
done_testing

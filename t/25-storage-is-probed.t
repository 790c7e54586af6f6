#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletctl probe: a directory of this machine is safe; one with a flock that
# excludes nothing is not; what cannot be tried is an error.  No file is left,
# also after ^C.  (t/unit/test_probe has storage that is wrong in other ways.)
# A store on FUSE is opened if the storage is safe, and else refused with the
# reason; on a local disk it is not probed.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1

cd "$W" || exit 1
export TABLETCTL
mkdir one other read
ln -s one same
${CC:-cc} -shared -fPIC -O2 -o flock.so -x c - -ldl <<'C' || cannot_run "there is no C compiler"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
int flock(int fd, int operation)
{
	if (!getenv("SLOW"))
		return 0;
	usleep(20000);
	return ((int (*)(int, int))dlsym(RTLD_NEXT, "flock"))(fd, operation);
}
C

# probed WANTED DESC DIRECTORY DIRECTORY [VARIABLE=VALUE...]
probed() {
	local wanted=$1 what=$2 one=$3 other=$4
	shift 4
	t env "$@" "$TABLETCTL" probe "$one" "$other" >out 2>err
	is $? "$wanted" "$what"
	is "$(ls one other)" "$(printf 'one:\n\nother:')" "  no file is left"
}
probed 0 "one directory twice is safe" one one
like "$(cat out)" '^one: safe after [0-9]+ tries in [0-9]+ rounds$' "  it says so"
probed 0 "two paths of it are safe" one same/
probed 1 "a flock that excludes nothing" one same LD_PRELOAD="$W/flock.so"
like "$(cat out)" '^unsafe: flock does not exclude the other side: ([0-9]+) of [0-9]+ tries, the first at [^ ]*/probe-[0-9a-f]+/[0-9]+-lock: it succeeds: this storage cannot be used$' "  the line names it"
like "$(tail -n 1 out)" '^same: not safe .* after [0-9]+ tries in [0-9]+ rounds$' "  the last line is the summary"
is "$(wc -l <out)" 2 "  there is no other line"
probed 2 "two directories" one other
is "$(cat err)" "tabletctl: other: shows no file that is made in the other directory" "  the message"
probed 2 "no directory" one none
is "$(cat err)" "tabletctl: none: No such file or directory" "  the message"
probed 2 "one argument" one ""
t "$TABLETCTL" probe one >out 2>err
is $? 2 "  none"
probed 2 "a directory without a write" /proc /proc

py <<'PY'
import os
from tap import *
from terminal import Terminal
p = Terminal("/usr/bin/env", "SLOW=1", "LD_PRELOAD=" + os.getcwd() + "/flock.so", os.environ["TABLETCTL"], "probe", "one", "same")
ok(p.until(rb"\r\x1b\[Kprobed [1-9][0-9.]* [KM]iB, .*/s, about \d+ (s|min) left"), "the progress, on a terminal")
same(p.interrupt(), 130, "  ^C ends it")
ok(b"tabletctl: probe: interrupted: no file is left" in p.text, "  with a message")
same(os.listdir("one"), [], "  no file is left")
PY

# ---- at a start ----
# with_fuse FAULT WANTED DESC: opens a store on a FUSE file system.
with_fuse() {
	local fault=$1 wanted=$2 what=$3 pid
	mkdir -p under over
	./pass_fuse "$PWD/under" "$PWD/over" "$fault" 2>fuse.log &
	pid=$!
	until mountpoint -q over || ! kill -0 $pid 2>/dev/null; do :; done
	mountpoint -q over || { kill $pid; wait $pid; skip "$what" "FUSE cannot be mounted: $(head -n 1 fuse.log)"; return; }
	t "$BUILD/t/lib/fill" over/store write 10 >out 2>err
	is $? "$wanted" "$what"
	is "$(find under -name 'probe*')" "" "  no file of the probe is left"
	fusermount3 -u over || umount over
	wait $pid
}
# shellcheck disable=SC2046
if ${CC:-cc} -O2 -o pass_fuse "$SRC/t/lib/pass_fuse.c" $(pkg-config --cflags --libs fuse3) 2>cc.log; then
	with_fuse "" 0 "a store on a FUSE file system that is safe"
	with_fuse no-lock 3 "where flock excludes nothing, it is refused"
	like "$(cat err)" ': over/store: this storage is not safe: flock does not exclude the other side: .*: this storage cannot be used$' "  with the reason"
	with_fuse "" 0 "  and it is opened where it is safe"
	with_fuse no-sync 3 "where a directory cannot be synced, it is refused"
else
	skip "a store on FUSE" "pass_fuse.c cannot be compiled: $(head -n 1 cc.log)"
fi
strace -f -e trace=mkdir,mkdirat -o calls "$BUILD/t/lib/fill" local write 10 2>/dev/null || true
if [ -s calls ]; then
	is "$(grep -c probe- calls)" 0 "a local disk is not probed"
else
	skip "a local disk is not probed" "there is no strace"
fi
done_testing

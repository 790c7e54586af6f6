#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletctl probe: a directory of this machine is safe; one with a flock that
# excludes nothing is not; what cannot be tried is an error.  No file is left,
# also after ^C.  (t/unit/test_probe has storage that is wrong in other ways.)
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
like "$(cat out)" '^unsafe: flock does not exclude the other side: ([0-9]+) of [0-9]+ tries, the first at same/probe-[0-9a-f]+/[0-9]+-lock: it succeeds: this storage cannot be used$' "  the line names it"
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
done_testing

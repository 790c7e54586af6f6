#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# If the clock of ZooKeeper is an hour off, each server logs one line, and nothing else happens.  A server whose own clock is an hour off
# serves nothing and ends after 20 s.  A master whose clock is off follows the servers'.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
[ -z "${SANITIZED:-}" ] || skip_all "sanitizers want to be loaded first"
read -ra cc <<<"${CC:-cc}" # "ccache gcc" is two words
has "${cc[0]}" || cannot_run "no C compiler"
ok "the library that moves the clock" "${cc[@]}" -shared -fPIC -O2 -o "$W/fake_clock.so" "$SRC/t/lib/fake_clock.c"
mkdir "$W/clocks"
FAKE_CLOCK=$W/clocks/ LD_PRELOAD=$W/fake_clock.so cluster_mounted
fake() { printf '%-20d %-20d\n' "$2" 0 1<>"$W/clocks/$(process "$1")"; } # NAME SECONDS
says() { grep -c "$2" "$C/$1.log"; }                                    # NAME TEXT: in how many lines
all_say() { local n; for n in 1 2 3; do [ "$(says server$n "$1")" = "$2" ] || return; done; }
is "$(cat "$C"/server*.log | grep -c 'clock')" 0 "no server of a new cluster doubts its clock"
ok "a loop appends lines" begin_loop
before=$(cat "$C/processes")
times=0
for off in 3600 -3600; do
	fake zookeeper1 $off
	times=$((times + 1))
	ok "the clock of ZooKeeper is set by $off s: each server has a line" wait_for "the lines" all_say "the clock of the lock service alone" $times
	hold 22 # a server whose clock is wrong ends after 20 s
	is "$(cat "$C/processes")" "$before" "  no process ends"
	is "$(cat "$C"/server*.log | grep -c 'serves nothing')" 0 "  none stops serving"
	ok "  the loop goes on" goes_on
	ok "  a table can be made" t mkdir "$M/of$times"
done
fake zookeeper1 0
fake master1 3600
ok "the clock of the master is wrong: it has a line" wait_for "the line" grep -q "the clock of this master alone" "$C/master1.log"
ok "  a table can be made" t mkdir "$M/now"
end_loop
name=$(busiest) was=$(process "$(busiest)")
fake "$name" 3600
ok "the clock of $name is wrong: it has a line" wait_for "the line" grep -q "this server serves nothing" "$C/$name.log"
ok "  it ends" wait_for "its end" is_replaced "$name" "$was"
like "$(cat "$C/$name.log")" "its clock was wrong for 20 seconds, and another server's is right" "  because its clock was wrong"
ok "  its tablets are served" sh -c "echo x >'$M/t/r/f/new' && cat '$M/t/r/f/new'"
ok "all servers serve" all_serve
end_cluster

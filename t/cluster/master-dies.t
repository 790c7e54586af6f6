#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The death of the master is not seen: rows are read and written without one.  A table that is made meanwhile waits for the next master.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
cluster_mounted
ok "a loop appends lines" begin_loop
was=$(process master1)
ok "the master is killed" ctl cluster kill master1 "$C"
ok "  a table can be made" t mkdir "$M/t2"
ok "  by the next one" is_replaced master1 "$was"
ok "  the loop goes on" goes_on
was=$(process master1)
kill -STOP "$was"
ok "the master is stopped: the loop goes on" goes_on
wait_for "the end of its term" eval "! listed | grep -q master" || fail "its term ends"
mkdir "$M/t3" 2>"$W/mkdir.err" &
making=$!
hold 10
ok "  a table waits" runs $making
ok "  the loop goes on" goes_on
kill -CONT "$was"
ok "  the master ends when it continues" wait_for "the next master" is_replaced master1 "$was"
wait $making
is $? 0 "  the table is made"
ok "  and used" sh -c "mkdir -p '$M/t3/r/f' && echo x >'$M/t3/r/f/c' && cat '$M/t3/r/f/c'"
diag <"$W/mkdir.err"
end_loop
end_cluster

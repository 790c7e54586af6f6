#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A server is stopped and answers nobody.  A chmod and a mkdir of a table at that moment wait for its session and no longer, and
# another mount gets the new mode.  (A mount that is late on a busy machine is disconnected, and gets the mode when it sees that.)
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=240
cluster_mounted
mount_second || fail "a second mount"
is "$(t stat -c %a "$M2/t/r/f/c")" "644" "the second mount has the mode"
# The one that has METADATA would hold up the request before servers are asked.
name=$(busiest)
for other in server1 server2 server3; do [ $other = "$name" ] || name=$other; done
was=$(process "$name")
signal "$name" STOP
ok "$name is stopped: a chmod returns" t chmod 750 "$M/t"
ok "  the other mount gets the new mode" wait_for "the new mode" eval '[ "$(stat -c %a "$M2/t")" = 750 ]'
ok "  a mkdir returns" t mkdir -p "$M/t2/r/f"
ok "  and what it made is there" t test -d "$M2/t2"
kill -CONT "$was"
ok "  it ends when it continues" wait_for "its end" is_replaced "$name" "$was"
ok "all servers serve" all_serve
end_cluster

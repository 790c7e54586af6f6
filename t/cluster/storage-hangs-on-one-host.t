#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# If the shared directory hangs on one host, its server ends after 20 s, and a server of another host serves its tablets.  No
# acknowledged line is lost.  The master on that host gives up, too.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
. "$SRC/t/lib/pass.sh"
mkdir -p "$C/data"
carry "$C/data" "$W/other" no-cache
SERVERS=2 cluster_mounted --servers 2
z=$(awk '/^zookeeper1/ { print $2 }' "$C/members")
on_other_host() { # PROGRAM: sets started
	"$1" -f -o "listen=127.0.0.1:$(free_port),keys=$C/local.cluster.keys" "zk://$z/local" "$W/other" >"$W/other.out" 2>&1 </dev/null &
	started=$!
}
ends() { # PROCESS
	ok "  the process of that host ends" wait_for "its end" eval "[ \"\$(ps -o stat= -p $1 | cut -c1)\" = Z ] || grep -q 'this process ends' '$W/other.out'"
	kill -CONT "${passes[0]}"
	wait "$1"
	is $? 3 "  its status"
}

on_other_host "$SERVER"
ok "a server of another host" all_serve 3
first=$(process server1)
second_=$(process server2)
ok "it gets all tablets, because the others die" kill -KILL "$first" "$second_"
replaced_serve() { is_replaced server1 "$first" && is_replaced server2 "$second_" && [ "$(serving)" = 3 ]; }
ok "  which serve again" wait_for "three servers" replaced_serve
ok "a loop appends lines" begin_loop
kill -STOP "${passes[0]}"
ok "the storage hangs on that host: the loop goes on" goes_on
ends "$started"
like "$(cat "$W/other.out")" "its storage did not answer for 20 seconds, and another server's does" "  its line says why"

on_other_host "$BUILD/tabletfs-master"
first=$(process master1)
kill -STOP "$first"
ok "a master of that host leads" wait_for "the master" grep -q "the master of the cluster is at" "$W/other.out"
kill -CONT "$first"
ok "  the former one waits" wait_for "its end" is_replaced master1 "$first"
kill -STOP "${passes[0]}"
kill -KILL "$(process "$(busiest)")"
ok "the storage hangs on that host, and a server dies: the loop goes on" goes_on
ends "$started"
like "$(cat "$W/other.out")" "the storage did not answer for 20 seconds, and that of a server does" "  its line says why"
end_loop
end_cluster

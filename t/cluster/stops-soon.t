#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A cluster that is stopped just after the death of a server or of the master ends soon: its last server does not wait for METADATA that
# no server serves any more.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
cluster_mounted
stop_after() { # NAME: kills it
	local since=$SECONDS
	for table in a b c; do t mkdir -p "$M/$table/r/f" && echo x >"$M/$table/r/f/c" || fail "rows"; done
	ok "$1 is killed" ctl cluster kill "$1" "$C"
	t fusermount3 -u "$M"
	wait_daemon
	ok "  the cluster is stopped" ctl cluster stop "$C"
	wait "$server"
	server=
	diag <<<"$((SECONDS - since)) s"
	[ $((SECONDS - since)) -lt 25 ]
	is $? 0 "  soon"
	ok "  and starts again" start_cluster
	mount_cluster
	is "$(cat "$M"/{a,b,c}/r/f/c | tr -d '\n')" xxx "  with its rows"
	for table in a b c; do rm -r "$M/$table/r" && rmdir "$M/$table"; done
}
stop_after "$(busiest)"
ok "its servers serve" all_serve
stop_after master1
end_cluster

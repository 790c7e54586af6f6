#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The marker of the directory is missing, as if its file system were not mounted: the servers and the master end with status 3.  When it is
# back, they serve all that was acknowledged.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=240
cluster_mounted
mv "$C/data/cluster" "$C/data/away"
for name in master1 server1 server2 server3; do
	ok "$name ends with status 3" wait_for "its end" grep -q "cluster: $name has ended (status 3)" "$W/cluster.err"
done
like "$(cat "$C/master1.log")" "the directory is not the cluster's any more: this process ends" "the master says why"
like "$(cat "$C"/server*.log)" "the store's marker is missing" "  and so do the servers"
mv "$C/data/away" "$C/data/cluster"
ok "the marker is back: all servers serve" all_serve
is "$(t cat "$M/t/r/f/c")" "one" "  what was acknowledged"
ok "  and take more" t dd of="$M/t/r/f/c" conv=fsync status=none <<<two
end_cluster

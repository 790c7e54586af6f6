#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# While ZooKeeper is gone for longer than a mount's timeout, the mount's calls fail with EIO.  They work again when it is back, and no other
# process has ended.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
cluster_mounted
mkdir "$M/t/r2" "$M/t/r2/f"
ok "a second mount, with a timeout of 5 s" mount_second -o timeout=5s
before=$(grep -v zookeeper "$C/processes")
kill -STOP "$server" # or it would start ZooKeeper again
signal zookeeper1 KILL
hold 4
fails "a write fails" "Input/output error" sh -c "echo two >'$M2/t/r/f/d'"
fails "  and a read of another cell" "Input/output error" cat "$M2/t/r/f/c"
hold 10
kill -CONT "$server"
ok "ZooKeeper is back: writes work" wait_for "writes" sh -c "echo two >'$M2/t/r/f/d'"
is "$(cat "$M2/t/r/f/c" "$M2/t/r/f/d")" "one
two" "  reads, too"
ok "all servers serve" all_serve
is "$(grep -v zookeeper "$C/processes")" "$before" "no process has ended"
end_cluster

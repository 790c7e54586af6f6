#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# When the shared storage is full, puts fail with ENOSPC, and rm and a restart of servers work.  With space again, puts work.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
mkdir -p "$C/data"
mount -t tmpfs -o size=192m,mode=700 tmpfs "$C/data" 2>"$W/mount.err" || cannot_run "a tmpfs cannot be mounted"
trap 'umount -l "$C/data"; clean_up' EXIT
cluster_mounted
reserves() { (cd "$C/data" && echo ballast.* | tr ' ' '\n' | sort); }
of_servers() { listed | awk '$5 == "SERVING" { print "ballast." $2 }' | sort; }
own_reserves() { [ -n "$(of_servers)" ] && [ "$(reserves)" = "$(of_servers)" ]; }
ok "each server has a reserve of its own" wait_for "the reserves" own_reserves
head -c 4000000 /dev/urandom >"$W/bytes"
n=0
while [ $n -lt 200 ] && cp "$W/bytes" "$M/t/r/f/big$n" 2>"$W/cp.err"; do n=$((n + 1)); done
like "$(cat "$W/cp.err")" "No space left on device" "a put fails with ENOSPC after $n files"
head -c 200000000 /dev/zero >"$C/data/other" 2>/dev/null
fails "  also while no space is left" "No space left on device" cp "$W/bytes" "$M/t/r/f/more"
ok "a cell can be read" cat "$M/t/r/f/c"
ok "a cell can be removed" rm "$M/t/r/f/big0"
name=$(busiest) was=$(process "$(busiest)")
ok "$name is killed" ctl cluster kill "$name" "$C"
ok "  and starts" wait_for "its successor" is_replaced "$name" "$was"
ok "  all servers serve" all_serve
ok "  a cell can be read" cmp "$W/bytes" "$M/t/r/f/big1"
is "$(cat "$M/t/r/f/big0" 2>&1 | grep -c 'No such file')" 1 "  the removed cell is absent"
rm "$C/data/other"
mount -o remount,size=600m "$C/data"
ok "with space again, a put works" wait_for "a put" cp "$W/bytes" "$M/t/r/f/more"
ok "  and is there" cmp "$W/bytes" "$M/t/r/f/more"
end_cluster

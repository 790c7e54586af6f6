#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# If the shared directory hangs for every server for 40 s, none ends, and all continue.  (If it hangs on one
# host: storage-hangs-on-one-host.)
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
. "$SRC/t/lib/pass.sh"
carry "$W/disk" "$C/data"
cluster_mounted
ok "a loop appends lines" begin_loop
before=$(cat "$C/processes")
kill -STOP "${passes[0]}"
hold 40 # twice as long as a server waits
is "$(cat "$C/processes")" "$before" "the storage hangs for all: no process ends"
kill -CONT "${passes[0]}"
ok "  all continue" goes_on
ok "  all servers serve" all_serve
is "$(cat "$C/processes")" "$before" "  no process has ended"
end_loop
end_cluster

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# If the shared directory hangs for every server for 40 s, none ends, and all continue.  (t/sim: if it hangs for one server, that server
# ends after 20 s.)
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
read -ra cc <<<"${CC:-cc}" # "ccache gcc" is two words
has "${cc[0]}" && pkg-config --exists fuse3 || cannot_run "no C compiler, or no libfuse3-dev"
read -ra fuse <<<"$(pkg-config --cflags --libs fuse3)"
ok "a file system that shows a directory" "${cc[@]}" -O2 -o "$W/pass_fuse" "$SRC/t/lib/pass_fuse.c" "${fuse[@]}"
passes=()
carry() { # FROM TO
	mkdir -p "$1" "$2"
	"$W/pass_fuse" "$1" "$2" >"$W/pass.out" 2>&1 </dev/null &
	passes+=($!)
	wait_for "the file system" mounted "$2" || cannot_run "FUSE cannot mount"
}
end_passes() { # keeps the exit status for clean_up
	local status=$? p
	for p in "${passes[@]}"; do kill -CONT "$p" 2>/dev/null; done
	umount -l "$C/data" 2>/dev/null
	for p in "${passes[@]}"; do kill "$p" 2>/dev/null; done
	return $status
}
trap 'end_passes; clean_up' EXIT
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

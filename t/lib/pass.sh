# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A directory that hangs: sourced by tests of storage that does not answer.
#
#	carry FROM TO [FAULT]   mounts FROM at TO through a process of its own (pass_fuse.c), whose number is the last of "${passes[@]}".
#	                        While that process is stopped, TO hangs
read -ra cc <<<"${CC:-cc}" # "ccache gcc" is two words
has "${cc[0]}" && pkg-config --exists fuse3 || cannot_run "no C compiler, or no libfuse3-dev"
read -ra fuse <<<"$(pkg-config --cflags --libs fuse3)"
ok "a file system that shows a directory" "${cc[@]}" -O2 -o "$W/pass_fuse" "$SRC/t/lib/pass_fuse.c" "${fuse[@]}"
passes=()
carried=()
carry() {
	mkdir -p "$1" "$2"
	"$W/pass_fuse" "$@" >"$W/pass.out" 2>&1 </dev/null &
	passes+=($!)
	carried+=("$2")
	wait_for "the file system" mounted "$2" || cannot_run "FUSE cannot mount"
}
end_passes() { # keeps the exit status for clean_up
	local status=$? p
	for p in "${passes[@]}"; do kill -CONT "$p" 2>/dev/null; done
	for p in "${carried[@]}"; do umount -l "$p" 2>/dev/null; done
	for p in "${passes[@]}"; do kill "$p" 2>/dev/null; done
	return $status
}
trap 'end_passes; clean_up' EXIT

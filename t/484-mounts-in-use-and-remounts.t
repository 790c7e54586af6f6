#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A mount on a mount point that is in use is refused, and mount -o remount changes what the kernel can, or says in one
# line what cannot change.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model is another program"
[ "$(id -u)" = 0 ] && has mount.fuse3 && has unshare || cannot_run "needs root, mount.fuse3 and unshare"
ok "mount" mount_store
mkdir -p "$M/t/r/f" && echo v >"$M/t/r/f/q"

# ---- a mount point that is in use ----
mkdir "$W/second"
"$TABLETFS" "$W/second" "$M" >"$W/out" 2>&1
is "$? $(cat "$W/out")" "1 tabletfs: $M: the mount point is in use: a file system of type fuse.tabletfs is mounted there; unmount it, or choose another directory" "a second store on the mount point is refused in one line"
is "$(ls -A "$W/second")" "" "  before a store is made"
"$TABLETFS" -f "unix:$D" "$M" >"$W/out" 2>&1
is "$? $(wc -l <"$W/out")" "1 1" "  and so is the same store once more"
is "$(cat "$M/t/r/f/q")" v "  the first mount is as it was"

# ---- remounts ----
mkdir "$W/bin"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$TABLETFS" >"$W/bin/tabletfs"
chmod 755 "$W/bin/tabletfs"
propagation=private
t unshare -m --propagation private true 2>/dev/null || propagation=unchanged
# remounts OPTIONS: mount(8) runs mount.fuse3, which finds tabletfs in /usr/local/sbin of a private namespace.  The flags are the file system's.
cat >"$W/remount" <<'TXT'
mount --bind "$W/bin" /usr/local/sbin || exit 77
mount -o "remount,$1" "$M"
status=$?
flags=$(grep -F " $M " /proc/self/mounts | cut -d' ' -f4)
echo "$status ${flags%%,user_id*}"
TXT
remount() { OUTSIDE=$$ t unshare -m --propagation $propagation bash "$W/remount" "$1" 2>&1; }
is "$(remount rw,noatime)" "0 rw,nosuid,nodev,noatime" "mount -o remount,noatime"
is "$(remount ro)" "0 ro,nosuid,nodev,relatime" "mount -o remount,ro"
fails "  after which nothing can be written" "Read-only file system" touch "$M/t/r/f/other"
is "$(remount rw)" "0 rw,nosuid,nodev,relatime" "mount -o remount,rw"
ok "  after which it can" touch "$M/t/r/f/other"
exec 5>"$M/t/r/f/open"
like "$(remount ro)" "^tabletfs: remount: $M: Device or resource busy; a file is open for writing" "mount -o remount,ro with a file that is open for writing"
exec 5>&-
for option in http=127.0.0.1:1 allow_other timeout=7s sync latest config=/etc/x.conf; do
	out=$(remount "ro,noatime,$option")
	like "$out" "^tabletfs: remount: $option cannot change while $M is mounted: only ro, rw, .* can; settings can through $M/.tabletfs/config" "mount -o remount,$option names what can change"
	is "$(tail -n +2 <<<"$out")" "1 rw,nosuid,nodev,relatime" "  in one line, and changes nothing"
done
is "$(remount defaults,_netdev,nofail,x-systemd.automount,comment=mine,noatime)" "0 rw,nosuid,nodev,noatime" "options for mount(8) and systemd are ignored"
ok "unmount" unmount_store
ok "mount, read-only" mount_store -o ro,timeout=3s
like "$(remount rw)" "^tabletfs: remount: $M began with ro, and becomes rw only when it is unmounted and mounted again" "a mount that began with ro stays so"
is "$(remount ro,timeout=3s)" "0 ro,nosuid,nodev,relatime" "options that the mount began with change nothing"
ok "unmount" unmount_store
"$TABLETFS" "$D" "$M" -o remount,ro >"$W/out" 2>&1
is "$? $(cat "$W/out")" "1 tabletfs: remount: $M is not a mount of tabletfs" "a directory that is no mount is named"
done_testing

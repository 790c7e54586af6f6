# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A real systemd as process 1 of namespaces of its own; sourced after mount.sh.
#
# boot SETUP starts it.  Its root is an overlay over the running system whose
# upper layer is in memory, so nothing outside changes; $W is in it as it is.  The
# script SETUP runs before systemd, with the root in $R.  systemd boots to
# multi-user.target, with the journal but without the machine's own services.
# sd COMMAND... runs a command there.  power_off shuts it down as a machine is.
#
# Namespaces: mounts, processes, cgroups, IPC, host name, network.  /sys and
# /proc/sys are read-only there, as in a container, so that no unit changes the
# kernel.
boot_holder= # unshare(1), the parent of systemd
boot_init=   # systemd

# boot_in_namespaces: replaces the shell by unshare(1), in a cgroup of its own, from which systemd makes its tree.
boot_in_namespaces() {
	exec unshare --mount --propagation private "$SRC/t/lib/own_mounts" bash -c '
		mount -t cgroup2 none "$W/cgroups" && mkdir "$W/cgroups/$1" && echo $$ >"$W/cgroups/$1/cgroup.procs" || exit 1
		umount "$W/cgroups"
		exec unshare --mount --pid --cgroup --ipc --uts --net --fork --kill-child bash -e "$W/boot.root" "$2"' boot "${W##*/}" "$1"
}

cat >"$W/boot.root" <<'TXT'
mkdir -p "$W/layers"
mount -t tmpfs tmpfs "$W/layers"
R=$W/layers/root
mkdir "$R" "$W/layers/up" "$W/layers/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$W/layers/up,workdir=$W/layers/work" "$R"
export R
mount -t proc proc "$R/proc"
mount --bind "$R/proc/sys" "$R/proc/sys"
mount -o remount,bind,ro "$R/proc/sys"
mount -t sysfs -o ro sysfs "$R/sys"
mount -t cgroup2 cgroup2 "$R/sys/fs/cgroup"
for d in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs "$R/$d"; done
chmod 1777 "$R/tmp"
mknod -m 666 "$R/dev/null" c 1 3
mknod -m 666 "$R/dev/zero" c 1 5
mknod -m 666 "$R/dev/full" c 1 7
mknod -m 666 "$R/dev/random" c 1 8
mknod -m 666 "$R/dev/urandom" c 1 9
mknod -m 666 "$R/dev/tty" c 5 0
mknod -m 666 "$R/dev/fuse" c 10 229
mknod -m 600 "$R/dev/autofs" c 10 235
mkdir "$R/dev/pts" "$R/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$R/dev/pts"
ln -s pts/ptmx "$R/dev/ptmx"
mkdir -p "$R$W"
mount --bind "$W" "$R$W"
# Only the journal of the machine's own services.
for d in "$R"/usr/lib/systemd/system/*.wants "$R/etc/systemd"; do mount -t tmpfs tmpfs "$d"; done
mkdir -p "$R/etc/systemd/system/sysinit.target.wants" "$R/etc/systemd/user"
ln -s /lib/systemd/system/systemd-journald.service "$R/etc/systemd/system/sysinit.target.wants/"
printf '[Manager]\nDefaultTimeoutStartSec=20s\nDefaultTimeoutStopSec=20s\n' >"$R/etc/systemd/system.conf"
printf '[Journal]\nStorage=volatile\nRuntimeMaxUse=32M\n' >"$R/etc/systemd/journald.conf"
: >"$R/etc/fstab"
bash -e "$1"
cd "$R"
mkdir -p .old
pivot_root . .old
umount -l .old
# A container of systemd ends with its process 1.
exec env -i container=test PATH="$PATH" /lib/systemd/systemd --system --unit=multi-user.target --show-status=0 --log-target=journal-or-kmsg
TXT

# sd COMMAND...: runs a command in the booted system, for at most 30 s.
sd() { timeout -k 5 "${T:-30}" nsenter -t "$boot_init" -a -r -w -- "$@"; }
# The state of the unit: Result/ActiveState/SubState.
sd_state() { sd systemctl show --value -p ActiveState -p SubState -p Result "$1" | paste -sd/; }
boot_is_up() {
	runs "$boot_holder" || return 0
	[ "$(sd systemctl is-active multi-user.target 2>/dev/null)" = active ]
}
boot() {
	mkdir -p "$W/cgroups"
	(boot_in_namespaces "$1") >"$W/boot.out" 2>&1 </dev/null &
	boot_holder=$!
	wait_for "process 1" boot_finds_init && wait_for "multi-user.target" boot_is_up && runs "$boot_holder" && return 0
	[ -z "$boot_init" ] || { T=5 sd systemctl list-jobs; T=5 sd journalctl -n 20 --no-pager; } >>"$W/boot.out" 2>&1
	boot_end
	diag <"$W/boot.out"
	cannot_run "systemd does not start in namespaces here"
}
# systemd, when it has replaced the script.
boot_finds_init() {
	runs "$boot_holder" || return 0
	boot_init=$(pgrep -P "$boot_holder")
	[ -n "$boot_init" ] && [ "$(cat "/proc/$boot_init/comm")" = systemd ]
}
power_off() {
	sd systemctl --no-block start poweroff.target
	wait_for "the end of systemd" eval "! runs $boot_holder"
}
# Ends all processes in the namespaces, and removes the cgroups.
boot_end() {
	[ -n "$boot_holder" ] || return 0
	! runs "$boot_holder" || kill -9 "$boot_holder" 2>/dev/null
	wait "$boot_holder" 2>/dev/null
	boot_holder=
	unshare --mount --propagation private bash -c '
		mount -t cgroup2 none "$W/cgroups" || exit
		cd "$W/cgroups" && for ((i = 0; i < 100; i++)); do
			[ -d "$1" ] || break
			find "$1" -depth -type d -exec rmdir {} \; 2>/dev/null
			read -r -t 0.05 <>"$W/.never"
		done' boot "${W##*/}"
}
boot_clean_up() {
	local status=$?
	boot_end
	(exit $status)
	clean_up
}
trap boot_clean_up EXIT
[ "$(id -u)" = 0 ] || cannot_run "systemd in namespaces needs root"
has unshare && has nsenter && [ -x /lib/systemd/systemd ] || cannot_run "there is no systemd, unshare or nsenter"

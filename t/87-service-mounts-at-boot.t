#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Under a real systemd: tabletfs@NAME mounts at boot, reports when the mount answers, is restarted when it hangs or
# is killed, reads its settings again, stops while files are open, also for a user; lines of fstab mount at boot and on
# access; tabletfs-server@NAME serves without a mount.  Nothing is lost.
# shellcheck source=t/lib/mount.sh disable=SC2016,SC2034,SC2119,SC2030,SC2031
. "${SRC:-.}/t/lib/mount.sh" || exit 1
# shellcheck source=t/lib/systemd.sh
. "$SRC/t/lib/systemd.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no store"

stores() { printf '%s\n' web fstab auto user; }
for s in $(stores); do mkdir "$W/mnt.$s"; done
U=tabletfs@web.service
M=$W/mnt.web
read -ra cc <<<"${CC:-cc}" # "ccache gcc" is two words
"${cc[@]}" -shared -fPIC -O1 -o "$W/hang_sync.so" "$SRC/t/lib/hang_sync.c" || cannot_run "hang_sync.c does not compile"

# ---- a stop is announced before the daemon waits for a disk, because STOPPING=1 ends the watchdog ----
mkdir "$W/mnt.alone"
py "$TABLETFS" "$W" <<'PY'
from tap import same, slurp, spill, wait_until
import os, signal, socket, subprocess, sys

tabletfs, W = sys.argv[1:3]
hang, mnt = W + "/hang", W + "/mnt.alone"
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(W + "/notify")
manager.settimeout(60)
daemon = subprocess.Popen([tabletfs, "-f", "-s", W + "/data.alone", mnt],
    env=dict(os.environ, LD_PRELOAD=W + "/hang_sync.so", HANG_SYNC=hang, NOTIFY_SOCKET=W + "/notify"))
same(manager.recv(1000), b"READY=1", "a daemon is ready")
os.makedirs(mnt + "/t/r/f")
spill(mnt + "/t/r/f/q", b"1")
open(hang, "w").close()
writer = subprocess.Popen(["sync", "-d", mnt + "/t/r/f/q"])
same(wait_until(lambda: os.path.isdir(hang + ".waits"), True), True, "  its only thread waits for the disk")
daemon.send_signal(signal.SIGTERM)
try:
    same(manager.recv(1000), b"STOPPING=1", "  SIGTERM: it announces the end")
    same(daemon.poll(), None, "  and waits")
finally:
    os.unlink(hang)
same([writer.wait(), daemon.wait()], [0, 0], "  sync and daemon end with 0")
PY
rmdir "$W/hang.waits"
ok "tabletctl check is clean" t "$TABLETCTL" check "$W/data.alone"

# What an operator does before the first boot.
cat >"$W/setup" <<'TXT'
for target in install-binPROGRAMS install-exec-hook install-nodist_systemdsystemunitDATA install-nodist_systemduserunitDATA install-nodist_exampleDATA; do
	env -u MAKEFLAGS -u MFLAGS "${MAKE:-make}" -s -C "$BUILD" "$target" DESTDIR="$R"
done
mkdir -p "$R/etc/tabletfs"
# The five lines of README, and the two lines of tabletfs-boot(7), with the directories of this test.
sed -n '/^At boot$/,/^and/s/^    //p' "$SRC/README" | sed "s,/srv/web,$W/data.web,; s,/mnt/web,$W/mnt.web," >"$R/etc/tabletfs/web.conf"
printf 'data = "%s";\nsocket_mode = "0660";\nsocket_group = "daemon";\n' "$W/data.alone" >"$R/etc/tabletfs/alone.conf"
chroot "$R" systemctl enable tabletfs@web tabletfs-server@alone
grep '^/srv/web ' "$SRC/man/tabletfs-boot.7" | sed "1s,/srv/web /mnt/web,$W/data.fstab $W/mnt.fstab,; 2s,/srv/web /mnt/web,$W/data.auto $W/mnt.auto,
	1s/nofail/&,x-systemd.mount-timeout=10min,x-systemd.requires-mounts-for=${W//\//\\\/}/; 2s/=10min/=1s/" >"$R/etc/fstab"
cp "$R/etc/tabletfs/web.conf" "$R/etc/fstab" "$W/"
TXT
boot "$W/setup"

# The main process of the unit, as a number outside of the namespaces is not needed: commands run inside.
main_pid() { sd systemctl show --value -p MainPID "$U"; }
restarts() { sd systemctl show --value -p NRestarts "$U"; }
journal() { sd journalctl --no-pager -o cat -u "$U"; }
write_row() { sd bash -c 'mkdir -p "$1/t/$2/f" && for i in {1..50}; do echo "$2 $i" >"$1/t/$2/f/q$i" || exit 1; done' - "$1" "$2"; }
# The rows must have all their cells.
row_is_whole() { is "$(sd bash -c 'cd "$1/t/$2/f" && for i in {1..50}; do cat "q$i"; done' - "$1" "$2" | md5sum)" "$(for i in {1..50}; do echo "$2 $i"; done | md5sum)" "$3"; }
mounts_at() { sd awk -v m="$1" '$5 == m && / - fuse/ { n++ } END { print n + 0 }' /proc/self/mountinfo; }

# ---- at boot ----
is "$(sd_state "$U")" success/active/running "the enabled unit runs after the boot"
ok "its mount answers, because the boot waited for READY=1" sd test -d "$M/.tabletfs"
is "$(wc -l <"$W/web.conf"):$(wc -l <"$W/fstab")" 5:2 "its file has five lines, and fstab has two"
is "$(sd sed -n 's/^block_cache = //p' "$M/.tabletfs/config")" '"1G";' "it has the settings of its file"
like "$(sd grep -F " $M " /proc/mounts)" "$W/data.web .* fuse.tabletfs .*allow_other" "  the data directory and the options"
ok "cells are written" write_row "$M" boot
like "$(sd systemd-analyze security --no-pager "$U" | tail -n 1)" ': [0-4]\.[0-9] OK' "systemd-analyze security rates it OK"
is "$(sd systemctl show --value -p WatchdogUSec "$U")" 3min "it has a watchdog"

# ---- reload ----
reload() { printf 'data = "%s";\nmountpoint = "%s";\nmount_options = "allow_other";\n%s\n' "$W/data.web" "$M" "$1" | sd tee /etc/tabletfs/web.conf >"$W/.null" && sd systemctl reload "$U"; }
ok "reload" reload 'block_cache = "32M"; compaction_threads = 3;'
soon 'sd sed -n "s/^block_cache = //p" "$M/.tabletfs/config"' '"32M";' "  changes a setting"
soon 'journal | grep -c "these settings change at the next mount: compaction_threads$"' 1 "  and the journal names one that cannot change"
fails "reload of a wrong file fails" 'failed' reload 'block_cache = "red";'
soon 'journal | grep -c "web.conf:4: block_cache: must be a size"' 1 "  with file, line and cause"
is "$(sd_state "$U")" success/active/running "  and the unit still runs"
is "$(sd sed -n 's/^block_cache = //p' "$M/.tabletfs/config")" '"32M";' "  with its settings"
is "$(sd journalctl -q --no-pager -o cat -u "$U" -p warning | grep -c "next mount")" 1 "  messages have their level in the journal"
ok "an empty list of settings" reload ''

# ---- killed ----
# hold: a process has a file open that it has written and not closed, and the mount as working directory.
hold() {
	rm -f "$W/held"
	sd systemd-run -q --collect --unit="hold-$1" bash -c 'cd "$1/t/boot" && exec 5>"f/open-$2" && printf staged >&5 && : >"$3/held" && exec sleep 1000' - "$M" "$1" "$W"
	wait_for "the open file" test -e "$W/held"
}
ok "a row" write_row "$M" killed
hold killed
old=$(main_pid)
sd kill -9 "$old"
soon restarts 1 "a killed daemon is restarted"
soon 'sd_state "$U"' success/active/running "  and runs"
is "$(mounts_at "$M")" 1 "  the dead mount is gone"
row_is_whole "$M" boot "  nothing is lost: the first row"
row_is_whole "$M" killed "  nor what was written last"
sd systemctl stop hold-killed

# ---- stopped with open files ----
hold stopped
ok "stop while a file is open" sd systemctl stop "$U"
is "$(sd_state "$U"):$(mounts_at "$M")" success/inactive/dead:0 "  ends cleanly, and nothing is mounted"
printf 'data = "%s";\nmountpoint = "%s";\nmount_options = "allow_other";\nsocket_group = "daemon";\n' "$W/data.web" "$M" | sd tee /etc/tabletfs/web.conf >"$W/.null"
mv "$W/data.web" "$W/data.late"
fails "a start without the data directory, whose disk may be late" "failed" sd systemctl start "$U"
soon 'journal | grep -c "data.web: there is no store, and none is created here"' 1 "  says so"
ok "  and creates none" test ! -e "$W/data.web"
mv "$W/data.late" "$W/data.web"
ok "start" sd systemctl start "$U"
is "$(stat -c %G "$W/data.web/socket")" daemon "  the socket has the group of its settings"
is "$(sd cat "$M/t/boot/f/open-stopped")" staged "  the bytes of the open file were committed"
sd systemctl stop hold-stopped
ok "umount(8)" sd umount "$M"
soon 'sd_state "$U"' success/inactive/dead "  ends the unit, which is not started again"
ok "tabletctl check is clean" t "$TABLETCTL" check "$W/data.web"

# ---- the watchdog: a mount that hangs, with one thread in the loop and a disk that does not answer ----
sd mkdir -p "/etc/systemd/system/$U.d"
printf '[Service]\nWatchdogSec=2s\nLimitCORE=0\nEnvironment=LD_PRELOAD=%s HANG_SYNC=%s\nExecStart=\nExecStart=%s\n' "$W/hang_sync.so" "$W/hang" \
	"$(sd sed -n 's/^ExecStart=//p' /usr/local/lib/systemd/system/tabletfs@.service) -s" | sd tee "/etc/systemd/system/$U.d/test.conf" >"$W/.null"
sd systemctl daemon-reload
ok "a unit with a watchdog of two seconds" sd systemctl start "$U"
before=$(restarts)
ok "a row to flush" write_row "$M" flushed
: >"$W/hang"
sd bash -c 'echo flush >"$1/t/.ctl" && : >"$2/flushed"' - "$M" "$W" &
verb=$!
# Longer than the watchdog's period.
beats() { sd systemctl show --value -p WatchdogTimestampMonotonic "$U"; }
first=$(beats)
longer() { [ "$(beats)" -gt $((first + 4500000)) ]; }
wait_for "two periods of the watchdog" longer
is "$(restarts):$(test -e "$W/flushed" || echo busy)" "$before:busy" "a daemon that is busy with a verb is not killed"
rm "$W/hang"
wait "$verb"
ok "  the verb ends" test -e "$W/flushed"
for how in "umount $M" "systemctl stop --no-block $U"; do
	ok "a row" write_row "$M" ended
	: >"$W/hang"
	# shellcheck disable=SC2086
	ok "${how%% *}, while the disk does not answer" sd $how
	soon 'sd_state "$U"' success/deactivating/stop-sigterm "  begins to end the unit"
	end=$((SECONDS + 6))
	wait_for "two periods of the watchdog" eval '[ $SECONDS -ge $end ]'
	is "$(sd_state "$U")" success/deactivating/stop-sigterm "  which the watchdog does not kill"
	rm "$W/hang"
	soon 'sd_state "$U"' success/inactive/dead "  the stop ends"
	ok "start" sd systemctl start "$U"
	row_is_whole "$M" ended "  nothing is lost"
done
before=$(restarts)
ok "a row" write_row "$M" hung
: >"$W/hang"
sd bash -c 'echo x >"$1/t/boot/f/x" && sync -d "$1/t/boot/f/x"' - "$M" >"$W/.null" 2>&1 &
writer=$!
soon 'journal | grep -c "Watchdog timeout"' 1 "a mount that does not answer is noticed"
rm "$W/hang"
wait "$writer"
soon 'sd_state "$U"' success/active/running "  the unit runs again"
is "$(restarts)" $((before + 1)) "  after a restart"
is "$(mounts_at "$M")" 1 "  the dead mount is gone"
row_is_whole "$M" hung "  nothing is lost"
sd rm -r "/etc/systemd/system/$U.d"
sd systemctl daemon-reload
ok "restart without the short watchdog" sd systemctl restart "$U"

# ---- a server without a mount ----
S=tabletfs-server@alone.service
is "$(sd_state "$S")" success/active/running "an enabled server runs after the boot"
is "$(stat -c %a:%G "$W/data.alone/socket")" 660:daemon "  its socket has mode and group of its settings"
like "$(sd systemd-analyze security --no-pager "$S" | tail -n 1)" ': [0-3]\.[0-9] OK' "  systemd-analyze security rates it better than the mount"
is "$(sd "$TABLETCTL" get "$W/data.alone/t" r f:q)" 1 "  it serves the store"
ok "  and writes" sd "$TABLETCTL" put "$W/data.alone/t" r f:q 2
ok "reload" sd systemctl reload "$S"
sd kill -9 "$(sd systemctl show --value -p MainPID "$S")"
soon 'sd systemctl show --value -p NRestarts "$S"' 1 "a killed server is restarted"
soon 'sd_state "$S"' success/active/running "  and runs"
is "$(sd "$TABLETCTL" get "$W/data.alone/t" r f:q)" 2 "  nothing is lost"
ok "stop" sd systemctl stop "$S"
is "$(sd_state "$S")" success/inactive/dead "  ends cleanly"
ok "  the store is clean" t "$TABLETCTL" check "$W/data.alone"

# ---- fstab ----
soon 'mounts_at "$W/mnt.fstab"' 1 "a line of fstab is mounted at boot"
ok "  its mount answers" write_row "$W/mnt.fstab" fstab
is "$(mounts_at "$W/mnt.auto")" 0 "with x-systemd.automount nothing is mounted at boot"
ok "  until the first access" write_row "$W/mnt.auto" auto
is "$(sd bash -c 'cd "$1" && awk -v m="$1" "\$5 == m && / - fuse/" /proc/self/mountinfo | wc -l' - "$W/mnt.auto")" 1 "  mounts it"
soon 'mounts_at "$W/mnt.auto"' 0 "x-systemd.idle-timeout unmounts it"
row_is_whole "$W/mnt.auto" auto "  the next access finds everything"
unit=$(sd systemd-escape -p --suffix=mount "$W/mnt.fstab")
ok "systemctl reload of the mount unit" sd systemctl reload "$unit"
ok "  its mount answers" write_row "$W/mnt.fstab" fstab
ok "systemctl stop of the mount unit" sd systemctl stop "$unit"
ok "  and start" sd systemctl start "$unit"
row_is_whole "$W/mnt.fstab" fstab "  nothing is lost"

# ---- for a user ----
sd useradd -m -u 12345 tabby
chown 12345 "$W/mnt.user"
mkdir "$W/home"
chown 12345 "$W/home"
as_user() { sd setpriv --reuid=12345 --regid=12345 --clear-groups env HOME=/home/tabby XDG_RUNTIME_DIR=/run/user/12345 "$@"; }
sd bash -c 'mkdir -p -m 755 /run/user && mkdir -m 700 /run/user/12345 && chown 12345 /run/user/12345'
as_user bash -c 'mkdir -p ~/.config/tabletfs && printf "data = \"%s\";\nmountpoint = \"%s\";\n" "$1/home/data" "$1/mnt.user" >~/.config/tabletfs/web.conf' - "$W"
sd systemd-run -q --unit=user-manager --uid=12345 -p Type=notify -p Delegate=yes -p PAMName= -E HOME=/home/tabby -E XDG_RUNTIME_DIR=/run/user/12345 \
	/lib/systemd/systemd --user
ok "systemctl --user enable --now" as_user systemctl --user enable --now tabletfs@web
is "$(as_user systemctl --user is-active tabletfs@web)" active "  the user's unit runs"
like "$(sd grep -F " $W/mnt.user " /proc/mounts)" 'fuse.tabletfs rw,nosuid,nodev.*user_id=12345' "  mounted by fusermount3"
ok "  the user writes" as_user bash -c 'mkdir -p "$1/t/r/f" && echo mine >"$1/t/r/f/q"' - "$W/mnt.user"
as_user bash -c 'kill -9 "$(systemctl --user show --value -p MainPID tabletfs@web)"'
soon 'as_user systemctl --user show --value -p NRestarts tabletfs@web' 1 "  a killed daemon is restarted"
soon 'as_user systemctl --user is-active tabletfs@web' active "  and mounts again"
is "$(as_user cat "$W/mnt.user/t/r/f/q")" mine "  nothing is lost"

# ---- power off with open files ----
hold off
power_off
boot_end
for s in web fstab auto; do ok "after poweroff with open files the store $s is clean" t "$TABLETCTL" check "$W/data.$s"; done
ok "  and the user's" t "$TABLETCTL" check "$W/home/data"
D=$W/data.web
ok "it mounts here" mount_store
is "$(cat "$M/t/boot/f/open-off")" staged "  the bytes of the open file were committed"
done_testing

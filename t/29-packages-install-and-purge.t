#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tarball of `make dist' has every file of the tree, and tools/try-packages
# builds the Debian packages from it and installs, upgrades, removes and purges
# them.  Under systemd, an upgrade leaves a service running, and a removal ends it.
#
# The roots are overlays over this system.  So the test does not show that the
# packages name all of their dependencies, nor that they can be built with
# optimisation.  tools/try-packages without options shows both in a fresh Debian.
# shellcheck source=t/lib/mount.sh
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ "$(id -u)" = 0 ] && has dh && has lintian && has unshare || cannot_run "needs root, debhelper, lintian and unshare"
unset MAKEFLAGS MFLAGS MAKELEVEL

ok "make distdir" make -s -C "$BUILD" distdir distdir="$W/tabletfs"
if [ -e "$SRC/.git" ] && has git; then
	git -c safe.directory='*' -C "$SRC" ls-files >"$W/tracked"
	is "$(cd "$W/tabletfs" && grep -v '^\.gitignore$' "$W/tracked" | while read -r f; do [ -e "$f" ] || [ ! -e "$SRC/$f" ] || echo "$f"; done)" "" "the tarball has every file of the tree"
fi
mkdir "$W/packages"
while IFS= read -r line; do
	case $line in
	'ok - '*) pass "${line#ok - }" ;;
	'not ok - '*) fail "${line#not ok - }" ;;
	*) echo "$line" ;;
	esac
done < <("$SRC/tools/try-packages" --quick --base / --packages "$W/packages" "$W/tabletfs" 2>&1 || echo "not ok - try-packages ends with status $?")

# ---- with systemd: the unit of the package, over an upgrade, a removal and another installation ----
# shellcheck source=t/lib/systemd.sh
. "$SRC/t/lib/systemd.sh" || exit 1
mkdir "$M.web"
cat >"$W/setup" <<'TXT'
rm -f "$R/usr/sbin/policy-rc.d" # of a container: it forbids packages to stop services
chroot "$R" sh -c "dpkg -i '$W'/packages/old/*.deb"
printf 'data = "%s/data.web";\nmountpoint = "%s.web";\n' "$W" "$M" >"$R/etc/tabletfs/web.conf"
chroot "$R" systemctl enable tabletfs@web
TXT
boot "$W/setup"
U=tabletfs@web.service
main_pid() { sd systemctl show --value -p MainPID "$U"; }
is "$(sd_state "$U")" success/active/running "the unit runs after the boot"
ok "a cell is written" sd sh -c "mkdir -p '$M.web/t/r/f' && echo value >'$M.web/t/r/f/q'"
pid=$(main_pid)
T=200 ok "dpkg -i of a newer version" sd sh -c "dpkg -i '$W'/packages/new/*.deb"
is "$(sd_state "$U") $(main_pid)" "success/active/running $pid" "  leaves the service running"
T=200 ok "dpkg -r" sd dpkg -r tabletfs
unlike "$(sd_state "$U")" running "  ends the service"
is "$(sd awk -v m="$M.web" '$5 == m' /proc/self/mountinfo)" "" "  and the mount"
T=200 ok "dpkg -i again" sd sh -c "dpkg -i '$W'/packages/new/*.deb"
ok "  and the service starts" sd systemctl start "$U"
is "$(sd cat "$M.web/t/r/f/q")" value "  with the cell"
T=200 ok "dpkg -P ends it, too" sd dpkg -P tabletfs python3-tabletfs libsqlite3-mod-tabletfs libtabletfs-dev libtabletfs0
D=$D.web check_store
done_testing

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tarball of `make dist' has every file of the tree, and tools/try-packages
# builds the Debian packages from it and installs, upgrades, removes and purges
# them.  The roots are overlays over this system.  So the test does not show that
# the packages name all of their dependencies, nor that the packages can be built
# with optimisation: tools/try-packages without options does, in a fresh Debian.
# shellcheck source=t/lib/mount.sh
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ "$(id -u)" = 0 ] && has dh && has lintian && has unshare || cannot_run "needs root, debhelper, lintian and unshare"
unset MAKEFLAGS MFLAGS MAKELEVEL

ok "make distdir" make -s -C "$BUILD" distdir distdir="$W/tabletfs"
if [ -e "$SRC/.git" ] && has git; then
	git -c safe.directory='*' -C "$SRC" ls-files >"$W/tracked"
	is "$(cd "$W/tabletfs" && grep -v '^\.gitignore$' "$W/tracked" | while read -r f; do [ -e "$f" ] || [ ! -e "$SRC/$f" ] || echo "$f"; done)" "" "the tarball has every file of the tree"
fi
while IFS= read -r line; do
	case $line in
	'ok - '*) pass "${line#ok - }" ;;
	'not ok - '*) fail "${line#not ok - }" ;;
	*) echo "$line" ;;
	esac
done < <("$SRC/tools/try-packages" --quick --base / "$W/tabletfs" 2>&1 || echo "not ok - try-packages ends with status $?")
done_testing

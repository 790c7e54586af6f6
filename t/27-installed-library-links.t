#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An installed libtabletfs is found by pkg-config and used through tabletfs.h
# alone, by a C program and by a C++ program.
SRC=${SRC:-.}
BUILD=${BUILD:-.}
W=$(mktemp -d) || exit 1
trap 'rm -rf "$W"' EXIT
fail() {
	echo "not ok 1 - $1"
	sed 's/^/# /' "$W/out" | tail -n 30
	echo 1..1
	exit 1
}
unset MAKEFLAGS MFLAGS MAKELEVEL
for target in install-solibPROGRAMS install-exec-hook install-includeHEADERS install-pkgconfigDATA; do
	${MAKE:-make} -s -C "$BUILD" "$target" DESTDIR="$W/root" >"$W/out" 2>&1 || fail "make $target"
done
pc=$(find "$W/root" -name tabletfs.pc)
export PKG_CONFIG_PATH="${pc%/*}" PKG_CONFIG_SYSROOT_DIR="$W/root"
flags=$(pkg-config --cflags --libs tabletfs 2>"$W/out") || fail 'pkg-config'
lib=$(dirname "$(find "$W/root" -name libtabletfs.so)")
# In a hardened library all symbols are resolved at the start, and no build has the place of its sources in it.
readelf -d "$lib/libtabletfs.so" >"$W/out" 2>&1
grep -q BIND_NOW "$W/out" || fail 'the library is linked with -z now'
for file in "$lib/libtabletfs.so" "$BUILD/tabletfs" "$BUILD/tabletctl"; do
	if strings -a "$file" | grep -F "$(cd "$SRC" && pwd)/" >"$W/out"; then fail "no path of the sources in $file"; fi
done
more=$(sed -n 's/^TFS_LDFLAGS = .*\(-fsanitize=[a-z,]*\).*/\1/p' "$BUILD/Makefile")
# shellcheck disable=SC2086
${CC:-cc} -std=c99 -D_DEFAULT_SOURCE -Wall -Wextra -Wno-unused-parameter -Werror $more "$SRC/t/lib/library.c" -o "$W/program" $flags >"$W/out" 2>&1 || fail 'compile'
printf '#include <tabletfs.h>\nint main() { tfs_bytes b = tfs_bytes_of("x", 1); struct tfs_options o; tfs_options_init(&o); return b.n != 1 || tfs_at(3).us != 3 || TFS_AUTO.when != TFS_NEWEST; }\n' >"$W/x.cc"
# shellcheck disable=SC2086
${CXX:-c++} -Wall -Wextra -Werror $more "$W/x.cc" -o "$W/cxx" $flags >"$W/out" 2>&1 || fail 'compile C++'
mkdir "$W/dir"
LD_LIBRARY_PATH=$lib "$W/cxx" || fail 'the C++ program'
LD_LIBRARY_PATH=$lib "$W/program" "$W/dir" 2>"$W/err"
sed 's/^/# /' "$W/err"

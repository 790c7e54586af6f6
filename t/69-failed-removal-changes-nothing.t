#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# If the disk fails while an open file is removed, replaced or renamed, the call
# is refused and each descriptor stays as it was.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no disk"
[ -z "${SANITIZED:-}" ] || skip_all "sanitizers come first"
read -ra cc <<<"${CC:-cc}" # "ccache gcc" is two words
has "${cc[0]}" || cannot_run "no C compiler"
cat >"$W/broken.c" <<'C'
/* Writes to regular files fail while the file BROKEN is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
static int broken(int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || access(getenv("BROKEN"), F_OK) != 0)
		return 0;
	errno = EIO;
	return 1;
}
#define WRAP(type, name, params, args) \
	type name params \
	{ \
		static type (*real) params; \
		if (!real) \
			real = (type (*) params)dlsym(RTLD_NEXT, #name); \
		return broken(fd) ? -1 : real args; \
	}
WRAP(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
WRAP(ssize_t, pwrite64, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
WRAP(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
WRAP(ssize_t, pwritev64, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
WRAP(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))
WRAP(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
WRAP(int, fdatasync, (int fd), (fd))
WRAP(int, fsync, (int fd), (fd))
C
ok "the library that breaks the disk" "${cc[@]}" -shared -fPIC -O2 -o "$W/broken.so" "$W/broken.c" -ldl
export BROKEN=$W/broken.now
# The log is written to syslog or a pipe, because writes to a file fail too.
LD_PRELOAD=$W/broken.so mount_store -o sync || fail "mount"
mkdir -p "$M/t/r/f" "$M/t/r2/f"
py <<'EOF2'
from tap import *
os.chdir(M + "/t/r/f")
BROKEN = os.environ["BROKEN"]
REFUSED = {"EIO", "EROFS", "ENOSPC"}
L = "../../.latest/r/f/"
acts = (
    ("rm of a version", lambda: os.unlink("v@5")),
    ("rm of the column", lambda: os.unlink("v")),
    ("  in .latest", lambda: os.unlink(L + "v")),
    ("rename of a version", lambda: os.rename("v@5", "w@6")),
    ("  onto a plain name", lambda: os.rename("v@5", "w")),
    ("rename of the column", lambda: os.rename("v", "w")),
    ("  onto a version", lambda: os.rename("v", "w@6")),
    ("rename onto the version", lambda: os.rename("x@1", "v@5")),
    ("  of a scratch file", lambda: os.rename(".s", "v@5")),
    ("  onto the plain name", lambda: os.rename(".s", "v")),
    ("touch -d", lambda: os.utime("v", ns=(1, 10 ** 18))),
)
spill("x@1", b"other")
spill(".s", b"scratch")
spill("v@5", b"content")
readers = []
w = os.open("v@5", os.O_RDWR)
p = os.open("v", os.O_WRONLY | os.O_APPEND)
spill(BROKEN, b"")
for what, act in acts:
    readers.append(os.open("v@5", os.O_RDONLY))
    same(errno_of(act) in REFUSED, True, what + " is refused")
    same([os.pread(r, 99, 0) for r in (w, *readers)], [b"content"] * (len(readers) + 1), "  descriptors read what there is")
    same((sorted(os.listdir(".")), os.fstat(w).st_nlink), ([".s", "v@5", "x@1"], 1), "  under its name")
os.unlink(BROKEN)
# Tried again after a second.
wait_until(lambda: errno_of(spill, "../../r2/f/probe", b"x"), "0")
os.pwrite(w, b"C", 0)
os.fsync(w)
same((slurp("v@5"), os.pread(readers[0], 99, 0)), (b"Content",) * 2, "afterwards writers change it")
os.rename(".s", "z")
same(slurp("z"), b"scratch", "  a scratch file becomes a cell")
os.write(p, b"+")
os.close(p)
same(slurp("v"), b"Content+", "  and append to it")
os.rename("v@5", "u@6")
os.pwrite(w, b"K", 0)
os.close(w)
same((slurp("u@6"), os.pread(readers[-1], 99, 0)), (b"Kontent",) * 2, "  it can be renamed")
os.unlink("u@6")
same((os.pread(readers[0], 99, 0), os.fstat(readers[0]).st_nlink), (b"Kontent", 0), "  and removed")
EOF2
done_testing

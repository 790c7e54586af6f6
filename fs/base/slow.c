/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last requests of the kernel that took longer than a setting, for the status page.
 * The path is not noted: after the request the kernel may have forgotten the node, and to
 * build a path before each request would cost more than most requests do.  The program and
 * its process tell an operator where to look.
 */
#include "fs/base/slow.h"

#include "engine/base/clock.h"
#include "engine/base/mutex.h"

#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>

static struct {
	struct mutex lock; /* nothing is called under it */
	struct slow_request v[SLOW_MOST];
	unsigned count;
	uint64_t limit_us; /* constant while requests are served */
} slow = {.lock = MUTEX_INITIALIZER(RANK_FS_NOTIFY)};

void slow_set_limit(uint64_t us)
{
	slow.limit_us = us;
}

uint64_t slow_limit(void)
{
	return slow.limit_us;
}

static void program_of(pid_t pid, char name[16])
{
	char path[40];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	f = pid ? fopen(path, "re") : NULL;
	if (!f || !fgets(name, 16, f))
		*name = 0;
	name[strcspn(name, "\n")] = 0;
	if (f)
		fclose(f);
}

void slow_note(uint32_t opcode, pid_t pid, uid_t uid, uint64_t since_us)
{
	const uint64_t us = monotonic_us() - since_us;
	struct slow_request r = {.us = us, .opcode = opcode, .pid = pid, .uid = uid};

	if (!slow.limit_us || us < slow.limit_us)
		return;
	r.ended = time(NULL);
	program_of(pid, r.program);
	mutex_lock(&slow.lock);
	memmove(slow.v + 1, slow.v, (SLOW_MOST - 1) * sizeof(*slow.v));
	slow.v[0] = r;
	slow.count += slow.count < SLOW_MOST;
	mutex_unlock(&slow.lock);
}

unsigned slow_list(struct slow_request out[SLOW_MOST])
{
	unsigned n;

	mutex_lock(&slow.lock);
	n = slow.count;
	memcpy(out, slow.v, n * sizeof(*out));
	mutex_unlock(&slow.lock);
	return n;
}

const char *slow_name(uint32_t opcode)
{
	static const char *const names[] = {[FUSE_LOOKUP] = "LOOKUP",
		[FUSE_GETATTR] = "GETATTR",
		[FUSE_SETATTR] = "SETATTR",
		[FUSE_MKNOD] = "MKNOD",
		[FUSE_MKDIR] = "MKDIR",
		[FUSE_UNLINK] = "UNLINK",
		[FUSE_RMDIR] = "RMDIR",
		[FUSE_RENAME] = "RENAME",
		[FUSE_OPEN] = "OPEN",
		[FUSE_READ] = "READ",
		[FUSE_WRITE] = "WRITE",
		[FUSE_STATFS] = "STATFS",
		[FUSE_RELEASE] = "RELEASE",
		[FUSE_FSYNC] = "FSYNC",
		[FUSE_GETXATTR] = "GETXATTR",
		[FUSE_LISTXATTR] = "LISTXATTR",
		[FUSE_SETXATTR] = "SETXATTR",
		[FUSE_FLUSH] = "FLUSH",
		[FUSE_OPENDIR] = "OPENDIR",
		[FUSE_READDIR] = "READDIR",
		[FUSE_RELEASEDIR] = "RELEASEDIR",
		[FUSE_FSYNCDIR] = "FSYNCDIR",
		[FUSE_CREATE] = "CREATE",
		[FUSE_READDIRPLUS] = "READDIRPLUS",
		[FUSE_RENAME2] = "RENAME"};

	return opcode < sizeof(names) / sizeof(*names) && names[opcode] ? names[opcode] : "other";
}

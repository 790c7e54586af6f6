/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last requests of the kernel that took longer than a setting, for the status page.
 * To build a path before each request would cost more than most requests do.  So the node
 * is counted while the request is served, and its path is built if the request was slow.
 * If nothing is served over HTTP, nothing is noted, and the node is not counted.
 */
#include "fs/base/slow.h"

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "fs/base/fs.h"
#include "fs/base/reply.h"

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

static bool is_named(uint32_t opcode)
{
	return strcmp(slow_name(opcode), "other") != 0;
}

/* The name in the request, or NULL. */
static const char *name_of(const struct fuse_in_header *h, size_t n)
{
	static const uint16_t before[] = {[FUSE_LOOKUP] = 1,
		[FUSE_UNLINK] = 1,
		[FUSE_RMDIR] = 1,
		[FUSE_MKNOD] = 1 + sizeof(struct fuse_mknod_in),
		[FUSE_MKDIR] = 1 + sizeof(struct fuse_mkdir_in),
		[FUSE_RENAME] = 1 + sizeof(struct fuse_rename_in),
		[FUSE_RENAME2] = 1 + sizeof(struct fuse_rename2_in),
		[FUSE_CREATE] = 1 + sizeof(struct fuse_create_in)};
	const size_t at =
		h->opcode < sizeof(before) / sizeof(*before) && before[h->opcode] ? sizeof(*h) + before[h->opcode] - 1 : n;

	return at < n ? (const char *)h + at : NULL;
}

void slow_begin(const struct fuse_in_header *h, size_t n, struct slow_place *p)
{
	const char *name;

	p->n = NULL;
	p->name[0] = 0;
	if (!slow.limit_us || !h->nodeid || !is_named(h->opcode))
		return;
	p->n = node_of(h->nodeid);
	node_hold(p->n);
	name = name_of(h, n);
	if (name)
		snprintf(p->name, sizeof(p->name), "%.*s", (int)((const char *)h + n - name), name);
}

static void note(struct slow_request r, const struct slow_place *p)
{
	r.ended = time(NULL);
	program_of(r.pid, r.program);
	if (p->n)
		(void)node_describe(p->n, p->name[0] ? p->name : NULL, r.path, sizeof(r.path));
	mutex_lock(&slow.lock);
	memmove(slow.v + 1, slow.v, (SLOW_MOST - 1) * sizeof(*slow.v));
	slow.v[0] = r;
	slow.count += slow.count < SLOW_MOST;
	mutex_unlock(&slow.lock);
}

void slow_end(uint32_t opcode, pid_t pid, uid_t uid, uint64_t since_us, bool notes, struct slow_place *p)
{
	const uint64_t us = slow.limit_us ? monotonic_us() - since_us : 0;

	if (notes && slow.limit_us && us >= slow.limit_us)
		note((struct slow_request){.us = us, .opcode = opcode, .pid = pid, .uid = uid}, p);
	node_put(p->n);
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

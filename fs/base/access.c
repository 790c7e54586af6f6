/* SPDX-License-Identifier: Apache-2.0 */
/* Access of the users of the mount to the data of a table (access.h). */
#include "fs/base/access.h"

#include "engine/base/hash.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the request that a thread serves ---- */

static _Thread_local struct {
	uid_t uid;
	gid_t gid;
	pid_t pid;
} asker;

static _Thread_local struct {
	const struct tfs_user *as; /* the user of fs_ask_as; not owned */
	struct caller *own;        /* the caller of the request, once it was wanted */
} ask;

void fs_asked_by(uid_t uid, gid_t gid, pid_t pid)
{
	asker.uid = uid;
	asker.gid = gid;
	asker.pid = pid;
	free(ask.own);
	ask.own = NULL;
}

const struct tfs_user *fs_asker_user(void)
{
	if (ask.as)
		return ask.as;
	/* The kernel's own requests, such as RELEASE, have no process. */
	if (!ask.own && (asker.uid || asker.pid))
		ask.own = caller_new();
	return ask.own ? &ask.own->user : NULL;
}

const struct tfs_user *fs_ask_as(const struct tfs_user *user)
{
	const struct tfs_user *before = ask.as;

	ask.as = user;
	return before;
}

static _Thread_local fuse_req_t served;
static _Atomic bool ending;

void fs_serve(fuse_req_t req)
{
	served = req;
}

bool fs_is_interrupted(void *unused)
{
	return ending || (served && fuse_req_interrupted(served));
}

void fs_interrupt_all(void)
{
	ending = true;
}

uid_t fs_asker_uid(void)
{
	return asker.uid;
}

pid_t fs_asker_thread(void)
{
	return asker.pid;
}

uint64_t fs_asker_session(void)
{
	pid_t session = asker.pid ? getsid(asker.pid) : 0;

	return session > 0 ? (uint64_t)session : 0;
}

/* ---- the path of a plain name ---- */

/* By thread: the node that it looked up last, and whether that was in .latest.  Another thread in the slot makes it unknown. */
#define PATH_SLOTS 4096
static _Atomic uint64_t paths[PATH_SLOTS];

/*
 * The generation of n, the thread, and a bit that is 0.  Threads outside the PID namespace
 * have no number, so the user id identifies them.
 */
static _Atomic uint64_t *path_slot(const struct node *n, uint64_t *mark)
{
	const uint32_t thread = asker.pid ? (uint32_t)asker.pid : 1u << 30 | (asker.uid & ((1u << 30) - 1));

	*mark = (uint64_t)n->generation << 32 | (uint64_t)thread << 1;
	return &paths[thread % PATH_SLOTS];
}

void fs_looked_up_in(const struct node *n, const struct node *dir)
{
	_Atomic uint64_t *slot;
	uint64_t mark;

	if (n->kind != NODE_PLAIN)
		return;
	slot = path_slot(n, &mark);
	mark |= node_is_latest(node_is(dir, KIND_PART) ? dir->parent : dir);
	atomic_store_explicit(slot, mark, memory_order_relaxed);
}

enum fs_path fs_path_of(const struct node *n)
{
	uint64_t mark, last;

	if (fs.latest)
		return PATH_IN_LATEST;
	last = atomic_load_explicit(path_slot(n, &mark), memory_order_relaxed);
	return last == mark ? PATH_IN_TABLE : last == (mark | 1) ? PATH_IN_LATEST : PATH_UNKNOWN;
}

/* ---- an absent plain name ---- */

#define ABSENT_SLOTS 64
static struct mutex absent_lock = MUTEX_INITIALIZER(RANK_FS_NOTIFY);
static struct absent {
	pid_t thread;
	uint64_t name, changes;
} absent[ABSENT_SLOTS];

static struct absent absent_name(const struct node *family, struct tfs_bytes qualifier, uint64_t changes)
{
	return (struct absent){asker.pid, hash_private((uint64_t)(uintptr_t)family ^ family->generation, qualifier), changes};
}

void fs_looked_up_absent(const struct node *family, struct tfs_bytes qualifier, uint64_t changes)
{
	if (!fs.shared || !asker.pid)
		return;
	mutex_lock(&absent_lock);
	absent[asker.pid % ABSENT_SLOTS] = absent_name(family, qualifier, changes);
	mutex_unlock(&absent_lock);
}

bool fs_is_absent(const struct node *family, struct tfs_bytes qualifier)
{
	const struct absent now = absent_name(family, qualifier, fs_changes()), *then = &absent[asker.pid % ABSENT_SLOTS];
	bool is;

	if (!fs.shared || !asker.pid)
		return false;
	mutex_lock(&absent_lock);
	is = then->thread == now.thread && then->name == now.name && then->changes == now.changes;
	mutex_unlock(&absent_lock);
	return is;
}

/* ---- groups ---- */

#define GROUPS_MOST 65536 /* the limit of Linux for a process */

/* Returns the last number of a line of /proc/PID/status, which is the id for file systems. */
static unsigned long last_id(const char *line)
{
	const char *last = strrchr(line, '\t');

	return last ? strtoul(last + 1, NULL, 10) : ULONG_MAX;
}

static int add_groups(const char *line, struct caller **caller)
{
	char *end;

	for (;; line = end) {
		const unsigned long id = strtoul(line, &end, 10);
		struct caller *more;

		if (end == line)
			return 0;
		if ((*caller)->user.group_count == GROUPS_MOST)
			return -E2BIG;
		more = realloc(*caller, sizeof(*more) + ((*caller)->user.group_count + 1u) * sizeof(gid_t));
		if (!more)
			return -ENOMEM;
		more->groups[more->user.group_count++] = fs_gid_across((gid_t)id);
		*caller = more;
	}
}

/* Reads the groups of the thread `pid`.  Returns false if they are unknown. */
static bool read_groups(pid_t pid, struct caller **caller)
{
	char path[64], *line = NULL;
	bool same_uid = false, same_gid = false, known = false;
	size_t cap = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	f = pid > 0 ? fopen(path, "re") : NULL;
	while (f && !known && getline(&line, &cap, f) > 0) {
		if (strncmp(line, "Uid:", 4) == 0)
			same_uid = last_id(line) ==
				fs_uid_across((*caller)->user.uid); /* if they differ, another process has got the number */
		else if (strncmp(line, "Gid:", 4) == 0)
			same_gid = last_id(line) == fs_gid_across((*caller)->user.gid);
		else if (strncmp(line, "Groups:", 7) == 0)
			known = same_uid && same_gid && add_groups(line + 7, caller) == 0;
	}
	free(line);
	if (f)
		fclose(f);
	return known;
}

struct caller *caller_new(void)
{
	struct caller *caller = calloc(1, sizeof(*caller));

	if (!caller)
		return NULL;
	caller->user = (struct tfs_user){.uid = asker.uid, .gid = asker.gid};
	if (caller->user.uid && !read_groups(asker.pid, &caller)) {
		caller->user.group_count = 0;
		caller->user.groups_unknown = true;
	}
	caller->user.groups = caller->groups;
	return caller;
}

int fs_table_as_caller(const struct caller *caller, struct node *n, struct tfs_table **out)
{
	return caller ? tfs_table_as(node_store_table(n), &caller->user, out) : -EACCES;
}

int fs_table_as_asker(struct node *n, struct tfs_table **out)
{
	struct caller *caller = caller_new();
	int err = caller ? fs_table_as_caller(caller, n, out) : -ENOMEM;

	free(caller);
	return err;
}

int fs_scan_as_asker(struct node *n, const struct tfs_scan_spec *spec, struct tfs_scan **out)
{
	struct tfs_scan_spec stoppable = *spec;
	struct tfs_table *t;
	int err = fs_table_as_asker(n, &t);

	if (err)
		return err;
	stoppable.stop = fs_is_interrupted;
	err = tfs_scan_new(t, &stoppable, out);
	tfs_table_close(t); /* the scan has its own reference */
	return err;
}

int fs_may_write(const struct caller *caller, struct node *n, const char *family)
{
	const struct tfs_schema *s;
	const struct tfs_family *f;
	int err;

	if (!caller)
		return -EACCES;
	err = tfs_schema_get(node_store_table(n), &s);
	if (err)
		return err;
	f = tfs_schema_family(s, family);
	err = !f ? -ENOENT : tfs_may(s, f, &caller->user, TFS_MAY_WRITE) ? 0 : -EACCES;
	tfs_schema_put(s);
	return err;
}

bool fs_mode_allows(const struct caller *caller, uid_t uid, gid_t gid, mode_t mode, unsigned bits)
{
	const struct tfs_family f = {.uid = uid, .gid = gid, .mode = mode, .acl = ""};

	return tfs_may(&(struct tfs_schema){.mode = 0111}, &f, &caller->user, bits);
}

bool fs_owns_table(const struct caller *caller, struct node *n)
{
	const struct tfs_schema *s;
	bool owns;

	if (!caller || caller->user.uid == 0)
		return caller;
	if (tfs_schema_get(node_store_table(n), &s))
		return false;
	owns = caller->user.uid == s->uid;
	tfs_schema_put(s);
	return owns;
}

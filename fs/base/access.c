/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/base/access.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int fs_table_as_caller(const struct caller *caller, struct node *n, struct tfs_table **out)
{
	return caller ? tfs_table_as(node_store_table(n), &caller->user, out) : -EACCES;
}

int fs_table_as(fuse_req_t req, struct node *n, struct tfs_table **out)
{
	struct caller *caller = caller_new(req);
	int err = caller ? fs_table_as_caller(caller, n, out) : -ENOMEM;

	free(caller);
	return err;
}

/* ---- the request that a thread serves ---- */

static _Thread_local struct {
	uid_t uid;
	gid_t gid;
	pid_t pid;
} asker;

void fs_asked_by(uid_t uid, gid_t gid, pid_t pid)
{
	asker.uid = uid;
	asker.gid = gid;
	asker.pid = pid;
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

uint64_t fs_asker_session(void)
{
	pid_t session = asker.pid ? getsid(asker.pid) : 0;

	return session > 0 ? (uint64_t)session : 0;
}

/* Reads the line "Groups:" of a process, as fuse_req_getgroups does for a request.  *groups is for free().  Returns the count. */
static unsigned read_groups(pid_t pid, gid_t **groups)
{
	char path[64], *line = NULL, *at, *end;
	unsigned count = 0;
	size_t cap = 0;
	FILE *f;

	*groups = NULL;
	snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	f = fopen(path, "re");
	while (f && getline(&line, &cap, f) > 0) {
		if (strncmp(line, "Groups:", 7) != 0)
			continue;
		for (at = line + 7;; at = end) {
			const unsigned long id = strtoul(at, &end, 10);

			if (end == at || array_grow(groups, count, sizeof(**groups)))
				break;
			(*groups)[count++] = (gid_t)id;
		}
		break;
	}
	free(line);
	if (f)
		fclose(f);
	return count;
}

int fs_table_as_asker(struct node *n, struct tfs_table **out)
{
	struct tfs_user user = {.uid = asker.uid, .gid = asker.gid};
	gid_t *groups = NULL;
	int err;

	if (user.uid)
		user.group_count = read_groups(asker.pid, &groups);
	user.groups = groups;
	err = tfs_table_as(node_store_table(n), &user, out);
	free(groups);
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

int fs_may(const struct caller *caller, struct node *n, const char *family, unsigned may)
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
	err = !f ? -ENOENT : tfs_may(s, f, &caller->user, may) ? 0 : -EACCES;
	tfs_schema_put(s);
	return err;
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

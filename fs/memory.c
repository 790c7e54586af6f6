/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the daemon may use (daemon.h), by control groups (version 2).
 * The limit of a group holds for the groups below it, too.  So the limit of the
 * process is the smallest memory.max of its group and of the groups above.  The
 * root group has no memory.max, unless it is the root of a namespace of groups.
 */
#include "fs/daemon.h"

#include "engine/base/msg.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS "/sys/fs/cgroup"

/* Sets *bytes to the limit of one group.  Returns false if it has none. */
static bool group_limit(const char *group, uint64_t *bytes)
{
	char path[4200];
	unsigned long long n;
	FILE *f;
	bool found;

	snprintf(path, sizeof(path), GROUPS "%s/memory.max", group);
	f = fopen(path, "re");
	found = f && fscanf(f, "%llu", &n) == 1; /* the text is a number or "max" */
	if (found)
		*bytes = n;
	if (f)
		fclose(f);
	return found;
}

/* Reads the path of the group of this process.  Returns false if there is none of version 2. */
static bool own_group(char *path, size_t bytes)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	bool found = false;

	while (f && !found && fgets(path, (int)bytes, f)) {
		found = strncmp(path, "0::/", 4) == 0;
		if (found)
			memmove(path, path + 3, strlen(path + 3) + 1);
	}
	if (f)
		fclose(f);
	path[strcspn(path, "\n")] = 0;
	return found;
}

void memory_warn(const struct tfs_options *o)
{
	const uint64_t needed = (uint64_t)o->block_cache_bytes + o->memtable_bytes + o->table_cache_bytes;
	uint64_t least = UINT64_MAX, bytes;
	char group[4096] = "", at[4096] = "";

	if (!own_group(group, sizeof(group)))
		return;
	for (;;) {
		if (group_limit(group, &bytes) && bytes < least) {
			least = bytes;
			memcpy(at, group, sizeof(at));
		}
		if (!*group)
			break;
		*strrchr(group, '/') = 0;
	}
	if (least < needed)
		msg_warning(GROUPS "%s/memory.max is %llu MiB, but block_cache, memtable and table_cache together are %llu MiB: "
				   "the kernel may end the daemon",
			at, (unsigned long long)(least >> 20), (unsigned long long)(needed >> 20));
}

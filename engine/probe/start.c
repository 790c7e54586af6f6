/* SPDX-License-Identifier: Apache-2.0 */
/* The probe's lines, the probe of one host at the start of a program, and the options of mounts. */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/base/outcome.h"
#include "engine/probe/probe.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MOUNTINFO_MAX ((size_t)16 << 20)

/* ---- the lines ---- */

/* These options were found by measurement (doc/decisions). */
#define GLUSTER                                                                                                                    \
	"; GlusterFS: gluster volume set VOLUME group db-workload; gluster volume set VOLUME performance.open-behind off; "        \
	"mount it with --attribute-timeout=0 --entry-timeout=0 --negative-timeout=0"
#define NFS_MOUNT "mount it with hard,actimeo=0,lookupcache=none"
#define OTHER_MOUNT "mount it without caches of attributes, names and contents"
#define UNFIT "this storage cannot be used"

int probe_line(const struct probe *p, enum probe_property what, struct buf *out)
{
	static const char *const stale[PROBE_KINDS] = {OTHER_MOUNT, OTHER_MOUNT GLUSTER, NFS_MOUNT};
	static const char *const in_place[PROBE_KINDS] = {OTHER_MOUNT, OTHER_MOUNT GLUSTER " --auto-invalidation=on", NFS_MOUNT};
	static const char *const no_lock[PROBE_KINDS] = {UNFIT, UNFIT, "mount it with local_lock=none"};
	static const char *const unfit[PROBE_KINDS] = {UNFIT, UNFIT, UNFIT};
	static const struct {
		const char *wrong, *const *remedy;
	} texts[PROBE_PROPERTIES] = {
		[PROBE_SIZE] = {"stale sizes", stale},
		[PROBE_APPEND] = {"stale bytes after an append", stale},
		[PROBE_OVERWRITE] = {"stale bytes after a write in place", in_place},
		[PROBE_CREATE] = {"new names are not found", stale},
		[PROBE_UNLINK] = {"removed names are found", stale},
		[PROBE_RENAME] = {"stale names after a rename", stale},
		[PROBE_REPLACE] = {"old contents after a rename over a file", stale},
		[PROBE_LIST] = {"stale listings", stale},
		[PROBE_EXCLUSIVE] = {"an exclusive create does not have one winner", unfit},
		[PROBE_DIRECTORY] = {"a renamed directory is found under its old name", stale},
		[PROBE_LOCK] = {"flock does not exclude the other side", no_lock},
		[PROBE_SYNC] = {"a directory cannot be synced", unfit},
		[PROBE_MOUNT] = {"the mount did not stay", unfit},
	};

	return buf_printf(out, "%s: %u of %u tries, the first at %s: %s", texts[what].wrong, p->wrong[what], p->tries[what],
		p->first[what], texts[what].remedy[p->kind]);
}

/* ---- the start of a program ---- */

static bool is_shared(const char *dir)
{
	static const uint32_t types[] = {FUSE_SUPER_MAGIC, NFS_SUPER_MAGIC, CEPH_SUPER_MAGIC, CIFS_SUPER_MAGIC, SMB_SUPER_MAGIC,
		SMB2_SUPER_MAGIC, AFS_FS_MAGIC, CODA_SUPER_MAGIC, V9FS_MAGIC, OCFS2_SUPER_MAGIC, 0x01161970 /* GFS2 */,
		0x0bd00bd0 /* Lustre */, 0x47504653 /* GPFS */, 0x19830326 /* BeeGFS */};
	struct statfs s;
	const uint32_t type = statfs(dir, &s) ? 0 : (uint32_t)s.f_type;

	for (unsigned i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (type == types[i])
			return true;
	return false;
}

int probe_verdict(const struct probe *p, int err, char **why)
{
	struct buf line = {0};
	unsigned i = 0;

	if (is_no_space(err))
		return 0;
	if (err) {
		why_set(why, "%s: this storage cannot be tried: %s", p->failed,
			err == -EXDEV ? "it shows no file that the other side makes" : error_text(err));
	} else if (probe_wrong(p)) {
		while (!p->wrong[i])
			i++;
		err = probe_line(p, i, &line);
		if (!err)
			err = -EOPNOTSUPP;
		why_set(why, "%s: this storage is not safe: %.*s", p->dir[0], (int)line.n, (const char *)line.p);
	}
	buf_fini(&line);
	return err;
}

int probe_at_start(const char *dir, char **why)
{
	struct probe p = {.dir = {dir, dir}, .rounds = 1};

	return is_shared(dir) ? probe_verdict(&p, probe_run(&p), why) : 0;
}

/* ---- options of mounts ---- */

/* Returns true if the comma-separated options have the word. */
static bool has_option(const char *options, const char *word)
{
	const size_t n = strlen(word);

	for (const char *s = options; s; s = strchr(s, ',')) {
		s += *s == ',';
		if (strncmp(s, word, n) == 0 && (s[n] == ',' || s[n] == '\n' || !s[n]))
			return true;
	}
	return false;
}

/* The kernel shows actimeo=0 as four times. */
static bool caches(const char *options)
{
	const bool fresh = has_option(options, "noac") ||
		(has_option(options, "acregmin=0") && has_option(options, "acregmax=0") && has_option(options, "acdirmin=0") &&
			has_option(options, "acdirmax=0"));

	return !fresh || !has_option(options, "lookupcache=none");
}

/* A line: ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [FIELD...] - TYPE SOURCE OPTIONS (proc(5)). */
bool probe_mount_caches(const char *mountinfo, unsigned major, unsigned minor)
{
	const char *next, *rest;
	unsigned a, b;
	int at;

	for (const char *line = mountinfo; line && *line; line = next) {
		next = strchr(line, '\n');
		next = next ? next + 1 : NULL;
		if (sscanf(line, "%*u %*u %u:%u", &a, &b) != 2 || a != major || b != minor)
			continue;
		rest = strstr(line, " - ");
		if (!rest || (next && rest >= next))
			continue;
		at = 0;
		(void)sscanf(rest, " - nfs%*[4 ]%*s %n", &at);
		if (at)
			return caches(rest + at);
	}
	return false;
}

int probe_mount_options(const char *dir, char **why)
{
	struct buf b = {0};
	struct stat st;
	char path[40];
	bool bad;
	int err = stat(dir, &st) < 0 ? -errno : 0;

	if (err)
		return err;
	/* If there is no /proc, the probe still finds unsafe storage by its own steps. */
	snprintf(path, sizeof(path), "/proc/%ld/mountinfo", (long)getpid());
	bad = file_read_all(path, MOUNTINFO_MAX, &b) == 0 && buf_u8(&b, 0) == 0 &&
		probe_mount_caches((const char *)b.p, major(st.st_dev), minor(st.st_dev));
	buf_fini(&b);
	if (!bad)
		return 0;
	why_set(why, "%s: this NFS mount keeps attributes or names in a cache: " NFS_MOUNT, dir);
	return -EOPNOTSUPP;
}

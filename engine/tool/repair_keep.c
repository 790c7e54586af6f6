/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a repair keeps in DATADIR/repair-NNNN. */
#include "engine/tool/repair.h"

#include <errno.h>
#include <stdlib.h>

bool repair_exists(const char *path)
{
	uint64_t bytes;

	return file_stat_size(path, &bytes) == 0;
}

static int make_aside(struct repair *p)
{
	int err = -EEXIST;

	for (unsigned n = 1; err == -EEXIST && n < 10000; n++) {
		p->aside = text("%s/repair-%04u", p->dir, n);
		err = file_mkdir(p->aside);
	}
	return err ? err : file_sync_dir(p->dir);
}

/* Makes the directories of DATADIR/repair-NNNN/BELOW, each durably. */
static int make_dirs_of(const struct repair *p, char *to)
{
	int err = 0;

	for (char *slash = to + strlen(p->aside) + 1; (slash = strchr(slash, '/')) && !err; *slash++ = '/') {
		*slash = 0;
		err = file_mkdir(to);
		if (!err || err == -EEXIST)
			err = file_sync_parent(to);
	}
	return err;
}

int repair_keep(struct repair *p, const char *path)
{
	const char *below = path + strlen(p->dir);
	char *to;
	int err = 0;

	if (!p->write || !repair_exists(path))
		return 0;
	while (*below == '/')
		below++;
	if (!p->aside)
		err = make_aside(p);
	to = text("%s/%s", p->aside, below);
	if (!err)
		err = make_dirs_of(p, to);
	if (!err)
		err = file_link(path, to);
	if (!err || err == -EEXIST)
		err = file_sync_parent(to);
	if (err)
		complain("%s: cannot be kept as %s: %s", path, to, strerror(-err));
	return err;
}

struct tree {
	struct repair *p;
	const char *dir;
};

static int keep_entry(void *arg, const char *name, bool is_dir)
{
	const struct tree *t = arg;
	struct tree below = {t->p, text("%s/%s", t->dir, name)};

	return is_dir ? file_list(below.dir, keep_entry, &below) : repair_keep(t->p, below.dir);
}

int repair_keep_tree(struct repair *p, const char *name)
{
	struct tree t = {p, p->dir};
	int err = keep_entry(&t, name, true);

	return err == -ENOENT ? 0 : err;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files without references.  At start: every SSTable under sst/ of an earlier
 * incarnation that no tablet's list names is a leftover of a crash (an output
 * never installed, an input never removed) and goes.  Files of our own are
 * none: background work may be making them already; and what is not named as
 * our SSTables are is somebody else's.  While running, a compaction's inputs
 * are removed by the last reader, and a dropped table's directory when its
 * last tablet is freed, but for what another table's tablets name.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#define HASH_NONFATAL_OOM 1 /* or it would end the process */
#include <uthash.h>

struct named {
	UT_hash_handle hh;
	char name[]; /* TABLE/INCARNATION-NUMBER.sst */
};

struct sweep {
	struct server *s;
	struct named *named;
	char *dir;          /* sst/TABLE */
	const char *table;
	uint64_t except;    /* an incarnation whose files stay; 0: none */
};

static bool is_sstable(const char *name, uint64_t *incarnation)
{
	uint64_t number;

	return number_parse(name, '-', incarnation, &name) && number_parse(name, '.', &number, &name) && strcmp(name, "sst") == 0;
}

static int name_add(struct sweep *w, const struct tablet_file *f)
{
	char name[96];
	struct named *n;
	size_t len = (size_t)snprintf(name, sizeof(name), "%u/%llu-%llu.sst", f->table, (unsigned long long)f->incarnation,
				      (unsigned long long)f->number);

	HASH_FIND(hh, w->named, name, len, n);
	if (n)
		return 0;
	n = malloc(sizeof(*n) + len + 1);
	if (!n)
		return -ENOMEM;
	memcpy(n->name, name, len + 1);
	HASH_ADD_KEYPTR(hh, w->named, n->name, len, n);
	if (!n->hh.tbl) {
		free(n);
		return -ENOMEM;
	}
	return 0;
}

static int mark(struct sweep *w)
{
	struct held **list;
	unsigned count;
	int err = held_list(w->s, 0, &list, &count);

	if (err)
		return err;
	for (unsigned i = 0; i < count; i++) {
		struct tablet_file *files = NULL;
		unsigned n = 0;

		if (!err)
			err = tablet_files(list[i]->tablet, &files, &n);
		for (unsigned k = 0; k < n; k++) {
			if (!err)
				err = name_add(w, &files[k]);
			tablet_file_fini(&files[k]);
		}
		free(files);
		held_put(list[i]);
	}
	free(list);
	return err;
}

static void names_free(struct sweep *w)
{
	struct named *n, *tmp;

	HASH_ITER(hh, w->named, n, tmp) {
		HASH_DEL(w->named, n);
		free(n);
	}
}

static int sweep_file(void *arg, const char *name, bool is_dir)
{
	struct sweep *w = arg;
	char key[300];
	struct named *n;
	size_t len = (size_t)snprintf(key, sizeof(key), "%s/%s", w->table, name);
	uint64_t incarnation;
	char *path;
	int err;

	HASH_FIND(hh, w->named, key, len, n);
	if (n || is_dir || !is_sstable(name, &incarnation) || incarnation == w->except)
		return 0;
	path = path_join(w->dir, name);
	if (!path)
		return -ENOMEM;
	err = file_unlink(path);
	if (err && err != -ENOENT)
		msg_warning("%s: cannot be removed: %s", path, strerror(-err));
	else
		msg_info("%s: removed, no tablet refers to it", path);
	free(path);
	return 0;
}

static int sweep_dir(void *arg, const char *name, bool is_dir)
{
	struct sweep *w = arg;
	uint64_t table;
	char *top;
	int err;

	if (!is_dir || !number_parse(name, 0, &table, NULL))
		return 0;
	top = path_join(w->s->data_dir, "sst");
	w->dir = top ? path_join(top, name) : NULL;
	free(top);
	if (!w->dir)
		return -ENOMEM;
	w->table = name;
	err = file_list(w->dir, sweep_file, w);
	free(w->dir);
	w->dir = NULL;
	return err;
}

int sweep_at_start(struct server *s, char **why)
{
	struct sweep w = {.s = s, .except = s->incarnation};
	char *sst = path_join(s->data_dir, "sst");
	int err = sst ? mark(&w) : -ENOMEM;

	if (!err)
		err = file_list(sst, sweep_dir, &w);
	if (err && sst && asprintf(why, "%s: %s", sst, strerror(-err)) < 0)
		*why = NULL;
	names_free(&w);
	free(sst);
	if (!err)
		err = retire_dead_logs(s);
	return err;
}

void sweep_table(struct server *s, uint32_t table)
{
	struct sweep w = {.s = s};
	char name[16];
	char *top, *dir;

	snprintf(name, sizeof(name), "%u", table);
	top = path_join(s->data_dir, "sst");
	dir = top ? path_join(top, name) : NULL;
	w.dir = dir;
	w.table = name;
	/* What cannot be removed now goes at the next start; a directory in which something stays is not removed. */
	if (dir && mark(&w) == 0 && file_list(dir, sweep_file, &w) == 0)
		(void)!file_rmdir(dir);
	names_free(&w);
	free(dir);
	free(top);
}

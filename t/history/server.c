/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that a store's server runs by itself, taken by hand. */
#include "engine/base/file.h"
#include "engine/client/metadata.h"
#include "engine/server/tables/set.h"
#include "engine/server/tablets/tablets.h"
#include "engine/compact/compact_internal.h"
#include "master/master.h"
#include "t/history/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NAME_BYTES 600u
#define LEFT_FROM 4000000000u /* no SSTable has such a number by itself */

bool step_is_server(enum step_kind kind)
{
	return kind == STEP_MERGE || kind == STEP_COLLECT || kind == STEP_METADATA;
}

/* What a full disk makes of a major compaction: each file alone, without what newer ones mask. */
static int purge(struct tablet *t, bool *did)
{
	int err = tablet_job_begin(t, &t->majoring);

	if (err)
		return err;
	err = compact_purge(t, false, did);
	tablet_job_end(t, &t->majoring);
	return err;
}

static int merging_compactions(struct server *s, struct rng *r)
{
	struct served_tablet **list;
	unsigned n;
	bool did = true;
	int err = served_list(s, 0, &list, &n);

	if (err)
		return err;
	for (unsigned i = 0; i < n; i++) {
		bool snapshot = list[i]->user_table && list[i]->user_table->frozen; /* the server compacts none */

		if (!err && !snapshot && one_in(r, 2))
			err = purge(list[i]->tablet, &did);
		for (unsigned times = 0; times < 4 && !err && !snapshot; times++) {
			err = compact_merge(list[i]->tablet, false, &did);
			if (!did)
				break;
		}
		served_put(list[i]);
	}
	free(list);
	return err;
}

/* ---- files without references ---- */

/*
 * Through the file layer: where a power cut of the crash tests overtakes this,
 * in another thread, a listing of it never returns, and what the cut has
 * brought back is not taken for what a round left.
 */
struct each {
	const char *store_dir;
	int (*fn)(void *arg, const char *name, bool is_dir);
	void *arg;
	char dir[NAME_BYTES];
};

static int one_table(void *arg, const char *name, bool is_dir)
{
	struct each *e = arg;

	if (!is_dir)
		return 0;
	snprintf(e->dir, sizeof(e->dir), "%s/sst/%s", e->store_dir, name);
	return e->fn(e, name, true);
}

/* Calls fn with an each for the directory of every table. */
static int each_table(struct each *e)
{
	int err;

	snprintf(e->dir, sizeof(e->dir), "%s/sst", e->store_dir);
	err = file_list(e->dir, one_table, e);
	return err == -ENOENT ? 0 : err; /* the crash came before it */
}

/* Past the file layer: what an earlier process left is durable.  No name comes twice, or forget mode would take two for one. */
static int leave(void *arg, const char *name, bool is_dir)
{
	static unsigned left;
	struct each *e = arg;
	char path[NAME_BYTES + 40];
	FILE *f;

	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/1-%u.sst", e->dir, LEFT_FROM + left++);
		f = fopen(path, "w");
		if (!f)
			return 0; /* the table was dropped, and its directory was just removed */
		if (fputs("an output that never was installed\n", f) < 0 || fclose(f))
			abort();
	}
	return 0;
}

struct leftovers {
	unsigned n;
	const char *dir;
	struct out *o;
};

static int count_file(void *arg, const char *name, bool is_dir)
{
	struct leftovers *l = arg;
	unsigned number;

	if (!is_dir && sscanf(name, "1-%u.sst", &number) == 1 && number >= LEFT_FROM) {
		say(l->o, "left: %s/%s\n", l->dir, name);
		l->n++;
	}
	return 0;
}

static int count_left(void *arg, const char *name, bool is_dir)
{
	struct each *e = arg;
	struct leftovers *l = e->arg;
	int err;

	l->dir = e->dir;
	err = file_list(e->dir, count_file, l);
	return err == -ENOENT ? 0 : err;
}

int server_leftovers(const char *store_dir, struct out *o)
{
	struct leftovers l = {.o = o};
	struct each e = {.store_dir = store_dir, .fn = count_left, .arg = &l};
	int err = each_table(&e);

	return err ? err : l.n ? -EEXIST : 0;
}

int server_leave(const char *store_dir)
{
	struct each e = {.store_dir = store_dir, .fn = leave};

	return each_table(&e);
}

static int collect(struct master *m, const char *store_dir, struct out *o)
{
	int err = server_leave(store_dir);

	if (!err)
		err = master_collect(m, true);
	return err ? err : server_leftovers(store_dir, o);
}

/* ---- METADATA ---- */

static int flush_metadata(struct server *s)
{
	struct served_tablet **list;
	unsigned n;
	int err = served_list(s, META_TABLE, &list, &n), e;

	for (unsigned i = n; !err && i-- > 0;) {
		e = tablet_flush(list[i]->tablet);
		if (e && e != -TABLET_MOVED)
			err = e;
	}
	for (unsigned i = 0; list && i < n; i++)
		served_put(list[i]);
	free(list);
	return err;
}

static int change_metadata(struct server *s, struct rng *r)
{
	struct buf key = {0};
	uint64_t what = below(r, 4);
	int err = meta_table_begin(&key, META_FIRST_USER_TABLE + (uint32_t)below(r, 4));

	if (!err)
		err = what == 0     ? flush_metadata(s)
			: what == 1 ? tablets_merge(s, META_TABLE, buf_bytes(&key))
				    : tablets_split(s, META_TABLE, buf_bytes(&key));
	buf_fini(&key);
	return err == -EEXIST || err == -ENOENT ? 0 : err;
}

int server_step(struct server *s, struct master *m, const char *store_dir, const struct step *st, struct out *o)
{
	struct rng r = {st->seed * 0x9e3779b97f4a7c15u + st->number};
	enum step_kind kind = step_kind(st);
	int err = kind == STEP_MERGE   ? merging_compactions(s, &r)
		: kind == STEP_COLLECT ? collect(m, store_dir, o)
				       : change_metadata(s, &r);

	if (err)
		say(o, "step %llu %s: %s\n", (unsigned long long)st->number, step_kind_names[kind], strerror(-err));
	return err;
}

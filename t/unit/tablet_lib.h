/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tablet with a real log and real SSTables in its own directory, for the tablet's tests
 * and benchmark.  Its METADATA is a struct in memory and may refuse edits.  "Reopening"
 * starts a new incarnation and replays the logs of the redo set.
 */
#ifndef TFS_T_TABLET_LIB_H
#define TFS_T_TABLET_LIB_H

#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/compact/compact_internal.h"
#include "engine/tablet/tablet.h"
#include "engine/tablet/tablet_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIB_FILES = 512, LIB_REDO = 512, LIB_TABLE = 7 };

struct lib {
	char dir[64];
	struct clock *clock;
	struct task_pool *flush_pool, *compact_pool, *log_pool;
	struct sst_cache *cache;
	struct tablet_env env;
	_Atomic size_t memory_used;
	struct store_schema *schema;
	struct tablet *t;
	/* METADATA */
	pthread_mutex_t meta_lock;
	struct tablet_file files[LIB_FILES];
	unsigned file_count;
	struct redo_point redo[LIB_REDO];
	unsigned redo_count, edits, edit_fail, edit_doubt; /* how many of the next edits fail; fail after taking place */
	void (*on_edit)(struct lib *l);                    /* called in the next edit, holding nothing of ours */
	uint64_t seq_mark;
	int64_t major_us;
	struct tablet_token *tokens;
	unsigned token_count;
	/* settings */
	size_t memtable_bytes, cache_bytes;
	bool background;
	bool keep_files; /* files that compactions have replaced are not unlinked */
	struct tfs_bytes begin, end;
};

static inline void lib_must(int err, const char *what)
{
	if (err) {
		fprintf(stderr, "%s: %s\n", what, strerror(-err));
		abort();
	}
}
#define LIB(x) lib_must((x), #x)

static inline int lib_commit(void *arg, struct tablet *t, const struct tablet_edit *e)
{
	struct lib *l = arg;
	void (*on_edit)(struct lib *) = l->on_edit;
	int err = 0;

	l->on_edit = NULL;
	if (on_edit)
		on_edit(l);
	pthread_mutex_lock(&l->meta_lock);
	l->edits++;
	if (l->edit_fail) {
		l->edit_fail--;
		err = -EIO;
		goto out;
	}
	for (unsigned i = 0; i < e->removed_count; i++) {
		for (unsigned k = 0; k < l->file_count; k++) {
			if (l->files[k].number != e->removed[i].number || l->files[k].incarnation != e->removed[i].incarnation)
				continue;
			tablet_file_fini(&l->files[k]);
			l->files[k] = l->files[--l->file_count];
			break;
		}
	}
	for (unsigned i = 0; i < e->added_count; i++) {
		bool there = false;

		for (unsigned k = 0; k < l->file_count; k++)
			there |= l->files[k].number == e->added[i].number && l->files[k].incarnation == e->added[i].incarnation;
		if (!there) {
			struct tablet_file copy;

			if ((err = tablet_file_copy(&copy, &e->added[i])))
				goto out;
			l->files[l->file_count++] = copy;
		}
	}
	if (e->set_redo) {
		for (unsigned i = 0; i < e->redo_count; i++)
			l->redo[i] = e->redo[i];
		l->redo_count = e->redo_count;
	}
	if (e->set_tokens) {
		tablet_tokens_free(l->tokens, l->token_count);
		l->tokens = calloc(e->token_count + 1u, sizeof *l->tokens);
		for (l->token_count = 0; l->token_count < e->token_count; l->token_count++) {
			struct tablet_token *to = &l->tokens[l->token_count];

			*to = (struct tablet_token){e->tokens[l->token_count].client, e->tokens[l->token_count].number, {0}};
			LIB(buf_append_bytes(&to->result, buf_bytes(&e->tokens[l->token_count].result)));
		}
	}
	if (e->seq_mark)
		l->seq_mark = e->seq_mark;
	if (e->major_us)
		l->major_us = e->major_us;
	if (l->edit_doubt) {
		l->edit_doubt--;
		err = -EIO;
	}
out:
	pthread_mutex_unlock(&l->meta_lock);
	return err;
}

struct lib_replay {
	struct lib *l;
	uint64_t incarnation;
};

static inline int lib_replay_one(void *arg, const struct log_record *r)
{
	struct lib_replay *p = arg;
	uint64_t bad;

	return tablet_replay(p->l->t, p->incarnation, &r, 1, &bad);
}

static inline char *lib_log_dir(struct lib *l, uint64_t incarnation)
{
	char name[64];

	snprintf(name, sizeof name, "log%llu", (unsigned long long)incarnation);
	return path_join(l->dir, name);
}

/* In the place of the collector. */
static inline void lib_retired(void *arg, const char *path)
{
	if (!((struct lib *)arg)->keep_files)
		(void)!file_unlink(path);
}

/* A new incarnation from METADATA and the logs. */
static inline void lib_start(struct lib *l)
{
	struct log_options lo = {
		.incarnation = ++l->env.incarnation, .segment_bytes = 64u << 20, .sync_interval_us = 1000000, .pool = l->log_pool};
	struct tablet_params p = {
		.env = &l->env,
		.table = LIB_TABLE,
		.begin = l->begin,
		.end = l->end,
		.schema = l->schema,
		.files = l->files,
		.file_count = l->file_count,
		.redo = l->redo,
		.redo_count = l->redo_count,
		.tokens = l->tokens,
		.token_count = l->token_count,
		.seq_mark = l->seq_mark,
		.major_us = l->major_us,
		.rank_edit = RANK_TABLET_EDIT_USER,
		.commit = lib_commit,
		.commit_arg = l,
	};
	struct redo_point redo[LIB_REDO];
	unsigned redo_count = l->redo_count;
	char *dir = lib_log_dir(l, l->env.incarnation);

	memcpy(redo, l->redo, sizeof redo);
	LIB(file_mkdir(dir));
	lo.dir = dir;
	LIB(log_new(&lo, &l->env.log));
	free(dir);
	l->env.next_file = 1;
	LIB(sst_cache_new(l->cache_bytes ? l->cache_bytes : 64u << 20, 16u << 20, &l->cache));
	sst_cache_on_retired(l->cache, lib_retired, l);
	l->env.cache = l->cache;
	l->env.memtable_bytes = l->memtable_bytes;
	l->env.no_background = !l->background;
	LIB(tablet_new(&p, &l->t));
	for (unsigned i = 0; i < redo_count; i++) {
		struct lib_replay a = {l, redo[i].incarnation};
		struct log_end end;
		char *why = NULL;

		dir = lib_log_dir(l, redo[i].incarnation);
		LIB(log_replay(dir, redo[i].lsn, lib_replay_one, &a, &end, &why));
		free(why);
		free(dir);
	}
	tablet_replay_done(l->t);
}

/* A merging compaction, if the policy has one; *did. */
static inline int tablet_compact_step(struct tablet *t, bool *did)
{
	return compact_merge(t, false, did);
}

static inline void lib_stop(struct lib *l)
{
	tablet_free(l->t);
	l->t = NULL;
	LIB(log_free(l->env.log));
	sst_cache_free(l->cache);
}

static inline void lib_init(struct lib *l, const char *base)
{
	char sst[80];

	memset(l, 0, sizeof *l);
	snprintf(l->dir, sizeof l->dir, "%s/tfs-tablet-XXXXXX", base);
	if (!mkdtemp(l->dir))
		abort();
	snprintf(sst, sizeof sst, "%s/sst", l->dir);
	LIB(file_mkdir(sst));
	pthread_mutex_init(&l->meta_lock, NULL);
	l->clock = clock_new(NULL, NULL);
	LIB(task_pool_new("flush", 1, &l->flush_pool));
	LIB(task_pool_new("compact", 1, &l->compact_pool));
	LIB(task_pool_new("log", 2, &l->log_pool));
	l->env.compactor = &compact_functions;
	l->env.data_dir = l->dir;
	l->env.clock = l->clock;
	l->env.flush_pool = l->flush_pool;
	l->env.compact_pool = l->compact_pool;
	l->env.memory_used = &l->memory_used;
	l->memtable_bytes = 64u << 20;
}

static inline void lib_fini(struct lib *l)
{
	char cmd[128];

	task_pool_free(l->flush_pool);
	task_pool_free(l->compact_pool);
	task_pool_free(l->log_pool);
	clock_free(l->clock);
	for (unsigned i = 0; i < l->file_count; i++)
		tablet_file_fini(&l->files[i]);
	store_schema_put(l->schema);
	tablet_tokens_free(l->tokens, l->token_count);
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", l->dir);
	if (system(cmd))
		abort();
}

/* Families 1..n with these rules; family i is in group i % groups. */
static inline struct store_schema *lib_schema(const char *const *rules, unsigned n, unsigned groups)
{
	struct store_schema *s = calloc(1, sizeof *s);

	s->refs = 1;
	s->family_count = n;
	s->group_count = groups;
	s->families = calloc(n, sizeof *s->families);
	s->groups = calloc(groups, sizeof *s->groups);
	for (unsigned i = 0; i < n; i++) {
		s->families[i].id = (uint16_t)(i + 1);
		s->families[i].group = (uint16_t)((i + 1) % groups + 1);
		LIB(gc_parse(rules[i], &s->families[i].rule, NULL));
	}
	for (unsigned i = 0; i < groups; i++) {
		s->groups[i].id = (uint16_t)(i + 1);
		s->groups[i].sst = (struct sst_options){
			.codec = i % 2 ? SST_ZSTD : SST_SNAPPY, .level = 3, .block_bytes = 4096, .bloom_bits = 10};
	}
	return s;
}

static inline int lib_mutate(struct lib *l, const char *row, const struct op *ops, unsigned count, bool sync, struct tfs_result *r)
{
	const struct row_mutation m = {tfs_str(row), ops, count};
	struct tablet_row x = {.m = &m, .results = r};

	tablet_mutate(l->t, &x, 1, sync);
	return x.err;
}

static inline int lib_op(struct lib *l, const char *row, const struct op *o, struct tfs_result *r)
{
	return lib_mutate(l, row, o, 1, false, r);
}

static inline int lib_put(struct lib *l, const char *row, uint16_t family, const char *q, int64_t ts, struct tfs_bytes value)
{
	struct op o = {.kind = OP_WRITE,
		.family = family,
		.w.qualifier = tfs_str(q),
		.w.place = {false, ts},
		.value = value,
		.w.truncate_to = UINT64_MAX};

	return lib_op(l, row, &o, NULL);
}

/* Files under sst/ on disk. */
static inline unsigned lib_disk_files(struct lib *l)
{
	char cmd[160];
	unsigned n = 0;
	FILE *f;

	snprintf(cmd, sizeof cmd, "find '%s/sst' -name '*.sst' 2>/dev/null | wc -l", l->dir);
	f = popen(cmd, "r");
	if (!f || fscanf(f, "%u", &n) != 1)
		abort();
	pclose(f);
	return n;
}

#endif

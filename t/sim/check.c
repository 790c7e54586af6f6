/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the state of the cluster (check.h). */
#include "t/sim/check.h"
#include "t/sim/work.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/client/metadata.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define COMPACTED_US 60000000u
enum { ROWS_MOST = 1024, FILES_MOST = 8192 };

struct state {
	struct node *client;
	struct meta_tablet rows[ROWS_MOST]; /* the root tablet's first */
	unsigned lists[ROWS_MOST];          /* servers that say they serve the tablet */
	unsigned count;
	char *files[FILES_MOST]; /* TABLE/NAME, that rows name */
	unsigned file_count;
	char wrong[300];
};

static void state_free(struct state *s)
{
	for (unsigned i = 0; i < s->count; i++)
		meta_tablet_fini(&s->rows[i]);
	for (unsigned i = 0; i < s->file_count; i++)
		free(s->files[i]);
	free(s);
}

__attribute__((format(printf, 2, 3))) static int wrong(struct state *s, const char *fmt, ...)
{
	va_list ap;

	if (*s->wrong)
		return -EBADMSG;
	va_start(ap, fmt);
	vsnprintf(s->wrong, sizeof(s->wrong), fmt, ap);
	va_end(ap);
	return -EBADMSG;
}

/* ---- METADATA ---- */

static int row_add(struct state *s, struct meta_tablet *m)
{
	if (s->count == ROWS_MOST)
		return wrong(s, "too many rows");
	s->rows[s->count++] = *m;
	*m = (struct meta_tablet){0};
	return 0;
}

static int row_scanned(void *arg, struct tfs_bytes key, struct meta_tablet *m)
{
	(void)key;
	return row_add(arg, m);
}

static int read_rows(struct state *s)
{
	struct meta_tablet root = {0};
	struct buf b = {0};
	int err = lock_get(s->client->locks, "root", &b, NULL);

	if (!err)
		err = meta_root_decode(buf_bytes(&b), &root);
	buf_fini(&b);
	if (!err)
		err = row_add(s, &root);
	if (!err)
		err = metadata_scan(
			route_service(s->client->router), tfs_bytes_of("", 0), (struct tfs_bytes){NULL, 0}, row_scanned, s);
	if (err)
		wrong(s, "METADATA cannot be read: %s", strerror(-err));
	return err;
}

/* Each table's tablets have no gap, and the last one has no end.  The root tablet is the first one of table 1. */
static int check_rows(struct state *s)
{
	for (unsigned i = 0; i < s->count; i++) {
		const struct meta_tablet *m = &s->rows[i], *before = i ? &s->rows[i - 1] : NULL;
		bool first = !before || before->table != m->table;
		struct tfs_bytes begin = first ? tfs_bytes_of("", 0) : buf_bytes(&before->end);

		if (before && first && !before->last)
			return wrong(s, "table %u has no last tablet", before->table);
		if (!first && before->last)
			return wrong(s, "table %u has a tablet behind its last one", m->table);
		if (bytes_cmp(buf_bytes(&m->begin), begin) > 0)
			return wrong(s, "table %u: no tablet has the rows from %s on", m->table, Q(begin));
		if (!m->last && bytes_cmp(buf_bytes(&m->end), begin) <= 0)
			return wrong(s, "table %u: a tablet ends at %s, where it begins", m->table, Q(begin));
	}
	return s->count && s->rows[s->count - 1].last ? 0 : wrong(s, "the last table has no last tablet");
}

/* ---- servers ---- */

static struct node *server_by_incarnation(uint64_t incarnation)
{
	for (unsigned i = 0; i < cluster.count; i++)
		if (cluster.nodes[i]->role == SERVER && cluster.nodes[i]->incarnation == incarnation)
			return cluster.nodes[i];
	return NULL;
}

static int compare_list(struct state *s, const struct node *n, const struct ts_answer *a)
{
	for (uint32_t k = 0; k < a->tablet_count; k++) {
		const struct ts_assigned *t = &a->tablets[k];
		unsigned i = 0;

		while (i < s->count &&
			(s->rows[i].table != t->table || s->rows[i].last != !t->end.p ||
				(t->end.p && !bytes_eq(buf_bytes(&s->rows[i].end), t->end))))
			i++;
		if (i == s->count)
			return wrong(s, "%s serves a tablet of table %u ending at %s that METADATA does not have", n->proc->name,
				t->table, Q(t->end));
		if (!bytes_eq(
			    t->begin, i && s->rows[i - 1].table == t->table ? buf_bytes(&s->rows[i - 1].end) : tfs_bytes_of("", 0)))
			return wrong(s, "%s serves the tablet of table %u ending at %s from %s on", n->proc->name, t->table,
				Q(t->end), Q(t->begin));
		if (s->rows[i].server != n->incarnation && !cluster.sole)
			return wrong(s, "%s (%llu) serves the tablet of table %u ending at %s, whose owner is %llu", n->proc->name,
				(unsigned long long)n->incarnation, t->table, Q(t->end), (unsigned long long)s->rows[i].server);
		s->lists[i]++;
	}
	return 0;
}

static int check_servers(struct state *s)
{
	static const struct ts_request q = {.method = TS_LIST};

	for (unsigned i = 0; i < cluster.count; i++) {
		struct node *n = cluster.nodes[i];
		struct ts_answer a = {0};
		int err;

		if (n->role != SERVER || !n->serving)
			continue;
		err = ts_call(net_tablets(s->client->proc, &n->ep), &q, &a);
		err = err ? wrong(s, "LIST of %s: %s", n->proc->name, strerror(-err)) : compare_list(s, n, &a);
		ts_answer_fini(&a);
		if (err)
			return err;
	}
	for (unsigned i = 0; i < s->count; i++) {
		const struct meta_tablet *m = &s->rows[i];
		const struct node *n = server_by_incarnation(m->server);

		if ((!n || !n->serving) && !cluster.sole)
			return wrong(s, "table %u, tablet ending at %s: its owner %llu is dead", m->table, Q(buf_bytes(&m->end)),
				(unsigned long long)m->server);
		if (s->lists[i] != 1)
			return wrong(s, "table %u, tablet ending at %s: %u servers serve it", m->table, Q(buf_bytes(&m->end)),
				s->lists[i]);
	}
	return 0;
}

/* ---- files ---- */

static int file_add(struct state *s, const struct tablet_file *f)
{
	char *path = tablet_file_path(cluster.dir, f->table, f->incarnation, f->number);
	uint64_t bytes = 0;
	int err = path ? file_stat_size(path, &bytes) : -ENOMEM;

	if (err)
		err = wrong(s, "%s, which METADATA names: %s", path, strerror(-err));
	else if (bytes != f->bytes)
		err = wrong(s, "%s has %llu bytes, and METADATA says %llu", path, (unsigned long long)bytes,
			(unsigned long long)f->bytes);
	if (s->file_count == FILES_MOST)
		err = wrong(s, "too many files");
	if (err)
		free(path);
	else
		s->files[s->file_count++] = path;
	return err;
}

static int check_files(struct state *s)
{
	for (unsigned i = 0; i < s->count; i++) {
		const struct meta_tablet *m = &s->rows[i];

		for (unsigned k = 0; k < m->file_count; k++) {
			int err = file_add(s, &m->files[k]);

			if (err)
				return err;
		}
		/* A merge that did not happen keeps its files until the row is changed. */
		for (const struct meta_tablet *lower = m->merge; lower; lower = lower->merge)
			for (unsigned k = 0; k < lower->file_count; k++) {
				const struct tablet_file *f = &lower->files[k];

				if (s->file_count < FILES_MOST)
					s->files[s->file_count++] =
						tablet_file_path(cluster.dir, f->table, f->incarnation, f->number);
			}
	}
	return 0;
}

static bool is_named(const struct state *s, const char *path)
{
	for (unsigned i = 0; i < s->file_count; i++)
		if (strcmp(s->files[i], path) == 0)
			return true;
	return false;
}

struct listing {
	struct state *s;
	const char *dir;
};

static int listed_file(void *arg, const char *name, bool is_dir)
{
	struct listing *l = arg;
	char *path = path_join(l->dir, name);
	struct listing below = {l->s, path};
	int err = !path ? -ENOMEM : is_dir ? file_list(path, listed_file, &below) : 0;

	if (!err && !is_dir && !is_named(l->s, path))
		err = wrong(l->s, "%s, which METADATA does not name, was not removed", path);
	free(path);
	return err;
}

/* The log of a dead server exists only as long as a redo set names it. */
static int listed_log(void *arg, const char *name, bool is_dir)
{
	struct listing *l = arg;
	uint64_t incarnation = strtoull(name, NULL, 10);
	const struct node *n = server_by_incarnation(incarnation);

	(void)is_dir;
	if (n && n->serving)
		return 0;
	for (unsigned i = 0; i < l->s->count; i++)
		for (unsigned k = 0; k < l->s->rows[i].redo_count; k++)
			if (l->s->rows[i].redo[k].incarnation == incarnation)
				return 0;
	return wrong(l->s, "log/%s, which no redo set names, was not removed", name);
}

/* Nothing else exists. */
static int check_unreferenced(struct state *s)
{
	char *sst = path_join(cluster.dir, "sst"), *log = path_join(cluster.dir, "log");
	struct listing l = {s, sst};
	int err = sst && log ? file_list(sst, listed_file, &l) : -ENOMEM;

	if (!err)
		err = file_list(log, listed_log, &l);
	free(sst);
	free(log);
	if (err)
		wrong(s, "%s", strerror(-err));
	return err;
}

static int check_once(struct state *s)
{
	int err = read_rows(s);

	if (!err)
		err = check_rows(s);
	if (!err)
		err = check_servers(s);
	if (!err)
		err = check_files(s);
	if (!err)
		err = check_unreferenced(s);
	return err;
}

void check_state(struct node *client, uint64_t until)
{
	bool compacted = until < sim_now();

	for (;;) {
		struct state *s = calloc(1, sizeof(*s));
		int err;

		if (!s)
			sim_fail("out of memory");
		s->client = client;
		err = check_once(s);
		sim_trace("the state: %s", err ? s->wrong : "sound");
		if (err && sim_now() > until)
			sim_fail("%s", s->wrong);
		state_free(s);
		if (!err)
			return;
		/* If a split or merge could not drop the files without rows of its result, the next compaction does. */
		if (!compacted && sim_now() + COMPACTED_US > until) {
			work_compact(client);
			compacted = true;
		}
		sim_sleep(1000000);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's store: its lock, the clock, opening and closing.
 *
 * Nothing is kept on disk: tfs_open makes SOURCE if it is absent, so that a
 * mount over the model meets the directory it expects, and starts empty.
 * SOURCE may hold anything: in a random-history test it is the very
 * directory that the real store uses.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "t/model/model_types.h"

static pthread_mutex_t the_lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t (*clock_fn)(void *arg);
static void *clock_arg;

void mdl_lock(void)
{
	pthread_mutex_lock(&the_lock);
}
void mdl_unlock(void)
{
	pthread_mutex_unlock(&the_lock);
}

void model_set_clock(int64_t (*now_us)(void *arg), void *arg)
{
	mdl_lock();
	clock_fn = now_us;
	clock_arg = arg;
	mdl_unlock();
}

static int64_t system_time(void)
{
	struct timespec ts;

	if (clock_fn)
		return clock_fn(clock_arg);
	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t mdl_now(struct tfs_store *s)
{
	return system_time();
}

int64_t mdl_table_now(const struct tfs_table *t)
{
	return t->schema->pub.snapshot_of ? t->schema->pub.snapshot_us : mdl_now(t->store);
}

/*
 * Returns the time, or one more than the last result if the time is not larger.  After the clock was set back by more than
 * a second it returns the time.  INT64_MAX repeats.
 */
int64_t mdl_unique(struct tfs_store *s)
{
	int64_t now = system_time();

	if (now > s->last_unique || now < s->last_unique - 1000000)
		s->last_unique = now;
	else if (s->last_unique < INT64_MAX)
		s->last_unique++;
	return s->last_unique;
}

int tfs_open(const char *source, const struct tfs_options *o, struct tfs_store **out, char **why)
{
	struct stat st;
	int r;

	if (why)
		*why = NULL;
	if (!source || !*source) {
		mdl_why(why, "no source given");
		return -EINVAL;
	}
	if ((mkdir(source, 0777) < 0 && errno != EEXIST) || stat(source, &st) < 0) {
		r = -errno;
		mdl_why(why, "%s: %m", source);
		return r;
	}
	if (!S_ISDIR(st.st_mode)) {
		mdl_why(why, "%s: not a directory", source);
		return -ENOTDIR;
	}
	struct tfs_store *s = calloc(1, sizeof(*s));
	if (s)
		s->source = strdup(source);
	if (!s || !s->source) {
		free(s);
		mdl_why(why, "%s: out of memory", source);
		return -ENOMEM;
	}
	s->next_table = 1;
	s->last_unique = INT64_MIN + 1000000;
	*out = s;
	return 0;
}

int tfs_close(struct tfs_store *s)
{
	if (!s)
		return 0;
	mdl_lock();
	if (s->handles > 0) {
		mdl_unlock();
		return -EBUSY;
	}
	for (size_t i = 0; i < s->n; i++)
		mdl_table_put(s->table[i]);
	mdl_snapshots_free(s);
	mdl_unlock();
	free(s->table);
	free(s->source);
	free(s);
	return 0;
}

int tfs_sync(struct tfs_store *s)
{
	return s ? 0 : -EINVAL;
}

int tfs_space(struct tfs_store *s, uint64_t *total_bytes, uint64_t *available_bytes)
{
	struct statvfs v;

	if (statvfs(s->source, &v) < 0)
		return -errno;
	*total_bytes = (uint64_t)v.f_blocks * v.f_frsize;
	*available_bytes = (uint64_t)v.f_bavail * v.f_frsize;
	return 0;
}

struct totals {
	uint64_t tables, rows, cells, bytes, commits;
};

static struct totals count(struct tfs_store *s)
{
	struct totals n = {0};

	mdl_lock();
	n.tables = s->n;
	n.commits = s->commits;
	for (size_t i = 0; i < s->n; i++) {
		n.rows += s->table[i]->n;
		for (size_t j = 0; j < s->table[i]->n; j++) {
			const struct mdl_row *row = s->table[i]->row[j];
			for (size_t k = 0; k < row->n; k++) {
				n.cells += row->col[k]->n;
				for (size_t l = 0; l < row->col[k]->n; l++)
					n.bytes += row->col[k]->v[l].value->size;
			}
		}
	}
	mdl_unlock();
	return n;
}

/* The model has no settings. */
int tfs_config(struct tfs_store *s, char **text)
{
	*text = strdup("");
	return *text ? 0 : -ENOMEM;
}

int tfs_config_change(struct tfs_store *s, struct tfs_bytes text, char **why)
{
	if (why)
		*why = NULL;
	return -EOPNOTSUPP;
}

int tfs_config_replace(struct tfs_store *s, const struct tfs_options *o, char **left)
{
	*left = strdup("");
	return *left ? 0 : -ENOMEM;
}

int tfs_options_example(char **text)
{
	*text = strdup("");
	return *text ? 0 : -ENOMEM;
}

int tfs_status_for(struct tfs_store *s, uint64_t watcher, char **text)
{
	return tfs_status(s, text);
}

int tfs_status(struct tfs_store *s, char **text)
{
	struct totals n = count(s);
	char *p;

	if (asprintf(&p, "incarnation 1\ntables %llu\nrows %llu\ncells %llu\nvalue_bytes %llu\ncommits %llu\n",
		    (unsigned long long)n.tables, (unsigned long long)n.rows, (unsigned long long)n.cells,
		    (unsigned long long)n.bytes, (unsigned long long)n.commits) < 0)
		return -ENOMEM;
	*text = p;
	return 0;
}

int tfs_clients(struct tfs_store *s, char **text)
{
	*text = strdup("");
	return *text ? 0 : -ENOMEM;
}

void tfs_login(struct tfs_store *s, struct tfs_login *out)
{
	*out = (struct tfs_login){.uid = geteuid(), .gid = getegid(), .for_others = true};
}

int tfs_answers(struct tfs_store *s, uint64_t limit_us)
{
	return -ENOTSUP;
}

int tfs_client_refuse(struct tfs_store *s, uint64_t client, bool refuse)
{
	return -ENOENT;
}

int tfs_servers(struct tfs_store *s, int (*fn)(void *arg, const struct tfs_server *server), void *arg)
{
	struct totals n = count(s);
	struct tfs_server one = {"model", "SERVING", 1, (unsigned)n.tables, n.bytes};

	return fn(arg, &one);
}

void tfs_will_close(struct tfs_store *s)
{
}

/* Nobody else changes the model. */
int tfs_watch(struct tfs_store *s, void (*fn)(void *arg, const struct tfs_change *changes, unsigned count), void *arg)
{
	return 0;
}

void tfs_unwatch(struct tfs_store *s)
{
}

/* The model's errors have no reasons. */
const char *tfs_error(struct tfs_store *s)
{
	return "";
}

int tfs_confirm_clock(struct tfs_store *s)
{
	return 0;
}

int tfs_key(struct tfs_store *s, const char *purpose, unsigned char *key)
{
	memset(key, 0, TFS_KEY_BYTES);
	strncpy((char *)key, purpose, TFS_KEY_BYTES - 1);
	return 0;
}

int tfs_metrics(struct tfs_store *s, char **text)
{
	struct totals n = count(s);
	char *p;

	if (asprintf(&p,
		    "# TYPE tabletfs_tables gauge\ntabletfs_tables %llu\n"
		    "# TYPE tabletfs_rows gauge\ntabletfs_rows %llu\n"
		    "# TYPE tabletfs_cells gauge\ntabletfs_cells %llu\n"
		    "# TYPE tabletfs_value_bytes gauge\ntabletfs_value_bytes %llu\n"
		    "# TYPE tabletfs_commits_total counter\ntabletfs_commits_total %llu\n",
		    (unsigned long long)n.tables, (unsigned long long)n.rows, (unsigned long long)n.cells,
		    (unsigned long long)n.bytes, (unsigned long long)n.commits) < 0)
		return -ENOMEM;
	*text = p;
	return 0;
}

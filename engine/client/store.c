/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store handle, and the registry of open tables.  All users of a table
 * share one struct tfs_table.  So when a handle receives a newer schema, all
 * handles see it.
 */
#include "engine/client/client.h"
#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/msg.h"
#include "engine/base/numbers.h"
#include "engine/base/stop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* The pause between two sendings of a request to the master. */
#define PAUSE_FIRST_US UINT64_C(10000)
#define PAUSE_MOST_US UINT64_C(300000)

const char *tfs_version(void)
{
	return PACKAGE_VERSION;
}

int client_new(const struct client_options *o, struct tfs_store **out)
{
	struct tfs_store *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->o = *o;
	s->number = reason_store();
	s->forks = process_forks();
	mutex_init(&s->lock, RANK_CLIENT);
	mutex_init(&s->config_lock, RANK_CLIENT);
	cond_init(&s->waits);
	*out = s;
	return 0;
}

int tfs_close(struct tfs_store *s)
{
	reason_clear();
	unsigned handles;
	int err;

	if (!s || store_is_parents(s))
		return 0;
	mutex_lock(&s->lock);
	handles = s->handles;
	mutex_unlock(&s->lock);
	if (handles) {
		msg_error("the store cannot be closed: %u tables, mutations and scans of it are in use", handles);
		return store_why(s, -EBUSY, "%u tables, mutations and scans of the store are in use", handles);
	}
	err = s->o.close(s->o.arg);
	mutex_fini(&s->lock);
	mutex_fini(&s->config_lock);
	cond_fini(&s->waits);
	free(s);
	return err;
}

/* ---- readers of changes that wait ---- */

static struct waiter *_Atomic *waiters_of(struct tfs_store *s, uint32_t tablets)
{
	return &s->waiters[tablets % WAITER_LISTS];
}

void waiter_add(struct tfs_store *s, struct waiter *w)
{
	struct waiter *_Atomic *list = waiters_of(s, w->tablets);

	mutex_lock(&s->lock);
	if (!w->listed) {
		w->listed = true;
		w->next = *list;
		*list = w;
	}
	mutex_unlock(&s->lock);
}

/* The caller holds the store's lock. */
static void waiter_take_out(struct tfs_store *s, struct waiter *w)
{
	struct waiter *_Atomic *list = waiters_of(s, w->tablets), *before = *list;

	if (before == w)
		*list = w->next;
	for (; before && before != w; before = before->next)
		if (before->next == w)
			before->next = w->next;
	w->listed = false;
}

void waiter_remove(struct tfs_store *s, struct waiter *w)
{
	mutex_lock(&s->lock);
	if (w->listed)
		waiter_take_out(s, w);
	mutex_unlock(&s->lock);
}

void waiter_wake(struct tfs_store *s, struct waiter *w)
{
	void (*fn)(void *arg) = w->fn;

	waiter_take_out(s, w);
	w->fn = NULL;
	if (fn)
		fn(w->arg);
	cond_broadcast(&s->waits);
}

/*
 * A reader adds itself before it reads, and a mutation has been published before it looks here.  So if the mutation does not
 * find the reader, the reader finds the mutation: both have used the locks of the tablet in between.
 */
static void waiters_wake_list(struct tfs_store *s, uint32_t list, uint32_t tablets)
{
	if (!s->waiters[list])
		return;
	mutex_lock(&s->lock);
	for (struct waiter *w = s->waiters[list], *next; w; w = next) {
		next = w->next;
		if (!tablets || w->tablets == tablets)
			waiter_wake(s, w);
	}
	mutex_unlock(&s->lock);
}

void waiters_wake(struct tfs_store *s, uint32_t tablets)
{
	if (tablets)
		waiters_wake_list(s, tablets % WAITER_LISTS, tablets);
	for (uint32_t i = 0; i < WAITER_LISTS && !tablets; i++)
		waiters_wake_list(s, i, 0);
}

int tfs_sync(struct tfs_store *s)
{
	reason_clear();
	struct ts_request q = {.method = TS_SYNC};
	struct ts_answer a = {0};
	int err = user_errno(call_tablet_service(s->o.tablets, &q, &a));

	ts_answer_fini(&a);
	return err;
}

int tfs_space(struct tfs_store *s, uint64_t *total_bytes, uint64_t *available_bytes)
{
	reason_clear();
	return s->o.space(s->o.arg, total_bytes, available_bytes);
}

/* The client's own metrics.  tfs_metrics appends them to the metrics of the servers. */
#define NUMBERS_MAX 8
static unsigned numbers_get(struct tfs_store *s, struct number *v)
{
	struct route_stats r;
	unsigned n = 0;

	if (!s->o.router)
		return 0;
	route_get_stats(s->o.router, &r);
#define ADD(n_, h_, v_, g_) v[n++] = (struct number){n_, h_, v_, g_}
	ADD("location_hits", "requests whose tablet server was in the cache of locations", r.hits, false);
	ADD("location_reads", "lookups of a tablet's server in METADATA, the root tablet or the root file", r.reads, false);
	ADD("location_stale", "cached locations that the server did not serve any more", r.stale, false);
	ADD("location_prefetched", "locations read in addition to the one looked up", r.prefetched, false);
	ADD("location_entries", "locations in the cache", r.entries, true);
	ADD("location_bytes", "memory of the cache of locations", r.bytes, true);
#undef ADD
	return n;
}

/* Appends a NUL and sets *text, which the caller frees.  On error the text is freed. */
static int text_finish(struct buf *b, int err, char **text)
{
	if (!err)
		err = buf_u8(b, 0);
	if (err)
		buf_fini(b);
	else
		*text = (char *)b->p;
	return err;
}

int tfs_status_for(struct tfs_store *s, uint64_t watcher, char **text)
{
	reason_clear();
	struct buf b = {0};

	return text_finish(&b, s->o.status(s->o.arg, watcher, &b), text);
}

int tfs_status(struct tfs_store *s, char **text)
{
	return tfs_status_for(s, 0, text);
}

int tfs_metrics(struct tfs_store *s, char **text)
{
	reason_clear();
	struct number v[NUMBERS_MAX];
	struct buf b = {0};
	int err = s->o.metrics(s->o.arg, &b);

	if (!err)
		err = numbers_metrics(v, numbers_get(s, v), &b);
	return text_finish(&b, err, text);
}

int tfs_config(struct tfs_store *s, char **text)
{
	reason_clear();
	struct buf b = {0};
	int err;

	if (s->o.config)
		return text_finish(&b, s->o.config(s->o.arg, &b), text);
	mutex_lock(&s->config_lock);
	err = options_render(&s->o.options, &b);
	mutex_unlock(&s->config_lock);
	return text_finish(&b, err, text);
}

int tfs_options_example(char **text)
{
	struct buf b = {0};

	return text_finish(&b, options_render_example(&b), text);
}

static void config_set_locked(struct tfs_store *s, const struct tfs_options *next)
{
	if (next->log_level >= 0)
		msg_set_level((enum msg_level)next->log_level);
	if (s->o.change)
		s->o.change(s->o.arg, next);
	s->o.options = *next;
}

int tfs_config_change(struct tfs_store *s, struct tfs_bytes text, char **why)
{
	reason_clear();
	struct tfs_options next;
	char *reason = NULL;
	int err;

	if (s->o.config_change) {
		err = s->o.config_change(s->o.arg, text, &reason);
	} else {
		mutex_lock(&s->config_lock);
		next = s->o.options;
		err = options_change(&next, text, &reason);
		if (!err)
			config_set_locked(s, &next);
		mutex_unlock(&s->config_lock);
	}
	if (err && reason)
		(void)store_why(s, err, "%s", reason);
	if (why)
		*why = reason;
	else
		free(reason);
	return err;
}

int tfs_config_replace(struct tfs_store *s, const struct tfs_options *o, char **left)
{
	reason_clear();
	struct tfs_options next;
	struct buf names = {0};
	int err;

	mutex_lock(&s->config_lock);
	next = s->o.options;
	err = options_adopt(&next, o, &names);
	if (!err)
		err = text_finish(&names, 0, left);
	if (!err)
		config_set_locked(s, &next);
	mutex_unlock(&s->config_lock);
	if (err)
		buf_fini(&names);
	return err;
}

void tfs_will_close(struct tfs_store *s)
{
	if (s->o.will_close)
		s->o.will_close(s->o.arg);
}

int tfs_confirm_clock(struct tfs_store *s)
{
	reason_clear();
	return s->o.confirm_clock(s->o.arg);
}

void tfs_login(struct tfs_store *s, struct tfs_login *out)
{
	*out = (struct tfs_login){.uid = geteuid(), .gid = getegid(), .for_others = true};
	if (s->o.login)
		s->o.login(s->o.arg, out);
}

int tfs_key(struct tfs_store *s, const char *purpose, unsigned char *key)
{
	reason_clear();
	return s->o.key(s->o.arg, purpose, key);
}

int tfs_clients(struct tfs_store *s, char **text)
{
	reason_clear();
	struct buf b = {0};

	return text_finish(&b, s->o.clients(s->o.arg, &b), text);
}

int tfs_client_refuse(struct tfs_store *s, uint64_t client, bool refuse)
{
	reason_clear();
	int err = s->o.client_refuse(s->o.arg, client, refuse);

	return err == -ENOENT ? store_why(s, err, "the store has no client %" PRIu64, client) : err;
}

int tfs_answers(struct tfs_store *s, uint64_t limit_us)
{
	reason_clear();
	return s->o.answers ? user_errno(s->o.answers(s->o.arg, limit_us))
			    : store_why(s, -ENOTSUP, "this process does not serve the store");
}

int tfs_servers(struct tfs_store *s, int (*fn)(void *arg, const struct tfs_server *server), void *arg)
{
	reason_clear();
	return s->o.servers(s->o.arg, fn, arg);
}

/* Returns true if err, after an attempt of unknown outcome, shows that the attempt was carried out. */
static bool is_carried_out(const struct ms_request *q, int err)
{
	return err == -ENOENT && (q->method == MS_TABLE_DROP || q->method == MS_SNAPSHOT_DROP);
}

/*
 * Calls the master.  Repeats the request if its outcome is unknown, or if it was not carried
 * out because a tablet was not served or no master led.  The master recognizes a repetition by
 * the request's number.
 */
static int call_patiently(struct tfs_store *s, const struct ms_request *request, struct ms_answer *a)
{
	const uint64_t since_us = monotonic_us();
	struct ms_request own = *request, *q = &own;
	uint64_t pause_us = PAUSE_FIRST_US, timeout_us;
	bool unknown = false;
	int err = random_bytes(&own.number, sizeof(own.number));

	if (err)
		return err;

	mutex_lock(&s->config_lock);
	timeout_us = stop_wait_left(s->o.options.timeout_us);
	mutex_unlock(&s->config_lock);
	for (;;) {
		const bool late = monotonic_us() - since_us >= timeout_us;

		err = ms_call(s->o.master, q, a);
		if (unknown && is_carried_out(q, err))
			err = 0;
		if (err != -EAGAIN && err != -UNREACHABLE && err != -ANSWER_LOST && err != -ETIMEDOUT)
			return err;
		unknown = unknown || err == -ANSWER_LOST || err == -ETIMEDOUT;
		if (late)
			return unknown ? -ETIMEDOUT : -UNREACHABLE;
		if (stop_asked_waiting(true))
			return -WAIT_INTERRUPTED;
		ms_answer_fini(a);
		*a = (struct ms_answer){0};
		(void)usleep((useconds_t)pause_us);
		pause_us = pause_us * 2 < PAUSE_MOST_US ? pause_us * 2 : PAUSE_MOST_US;
	}
}

/* Sets the reason of the master's error, which its answer does not have. */
static void master_why(struct tfs_store *s, const struct ms_request *q, int err)
{
	const char *table = q->name ? q->name : "", *to = q->to ? q->to : table;
	const char *part = q->edit && q->edit->name ? q->edit->name : "",
		   *value = q->edit && q->edit->value ? q->edit->value : part;
	const bool edits = q->method == MS_SCHEMA_CHANGE,
		   of_snapshot = q->method == MS_SNAPSHOT_CREATE || q->method == MS_SNAPSHOT_DROP;

	if (err == -EACCES)
		(void)store_why(s, err, "table %s: only its owner may do this", table);
	else if (err == -EPERM && edits)
		(void)store_why(s, err, "table %s: the user may not change this of %s", table, part);
	else if (err == -EPERM && (q->method == MS_TABLE_CREATE || q->method == MS_TABLE_CLONE))
		(void)store_why(s, err, "table %s: only root and the owner of the store make tables", to);
	else if (err == -EPERM)
		(void)store_why(s, err, "table %s: it is protected (protect in its schema), or the user may not do this", to);
	else if (err == -ENOTEMPTY)
		(void)store_why(s, err, "table %s: it has cells", to);
	else if (err == -EEXIST && edits)
		(void)store_why(s, err, "table %s: %s exists already", table, value);
	else if (err == -EEXIST && of_snapshot)
		(void)store_why(s, err, "table %s: it has a snapshot %s already", table, to);
	else if (err == -EEXIST)
		(void)store_why(s, err, "there is a table %s already", to);
	else if (err == -ENOENT && edits && *part)
		(void)store_why(s, err, "table %s: there is no %s, or the table was dropped", table, part);
	else if (err == -ENOENT && q->method == MS_SNAPSHOT_DROP)
		(void)store_why(s, err, "table %s: it has no snapshot %s", table, to);
	else if (err == -ENOENT)
		(void)store_why(s, err, "there is no table %s", table);
	else if (err == -EINVAL && edits)
		(void)store_why(s, err, "table %s: a name or value of %s is not valid", table, part);
}

int call_master(struct tfs_store *s, const struct ms_request *q, struct ms_answer *a, char **why)
{
	int err = store_is_parents(s) ? store_why(s, -EPERM, PARENTS) : call_patiently(s, q, a);

	stop_wait_ended(err);
	err = user_errno(err);
	if (err && a->why)
		(void)store_why(s, err, "%s%s%s%s", q->name ? "table " : "", q->name ? q->name : "", q->name ? ": " : "", a->why);
	else if (err && !reason_is_set())
		master_why(s, q, err);
	if (why) {
		*why = a->why;
		a->why = NULL;
	}
	if (!err && a->schema)
		table_update_schema(s, a->schema);
	waiters_wake(s, 0);
	return err;
}

/* ---- the registry ---- */
void table_update_schema(struct tfs_store *s, const struct schema *schema)
{
	const struct tfs_schema *p = schema_public(schema);
	const struct schema *old = NULL;
	struct tfs_table *t;

	mutex_lock(&s->lock);
	HASH_FIND(hh, s->tables, &p->table_id, sizeof(p->table_id), t);
	if (t && schema_public(t->schema)->generation <= p->generation) {
		old = t->schema;
		t->schema = schema_get(schema);
	}
	mutex_unlock(&s->lock);
	if (old)
		schema_put(old);
}

void table_mark_gone(struct tfs_store *s, const char *name, uint32_t but)
{
	struct tfs_table *t, *tmp;

	mutex_lock(&s->lock);
	HASH_ITER(hh, s->tables, t, tmp)
	if (t->id != but && !schema_public(t->schema)->snapshot_of && strcmp(schema_public(t->schema)->name, name) == 0)
		t->gone = true;
	mutex_unlock(&s->lock);
}

void snapshot_mark_gone(struct tfs_store *s, uint32_t table, const char *name)
{
	struct tfs_table *t, *tmp;

	mutex_lock(&s->lock);
	HASH_ITER(hh, s->tables, t, tmp)
	if (schema_public(t->schema)->snapshot_of == table && strcmp(schema_public(t->schema)->name, name) == 0)
		t->gone = true;
	mutex_unlock(&s->lock);
}

bool table_gone(struct tfs_table *t)
{
	bool gone;

	mutex_lock(&t->store->lock);
	gone = table_base(t)->gone;
	mutex_unlock(&t->store->lock);
	return gone;
}

const struct schema *table_schema(struct tfs_table *t)
{
	const struct schema *s;

	mutex_lock(&t->store->lock);
	s = schema_get(table_base(t)->schema);
	mutex_unlock(&t->store->lock);
	return s;
}

bool tfs_name_valid(const char *name)
{
	return name && schema_name_valid(tfs_str(name));
}

bool name_valid(struct tfs_store *s, const char *name)
{
	const bool valid = tfs_name_valid(name);

	if (!valid)
		(void)store_why(s, -EINVAL,
			"%s is no name: names of tables, families and groups match [A-Za-z0-9_][A-Za-z0-9_.-]{0,63}",
			Q(tfs_str(name ? name : "")));
	return valid;
}

const char *tfs_error(struct tfs_store *s)
{
	if (!s)
		reason_clear();
	return s ? reason_text(s->number) : "";
}

int tfs_table_open(struct tfs_store *s, const char *name, struct tfs_table **out)
{
	reason_clear();
	struct schema *schema = NULL;
	int err = store_is_parents(s) ? store_why(s, -EPERM, PARENTS) : name_valid(s, name) ? lock_sync(s->o.locks) : -EINVAL;

	if (!err)
		err = schemas_table(s->o.locks, name, &schema, NULL);
	if (err == -ENOENT)
		return store_why(s, err, "there is no table %s", name);
	return err ? user_errno(err) : table_open(s, schema, NULL, out);
}

int table_open(struct tfs_store *s, const struct schema *schema, struct tfs_table *of, struct tfs_table **out)
{
	struct tfs_table *t, *made = calloc(1, sizeof(*made));
	int err = 0;

	if (!made) {
		schema_put(schema);
		return -ENOMEM;
	}
	table_update_schema(s, schema);
	made->id = schema_public(schema)->table_id;
	mutex_lock(&s->lock);
	HASH_FIND(hh, s->tables, &made->id, sizeof(made->id), t);
	if (t) {
		t->refs++;
	} else {
		HASH_ADD(hh, s->tables, id, sizeof(made->id), made);
		if (made->hh.tbl) {
			t = made;
			made = NULL;
			t->store = s;
			t->refs = 1;
			t->schema = schema_get(schema);
			t->of = of;
			window_init(&t->window);
		} else {
			err = -ENOMEM;
		}
	}
	s->handles += t != NULL;
	if (t && !made && of) {
		of->refs++;
		s->handles++;
	}
	mutex_unlock(&s->lock);
	if (t)
		*out = t;
	free(made);
	schema_put(schema);
	return err;
}

void table_get(struct tfs_table *t)
{
	mutex_lock(&t->store->lock);
	t->refs++;
	t->store->handles++;
	mutex_unlock(&t->store->lock);
}

int tfs_table_as(struct tfs_table *t, const struct tfs_user *user, struct tfs_table **out)
{
	reason_clear();
	struct tfs_table *as = calloc(1, sizeof(*as) + user->group_count * sizeof(gid_t));
	gid_t *groups = (gid_t *)(as + 1);

	if (!as)
		return -ENOMEM;
	if (user->group_count)
		memcpy(groups, user->groups, user->group_count * sizeof(gid_t));
	*as = (struct tfs_table){.store = t->store, .id = t->id, .refs = 1, .base = table_base(t), .user = *user};
	as->user.groups = groups;
	table_get(as->base); /* this counts the new handle in store.handles, too */
	*out = as;
	return 0;
}

void tfs_table_close(struct tfs_table *t)
{
	struct tfs_table *base;
	struct tfs_store *s;
	bool last;

	if (!t)
		return;
	s = t->store;
	mutex_lock(&s->lock);
	last = --t->refs == 0;
	base = !last ? NULL : t->base ? t->base : t->of;
	if (!last || !t->base)
		s->handles--;
	if (last && !t->base)
		HASH_DEL(s->tables, t);
	mutex_unlock(&s->lock);
	if (last) {
		if (!t->base)
			window_fini(&t->window);
		schema_put(t->schema);
		schema_put(t->restricted);
		schema_put(t->restricted_by);
		free(t);
	}
	tfs_table_close(base);
}

uint32_t tfs_table_id(const struct tfs_table *t)
{
	return t->id;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock service of a simulated cluster (lock_sim.h).
 *
 * A call makes a request, which a thread of the process "world" carries out when
 * it arrives, also if the caller's process is paused or dead by then.  The caller
 * waits for the answer.  Only this code changes the files, and it does not wait
 * between two steps of a change, so it needs no lock.
 *
 * A session may see the changes of others late, as the state of the files some time ago (struct
 * change).  What it sees never goes back.  It becomes the present state by a
 * change of its own and by sync, and it has a change of which a watch has told.
 */
#include "t/sim/lock_sim.h"
#include "engine/base/clock.h"
#include "engine/lock/lock_format.h"
#include "engine/lock/ops.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define LAG_MOST_US 3000000u /* the longest lag of a session */

struct file {
	char *name;
	struct buf contents;
	struct lock_stat stat;
	struct session *owner; /* the owner of an ephemeral file; NULL for a lasting file */
};

/* A file before a change of it. */
struct change {
	uint64_t at_us;
	char *name;
	bool existed;
	struct buf contents;
	struct lock_stat stat;
};

struct watch {
	struct watch *next;
	lock_watch_fn *fn;
	void *arg;
	unsigned running; /* firings under way */
	bool removed;
	char name[LOCK_NAME_MAX + 2];
};

struct session {
	struct lock_service base; /* first */
	struct lock_sim *l;
	struct proc *proc;
	struct session *next;
	uint64_t timeout_us, heard_us;
	uint64_t last_arrival_us;
	uint64_t cut_until_us;
	bool expired;
	uint64_t seen;   /* how many changes it sees */
	uint64_t lag_us; /* it also sees changes that are older than this */
	struct watch *watches;
};

struct lock_sim {
	struct proc *world;
	bool local;
	struct lock_sim_faults faults;
	uint64_t silent_until_us;
	struct file *files; /* by name */
	unsigned count;
	struct change *changes; /* the latest ones, in their order */
	unsigned change_count;
	uint64_t forgotten; /* earlier changes, which all sessions see */
	struct session *sessions;
};

/* ---- the files ---- */

static unsigned file_at(const struct lock_sim *l, const char *name)
{
	unsigned lo = 0, hi = l->count;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (strcmp(l->files[mid].name, name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct file *file_find(const struct lock_sim *l, const char *name)
{
	unsigned i = file_at(l, name);

	return i < l->count && strcmp(l->files[i].name, name) == 0 ? &l->files[i] : NULL;
}

static uint64_t present(const struct lock_sim *l)
{
	return l->forgotten + l->change_count;
}

static void changes_forget(struct lock_sim *l)
{
	unsigned n = 0;

	for (; n < l->change_count && l->changes[n].at_us + LAG_MOST_US < sim_now(); n++) {
		free(l->changes[n].name);
		buf_fini(&l->changes[n].contents);
	}
	memmove(l->changes, l->changes + n, (l->change_count - n) * sizeof(*l->changes));
	l->change_count -= n;
	l->forgotten += n;
}

/* Called before each change of a file. */
static void change_add(struct lock_sim *l, const char *name)
{
	const struct file *f = file_find(l, name);
	struct change c = {.at_us = sim_now(), .name = strdup(name), .existed = f != NULL};

	changes_forget(l);
	l->changes = realloc(l->changes, (l->change_count + 1) * sizeof(*l->changes));
	if (!l->changes || (f && buf_set(&c.contents, f->contents.p, f->contents.n)))
		sim_fail("out of memory");
	if (f)
		c.stat = f->stat;
	l->changes[l->change_count++] = c;
}

/* The file as the session sees it.  Returns false if it sees none. */
static bool file_seen(const struct session *s, const char *name, struct tfs_bytes *contents, struct lock_stat *stat)
{
	const struct lock_sim *l = s->l;
	const struct file *f = file_find(l, name);

	for (unsigned i = s->seen > l->forgotten ? (unsigned)(s->seen - l->forgotten) : 0; i < l->change_count; i++)
		if (strcmp(l->changes[i].name, name) == 0) {
			*contents = buf_bytes(&l->changes[i].contents);
			*stat = l->changes[i].stat;
			return l->changes[i].existed;
		}
	if (f) {
		*contents = buf_bytes(&f->contents);
		*stat = f->stat;
	}
	return f != NULL;
}

static void sees(struct session *s, uint64_t changes)
{
	if (s->seen < changes)
		s->seen = changes;
}

/* A read: the session's server in the lock service is some time behind. */
static void sees_late(struct session *s)
{
	const struct lock_sim *l = s->l;
	uint64_t n = l->forgotten;

	if (!l->faults.lag_us)
		s->lag_us = 0;
	else if (sim_chance(4))
		s->lag_us = sim_chance(2) ? 0 : sim_random(l->faults.lag_us);
	for (unsigned i = 0; i < l->change_count && (!s->lag_us || l->changes[i].at_us + s->lag_us <= sim_now()); i++)
		n++;
	sees(s, n);
}

static void file_remove(struct lock_sim *l, const char *name)
{
	unsigned i = file_at(l, name);

	change_add(l, name);
	free(l->files[i].name);
	buf_fini(&l->files[i].contents);
	memmove(l->files + i, l->files + i + 1, (l->count - i - 1) * sizeof(*l->files));
	l->count--;
}

static void file_put(struct lock_sim *l, const char *name, struct tfs_bytes contents, struct session *owner)
{
	unsigned i = file_at(l, name);

	change_add(l, name);
	if (i == l->count || strcmp(l->files[i].name, name) != 0) {
		l->files = realloc(l->files, (l->count + 1) * sizeof(*l->files));
		if (!l->files)
			sim_fail("out of memory");
		memmove(l->files + i + 1, l->files + i, (l->count - i) * sizeof(*l->files));
		l->count++;
		l->files[i] = (struct file){.name = strdup(name), .owner = owner};
	}
	if (buf_set(&l->files[i].contents, contents.p, contents.n))
		sim_fail("out of memory");
	l->files[i].stat.version++;
	l->files[i].stat.mtime_us = clock_system(NULL); /* the clock of the process "world" */
}

/* ---- watches ---- */

struct firing {
	struct session *s;
	struct watch *w;
	uint64_t change;
	char name[LOCK_NAME_MAX + 1];
};

static void fire_main(void *arg)
{
	struct firing *f = arg;

	sees(f->s, f->change);
	if (!f->w->removed)
		f->w->fn(f->w->arg, f->name);
	f->w->running--;
	sim_wake(f->w, UINT_MAX);
	free(f);
}

static bool watches(const struct watch *w, const char *name)
{
	size_t n = strlen(w->name);

	if (n && w->name[n - 1] == '/')
		return strncmp(w->name, name, n) == 0;
	return strcmp(w->name, name) == 0;
}

static void fire(struct lock_sim *l, const char *name)
{
	for (struct session *s = l->sessions; s; s = s->next)
		for (struct watch *w = s->watches; w; w = w->next) {
			struct firing *f;
			uint64_t delay = 200 + sim_random(l->faults.delay_us + 1);

			if (s->expired || s->proc->dead || w->removed || !watches(w, name))
				continue;
			f = calloc(1, sizeof(*f));
			if (!f)
				sim_fail("out of memory");
			f->s = s;
			f->w = w;
			f->change = present(l);
			snprintf(f->name, sizeof(f->name), "%s", name);
			w->running++;
			/* A session that is cut hears of changes when it is connected again. */
			if (s->cut_until_us > sim_now())
				delay += s->cut_until_us - sim_now();
			sim_spawn(s->proc, delay, fire_main, f);
		}
}

/* ---- sessions ---- */

static void session_expire(struct session *s)
{
	struct lock_sim *l = s->l;

	sim_trace("the session of %s expires", s->proc->name);
	s->expired = true;
	for (unsigned i = l->count; i-- > 0;)
		if (l->files[i].owner == s) {
			char name[LOCK_NAME_MAX + 1];

			snprintf(name, sizeof(name), "%s", l->files[i].name);
			file_remove(l, name);
			fire(l, name);
		}
}

static void expire_main(void *arg)
{
	struct lock_sim *l = arg;

	for (;;) {
		sim_sleep(50000);
		for (struct session *s = l->sessions; s; s = s->next) {
			/* The client library of a live process sends pings. */
			if (!s->proc->dead && s->proc->paused_until <= sim_now() && s->cut_until_us <= sim_now())
				s->heard_us = sim_now();
			if (l->silent_until_us > sim_now())
				s->heard_us = sim_now(); /* the next leader waits for each session's whole timeout */
			if (!s->expired && sim_now() - s->heard_us > s->timeout_us)
				session_expire(s);
		}
	}
}

/* ---- requests ---- */

enum kind { GET, MULTI, LIST, SYNC };
struct request {
	struct session *s;
	enum kind kind;
	char *name;
	struct lock_op *ops;
	unsigned count;
	struct lock_stat *stats; /* GET: one */
	struct buf answer;
	int err;
	bool done, left; /* left: its sender does not wait */
};

static void request_free(struct request *r)
{
	for (unsigned i = 0; i < r->count; i++) {
		free((void *)(uintptr_t)r->ops[i].name);
		free((void *)(uintptr_t)r->ops[i].contents.p);
	}
	free(r->ops);
	free(r->stats);
	free(r->name);
	buf_fini(&r->answer);
	free(r);
}

static int check_op(const struct lock_sim *l, const struct lock_op *op)
{
	const struct file *f = file_find(l, op->name);

	if (op->expect == LOCK_ABSENT && f)
		return -EEXIST;
	if (op->expect != LOCK_ABSENT && op->expect != LOCK_ANY && !f)
		return -ENOENT;
	if (f && op->expect != LOCK_ANY && op->expect != LOCK_EXISTS && f->stat.version != op->expect)
		return -VERSION_CHANGED;
	for (unsigned i = 0; i < l->count && op->what == LOCK_PUT && !f; i++)
		if (lock_names_clash(l->files[i].name, op->name))
			return -EINVAL;
	return 0;
}

static int do_multi(struct lock_sim *l, struct request *r)
{
	for (unsigned i = 0; i < r->count; i++) {
		int err = check_op(l, &r->ops[i]);

		if (err)
			return err;
	}
	for (unsigned i = 0; i < r->count; i++) {
		const struct lock_op *op = &r->ops[i];
		bool exists = file_find(l, op->name) != NULL;

		if (op->what == LOCK_PUT)
			file_put(l, op->name, op->contents, op->ephemeral ? r->s : NULL);
		else if (op->what == LOCK_REMOVE && exists)
			file_remove(l, op->name);
		if (op->what != LOCK_REMOVE)
			r->stats[i] = file_find(l, op->name)->stat;
		if (op->what == LOCK_PUT || (op->what == LOCK_REMOVE && exists))
			fire(l, op->name);
	}
	return 0;
}

static int do_get(struct request *r)
{
	struct tfs_bytes contents;

	sees_late(r->s);
	if (!file_seen(r->s, r->name, &contents, r->stats))
		return -ENOENT;
	return buf_append(&r->answer, contents.p, contents.n);
}

static bool has_name(const struct buf *names, const char *name, size_t n)
{
	for (const char *p = (const char *)names->p, *end = p + names->n; p < end; p += strlen(p) + 1)
		if (strlen(p) == n && memcmp(p, name, n) == 0)
			return true;
	return false;
}

/* Adds the file's name in the directory; at the top, the name of its directory. */
static int list_add(struct request *r, const char *name)
{
	const size_t n = strlen(r->name);
	struct tfs_bytes contents;
	struct lock_stat stat;
	int err;

	if (n && (strncmp(name, r->name, n) != 0 || name[n] != '/'))
		return 0;
	if (!file_seen(r->s, name, &contents, &stat))
		return 0;
	name += n ? n + 1 : 0;
	if (has_name(&r->answer, name, strcspn(name, n ? "" : "/")))
		return 0;
	err = buf_append(&r->answer, name, strcspn(name, n ? "" : "/"));
	return err ? err : buf_u8(&r->answer, 0);
}

static int do_list(const struct lock_sim *l, struct request *r)
{
	int err = 0;

	sees_late(r->s);
	for (unsigned i = 0; i < l->count && !err; i++)
		err = list_add(r, l->files[i].name);
	for (unsigned i = 0; i < l->change_count && !err; i++)
		err = list_add(r, l->changes[i].name); /* it may have been removed */
	return err;
}

static int carry_out(struct lock_sim *l, struct request *r)
{
	int err = 0;

	if (r->s->expired)
		return -SESSION_ENDED;
	if (r->kind == GET)
		return do_get(r);
	if (r->kind == LIST)
		return do_list(l, r);
	if (r->kind == MULTI)
		err = do_multi(l, r);
	sees(r->s, present(l));
	return err;
}

static void arrive_main(void *arg)
{
	struct request *r = arg;
	struct session *s = r->s;
	bool cut = s->cut_until_us > sim_now() || (s->l->local && s->proc->dead);

	r->err = cut ? -UNREACHABLE : carry_out(s->l, r);
	if (!cut && !s->expired)
		s->heard_us = sim_now();
	r->done = true;
	if (r->left)
		request_free(r);
	else
		sim_wake(r, 1);
}

/* Requests of a session arrive in their order. */
static uint64_t in_order(struct session *s, uint64_t at)
{
	if (at <= s->last_arrival_us)
		at = s->last_arrival_us + 1;
	s->last_arrival_us = at;
	return at;
}

/* The connection is lost.  The next leader carries the request out, or has not got it. */
static void leave(struct request *r)
{
	if (sim_chance(2)) {
		request_free(r);
		return;
	}
	r->left = true;
	sim_spawn(r->s->l->world, in_order(r->s, r->s->l->silent_until_us) - sim_now(), arrive_main, r);
}

/* Sends the request and waits.  Frees it after an error. */
static int send(struct request *r)
{
	struct session *s = r->s;
	const struct lock_sim_faults *f = &s->l->faults;
	uint64_t at = sim_now() + 150 + sim_random(f->delay_us + 1);
	int err;

	proc_step();
	if (s->expired && s->cut_until_us <= sim_now()) {
		request_free(r);
		return -SESSION_ENDED;
	}
	/* Without a leader a change waits for the next one, or the connection is lost. */
	if ((r->kind == MULTI || r->kind == SYNC) && s->l->silent_until_us > at) {
		if (sim_chance(2)) {
			leave(r);
			sim_sleep(sim_random(1000000));
			return -UNREACHABLE;
		}
		at = s->l->silent_until_us + sim_random(f->delay_us + 1);
	}
	at = in_order(s, at);
	if (s->cut_until_us > sim_now() || sim_chance(f->lose)) {
		/* Lost on the way. */
		request_free(r);
		sim_sleep(f->delay_us + 1000);
		return -UNREACHABLE;
	}
	sim_spawn(s->l->world, at - sim_now(), arrive_main, r);
	while (!r->done)
		(void)sim_wait(r, SIM_NEVER);
	err = r->err;
	sim_sleep(150 + sim_random(f->delay_us + 1));
	if (s->cut_until_us > sim_now() || sim_chance(f->lose))
		err = -UNREACHABLE; /* the answer is lost */
	if (err)
		request_free(r);
	proc_step();
	return err;
}

static struct request *request_new(struct lock_service *service, enum kind kind, const char *name)
{
	struct request *r = calloc(1, sizeof(*r));

	if (!r)
		sim_fail("out of memory");
	r->s = (struct session *)service;
	r->kind = kind;
	r->name = name ? strdup(name) : NULL;
	r->stats = calloc(LOCK_OPS_MAX, sizeof(*r->stats));
	return r;
}

/* ---- the interface ---- */

static int sim_get(struct lock_service *service, const char *name, struct buf *contents, struct lock_stat *stat)
{
	struct request *r;
	int err;

	if (!lock_name_valid(name))
		return -EINVAL;
	r = request_new(service, GET, name);
	err = send(r);
	if (err)
		return err;
	if (stat)
		*stat = *r->stats;
	if (contents)
		err = buf_set(contents, r->answer.p, r->answer.n);
	request_free(r);
	return err;
}

static int sim_multi(struct lock_service *service, const struct lock_op *ops, unsigned count, struct lock_stat *stats)
{
	struct request *r;
	int err = lock_ops_check(ops, count);

	if (err)
		return err;
	r = request_new(service, MULTI, NULL);
	r->count = count;
	r->ops = calloc(count, sizeof(*r->ops));
	for (unsigned i = 0; i < count && r->ops; i++) {
		size_t n = ops[i].what == LOCK_PUT ? ops[i].contents.n : 0;
		uint8_t *p = malloc(n + 1);

		if (!p)
			sim_fail("out of memory");
		r->ops[i] = ops[i];
		r->ops[i].name = strdup(ops[i].name);
		if (n)
			memcpy(p, ops[i].contents.p, n);
		r->ops[i].contents = tfs_bytes_of(p, n);
	}
	err = send(r);
	if (err)
		return err;
	if (stats)
		memcpy(stats, r->stats, count * sizeof(*stats));
	request_free(r);
	return 0;
}

static int sim_list(struct lock_service *service, const char *dir, int (*fn)(void *arg, const char *name), void *arg)
{
	struct request *r;
	int err;

	if (*dir && (!lock_name_valid(dir) || strchr(dir, '/')))
		return -EINVAL;
	r = request_new(service, LIST, dir);
	err = send(r);
	if (err)
		return err;
	err = lock_names_report(buf_bytes(&r->answer), fn, arg);
	request_free(r);
	return err;
}

static int sim_sync(struct lock_service *service)
{
	struct request *r = request_new(service, SYNC, NULL);
	int err = send(r);

	if (!err)
		request_free(r);
	return err;
}

static int sim_watch(struct lock_service *service, const char *name, lock_watch_fn *fn, void *arg)
{
	struct session *s = (struct session *)service;
	struct watch *w;
	char plain[LOCK_NAME_MAX + 2];
	size_t n = strlen(name);

	if (n == 0 || n >= sizeof(plain))
		return -EINVAL;
	memcpy(plain, name, n + 1);
	if (plain[n - 1] == '/')
		plain[n - 1] = '\0';
	if (!lock_name_valid(plain))
		return -EINVAL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	snprintf(w->name, sizeof(w->name), "%s", name);
	w->fn = fn;
	w->arg = arg;
	w->next = s->watches;
	s->watches = w;
	return 0;
}

static void sim_unwatch(struct lock_service *service, lock_watch_fn *fn, void *arg)
{
	struct session *s = (struct session *)service;

	for (struct watch *w = s->watches; w; w = w->next) {
		if (w->fn != fn || w->arg != arg)
			continue;
		w->removed = true;
		while (w->running)
			(void)sim_wait(w, SIM_NEVER);
	}
}

static void sim_free(struct lock_service *service)
{
	struct session *s = (struct session *)service;

	if (!s->expired)
		session_expire(s);
}

static const struct lock_service_ops sim_ops = {
	.get = sim_get,
	.multi = sim_multi,
	.list = sim_list,
	.sync = sim_sync,
	.watch = sim_watch,
	.unwatch = sim_unwatch,
	.free = sim_free,
};

struct lock_sim *lock_sim_new(struct proc *world, bool local)
{
	struct lock_sim *l = calloc(1, sizeof(*l));

	if (!l)
		sim_fail("out of memory");
	l->world = world;
	l->local = local;
	l->faults.delay_us = 1000;
	sim_spawn(world, 0, expire_main, l);
	return l;
}

void lock_sim_set_faults(struct lock_sim *l, const struct lock_sim_faults *f)
{
	l->faults = *f;
}

struct lock_service *lock_sim_connect(struct lock_sim *l, struct proc *p, uint64_t timeout_us)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		sim_fail("out of memory");
	s->base.ops = &sim_ops;
	s->l = l;
	s->proc = p;
	s->timeout_us = timeout_us;
	s->heard_us = sim_now();
	s->seen = present(l); /* its creation is a change, which its server has */
	s->next = l->sessions;
	l->sessions = s;
	return &s->base;
}

void lock_sim_cut(struct lock_service *session, uint64_t us)
{
	((struct session *)session)->cut_until_us = sim_now() + us;
}

void lock_sim_silence(struct lock_sim *l, uint64_t us)
{
	sim_trace("the lock service has no leader for %llu us", (unsigned long long)us);
	l->silent_until_us = sim_now() + us;
}

bool lock_sim_expired(struct lock_service *session)
{
	return ((struct session *)session)->expired;
}

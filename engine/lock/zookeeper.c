/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock service on ZooKeeper: sessions and multi-operations.  zookeeper_call.c has
 * the calls of the library, zookeeper_watch.c the watches.
 *
 * A multi-operation is one of ZooKeeper:
 *	put      create (LOCK_ABSENT), or setData with the version
 *	remove   delete with the version.  An absent file is created and deleted, which
 *	         fails if there is one
 *	check    check with the version
 * LOCK_ANY, and the version of a check with LOCK_EXISTS, are read before.  If the
 * operation finds that they have changed meanwhile, it is tried again.  It is also tried
 * again, together with the creation of the directory, if a directory does not exist.
 *
 * Rights keep files and directories apart: no file may get children, and no directory
 * contents.  So a name that is used for both is refused by ZooKeeper, at any time.
 */
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/lock/ops.h"
#include "engine/lock/zookeeper_internal.h"

#include <stdlib.h>

#define VERSION_NONE INT32_MAX /* no znode has it */
/* The most sub-operations of one operation: one of its directory, two of its file. */
#define PARTS 3

static struct zk *zk_of(struct lock_service *s)
{
	return (struct zk *)s;
}

static uint64_t deadline_of(const struct zk *z)
{
	return monotonic_us() + z->patience_us;
}

/* ---- reads ---- */

static struct lock_stat stat_of(const struct Stat *s)
{
	return (struct lock_stat){(uint64_t)s->version + 1, s->mtime * 1000};
}

static int zk_get(struct lock_service *s, const char *name, struct buf *contents, struct lock_stat *stat)
{
	struct zk *z = zk_of(s);
	struct call *c;
	int err;

	if (!lock_name_valid(name))
		return -EINVAL;
	err = zk_read(z, name, zk_send_get, deadline_of(z), &c);
	if (err)
		return err;
	if (!c->has_data)
		err = -ENOENT; /* a directory */
	if (!err && contents)
		err = buf_set(contents, c->data.p, c->data.n);
	if (!err && stat)
		*stat = stat_of(&c->stat);
	zk_call_put(c);
	return err;
}

static int zk_list(struct lock_service *s, const char *dir, int (*fn)(void *arg, const char *name), void *arg)
{
	struct zk *z = zk_of(s);
	struct call *c;
	int err;

	if (*dir && (!lock_name_valid(dir) || strchr(dir, '/')))
		return -EINVAL;
	err = zk_read(z, dir, zk_send_list, deadline_of(z), &c);
	if (err)
		return err == -ENOENT ? 0 : err;
	err = lock_names_report(buf_bytes(&c->data), fn, arg);
	zk_call_put(c);
	return err;
}

static int zk_sync(struct lock_service *s)
{
	return zk_settle(zk_of(s), deadline_of(zk_of(s)));
}

/* ---- changes ---- */

enum part { MAKE_DIR, CREATE, SET, DELETE, CHECK };

/* A multi-operation, and the known state of its files. */
struct plan {
	const struct lock_op *ops;
	unsigned count;
	bool exact;                  /* the caller wants the versions of checked files */
	uint64_t seen[LOCK_OPS_MAX]; /* version when it was read; 0: there was no file */
	bool make_dir[LOCK_OPS_MAX]; /* the file's directory does not exist */
	unsigned parts;
	enum part part[LOCK_OPS_MAX * PARTS];
	unsigned op[LOCK_OPS_MAX * PARTS]; /* the operation that the part belongs to */
	zoo_op_t zk[LOCK_OPS_MAX * PARTS];
	char *path[LOCK_OPS_MAX * PARTS];
};

static int plan_add(struct plan *p, struct zk *z, unsigned i, enum part part, const char *name)
{
	char path[PATH_BYTES];
	char *copy = strdup(zk_path(z, name, path));

	if (!copy)
		return -ENOMEM;
	p->part[p->parts] = part;
	p->op[p->parts] = i;
	p->path[p->parts++] = copy;
	return 0;
}

static void plan_reset(struct plan *p)
{
	for (unsigned k = 0; k < p->parts; k++)
		free(p->path[k]);
	p->parts = 0;
}

/* Translates the operations. */
static int plan_make(struct plan *p, struct zk *z)
{
	int err = 0;

	for (unsigned i = 0; i < p->count && !err; i++) {
		const struct lock_op *op = &p->ops[i];
		const bool absent = op->expect == LOCK_ABSENT || (op->expect == LOCK_ANY && !p->seen[i]);

		if (p->make_dir[i]) {
			char dir[LOCK_NAME_MAX + 1];

			snprintf(dir, sizeof(dir), "%.*s", (int)strcspn(op->name, "/"), op->name);
			err = plan_add(p, z, i, MAKE_DIR, dir);
		}
		if (!err && absent)
			err = plan_add(p, z, i, CREATE, op->name);
		if (!err && (op->what == LOCK_REMOVE || !absent))
			err = plan_add(p, z, i, op->what == LOCK_REMOVE ? DELETE : op->what == LOCK_PUT ? SET : CHECK, op->name);
	}
	return err;
}

/* ZooKeeper's version for an operation on a file that exists; -1: any. */
static int zk_version(const struct lock_op *op, uint64_t seen, bool exact)
{
	uint64_t v = op->expect;

	if (v == LOCK_EXISTS && exact)
		v = seen;
	else if (v == LOCK_ABSENT || v == LOCK_ANY || v == LOCK_EXISTS)
		return -1;
	return v == 0 || v > VERSION_NONE ? VERSION_NONE : (int)(v - 1);
}

static int send_plan(struct zk *z, void *arg, struct call *c)
{
	struct plan *p = arg;
	int rc;

	for (unsigned k = 0; k < p->parts; k++) {
		const struct lock_op *op = &p->ops[p->op[k]];
		const char *bytes = op->contents.n ? (const char *)op->contents.p : "";
		int version = zk_version(op, p->seen[p->op[k]], p->exact && p->part[k] == CHECK);

		switch (p->part[k]) {
		case MAKE_DIR:
			zoo_create_op_init(&p->zk[k], p->path[k], NULL, -1, &z->dirs, 0, NULL, 0);
			break;
		case CREATE:
			zoo_create_op_init(&p->zk[k], p->path[k], bytes, (int)op->contents.n, &z->files,
				op->ephemeral ? ZOO_EPHEMERAL : 0, NULL, 0);
			break;
		case SET:
			zoo_set_op_init(&p->zk[k], p->path[k], bytes, (int)op->contents.n, version, &c->stats[k]);
			break;
		case DELETE:
			zoo_delete_op_init(&p->zk[k], p->path[k], version);
			break;
		case CHECK:
			zoo_check_op_init(&p->zk[k], p->path[k], version);
			break;
		}
	}
	rc = zoo_amulti(z->zh, (int)p->parts, p->zk, c->results, zk_on_multi, c);
	/*
	 * If the session ends between the test of zk_call and this call, the library (3.8.0)
	 * frees the paths that it has seen, so they are not freed here.  If there are more than
	 * two operations, it frees one path twice, and the process ends at once.
	 */
	if (rc == ZINVALIDSTATE)
		p->parts = 0;
	return rc;
}

/* Makes the znodes above the files. */
static int send_top(struct zk *z, void *path, struct call *c)
{
	static char world[] = "world", anyone[] = "anyone";
	struct ACL acl = {z->acls[1].perms, {world, anyone}};
	const struct ACL_vector all = {1, &acl};
	zoo_op_t op;

	zoo_create_op_init(&op, path, NULL, -1, strcmp(path, TOP) == 0 ? &all : &z->dirs, 0, NULL, 0);
	return zoo_amulti(z->zh, 1, &op, c->results, zk_on_multi, c);
}

static int make_root(struct zk *z, uint64_t deadline_us)
{
	char top[] = TOP;
	char *const paths[] = {top, z->root};

	for (unsigned i = 0; i < 2; i++) {
		struct call *c;
		int err = zk_ask(z, send_top, paths[i], deadline_us, &c); /* may be repeated, because the outcome is the same */

		if (!err)
			zk_call_put(c);
		else if (err != -EEXIST)
			return err;
	}
	return 0;
}

/* Reads the version of the operation's file, or 0. */
static int look(struct plan *p, struct zk *z, unsigned i, uint64_t deadline_us)
{
	struct call *c;
	int err = zk_read(z, p->ops[i].name, zk_send_get, deadline_us, &c);

	if (err && err != -ENOENT)
		return err;
	p->seen[i] = err ? 0 : (uint64_t)c->stat.version + 1;
	if (err)
		return 0;
	err = c->has_data ? 0 : -EINVAL; /* a directory */
	zk_call_put(c);
	return err;
}

/* Part k is the first part that failed, with err.  Returns 0 if the operation must be tried again. */
static int plan_mend(struct plan *p, struct zk *z, unsigned k, int err, uint64_t deadline_us)
{
	const unsigned i = p->op[k];
	const struct lock_op *op = &p->ops[i];
	int looked;

	if (p->part[k] == MAKE_DIR && err == -EEXIST) {
		p->make_dir[i] = false;
		return 0;
	}
	if (err == -ENOENT && (p->part[k] == MAKE_DIR || (p->part[k] == CREATE && !strchr(op->name, '/'))))
		return make_root(z, deadline_us);
	if (err == -ENOENT && p->part[k] == CREATE) {
		p->make_dir[i] = true;
		return 0;
	}
	if (op->expect == LOCK_ANY && (err == -ENOENT || err == -EEXIST))
		return look(p, z, i, deadline_us);
	if (op->what == LOCK_CHECK && op->expect == LOCK_EXISTS && p->exact && err == -VERSION_CHANGED)
		return look(p, z, i, deadline_us);
	if (err != -EEXIST)
		return err;
	looked = look(p, z, i, deadline_us);
	return looked ? looked : err;
}

/* Fills in stats after a success. */
static int plan_stats(const struct plan *p, struct zk *z, const struct call *c, struct lock_stat *stats)
{
	int err = 0;

	memset(stats, 0, p->count * sizeof(*stats));
	for (unsigned k = 0; k < p->parts && !err; k++) {
		const struct lock_op *op = &p->ops[p->op[k]];
		struct lock_stat *stat = &stats[p->op[k]];

		if (op->what == LOCK_REMOVE || p->part[k] == MAKE_DIR)
			continue;
		if (p->part[k] == SET) {
			*stat = stat_of(&c->stats[k]);
		} else if (p->part[k] == CHECK) {
			stat->version = op->expect == LOCK_EXISTS ? p->seen[p->op[k]] : op->expect;
		} else {
			stat->version = 1;
			if (op->ephemeral) {
				struct lock_stat now;

				err = zk_get(&z->base, op->name, NULL, &now);
				stat->mtime_us = err ? 0 : now.mtime_us;
			}
		}
	}
	return err ? -UNREACHABLE : 0;
}

/* Tries the operation once.  Returns 0 with *again set if it must be tried again. */
static int plan_try(struct plan *p, struct zk *z, struct lock_stat *stats, uint64_t deadline_us, bool *again)
{
	struct call *c;
	unsigned k = 0;
	int err = plan_make(p, z);

	if (!err)
		err = zk_call(z, send_plan, p, p->parts, true, deadline_us, &c);
	if (err)
		return err;
	err = zk_error(c->rc);
	if (err == -UNREACHABLE) {
		mutex_lock(&z->mutex);
		z->doubts++;
		mutex_unlock(&z->mutex);
	}
	while (k < p->parts && (c->results[k].err == ZOK || c->results[k].err == ZRUNTIMEINCONSISTENCY))
		k++;
	if (err && err != -UNREACHABLE && err != -SESSION_ENDED && err != -ENOMEM && k < p->parts) {
		err = plan_mend(p, z, k, zk_error(c->results[k].err), deadline_us);
		*again = !err;
	} else if (!err && stats) {
		err = plan_stats(p, z, c, stats);
	}
	zk_call_put(c);
	return err;
}

static int zk_multi(struct lock_service *s, const struct lock_op *ops, unsigned count, struct lock_stat *stats)
{
	struct zk *z = zk_of(s);
	struct lock_stat got[LOCK_OPS_MAX];
	const uint64_t deadline_us = deadline_of(z);
	struct plan *p;
	bool again = true;
	int err = lock_ops_check(ops, count);

	if (err)
		return err;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->ops = ops;
	p->count = count;
	p->exact = stats != NULL;
	for (unsigned i = 0; i < count && !err; i++)
		if (ops[i].expect == LOCK_ANY || (ops[i].what == LOCK_CHECK && ops[i].expect == LOCK_EXISTS && stats))
			err = look(p, z, i, deadline_us);
	while (!err && again) {
		again = false;
		err = plan_try(p, z, stats ? got : NULL, deadline_us, &again);
		plan_reset(p);
	}
	free(p);
	if (!err && stats)
		memcpy(stats, got, count * sizeof(*stats));
	return err;
}

/* ---- watches ---- */

static int zk_watch(struct lock_service *s, const char *name, lock_watch_fn *fn, void *arg)
{
	struct zk *z = zk_of(s);
	char plain[LOCK_NAME_MAX + 2];
	size_t n = strlen(name);
	int err;

	if (n == 0 || n >= sizeof(plain))
		return -EINVAL;
	memcpy(plain, name, n + 1);
	if (plain[n - 1] == '/')
		plain[n - 1] = 0;
	if (!lock_name_valid(plain))
		return -EINVAL;
	err = marks_watch(z, name, deadline_of(z));
	return err ? err : watch_add(&z->watches, name, fn, arg);
}

static void zk_unwatch(struct lock_service *s, lock_watch_fn *fn, void *arg)
{
	watch_remove(&zk_of(s)->watches, fn, arg);
}

/* ---- the session ---- */

static void session_end(struct zk *z)
{
	bool ends = !z->ended;

	mutex_assert_held(&z->mutex);
	z->ended = true;
	z->connected = false;
	cond_broadcast(&z->changed);
	if (ends && z->expired)
		z->expired(z->arg);
}

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *arg)
{
	struct zk *z = arg;
	const uint64_t granted_us = (uint64_t)zoo_recv_timeout(zh) * 1000;

	(void)path;
	if (type != ZOO_SESSION_EVENT)
		return;
	mutex_lock(&z->mutex);
	if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
		session_end(z);
	} else if (state == ZOO_CONNECTED_STATE && z->timeout_us && granted_us < z->timeout_us) {
		msg_error("a server of the lock service grants a shorter session than the first one: %llu ms",
			(unsigned long long)granted_us / 1000);
		session_end(z);
	} else if (!z->ended) {
		if (z->timeout_us && z->connected != (state == ZOO_CONNECTED_STATE))
			msg_notice(state == ZOO_CONNECTED_STATE ? "the lock service is connected again"
								: "the connection to the lock service is lost");
		z->connected = state == ZOO_CONNECTED_STATE;
		if (z->connected)
			marks_connected(z);
		cond_broadcast(&z->changed);
	}
	mutex_unlock(&z->mutex);
}

static void zk_free(struct lock_service *s)
{
	struct zk *z = zk_of(s);

	mutex_lock(&z->mutex);
	z->ended = true; /* callbacks ask nothing any more */
	mutex_unlock(&z->mutex);
	if (z->zh)
		zookeeper_close(z->zh);
	if (z->pool)
		task_cancel(&z->again);
	task_pool_free(z->pool);
	marks_free(z);
	mutex_lock(&z->mutex);
	while (z->calls)
		zk_call_free(z->calls);
	mutex_unlock(&z->mutex);
	watch_set_fini(&z->watches);
	cond_fini(&z->changed);
	mutex_fini(&z->mutex);
	free(z);
}

static const struct lock_service_ops zk_ops = {
	.get = zk_get,
	.multi = zk_multi,
	.list = zk_list,
	.sync = zk_sync,
	.watch = zk_watch,
	.unwatch = zk_unwatch,
	.free = zk_free,
};

/* The rights of files and directories: for anyone or, if `key` is set, for owners of the session's key. */
static void set_rights(struct zk *z, bool key)
{
	static char world[] = "world", anyone[] = "anyone", auth[] = "auth", none[] = "";
	const struct Id id = key ? (struct Id){auth, none} : (struct Id){world, anyone};

	z->acls[0] = (struct ACL){ZOO_PERM_READ | ZOO_PERM_WRITE, id};
	z->acls[1] = (struct ACL){ZOO_PERM_READ | ZOO_PERM_CREATE | ZOO_PERM_DELETE, id};
	z->files = (struct ACL_vector){1, &z->acls[0]};
	z->dirs = (struct ACL_vector){1, &z->acls[1]};
}

static int begin_session(struct zk *z, const struct lock_zookeeper_options *o, uint64_t deadline_us, char **why)
{
	const char *hosts = o->hosts;
	struct call *c;
	int err;

	zoo_set_debug_level((ZooLogLevel)0); /* the library would write to standard error */
	z->zh = zookeeper_init(hosts, on_session, (int)(o->timeout_us / 1000), NULL, z, 0);
	if (!z->zh) {
		err = -errno;
		why_set(why, "%s: %s", hosts, err == -ENOMEM ? "out of memory" : "no list of HOST:PORT, or a host has no address");
		return err == -ENOMEM ? err : -EINVAL;
	}
	zoo_set_servers_resolution_delay(z->zh, -1);
	mutex_lock(&z->mutex);
	err = zk_wait_connected(z, deadline_us);
	if (!err)
		z->timeout_us = (uint64_t)zoo_recv_timeout(z->zh) * 1000;
	mutex_unlock(&z->mutex);
	if (!err && z->timeout_us < LOCK_ZOOKEEPER_TIMEOUT_MIN_US) {
		why_set(why, "%s: ZooKeeper grants sessions of %llu ms at most, %llu ms are needed: see maxSessionTimeout", hosts,
			(unsigned long long)z->timeout_us / 1000, (unsigned long long)LOCK_ZOOKEEPER_TIMEOUT_MIN_US / 1000);
		return -EINVAL;
	}
	while (!err && o->digest && zoo_add_auth(z->zh, "digest", o->digest, (int)strlen(o->digest), NULL, NULL) != ZOK) {
		/* The connection was lost. */
		mutex_lock(&z->mutex);
		z->connected = z->connected && zoo_state(z->zh) == ZOO_CONNECTED_STATE;
		err = zk_wait_connected(z, deadline_us);
		mutex_unlock(&z->mutex);
	}
	if (!err) {
		err = zk_read(z, "", zk_send_get, deadline_us, &c);
		if (!err)
			zk_call_put(c);
	}
	if (err == -EINVAL) {
		why_set(why, "%s: ZooKeeper refuses the key of %s", hosts, o->chroot);
		return -EACCES;
	}
	if (err && err != -ENOENT)
		why_set(why, "%s: no session of ZooKeeper: %s", hosts, error_text(err));
	return err == -ENOENT ? 0 : err;
}

int lock_zookeeper_open(const struct lock_zookeeper_options *o, struct lock_service **out, char **why)
{
	struct zk *z;
	int err;

	if (!lock_name_valid(o->chroot) || strchr(o->chroot, '/') || (o->digest && !strchr(o->digest, ':'))) {
		why_set(why, "%s: the name of a cluster has the characters A-Z a-z 0-9 _ . - only, and its key is USER:PASSWORD",
			o->chroot);
		return -EINVAL;
	}
	z = calloc(1, sizeof(*z));
	if (!z)
		return -ENOMEM;
	z->base.ops = &zk_ops;
	z->patience_us = o->patience_us;
	z->expired = o->expired;
	z->arg = o->arg;
	snprintf(z->root, sizeof(z->root), "%s/%s", TOP, o->chroot);
	set_rights(z, o->digest);
	mutex_init(&z->mutex, RANK_LOCKSVC);
	cond_init(&z->changed);
	watch_set_init(&z->watches);
	err = task_pool_new("zookeeper", 1, &z->pool);
	if (!err) {
		task_init(&z->again, z->pool, marks_again);
		err = begin_session(z, o, deadline_of(z), why);
	}
	if (err)
		zk_free(&z->base);
	else
		*out = &z->base;
	return err;
}

uint64_t lock_zookeeper_timeout_us(const struct lock_service *s)
{
	return ((const struct zk *)s)->timeout_us;
}

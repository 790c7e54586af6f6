/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of ZooKeeper's library, and reads.
 *
 * Calls use the library's asynchronous functions and wait for the answer here.  A
 * synchronous function waits for ever if the session ends while it queues its
 * request.  The memory of a request that its caller no longer waits for is freed with
 * its answer, or after the library has ended.
 *
 * An answer may be lost while the change is under way.  ZooKeeper's leader does not carry it out after
 * another operation that the session has sent over its next connection.  So a read
 * after an unknown outcome first waits for a lock_sync.
 *
 * lock_sync is a multi-operation of one check.  ZooKeeper's own sync asks only the leader,
 * which may be replaced already without its knowledge.
 */
#include "engine/base/clock.h"
#include "engine/lock/zookeeper_internal.h"

#include <stdlib.h>

int zk_error(int rc)
{
	switch (rc) {
	case ZOK:
		return 0;
	case ZNONODE:
		return -ENOENT;
	case ZNODEEXISTS:
		return -EEXIST;
	case ZBADVERSION:
		return -VERSION_CHANGED;
	case ZNOAUTH:                  /* a file where a directory is needed, or a directory for a file */
	case ZNOCHILDRENFOREPHEMERALS: /* a file in the place of a directory */
	case ZNOTEMPTY:
		return -EINVAL;
	case ZSESSIONEXPIRED: /* the library or the server has refused the request */
	case ZAUTHFAILED:
	case ZINVALIDSTATE:
		return -SESSION_ENDED;
	case ZSYSTEMERROR:
		return -ENOMEM;
	default:
		return -UNREACHABLE;
	}
}

/* ---- calls ---- */

void zk_call_free(struct call *c)
{
	struct call **at = &c->z->calls;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	buf_fini(&c->data);
	free(c);
}

static void call_done(const struct call *arg, int rc)
{
	struct call *c = (struct call *)(uintptr_t)arg;

	c->rc = rc;
	c->done = true;
	if (c->abandoned)
		zk_call_free(c);
	else
		cond_broadcast(&c->z->changed);
}

void zk_on_multi(int rc, const void *arg)
{
	const struct call *c = arg;
	struct zk *z = c->z;

	mutex_lock(&z->mutex);
	call_done(c, rc);
	mutex_unlock(&z->mutex);
}

static void on_data(int rc, const char *value, int bytes, const struct Stat *stat, const void *arg)
{
	struct call *c = (struct call *)(uintptr_t)arg;
	struct zk *z = c->z;

	mutex_lock(&z->mutex);
	if (rc == ZOK) {
		c->stat = *stat;
		c->has_data = bytes >= 0;
		if (buf_set(&c->data, value, bytes > 0 ? (size_t)bytes : 0))
			rc = ZSYSTEMERROR;
	}
	call_done(c, rc);
	mutex_unlock(&z->mutex);
}

static void on_list(int rc, const struct String_vector *names, const void *arg)
{
	struct call *c = (struct call *)(uintptr_t)arg;
	struct zk *z = c->z;

	mutex_lock(&z->mutex);
	for (int32_t i = 0; rc == ZOK && i < names->count; i++)
		if (buf_append(&c->data, names->data[i], strlen(names->data[i]) + 1))
			rc = ZSYSTEMERROR;
	call_done(c, rc);
	mutex_unlock(&z->mutex);
}

int zk_wait_connected(struct zk *z, uint64_t deadline_us)
{
	while (!z->ended && !z->connected) {
		uint64_t now = monotonic_us();

		if (now >= deadline_us)
			return -UNREACHABLE;
		(void)cond_wait_us(&z->changed, &z->mutex, deadline_us - now);
	}
	return z->ended ? -SESSION_ENDED : 0;
}

int zk_call(struct zk *z, send_fn *send, void *arg, unsigned parts, bool change, uint64_t deadline_us, struct call **out)
{
	struct call *c = calloc(1, sizeof(*c) + parts * (sizeof(*c->results) + sizeof(*c->stats)));
	int err, rc;

	if (!c)
		return -ENOMEM;
	c->z = z;
	c->stats = (struct Stat *)(c->results + parts);
	mutex_lock(&z->mutex);
	c->next = z->calls;
	z->calls = c;
	err = zk_wait_connected(z, deadline_us);
	if (err)
		goto fail;
	rc = is_unrecoverable(z->zh) ? ZINVALIDSTATE : send(z, arg, c);
	if (rc != ZOK) {
		err = zk_error(rc);
		goto fail;
	}
	while (!c->done && !z->ended) {
		const uint64_t now = monotonic_us();

		if (change)
			cond_wait(&z->changed, &z->mutex);
		else if (now < deadline_us)
			(void)cond_wait_us(&z->changed, &z->mutex, deadline_us - now);
		else
			break;
	}
	if (!c->done) {
		c->abandoned = true;
		err = z->ended && !change ? -SESSION_ENDED : -UNREACHABLE;
		mutex_unlock(&z->mutex);
		return err;
	}
	mutex_unlock(&z->mutex);
	*out = c;
	return 0;
fail:
	zk_call_free(c);
	mutex_unlock(&z->mutex);
	return err;
}

void zk_call_put(struct call *c)
{
	struct zk *z = c->z;

	mutex_lock(&z->mutex);
	zk_call_free(c);
	mutex_unlock(&z->mutex);
}

int zk_ask(struct zk *z, send_fn *send, char *path, uint64_t deadline_us, struct call **out)
{
	for (;;) {
		struct call *c;
		int err = zk_call(z, send, path, 1, false, deadline_us, &c);

		if (err)
			return err;
		err = zk_error(c->rc);
		if (!err) {
			*out = c;
			return 0;
		}
		zk_call_put(c);
		if (err != -UNREACHABLE || monotonic_us() >= deadline_us)
			return err;
	}
}

static int send_check(struct zk *z, void *path, struct call *c)
{
	zoo_op_t op;

	zoo_check_op_init(&op, path, -1);
	return zoo_amulti(z->zh, 1, &op, c->results, zk_on_multi, c);
}

int zk_send_get(struct zk *z, void *path, struct call *c)
{
	return zoo_awget(z->zh, path, NULL, NULL, on_data, c);
}

int zk_send_list(struct zk *z, void *path, struct call *c)
{
	return zoo_awget_children(z->zh, path, NULL, NULL, on_list, c);
}

int zk_settle(struct zk *z, uint64_t deadline_us)
{
	struct call *c;
	uint64_t doubts;
	int err;

	mutex_lock(&z->mutex);
	doubts = z->doubts;
	mutex_unlock(&z->mutex);
	err = zk_ask(z, send_check, z->root, deadline_us, &c);
	if (!err)
		zk_call_put(c);
	if (err == -ENOENT)
		err = 0; /* a quorum has decided this, too */
	mutex_lock(&z->mutex);
	if (!err && z->settled < doubts)
		z->settled = doubts;
	mutex_unlock(&z->mutex);
	return err;
}

int zk_read(struct zk *z, const char *name, send_fn *send, uint64_t deadline_us, struct call **out)
{
	char path[PATH_BYTES];
	bool doubt;
	int err = 0;

	mutex_lock(&z->mutex);
	doubt = z->settled < z->doubts;
	mutex_unlock(&z->mutex);
	if (doubt)
		err = zk_settle(z, deadline_us);
	zk_path(z, name, path);
	return err ? err : zk_ask(z, send, path, deadline_us, out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watches of a session of ZooKeeper.
 *
 * A watch of ZooKeeper reports one change.  It must be set again before the next
 * change is noticed.  So each watched name has a mark, and a change takes these steps:
 *	1 the event arrives: ask again, which sets the watch again
 *	2 the answer arrives: call the watches of lock.h, which read the file
 * This call covers a change before the answer.  The next event reports a later change.
 * All callbacks come from one thread, in the order in which ZooKeeper sent them.
 *
 * A mark of a file asks by exists.  A mark of a directory, "DIR/", asks for the names of
 * its files, and by exists while there is no directory.  A change of contents does not
 * change the names, so each file of a watched directory has a mark of its own, its
 * child.  A child whose file was removed is freed.
 *
 * The children of `servers/` are ephemeral files, whose owners write them twice a second.
 * Their watchers need only know which servers live.  So a changed ephemeral child is
 * neither reported nor asked for again.  It is idle then, and the names of its directory
 * show its end.
 *
 * The library sets the watches again after a reconnection, and reports what has
 * changed meanwhile.  An answer that was lost with the connection is asked for again
 * in marks_connected; after another error, or if memory is short, AGAIN_US later.
 *
 * The context of a watch is the session, not a mark, so a late event finds no freed mark.  A mark is the context of its
 * question, and is not freed before the answer.
 *
 * The library sends the paths of all watches in one request of at most 1 MiB then, so a
 * session can watch about 10,000 files.
 *
 * Rejected: to remove watches in unwatch.  A process watches few names, for as long
 * as it runs.
 */
#include "engine/base/clock.h"
#include "engine/base/hashtable.h"
#include "engine/lock/zookeeper_internal.h"

#include <stddef.h>
#include <stdlib.h>

#define AGAIN_US 1000000u

struct mark {
	UT_hash_handle hh; /* by name */
	struct zk *z;
	struct mark *dir; /* the mark of the file's directory, which found the file; or NULL */
	bool named;       /* a watch names the file or the directory, so the mark is no child */
	bool asked;       /* an answer is due */
	bool again;       /* ask again after it */
	bool armed;       /* ZooKeeper reports the next change */
	bool lost;        /* the answer was lost: ask when connected */
	bool known;       /* the watch was armed once; of a directory also the watch of each child in its first list */
	bool report;      /* call the watches after the answer */
	bool first;       /* a child that its directory counts in `unknown` */
	bool ephemeral;   /* as the last answer states it, like czxid */
	bool listed;      /* a directory: names have been read */
	bool absent;      /* a directory: ask by exists */
	unsigned unknown; /* a directory: the children of its first list that are not known yet */
	uint64_t round;   /* counts a directory's lists of names; a child has the last list with its name */
	int64_t czxid;    /* ZooKeeper's id of the file's creation; 0 if there is no file */
	char name[];
};

static bool is_dir(const struct mark *m)
{
	return m->name[strlen(m->name) - 1] == '/';
}

static bool is_idle(const struct mark *m)
{
	return !m->armed && !m->asked && !m->lost;
}

static bool is_child(const struct mark *m)
{
	return m->dir && !m->named;
}

/* ---- the table ---- */

static struct mark *mark_find(struct zk *z, const char *name)
{
	struct mark *m;

	HASH_FIND(hh, z->marks, name, strlen(name), m);
	return m;
}

/* NULL: out of memory. */
static struct mark *mark_add(struct zk *z, const char *name, struct mark *dir)
{
	size_t n = strlen(name);
	struct mark *m = calloc(1, sizeof(*m) + n + 1);

	if (!m)
		return NULL;
	memcpy(m->name, name, n + 1);
	m->z = z;
	m->dir = dir;
	HASH_ADD(hh, z->marks, name, n, m);
	if (!m->hh.tbl) {
		free(m);
		return NULL;
	}
	return m;
}

static void mark_remove(struct mark *m)
{
	HASH_DELETE(hh, m->z->marks, m);
	free(m);
}

/* ---- events: the first step ---- */

static void on_event(zhandle_t *zh, int type, int state, const char *path, void *arg);
static void on_stat(int rc, const struct Stat *stat, const void *arg);
static void on_dir_stat(int rc, const struct Stat *stat, const void *arg);
static void on_names(int rc, const struct String_vector *names, const void *arg);

/* Asks when there is a connection again; if there is one, after a pause.  The caller holds the mutex. */
static void ask_later(struct mark *m)
{
	m->lost = true;
	task_queue_after(&m->z->again, AGAIN_US);
}

/* The caller holds the mutex. */
static void ask(struct mark *m)
{
	struct zk *z = m->z;
	char path[PATH_BYTES], name[LOCK_NAME_MAX + 2];
	int rc;

	m->again = m->lost = false;
	if (z->ended)
		return;
	strcpy(name, m->name);
	if (is_dir(m))
		name[strlen(name) - 1] = 0;
	zk_path(z, name, path);
	if (!is_dir(m))
		rc = zoo_awexists(z->zh, path, on_event, z, on_stat, m);
	else if (m->absent)
		rc = zoo_awexists(z->zh, path, on_event, z, on_dir_stat, m);
	else
		rc = zoo_awget_children(z->zh, path, on_event, z, on_names, m);
	m->asked = rc == ZOK;
	if (rc != ZOK)
		ask_later(m);
}

/* Notes that the file or directory has changed.  Returns true if the watches must be called now: no answer is due. */
static bool mark_event(struct mark *m, int type)
{
	m->armed = m->absent = false;
	if (is_child(m) && !m->asked && !m->lost && type == ZOO_DELETED_EVENT) {
		mark_remove(m);
		return true;
	}
	if (is_child(m) && m->ephemeral && type == ZOO_CHANGED_EVENT)
		return false;
	m->report = true;
	if (m->asked)
		m->again = true;
	else
		ask(m);
	return false;
}

static void on_event(zhandle_t *zh, int type, int state, const char *path, void *arg)
{
	struct zk *z = arg;
	const size_t root = strlen(z->root);
	char name[LOCK_NAME_MAX + 1], dir[LOCK_NAME_MAX + 2];
	struct mark *m;
	bool call = false;

	(void)zh, (void)state;
	if (type == ZOO_SESSION_EVENT || strlen(path) <= root || strlen(path + root + 1) > LOCK_NAME_MAX)
		return;
	strcpy(name, path + root + 1);
	snprintf(dir, sizeof(dir), "%s/", name);
	mutex_lock(&z->mutex);
	m = mark_find(z, name);
	if (m && type != ZOO_CHILD_EVENT)
		call = mark_event(m, type);
	m = mark_find(z, dir);
	if (m)
		(void)mark_event(m, type);
	call = call && !z->ended;
	mutex_unlock(&z->mutex);
	if (call)
		watch_fire(&z->watches, name);
}

/* ---- answers: the second step ---- */

/* Notes that an answer has arrived.  Returns false after an error. */
static bool mark_answered(struct mark *m, int rc)
{
	m->asked = false;
	if (rc == ZOK || rc == ZNONODE)
		return true;
	ask_later(m);
	return false;
}

/* Ends the wait of marks_watch if it waits for this mark. */
static void mark_known(struct mark *m)
{
	struct mark *dir = m->dir;

	if (is_dir(m) ? m->unknown == 0 && m->listed : true)
		m->known = true;
	if (m->first) {
		m->first = false;
		dir->unknown--;
		dir->known = dir->known || (dir->unknown == 0 && dir->listed);
	}
	cond_broadcast(&m->z->changed);
}

static void on_stat(int rc, const struct Stat *stat, const void *arg)
{
	struct mark *m = (struct mark *)(uintptr_t)arg;
	struct zk *z = m->z;
	char name[LOCK_NAME_MAX + 1];
	bool call = false;

	mutex_lock(&z->mutex);
	strcpy(name, m->name);
	if (mark_answered(m, rc)) {
		int64_t czxid = rc == ZOK ? stat->czxid : 0;

		call = !z->ended && (m->report || (m->known && czxid != m->czxid));
		m->armed = true;
		m->report = false;
		m->czxid = czxid;
		m->ephemeral = rc == ZOK && stat->ephemeralOwner;
		mark_known(m);
		if (m->again)
			ask(m);
	}
	mutex_unlock(&z->mutex);
	if (call)
		watch_fire(&z->watches, name);
}

/* The directory does not exist, and its creation will be reported; or it exists by now. */
static void on_dir_stat(int rc, const struct Stat *stat, const void *arg)
{
	struct mark *m = (struct mark *)(uintptr_t)arg;
	struct zk *z = m->z;

	(void)stat;
	mutex_lock(&z->mutex);
	if (mark_answered(m, rc)) {
		m->armed = rc == ZNONODE;
		m->absent = m->absent && rc == ZNONODE;
		if (rc == ZNONODE) {
			m->listed = true;
			mark_known(m);
		}
		if (rc == ZOK || m->again)
			ask(m);
	}
	mutex_unlock(&z->mutex);
}

/* Marks a name of a directory.  The file is new, or its mark was idle, and the name may by now belong to a new file. */
static int mark_name(struct mark *dir, const char *last)
{
	char name[PATH_BYTES];
	struct mark *m;

	if (strlen(last) > LOCK_COMPONENT_MAX)
		return 0; /* no file of this program */
	snprintf(name, sizeof(name), "%s%s", dir->name, last);
	if (!lock_name_valid(name))
		return 0;
	m = mark_find(dir->z, name);
	if (!m) {
		m = mark_add(dir->z, name, dir);
		if (!m)
			return -ENOMEM;
		m->report = dir->known;
		m->first = !dir->known;
		dir->unknown += m->first;
	}
	m->round = dir->round;
	if (is_idle(m))
		ask(m);
	return 0;
}

/* Moves the names of idle children that the last list did not have to *names. */
static int marks_sweep(struct mark *dir, struct buf *names)
{
	struct mark *m, *next;
	int err = 0;

	HASH_ITER(hh, dir->z->marks, m, next)
	{
		if (m->dir != dir || m->round == dir->round || !is_idle(m))
			continue;
		err = buf_append(names, m->name, strlen(m->name) + 1);
		if (err)
			break;
		mark_remove(m);
	}
	return err;
}

static void on_names(int rc, const struct String_vector *names, const void *arg)
{
	struct mark *m = (struct mark *)(uintptr_t)arg;
	struct zk *z = m->z;
	struct buf removed = {0};
	int err = 0;

	mutex_lock(&z->mutex);
	if (mark_answered(m, rc)) {
		m->armed = rc == ZOK;
		m->absent = rc == ZNONODE;
		m->round++;
		for (int32_t i = 0; rc == ZOK && i < names->count && !err; i++)
			err = mark_name(m, names->data[i]);
		if (!err)
			err = marks_sweep(m, &removed);
		if (!err && rc == ZOK) {
			m->listed = true;
			mark_known(m);
		}
		if (err)
			ask_later(m); /* -ENOMEM */
		else if (m->again || m->absent)
			ask(m);
	}
	if (z->ended)
		buf_fini(&removed);
	mutex_unlock(&z->mutex);
	for (size_t at = 0; at < removed.n; at += strlen((char *)removed.p + at) + 1)
		watch_fire(&z->watches, (char *)removed.p + at);
	buf_fini(&removed);
}

/* ---- the interface ---- */

int marks_watch(struct zk *z, const char *name, uint64_t deadline_us)
{
	struct mark *m;
	int err = 0;

	mutex_lock(&z->mutex);
	m = mark_find(z, name);
	if (!m)
		m = mark_add(z, name, NULL);
	if (m)
		m->named = true;
	if (m && is_idle(m)) {
		m->report = m->known;
		ask(m);
	}
	while (m && !m->known && !z->ended && !err) {
		uint64_t now = monotonic_us();

		if (now >= deadline_us || !cond_wait_us(&z->changed, &z->mutex, deadline_us - now))
			err = -UNREACHABLE;
	}
	if (m && m->known)
		err = 0;
	if (z->ended)
		err = -SESSION_ENDED;
	mutex_unlock(&z->mutex);
	return m ? err : -ENOMEM;
}

void marks_connected(struct zk *z)
{
	struct mark *m, *next;

	HASH_ITER(hh, z->marks, m, next)
	if (m->lost && !m->asked)
		ask(m);
}

void marks_again(struct task *t)
{
	struct zk *z = (struct zk *)((char *)t - offsetof(struct zk, again));

	mutex_lock(&z->mutex);
	if (z->connected)
		marks_connected(z);
	mutex_unlock(&z->mutex);
}

void marks_free(struct zk *z)
{
	struct mark *m, *next;

	HASH_ITER(hh, z->marks, m, next)
	mark_remove(m);
}

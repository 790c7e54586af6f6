/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies with errors (reply.h).  Refusals are errors with a reason that the
 * user should read.  Absence, existence, a directory that is not empty and a
 * rename across rows are ordinary results; they would fill the log.
 */
#include "fs/base/reply.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/base/mutex.h"
#include "engine/base/stop.h"
#include "fs/base/access.h"
#include "fs/base/node_ops.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The errno, positive, of r, which is 0 or -errno. */
static int reply_errno(int err)
{
	/* The engine returns EBADMSG for damage, and ETIMEDOUT if its server has ended. */
	if (err == -EBADMSG || err == -ETIMEDOUT)
		return EIO;
	if (err == -EINTR && fs_is_crowded())
		return EAGAIN;
	return err < 0 ? -err : err;
}

/* ---- repeated requests ---- */

#define VAIN_MOST 64u
/* The threads of programs whose newest request has waited in vain. */
static struct {
	struct mutex lock; /* nothing is called under it */
	struct {
		pid_t thread;
		uint64_t until_us;
	} v[VAIN_MOST];
	unsigned next;
	_Atomic uint64_t until_us; /* of the newest */
} vain = {.lock = MUTEX_INITIALIZER(RANK_FS_NOTIFY)};

void repeats_begin(pid_t thread)
{
	const uint64_t now = vain.until_us ? monotonic_us() : 0;
	bool found = false;

	if (now >= vain.until_us || !thread)
		return;
	mutex_lock(&vain.lock);
	for (unsigned i = 0; i < VAIN_MOST; i++)
		found = found || (vain.v[i].thread == thread && now < vain.v[i].until_us);
	mutex_unlock(&vain.lock);
	if (found)
		stop_wait_repeats();
}

static void repeats_note(void)
{
	const uint64_t limit_us = fs_asker_thread() ? stop_wait_in_vain() : 0, until_us = limit_us ? monotonic_us() + limit_us : 0;

	if (!limit_us)
		return;
	mutex_lock(&vain.lock);
	vain.v[vain.next].thread = fs_asker_thread();
	vain.v[vain.next].until_us = vain.until_us = until_us;
	vain.next = (vain.next + 1) % VAIN_MOST;
	mutex_unlock(&vain.lock);
}

/* ---- replies ---- */

/* The kernel may repeat the request as soon as it has the reply. */
void reply_err(fuse_req_t req, int err)
{
	if (err)
		repeats_note();
	fuse_reply_err(req, reply_errno(err));
}

/* Quotes a component, and removes the quotes that msg_quote puts around it. */
static const char *plain_quote(char *dst, size_t dst_bytes, struct tfs_bytes s)
{
	size_t n;

	msg_quote(dst, dst_bytes, s);
	n = strlen(dst);
	if (n < 2 || dst[0] != '"')
		return dst;
	if (dst[n - 1] == '"')
		dst[n - 1] = 0;
	return dst + 1;
}

/* Appends the path of n.  Keys are written as the names that a user types. */
static void node_append_path(struct node *n, struct buf *out)
{
	struct buf name = {0};
	char quoted[300];

	if (!n || n->kind == NODE_ROOT)
		return;
	node_append_path(n->parent, out);
	(void)!node_append_name(n, &name);
	(void)!buf_printf(out, "/%s", plain_quote(quoted, sizeof(quoted), buf_bytes(&name)));
	buf_fini(&name);
}

const char *node_describe(struct node *n, const char *name, char *dst, size_t dst_bytes)
{
	struct buf path = {0};
	char quoted[128] = "";

	node_append_path(n, &path);
	snprintf(dst, dst_bytes, "%.*s%s%s", (int)path.n, path.p ? (const char *)path.p : "",
		name             ? "/"
			: path.n ? ""
				 : "/",
		name ? plain_quote(quoted, sizeof(quoted), tfs_str(name)) : "");
	buf_fini(&path);
	return dst;
}

/*
 * After ESTALE the kernel looks up each name of the path again, and then repeats the call.
 * A mark shows how far the thread is: its id (32 bits); the node that its last look-up
 * found, as a hash (26 bits, 0 before the first look-up); how many more look-ups are
 * taken for the kernel's (6 bits).  The mark has no name, because the stale inode may
 * have had another name in the daemon.  It has the node, so that a call through an old
 * descriptor (O_PATH) is not taken for the kernel's, and finds no other file.
 */
#define STALE_SLOTS 256
#define STALE_LOOKUPS 63
static _Atomic uint64_t stale[STALE_SLOTS];

static uint64_t stale_mark(fuse_req_t req, const struct node *n, uint64_t lookups)
{
	uint64_t found = n ? ((n->ino ^ n->generation * 0x9e3779b97f4a7c15u) * 0x9e3779b97f4a7c15u) >> 38 | 1 : 0;

	return (uint64_t)(uint32_t)fuse_req_ctx(req)->pid << 32 | found << 6 | lookups;
}

void stale_found(fuse_req_t req, const struct node *n)
{
	uint64_t none = stale_mark(req, NULL, 0), mark;
	_Atomic uint64_t *slot = &stale[(none >> 32) % STALE_SLOTS];

	mark = atomic_load_explicit(slot, memory_order_relaxed);
	if (mark >> 32 == none >> 32 && mark & STALE_LOOKUPS)
		atomic_store_explicit(slot, stale_mark(req, n, (mark & STALE_LOOKUPS) - 1), memory_order_relaxed);
}

int stale_answer(fuse_req_t req, const struct node *n, int err)
{
	uint64_t none = stale_mark(req, NULL, 0), mark;
	_Atomic uint64_t *slot = &stale[(none >> 32) % STALE_SLOTS];

	if (err != -ESTALE)
		return err;
	mark = atomic_load_explicit(slot, memory_order_relaxed);
	/* The old name of a renamed cell may now belong to another cell.  The kernel finds the cell by its new name. */
	if (!(node_is(n, KIND_CELL) && n->flags & NODE_MOVED) && mark == stale_mark(req, n, mark & STALE_LOOKUPS))
		return -ENOENT;
	atomic_store_explicit(slot, none | STALE_LOOKUPS, memory_order_relaxed);
	return err;
}

/* Set if the request of this thread has logged its line. */
static _Thread_local bool refusal_logged;

void refuse_begin(void)
{
	refusal_logged = false;
	(void)tfs_error(NULL); /* the reason of an earlier request */
}

#define REFUSALS 256u
/* The newest refusals.  A line is in the log for its owner only, and here for the user whose request was refused. */
static struct {
	struct mutex lock; /* nothing is called under it */
	struct {
		struct timespec time;
		uid_t uid;
		pid_t thread;
		char *text;
	} v[REFUSALS];
	unsigned next;
} refusals = {.lock = MUTEX_INITIALIZER(RANK_FS_NOTIFY)};

static void refusals_add(const char *path, const char *reason, int err)
{
	char *text = NULL, *old;

	if (asprintf(&text, "%s: %s: %s", path, reason, strerror(reply_errno(err))) < 0)
		return;
	mutex_lock(&refusals.lock);
	old = refusals.v[refusals.next].text;
	(void)clock_gettime(CLOCK_REALTIME, &refusals.v[refusals.next].time);
	refusals.v[refusals.next].uid = fs_asker_uid();
	refusals.v[refusals.next].thread = fs_asker_thread();
	refusals.v[refusals.next].text = text;
	refusals.next = (refusals.next + 1) % REFUSALS;
	mutex_unlock(&refusals.lock);
	free(old);
}

int refusals_render(struct node *n, struct buf *out)
{
	const uid_t uid = fs_asker_uid();
	int err = buf_printf(out, "time\tuser\tthread\trefusal\n");

	mutex_lock(&refusals.lock);
	for (unsigned i = 0; i < REFUSALS && !err; i++) {
		const unsigned at = (refusals.next + i) % REFUSALS;
		char when[32] = "";
		struct tm tm;

		if (!refusals.v[at].text || (uid != 0 && uid != fs.uid && uid != refusals.v[at].uid))
			continue;
		if (gmtime_r(&refusals.v[at].time.tv_sec, &tm))
			(void)!strftime(when, sizeof(when), "%FT%T", &tm);
		err = buf_printf(out, "%s.%06ldZ\t%u\t%d\t%s\n", when, refusals.v[at].time.tv_nsec / 1000,
			(unsigned)refusals.v[at].uid, (int)refusals.v[at].thread, refusals.v[at].text);
	}
	mutex_unlock(&refusals.lock);
	return err;
}

int refuse(int err, struct node *n, const char *name, const char *fmt, ...)
{
	char path[1024], reason[512];
	va_list ap;

	if (refusal_logged)
		return err;
	refusal_logged = true;
	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	msg_warning("%s: %s: %s", node_describe(n, name, path, sizeof(path)), reason, strerror(reply_errno(err)));
	refusals_add(path, reason, err);
	return err;
}

/* Returns the reason if the schema of n's table refuses changes with err, else NULL. */
static const char *reason_of_table(int err, struct node *n)
{
	const struct tfs_schema *s;
	const char *reason;

	if ((err != -EPERM && err != -EROFS && err != -EDQUOT) || !node_table(n) || tfs_schema_get(node_store_table(n), &s))
		return NULL;
	reason = err == -EROFS && s->readonly                     ? TABLE_READONLY
		: err == -EPERM && s->protect == TFS_PROTECT_DATA ? TABLE_KEEPS_DATA
		: err == -EDQUOT && s->quota                      ? "the table has reached its quota (quota in its .schema)"
								  : NULL;
	tfs_schema_put(s);
	return reason;
}

int refuse_store(int err, struct node *n, const char *name, const char *doing)
{
	const char *reason;
	char known[512];

	switch (err < 0 ? -err : 0) {
	case 0:
	case ENOENT:
	case EEXIST:
	case ENOTEMPTY:
	case ESTALE:
	case EXDEV:
	case ENODATA:
	case ENOTDIR:
	case EISDIR:
	case EINTR:
		return err;
	default:
		/* Reading the schema forgets the library's reason. */
		snprintf(known, sizeof(known), "%s", tfs_error(fs.store));
		reason = refusal_logged ? NULL : reason_of_table(err, n);
		if (!reason && *known)
			return refuse(err, n, name, "%s: %s", doing, known);
		return refuse(err, n, name, "%s", reason ? reason : doing);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals are errors with a reason that the user should read.  Absence,
 * existence, a directory that is not empty and a rename across rows are
 * ordinary results; they would fill the log.
 */
#include "fs/base/reply.h"

#include "engine/base/msg.h"
#include "fs/base/node_ops.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int reply_errno(int err)
{
	/* The engine returns EBADMSG for damage. */
	return err == -EBADMSG ? EIO : err < 0 ? -err : err;
}

void reply_err(fuse_req_t req, int err)
{
	fuse_reply_err(req, reply_errno(err));
}

/* Quotes a component, and removes the quotes that msg_quote puts around it. */
static const char *plain_quote(char *dst, size_t dst_bytes, struct slice s)
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
	(void)!buf_printf(out, "/%s", plain_quote(quoted, sizeof(quoted), buf_slice(&name)));
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
		name ? plain_quote(quoted, sizeof(quoted), slice_str(name)) : "");
	buf_fini(&path);
	return dst;
}

/*
 * Marks of thread and name, by thread id, for ESTALE answers.  When the thread looks the
 * name up again, the mark states the node that it has found.  So a descriptor of
 * another node, as one of O_PATH, opens no file by the name.
 */
#define STALE_SLOTS 256
static _Atomic uint64_t stale[STALE_SLOTS];

static _Atomic uint64_t *stale_slot(fuse_req_t req, const struct node *n, uint64_t *mark)
{
	uint64_t pid = (uint64_t)fuse_req_ctx(req)->pid;

	*mark = (n->ino ^ pid * 0x9e3779b97f4a7c15u) | 3;
	return &stale[pid % STALE_SLOTS];
}

static uint64_t found_mark(uint64_t mark, const struct node *n)
{
	return mark ^ (uint64_t)n->generation << 32;
}

void stale_found(fuse_req_t req, const struct node *n)
{
	uint64_t mark;
	_Atomic uint64_t *slot = stale_slot(req, n, &mark);

	if (atomic_load_explicit(slot, memory_order_relaxed) == (mark & ~UINT64_C(1)))
		atomic_store_explicit(slot, found_mark(mark, n), memory_order_relaxed);
}

int stale_answer(fuse_req_t req, const struct node *n, int err)
{
	uint64_t mark;
	_Atomic uint64_t *slot = stale_slot(req, n, &mark);

	/* The old name of a renamed cell may be another cell's now.  The kernel finds the cell by its new name. */
	if (err != -ESTALE || (node_is(n, KIND_CELL) && n->flags & NODE_MOVED))
		return err;
	if (atomic_load_explicit(slot, memory_order_relaxed) == found_mark(mark, n))
		return -ENOENT;
	atomic_store_explicit(slot, mark & ~UINT64_C(1), memory_order_relaxed);
	return err;
}

/* Set if the request of this thread has logged its line. */
static _Thread_local bool refusal_logged;

void refuse_begin(void)
{
	refusal_logged = false;
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
	return err;
}

int refuse_store(int err, struct node *n, const char *name, const char *doing)
{
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
		return refuse(err, n, name, "%s", doing);
	}
}

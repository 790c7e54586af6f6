/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a tablet's file list is changed durably: one mutation of its METADATA
 * row, synced before it is published; for the root tablet one
 * compare-and-set of the lock service's file "root" (DESIGN 3.2, 3.3).
 *
 * A change that fails leaves the row as it was or, if the failure was one of
 * the disk, in doubt.  In doubt is harmless here: what a later edit adds
 * holds the same cells under the same sequence numbers as what may have been
 * added already, and the tablet leaves the files of a failed edit lying for
 * the next start's sweep.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdlib.h>

static int copy_row(const struct meta_tablet *from, struct meta_tablet *to)
{
	struct buf b = {0};
	int err = meta_root_encode(from, &b);

	if (!err)
		err = meta_root_decode(buf_slice(&b), to);
	buf_fini(&b);
	return err;
}

static int commit_root(struct held *h, const struct tablet_edit *e)
{
	struct meta_tablet next = {0};
	struct buf b = {0};
	uint64_t version;
	int err = copy_row(&h->row, &next);

	if (!err)
		err = meta_tablet_apply(&next, e);
	if (!err) {
		next.server = h->server->incarnation;
		err = meta_root_encode(&next, &b);
	}
	if (!err)
		err = lock_put(h->server->locks, "root", buf_slice(&b), h->root_version, &version);
	if (!err) {
		meta_tablet_fini(&h->row);
		h->row = next;
		next = (struct meta_tablet){0};
		h->root_version = version;
	}
	meta_tablet_fini(&next);
	buf_fini(&b);
	return err;
}

static int commit_row(struct held *h, const struct tablet_edit *e)
{
	struct meta_tablet next = {0};
	struct arena arena = {0};
	struct buf key = {0};
	struct op *ops;
	unsigned count;
	int err = meta_row_key(&key, h->table, h->last, buf_slice(&h->end));

	if (!err)
		err = copy_row(&h->row, &next);
	if (!err)
		err = meta_tablet_apply(&next, e);
	if (!err)
		err = meta_ops_edit(&h->row, e, &arena, &ops, &count);
	if (!err)
		err = metadata_mutate(h->server->metadata, buf_slice(&key), ops, count);
	if (!err) {
		meta_tablet_fini(&h->row);
		h->row = next;
		next = (struct meta_tablet){0};
	}
	meta_tablet_fini(&next);
	arena_fini(&arena);
	buf_fini(&key);
	return err;
}

int edit_commit(void *arg, struct tablet *t, const struct tablet_edit *e)
{
	struct held *h = arg;
	int err = h->kind == KIND_ROOT ? commit_root(h, e) : commit_row(h, e);

	(void)t;
	if (err)
		msg_error("table %u, tablet ending at %s: its METADATA row cannot be changed: %s", h->table,
			  h->last ? "the end" : Q(buf_slice(&h->end)), strerror(-err));
	return err;
}

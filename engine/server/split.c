/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splitting a tablet (paper, sections 5.2 and 5.3; DESIGN 3.2).
 *
 * Durable steps:
 *	1 the lower part's METADATA row is inserted, synced, under a check that
 *	  there is none: a copy of the parent's, its files clipped, ending at
 *	  the split row.  That is the split.  The parent's own row is the upper
 *	  part's from then on: it begins where the lower one ends.
 *	2 the upper part's files that lie wholly in the lower one leave its row.
 * A crash before 1 leaves the parent; after it recovery loads both from their
 * rows, each with the parent's files, clipped, and the parent's redo set,
 * which leads each to the log's records of its own rows.  Without 2 the upper
 * row names files that it does not need; its next compaction removes them.
 *
 * Nothing is flushed, and writers wait only between 1 and the moment that the
 * children stand in the parent's place, for the writes that are under way.
 *
 * When step 1 fails it may have taken place.  Then the row is deleted before
 * the parent's next change of its own row (edit.c), so that the split has
 * never been: nobody has seen it.  If the process dies before, it is one.
 *
 * A table's drop is not to pass between a split's two looks at METADATA: a
 * split counts as a write to the table, which holds keep out (schemas.c).  It
 * does not wait for their end with the tablet's compactions stopped.
 *
 * One split or merge at a time, by a thread of its own or of who asked.  By
 * themselves tablets split past the table's tablet_size, and neighbours merge
 * that together have less than a quarter of it: so what was merged does not
 * split again soon, and an hour passes before what was split (by hand, say,
 * for what is yet to be written) or loaded is merged; what was merged goes on
 * to be merged.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define TRY_AGAIN_US UINT64_C(60000000) /* what could not be split, as it is one row, or merged */
#define LOOK_AGAIN_US UINT64_C(60000000)

void moving_begin(struct server *s)
{
	mutex_lock(&s->lock);
	while (s->moving)
		cond_wait(&s->changed, &s->lock);
	s->moving = true;
	mutex_unlock(&s->lock);
}

void moving_end(struct server *s)
{
	mutex_lock(&s->lock);
	s->moving = false;
	cond_broadcast(&s->changed);
	mutex_unlock(&s->lock);
}

/* Step 1. */
static int insert_row(struct server *s, const struct meta_tablet *lower, const char *event)
{
	struct arena arena = {0};
	struct buf key = {0};
	struct op *ops;
	unsigned count;
	int err = meta_row_key(&key, lower->table, false, buf_slice(&lower->end));

	if (!err)
		err = meta_ops_split(lower, event, &arena, &ops, &count);
	if (!err)
		err = metadata_mutate(s->metadata, buf_slice(&key), ops, count);
	arena_fini(&arena);
	buf_fini(&key);
	return err == -ECANCELED ? -EEXIST : err;
}

struct parts {
	struct meta_tablet lower_row, upper_row;
	struct held *lower, *upper;
};

static int make_part(struct server *s, struct held *parent, struct meta_tablet *row, struct held **out)
{
	int err = held_new(s, row, parent->kind, 0, out);

	return err ? err : tablet_split_adopt(parent->tablet, (*out)->tablet);
}

/* Both tablets, known to nobody yet. EDIT of the parent is the caller's. */
static int make_parts(struct server *s, struct held *h, struct slice at, struct parts *p)
{
	int err = edit_fold(h);

	if (!err)
		err = meta_tablet_lower(&h->row, at, &p->lower_row);
	if (!err)
		err = meta_tablet_copy(&h->row, &p->upper_row);
	if (err)
		return err;
	p->lower_row.server = s->incarnation;
	err = buf_set(&p->lower_row.begin, tablet_begin(h->tablet).p, tablet_begin(h->tablet).n);
	if (!err)
		err = buf_set(&p->upper_row.begin, at.p, at.n);
	return err;
}

/* From here on nothing fails. The parent's EDIT is the caller's. */
static void replace_parent(struct server *s, struct held *h, struct parts *p)
{
	struct held *parts[2] = {p->lower, p->upper};

	load_begin(s); /* schemas are handed to those in the set */
	tablet_split_drain(h->tablet);
	for (unsigned i = 0; i < 2; i++) {
		tablet_split_inherit(h->tablet, parts[i]->tablet);
		if (h->known) {
			struct store_schema *schema = known_schema(s, h->known);

			tablet_set_schema(parts[i]->tablet, schema);
			store_schema_put(schema);
		}
	}
	set_replace(s, &h, 1, parts, 2);
	listed_remove(s, &h->row); /* its children's rows have been added */
	tablet_split_end(h->tablet, true);
	load_end(s);
}

static void event_text(char *text, size_t n, const char *what, struct slice at)
{
	snprintf(text, n, "split at %s: %s", Q(at), what);
}

static int split_begun(struct server *s, struct held *h, struct slice at)
{
	struct parts p = {0};
	char event[256];
	int err = make_parts(s, h, at, &p);

	if (!err)
		err = set_reserve(s, 2);
	if (!err)
		err = make_part(s, h, &p.lower_row, &p.lower);
	if (!err)
		err = make_part(s, h, &p.upper_row, &p.upper);
	if (!err) {
		event_text(event, sizeof(event), "the lower part", at);
		err = buf_set(&h->split_doubt, at.p, at.n); /* said before: afterwards there may be no memory to say it */
	}
	if (!err) {
		err = insert_row(s, &p.lower->row, event);
		h->in_doubt = err && err != -EEXIST;
		if (!h->in_doubt)
			buf_fini(&h->split_doubt);
	}
	if (!err) {
		replace_parent(s, h, &p);
		event_text(event, sizeof(event), "the upper part", at);
		(void)!tablet_split_tidy(p.upper->tablet, event); /* logged there; its next compaction does it as well */
		msg_info("table %u: split at %s", h->table, Q(at));
		tablet_split_start(p.lower->tablet);
		tablet_split_start(p.upper->tablet);
		held_put(p.lower);
		held_put(p.upper);
	} else {
		tablet_split_end(h->tablet, false);
		held_abandon(p.lower);
		held_abandon(p.upper);
	}
	meta_tablet_fini(&p.lower_row);
	meta_tablet_fini(&p.upper_row);
	return err;
}

/* Between begin and end of moving.  1: the table's writes are held. */
static int split_held(struct server *s, struct held *h, struct slice at)
{
	struct store_schema *schema = NULL;
	int err = tablet_move_prepare(
		h->tablet); /* first: whoever holds the table's writes would wait as well, and keep all others waiting */

	if (err)
		return err;
	if (h->known)
		err = known_write_begin(s, h->known, 0, HOLD_LEAVE, &schema);
	if (!err) {
		store_schema_put(schema);
		err = tablet_split_begin(h->tablet);
		if (!err)
			err = split_begun(s, h, at);
		if (h->known)
			known_write_end(s, h->known);
	}
	tablet_move_done(h->tablet);
	return err;
}

static int split_at_once(struct server *s, uint32_t table, struct slice row)
{
	struct held *h;
	int err;

	moving_begin(s);
	err = held_find(s, table, row, &h);
	if (err)
		goto out;
	if (h->kind == KIND_ROOT)
		err = -EINVAL;
	else if (slice_eq(row, tablet_begin(h->tablet)))
		err = -EEXIST;
	else
		err = split_held(s, h, row);
	held_put(h);
out:
	moving_end(s);
	return err;
}

int split_at(struct server *s, uint32_t table, struct slice row)
{
	int err;

	while ((err = split_at_once(s, table, row)) > 0)
		schemas_wait(s, table);
	return err;
}

/* ---- by themselves ---- */

uint64_t split_size(struct server *s, struct held *h)
{
	struct store_schema *schema;
	uint64_t size;

	if (h->kind != KIND_USER)
		return s->metadata_tablet_bytes;
	schema = known_schema(s, h->known);
	size = schema->tablet_bytes;
	store_schema_put(schema);
	return size;
}

static void split_if_large(struct server *s, struct held *h)
{
	struct buf at = {0};
	struct tablet_stats st;
	uint64_t size;
	int err;

	if (h->kind == KIND_ROOT || monotonic_us() < h->split_after_us)
		return;
	size = split_size(s, h);
	tablet_get_stats(h->tablet, &st);
	if (!size || st.disk_bytes <= size)
		return;
	err = tablet_split_key(h->tablet, &at);
	if (!err) {
		moving_begin(s);
		err = split_held(s, h, buf_slice(&at));
		moving_end(s);
	}
	if (err < 0) {
		h->split_after_us = monotonic_us() + TRY_AGAIN_US;
		if (err != -ENOENT && err != -EIDRM && err != -EREMCHG && err != -ESHUTDOWN)
			msg_error("table %u: the tablet ending at %s cannot be split: %s", h->table,
				h->last ? "the end" : Q(buf_slice(&h->end)), strerror(-err));
	}
	buf_fini(&at);
}

static bool are_small(struct server *s, struct held *lower, struct held *upper)
{
	const uint64_t now = monotonic_us();
	struct tablet_stats a, b;
	struct store_schema *schema;
	bool border;

	if (lower->table != upper->table || lower->kind != upper->kind || now - lower->made_us < s->merge_after_us ||
		now - upper->made_us < s->merge_after_us || now < upper->merge_after_us)
		return false;
	/* The ranges of a salted table are apart to be so. */
	if (lower->known) {
		schema = known_schema(s, lower->known);
		border = lower->end.n == 1 && lower->end.p[0] < schema->salt;
		store_schema_put(schema);
		if (border)
			return false;
	}
	tablet_get_stats(lower->tablet, &a);
	tablet_get_stats(upper->tablet, &b);
	return a.disk_bytes + a.memory_bytes + b.disk_bytes + b.memory_bytes < split_size(s, lower) / 4;
}

/* True when two have become one. */
static bool merge_if_small(struct server *s, struct held *lower, struct held *upper)
{
	int err;

	if (!are_small(s, lower, upper))
		return false;
	moving_begin(s);
	err = merge_held(s, lower, upper);
	moving_end(s);
	if (!err)
		return true;
	if (err > 0)
		return false;
	upper->merge_after_us = monotonic_us() + TRY_AGAIN_US;
	if (err != -EREMCHG && err != -ESHUTDOWN && err != -EIDRM)
		msg_error("table %u: the tablets that meet at %s cannot be merged: %s", lower->table, Q(buf_slice(&lower->end)),
			strerror(-err));
	return false;
}

void split_run(struct task *t)
{
	struct server *s = (struct server *)((char *)t - offsetof(struct server, split));
	struct held **list;
	unsigned count;
	bool again = false;

	if (s->closing || held_list(s, 0, &list, &count))
		return;
	for (unsigned i = 0; i < count; i++)
		if (!s->closing)
			split_if_large(s, list[i]);
	for (unsigned i = 0; i + 1 < count; i++) {
		if (s->closing || !merge_if_small(s, list[i], list[i + 1]))
			continue;
		again = true;
		i++; /* that one is gone */
	}
	for (unsigned i = 0; i < count; i++)
		held_put(list[i]);
	free(list);
	if (!s->closing) /* a change of a tablet asks sooner */
		task_queue_after(t, again ? 0 : LOOK_AGAIN_US);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of a table, as one list (tfs_feed_open).
 *
 * A round asks each tablet for its changes from one position on (TS_CHANGES).  An answer is complete up to a time of
 * commit, or, if it is full, up to its last change.  The least of these is the bound of the round: below it no
 * change is missing, and none will come.  The feed merges the answers up to the bound, in the order of positions, and the
 * next round begins there.  What answers have beyond the bound is asked for again.  So a feed keeps one answer of each
 * tablet at most, and tablets that split, merge or move between two rounds need no special step.
 *
 * If only changes beyond the bound have come, the next round asks for the time of the last of them, so that a server
 * whose clock is behind does not hold up the others'.
 *
 * A token is "STORE-TABLE-TABLETS-STAMP-COUNT", in hexadecimal: a number of the store, the table's id, the id of its
 * tablets, a time of commit, and the number of changes at this time that were returned.  Changes that the reader may not see
 * are counted, too.  The order of the changes at one time is that of positions, which never changes.  Behind the last change at a
 * time a token has the next time and a count of 0, so it stays valid when this change has expired and no other has followed.
 *
 * A truncation gives the table new tablets.  A token with older ones gets a line for the truncation, and then the changes
 * of the new tablets from their first on.
 */
#include "engine/base/hash.h"
#include "engine/cell/change_format.h"
#include "engine/client/salt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	ANSWER_BYTES = 256 << 10, /* of one tablet, */
	ANSWERS_BYTES = 4 << 20,  /* and of all, */
	ANSWER_LEAST = 16 << 10,  /* but of one not less */
	ROUNDS_AT_ONCE = 3,       /* that return nothing, although there are changes; the next ones, after pauses, */
	ROUNDS_MOST = 50,         /* up to so many */
};
#define PAUSE_US 50000u
#define STOP_US 250000u

struct feed_answer {
	struct ts_answer a;
	struct reader r; /* of a.log, behind `next` */
	struct sent_change next;
	bool any; /* `next` is set */
};
struct tfs_feed {
	struct tfs_table *t;
	struct waiter waiter;
	const struct schema *schema; /* has the name of the family that was returned */
	uint64_t store;
	uint32_t tablets;
	struct buf from; /* the least position of the next round */
	int64_t stamp;   /* the time of the last change, and the number of changes at it so far */
	uint64_t count;
	uint64_t skip;                 /* changes at `stamp` that were returned before the feed was opened */
	int64_t wanted_us;             /* ts_request.until_us */
	int64_t latest_us, opened_us;  /* the latest time up to which a tablet was complete, ever and at the opening */
	struct feed_answer *v, *least; /* least: has the next change of the round; NULL: there is none below the bound */
	unsigned n, parts;             /* parts: the number of answers of the last round */
	struct buf bound, scratch, value;
	bool truncated, dropped;
	char token[TFS_TOKEN_MAX + 1];
};

/* ---- tokens ---- */

/* Writes v, with at least so many digits, and the character behind it.  Each change has a token, and snprintf takes 10 times as long. */
static char *put_hex(char *to, uint64_t v, unsigned least, char behind)
{
	unsigned n = 1;

	while (n < 16 && (n < least || v >> (4 * n)))
		n++;
	for (unsigned i = n; i > 0; i--, v >>= 4)
		to[i - 1] = "0123456789abcdef"[v & 15];
	to[n] = behind;
	return to + n + 1;
}

const char *tfs_feed_token(struct tfs_feed *f)
{
	char *to = put_hex(f->token, f->store, 16, '-');

	to = put_hex(to, f->t->id, 1, '-');
	to = put_hex(to, f->tablets, 1, '-');
	to = put_hex(to, (uint64_t)f->stamp, 1, '-');
	(void)put_hex(to, f->count, 1, 0);
	return f->token;
}

/* Only a text that tfs_feed_token makes is a token. */
static int parse_token(struct tfs_feed *f, const char *token, uint32_t tablets)
{
	unsigned long long store, stamp, count;
	unsigned table, of;

	if (strlen(token) > TFS_TOKEN_MAX || sscanf(token, "%llx-%x-%x-%llx-%llx", &store, &table, &of, &stamp, &count) != 5 ||
		store != f->store || table != f->t->id || of > tablets || stamp > INT64_MAX || !stamp)
		return -EINVAL;
	f->tablets = of;
	f->stamp = (int64_t)stamp;
	f->count = f->skip = count;
	f->truncated = of < tablets;
	return strcmp(tfs_feed_token(f), token) == 0 ? 0 : -EINVAL;
}

/* Continues with the first change at this time or later. */
static int set_place(struct tfs_feed *f, int64_t stamp)
{
	f->stamp = stamp;
	f->count = f->skip = 0;
	buf_reset(&f->from);
	return change_stamp_append(&f->from, stamp);
}

/* ---- rounds ---- */

static void answers_reset(struct tfs_feed *f)
{
	f->least = NULL;
	while (f->n)
		ts_answer_fini(&f->v[--f->n].a);
}

static int answer_next(struct feed_answer *x)
{
	int r = sent_change_next(&x->r, &x->next);

	x->any = r > 0;
	return r < 0 ? r : 0;
}

/* -TABLE_DROPPED: the table has other tablets, or none. */
static int ask(struct tfs_feed *f, struct ts_request *q, struct ts_answer *a)
{
	q->method = TS_CHANGES;
	q->table = f->tablets;
	q->user = table_user(f->t);
	q->until_us = f->wanted_us;
	return call_tablet_service(f->t->store->o.tablets, q, a);
}

/* Sets *bound to the end of the complete part of the answer. */
static int answer_bound(const struct ts_answer *a, struct buf *bound)
{
	struct reader r = reader_of(a->log);
	struct sent_change s = {0};
	int err;

	buf_reset(bound);
	if (!a->exists)
		return change_stamp_append(bound, a->commit_us + 1);
	while ((err = sent_change_next(&r, &s)) > 0)
		;
	if (err || !s.position.n)
		return err ? err : -EBADMSG;
	err = buf_append_bytes(bound, s.position);
	return err ? err : buf_u8(bound, 0xff); /* behind each key with this position */
}

/* The answer with the next change below the bound; NULL: there is none. */
static struct feed_answer *least(struct tfs_feed *f)
{
	struct feed_answer *x = NULL;

	for (unsigned i = 0; i < f->n; i++)
		if (f->v[i].any && (!x || bytes_cmp(f->v[i].next.position, x->next.position) < 0))
			x = &f->v[i];
	return x && bytes_cmp(x->next.position, buf_bytes(&f->bound)) < 0 ? x : NULL;
}

/*
 * Asks all tablets.  With `from`.n 0 only for their marks: *low_us is set to the largest of their low marks, *until_us to the
 * least time up to which they are complete.
 */
static int round_ask(struct tfs_feed *f, int64_t *low_us, int64_t *until_us)
{
	struct buf row = {0}, bound = {0};
	const size_t share = f->parts ? ANSWERS_BYTES / f->parts : ANSWER_BYTES;
	struct ts_request q = {.qualifier = buf_bytes(&f->from),
		.length = share > ANSWER_BYTES ? ANSWER_BYTES
			: share < ANSWER_LEAST ? ANSWER_LEAST
					       : share};
	bool more = true;
	int err = 0;

	answers_reset(f);
	buf_reset(&f->bound);
	*low_us = 0;
	*until_us = INT64_MAX;
	while (!err && more) {
		struct feed_answer *x;

		if (array_grow(&f->v, f->n, sizeof(*f->v))) {
			err = -ENOMEM;
			break;
		}
		x = &f->v[f->n++];
		*x = (struct feed_answer){0};
		q.row = row.n ? buf_bytes(&row) : tfs_bytes_of("", 0);
		err = ask(f, &q, &x->a);
		if (err)
			break;
		more = x->a.tablet_end.p != NULL;
		err = buf_set(&row, x->a.tablet_end.p, x->a.tablet_end.n);
		*low_us = x->a.ts > *low_us ? x->a.ts : *low_us;
		*until_us = x->a.commit_us < *until_us ? x->a.commit_us : *until_us;
		f->latest_us = x->a.commit_us > f->latest_us ? x->a.commit_us : f->latest_us;
		x->r = reader_of(x->a.log);
		if (!err)
			err = answer_bound(&x->a, &bound);
		if (!err && (f->n == 1 || bytes_cmp(buf_bytes(&bound), buf_bytes(&f->bound)) < 0))
			err = buf_set(&f->bound, bound.p, bound.n);
		if (!err)
			err = answer_next(x);
	}
	buf_fini(&row);
	buf_fini(&bound);
	if (err) {
		answers_reset(f);
		return err;
	}
	f->parts = f->n;
	f->least = least(f);
	return 0;
}

/* After the last change below the bound. */
static int round_end(struct tfs_feed *f)
{
	int64_t bound_us;
	int err;

	f->wanted_us = 0;
	for (unsigned i = 0; i < f->n; i++)
		if (f->v[i].any && f->v[i].next.c.stamp > f->wanted_us)
			f->wanted_us = f->v[i].next.c.stamp;
	answers_reset(f);
	err = bytes_cmp(buf_bytes(&f->bound), buf_bytes(&f->from)) > 0 ? buf_set(&f->from, f->bound.p, f->bound.n) : 0;
	if (!err)
		err = change_stamp(buf_bytes(&f->from), &bound_us);
	if (!err && bound_us > f->stamp) {
		f->stamp = bound_us;
		f->count = f->skip = 0;
	}
	return err;
}

/* ---- changes ---- */

/* The rest of a value that is larger than an answer. */
static int read_rest(struct tfs_feed *f, struct feed_answer *x)
{
	struct tfs_bytes row;
	struct buf at = {0};
	int err = buf_set(&f->value, x->next.value.p, x->next.value.n);

	if (!err)
		err = buf_append_bytes(&at, x->next.position);
	if (!err)
		err = change_position_row(x->next.position, &f->scratch, &row);
	while (!err && f->value.n < x->next.size) {
		struct ts_request q = {.row = row, .qualifier = buf_bytes(&at), .offset = f->value.n, .length = ANSWER_BYTES};
		struct ts_answer a = {0};
		struct sent_change s;
		struct reader r;

		err = ask(f, &q, &a);
		r = reader_of(a.log);
		if (!err && (sent_change_next(&r, &s) <= 0 || s.hidden || !bytes_eq(s.position, x->next.position) || !s.value.n))
			err = -EIO;
		if (!err)
			err = buf_append_bytes(&f->value, s.value);
		ts_answer_fini(&a);
	}
	buf_fini(&at);
	x->next.value = buf_bytes(&f->value);
	return err;
}

/*
 * Returns the family, or NULL.  The server leaves out the changes of families that were dropped, so a family that the handle's
 * schema does not have is a new one, of which no notice has come yet.
 */
static const struct tfs_family *family_of(struct tfs_feed *f, uint16_t id, int *err)
{
	const struct tfs_family *family;

	for (bool newest = false;; newest = true) {
		schema_put(f->schema);
		f->schema = table_schema(f->t);
		family = schema_family_by_id(schema_public(f->schema), id);
		if (family || newest)
			return family;
		*err = table_catch_up(f->t, UINT64_MAX);
		if (*err)
			return NULL;
	}
}

static int set_change(struct tfs_feed *f, struct feed_answer *x, struct tfs_feed_change *out)
{
	static const enum tfs_feed_kind kinds[] = {[CELL_DELETE_ROW] = TFS_FEED_DELETE_ROW,
		[CELL_DELETE_FAMILY] = TFS_FEED_DELETE_FAMILY,
		[CELL_DELETE_COLUMN] = TFS_FEED_DELETE_COLUMN,
		[CELL_DELETE_VERSION] = TFS_FEED_DELETE_CELL,
		[CELL_VALUE] = TFS_FEED_SET};
	const struct sent_change *s = &x->next;
	const struct tfs_family *family;
	int err = s->value.n < s->size ? read_rest(f, x) : 0;

	if (!err)
		err = change_position_row(s->position, &f->scratch, &out->row);
	if (err)
		return err;
	schema_put(f->schema);
	f->schema = table_schema(f->t);
	family = s->c.family ? family_of(f, s->c.family, &err) : NULL;
	if (err || (s->c.family && !family))
		return err; /* or it was dropped */
	if (schema_public(f->schema)->salt_in_use && out->row.n)
		out->row = tfs_bytes_of(out->row.p + 1, out->row.n - 1);
	out->kind = kinds[s->c.kind];
	out->family = family ? family->name : NULL;
	out->qualifier = s->c.qualifier;
	out->value = s->value;
	out->ts = s->c.ts;
	out->commit_us = s->c.stamp;
	return 1;
}

/* Sets the token of the change that was taken last. */
static void set_token(struct tfs_feed *f, struct tfs_feed_change *out)
{
	int64_t bound_us;

	if (!(f->least && f->least->next.c.stamp == f->stamp) && change_stamp(buf_bytes(&f->bound), &bound_us) == 0 &&
		bound_us > f->stamp) {
		f->stamp++;
		f->count = 0;
	}
	out->token = tfs_feed_token(f);
}

/* Returns 1 and the next change of the round, 0 at the end of the round, -errno.  out NULL: passes only changes that are hidden. */
static int round_next(struct tfs_feed *f, struct tfs_feed_change *out)
{
	struct feed_answer *x;
	int r = 0;

	while (r == 0 && (x = f->least) != NULL) {
		if (x->next.c.stamp > f->stamp) {
			f->stamp = x->next.c.stamp;
			f->count = f->skip = 0;
		}
		if (!out && !f->skip && !x->next.hidden)
			return 1;
		if (f->skip) {
			f->skip--;
		} else {
			r = x->next.hidden ? 0 : set_change(f, x, out);
			f->count += r >= 0; /* after an error the next call tries this change again */
		}
		if (r >= 0 && answer_next(x))
			r = -EBADMSG;
		f->least = least(f);
		if (r > 0)
			set_token(f, out);
	}
	return r;
}

/* The tablets are gone: returns 1 and a change of the table, or -errno. */
static int table_change(struct tfs_feed *f, struct tfs_feed_change *out)
{
	const struct schema *s;
	int err = 0;

	*out = (struct tfs_feed_change){.kind = TFS_FEED_TRUNCATE, .ts = INT64_MAX, .commit_us = f->stamp};
	s = f->truncated ? table_schema(f->t) : table_new_tablets(f->t, f->tablets);
	if (s) {
		waiter_remove(f->t->store, &f->waiter);
		f->tablets = f->waiter.tablets = schema_public(s)->tablets_id;
		schema_put(s);
		err = set_place(f, 2);
	} else if (table_no_family(f->t, "") == -ENOENT) {
		out->kind = TFS_FEED_DROP;
		f->dropped = true;
	} else {
		err = -EIO;
	}
	f->truncated = false;
	out->token = tfs_feed_token(f);
	return err ? err : 1;
}

/* Sets the reason of err, unless there is one, and returns err. */
static int feed_failed(struct tfs_table *t, int err)
{
	if (err >= 0)
		reason_clear(); /* a change that says that the table was dropped is no error */
	if (err >= 0 || reason_is_set())
		return err;
	if (err == user_errno(-CHANGES_REMOVED))
		return table_why(t, err, "changes behind this place are not kept any more: its schema says for how long");
	if (err == -EOPNOTSUPP)
		return table_why(t, err, "it keeps no changes: changes = \"7d\"; in its schema keeps them");
	if (err == -EINVAL)
		return table_why(t, err, "no place in its changes: a token of this table and store, or a time is needed");
	if (err == -EACCES)
		return table_why(t, err, "no permission to read its changes");
	return err == -ENOENT ? table_why(t, err, "it was dropped") : err;
}

static int feed_step(struct tfs_feed *f, struct tfs_feed_change *change)
{
	int64_t low_us, until_us;
	bool full, beyond;
	int r;

	*change = (struct tfs_feed_change){0};
	if (f->value.cap > ANSWERS_BYTES)
		buf_fini(&f->value);
	if (f->dropped)
		return -ENOENT;
	if (f->truncated)
		return table_change(f, change);
	for (unsigned rounds = 0;; rounds++) {
		if (!f->n) {
			waiter_add(f->t->store, &f->waiter);
			r = round_ask(f, &low_us, &until_us);
			if (r == -TABLE_DROPPED)
				return table_change(f, change);
			if (r)
				return user_errno(r);
		}
		r = round_next(f, change);
		if (r == -TABLE_DROPPED) { /* while the rest of a value was read */
			answers_reset(f);
			return table_change(f, change);
		}
		if (r)
			return user_errno(r);
		full = beyond = false;
		for (unsigned i = 0; i < f->n; i++) {
			beyond = beyond || f->v[i].any;
			full = full || f->v[i].a.exists;
		}
		r = round_end(f);
		if (r || (!beyond && !full))
			return user_errno(r);
		if (!full && rounds >= ROUNDS_MOST) {
			/* A caller that waits must come back: no write tells it that the clock of that server has moved. */
			waiter_remove(f->t->store, &f->waiter);
			return 0;
		}
		if (!full && rounds >= ROUNDS_AT_ONCE)
			(void)usleep(PAUSE_US); /* the clock of a server is behind that of another */
	}
}

bool tfs_feed_at_hand(struct tfs_feed *f)
{
	return f->truncated || round_next(f, NULL) != 0;
}

int tfs_feed_next(struct tfs_feed *f, struct tfs_feed_change *change)
{
	reason_clear();
	return feed_failed(f->t, feed_step(f, change));
}

/* ---- waiting ---- */

int tfs_feed_wait(struct tfs_feed *f, bool (*stop)(void *arg), void *arg)
{
	struct tfs_store *s = f->t->store;
	int err = 0;

	mutex_lock(&s->lock);
	while (f->waiter.listed && !err) {
		if (!stop) {
			cond_wait(&s->waits, &s->lock);
			continue;
		}
		(void)cond_wait_us(&s->waits, &s->lock, STOP_US);
		mutex_unlock(&s->lock);
		err = stop(arg) ? -EINTR : 0;
		mutex_lock(&s->lock);
	}
	mutex_unlock(&s->lock);
	return err;
}

void tfs_feed_notify(struct tfs_feed *f, void (*fn)(void *arg), void *arg)
{
	struct tfs_store *s = f->t->store;

	mutex_lock(&s->lock);
	f->waiter.fn = fn;
	f->waiter.arg = arg;
	if (fn && !f->waiter.listed) {
		f->waiter.fn = NULL;
		fn(arg);
	}
	mutex_unlock(&s->lock);
}

/* ---- opening ---- */

/* Finds the place of from_us; or checks that the place of a token is kept. */
static int find_place(struct tfs_feed *f, const char *token, int64_t from_us)
{
	int64_t low_us, until_us;
	uint32_t tablets;
	int err = token ? parse_token(f, token, f->waiter.tablets) : 0;

	if (err)
		return err;
	tablets = f->tablets;
	f->tablets = f->waiter.tablets;
	buf_reset(&f->from);
	err = round_ask(f, &low_us, &until_us);
	answers_reset(f);
	f->tablets = tablets;
	if (err || f->truncated)
		return err;
	/* A tablet that has just begun to keep changes does so from a moment later than the time of its answer. */
	if (!token)
		return from_us == TFS_FEED_START  ? set_place(f, low_us + 1)
			: from_us == TFS_FEED_NOW ? set_place(f, (until_us > low_us ? until_us : low_us) + 1)
			: from_us <= 0            ? -EINVAL
						  : set_place(f, from_us);
	return change_stamp_append(&f->from, f->stamp);
}

/* Returns true if the table has other tablets than its handle's schema said. */
static bool catch_up(struct tfs_feed *f)
{
	const struct schema *s = table_new_tablets(f->t, f->waiter.tablets);

	if (!s)
		return false;
	f->tablets = f->waiter.tablets = schema_public(s)->tablets_id;
	f->truncated = false;
	schema_put(s);
	return true;
}

int tfs_feed_open(struct tfs_table *t, const char *token, int64_t from_us, struct tfs_feed **out)
{
	reason_clear();
	struct tfs_feed *f = calloc(1, sizeof(*f));
	uint8_t key[TFS_KEY_BYTES];
	int64_t low_us, until_us;
	int err = f ? tfs_key(t->store, "changes", key) : -ENOMEM;

	if (err) {
		free(f);
		return err;
	}
	table_get(t);
	f->t = t;
	f->store = load_be64(key);
	f->schema = table_schema(t);
	f->tablets = f->waiter.tablets = schema_public(f->schema)->tablets_id;
	if (is_snapshot(t))
		err = table_why(t, -EOPNOTSUPP, "a snapshot has no changes");
	if (!err && t->store->o.watch)
		err = t->store->o.watch(t->store->o.arg);
	if (!err)
		err = find_place(f, token, from_us);
	/* The table may have got new tablets, of which no notice has come yet. */
	while ((err == -TABLE_DROPPED || (err == -EINVAL && token)) && catch_up(f))
		err = find_place(f, token, from_us);
	/* The first round shows if the place is kept. */
	if (!err && !f->truncated) {
		waiter_add(t->store, &f->waiter);
		err = round_ask(f, &low_us, &until_us);
		if (err == -TABLE_DROPPED)
			err = 0;
	}
	if (err) {
		err = feed_failed(t, user_errno(err));
		tfs_feed_free(f);
		return err;
	}
	f->opened_us = f->latest_us;
	*out = f;
	return 0;
}

int64_t tfs_feed_opened_us(const struct tfs_feed *f)
{
	return f->opened_us;
}

void tfs_feed_free(struct tfs_feed *f)
{
	if (!f)
		return;
	waiter_remove(f->t->store, &f->waiter);
	answers_reset(f);
	free(f->v);
	schema_put(f->schema);
	buf_fini(&f->from);
	buf_fini(&f->bound);
	buf_fini(&f->scratch);
	buf_fini(&f->value);
	tfs_table_close(f->t);
	free(f);
}

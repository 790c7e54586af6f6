/* SPDX-License-Identifier: Apache-2.0 */
/* Tablets in the model: rows at which a table is cut, and nothing else.  It never splits or merges by itself. */
#include "t/model/model_types.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare(struct tfs_bytes a, struct tfs_bytes b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int c = n ? memcmp(a.p, b.p, n) : 0;

	return c ? c : (a.n > b.n) - (a.n < b.n);
}

/* The tablet that holds row: the number of cuts at or below it. */
static size_t tablet_of(const struct tfs_table *t, struct tfs_bytes row)
{
	size_t i = 0;

	while (i < t->cuts && compare(t->cut[i], row) <= 0)
		i++;
	return i;
}

/* A salted table is cut at keys with the salt in front. */
static bool too_long(const struct tfs_table *t, struct tfs_bytes row)
{
	return row.n > TFS_ROW_MAX + (t->schema->pub.salt_in_use ? 1u : 0u);
}

int tfs_split(struct tfs_table *t, struct tfs_bytes row)
{
	struct tfs_bytes *cut;
	void *copy = NULL;
	size_t at;
	int r;

	mdl_lock();
	at = tablet_of(t, row);
	r = !row.n || too_long(t, row)                    ? -EINVAL
		: t->dropped                              ? -ENOENT
		: t->schema->pub.snapshot_of              ? -EROFS
		: at && compare(t->cut[at - 1], row) == 0 ? -EEXIST
							  : 0;
	if (!r) {
		copy = malloc(row.n);
		cut = realloc(t->cut, (t->cuts + 1) * sizeof(*cut));
		if (cut)
			t->cut = cut;
		r = copy && cut ? 0 : -ENOMEM;
	}
	if (!r) {
		memcpy(copy, row.p, row.n);
		memmove(t->cut + at + 1, t->cut + at, (t->cuts - at) * sizeof(*t->cut));
		t->cut[at] = tfs_bytes_of(copy, row.n);
		t->cuts++;
		copy = NULL;
	}
	mdl_unlock();
	free(copy);
	return r;
}

int tfs_merge(struct tfs_table *t, struct tfs_bytes row)
{
	size_t at;
	int r;

	mdl_lock();
	at = tablet_of(t, row);
	r = too_long(t, row) ? -EINVAL : t->dropped ? -ENOENT : t->schema->pub.snapshot_of ? -EROFS : at == t->cuts ? -ENOENT : 0;
	if (!r) {
		free((void *)(uintptr_t)t->cut[at].p);
		memmove(t->cut + at, t->cut + at + 1, (t->cuts - at - 1) * sizeof(*t->cut));
		t->cuts--;
	}
	mdl_unlock();
	return r;
}

int tfs_tablets(struct tfs_table *t, int (*fn)(void *arg, const struct tfs_tablet *tablet), void *arg)
{
	struct tfs_usage u;
	int r = tfs_usage(t, NULL, &u);

	for (size_t i = 0; i <= t->cuts && !r; i++) {
		struct tfs_tablet one = {
			.begin = i ? t->cut[i - 1] : TFS_S(""), .server = "model", .state = "SERVING", .events = ""};

		if (i < t->cuts)
			one.end = t->cut[i];
		else
			one.usage = u;
		one.bytes = one.usage.memory_bytes;
		r = fn(arg, &one);
	}
	return r;
}

/* The model has no sizes of rows, so the table is one range. */
int tfs_splits(struct tfs_table *t, unsigned n, int (*fn)(void *arg, const struct tfs_tablet *range), void *arg)
{
	const struct tfs_tablet one = {.begin = TFS_S(""), .server = "model", .state = "", .events = ""};

	return n ? t->dropped ? -ENOENT : fn(arg, &one) : -EINVAL;
}

void mdl_tablets_free(struct tfs_table *t)
{
	for (size_t i = 0; i < t->cuts; i++)
		free((void *)(uintptr_t)t->cut[i].p);
	free(t->cut);
}

void mdl_tablets_copy(struct tfs_table *to, const struct tfs_table *from)
{
	to->cut = calloc(from->cuts + 1, sizeof(*to->cut));
	if (!to->cut)
		abort();
	for (; to->cuts < from->cuts; to->cuts++) {
		const struct tfs_bytes b = from->cut[to->cuts];
		void *p = malloc(b.n + 1);

		if (!p)
			abort();
		to->cut[to->cuts] = tfs_bytes_of(memcpy(p, b.p, b.n), b.n);
	}
}

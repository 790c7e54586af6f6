/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans.  A scan holds the matching entries of one row, taken at one
 * instant under the lock as references to immutable bytes, and the key of
 * that row; the next row is the first one after that key when it is asked
 * for.
 *
 * Choices:
 *  - `versions` counts, per column, those live versions that lie in
 *    [since, until); after_cell hides entries but does not restart the count,
 *    so a scan that is resumed continues exactly where it stopped.
 *  - An empty range of rows, qualifiers or times holds nothing; no error.
 *    Bounds may be longer than any key.
 *  - family_count 0 means all families, like NULL; naming one twice is the
 *    same as once.
 *  - after_cell without one_row and exactly one family is -EINVAL, as is one_row with a
 *    row key that cannot be.
 *  - Patterns here have literals, "\\x", "." and ".*" only.
 *  - An entry of TFS_SCAN_ROWS or _FAMILIES has zeros for what it has not
 *    (family NULL in the first), and expires_us INT64_MAX.
 *  - A family dropped while the scan runs just has no cells any more; a
 *    table dropped is -ENOENT.
 */
#include <errno.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "t/model/model_types.h"

struct entry {
	struct mdl_blob *qualifier, *value; /* NULL if there is no filter */
	uint16_t family;
	const char *family_name;
	int64_t ts, expires_us, commit_us;
	uint64_t sequence;
};

struct tfs_scan {
	struct tfs_table *table;
	struct tfs_scan_spec spec; /* byte pointers go to the blobs below */
	struct mdl_blob *row_from, *row_to, *stored_from, *stored_to, *qualifier_from, *qualifier_to, *row_regex, *qualifier_regex,
		*value_regex, *value_is, *row_script, *row_where;
	struct mdl_blob **key; /* of the spec's keys; NULL: it has none */
	unsigned key_count;
	uint16_t *family; /* ids */
	unsigned family_count;
	struct mdl_blob *row;      /* the row of the entries; NULL before the first */
	struct mdl_schema *schema; /* keeps the family names */
	struct entry *entry;
	size_t n, capacity, at;
	uint64_t left; /* entries the limit still allows */
	uint64_t rows; /* returned */
	bool done;
};

/* Do members apply that do not together with absent_from, or is it no snapshot of the table? */
static bool absent_invalid(const struct tfs_table *t, const struct tfs_scan_spec *p)
{
	const uint32_t of = t->schema->pub.snapshot_of;

	return p->reverse || p->after_cell || p->has_times || p->versions || p->row_regex.p || p->qualifier_regex.p ||
		p->value_regex.p || p->value_is.p || p->row_script.p || p->row_where.p || p->row_sample || p->keys ||
		p->has_changed || p->column_limit || p->row_limit || p->limit || !of ||
		p->absent_from->schema->pub.snapshot_of != of || p->absent_from->store != t->store;
}

static void clear(struct tfs_scan *s)
{
	for (size_t i = 0; i < s->n; i++) {
		mdl_blob_put(s->entry[i].qualifier);
		mdl_blob_put(s->entry[i].value);
	}
	s->n = s->at = 0;
}

static int keep_bytes(struct tfs_bytes *b, struct mdl_blob **copy)
{
	if (!b->p)
		return 0;
	*copy = mdl_blob_new(b->p, b->n);
	if (!*copy)
		return -ENOMEM;
	b->p = (*copy)->data;
	return 0;
}

/* The spec's keys become copies. */
static int keep_keys(struct tfs_scan *s, const struct tfs_scan_spec *spec)
{
	struct tfs_key *keys;

	if (!spec->keys)
		return 0;
	keys = calloc(spec->key_count + 1u, sizeof(*keys));
	s->key = calloc(spec->key_count + 1u, sizeof(struct mdl_blob *));
	s->spec.keys = keys;
	if (!keys || !s->key)
		return -ENOMEM;
	for (; s->key_count < spec->key_count; s->key_count++) {
		struct tfs_bytes key = spec->keys[s->key_count].key;

		s->key[s->key_count] = mdl_blob_new(key.n ? key.p : (const unsigned char *)"", key.n);
		if (!s->key[s->key_count])
			return -ENOMEM;
		keys[s->key_count] = (struct tfs_key){mdl_blob_bytes(s->key[s->key_count]), spec->keys[s->key_count].is_prefix};
	}
	return 0;
}

/* Do the spec's keys and its sample have the row? */
static bool row_wanted(const struct tfs_scan_spec *p, struct tfs_bytes row)
{
	bool found = !p->keys;

	for (unsigned i = 0; i < p->key_count && !found; i++) {
		const struct tfs_key *k = &p->keys[i];

		found = row.n >= k->key.n && (k->is_prefix || row.n == k->key.n) && memcmp(row.p, k->key.p, k->key.n) == 0;
	}
	return found && (!p->row_sample || XXH3_64bits(row.p, row.n) % 1000000 < p->row_sample);
}

static int resolve_families(struct tfs_scan *s)
{
	const struct tfs_scan_spec *spec = &s->spec;

	if (!spec->families || spec->family_count == 0)
		return 0;
	s->family = calloc(spec->family_count, sizeof(*s->family));
	if (!s->family)
		return -ENOMEM;
	for (unsigned i = 0; i < spec->family_count; i++) {
		const struct tfs_family *f = spec->families[i] ? mdl_schema_family(s->table->schema, spec->families[i]) : NULL;
		if (!f)
			return -EINVAL;
		s->family[s->family_count++] = f->id;
	}
	return 0;
}

int tfs_scan_new(struct tfs_table *t, const struct tfs_scan_spec *spec, struct tfs_scan **out)
{
	struct tfs_scan *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->spec = *spec;
	s->spec.keys = NULL;
	s->table = t;
	s->left = spec->limit ? spec->limit : UINT64_MAX;
	mdl_lock();
	mdl_table_get(t);
	if (spec->absent_from)
		mdl_table_get(spec->absent_from);
	if (t->dropped)
		r = -ENOENT;
	else if ((spec->one_row && (spec->row_from.n == 0 || spec->row_from.n > TFS_ROW_MAX)) ||
		(spec->after_cell &&
			(!spec->one_row || !spec->families || spec->family_count != 1 || spec->qualifier_from_after)) ||
		(spec->reverse && spec->past_damage) || (spec->absent_from && absent_invalid(t, spec)) ||
		(spec->what != TFS_SCAN_CELLS && spec->what != TFS_SCAN_KEYS && spec->what != TFS_SCAN_ROWS &&
			spec->what != TFS_SCAN_FAMILIES))
		r = -EINVAL;
	else
		r = resolve_families(s);
	if (r == 0)
		r = keep_bytes(&s->spec.row_from, &s->row_from);
	if (r == 0)
		r = keep_bytes(&s->spec.row_to, &s->row_to);
	if (r == 0)
		r = keep_bytes(&s->spec.stored_from, &s->stored_from);
	if (r == 0)
		r = keep_bytes(&s->spec.stored_to, &s->stored_to);
	if (r == 0)
		r = keep_bytes(&s->spec.qualifier_from, &s->qualifier_from);
	if (r == 0)
		r = keep_bytes(&s->spec.qualifier_to, &s->qualifier_to);
	if (r == 0)
		r = keep_bytes(&s->spec.row_regex, &s->row_regex);
	if (r == 0)
		r = keep_bytes(&s->spec.qualifier_regex, &s->qualifier_regex);
	if (r == 0)
		r = keep_bytes(&s->spec.value_regex, &s->value_regex);
	if (r == 0)
		r = keep_bytes(&s->spec.value_is, &s->value_is);
	if (r == 0)
		r = keep_bytes(&s->spec.row_script, &s->row_script);
	if (r == 0)
		r = keep_bytes(&s->spec.row_where, &s->row_where);
	if (r == 0 && (r = mdl_where(t, s->spec.row_where, NULL)) > 0)
		r = 0;
	if (r == 0)
		r = keep_keys(s, spec);
	s->spec.families = NULL;
	mdl_unlock();
	if (r == 0)
		*out = s;
	else
		tfs_scan_free(s);
	return r;
}

uint64_t mdl_fingerprint(uint16_t family, struct tfs_bytes qualifier, int64_t ts, uint64_t sequence)
{
	const uint64_t words[] = {family, (uint64_t)ts, sequence};
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < sizeof(words) + qualifier.n; i++)
		h = (h ^ (i < sizeof(words) ? ((const uint8_t *)words)[i] : ((const uint8_t *)qualifier.p)[i - sizeof(words)])) *
			UINT64_C(0x100000001b3);
	return h;
}

uint64_t tfs_fingerprint(const struct tfs_cell *c)
{
	return mdl_fingerprint(c->family_id, c->qualifier, c->ts, c->sequence);
}

void tfs_scan_free(struct tfs_scan *s)
{
	if (!s)
		return;
	mdl_lock();
	clear(s);
	mdl_blob_put(s->row_from);
	mdl_blob_put(s->row_to);
	mdl_blob_put(s->stored_from);
	mdl_blob_put(s->stored_to);
	mdl_blob_put(s->qualifier_from);
	mdl_blob_put(s->qualifier_to);
	mdl_blob_put(s->row_regex);
	mdl_blob_put(s->qualifier_regex);
	mdl_blob_put(s->value_regex);
	mdl_blob_put(s->value_is);
	mdl_blob_put(s->row_script);
	mdl_blob_put(s->row_where);
	for (unsigned i = 0; i < s->key_count; i++)
		mdl_blob_put(s->key[i]);
	free(s->key);
	free((void *)(uintptr_t)s->spec.keys);
	mdl_blob_put(s->row);
	mdl_schema_unref(s->schema);
	mdl_unlock();
	tfs_table_close(s->table);
	tfs_table_close(s->spec.absent_from);
	free(s->entry);
	free(s->family);
	free(s);
}

/* Does all of the text match the pattern (data NULL: any does)? */
bool mdl_matches(struct tfs_bytes pattern, struct tfs_bytes text)
{
	const unsigned char *p = pattern.p, *t = text.p;
	size_t i = 0;

	if (!p)
		return true;
	if (pattern.n == 0)
		return text.n == 0;
	if (pattern.n >= 2 && p[0] == '.' && p[1] == '*') {
		for (; i <= text.n; i++)
			if (mdl_matches(tfs_bytes_of(p + 2, pattern.n - 2), tfs_bytes_of(t + i, text.n - i)))
				return true;
		return false;
	}
	if (text.n == 0)
		return false;
	if (p[0] == '\\')
		i = 1;
	return (p[0] == '.' || p[i] == t[0]) &&
		mdl_matches(tfs_bytes_of(p + i + 1, pattern.n - i - 1), tfs_bytes_of(t + 1, text.n - 1));
}

static bool family_wanted(const struct tfs_scan *s, uint16_t id)
{
	for (unsigned i = 0; i < s->family_count; i++)
		if (s->family[i] == id)
			return true;
	return s->family_count == 0;
}

static bool column_wanted(const struct tfs_scan *s, const struct mdl_column *c)
{
	struct tfs_bytes q = mdl_blob_bytes(c->qualifier);

	return family_wanted(s, c->family) && mdl_compare(q, s->spec.qualifier_from) >= s->spec.qualifier_from_after &&
		(!s->spec.qualifier_to.p || mdl_compare(q, s->spec.qualifier_to) < 0);
}

static int add_entry(
	struct tfs_scan *s, const struct mdl_column *c, const struct mdl_version *v, int64_t expires_us, const char *family_name)
{
	struct entry *e;

	if (mdl_reserve(&s->entry, &s->capacity, s->n + 1, sizeof(*s->entry)) < 0)
		return -ENOMEM;
	e = &s->entry[s->n++];
	*e = (struct entry){.expires_us = INT64_MAX};
	if (s->spec.what == TFS_SCAN_ROWS)
		return 0;
	e->family = c->family;
	e->family_name = family_name;
	if (s->spec.what == TFS_SCAN_FAMILIES)
		return 0;
	e->qualifier = mdl_blob_get(c->qualifier);
	e->value = mdl_blob_get(v->value);
	e->ts = v->ts;
	e->commit_us = v->commit_us;
	e->sequence = v->sequence;
	e->expires_us = s->schema->pub.snapshot_of ? INT64_MAX : expires_us;
	return 0;
}

/* Has absent_from the version, with the same value? */
static bool elsewhere(const struct tfs_scan *s, const struct mdl_row *row, const struct mdl_column *c, const char *family,
	const struct mdl_version *v)
{
	const struct tfs_table *t = s->spec.absent_from;
	const struct mdl_column *there;
	const struct mdl_gc *gc;
	const char *name;
	size_t at, live;

	if (!t || !mdl_row_find(t, mdl_blob_bytes(row->key), &at))
		return false;
	row = t->row[at];
	if (!mdl_column_find(row, c->family, mdl_blob_bytes(c->qualifier), &at))
		return false;
	there = row->col[at];
	gc = mdl_schema_gc(t->schema, c->family, &name);
	live = mdl_column_live(there, gc, mdl_table_now(t));
	for (size_t i = 0; i < live; i++)
		if (there->v[i].ts == v->ts)
			return strcmp(name, family) == 0 &&
				(s->spec.absent_names ||
					mdl_compare(mdl_blob_bytes(there->v[i].value), mdl_blob_bytes(v->value)) == 0);
	return false;
}

/* The entries of one column. */
static int take_column(struct tfs_scan *s, const struct mdl_row *row, const struct mdl_column *c, int64_t now)
{
	const struct tfs_scan_spec *spec = &s->spec;
	const char *name = NULL;
	const struct mdl_gc *gc = mdl_schema_gc(s->schema, c->family, &name);
	size_t live = mdl_column_live(c, gc, now);
	uint32_t taken = 0;
	bool first = spec->after_cell && mdl_compare(mdl_blob_bytes(c->qualifier), spec->qualifier_from) == 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < live && s->n < s->left; i++) {
		const struct mdl_version *v = &c->v[i];
		if (spec->has_times && (v->ts < spec->since || (v->ts >= spec->until && spec->until != INT64_MAX)))
			continue;
		if (spec->versions && taken++ == spec->versions)
			break;
		if (first && v->ts >= spec->after_ts)
			continue;
		if ((spec->has_changed && v->commit_us < spec->changed_since) ||
			!mdl_matches(spec->value_regex, mdl_blob_bytes(v->value)) ||
			(spec->value_is.p && mdl_compare(spec->value_is, mdl_blob_bytes(v->value)) != 0))
			continue;
		if (elsewhere(s, row, c, name, v))
			continue;
		r = add_entry(s, c, v, mdl_gc_expiry(gc, i, v->ts), name);
		if (spec->what == TFS_SCAN_ROWS || spec->what == TFS_SCAN_FAMILIES)
			break;
	}
	return r;
}

/* The byte that a salted table stores in front of the row's key: its CRC-32C modulo the salt. */
static uint8_t salt_of(struct tfs_bytes row, int salt)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < row.n; i++) {
		crc ^= ((const uint8_t *)row.p)[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return (uint8_t)(~crc % (uint32_t)salt);
}

/* Compares the row's key as stored with a bound. */
static int compare_stored(struct tfs_bytes row, int salt, struct tfs_bytes bound)
{
	int order;

	if (!salt)
		return mdl_compare(row, bound);
	if (!bound.n)
		return 1;
	order = salt_of(row, salt) - *(const uint8_t *)bound.p;
	return order ? order : mdl_compare(row, (struct tfs_bytes){(const uint8_t *)bound.p + 1, bound.n - 1});
}

static bool stored_admits(const struct tfs_scan *s, struct tfs_bytes row)
{
	const int salt = s->schema->pub.salt_in_use;

	return compare_stored(row, salt, s->spec.stored_from) >= 0 &&
		(!s->spec.stored_to.p || compare_stored(row, salt, s->spec.stored_to) < 0);
}

/* Lua is not part of the model, but for "#r.key > N": rows with more than N bytes. */
static bool script_admits(struct tfs_bytes script, struct tfs_bytes key)
{
	unsigned least = 0;
	char text[64] = "";

	memcpy(text, script.p ? (const char *)script.p : "", script.n < sizeof(text) ? script.n : sizeof(text) - 1);
	return sscanf(text, "#r.key > %u", &least) != 1 || key.n > least;
}

static int take_row(struct tfs_scan *s, const struct mdl_row *row, int64_t now)
{
	size_t i = 0;
	uint16_t last_family = 0;
	uint32_t columns = 0; /* of last_family, returned */
	int r = 0;

	if (!row_wanted(&s->spec, mdl_blob_bytes(row->key)) || !mdl_matches(s->spec.row_regex, mdl_blob_bytes(row->key)) ||
		!stored_admits(s, mdl_blob_bytes(row->key)) || !script_admits(s->spec.row_script, mdl_blob_bytes(row->key)))
		return 0;
	r = mdl_where(s->table, s->spec.row_where, row);
	if (r <= 0)
		return r;
	r = 0;
	if (s->family_count == 1 && mdl_column_find(row, s->family[0], s->spec.qualifier_from, &i) && s->spec.qualifier_from_after)
		i++;
	for (; r == 0 && i < row->n && s->n < s->left; i++) {
		const struct mdl_column *c = row->col[i];
		size_t had = s->n;
		if (s->family_count == 1 && (c->family != s->family[0] || !column_wanted(s, c)))
			break;
		if (!column_wanted(s, c) || (s->spec.what == TFS_SCAN_FAMILIES && c->family == last_family))
			continue;
		if (!mdl_matches(s->spec.qualifier_regex, mdl_blob_bytes(c->qualifier)) ||
			(s->spec.column_limit && c->family == last_family && columns == s->spec.column_limit))
			continue;
		r = take_column(s, row, c, now);
		if (s->n > had) {
			columns = c->family == last_family ? columns + 1 : 1;
			last_family = c->family;
		}
		if (s->spec.what == TFS_SCAN_ROWS && s->n > 0)
			break;
	}
	return r;
}

/* Fills the entries from the row before the last one that has any; s->done at the end. */
static int next_row_down(struct tfs_scan *s)
{
	struct tfs_table *t = s->table;
	const struct tfs_scan_spec *spec = &s->spec;
	struct tfs_bytes below = s->row ? mdl_blob_bytes(s->row) : spec->row_to;
	size_t at = t->n;

	if (below.p)
		mdl_row_find(t, below, &at);
	mdl_schema_unref(s->schema);
	s->schema = t->schema;
	s->schema->refs++;
	while (s->n == 0 && at-- > 0) {
		struct tfs_bytes key = mdl_blob_bytes(t->row[at]->key);
		if (mdl_compare(key, spec->row_from) < (int)spec->row_from_after)
			break;
		int r = take_row(s, t->row[at], mdl_table_now(t));
		if (r < 0) {
			clear(s);
			return r;
		}
		mdl_blob_put(s->row);
		s->row = mdl_blob_get(t->row[at]->key);
	}
	s->done = s->n == 0;
	s->rows++;
	return 0;
}

/* Fills the entries from the next row that has any; s->done at the end. */
static int next_row(struct tfs_scan *s)
{
	struct tfs_table *t = s->table;
	const struct tfs_scan_spec *spec = &s->spec;
	bool after = s->row || (spec->row_from_after && !spec->one_row);
	size_t at;

	clear(s);
	if (t->dropped || (spec->absent_from && spec->absent_from->dropped))
		return -ENOENT;
	if (s->left == 0 || (spec->one_row && s->row) || (spec->row_limit && s->rows == spec->row_limit)) {
		s->done = true;
		return 0;
	}
	if (spec->reverse && !spec->one_row)
		return next_row_down(s);
	if (mdl_row_find(t, s->row ? mdl_blob_bytes(s->row) : spec->row_from, &at)) {
		if (after)
			at++;
	} else if (spec->one_row) {
		at = t->n;
	}
	mdl_schema_unref(s->schema);
	s->schema = t->schema;
	s->schema->refs++;
	int64_t now = mdl_table_now(t);
	for (; s->n == 0 && at < t->n; at++) {
		struct tfs_bytes key = mdl_blob_bytes(t->row[at]->key);
		if (!spec->one_row && spec->row_to.p && mdl_compare(key, spec->row_to) >= 0)
			break;
		int r = take_row(s, t->row[at], now);
		if (r < 0) {
			clear(s);
			return r;
		}
		mdl_blob_put(s->row);
		s->row = mdl_blob_get(t->row[at]->key);
		if (spec->one_row)
			break;
	}
	s->done = s->n == 0;
	s->rows++;
	return 0;
}

int tfs_scan_next(struct tfs_scan *s, struct tfs_cell *cell)
{
	int r = 0;

	if (!s->done && s->at == s->n) {
		mdl_lock();
		r = next_row(s);
		mdl_unlock();
	}
	if (r < 0 || s->done)
		return r;
	const struct entry *e = &s->entry[s->at++];
	s->left--;
	*cell = (struct tfs_cell){
		.row = mdl_blob_bytes(s->row),
		.family = e->family_name,
		.family_id = e->family,
		.ts = e->ts,
		.expires_us = e->expires_us,
		.commit_us = e->commit_us,
		.sequence = e->sequence,
	};
	if (e->value) {
		cell->qualifier = mdl_blob_bytes(e->qualifier);
		cell->size = e->value->size;
		if (s->spec.what == TFS_SCAN_CELLS && e->value->size <= TFS_INLINE_MAX)
			cell->value = mdl_blob_bytes(e->value);
	}
	return 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a listing, phase by phase: .schema; extra entries that are no
 * keys (scratch, parts made by mkdir), by name; then keys, in key order, rows
 * and families merged with those that were made and hold no cell yet.  Within
 * a phase the cursor is the last key given, so entries that come or go
 * elsewhere move nothing.
 *
 * Long names.  The keys below a part are not always neighbours in key order
 * (a shorter name may lie between), so a part is listed at its first key, and
 * whether a key is the first of its part is asked of the store.  That costs a
 * seek per change of part and keeps the cursor a plain key.
 *
 * Damage.  A scan ends at the first block that cannot be read.  The listing
 * then goes on from its cursor with a scan that passes over such blocks, and
 * its own end is EIO.  What stood in them may have hidden what comes behind, so
 * those entries are names only: the kernel asks for each, and gets the truth.
 */
#include "fs/node/dir.h"

#include "fs/node/control.h"
#include "fs/base/name.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

/* An answer has room for some 200 entries; what a scan fetches beyond is lost when the next answer begins a new one. */
#define BATCH_BYTES (32u << 10)

enum list_phase { LIST_SCHEMA, LIST_OWN, LIST_PARTS, LIST_KEYS, LIST_KEYS_AFTER, LIST_NAMES, LIST_END };

struct lister {
	struct node *dir;  /* NULL: only keys, for parts */
	struct node *base; /* whose keys: table, latest, row or family */
	struct node *home; /* the same in the table's own view, where directories are made; counted; NULL: there is none */
	struct slice path; /* of the parts that dir is */
	struct cursor at;
	bool values, latest;
	struct tfs_scan *scan;
	bool scan_done, peeked, prefixed, phase_begun;
	struct tfs_cell cell; /* the scan's current one, when peeked */
	struct name_prefix prefix;
	bool damaged;  /* something could not be read: scans go on behind it */
	struct buf to; /* end of the scan's range */
	struct buf from;
	struct buf name, last_part;
	const struct tfs_schema *schema;
	uint16_t *families; /* with cells in the row */
	unsigned family_count;
	char tables[16][TFS_NAME_MAX + 1];
	char family_key[FAMILY_KEY_BYTES];
	int table_count, table_at;
};

const struct cursor *lister_cursor(const struct lister *l)
{
	return &l->at;
}

bool lister_damaged(const struct lister *l)
{
	return l->damaged;
}

static bool is_damage(int r)
{
	return r == -EBADMSG || r == -EIO;
}

static void end_scan(struct lister *l)
{
	if (l->scan)
		tfs_scan_free(l->scan);
	l->scan = NULL;
	l->scan_done = l->peeked = false;
}

static void next_phase(struct lister *l)
{
	end_scan(l);
	l->at.phase++;
	l->at.number = 0;
	l->phase_begun = false;
	buf_reset(&l->at.key);
	buf_reset(&l->last_part);
}

static int lister_init(struct lister *l, struct node *base, struct slice path)
{
	l->base = base;
	mutex_lock(tree_mutex());
	l->home = node_home_locked(base);
	if (l->home)
		l->home->refs++;
	mutex_unlock(tree_mutex());
	l->path = path;
	l->latest = node_is_latest(base);
	if (path.n == 0)
		return 0;
	l->prefixed = true;
	return name_prefix_init(path, base->kind == NODE_FAMILY, &l->prefix);
}

static void lister_fini(struct lister *l)
{
	end_scan(l);
	node_put(l->home);
	name_prefix_fini(&l->prefix);
	if (l->schema)
		tfs_schema_put(l->schema);
	buf_fini(&l->at.key);
	buf_fini(&l->to);
	buf_fini(&l->from);
	buf_fini(&l->name);
	buf_fini(&l->last_part);
	free(l->families);
}

int lister_new(struct node *dir, const struct cursor *from, bool values, struct lister **out)
{
	struct lister *l = calloc(1, sizeof(*l));
	int r = 0;

	if (!l)
		return -ENOMEM;
	l->dir = dir;
	l->values = values;
	if (dir->kind == NODE_ROW_PART || dir->kind == NODE_CELL_PART)
		r = lister_init(l, dir->parent, node_key(dir));
	else
		r = lister_init(l, dir, slice_of(NULL, 0));
	if (r == 0 && node_table(dir))
		r = tfs_schema_get(node_store_table(dir), &l->schema);
	if (r == 0 && from) {
		l->at.phase = from->phase;
		l->at.number = from->number;
		l->phase_begun = true; /* behind an entry, be its key empty and its timestamp 0 */
		r = buf_append_slice(&l->at.key, buf_slice(&from->key));
	}
	if (r) {
		lister_free(l);
		return r == -ENOENT ? -ESTALE : r;
	}
	*out = l;
	return 0;
}

void lister_free(struct lister *l)
{
	if (!l)
		return;
	lister_fini(l);
	free(l);
}

/* ---- rows ---- */

static int rows_scan(struct lister *l)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_ROWS, .batch_bytes = BATCH_BYTES, .past_damage = l->damaged};
	int r;

	if (l->phase_begun) {
		r = buf_set(&l->from, l->at.key.p, l->at.key.n);
		spec.row_from_after = true;
	} else {
		r = buf_set(&l->from, l->prefix.raw.p, l->prefix.raw.n);
	}
	if (r == 0 && l->prefixed)
		r = key_after_prefix(buf_slice(&l->prefix.raw), &l->to);
	if (r)
		return r;
	spec.row_from = bytes_of(buf_slice(&l->from));
	if (l->to.n)
		spec.row_to = bytes_of(buf_slice(&l->to));
	return tfs_scan_new(node_store_table(l->base), &spec, &l->scan);
}

/* Makes l->cell the scan's next entry, if there is one (l->peeked). */
static int peek(struct lister *l, int (*open_scan)(struct lister *l))
{
	int r = 0;

	if (l->peeked || l->scan_done)
		return 0;
	for (;;) {
		if (!l->scan)
			r = open_scan(l);
		if (r == 0 && l->scan)
			r = tfs_scan_next(l->scan, &l->cell);
		if (!is_damage(r) || l->damaged)
			break;
		l->damaged = true;
		end_scan(l);
		r = 0;
	}
	if (is_damage(r))
		r = 0; /* the end, then: past_damage says it there */
	if (r < 0)
		return r;
	l->peeked = r > 0;
	l->scan_done = r == 0;
	return 0;
}

/* The next row key, of the store or made, into at.key: 1, 0, -errno. */
static int rows_next(struct lister *l)
{
	struct slice row = {0}, *above = NULL, key = buf_slice(&l->at.key), prefix = buf_slice(&l->prefix.raw);
	struct node *extra;
	int r;

	r = peek(l, rows_scan);
	if (r)
		return r;
	if (l->peeked)
		row = slice_from(l->cell.row);
	if (l->phase_begun)
		above = &key;
	else if (l->prefixed)
		above = &prefix;
	mutex_lock(tree_mutex());
	extra = l->home ? node_extra_next_locked(l->home, 1, above) : NULL;
	if (extra && l->prefixed && !slice_has_prefix(node_key(extra), prefix))
		extra = NULL;
	if (extra && l->peeked) {
		int c = slice_cmp(node_key(extra), row);

		if (c == 0)
			l->peeked = false;
		else if (c > 0)
			extra = NULL;
	}
	if (extra)
		r = buf_set(&l->at.key, extra->key, extra->key_n);
	mutex_unlock(tree_mutex());
	if (r)
		return r;
	if (!extra) {
		if (!l->peeked)
			return 0;
		l->peeked = false;
		r = buf_set(&l->at.key, row.p, row.n);
		if (r)
			return r;
	}
	l->phase_begun = true;
	return 1;
}

/* ---- cells ---- */

static int cells_scan(struct lister *l)
{
	const char *family = node_name(l->base);
	struct tfs_scan_spec spec = {
		.what = l->values ? TFS_SCAN_CELLS : TFS_SCAN_KEYS,
		.row_from = bytes_of(node_key(l->base->parent)),
		.one_row = true,
		.families = &family,
		.family_count = 1,
		.versions = l->latest ? 1 : 0,
		.batch_bytes = BATCH_BYTES,
		.past_damage = l->damaged,
	};
	int r = 0;

	if (l->at.phase == LIST_KEYS && l->prefixed) {
		/* the versions of one qualifier */
		r = buf_set(&l->from, l->prefix.qualifier.p, l->prefix.qualifier.n);
		if (r == 0)
			r = buf_set(&l->to, l->prefix.qualifier.p, l->prefix.qualifier.n);
		if (r == 0)
			r = buf_u8(&l->to, 0);
	} else if (l->prefixed) {
		r = buf_set(&l->from, l->prefix.raw.p, l->prefix.raw.n);
		if (r == 0)
			r = key_after_prefix(buf_slice(&l->prefix.raw), &l->to);
	}
	if (r == 0 && l->phase_begun) {
		r = buf_set(&l->from, l->at.key.p, l->at.key.n);
		if (r == 0 && l->latest)
			r = buf_u8(&l->from, 0);
		spec.after_cell = !l->latest;
		spec.after_ts = l->at.number;
	}
	if (r)
		return r;
	spec.qualifier_from = bytes_of(buf_slice(&l->from));
	if (l->to.n)
		spec.qualifier_to = bytes_of(buf_slice(&l->to));
	r = tfs_scan_new(node_store_table(l->base), &spec, &l->scan);
	if (r == -EINVAL) { /* the family is gone */
		l->scan_done = true;
		r = 0;
	}
	return r;
}

static int cells_next(struct lister *l)
{
	int r;

	r = peek(l, cells_scan);
	if (r || !l->peeked)
		return r;
	l->peeked = false;
	l->at.number = l->cell.ts;
	r = buf_set(&l->at.key, l->cell.qualifier.data, l->cell.qualifier.size);
	if (r)
		return r;
	l->phase_begun = true;
	return 1;
}

/* ---- keys of either kind, as paths below the directory ---- */

/* 1: at.key is a key whose path, in l->name, lies below l->path. */
static int keys_next(struct lister *l)
{
	bool rows = l->base->kind != NODE_FAMILY;

	for (;;) {
		enum name_kind kind = rows ? NAME_ROW : l->latest ? NAME_NEWEST : NAME_VERSION;
		struct slice component;
		bool last;
		int r = rows ? rows_next(l) : cells_next(l);

		if (r <= 0)
			return r;
		buf_reset(&l->name);
		r = name_encode(kind, buf_slice(&l->at.key), l->at.number, &l->name);
		if (r == -EINVAL)
			continue; /* the empty row has no name */
		if (r)
			return r;
		if (l->name.n >= l->path.n && name_component(buf_slice(&l->name), l->path, &component, &last))
			return 1;
	}
}

/* In which phases a directory's keys are; the second only for cells of a part. */
static bool has_keys(const struct lister *l, enum list_phase phase)
{
	if (phase == LIST_KEYS)
		return !(l->base->kind == NODE_FAMILY && l->prefixed &&
			(!l->prefix.split_version || slice_eq(buf_slice(&l->prefix.qualifier), buf_slice(&l->prefix.raw))));
	return l->base->kind == NODE_FAMILY && l->prefixed;
}

/* The first key below a part: 1, 0, -errno. */
static int part_first(struct node *base, struct slice path, struct buf *key, int64_t *ts)
{
	struct lister l = {.base = base};
	int r = lister_init(&l, base, path);

	for (enum list_phase phase = LIST_KEYS; r == 0 && phase <= LIST_KEYS_AFTER; phase++) {
		if (!has_keys(&l, phase))
			continue;
		end_scan(&l);
		l.phase_begun = false;
		l.at.phase = (uint8_t)phase;
		l.at.number = 0;
		buf_reset(&l.at.key);
		r = keys_next(&l);
	}
	if (r == 0 && l.damaged)
		r = -EBADMSG;
	if (r > 0) {
		*ts = l.at.number;
		if (buf_set(key, l.at.key.p, l.at.key.n))
			r = -ENOMEM;
	}
	lister_fini(&l);
	return r;
}

int dir_part_exists(struct node *base, struct slice path)
{
	struct buf key = {0};
	struct node *n, *home;
	int64_t ts;
	bool below;
	int r;

	mutex_lock(tree_mutex());
	home = node_home_locked(base);
	n = home ? node_extra_next_locked(home, 0, &path) : NULL;
	below = n && n->key_n > path.n && memcmp(n->key, path.p, path.n) == 0 && n->key[path.n] == '/';
	mutex_unlock(tree_mutex());
	if (below)
		return 0;
	r = part_first(base, path, &key, &ts);
	buf_fini(&key);
	return r < 0 ? r : r > 0 ? 0 : -ENOENT;
}

/* Is the part that the current key lies in listed here, at this key?  1 yes. */
static int part_is_due(struct lister *l, struct slice part)
{
	struct buf first = {0};
	int64_t ts = 0;
	bool extra;
	int r;

	if (slice_eq(buf_slice(&l->last_part), part))
		return 0;
	mutex_lock(tree_mutex());
	extra = l->home && node_extra_find_locked(l->home, 0, part);
	mutex_unlock(tree_mutex());
	r = buf_set(&l->last_part, part.p, part.n);
	if (r || extra)
		return r;
	r = part_first(l->base, part, &first, &ts);
	if (is_damage(r)) {
		l->damaged = true;
		r = 1; /* its first key may be the one that cannot be read: rather here than not at all */
	} else if (r > 0)
		r = slice_eq(buf_slice(&first), buf_slice(&l->at.key)) && ts == l->at.number;
	buf_fini(&first);
	return r;
}

static void cell_entry(struct lister *l, struct list_entry *e)
{
	e->info = (struct tfs_info){l->cell.ts, l->cell.size, l->cell.expires_us, l->cell.commit_us};
	e->value = l->cell.value;
	e->sized = true;
}

static int list_keys(struct lister *l, struct list_entry *e)
{
	int r;

	while ((r = keys_next(l)) > 0) {
		struct slice component;
		bool last;

		if (!name_component(buf_slice(&l->name), l->path, &component, &last))
			continue;
		e->name = component;
		e->parent = l->base;
		e->unsure = l->cell.unsure;
		if (last) {
			e->key = buf_slice(&l->at.key);
			if (l->base->kind == NODE_FAMILY) {
				e->kind = l->latest ? NODE_PLAIN : NODE_VERSION;
				e->ts = l->at.number;
				cell_entry(l, e);
			} else {
				e->kind = NODE_ROW;
				e->ts = 0;
			}
			return 1;
		}
		e->key = slice_of(l->name.p, (size_t)(component.p + component.n - l->name.p));
		e->kind = l->base->kind == NODE_FAMILY ? NODE_CELL_PART : NODE_ROW_PART;
		e->ts = 0;
		r = part_is_due(l, e->key);
		if (r)
			return r;
	}
	return r;
}

/* ---- families of a row ---- */

static int families_load(struct lister *l)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_FAMILIES, .row_from = bytes_of(node_key(l->base)), .one_row = true};
	struct tfs_cell cell;
	int r;

	l->families = calloc(l->schema->family_count + 1, sizeof(*l->families));
	if (!l->families)
		return -ENOMEM;
	for (;;) {
		l->family_count = 0;
		spec.past_damage = l->damaged;
		r = tfs_scan_new(node_store_table(l->base), &spec, &l->scan);
		while (r == 0 && (r = tfs_scan_next(l->scan, &cell)) > 0) {
			if (l->family_count < l->schema->family_count)
				l->families[l->family_count++] = cell.family_id;
			r = 0;
		}
		end_scan(l);
		if (!is_damage(r) || l->damaged)
			break;
		l->damaged = true;
	}
	return is_damage(r) ? 0 : r;
}

static int list_families(struct lister *l, struct list_entry *e)
{
	int r = 0;

	if (!l->families)
		r = families_load(l);
	for (unsigned i = 0; r == 0 && i < l->schema->family_count; i++) {
		const struct tfs_family *f = &l->schema->families[i];
		bool here = false;

		if (f->id <= l->at.number)
			continue;
		l->at.number = f->id;
		for (unsigned j = 0; j < l->family_count && !here; j++)
			here = l->families[j] == f->id;
		tree_family_key(f->id, l->family_key);
		if (!here) {
			mutex_lock(tree_mutex());
			here = l->home && node_extra_find_locked(l->home, 1, slice_str(l->family_key));
			mutex_unlock(tree_mutex());
		}
		if (!here)
			continue;
		*e = (struct list_entry){
			.name = slice_str(f->name), .kind = NODE_FAMILY, .parent = l->base, .key = slice_str(l->family_key)};
		return 1;
	}
	return r;
}

/* ---- extra entries that are no keys ---- */

static int list_own(struct lister *l, struct list_entry *e)
{
	bool parts = l->at.phase == LIST_PARTS;
	struct node *holder = parts ? l->home : l->dir, *n;
	int r = 0;

	for (;;) {
		struct slice above = buf_slice(&l->at.key), component;
		bool last = true;

		if (parts && !l->phase_begun)
			above = l->path;
		mutex_lock(tree_mutex());
		n = holder ? node_extra_next_locked(holder, 0, l->phase_begun || parts ? &above : NULL) : NULL;
		if (n) {
			r = buf_set(&l->at.key, n->key, n->key_n);
			e->kind = (enum node_kind)n->kind;
			e->ts = n->ts;
		}
		mutex_unlock(tree_mutex());
		if (!n || r)
			return r;
		l->phase_begun = true;
		component = buf_slice(&l->at.key);
		if (parts) {
			if (!slice_has_prefix(component, l->path))
				return 0;
			if (!name_component(component, l->path, &component, &last) || !last)
				continue;
		} else if (memchr(component.p, '/', component.n)) {
			continue;
		}
		if (parts && (e->kind == NODE_SCRATCH_FILE || e->kind == NODE_SCRATCH_DIR))
			continue;
		e->name = component;
		e->key = buf_slice(&l->at.key);
		e->parent = parts ? l->base : l->dir;
		return 1;
	}
}

/* ---- fixed and schema names ---- */

static int list_tables(struct lister *l, struct list_entry *e)
{
	uint8_t key[TABLE_KEY_BYTES];
	struct tfs_table *t;
	const char *name;
	int r;

again:
	if (l->table_at == l->table_count) {
		char after[TFS_NAME_MAX + 1] = "";

		if (l->at.key.n)
			memcpy(after, l->at.key.p, l->at.key.n);
		l->table_at = 0;
		l->table_count = tfs_table_list(fs.store, after, l->tables, 16);
		if (l->table_count <= 0) {
			r = l->table_count;
			l->table_count = 0;
			return r;
		}
	}
	name = l->tables[l->table_at++];
	r = buf_set(&l->at.key, name, strlen(name));
	if (r)
		return r;
	r = tfs_table_open(fs.store, name, &t);
	if (r == -ENOENT)
		goto again;  /* dropped meanwhile */
	if (r == -EBADMSG) { /* its schema is damaged: a name, and EIO for all else */
		*e = (struct list_entry){
			.name = slice_str(name), .kind = NODE_TABLE, .parent = l->dir, .key = slice_str(name), .unsure = true};
		return 1;
	}
	if (r)
		return r;
	tree_table_key(t, key);
	tfs_table_close(t);
	r = buf_set(&l->name, key, sizeof(key));
	*e = (struct list_entry){.name = slice_str(name), .kind = NODE_TABLE, .parent = l->dir, .key = buf_slice(&l->name)};
	return r ? r : 1;
}

/* Families or groups stand in the order of their ids; the cursor is one above the last, whatever has come or gone. */
static int list_schema(struct lister *l, struct list_entry *e)
{
	bool families = l->dir->kind == NODE_FAMILIES;
	unsigned count = families ? l->schema->family_count : l->schema->group_count;

	for (unsigned i = 0; i < count; i++) {
		uint16_t id = families ? l->schema->families[i].id : l->schema->groups[i].id;

		if (id < l->at.number)
			continue;
		l->at.number = id + 1;
		tree_family_key(id, l->family_key);
		*e = (struct list_entry){.name = slice_str(families ? l->schema->families[i].name : l->schema->groups[i].name),
			.kind = families ? NODE_FAMILY_DIR : NODE_GROUP_DIR,
			.parent = l->dir,
			.key = slice_str(l->family_key)};
		return 1;
	}
	return 0;
}

static int list_names(struct lister *l, struct list_entry *e)
{
	enum node_kind dir = (enum node_kind)l->dir->kind;
	const char *name;

	if (dir == NODE_ROOT)
		return list_tables(l, e);
	if (dir == NODE_FAMILIES || dir == NODE_GROUPS)
		return list_schema(l, e);
	name = control_names(dir)[l->at.number];
	if (!name)
		return 0;
	l->at.number++;
	*e = (struct list_entry){.name = slice_str(name), .kind = NODE_SETTING, .parent = l->dir, .key = slice_str(name)};
	return 1;
}

static bool lists_names(enum node_kind kind)
{
	return kind == NODE_ROOT || kind == NODE_FAMILIES || kind == NODE_GROUPS || kind == NODE_FAMILY_DIR ||
		kind == NODE_GROUP_DIR || kind == NODE_SYSTEM;
}

static int list_phase(struct lister *l, struct list_entry *e)
{
	enum node_kind dir = (enum node_kind)l->dir->kind;

	switch ((enum list_phase)l->at.phase) {
	case LIST_SCHEMA:
		if (dir != NODE_TABLE || l->at.number || !l->schema->is_set || l->schema->is_hidden)
			return 0;
		l->at.number = 1;
		*e = (struct list_entry){.name = slice_str(".schema"), .kind = NODE_SCHEMA, .parent = l->dir};
		return 1;
	case LIST_OWN:
		return list_own(l, e);
	case LIST_PARTS:
		return l->prefixed || l->home != l->base ? list_own(l, e) : 0;
	case LIST_KEYS:
	case LIST_KEYS_AFTER:
		if (lists_names(dir) || dir == NODE_SCRATCH_DIR || !has_keys(l, (enum list_phase)l->at.phase))
			return 0;
		if (dir == NODE_ROW)
			return list_families(l, e);
		return list_keys(l, e);
	case LIST_NAMES:
		return lists_names(dir) ? list_names(l, e) : 0;
	case LIST_END:
		break;
	}
	return 0;
}

int lister_next(struct lister *l, struct list_entry *e)
{
	while (l->at.phase < LIST_END) {
		int r;

		*e = (struct list_entry){.info.expires_us = INT64_MAX};
		r = list_phase(l, e);
		if (r)
			return r;
		next_phase(l);
	}
	return 0;
}

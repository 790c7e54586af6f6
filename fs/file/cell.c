/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells as files (cell.h).  A table has two views in the tree: itself and
 * .latest.  So the kernel may have two directories of a family, and a change is
 * noted for both.
 *
 * Timeouts: the kernel may cache the attributes of a version until this daemon
 * invalidates them.  In some families a GC rule can hide a version without a
 * notice to this daemon.  If the rule counts versions, the kernel may not
 * cache them; if it limits their age, until the cell expires.
 */
#include "fs/file/cell.h"

#include "fs/file/file.h"
#include "engine/base/clock.h"
#include "engine/base/name.h"
#include "fs/base/access.h"
#include "fs/base/dir_time.h"
#include "fs/base/reply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void cell_place_at(struct node *family_node, struct tfs_bytes qualifier, bool version, int64_t ts, struct cell_place *out)
{
	out->family_node = family_node;
	out->table = node_store_table(family_node);
	out->row = node_key(family_node->parent);
	out->family = node_name(family_node);
	out->qualifier = qualifier;
	out->ts = version ? tfs_at(ts) : TFS_AUTO;
	out->plain = !version;
}

void cell_place_of(struct node *cell, struct cell_place *out)
{
	cell_place_at(cell->parent, node_key(cell), cell->kind != NODE_PLAIN || !node_lives(cell), cell->ts, out);
	out->plain = cell->kind == NODE_PLAIN || (cell->kind == NODE_FOUND && node_is_latest(cell));
}

static void family_info_from(const struct tfs_family *f, struct family_info *out)
{
	out->mode = f->mode & 0777;
	out->uid = f->uid;
	out->gid = f->gid;
	out->counter = f->type == TFS_TYPE_COUNTER;
	out->counted_versions = f->gc && strstr(f->gc, "maxversions") != NULL;
	out->max_age_us = f->max_age_us;
}

int family_info_get(struct node *family_node, struct family_info *out)
{
	const struct tfs_schema *s;
	const struct tfs_family *f;
	int err;

	err = tfs_schema_get(node_store_table(family_node), &s);
	if (err)
		return err;
	f = tfs_schema_family(s, node_name(family_node));
	if (f)
		family_info_from(f, out);
	tfs_schema_put(s);
	return f ? 0 : -ENOENT;
}

/* The library reports a family that was dropped as EINVAL. */
static int dropped_is_absent(int err)
{
	return err == -EINVAL ? -ENOENT : err;
}

/* Returns true if the file has a newline behind the value.  Only small values ask for the type of the family. */
static bool shows_newline(const struct cell_place *p, uint64_t stored)
{
	struct family_info f;

	return p->plain && counter_file_size(stored) != stored && family_info_get(p->family_node, &f) == 0 && f.counter;
}

int cell_stat(const struct cell_place *p, struct tfs_info *info)
{
	int err = dropped_is_absent(tfs_stat(p->table, p->row, p->family, p->qualifier, p->ts, info));

	info->size += err == 0 && shows_newline(p, info->size);
	return err;
}

static int cell_read(const struct cell_place *p, uint64_t offset, void *buf, size_t n, size_t *got, struct tfs_info *info)
{
	int err = dropped_is_absent(tfs_read(p->table, p->row, p->family, p->qualifier, p->ts, offset, buf, n, got, info));

	if (err || !shows_newline(p, info->size))
		return err;
	if (offset + *got == info->size && *got < n)
		((char *)buf)[(*got)++] = '\n';
	info->size++;
	return 0;
}

int cell_read_first(const struct cell_place *p, struct cell_first *first, struct tfs_info *info)
{
	return cell_read(p, 0, first->p, CELL_FIRST_BYTES, &first->n, info);
}

int cell_load(struct node *cell, bool only_reads, struct stage *image, struct tfs_info *info)
{
	struct tfs_info first, again;
	struct cell_place at;
	uint64_t offset = 0;
	uint8_t *buf;
	size_t n, got;
	int err;

	cell_place_of(cell, &at);
	err = cell_stat(&at, &first);
	if (err)
		return err;
	at.ts = tfs_at(first.ts);
	n = first.size < CELL_READ_AT_ONCE ? (size_t)first.size + 1 : CELL_READ_AT_ONCE;
	image->only_read = only_reads ? first.size : 0;
	buf = malloc(n);
	if (!buf)
		return -ENOMEM;
	do {
		err = cell_read(&at, offset, buf, n, &got, &again);
		if (err == -ENOENT && offset == 0 && cell->kind == NODE_PLAIN) {
			at.ts = TFS_AUTO;
			err = cell_read(&at, 0, buf, n, &got, &again);
			if (err == 0)
				at.ts = tfs_at(again.ts);
		}
		if (err == 0)
			err = stage_load(image, offset, buf, got);
		offset += got;
	} while (err == 0 && got > 0 && offset < again.size);
	free(buf);
	if (err)
		return err;
	*info = again;
	info->ts = at.ts.us;
	return 0;
}

int cell_node_stat(struct node *cell, struct tfs_info *info)
{
	struct cell_place p;

	cell_place_of(cell, &p);
	return cell_stat(&p, info);
}

int cell_node_read(struct node *cell, uint64_t offset, void *buf, size_t n, size_t *got)
{
	struct tfs_info unused;
	struct cell_place p;

	cell_place_of(cell, &p);
	return cell_read(&p, offset, buf, n, got, &unused);
}

void stat_time(struct timespec *t, int64_t us)
{
	int64_t sec = us / 1000000, rest = us % 1000000;

	if (rest < 0) {
		rest += 1000000;
		sec--;
	}
	t->tv_sec = (time_t)sec;
	t->tv_nsec = (long)rest * 1000;
}

void cell_attr(const struct node *n, const struct family_info *f, int64_t ts, int64_t commit_us, uint64_t size, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = node_number(n);
	st->st_mode = S_IFREG | f->mode;
	st->st_nlink = 1;
	st->st_uid = f->uid;
	st->st_gid = f->gid;
	st->st_size = (off_t)size;
	st->st_blksize = 4096;
	st->st_blocks = (blkcnt_t)((size + 511) / 512);
	stat_time(&st->st_mtim, ts);
	st->st_atim = st->st_mtim;
	stat_time(&st->st_ctim, commit_us);
}

double version_timeout(const struct family_info *f, int64_t expires_us)
{
	int64_t left;

	if (f->counted_versions || !fs.may_keep)
		return 0;
	if (expires_us == INT64_MAX)
		return FS_FOREVER;
	left = expires_us - fs_now_us();
	if (left <= 0)
		return 0;
	return left > (int64_t)FS_FOREVER * 1000000 ? FS_FOREVER : (double)left / 1e6;
}

/*
 * A commit counts itself in fs.changes, makes the node's size unknown under the
 * tree lock, and remembers its own size afterwards.  Therefore the check and
 * the store are one step under that lock.
 */
bool version_remember(struct node *version, const struct tfs_info *info, uint64_t changes)
{
	bool current, differs;

	if (version->epoch != 0 && version->epoch == table_epoch(version) && version->size == info->size &&
		version->commit_us == info->commit_us)
		return changes == fs_changes();
	mutex_lock(tree_mutex());
	current = changes == fs_changes();
	if (current) {
		differs = version->size != info->size || version->commit_us != info->commit_us;
		if (differs && version->flags & NODE_PAGED)
			version->flags |= NODE_OUTDATED;
		/* Another client has changed the cell, and the server has not reported it yet: bytes that were read ahead are older. */
		if (differs && version->commit_us)
			atomic_fetch_add(&fs.changes, 1);
		version->size = info->size;
		version->commit_us = info->commit_us;
		version->epoch = table_epoch(version);
	}
	mutex_unlock(tree_mutex());
	return current;
}

void plain_remember(struct node *plain, const struct tfs_info *info, uint64_t changes)
{
	mutex_lock(tree_mutex());
	plain->epoch = 0;
	if (node_lives(plain) && info->expires_us == INT64_MAX && changes == fs_changes()) {
		plain->size = info->size;
		plain->commit_us = info->commit_us;
		plain_set_ts_locked(plain, info->ts);
		plain->epoch = table_epoch(plain);
	}
	mutex_unlock(tree_mutex());
}

bool plain_remembered(struct node *plain, struct tfs_info *info)
{
	bool known;

	mutex_lock(tree_mutex());
	known = node_lives(plain) && plain->epoch != 0 && plain->epoch == table_epoch(plain);
	if (known)
		*info = (struct tfs_info){
			.ts = plain_ts_locked(plain), .size = plain->size, .expires_us = INT64_MAX, .commit_us = plain->commit_us};
	mutex_unlock(tree_mutex());
	return known;
}

void plain_asked(struct node *plain, const struct tfs_info *info, uint64_t changes)
{
	uint64_t before = changes;
	struct tfs_info known;
	const bool differs = !info || (plain_remembered(plain, &known) && known.commit_us != info->commit_us);

	/* Another client has changed the cell, and the server has not reported it yet. */
	if (differs && atomic_compare_exchange_strong(&fs.changes, &before, changes + 1))
		changes++;
	if (info) {
		plain_remember(plain, info, changes);
	} else {
		mutex_lock(tree_mutex());
		plain->epoch = 0;
		mutex_unlock(tree_mutex());
	}
}

static struct mutex *lock_of_row(const struct node *n)
{
	while (n && n->kind != NODE_ROW)
		n = n->parent;
	return n ? fs_row_lock(n) : NULL;
}

struct mutex *row_lock(struct node *n)
{
	struct mutex *row = lock_of_row(n);

	if (row && !mutex_trylock(row)) {
		fs_before_waiting();
		mutex_lock(row);
	}
	return row;
}

int row_lock_unless_interrupted(struct node *n, struct mutex **out)
{
	struct mutex *row = lock_of_row(n);

	if (row && !mutex_trylock(row)) {
		fs_before_waiting();
		do {
			if (fs_is_interrupted(NULL))
				return -EINTR;
		} while (!mutex_lock_us(row, 50000));
	}
	*out = row;
	return 0;
}

void row_unlock(struct mutex *row)
{
	if (row)
		mutex_unlock(row);
}

void name_wait(struct node *n)
{
	while (n->flags & NODE_LEAVING)
		row_unlock(row_lock(n));
}

/* Returns the family's node in the second view, counted, or NULL. */
static struct node *family_in_other_view(struct node *family_node)
{
	struct node *other;

	mutex_lock(tree_mutex());
	other = node_in_other_view_locked(family_node);
	if (other)
		other->refs++;
	mutex_unlock(tree_mutex());
	return other;
}

/* Notes the listings of a directory and of the parts of split names below it. */
static void listings_locked(struct changes *c, struct node *dir, enum node_kind part_kind, struct tfs_bytes path)
{
	changes_listing_locked(c, dir);
	for (size_t i = 1; i < path.n; i++) {
		struct node *part;

		if (path.p[i] != '/')
			continue;
		part = node_find_locked(dir, part_kind, tfs_bytes_of(path.p, i), 0);
		if (part)
			changes_listing_locked(c, part);
	}
}

void row_changed_locked(struct changes *c, struct node *view, struct tfs_bytes row)
{
	struct buf path = {0};

	changes_listing_locked(c, view);
	if (row.n > NAME_LONGEST / 3 && name_encode(NAME_ROW, row, 0, &path) == 0)
		listings_locked(c, view, NODE_ROW_PART, buf_bytes(&path));
	buf_fini(&path);
}

/* The entry of a version is not valid any more.  path is its name below dir, the family. */
static void entry_locked(struct changes *c, struct node *dir, struct tfs_bytes path)
{
	const uint8_t *slash = memrchr(path.p, '/', path.n);

	if (slash) {
		dir = node_find_locked(dir, NODE_CELL_PART, tfs_bytes_of(path.p, (size_t)(slash - path.p)), 0);
		path = tfs_bytes_of(slash + 1, (size_t)(path.p + path.n - slash - 1));
	}
	if (dir)
		changes_entry_locked(c, dir, path);
}

void plain_changed_locked(struct changes *c, struct node *plain)
{
	plain->epoch = 0;
	if (plain->file)
		atomic_fetch_add(&plain->file->commits, 1);
	if (plain->flags & NODE_PAGED)
		changes_inode_locked(c, plain);
	plain->flags &= (uint16_t)~NODE_PAGED;
}

static void changed_in_view(struct changes *c, struct node *family_node, struct tfs_bytes qualifier, int64_t ts, bool removed,
	const struct node *not_self)
{
	bool latest = node_is_latest(family_node), own = node_in_own_view(family_node);
	struct buf path = {0};
	struct node *n;

	if (name_encode(latest ? NAME_NEWEST : NAME_VERSION, qualifier, ts, &path))
		goto out;
	mutex_lock(tree_mutex());
	changes_listing_locked(c, family_node->parent);
	row_changed_locked(c, family_node->parent->parent, node_key(family_node->parent));
	n = own ? node_find_locked(family_node, NODE_PLAIN, qualifier, 0) : NULL;
	if (n)
		plain_changed_locked(c, n);
	listings_locked(c, family_node, NODE_CELL_PART, buf_bytes(&path));
	if (!latest) {
		n = node_find_locked(family_node, NODE_VERSION, qualifier, ts);
		if (n) {
			n->epoch = 0;
			if (n != not_self)
				changes_inode_locked(c, n);
			/* The kernel may have pages of names that the version had while it was open. */
			for (unsigned i = 0; n->file && i < n->file->also_count; i++)
				changes_inode_locked(c, n->file->also[i]);
			if (removed && n->lookups > 0)
				entry_locked(c, family_node, buf_bytes(&path));
		}
	}
	mutex_unlock(tree_mutex());
out:
	buf_fini(&path);
}

/* ---- room ---- */

#define FULL_US UINT64_C(10000000)
/* Until this time the disk may be full: the store has refused a put (monotonic_us). */
static _Atomic uint64_t full_until_us;

#define FAMILY_ID_BYTES 16

/* Sets p to a column of n, a cell or a control file of a table; id has its family.  Returns false if there is room. */
static bool room_is_in_doubt(struct node *n, struct cell_place *p, char id[FAMILY_ID_BYTES])
{
	const uint64_t until_us = full_until_us;
	const bool is_cell = node_is(n, KIND_CELL);
	const struct tfs_schema *s;
	bool doubt;

	if (tfs_schema_get(node_store_table(n), &s))
		return false;
	doubt = (s->quota && !s->snapshot_of) || (until_us && monotonic_us() < until_us);
	doubt = doubt && s->family_count;
	if (doubt && is_cell) {
		cell_place_of(n, p);
	} else if (doubt) {
		snprintf(id, FAMILY_ID_BYTES, "#%u", s->families[0].id);
		*p = (struct cell_place){.table = node_store_table(n), .row = tfs_str("0"), .family = id};
	}
	tfs_schema_put(s);
	return doubt;
}

/*
 * The store checks a mutation for room before it looks at the row.  This one puts a version with the largest timestamp there
 * is, and then one that is newer.  So if there is room it is refused with EOVERFLOW, whatever versions the column has.
 */
int cell_check_room(struct node *n)
{
	char id[FAMILY_ID_BYTES];
	struct cell_place p = {0};
	struct tfs_mutation *m;
	int err;

	if (!room_is_in_doubt(n, &p, id))
		return 0;
	m = tfs_mutation_new(p.table, p.row);
	err = m ? tfs_mutation_put(m, p.family, p.qualifier, tfs_at(INT64_MAX), tfs_str("0")) : -ENOMEM;
	if (err == 0)
		err = tfs_mutation_put(m, p.family, p.qualifier, TFS_AUTO, tfs_str("0"));
	if (err == 0)
		err = tfs_apply(m, 0, NULL);
	tfs_mutation_free(m);
	return err == -EDQUOT || err == -ENOSPC ? refuse_store(err, n, NULL, "not stored") : 0;
}

int cells_apply(struct node *n, struct tfs_mutation *m, unsigned flags, struct tfs_result *results, struct changes *c)
{
	const int err = tfs_apply(m, flags, results);

	if (err == -ENOSPC)
		full_until_us = monotonic_us() + FULL_US;
	if (err == -EIO || err == -ENOMEM || err == -EINTR || err == -ETIMEDOUT) {
		atomic_fetch_add(&fs.changes, 1);
		table_new_epoch(node_table(n));
		dir_time_raise_table(node_table(n));
		changes_table(c, node_table(n));
	}
	return err;
}

void cell_changed(struct changes *c, struct node *family_node, struct tfs_bytes qualifier, int64_t ts, bool removed,
	const struct node *not_self)
{
	struct node *other = family_in_other_view(family_node);

	atomic_fetch_add(&fs.changes, 1);
	changed_in_view(c, family_node, qualifier, ts, removed, not_self);
	if (other) {
		changed_in_view(c, other, qualifier, ts, removed, not_self);
	} else {
		/* The other view may have nodes of the row, its parts and the table, but none of the family. */
		struct node *row, *view;

		mutex_lock(tree_mutex());
		row = node_in_other_view_locked(family_node->parent);
		view = node_in_other_view_locked(family_node->parent->parent);
		if (row)
			changes_listing_locked(c, row);
		if (view)
			row_changed_locked(c, view, node_key(family_node->parent));
		mutex_unlock(tree_mutex());
	}
	node_put(other);
}

void versions_fini(struct versions *v)
{
	free(v->ts);
	*v = (struct versions){0};
}

int column_versions(struct node *family_node, struct tfs_bytes qualifier, struct versions *out)
{
	const char *family = node_name(family_node);
	struct tfs_scan_spec spec = {
		.what = TFS_SCAN_KEYS,
		.row_from = node_key(family_node->parent),
		.one_row = true,
		.families = &family,
		.family_count = 1,
	};
	struct buf after = {0}, found = {0};
	struct tfs_scan *scan = NULL;
	struct tfs_cell cell;
	int err;

	err = buf_append_bytes(&after, qualifier);
	if (err == 0)
		err = buf_u8(&after, 0);
	if (err)
		goto out;
	spec.qualifier_from = qualifier;
	spec.qualifier_to = buf_bytes(&after);
	for (;;) {
		err = tfs_scan_new(node_store_table(family_node), &spec, &scan);
		if (err)
			goto out;
		while (err == 0 && (err = tfs_scan_next(scan, &cell)) > 0)
			err = buf_append(&found, &cell.ts, sizeof(cell.ts));
		tfs_scan_free(scan);
		if (err != -EBADMSG && err != -EIO)
			break;
		err = 0; /* cells that cannot be read cannot be open */
		if (spec.past_damage)
			break;
		buf_reset(&found);
		spec.past_damage = true;
	}
out:
	buf_fini(&after);
	if (err)
		buf_fini(&found);
	else
		*out = (struct versions){(int64_t *)(void *)found.p, found.n / sizeof(cell.ts)};
	return err;
}

void versions_changed(
	struct changes *c, struct node *family_node, struct tfs_bytes qualifier, const struct versions *v, bool removed)
{
	for (size_t i = 0; i < v->n; i++)
		cell_changed(c, family_node, qualifier, v->ts[i], removed, NULL);
}

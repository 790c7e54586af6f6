/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are cells: a version, Q@TS, and a plain name, Q, which shows the
 * newest version.
 *
 * A removal copies the versions that are open, removes the cells in one
 * mutation under a check that they exist, ends their writers, collects the
 * kernel's entries, and then marks the directories above as possibly empty
 * (made.h).  These stay until they are removed, so that rm -r finds them.
 */
#include "fs/node/kinds.h"

#include "engine/base/name.h"
#include "fs/base/access.h"
#include "fs/base/ahead.h"
#include "fs/file/file.h"
#include "fs/node/list.h"
#include "fs/node/made.h"
#include "fs/node/schema/new_family.h"
#include "fs/node/scratch/scratch.h"

#include <errno.h>

static int cell_name(struct node *n, struct buf *out)
{
	return name_encode(n->kind == NODE_PLAIN ? NAME_NEWEST : NAME_VERSION, node_key(n), n->ts, out);
}

int cell_resolve_name(struct node *dir, const char *name, struct resolved *out)
{
	enum name_kind what;
	struct buf path = {0};
	bool latest;
	int err;

	if (name[0] == '.')
		return scratch_resolve_name(dir, name, out);
	err = part_path(dir, name, &out->parent, &path);
	if (err == 0 && name_is_part(tfs_str(name))) {
		out->kind = NODE_CELL_PART;
		err = part_resolve(buf_bytes(&path), TFS_QUALIFIER_MAX + sizeof("@-9223372036854775808") - 1, out);
	} else if (err == 0) {
		err = name_decode_cell(buf_bytes(&path), &out->key, &what, &out->ts);
		out->kind = what == NAME_VERSION ? NODE_VERSION : NODE_PLAIN;
		latest = node_is_latest(out->parent);
		if (err == 0 && out->kind == NODE_VERSION && latest)
			err = -ENOENT;
		if (err == 0 && out->key.n > TFS_QUALIFIER_MAX)
			err = -ENAMETOOLONG;
		if (err == 0 && node_in_scan(out->parent)) {
			/* A scan has its own nodes of cells: they can only be read. */
			err = out->kind == NODE_PLAIN && !latest ? -ENOENT : 0;
			out->kind = NODE_FOUND;
		} else if (err == 0 && !node_in_own_view(out->parent)) {
			/* A cell is one file, whichever view of the table names it. */
			out->parent = out->held = node_in_table_get(out->parent);
			err = out->held ? 0 : -ENOMEM;
		}
	}
	buf_fini(&path);
	return err;
}

/* Finds a plain name whose newest version is remembered. */
static bool find_remembered(struct resolved *r, struct node **out)
{
	struct node *n = r->kind == NODE_PLAIN ? node_find(r->parent, r->kind, buf_bytes(&r->key), 0) : NULL;
	struct tfs_info unused;

	if (n && plain_remembered(n, &unused)) {
		*out = n;
		return true;
	}
	node_put(n);
	return false;
}

static int cell_find(struct node *dir, struct resolved *r, struct node **out)
{
	bool version = r->kind == NODE_VERSION, pending = false;
	uint64_t changes = fs_changes();
	struct cell_place p;
	struct family_info f;
	struct tfs_info info;
	struct node *n;
	int err;

	cell_place_at(r->parent, buf_bytes(&r->key), version, r->ts, &p);
	err = family_info_get(r->parent, &f);
	if (err)
		return err;
	if (find_remembered(r, out))
		return 0;
	if (!ahead_find(r->parent, buf_bytes(&r->key), version, r->ts, &info))
		err = cell_stat(&p, &info);
	else if (!version)
		info.size = plain_file_size(&f, info.size);
	if (err == -ENOENT) {
		/* The cell may have been created and not committed yet, or committed after cell_stat. */
		n = node_find(r->parent, r->kind, buf_bytes(&r->key), r->ts);
		if (n)
			err = ofile_stat(n, &p, &info, &pending);
		node_put(n);
	}
	if (err == -ENOENT && !pending && r->kind == NODE_PLAIN)
		fs_looked_up_absent(r->parent, buf_bytes(&r->key), changes);
	if (err && !pending)
		return err;
	n = node_get(r->parent, r->kind, buf_bytes(&r->key), r->ts);
	if (!n)
		return -ENOMEM;
	if (version && !pending)
		(void)version_remember(n, &info, changes);
	else if (!pending)
		plain_remember(n, &info, changes);
	*out = n;
	return 0;
}

/* ---- attributes ---- */

static int version_attr(struct node *n, struct stat *st, double *timeout);

/* Called for the open descriptors of a version that was removed, replaced or renamed. */
static int ended_attr(struct node *n, struct stat *st, double *timeout)
{
	struct open_file *x = open_file_find(n);
	struct family_info f;
	struct node *at;
	int err;

	if (!x)
		return -ENOENT;
	mutex_lock(&x->lock);
	at = x->node; /* a rename changes it */
	node_hold(at);
	mutex_unlock(&x->lock);
	if (!node_lives(at)) {
		err = family_info_get(n->parent, &f);
		if (err == 0) {
			mutex_lock(&x->lock);
			cell_attr(n, &f, n->ts, n->commit_us, content_size(&x->shared), st);
			mutex_unlock(&x->lock);
			st->st_nlink = 0;
		}
	} else {
		err = version_attr(at, st, timeout);
	}
	*timeout = 0;
	node_put(at);
	open_file_put(x);
	return err;
}

static int version_attr(struct node *n, struct stat *st, double *timeout)
{
	uint64_t changes = fs_changes(), size;
	struct tfs_info info = {.expires_us = INT64_MAX};
	struct family_info f;
	struct staged_attr s;
	int64_t unused;
	int err;

	if (!node_lives(n))
		return ended_attr(n, st, timeout);
	err = family_info_get(n->parent, &f);
	if (err)
		return err;
	if (n->file && ofile_pending(n, &s)) {
		cell_attr(n, &f, n->ts, s.touched_us, s.size, st);
		*timeout = 0; /* the commit will have a later time, of which the kernel is not notified */
		return 0;
	}
	if (n->epoch != 0 && n->epoch == table_epoch(n) && f.max_age_us == 0 && !f.counted_versions) {
		cell_attr(n, &f, n->ts, n->commit_us, n->size, st);
		*timeout = FS_FOREVER;
		return 0;
	}
	err = cell_node_stat(n, &info);
	if (err == -ENOENT && ofile_is_open(n, &size, &unused)) {
		cell_attr(n, &f, n->ts, n->commit_us, size, st);
		st->st_nlink = 0;
		*timeout = 0;
		return 0;
	}
	if (err)
		return err;
	cell_attr(n, &f, n->ts, info.commit_us, info.size, st);
	*timeout = version_remember(n, &info, changes) ? version_timeout(&f, info.expires_us) : 0;
	return 0;
}

/* The newest version, as it was remembered or as the store has it. */
static int plain_stat(struct node *n, struct tfs_info *info)
{
	const uint64_t changes = fs_changes();
	int err;

	if (plain_remembered(n, info))
		return 0;
	err = cell_node_stat(n, info);
	if (err == 0)
		plain_remember(n, info, changes);
	return err;
}

/*
 * A plain name shows the calling process its own version, if it has one,
 * otherwise the newest version in the store.  Staged bytes are looked for
 * first, because a commit moves them to the store.  `opened` was renamed to n,
 * or is n.
 */
static int plain_content_attr(struct node *opened, struct node *n, const struct family_info *f, struct stat *st)
{
	struct open_file *file = open_file_find(opened);
	struct staged_attr s;
	struct tfs_info info;
	bool own = ofile_own_attr(file, NULL, &s);
	int err = own ? 0 : plain_stat(n, &info);

	if (own || (err == 0 && ofile_own_attr(file, &info, &s))) {
		cell_attr(n, f, s.time_us, s.touched_us, s.size, st);
	} else if (err == 0) {
		cell_attr(n, f, info.ts, info.commit_us, info.size, st);
	} else if (err == -ENOENT && ofile_pending(n, &s)) {
		cell_attr(n, f, s.time_us, s.touched_us, 0, st);
		err = 0;
	}
	open_file_put(file);
	return err;
}

/* Returns the node to which the file was renamed while it was open, counted; or NULL. */
static struct node *renamed_to(struct node *n)
{
	struct open_file *x = open_file_find(n);
	struct node *target = x ? open_file_target(x) : NULL;

	open_file_put(x);
	return target;
}

static int plain_attr(struct node *n, struct stat *st, double *timeout)
{
	struct node *at;
	struct family_info f, g;
	struct tfs_info info;
	double unused;
	uint64_t size;
	int64_t now, ts;
	int err;

	err = family_info_get(n->parent, &f);
	if (err)
		return err;
	do {
		name_wait(n);
		err = node_lives(n) ? plain_content_attr(n, n, &f, st) : -ENOENT;
	} while (err != -ENOENT && name_is_over(n));
	if (err != -ENOENT)
		return err;
	at = renamed_to(n);
	if (at && at->kind != NODE_PLAIN)
		err = node_attr(at, st, &unused);
	else if (at && node_lives(at) && (err = family_info_get(at->parent, &g)) == 0)
		err = plain_content_attr(n, at, &g, st);
	node_put(at);
	if (err != -ENOENT && err != -ESTALE)
		return err;
	now = node_lives(n) ? fs_now_us() : n->commit_us;
	if (ofile_is_open(n, &size, &ts)) {
		if (!node_lives(n) && n->ts != TFS_NO_TIME)
			ts = n->ts;
		info = (struct tfs_info){.ts = ts != TFS_NO_TIME ? ts : now, .size = size};
	} else if (node_lives(n) || n->ts == TFS_NO_TIME || cell_node_stat(n, &info))
		return -ENOENT;
	cell_attr(n, &f, info.ts, now, info.size, st);
	st->st_nlink = 0;
	return 0;
}

/* ---- unlink ---- */

static int cell_unlink(struct node *dir, struct resolved *r, struct changes *c)
{
	const bool version = r->kind == NODE_VERSION;
	const struct tfs_bytes qualifier = buf_bytes(&r->key);
	struct node *family = r->parent, *n = NULL;
	struct mutex *row;
	struct tfs_mutation *m = NULL;
	struct versions all = {0};
	struct displaced kept = {.by_name = true};
	struct cell_place p;
	struct staged_attr s;
	bool pending;
	int err;

	cell_place_at(family, qualifier, version, r->ts, &p);
	row = row_lock(family);
	n = node_find(family, r->kind, qualifier, r->ts);
	pending = n && ofile_pending(n, &s);
	err = cell_displace(r, false, &all, &kept);
	if (err == 0 && n && !version)
		displaced_add_name(&kept, n, all.n ? all.ts[0] : TFS_NO_TIME);
	m = err ? NULL : tfs_mutation_new(p.table, p.row);
	if (err == 0 && !m)
		err = -ENOMEM;
	if (err == 0)
		err = tfs_mutation_check(m, TFS_CHECK_EXISTS, p.family, p.qualifier, p.ts, tfs_bytes_of(NULL, 0));
	if (err == 0 && version)
		err = tfs_mutation_delete_version(m, p.family, p.qualifier, r->ts);
	else if (err == 0)
		err = tfs_mutation_delete_column(m, p.family, p.qualifier);
	if (err == 0)
		err = cells_apply(family, m, 0, NULL, c);
	tfs_mutation_free(m);
	if (err == -ECANCELED)
		err = pending ? 0 : -ENOENT;
	if (err == 0) {
		made_cell_removed(family, qualifier, version, r->ts);
		versions_changed(c, family, qualifier, &all, true);
		displaced_end(&kept, c);
	}
	displaced_fini(&kept);
	row_unlock(row);
	versions_fini(&all);
	node_put(n);
	made_trim(c);
	return err;
}

/* ---- in a listing ---- */

/* Returns true if the plain name is open.  It may then have staged bytes. */
static bool is_open(struct node *plain)
{
	struct open_file *x = descriptor_first() ? open_file_find(plain) : NULL;

	open_file_put(x);
	return x != NULL;
}

static bool plain_list_attr(const struct listing *a, struct node *n, const struct list_entry *e, struct fuse_entry_param *p)
{
	struct tfs_info info = e->info;

	if (is_open(n) || a->changes != fs_changes())
		return false;
	info.size = plain_file_size(&a->family, info.size);
	plain_remember(n, &info, a->changes);
	cell_attr(n, &a->family, info.ts, info.commit_us, info.size, &p->attr);
	return true;
}

/*
 * Returns false if anything has changed.  With a size from before a commit, the
 * kernel would cut off pages that it has just received.
 */
static bool version_list_attr(const struct listing *a, struct node *n, const struct list_entry *e, struct fuse_entry_param *p)
{
	if (n->file || !version_remember(n, &e->info, a->changes))
		return false;
	cell_attr(n, &a->family, n->ts, e->info.commit_us, e->info.size, &p->attr);
	p->attr_timeout = p->entry_timeout = version_timeout(&a->family, e->info.expires_us);
	if (e->value.p) {
		atomic_fetch_add(&fs.unread_values, 1);
		if (e->info.size <= FS_CACHED_VALUE_MAX)
			cache_put(&fs.values, n, tfs_bytes_of(NULL, 0), a->changes, e->value.p, (size_t)e->info.size);
	}
	return true;
}

const struct node_ops version_ops = {
	.traits = KIND_CELL,
	.name = cell_name,
	.attr = version_attr,
	.set_owner = new_family_set_owner,
	.find = cell_find,
	.make = resolved_make,
	.unlink = cell_unlink,
	.rename = cell_rename,
	.list_attr = version_list_attr,
};

const struct node_ops plain_ops = {
	.traits = KIND_CELL | KIND_UNCACHED_RW,
	.name = cell_name,
	.attr = plain_attr,
	.set_owner = new_family_set_owner,
	.set_time = plain_set_time,
	.find = cell_find,
	.make = resolved_make,
	.unlink = cell_unlink,
	.rename = cell_rename,
	.list_attr = plain_list_attr,
};

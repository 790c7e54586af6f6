/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OPEN and CREATE.
 *
 * A descriptor of a plain name loads the version that is the newest at open.  A
 * version that is opened for reading only has no state but a count.
 */
#include "fs/file/file.h"

#include "engine/base/stop.h"
#include "fs/base/access.h"
#include "fs/base/node_ops.h"
#include "fs/base/permit.h"

#include "fs/base/reply.h"
#include "fs/file/read.h"
#include "fs/file/sequential.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

/* d has all bytes of the version that info describes, so other descriptors may copy them.  The file's lock is held. */
static void image_loaded(struct descriptor *d, const struct tfs_info *info)
{
	d->own.holds = IMAGE_LOADED;
	d->own.base_size = info->size;
	d->own.base_ts = info->ts;
	d->own.base_ctime = info->commit_us;
}

/* Under the row's lock the version of a large value is not replaced between reads of its parts. */
static int plain_load(struct descriptor *d, struct tfs_info *info)
{
	struct mutex *row = row_lock(info->size >= CELL_READ_AT_ONCE ? d->node : NULL);
	int err;

	mutex_lock(&d->file->lock);
	err = cell_load(d->node, !d->writable, &d->own.image, info);
	if (err == 0)
		image_loaded(d, info);
	mutex_unlock(&d->file->lock);
	row_unlock(row);
	return err;
}

/*
 * Copies the bytes of another descriptor for reading of d's node, a name that was
 * replaced or removed: the node has the attributes and pages of one version.  The
 * file's lock is held.
 */
static int plain_copy_same(struct descriptor *d, struct tfs_info *info)
{
	struct descriptor *g = d->file->descriptors;
	struct tfs_bytes bytes;
	int err;

	while (g && (g == d || g->writable || g->own.holds != IMAGE_LOADED))
		g = g->next;
	if (!g)
		return -ENOENT;
	err = stage_bytes(&g->own.image, &bytes);
	if (err == 0)
		err = stage_load(&d->own.image, 0, bytes.p, bytes.n);
	*info = (struct tfs_info){.ts = g->own.base_ts, .size = g->own.base_size, .commit_us = g->own.base_ctime};
	if (err == 0)
		image_loaded(d, info);
	return err;
}

static int plain_load_same(struct descriptor *d, struct tfs_info *info)
{
	int err;

	mutex_lock(&d->file->lock);
	err = plain_copy_same(d, info);
	mutex_unlock(&d->file->lock);
	return err;
}

/* An OPEN of a plain name. */
struct plain_opening {
	struct descriptor *d;
	bool truncate, append;
	bool created; /* there was no cell, and the open makes it */
	bool exists;  /* the cell is stored */
	bool over;    /* the cell was removed or replaced */
	struct cell_place place;
	struct family_info family;
	struct tfs_info info;    /* the newest version; ts is INT64_MIN if there is none */
	struct cell_first first; /* for reading only: the first bytes of the newest version; otherwise p is NULL */
};

/* Finds the newest version, and sets the members from `exists` on.  Another descriptor may have created the cell first: its content is the base. */
static int plain_find(struct plain_opening *o, struct changes *c)
{
	struct descriptor *d = o->d;
	struct staged_attr unused;
	uint64_t changes;
	bool pending;
	int err;

	name_wait(d->node);
	o->over = !node_lives(d->node);
	cell_place_of(d->node, &o->place);
	err = family_info_get(o->place.family_node, &o->family);
	if (err == 0 && d->readable && d->writable && !o->family.counter) {
		content_share(d, o->truncate);
		err = content_lock(d, false, c);
		if (err == 0)
			mutex_unlock(&d->file->lock);
	}
	if (err)
		return err;
	changes = fs_changes();
	if (o->created && fs_is_absent(o->place.family_node, o->place.qualifier) && !ofile_pending(d->node, &unused)) {
		pending = false;
		err = -ENOENT;
	} else {
		err = ofile_read_first(d->node, &o->place, o->first.p ? &o->first : NULL, &o->info, &pending);
	}
	o->exists = err == 0;
	if (!pending && !o->created)
		plain_asked(d->node, o->exists ? &o->info : NULL, changes);
	o->created = o->created && !o->exists;
	if (err == -ENOENT && (o->created || pending)) {
		o->info = (struct tfs_info){.ts = INT64_MIN};
		err = 0;
	}
	return err;
}

/* The whole value was read with its attributes. */
static int plain_load_first(struct plain_opening *o)
{
	struct descriptor *d = o->d;
	int err;

	mutex_lock(&d->file->lock);
	d->own.image.only_read = o->info.size;
	err = stage_load(&d->own.image, 0, o->first.p, o->first.n);
	if (err == 0)
		image_loaded(d, &o->info);
	mutex_unlock(&d->file->lock);
	return err;
}

/* Loads the bytes that the descriptor reads or, of a counter, changes. */
static int plain_load_base(struct plain_opening *o, struct changes *c)
{
	struct descriptor *d = o->d;
	int err = plain_find(o, c);

	if (err == 0 && o->exists && !o->truncate && !descriptor_shares(d) && (d->readable || o->family.counter))
		err = o->first.p && o->first.n == o->info.size ? plain_load_first(o) : plain_load(d, &o->info);
	if (err == -ENOENT && o->over && !d->writable)
		err = plain_load_same(d, &o->info);
	return err;
}

/*
 * Returns true if the name may have a new cell now, so that the loaded bytes may be the new
 * cell's.  A descriptor that has loaded nothing belongs to the removed cell.
 */
static bool plain_is_stale(const struct plain_opening *o)
{
	if (!o->d->readable || o->truncate || o->created)
		return false;
	return o->over ? o->d->writable : name_is_over(o->d->node);
}

/* Makes the content that the descriptor changes.  The file's lock is held. */
static void plain_begin(struct plain_opening *o)
{
	struct content *content = o->d->content;

	if (!descriptor_shares(o->d)) {
		content->base_size = o->info.size;
		content->base_ts = o->info.ts;
		content->base_ctime = o->info.commit_us;
	} else if (o->truncate && o->exists) {
		(void)!cell_stat(&o->place, &o->info); /* content_lock may have committed another descriptor's bytes */
	}
	if (o->family.counter) {
		content->holds = IMAGE_WHOLE;
		content->counter = true;
	}
	if (o->truncate || (o->created && (!o->append || o->family.counter))) {
		content_begin_whole(content);
		content->base_ts = o->info.ts;
	} else if (o->created) {
		/* Another descriptor may have created it, too, and commit first: then the bytes are appended. */
		content->staged = STAGED_CREATION;
		content->holds = IMAGE_LOADED;
		content->touched_us = fs_now_us();
	}
}

static int plain_open(struct plain_opening *o, struct changes *c)
{
	struct descriptor *d = o->d;
	const bool reads = d->readable && !d->writable;
	int err;

	o->first.p = reads ? malloc(CELL_FIRST_BYTES) : NULL;
	err = reads && !o->first.p ? -ENOMEM : plain_load_base(o, c);
	free(o->first.p);
	o->first.p = NULL;
	if (err == 0 && plain_is_stale(o))
		err = -ESTALE;
	if (err == 0 && d->writable && o->info.ts == INT64_MAX)
		err = refuse(-EOVERFLOW, d->node, NULL, "its newest version has the largest timestamp there is");
	if (err == 0)
		err = content_lock(d, o->truncate || o->created, c);
	if (err) {
		content_share_failed(d);
		return err == -ENOENT ? -ESTALE : err;
	}
	plain_begin(o);
	mutex_unlock(&d->file->lock);
	return 0;
}

/* The row's lock is held. */
static int version_open(struct descriptor *d, bool truncate)
{
	struct open_file *file = d->file;
	int err;

	mutex_lock(&file->lock);
	open_file_wait(file, &file->shared);
	err = version_prepare_write(file);
	if (err == 0 && truncate)
		content_begin_whole(&file->shared);
	mutex_unlock(&file->lock);
	return err == -ENOENT ? -ESTALE : err;
}

static int scratch_open(struct open_file *file, bool truncate)
{
	int err = 0;

	mutex_lock(&file->lock);
	if (file->shared.error == -ESTALE)
		err = -ESTALE; /* the file has become a cell */
	else if (truncate)
		err = scratch_truncate(file, 0);
	mutex_unlock(&file->lock);
	return err;
}

static int open_by_kind(struct descriptor *d, int flags, bool created, struct changes *c)
{
	bool truncate = (flags & O_TRUNC) != 0;
	struct node *n = d->node;

	if (n->kind == NODE_PLAIN) {
		struct plain_opening o = {.d = d, .truncate = truncate, .created = created, .append = (flags & O_APPEND) != 0};

		return plain_open(&o, c);
	}
	if (n->kind == NODE_VERSION)
		return version_open(d, truncate);
	if (n->kind == NODE_SCRATCH_FILE)
		return scratch_open(d->file, truncate);
	return node_ops(n)->open(n, &d->own, d->writable, truncate || created);
}

/*
 * Creates a version that is not stored, without the row's lock: the kernel
 * holds the directory during the call, and a thread that commits a large value
 * in the row holds the lock.  -EEXIST: it is stored, created, or just being
 * removed.
 */
static int version_create(struct node *n, int flags, struct descriptor **out)
{
	struct descriptor *d = descriptor_new(n, flags | O_TRUNC);
	bool created;

	if (!d)
		return -ENOMEM;
	mutex_lock(&d->file->lock);
	open_file_wait(d->file, &d->file->shared);
	created = version_prepare_write(d->file) == -ENOENT && !(n->flags & NODE_LEAVING);
	if (created)
		content_begin_whole(&d->file->shared);
	mutex_unlock(&d->file->lock);
	if (created)
		*out = d;
	else
		descriptor_free(d);
	return created ? 0 : -EEXIST;
}

static int descriptor_open(struct node *n, int flags, bool created, struct descriptor **out)
{
	bool version = n->kind == NODE_VERSION;
	struct changes c = {0};
	struct descriptor *d;
	struct mutex *row;
	int err = version && created ? version_create(n, flags, out) : -EEXIST;

	if (err != -EEXIST)
		return err;
	/* A rename moves the state of a version to another node.  Under the row's lock there is only one state. */
	row = row_lock(version ? n : NULL);
	/* A creation is a truncation, even through a descriptor for reading only: release commits it. */
	d = descriptor_new(n, created && (n->kind == NODE_PLAIN || version) ? flags | O_TRUNC : flags);
	err = d ? 0 : -ENOMEM;
	/* Text is applied on behalf of the user who opens the file.  That user may pass the descriptor on. */
	if (err == 0 && d->writable && node_ops(n)->commit && !(d->own.caller = caller_new()))
		err = -ENOMEM;
	if (err == 0)
		err = open_by_kind(d, flags, created, &c);
	row_unlock(row);
	changes_send(&c);
	if (d && err)
		descriptor_free(d);
	if (err == 0)
		*out = d;
	return err;
}

/*
 * LOOKUP found the name and OPEN did not, twice.  The kernel does not state at
 * OPEN whether O_CREAT was set.  Neither a creation nor ENOENT is correct in
 * both cases, but a file that was removed right after the open is: it has no
 * name, and its bytes are discarded.  That is not so if a verb has removed the cell.
 */
static int open_removed(struct node *n, int flags, struct descriptor **out)
{
	struct descriptor *d = descriptor_new(n, flags);

	if (!d)
		return -ENOMEM;
	mutex_lock(&d->file->lock);
	d->content = &d->own;
	d->own.holds = IMAGE_WHOLE;
	content_set_target(&d->own, NULL);
	mutex_unlock(&d->file->lock);
	*out = d;
	return 0;
}

/*
 * Opens `other`, which has n's name now.  A descriptor for reading only is a descriptor of
 * n, because the kernel asks for the attributes of n.
 */
static int open_successor(struct node *n, struct node *other, int flags, struct descriptor **out)
{
	struct tfs_info info = {0};
	struct descriptor *d;
	struct mutex *row;
	int err;

	if (n->kind != NODE_PLAIN || (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC)
		return descriptor_open(other, flags, false, out);
	d = descriptor_new(n, flags);
	if (!d)
		return -ENOMEM;
	row = row_lock(n);
	mutex_lock(&d->file->lock);
	err = plain_copy_same(d, &info);
	if (err == -ENOENT && (err = cell_load(other, true, &d->own.image, &info)) == 0)
		image_loaded(d, &info);
	mutex_unlock(&d->file->lock);
	row_unlock(row);
	if (err)
		descriptor_free(d);
	else
		*out = d;
	return err;
}

/*
 * A version that is only written needs no pages.  With direct I/O the kernel
 * does not ask for its capabilities before each write.
 */
static void set_open_flags(const struct node *n, struct fuse_file_info *fi)
{
	if (n->kind == NODE_VERSION && (fi->flags & O_ACCMODE) != O_WRONLY)
		fi->keep_cache = 1;
	else
		fi->direct_io = 1;
}

/* Returns true if the kernel's pages of the version are of its present state. */
static bool pages_are_valid(struct node *n)
{
	bool valid;

	if (!(n->flags & NODE_OUTDATED))
		return true;
	mutex_lock(tree_mutex());
	valid = !(n->flags & NODE_OUTDATED);
	n->flags &= (uint16_t)~NODE_OUTDATED;
	mutex_unlock(tree_mutex());
	return valid;
}

/* Opens a version for reading only.  Returns 0 if it has replied, -errno if not. */
static int version_reply_reader(fuse_req_t req, struct node *n, struct fuse_file_info *fi)
{
	const uint64_t changes = fs_changes();
	struct cell_place p;
	struct tfs_info info;
	bool pending = false, known = true;
	int err = 0;

	version_count_open(n);
	if (n->epoch == 0 || n->epoch != table_epoch(n)) {
		cell_place_of(n, &p);
		err = node_lives(n) ? ofile_stat(n, &p, &info, &pending) : -ESTALE;
		if (!err && !pending)
			known = version_remember(n, &info, changes) || !(n->flags & NODE_PAGED) ||
				(n->size == info.size && n->commit_us == info.commit_us);
	}
	if (err == 0 || pending) {
		fi->fh = 0;
		fi->keep_cache = pages_are_valid(n) && known;
		fi->noflush = 1;
		if (fuse_reply_open(req, fi) == 0)
			return 0;
	}
	version_count_close(n);
	return pending ? 0 : err == -ENOENT ? -ESTALE : err;
}

/* Opens a cell in the view of a scan.  The kernel drops its pages, because no commit invalidates them. */
static void reply_view_reader(fuse_req_t req, struct node *n, struct fuse_file_info *fi)
{
	if ((fi->flags & O_ACCMODE) != O_RDONLY || (fi->flags & O_TRUNC)) {
		reply_err(req, refuse(-EROFS, n, NULL, "the results of a scan can only be read"));
		return;
	}
	node_opened(n, true);
	fi->fh = 0;
	fi->noflush = 1;
	if (fuse_reply_open(req, fi) != 0)
		node_opened(n, false);
}

/* A cell is committed on behalf of the user who has opened it, also by a request of the kernel or of another user. */
static void note_writer(struct descriptor *d)
{
	struct caller *caller = caller_new();

	if (!caller)
		return; /* the user of the request commits */
	mutex_lock(&d->file->lock);
	open_file_wait(d->file, d->content);
	free(d->content->caller);
	d->content->caller = caller;
	mutex_unlock(&d->file->lock);
}

/* d becomes the descriptor of the request's open file. */
static void descriptor_to_reply(fuse_req_t req, struct descriptor *d, struct fuse_file_info *fi)
{
	d->pid = fuse_req_ctx(req)->pid;
	d->uid = fuse_req_ctx(req)->uid;
	if (asker_is_wanted() && node_is(d->node, KIND_CELL) && (d->writable || d->content->staged != STAGED_NOTHING))
		note_writer(d);
	fi->fh = (uint64_t)(uintptr_t)d;
}

#define SUCCESSORS_MAX 16 /* then a cell that is replaced all the time is not found */

void ofile_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino), *other;
	struct descriptor *d;
	int err;

	if (fs.no_open) {
		fuse_reply_err(req, ENOSYS);
		return;
	}
	err = permit_open(n, fi->flags);
	if (err) {
		reply_err(req, err);
		return;
	}
	if (((fi->flags & O_ACCMODE) != O_RDONLY || fi->flags & O_TRUNC) && node_is_frozen(n)) {
		reply_err(req, refuse(-EROFS, n, NULL, "a snapshot cannot be changed"));
		return;
	}
	if (((fi->flags & O_ACCMODE) != O_RDONLY || fi->flags & O_TRUNC) &&
		(err = permit_data(n, NULL, (enum node_kind)n->kind, false))) {
		reply_err(req, err);
		return;
	}
	if (node_ops(n)->sequential) {
		err = sequential_open(req, n, fi);
		if (err)
			reply_err(req, refuse_store(err, n, NULL, "cannot be opened"));
		else if (fuse_reply_open(req, fi) != 0)
			sequential_release(NULL, sequential_of(fi));
		return;
	}
	if (n->kind == NODE_FOUND) {
		reply_view_reader(req, n, fi);
		return;
	}
	if (n->kind == NODE_VERSION && (fi->flags & O_ACCMODE) == O_RDONLY && !(fi->flags & O_TRUNC)) {
		err = version_reply_reader(req, n, fi);
		if (err == 0)
			return;
	} else {
		err = descriptor_open(n, fi->flags, false, &d);
		if (err == -ESTALE && n->kind == NODE_PLAIN)
			err = descriptor_open(
				n, fi->flags, false, &d); /* the file was replaced in between, and may still be read */
		if (err == 0)
			set_open_flags(n, fi);
	}
	err = stale_answer(req, n, err);
	for (int tries = 0; err == -ENOENT && tries < SUCCESSORS_MAX && (other = node_successor(n)); tries++) {
		/*
		 * The thread has looked the name up again, as the kernel does once after ESTALE, and the cell was
		 * replaced again, and maybe once more since.  The kernel's pages of n are not used.  An open through a
		 * handle looks nothing up, so it finds no other file.
		 */
		fi->direct_io = 1;
		fi->keep_cache = 0;
		if (open_successor(n, other, fi->flags, &d) == 0)
			err = 0;
		node_put(other);
	}
	if (err == -ENOENT && (fi->flags & O_ACCMODE) != O_RDONLY && (n->kind == NODE_PLAIN || n->kind == NODE_VERSION) &&
		!(n->flags & NODE_DROPPED))
		err = open_removed(n, fi->flags, &d);
	if (err) {
		reply_err(req, refuse_store(err, n, NULL, "cannot be opened"));
		return;
	}
	descriptor_to_reply(req, d, fi);
	if (!d->writable)
		fi->noflush = 1;
	if (fuse_reply_open(req, fi) != 0)
		descriptor_free(d);
}

int ofile_make(struct node *n, struct changes *c)
{
	struct descriptor *d;
	int err = descriptor_open(n, O_WRONLY, true, &d);

	if (err)
		return err;
	err = ofile_commit(d, true, c);
	descriptor_free(d);
	return err;
}

/* Opens n, of any kind, and sets fi.  The descriptor is released if the kernel does not receive it. */
static int open_any(fuse_req_t req, struct node *n, bool created, struct fuse_file_info *fi)
{
	struct descriptor *d;
	int err;

	if (node_ops(n)->sequential)
		return sequential_open(req, n, fi);
	err = descriptor_open(n, fi->flags, created, &d);
	if (err)
		return err;
	descriptor_to_reply(req, d, fi);
	set_open_flags(n, fi);
	return 0;
}

static void open_undo(struct node *n, struct fuse_file_info *fi)
{
	if (node_ops(n)->sequential)
		sequential_release(NULL, sequential_of(fi));
	else
		descriptor_free((struct descriptor *)(uintptr_t)fi->fh);
}

int ofile_create(fuse_req_t req, struct node *n, bool exists, struct fuse_file_info *fi)
{
	struct fuse_entry_param e = {0};
	int err = open_any(req, n, !exists, fi);

	if (err)
		return err;
	err = node_entry(n, &e);
	if (err) {
		open_undo(n, fi);
		return err;
	}
	node_lookup(n);
	fs_owner_here(&e.attr);
	if (fuse_reply_create(req, &e, fi) != 0) {
		open_undo(n, fi);
		node_forget(n, 1);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of open files (read.h).  Descriptors for reading and writing share the
 * content of the file.  Only one descriptor, its writer, has staged bytes in
 * it.  Before another descriptor reads or writes, they are committed; the
 * content is then the newest version, and each open still makes versions of its
 * own.
 *
 * open_file.commits counts the changes of the column.  content.seen is the value
 * of that counter up to which the image is current.  While the two are equal and
 * no other descriptor has staged bytes, a read costs no more than that
 * comparison.  Otherwise the staged bytes are committed over the newest version,
 * as ranges, and the image is loaded again.
 *
 * So a program that locks the file, reads, writes and unlocks it reads all that
 * was written under the lock before, synced or not.
 *
 * The first commit of a descriptor makes a version.  A later commit replaces
 * that version.  But if a descriptor whose bytes are in it has been flushed, the
 * next commit makes a new version.  So descriptors that write in turn make a
 * version for each open and flush, not for each turn.
 *
 * A descriptor for reading only has an image of one version.  A read that begins
 * at or past its end, after a read has returned end of file, first replaces the
 * image by the newest version, if a newer one exists.  So a program that reads a
 * file once sees one version, and tail -f sees appended bytes.  So does a read
 * at offset 0: it begins a new reading.  A read at another offset keeps the
 * version, because a program that reads the end of an archive and then its parts
 * must not mix two versions.  The descriptor is within its version again, and
 * meets its end again.
 *
 * After the last byte, fstat shows the newest version.  If that is shorter,
 * tail -f begins again at offset 0 ("file truncated").  tail reads as many bytes
 * as fstat reports and may never read the end of file.  So a read at offset 0
 * also replaces the image after the last byte, but only if fstat has shown the
 * process the newest version since (READER_TOLD).
 *
 * These reads take no lock until the last byte has been returned.
 * descriptor.readers counts them.  An image is replaced only while descriptor.ended is
 * not READER_WITHIN and there are no readers.  So either a reader sees that
 * descriptor.ended has changed and takes the file's lock, or the replacing thread
 * sees the reader and leaves the image as it is.  descriptor.ended becomes
 * READER_WITHIN again under the file's lock only.
 *
 * Rejected: commits when a file lock is taken.  Unless the daemon implements file
 * locks, the kernel handles them alone.  F_SETLKW in the daemon would occupy a
 * thread for each process that waits.
 */
#include "fs/file/read.h"

#include <errno.h>

static bool content_has_name(const struct open_file *file, const struct content *content)
{
	return content->target == file->node && node_lives(content->target) && !content->error;
}

static int content_load_newest(struct open_file *file, struct content *content, bool only_reads)
{
	const uint32_t commits = file->commits, epoch = table_epoch(file->node);
	struct tfs_info info;
	struct stage image;
	int err;

	stage_init(&image);
	err = cell_load(content->target, only_reads, &image, &info);
	if (err) {
		stage_fini(&image);
	} else {
		stage_fini(&content->image);
		content->image = image;
		content->holds = IMAGE_LOADED;
		content->base_size = info.size;
		content->base_ts = info.ts;
		content->base_ctime = info.commit_us;
	}
	if (err == 0 || err == -ENOENT) {
		content->seen = commits;
		content->seen_epoch = epoch;
	}
	return err == -ENOENT ? 0 : err; /* it expired, so the image stays */
}

/* ---- descriptors for reading and writing ---- */

static bool descriptor_others_staged(const struct descriptor *d)
{
	const struct content *content = d->content;

	return content->writer != d && (content_is_staged(content) || content->error);
}

static bool descriptor_lacks_commits(const struct descriptor *d)
{
	const struct content *content = d->content;

	return content_has_name(d->file, content) && (!content_is_current(d->file, content) || content->holds == IMAGE_RANGES);
}

/* The row's and the file's lock are held; the file's lock is released while the store works. */
static int descriptor_catch_up(struct descriptor *d, struct changes *c)
{
	struct content *content = d->content;
	int err = 0;

	if (content_is_staged(content) && (descriptor_others_staged(d) || descriptor_lacks_commits(d)))
		err = content_commit(content, true, d->file, c);
	if (content->error && content->writer != d) {
		/* The writer's next WRITE, FSYNC or FLUSH returns the error. */
		if (content->writer)
			content->writer->error = content->error;
		content_discard(content);
		content->holds = IMAGE_RANGES;
		content->error = err = 0;
	}
	if (err == 0 && descriptor_lacks_commits(d)) {
		err = content_load_newest(d->file, content, false);
		if (err == 0)
			content->holds = IMAGE_LOADED;
	}
	return err;
}

static void descriptor_become_writer(struct descriptor *d)
{
	struct content *content = d->content;

	if (content->writer == d)
		return;
	content->writer = d;
	content->committed = content->committed && content->early && d->has_version && content->time == TFS_NO_TIME;
	content->time = TFS_NO_TIME;
}

/*
 * Returns true if d truncated the file and has written nothing since.  Its next write
 * replaces all that was committed since then.
 */
static bool descriptor_has_truncated(const struct descriptor *d)
{
	const struct content *content = d->content;

	return content->writer == d && content->holds == IMAGE_WHOLE && content->staged == STAGED_CREATION && !content->error;
}

int content_lock(struct descriptor *d, bool writes, struct changes *c)
{
	struct open_file *file = d->file;
	bool shared = descriptor_shares(d);
	struct mutex *row;
	int err = 0;

	mutex_lock(&file->lock);
	if (writes)
		open_file_wait(file, d->content);
	if (shared && (descriptor_others_staged(d) || descriptor_lacks_commits(d)) && !(writes && descriptor_has_truncated(d))) {
		mutex_unlock(&file->lock);
		row = row_lock(d->node);
		mutex_lock(&file->lock);
		err = descriptor_catch_up(d, c);
		row_unlock(row);
	}
	if (writes && err == 0)
		err = d->error ? d->error : content_is_dropped(d->content) ? -ESTALE : 0;
	if (err)
		mutex_unlock(&file->lock);
	else if (shared && writes)
		descriptor_become_writer(d);
	return err;
}

void content_flushed(struct descriptor *d)
{
	if (!d->early)
		return;
	d->early = d->content->early = false;
	if (d->content->writer != d)
		d->content->committed = false;
}

void content_share(struct descriptor *d, bool truncate)
{
	struct open_file *file = d->file;
	struct content *content = &file->shared;

	mutex_lock(&file->lock);
	d->content = content;
	if (!content->target) {
		content_set_target(content, file->node);
		content->seen = file->commits;
		content->seen_epoch = table_epoch(file->node);
		content->holds = truncate ? IMAGE_LOADED : IMAGE_RANGES;
	}
	mutex_unlock(&file->lock);
}

void content_share_failed(struct descriptor *d)
{
	struct content *content = d->content;

	mutex_lock(&d->file->lock);
	if (descriptor_shares(d) && content->holds == IMAGE_LOADED && !content_is_staged(content))
		content->holds = IMAGE_RANGES;
	mutex_unlock(&d->file->lock);
}

/* ---- descriptors for reading ---- */

/* Returns true if the image may be out of date and can be replaced.  After a rename, file does not count the column's changes. */
static bool reader_is_behind(const struct descriptor *d, const struct open_file *file)
{
	return d->ended != READER_WITHIN && d->readers == 0 && node_lives(d->own.target) &&
		(d->own.target != file->node || !content_is_current(file, &d->own));
}

/* Returns true if a read at the offset continues or begins in the newest version. */
static bool reader_follows(const struct descriptor *d, uint64_t offset)
{
	return d->ended == READER_END ? offset == 0 || offset >= d->own.image.size : d->ended == READER_TOLD && offset == 0;
}

/* Holds the row's lock, so that no commit replaces a large value while its parts are read. */
static int reader_catch_up(struct descriptor *d, uint64_t offset)
{
	struct open_file *file = d->file;
	struct mutex *row = row_lock(d->node);
	int err = 0;

	mutex_lock(&file->lock);
	if (reader_follows(d, offset) && reader_is_behind(d, file)) {
		err = content_load_newest(file, &d->own, true);
		if (err == 0)
			d->ended = READER_WITHIN;
	}
	mutex_unlock(&file->lock);
	row_unlock(row);
	return err;
}

/* The new state of a descriptor after a read through it. */
static enum reader_end reader_met(const struct descriptor *d, uint64_t offset, size_t got)
{
	if (got == 0)
		return READER_END;
	return offset + got < d->own.image.size ? READER_WITHIN : READER_ALL;
}

int reader_read(struct descriptor *d, bool paging, uint64_t offset, void *buf, size_t n, size_t *got)
{
	struct open_file *file = d->file;
	bool locked;
	int err = 0;

	if (!paging && (d->ended == READER_TOLD || d->ended == READER_END))
		err = reader_catch_up(d, offset);
	if (err)
		return err;
	d->readers++;
	locked = d->ended != READER_WITHIN;
	if (locked) {
		d->readers--;
		mutex_lock(&file->lock);
	}
	err = content_read(&d->own, offset, buf, n, got);
	if (err == 0 && !paging && (locked || reader_met(d, offset, *got) != READER_WITHIN))
		d->ended = reader_met(d, offset, *got);
	if (locked)
		mutex_unlock(&file->lock);
	else
		d->readers--;
	return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage (disk.h).  Before a write the bytes that it replaces are saved.  A sync
 * of the file, by any process, drops them.  A power cut writes them back, the newest
 * first.
 *
 * A process stops for a while before an operation, and may be killed there.  The
 * operation itself takes place at one instant.
 */
#include "t/sim/disk.h"
#include "engine/base/file_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A write that no sync covers. */
struct dirty {
	struct dirty *next; /* the change before it */
	struct proc *proc;
	dev_t dev;
	ino_t ino;
	int fd; /* a descriptor of its own */
	uint64_t offset, n, size;
	size_t saved; /* bytes of old, of the range below size */
	uint8_t old[];
};
static struct dirty *writes; /* the newest first */

static struct {
	struct proc *proc; /* NULL: of all */
	uint64_t until_us;
	int err; /* 0: it is slow */
} fault;

static uint64_t sync_us = 500;

void disk_set_sync(uint64_t us)
{
	sync_us = us;
}

void disk_fault(struct proc *p, int err, uint64_t us)
{
	fault.proc = p;
	fault.err = err;
	fault.until_us = sim_now() + us;
}

void disk_mend(void)
{
	fault.until_us = 0;
}

static struct {
	struct proc *proc; /* NULL: of all */
	uint64_t until_us;
} hang;

void disk_hang(struct proc *p, uint64_t us)
{
	sim_trace("the storage of %s hangs for %llu us", p ? p->name : "all", (unsigned long long)us);
	hang.proc = p;
	hang.until_us = sim_now() + us;
}

/* ---- unsynced writes ---- */

static void dirty_free(struct dirty *d)
{
	close(d->fd);
	free(d);
}

/* Saves the range.  A file that was opened for reading only is not written. */
static void dirty_add(int fd, uint64_t offset, uint64_t n)
{
	struct dirty *d;
	struct stat st;
	uint64_t saved;

	if (fstat(fd, &st) < 0)
		return;
	saved = (uint64_t)st.st_size <= offset ? 0 : (uint64_t)st.st_size - offset < n ? (uint64_t)st.st_size - offset : n;
	d = calloc(1, sizeof(*d) + saved);
	if (!d)
		sim_fail("out of memory");
	*d = (struct dirty){
		writes, proc_self(), st.st_dev, st.st_ino, fcntl(fd, F_DUPFD_CLOEXEC, 0), offset, n, (uint64_t)st.st_size, saved};
	if (d->fd < 0 || pread(fd, d->old, saved, (off_t)offset) != (ssize_t)saved)
		sim_fail("the bytes before a write cannot be saved");
	writes = d;
}

static void dirty_synced(int fd)
{
	struct dirty **at = &writes, *d;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return;
	while ((d = *at))
		if (d->dev == st.st_dev && d->ino == st.st_ino) {
			*at = d->next;
			dirty_free(d);
		} else {
			at = &d->next;
		}
}

/* The number of writes to this file that p made. */
static unsigned writes_of(const struct proc *p, ino_t ino)
{
	unsigned n = 0;

	for (const struct dirty *d = writes; d; d = d->next)
		n += d->proc == p && d->ino == ino;
	return n;
}

static void take_back(const struct dirty *d)
{
	/* Sometimes the first sectors of the last write survive. */
	uint64_t keep = sim_chance(4) ? sim_random(d->n / 512 + 1) * 512 : 0;

	if (keep < d->saved && pwrite(d->fd, d->old + keep, d->saved - keep, (off_t)(d->offset + keep)) < 0)
		sim_fail("a write cannot be taken back: %s", strerror(errno));
	if (d->offset + d->n > d->size &&
		ftruncate(d->fd, (off_t)(keep && d->offset + keep > d->size ? d->offset + keep : d->size)) < 0)
		sim_fail("a write cannot be taken back: %s", strerror(errno));
}

unsigned disk_power_cut(struct proc *p)
{
	struct dirty *rest = NULL, *d;
	unsigned lost = 0;

	/* File by file, beginning with the file of the newest write. */
	while ((d = writes)) {
		ino_t ino = d->ino;
		unsigned of_file = writes_of(p, ino), survive = (unsigned)sim_random(of_file + 1); /* how many of them survive */
		struct dirty **at = &writes;

		while ((d = *at)) {
			if (d->ino != ino) {
				at = &d->next;
				continue;
			}
			*at = d->next;
			if (d->proc != p) {
				d->next = rest;
				rest = d;
				continue;
			}
			if (of_file-- > survive) {
				take_back(d);
				lost++;
			}
			dirty_free(d);
		}
	}
	/* Puts the writes of other processes back, in their old order. */
	while ((d = rest)) {
		rest = d->next;
		d->next = writes;
		writes = d;
	}
	sim_trace("%s loses its power, and %u writes", p->name, lost);
	return lost;
}

/* ---- operations ---- */

/* Time passes.  Returns the error of a fault. */
static int begin(bool writes_data, bool sync)
{
	const struct proc *p = proc_self();

	if (p == proc_world())
		return 0;
	proc_step();
	if (sim_now() < hang.until_us && (!hang.proc || hang.proc == p))
		sim_sleep(hang.until_us - sim_now());
	if (sim_now() < fault.until_us && (!fault.proc || fault.proc == p)) {
		if (fault.err == 0)
			sim_sleep(sim_random(2000000));
		else if ((writes_data || (sync && fault.err != -ENOSPC)) && sim_chance(3))
			return fault.err;
	}
	if (sync)
		sim_sleep(100 + sim_random(sync_us));
	else if (writes_data || sim_chance(4))
		sim_sleep(1 + sim_random(20));
	return 0;
}

static int sim_open(const char *path, int flags)
{
	int err = begin((flags & O_CREAT) != 0, false);

	return err ? err : file_system.open(path, flags);
}

static int sim_read(const char *path, int fd, void *p, size_t n, uint64_t offset, size_t *got)
{
	int err = begin(false, false);

	return err ? err : file_system.read(path, fd, p, n, offset, got);
}

static int sim_write(const char *path, int fd, const struct tfs_bytes *v, unsigned count, uint64_t offset)
{
	uint64_t n = 0;
	int err = begin(true, false);

	if (err)
		return err;
	for (unsigned i = 0; i < count; i++)
		n += v[i].n;
	dirty_add(fd, offset, n);
	return file_system.write(path, fd, v, count, offset);
}

/* Some outputs of compactions are under way for long, so that the collector, moves and deaths meet them. */
static void output_written(void)
{
	struct proc *p = proc_self();
	uint64_t us = p->output_pause_us;

	p->output_pause_us = 0;
	if (us)
		proc_pause(p, us);
	else if (sim_chance(10))
		sim_sleep(sim_random(2000000));
}

static int sim_sync(const char *path, int fd, const char *place)
{
	int err = begin(false, true);

	(void)place;
	if (!err && strstr(path, "/sst/"))
		output_written();
	if (!err)
		dirty_synced(fd);
	return err;
}

static int sim_truncate(const char *path, int fd, uint64_t bytes)
{
	int err = begin(true, false);

	return err ? err : file_system.truncate(path, fd, bytes);
}

static int sim_allocate(const char *path, int fd, uint64_t offset, uint64_t n)
{
	int err = begin(true, false);

	return err ? err : file_system.allocate(path, fd, offset, n);
}

static int sim_unlink(const char *path)
{
	int err = begin(false, false);

	return err ? err : file_system.unlink(path);
}

static int sim_rename(const char *from, const char *to)
{
	int err = begin(true, false);

	return err ? err : file_system.rename(from, to);
}

static int sim_link(const char *from, const char *to)
{
	int err = begin(true, false);

	return err ? err : file_system.link(from, to);
}

static int sim_mkdir(const char *path)
{
	int err = begin(true, false);

	return err ? err : file_system.mkdir(path);
}

static int sim_rmdir(const char *path)
{
	int err = begin(false, false);

	return err ? err : file_system.rmdir(path);
}

static int sim_sync_dir(const char *path, const char *place)
{
	(void)path, (void)place;
	return begin(false, true);
}

static int sim_list(const char *dir, struct buf *entries, struct buf *names)
{
	int err = begin(false, false);

	return err ? err : file_system.list(dir, entries, names);
}

/* Returns the same number in each run. */
static int sim_free_bytes(const char *path, uint64_t *bytes)
{
	(void)path;
	*bytes = fault.err == -ENOSPC && sim_now() < fault.until_us ? 0 : UINT64_C(1) << 30;
	return 0;
}

static int sim_size(const char *path, int fd, uint64_t *bytes)
{
	return file_system.size(path, fd, bytes);
}

static int sim_look_up(const char *path, uint64_t *id)
{
	int err = begin(false, false);

	return err ? err : file_system.look_up(path, id);
}

static const struct file_ops ops = {
	.open = sim_open,
	.read = sim_read,
	.write = sim_write,
	.size = sim_size,
	.sync = sim_sync,
	.truncate = sim_truncate,
	.allocate = sim_allocate,
	.unlink = sim_unlink,
	.rename = sim_rename,
	.link = sim_link,
	.mkdir = sim_mkdir,
	.rmdir = sim_rmdir,
	.sync_dir = sim_sync_dir,
	.list = sim_list,
	.free_bytes = sim_free_bytes,
	.look_up = sim_look_up,
};
const struct file_ops *const file_ops = &ops;

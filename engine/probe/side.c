/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One side of a probe: it carries out steps in the directory of one mount.
 *
 * The steps for another process arrive as orders.  Its process repeats an order if the answer is lost, so the last answer of each
 * probe is kept.  One order is under way at a time, so that storage that hangs holds up one worker of this process.
 */
#include "engine/base/hash.h"
#include "engine/probe/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { NAMES_MAX = 64, SIDES = 32 }; /* SIDES: this many servers can begin at once */

void probe_name_path(const struct probe_side *d, const char *name, char out[PATH_MAX])
{
	if (*name && *name != '/')
		snprintf(out, PATH_MAX, "%s/%u-%s", d->top, d->number, name);
	else
		snprintf(out, PATH_MAX, "%s%s", d->top, name);
}

/* Each block of a probe differs from all others. */
static struct tfs_bytes block(struct probe_side *d, uint64_t number)
{
	for (size_t i = 0; i < PROBE_BLOCK; i += 8)
		put_be64(d->bytes + i, (d->random ^ number * UINT64_C(0x9e3779b97f4a7c15)) + i);
	return tfs_bytes_of(d->bytes, PROBE_BLOCK);
}

static int write_block(struct probe_side *d, struct file *f, uint64_t number, uint64_t offset)
{
	struct tfs_bytes s = block(d, number);
	int err = file_pwrite(f, s.p, s.n, offset);

	d->written += s.n;
	return err ? err : file_sync(f);
}

static int change(struct probe_side *d, const struct probe_step *s)
{
	struct file **held = &d->held;
	char from[PATH_MAX];
	size_t got;
	int err = 0;

	switch (s->op) {
	case WRITE:
		return write_block(d, *held, s->number, s->at * PROBE_BLOCK);
	case RESERVE:
		err = file_preallocate(*held, PROBE_BLOCK, (PROBE_BLOCKS - 1) * PROBE_BLOCK);
		return err ? err : file_sync(*held);
	case READ:
		for (uint64_t i = 0; i < PROBE_BLOCKS && !err; i++)
			err = file_pread(*held, d->got, PROBE_BLOCK, i * PROBE_BLOCK, &got);
		return err;
	case RENAME:
		probe_name_path(d, s->from, from);
		return file_rename(from, d->path);
	case REPLACE:
		return file_replace(d->path, block(d, s->number));
	case UNLINK:
		return file_unlink(d->path);
	case MKDIR:
		return file_mkdir(d->path);
	case LOCK:
	case UNLOCK:
		return flock(file_fd(*held), (s->op == LOCK ? LOCK_EX : LOCK_UN) | LOCK_NB) < 0 ? -errno : 0;
	default:
		file_close(*held);
		*held = NULL;
		if (s->op == CLOSE)
			return 0;
		err = file_open(d->path, s->op == CREATE ? FILE_CREATE : s->op == OPEN ? FILE_READ : FILE_READWRITE, held);
		return err || s->op != CREATE ? err : write_block(d, *held, 0, 0);
	}
}

static int is_name(void *arg, const char *name, bool is_dir)
{
	return strcmp(name, arg) == 0;
}

static int device_of(const char *path, dev_t *out)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	*out = st.st_dev;
	return 0;
}

/* The answer is wrong, although no call failed.  Returns 1. */
static int wrong(struct probe_side *d, const char *answer)
{
	snprintf(d->answer, sizeof(d->answer), "%s", answer);
	return 1;
}

static int see_block(struct probe_side *d, struct file *f, const struct probe_step *s)
{
	struct tfs_bytes wanted = block(d, s->number);
	size_t got = 0;
	int err = file_pread(f, d->got, PROBE_BLOCK, s->at * PROBE_BLOCK, &got);

	if (err || bytes_eq(wanted, tfs_bytes_of(d->got, got)))
		return err;
	return wrong(d, got < PROBE_BLOCK ? "fewer bytes" : "other bytes than were written");
}

static int see_size(struct probe_side *d, struct file *f, const struct probe_step *s)
{
	uint64_t n = 0, bytes = (s->at + 1) * PROBE_BLOCK;
	int err = f ? file_size(f, &n) : file_stat_size(d->path, &n);

	if (err || n == bytes)
		return err;
	snprintf(d->answer, sizeof(d->answer), "%" PRIu64 " bytes, not %" PRIu64, n, bytes);
	return 1;
}

/* Returns 0, -errno, or 1 with d->answer. */
static int look(struct probe_side *d, const struct probe_step *s)
{
	struct file *f = NULL;
	dev_t device;
	uint64_t n;
	int err;

	switch (s->op) {
	case STAT:
		return file_stat_size(d->path, &n);
	case STAT_DIR:
		return file_look_up(d->path, &n);
	case LISTED:
		err = file_list(d->top, is_name, strrchr(d->path, '/') + 1);
		return err < 0 ? err : err == !s->wanted ? s->wanted : wrong(d, err ? "it is listed" : "it is not listed");
	case SYNC_DIR:
		return file_sync_dir(d->path);
	case DEVICE:
		err = device_of(d->path, &device);
		return err || device == d->device ? err : wrong(d, "another device");
	case SIZE:
		return see_size(d, NULL, s);
	case SIZE_HELD:
		return see_size(d, d->held, s);
	case SEE_HELD:
		return see_block(d, d->held, s);
	default: /* OPEN_TOO, CREATE_TOO, SEE */
		err = file_open(d->path, s->op == CREATE_TOO ? FILE_CREATE : FILE_READ, &f);
		if (!err && s->op == SEE)
			err = see_block(d, f, s);
		file_close(f);
		return err;
	}
}

/* Returns true if the step is about the held file. */
static bool is_of_held(unsigned op)
{
	return op == WRITE || op == RESERVE || op == READ || op == LOCK || op == UNLOCK || op == SIZE_HELD || op == SEE_HELD;
}

int probe_side_do(struct probe_side *d, const struct probe_step *s)
{
	int err;

	probe_name_path(d, s->name, d->path);
	if (!d->held && is_of_held(s->op))
		return -EBADF;
	err = s->op < LOOKS ? change(d, s) : look(d, s);
	return err == -EIO && file_was_stale() ? -ESTALE : err;
}

int probe_side_init(struct probe_side *d, const char *dir, uint64_t random)
{
	*d = (struct probe_side){.random = random};
	if (asprintf(&d->top, "%s/probe-%016" PRIx64, dir, random) < 0) {
		d->top = NULL;
		return -ENOMEM;
	}
	return strlen(d->top) + NAMES_MAX > PATH_MAX ? -ENAMETOOLONG : device_of(dir, &d->device);
}

void probe_side_begin(struct probe_side *d, unsigned number)
{
	file_close(d->held);
	d->held = NULL;
	d->number = number;
}

void probe_side_fini(struct probe_side *d)
{
	file_close(d->held);
	free(d->top);
	*d = (struct probe_side){0};
}

/* ---- the sides of other processes ---- */

struct far_side {
	struct probe_side side; /* top is NULL if there is no side */
	struct probe_order last;
	struct probe_reply reply;
	uint64_t used; /* counts uses: the side used last has the largest number */
};
struct probe_sides {
	const char *dir;
	atomic_flag busy; /* guards the next members */
	uint64_t uses;
	struct far_side sides[SIDES];
};

int probe_sides_new(const char *dir, struct probe_sides **out)
{
	struct probe_sides *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->dir = dir;
	atomic_flag_clear(&p->busy);
	*out = p;
	return 0;
}

void probe_sides_free(struct probe_sides *p)
{
	for (unsigned i = 0; p && i < SIDES; i++)
		probe_side_fini(&p->sides[i].side);
	free(p);
}

/* Finds the probe's side.  A new one replaces the side that was used least recently. */
static int find_side(struct probe_sides *p, uint64_t probe, struct far_side **out)
{
	struct far_side *oldest = p->sides, *s;
	int err;

	for (s = p->sides; s < p->sides + SIDES; s++) {
		if (s->side.top && s->side.random == probe) {
			*out = s;
			return 0;
		}
		if (s->used < oldest->used)
			oldest = s;
	}
	probe_side_fini(&oldest->side);
	*oldest = (struct far_side){0};
	err = probe_side_init(&oldest->side, p->dir, probe);
	if (err)
		probe_side_fini(&oldest->side);
	else
		*out = oldest;
	return err;
}

static int carry_out(struct probe_sides *p, const struct probe_order *order, struct far_side **out)
{
	struct far_side *s;
	int err = find_side(p, order->probe, &s);

	if (err)
		return err;
	*out = s;
	if (s->used && s->last.number == order->number && s->last.which == order->which && s->last.step == order->step)
		return 0;
	s->used = ++p->uses;
	if (order->number != s->side.number)
		probe_side_begin(&s->side, order->number);
	s->reply = (struct probe_reply){.err = probe_side_do(&s->side, &probe_steps(order->which)[order->step])};
	if (s->reply.err > 0)
		memcpy(s->reply.answer, s->side.answer, sizeof(s->reply.answer));
	s->last = *order;
	return 0;
}

int probe_sides_do(struct probe_sides *p, const struct probe_order *order, struct probe_reply *reply)
{
	struct far_side *s = NULL;
	int err;

	if (order->which >= PROBE_TRY_ALL || order->step >= probe_step_count(order->which))
		return -EINVAL;
	if (atomic_flag_test_and_set(&p->busy))
		return -EAGAIN;
	err = carry_out(p, order, &s);
	*reply = err ? (struct probe_reply){.err = err} : s->reply;
	atomic_flag_clear(&p->busy);
	return 0;
}

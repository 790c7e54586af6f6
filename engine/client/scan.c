/* SPDX-License-Identifier: Apache-2.0 */
/* The public scans. */
#include "engine/client/cells.h"

#include <errno.h>
#include <stdlib.h>

struct tfs_scan {
	struct cell_scan cells;
	struct absent_scan *absent; /* NULL if the scan is `cells` */
	bool (*stop)(void *arg);
	void *stop_arg;
	/* tfs_scan_fill uses the rest. */
	bool filled;          /* it has a cell to return */
	bool is_held;         /* the next cell is `held`, for which there was no space */
	struct tfs_cell held; /* its bytes are valid, because it is the last cell that was read */
	bool is_over;         /* the scan has ended with `result`, an error or 0, after cells that were returned */
	int result;
};

/* Asked while the scan finds nothing: tfs_scan_fill then returns the cells that it has. */
static bool scan_stop(void *arg)
{
	const struct tfs_scan *s = arg;

	return s->filled || (s->stop && s->stop(s->stop_arg));
}

int tfs_scan_new(struct tfs_table *t, const struct tfs_scan_spec *spec, struct tfs_scan **out)
{
	reason_clear();
	struct tfs_scan *s = calloc(1, sizeof(*s));
	struct tfs_scan_spec own = *spec;
	int err;

	if (!s)
		return -ENOMEM;
	s->stop = spec->stop;
	s->stop_arg = spec->stop_arg;
	own.stop = scan_stop;
	own.stop_arg = s;
	err = own.absent_from ? absent_scan_new(t, &own, &s->absent) : cell_scan_init(&s->cells, t, &own);
	if (err)
		free(s);
	else
		*out = s;
	return err;
}

int tfs_scan_next(struct tfs_scan *s, struct tfs_cell *cell)
{
	reason_clear();
	if (s->is_over)
		return s->absent ? s->result : scan_failed(s->cells.table, &s->cells.rows.spec, s->result);
	if (s->is_held) {
		s->is_held = false;
		*cell = s->held;
		return 1;
	}
	if (s->absent)
		return absent_scan_next(s->absent, cell);
	return scan_failed(s->cells.table, &s->cells.rows.spec, cell_scan_next(&s->cells, cell));
}

/* Memory of tfs_scan_fill's caller: n bytes of it are free, from p on. */
struct space {
	uint8_t *p;
	size_t n;
};

/* Returns false if there is no space.  Shares the bytes of the previous cell if they are the same. */
static bool space_copy(struct space *to, const struct tfs_bytes *previous, struct tfs_bytes *bytes)
{
	if (!bytes->p)
		return true;
	if (previous && bytes_eq(*previous, *bytes)) {
		*bytes = *previous;
		return true;
	}
	if (bytes->n > to->n)
		return false;
	if (bytes->n)
		memcpy(to->p, bytes->p, bytes->n);
	bytes->p = to->p;
	to->p += bytes->n;
	to->n -= bytes->n;
	return true;
}

static struct tfs_bytes name_bytes(const char *name)
{
	return name ? tfs_bytes_of(name, strlen(name) + 1) : (struct tfs_bytes){0};
}

static bool cell_copy(struct space *to, const struct tfs_cell *previous, struct tfs_cell *c)
{
	struct tfs_bytes family = name_bytes(c->family);
	const struct tfs_bytes before = previous ? name_bytes(previous->family) : (struct tfs_bytes){0};

	if (!space_copy(to, previous ? &previous->row : NULL, &c->row) || !space_copy(to, previous ? &before : NULL, &family) ||
		!space_copy(to, NULL, &c->qualifier) || !space_copy(to, NULL, &c->value))
		return false;
	c->family = (const char *)family.p;
	return true;
}

int tfs_scan_fill(struct tfs_scan *s, struct tfs_cell *cells, int max, void *p, size_t n)
{
	struct space space = {p, n};
	int count = 0, result = 1;

	while (count < max && result > 0) {
		result = tfs_scan_next(s, &s->held);
		if (result <= 0)
			break;
		cells[count] = s->held;
		s->is_held = !cell_copy(&space, count ? &cells[count - 1] : NULL, &cells[count]);
		if (s->is_held)
			result = -ENOBUFS;
		else
			s->filled = ++count > 0;
	}
	s->filled = false;
	if (count == 0 || result > 0)
		return count ? count : result;
	if (result != -ENOBUFS && result != -EINTR) {
		s->is_over = true;
		s->result = result;
	}
	return count;
}

void tfs_scan_free(struct tfs_scan *s)
{
	if (!s)
		return;
	absent_scan_free(s->absent);
	cell_scan_fini(&s->cells);
	free(s);
}

uint64_t tfs_fingerprint(const struct tfs_cell *c)
{
	return cell_fingerprint(c->family_id, c->qualifier, c->ts, c->sequence, c->commit_us);
}

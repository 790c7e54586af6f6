/* SPDX-License-Identifier: Apache-2.0 */
/* Checks multi-operations, and reports lists of names, for every implementation of lock.h. */
#include "engine/lock/ops.h"
#include "engine/lock/lock_format.h"

#include <errno.h>
#include <stdlib.h>

bool lock_names_clash(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), k = n < m ? n : m;

	return memcmp(a, b, k) == 0 && (n == m || (n < m ? b[k] : a[k]) == '/');
}

int lock_ops_check(const struct lock_op *ops, unsigned count)
{
	size_t bytes = 0;

	if (count == 0 || count > LOCK_OPS_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < count; i++) {
		const struct lock_op *op = &ops[i];

		if (!lock_name_valid(op->name))
			return -EINVAL;
		if (op->ephemeral && (op->what != LOCK_PUT || op->expect != LOCK_ABSENT))
			return -EINVAL;
		if (op->what == LOCK_CHECK && (op->expect == LOCK_ABSENT || op->expect == LOCK_ANY))
			return -EINVAL;
		bytes += op->what == LOCK_PUT ? op->contents.n : 0;
		if (op->what == LOCK_PUT && (op->contents.n > LOCK_FILE_MAX || bytes > LOCK_MULTI_MAX))
			return -EFBIG;
		for (unsigned j = 0; j < i; j++)
			if (lock_names_clash(op->name, ops[j].name))
				return -EINVAL;
	}
	return 0;
}

int lock_get_number(struct lock_service *s, const char *name, uint64_t *number, uint64_t *version)
{
	struct buf b = {0};
	int err = lock_get(s, name, &b, version);

	if (err == -ENOENT) {
		*number = 0;
		*version = LOCK_ABSENT;
		err = 0;
	} else if (!err && b.n != 8) {
		err = -EBADMSG;
	} else if (!err) {
		*number = load_be64(b.p);
	}
	buf_fini(&b);
	return err;
}

static int name_cmp(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int lock_names_report(struct tfs_bytes names, int (*fn)(void *arg, const char *name), void *arg)
{
	const char *end = (const char *)names.p + names.n, **v;
	size_t count = 0, i = 0;
	int err = 0;

	if (names.n == 0)
		return 0;
	for (const char *p = (const char *)names.p; p < end; p += strlen(p) + 1)
		count++;
	v = malloc(count * sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (const char *p = (const char *)names.p; p < end; p += strlen(p) + 1)
		v[i++] = p;
	qsort(v, count, sizeof(*v), name_cmp);
	for (i = 0; i < count && !err; i++)
		err = fn(arg, v[i]);
	free(v);
	return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Each test has its own directory; these functions read it with plain system calls. */
#ifndef TFS_T_UNIT_DIR_H
#define TFS_T_UNIT_DIR_H

#include "t/lib/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char test_dir[256];

static int test_dir_setup(void **state)
{
	snprintf(test_dir, sizeof(test_dir), "%s/tfs-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	return mkdtemp(test_dir) ? 0 : -1;
}

static int test_dir_teardown(void **state)
{
	char forget[270];

	snprintf(forget, sizeof(forget), "%s.forget", test_dir);
	return tree_remove(test_dir) && tree_remove(forget) ? 0 : -1;
}

/* Returns test_dir/name.  The result is valid until the fourth next call of the thread. */
static const char *in_dir(const char *name)
{
	static __thread char s[4][1024];
	static __thread unsigned i;
	char *p = s[i++ % 4];

	snprintf(p, sizeof(s[0]), "%s%s%s", test_dir, *name ? "/" : "", name);
	return p;
}

/* Whatever is at "to" becomes a copy of "from". */
__attribute__((unused)) static bool put_back(const char *from, const char *to)
{
	return tree_remove(in_dir(to)) && tree_copy(in_dir(from), in_dir(to));
}

__attribute__((unused)) static int exists(const char *name)
{
	struct stat st;

	return stat(in_dir(name), &st) == 0;
}

/* Returns the contents, NUL-terminated, NULL if there is no such file. */
__attribute__((unused)) static const char *contents(const char *name, size_t *n)
{
	static char b[1 << 16];
	FILE *f = fopen(in_dir(name), "rb");
	size_t got;

	if (!f)
		return NULL;
	got = fread(b, 1, sizeof(b) - 1, f);
	fclose(f);
	b[got] = '\0';
	if (n)
		*n = got;
	return b;
}

#endif

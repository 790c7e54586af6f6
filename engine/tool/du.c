/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl du: bytes and cells of the tables of a store, or of the families of a table.  The
 * servers keep these figures, so it answers at once, and reads no table, as du(1) does.
 */
#include "engine/tool/transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static void print_usage(const struct tfs_usage *u, const char *name)
{
	printf("%llu\t%llu\t%s\n", (unsigned long long)(u->disk_bytes + u->memory_bytes + u->changes_bytes),
		(unsigned long long)u->cells, name);
}

/* ---- a table ---- */

static int print_families(struct tfs_table *t, const char *path)
{
	const struct tfs_schema *s;
	int err = tfs_schema_get(t, &s);

	if (err)
		return err;
	for (unsigned i = 0; i < s->family_count && !err; i++) {
		struct tfs_usage u;

		err = tfs_usage(t, s->families[i].name, &u);
		if (!err)
			print_usage(&u, text("%s/.families/%s", path, s->families[i].name));
	}
	tfs_schema_put(s);
	return err;
}

static int du_table(const char *path)
{
	struct tfs_usage u;
	struct place p;
	int err;

	if (place_open_stored(&p, path, false))
		return EXIT_CANNOT;
	err = print_families(p.table, path);
	if (!err)
		err = tfs_usage(p.table, NULL, &u);
	if (err)
		complain("%s: %s", path, strerror(-err));
	else
		print_usage(&u, path);
	return place_close(&p, err ? EXIT_CANNOT : 0);
}

/* ---- a store ---- */

/* A table that was dropped meanwhile has no line. */
static int add_table(struct tfs_store *s, const char *path, const char *name, struct tfs_usage *sum)
{
	struct tfs_table *t;
	struct tfs_usage u;
	int err = tfs_table_open(s, name, &t);

	if (err)
		return err == -ENOENT ? 0 : err;
	err = tfs_usage(t, NULL, &u);
	tfs_table_close(t);
	if (err)
		return err;
	print_usage(&u, text("%s/%s", path, name));
	sum->disk_bytes += u.disk_bytes;
	sum->memory_bytes += u.memory_bytes;
	sum->changes_bytes += u.changes_bytes;
	sum->cells += u.cells;
	return 0;
}

static int add_tables(struct tfs_store *s, const char *path, struct tfs_usage *sum)
{
	char names[16][TFS_NAME_MAX + 1], after[TFS_NAME_MAX + 1] = "";
	int n, err = 0;

	while (!err && (n = tfs_table_list(s, after, names, 16)) != 0) {
		if (n < 0)
			return n;
		for (int i = 0; i < n && !err; i++) {
			err = add_table(s, path, names[i], sum);
			if (err)
				complain("%s/%s: %s", path, names[i], strerror(-err));
		}
		memcpy(after, names[n - 1], sizeof(after));
	}
	return err;
}

static int du_store(const char *path)
{
	struct tfs_usage sum = {0};
	struct tfs_store *s;
	char *why = NULL;
	int err = tfs_open(path, NULL, &s, &why), closed;

	if (err) {
		complain("%s", why ? why : strerror(-err));
		free(why);
		return EXIT_CANNOT;
	}
	err = add_tables(s, path, &sum);
	if (!err)
		print_usage(&sum, path);
	closed = tfs_close(s);
	if (closed)
		complain("%s: %s", path, strerror(-closed));
	return err || closed ? EXIT_CANNOT : 0;
}

static bool is_store(const char *path)
{
	return source_is_served(path) || access(text("%s/.tabletfs/version", path), F_OK) == 0 ||
		access(text("%s/FORMAT", path), F_OK) == 0;
}

static int du_run(const struct arguments *a)
{
	return is_store(a->operand[0]) ? du_store(a->operand[0]) : du_table(a->operand[0]);
}

const struct command du_command = {
	.name = "du",
	.kinds = "p",
	.brief = "print bytes and cells of tables or families, at once",
	.usage = "usage: tabletctl du PATH\n"
		 "\n"
		 "Prints bytes (on disk and in memory), cells, and name, a line for each table of a\n"
		 "store or for each family of a table, and a last line for PATH: a mount point, a\n"
		 "SOURCE, or a table in one of these.  It reads no table.  Cells include those that\n"
		 "compactions have yet to remove.\n",
	.least = 1,
	.most = 1,
	.run = du_run,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that look like control names.
 *
 * A dot name in a table, a row or a family is scratch, which a program can write
 * without an error, and which ends with the mount.  So a control name with a typing
 * error, as .schemas or .import.csv, must not become scratch.  In a table and a row,
 * a name is refused if it is one of these:
 *	- a control name of a table or a row, in a directory that has none of that name
 *	- of the bytes a-z and '.', and one edit away from a control name: a byte that is
 *	  inserted, deleted, substituted, or swapped with the next one
 *	- one of these two and "shot", or and the suffixes of formats (.csv, .tar.gz)
 * In a family and in .scripts only the first rule holds, because programs choose the names there.
 *
 * Names that editors, rsync and unison make for a control file are none of these:
 * .schema~, ..schema.swp, .schema.bak, ..schema.AbCdEf, .~tmp~.
 */

#include "fs/base/reply.h"
#include "fs/node/kinds.h"
#include "fs/node/schema/setting.h"

#include <errno.h>

/* Texts by which users may call a control name. */
static const struct {
	enum node_kind dir;
	const char *name, *right;
} other_names[] = {
	{NODE_TABLE, ".family", ".families"},
	{NODE_TABLE, ".snapshot", ".snap"},
	{NODE_TABLE, ".export", ".export.tar"},
	{NODE_ROW, ".row", ".row.json"},
};

static const char *const suffixes[] = {"avro", "br", "bz", "bz2", "cfg", "conf", "csv", "dat", "data", "gz", "gzip", "htm", "html",
	"ini", "json", "jsonl", "jsonlines", "log", "lz", "lz4", "lzo", "md", "ndjson", "orc", "parquet", "sql", "tar", "tbz",
	"tgz", "toml", "tsv", "txt", "text", "txz", "xls", "xlsx", "xml", "xz", "yaml", "yml", "zip", "zst", "zstd", NULL};

/* A name that is compared with each control name, and the result. */
struct search {
	struct tfs_bytes name;
	bool exact;        /* set if no edit is accepted */
	bool in_row;       /* the name is in a row, not in a table */
	const char *right; /* the control name, or NULL */
	const char *where; /* its directory */
};

/* Returns true if both are the same, or one edit apart. */
static bool is_near(struct tfs_bytes a, struct tfs_bytes b)
{
	while (a.n && b.n && *a.p == *b.p) {
		a = tfs_bytes_of(a.p + 1, a.n - 1);
		b = tfs_bytes_of(b.p + 1, b.n - 1);
	}
	while (a.n && b.n && a.p[a.n - 1] == b.p[b.n - 1]) {
		a.n--;
		b.n--;
	}
	if (a.n == 2 && b.n == 2)
		return a.p[0] == b.p[1] && a.p[1] == b.p[0];
	return a.n <= 1 && b.n <= 1;
}

static void compare(struct search *s, enum node_kind dir, const char *name, const char *right)
{
	if (s->right || !(s->exact ? bytes_eq(s->name, tfs_str(name)) : is_near(s->name, tfs_str(name))))
		return;
	s->right = right;
	s->where = dir == NODE_TABLE ? "TABLE" : "TABLE/ROW";
}

static void compare_all(struct search *s)
{
	static const enum node_kind dirs[] = {NODE_TABLE, NODE_ROW};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
		const struct node_ops *o = kind_ops(dirs[i]);

		for (const struct fixed_child *f = o->children; f && f->name; f++)
			compare(s, dirs[i], f->name, f->name);
		for (const struct setting *v = o->settings; v && v->name; v++)
			compare(s, dirs[i], v->name, v->name);
	}
	for (size_t i = 0; i < sizeof(other_names) / sizeof(*other_names) && !s->exact; i++)
		if (s->in_row == (other_names[i].dir == NODE_ROW))
			compare(s, other_names[i].dir, other_names[i].name, other_names[i].right);
}

static bool is_plain(struct tfs_bytes name)
{
	size_t i = 0;

	while (i < name.n && ((name.p[i] >= 'a' && name.p[i] <= 'z') || name.p[i] == '.'))
		i++;
	return i == name.n;
}

static bool drop_end(struct tfs_bytes *name, const char *end)
{
	const size_t n = strlen(end);

	if (name->n <= n || memcmp(name->p + name->n - n, end, n) != 0)
		return false;
	name->n -= n;
	return true;
}

/* Drops a dot and the name of a format at the end. */
static bool drop_suffix(struct tfs_bytes *name)
{
	const uint8_t *dot = memrchr(name->p, '.', name->n);

	for (const char *const *p = suffixes; dot && dot > name->p && *p; p++) {
		if (!bytes_eq(tfs_bytes_of(dot + 1, name->n - (size_t)(dot + 1 - name->p)), tfs_str(*p)))
			continue;
		name->n = (size_t)(dot - name->p);
		return true;
	}
	return false;
}

int control_name_check(struct node *dir, const char *name)
{
	struct search s = {.name = tfs_str(name), .exact = true, .in_row = dir->kind == NODE_ROW};

	if (node_is(dir, KIND_SCRATCH))
		return 0;
	compare_all(&s);
	s.exact = node_is(dir, KIND_FAMILY) || dir->kind == NODE_SCRIPTS || dir->kind == NODE_CELL_PART;
	(void)drop_end(&s.name, s.exact ? "" : "shot");
	do
		if (!s.exact && is_plain(s.name))
			compare_all(&s);
	while (!s.exact && !s.right && drop_suffix(&s.name));
	if (!s.right)
		return 0;
	return refuse(-EOPNOTSUPP, dir, name, "no control name of this directory: the right name may be %s/%s", s.where, s.right);
}

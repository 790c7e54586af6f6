/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verb is executed in the write that ends its line, so the shell waits for a
 * flush or compaction and gets its error.  drop-rows removes row by row: each
 * row atomically, but not the range.
 */
#include "fs/node/admin.h"

#include "engine/base/msg.h"
#include "engine/base/numbers.h"
#include "engine/base/name.h"
#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/file/stage.h"
#include "fs/node/made.h"

#include <errno.h>
#include <stdlib.h>

static int put_server(void *arg, const struct tfs_server *s)
{
	return buf_printf(arg, "%s\t%llu\t%u\t%llu\t%s\n", s->name, (unsigned long long)s->incarnation, s->tablets,
		(unsigned long long)s->bytes, s->state);
}

int admin_render_servers(struct node *n, struct buf *out)
{
	int err = buf_printf(out, "server\tincarnation\ttablets\tbytes\tstate\n");

	return err ? err : tfs_servers(fs.store, put_server, out);
}

/* Appends and frees text. */
static int put_text(struct buf *out, char *text)
{
	int err = buf_append(out, text, strlen(text));

	free(text);
	return err;
}

int admin_render_metrics(struct node *n, struct buf *out)
{
	const struct number v[] = {
		{"staged_bytes", "bytes written through the mount and not yet committed", stage_memory_used(), true},
		{"changes", "commits, removals and other changes through the mount", atomic_load(&fs.changes), false},
		{"read_only", "1 if the mount is read-only", fs.read_only, true},
	};
	char *text = NULL;
	int err = tfs_metrics(fs.store, &text);

	if (err == 0)
		err = put_text(out, text);
	return err ? err : numbers_metrics(v, sizeof(v) / sizeof(*v), out);
}

int admin_render_status(struct node *n, struct buf *out)
{
	char *text = NULL;
	int err = tfs_status(fs.store, &text);

	if (err)
		return err;
	err = buf_printf(out, "mount        %s on %s, %s, tabletfs %s; %llu bytes written but not yet committed\n", fs.source,
		fs.mountpoint, fs.read_only ? "read-only" : "read-write", PACKAGE_VERSION, (unsigned long long)stage_memory_used());
	if (err == 0)
		return put_text(out, text);
	free(text);
	return err;
}

int admin_render_config(struct node *n, struct buf *out)
{
	char *text = NULL;
	int err = tfs_config(fs.store, &text);

	return err ? err : put_text(out, text);
}

int admin_apply_config(struct node *n, struct slice text, struct changes *c)
{
	char *why = NULL;
	int err = tfs_config_change(fs.store, bytes_of(text), &why);

	if (err)
		refuse(err, n, NULL, "%s", why ? why : "the settings were not changed");
	free(why);
	return err;
}

/* A border, as ls shows the row that begins there and as verbs accept it; empty for the ends of the table. */
static int put_border(struct buf *out, struct tfs_bytes b)
{
	return b.size ? name_encode(NAME_ROW, slice_from(b), 0, out) : 0;
}

static int put_tablet(void *arg, const struct tfs_tablet *t)
{
	struct buf *out = arg;
	int r;

	r = put_border(out, t->begin);
	if (r == 0)
		r = buf_u8(out, '\t');
	if (r == 0)
		r = put_border(out, t->end);
	if (r == 0)
		r = buf_printf(out, "\t%s\t%s\t%llu\t%u\t%llu\t%llu\t%llu\t%llu\n", t->server, t->state,
			(unsigned long long)t->bytes, t->sstables, (unsigned long long)t->usage.raw_bytes,
			(unsigned long long)t->usage.memory_bytes, (unsigned long long)t->usage.cells,
			(unsigned long long)t->usage.tombstones);
	return r;
}

int admin_render_tablets(struct node *n, struct buf *out)
{
	int err = buf_printf(out, "begin\tend\tserver\tstate\tbytes\tSSTables\traw_bytes\tmemory_bytes\tcells\ttombstones\n");

	return err ? err : tfs_tablets(node_store_table(n), put_tablet, out);
}

int admin_each_table(int (*fn)(struct tfs_table *t))
{
	char names[16][TFS_NAME_MAX + 1], after[TFS_NAME_MAX + 1] = "";
	int n;

	while ((n = tfs_table_list(fs.store, after, names, 16)) > 0) {
		for (int i = 0; i < n; i++) {
			struct tfs_table *t;
			int r = tfs_table_open(fs.store, names[i], &t);

			if (r == -ENOENT || r == -EBADMSG) /* dropped meanwhile, or its schema is damaged */
				continue;
			if (r == 0) {
				r = fn(t);
				tfs_table_close(t);
			}
			if (r)
				return r;
		}
		memcpy(after, names[n - 1], sizeof(after));
	}
	return n;
}

/* Drops the kernel's entries, in one view, of a row that was dropped and of the parts of its name. */
static void drop_kernel_row(struct node *view, struct slice row, struct changes *c)
{
	struct node *holder = view, *below;
	struct slice name, at = {0};
	struct buf path = {0};
	bool last = false;

	if (name_encode(NAME_ROW, row, 0, &path))
		goto out;
	node_hold(view);
	while (!last && holder && name_component(buf_slice(&path), at, &name, &last)) {
		at = slice_of(path.p, (size_t)(name.p + name.n - path.p));
		below = last ? node_find(view, NODE_ROW, row, 0) : node_find(view, NODE_ROW_PART, at, 0);
		if (below && node_known(below))
			changes_entry(c, holder, name);
		node_put(holder);
		holder = below;
	}
	node_put(holder);
out:
	buf_fini(&path);
}

static int drop_rows(struct node *n, struct slice prefix, struct changes *c)
{
	struct node *table = node_table(n), *latest = node_find(table, NODE_LATEST, slice_of(NULL, 0), 0);
	struct tfs_table *t = node_store_table(n);
	struct tfs_scan_spec spec = {.what = TFS_SCAN_ROWS, .row_from = bytes_of(prefix)};
	struct tfs_scan *scan = NULL;
	struct tfs_cell cell;
	int r;

	r = tfs_scan_new(t, &spec, &scan);
	if (r)
		goto out;
	while ((r = tfs_scan_next(scan, &cell)) > 0 && slice_has_prefix(slice_from(cell.row), prefix)) {
		struct tfs_mutation *m = tfs_mutation_new(t, cell.row);

		r = m ? tfs_mutation_delete_row(m) : -ENOMEM;
		if (r == 0)
			r = tfs_apply(m, 0, NULL);
		tfs_mutation_free(m);
		if (r)
			break;
		drop_kernel_row(table, slice_from(cell.row), c);
		if (latest)
			drop_kernel_row(latest, slice_from(cell.row), c);
	}
	tfs_scan_free(scan);
	if (r >= 0)
		made_drop_rows(table, prefix, c);
	atomic_fetch_add(&fs.changes, 1);
	table_new_epoch(table);
	changes_table(c, table);
out:
	node_put(latest);
	return r < 0 ? r : 0;
}

static bool line_is_verb(struct slice line, const char *name, struct slice *argument)
{
	size_t n = strlen(name);

	if (!slice_has_prefix(line, slice_str(name)) || (line.n > n && line.p[n] != ' '))
		return false;
	*argument = line.n > n ? slice_of(line.p + n + 1, line.n - n - 1) : slice_of(NULL, 0);
	return true;
}

/* Results of a verb besides 0 and -errno.  refuse_line logs the reason and returns -errno. */
enum { NO_SUCH_VERB = 1, NO_ROW, NO_RANGE, NO_TABLE, TABLE_EXISTS };

static int refuse_line(struct node *n, struct slice line, int r)
{
	static const struct {
		int result, err;
		const char *reason;
	} reasons[] = {
		{NO_SUCH_VERB, -EINVAL, "no such verb"},
		{NO_ROW, -EINVAL, "the name of a row is missing"},
		{NO_RANGE, -EINVAL, "the table is salted, and no row is stored with this byte in front"},
		{NO_TABLE, -EINVAL, "the name of the new table is missing or not valid"},
		{TABLE_EXISTS, -EEXIST, "there is such a table already"},
		{-EINVAL, -EINVAL, "not the name of a row"},
		{-EEXIST, -EINVAL, "a tablet begins there already"},
		{-ENOENT, -EINVAL, "there is no tablet after it, or the table was dropped"},
		{-E2BIG, -E2BIG, "row keys too long to merge the tablet's list of files"},
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if (reasons[i].result == r)
			return refuse(reasons[i].err, n, NULL, "%s: %s", reasons[i].reason, Q(line));
	return refuse(r, n, NULL, "%s", Q(line));
}

static int each_line(
	struct node *n, struct slice text, int (*fn)(struct node *n, struct slice line, struct changes *c), struct changes *c)
{
	while (text.n) {
		const uint8_t *end = memchr(text.p, '\n', text.n);
		struct slice line = slice_of(text.p, end ? (size_t)(end - text.p) : text.n);
		int r;

		text = end ? slice_of(end + 1, text.n - line.n - 1) : slice_of(NULL, 0);
		if (line.n == 0)
			continue;
		r = fn(n, line, c);
		if (r)
			return refuse_line(n, line, r);
	}
	return 0;
}

/* Returns NO_RANGE if the table is salted and the key's first byte is not a salt, 0, -errno. */
static int in_a_range(struct tfs_table *t, struct slice key)
{
	const struct tfs_schema *s;
	int r = tfs_schema_get(t, &s);

	if (r == 0) {
		r = s->salt_in_use && key.p[0] >= s->salt_in_use ? NO_RANGE : 0;
		tfs_schema_put(s);
	}
	return r;
}

/* Verbs with the name of a row, as ls shows it; the parts of a split name are joined by slashes. */
static int row_verb(struct node *n, struct slice line, struct changes *c)
{
	struct buf row = {0};
	struct slice name;
	int r;
	int (*fn)(struct tfs_table * t, struct tfs_bytes row) = line_is_verb(line, "split", &name) ? tfs_split
		: line_is_verb(line, "merge", &name)                                               ? tfs_merge
												   : NULL;

	if (!fn && !line_is_verb(line, "drop-rows", &name))
		return NO_SUCH_VERB;
	if (!name.n)
		return NO_ROW;
	r = name_decode_row(name, &row);
	if (r == -ENOENT)
		r = -EINVAL;
	if (r == 0 && fn == tfs_split)
		r = in_a_range(node_store_table(n), buf_slice(&row));
	if (r == 0)
		r = fn ? fn(node_store_table(n), bytes_of(buf_slice(&row))) : drop_rows(n, buf_slice(&row), c);
	buf_fini(&row);
	return r;
}

/* A new table with the rows of the table or snapshot in whose .ctl the verb was written. */
static int clone_verb(struct node *n, struct slice name, struct changes *c)
{
	char copy[TFS_NAME_MAX + 1];
	int r;

	if (name.n == 0 || name.n > TFS_NAME_MAX)
		return NO_TABLE;
	/* As for mkdir in the root. */
	if (fs_asker_uid() != 0 && fs_asker_uid() != fs.uid)
		return refuse(-EACCES, node_root(), NULL, "only the user who mounted may make tables");
	memcpy(copy, name.p, name.n);
	copy[name.n] = 0;
	r = tfs_table_clone(node_store_table(n), copy);
	if (r == 0)
		changes_listing(c, node_root());
	return r == -EINVAL ? NO_TABLE : r == -EEXIST ? TABLE_EXISTS : r;
}

static int snapshot_verb(struct node *n, struct slice line, struct changes *c)
{
	struct slice argument;

	return line_is_verb(line, "clone", &argument) ? clone_verb(n, argument, c) : NO_SUCH_VERB;
}

static int table_verb(struct node *n, struct slice line, struct changes *c)
{
	struct slice argument;

	if (line_is_verb(line, "flush", &argument) && !argument.n)
		return tfs_flush(node_store_table(n));
	if (line_is_verb(line, "compact", &argument) && !argument.n)
		return tfs_compact(node_store_table(n));
	if (line_is_verb(line, "truncate", &argument) && !argument.n)
		return admin_truncate(n, c);
	if (line_is_verb(line, "clone", &argument))
		return clone_verb(n, argument, c);
	return row_verb(n, line, c);
}

static int system_verb(struct node *n, struct slice line, struct changes *c)
{
	struct slice argument;

	if (line_is_verb(line, "flush", &argument) && !argument.n)
		return admin_each_table(tfs_flush);
	if (line_is_verb(line, "compact", &argument) && !argument.n)
		return admin_each_table(tfs_compact);
	if (line_is_verb(line, "sync", &argument) && !argument.n)
		return tfs_sync(fs.store);
	if (line_is_verb(line, "confirm-clock", &argument) && !argument.n)
		return tfs_confirm_clock(fs.store);
	return NO_SUCH_VERB;
}

int admin_apply_table(struct node *n, struct slice text, struct changes *c)
{
	return each_line(n, text, table_verb, c);
}

int admin_apply_snapshot(struct node *n, struct slice text, struct changes *c)
{
	return each_line(n, text, snapshot_verb, c);
}

int admin_apply_system(struct node *n, struct slice text, struct changes *c)
{
	return each_line(n, text, system_verb, c);
}

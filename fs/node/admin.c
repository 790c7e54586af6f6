/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's control files (admin.h).  A verb is executed in the write that
 * ends its line, so the shell waits for a flush or compaction and gets its
 * error.  drop-rows removes row by row: each row atomically, but not the range.
 */
#include "fs/node/admin.h"

#include "engine/base/msg.h"
#include "engine/base/numbers.h"
#include "engine/base/name.h"
#include "engine/bulk/splits.h"
#include "fs/base/access.h"
#include "fs/base/dir_time.h"
#include "fs/base/permit.h"
#include "fs/base/reply.h"
#include "fs/file/stage.h"
#include "fs/node/made.h"
#include "fs/node/schema/setting.h"

#include <errno.h>
#include <stdio.h>
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

enum { CLIENT_NUMBER, CLIENT_USER, CLIENT_PROCESS, CLIENT_PROGRAM, CLIENT_REQUESTS, CLIENT_SECONDS, CLIENT_ADDRESS, CLIENT_FIELDS };

/* Appends a line for each client that the asker may see. root and the mounting user see all clients, other users their own. */
static int put_clients(struct buf *out, int (*put)(struct buf *out, char *const *v))
{
	char *text = NULL, *line, *v[CLIENT_FIELDS], own[16];
	const uid_t uid = fs_asker_uid();
	int err = tfs_clients(fs.store, &text);

	snprintf(own, sizeof(own), "%u", (unsigned)uid);
	for (char *rest = text; !err && (line = strsep(&rest, "\n")) && *line;) {
		for (unsigned i = 0; i < CLIENT_FIELDS; i++)
			v[i] = strsep(&line, "\t");
		if (v[CLIENT_FIELDS - 1] && (uid == 0 || uid == fs.uid || strcmp(v[CLIENT_USER], own) == 0))
			err = put(out, v);
	}
	free(text);
	return err;
}

static int put_client_fields(struct buf *out, char *const *v)
{
	return buf_printf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v[CLIENT_NUMBER], v[CLIENT_USER], v[CLIENT_PROCESS],
		v[CLIENT_PROGRAM], v[CLIENT_REQUESTS], v[CLIENT_SECONDS], v[CLIENT_ADDRESS]);
}

static int put_client_status(struct buf *out, char *const *v)
{
	return buf_printf(out, "client       %s: %s, user %s, process %s, address %s; %s requests in %s s\n", v[CLIENT_NUMBER],
		v[CLIENT_PROGRAM], v[CLIENT_USER], v[CLIENT_PROCESS], v[CLIENT_ADDRESS], v[CLIENT_REQUESTS], v[CLIENT_SECONDS]);
}

int admin_render_clients(struct node *n, struct buf *out)
{
	int err = buf_printf(out, "client\tuser\tprocess\tmount or program\trequests\tseconds\taddress\n");

	return err ? err : put_clients(out, put_client_fields);
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
	int err = tfs_status_for(fs.store, fs_asker_session(), &text);

	if (err)
		return err;
	if (fs.mountpoint)
		err = buf_printf(out, "mount        %s on %s, %s, tabletfs %s; %llu bytes written but not yet committed\n",
			fs.source, fs.mountpoint, fs.read_only ? "read-only" : "read-write", PACKAGE_VERSION,
			(unsigned long long)stage_memory_used());
	else
		err = buf_printf(out, "mount        none: %s is served by tabletfs-server %s\n", fs.source, PACKAGE_VERSION);
	if (err == 0)
		err = put_text(out, text);
	else
		free(text);
	return err ? err : put_clients(out, put_client_status);
}

int admin_render_config(struct node *n, struct buf *out)
{
	char *text = NULL;
	int err = tfs_config(fs.store, &text);

	return err ? err : put_text(out, text);
}

int admin_apply_config(struct node *n, struct tfs_bytes text, const struct caller *caller, struct changes *c)
{
	char *why = NULL;
	int err = tfs_config_change(fs.store, text, &why);

	if (err)
		refuse(err, n, NULL, "%s", why ? why : "the settings were not changed");
	free(why);
	return err;
}

/*
 * A border, as ls shows the row that begins there; "-" for the ends of the table, because an empty field
 * is white space for a shell.  So the row "-" is %2D.
 * Control characters that names contain are escaped, because the text is shown on
 * terminals.
 */
static int put_border(struct buf *out, struct tfs_bytes b)
{
	struct buf name = {0};
	int err;

	if (!b.n)
		return buf_u8(out, '-');
	if (bytes_eq(b, TFS_S("-")))
		return buf_printf(out, "%%2D");
	err = name_encode(NAME_ROW, b, 0, &name);
	for (size_t i = 0; i < name.n && !err;) {
		size_t hidden = control_length(name.p + i, name.n - i), n = hidden ? hidden : utf8_length(name.p + i, name.n - i);

		for (n = n ? n : 1; n && !err; n--, i++)
			err = hidden ? buf_printf(out, "%%%02X", name.p[i]) : buf_u8(out, name.p[i]);
	}
	buf_fini(&name);
	return err;
}

/* Appends the control character that put_border() has escaped at the start of s.  Returns its length there, 0: there is none. */
static size_t unescape_control(struct tfs_bytes s, struct buf *out)
{
	const size_t most = s.n / 3 < 3 ? s.n / 3 : 3, before = out->n;
	size_t n = 0, length = 0;

	while (n < most && s.p[3 * n] == '%' && name_unescape(tfs_bytes_of(s.p + 3 * n, 3), out) == 0)
		n++;
	if (n > 1 && out->p[before] >= 0x80)
		length = control_length(out->p + before, n);
	out->n = before + length;
	return 3 * length;
}

/* The key of a row that is named as ls or put_border() shows it.  -ENOENT: it is no such name. */
static int border_key(struct tfs_bytes shown, struct buf *key)
{
	struct buf name = {0};
	int err = buf_reserve(&name, shown.n + 3);

	if (bytes_eq(shown, TFS_S("%2D")))
		shown = TFS_S("-");
	while (shown.n && !err) {
		size_t n = unescape_control(shown, &name);

		if (!n) {
			err = buf_u8(&name, *shown.p);
			n = 1;
		}
		shown = tfs_bytes_of(shown.p + n, shown.n - n);
	}
	if (!err)
		err = name_decode_row(buf_bytes(&name), key); /* the parts of a split name are joined by slashes */
	buf_fini(&name);
	return err;
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

static int put_split(void *arg, const struct tfs_tablet *t)
{
	return splits_add(arg, t->end, t->server, t->bytes);
}

int admin_render_splits(struct node *n, struct buf *out)
{
	struct tfs_table *t = node_store_table(n);
	const unsigned number = setting_number(node_name(n));
	struct splits splits = {.out = out};
	const struct tfs_schema *s;
	int err = tfs_schema_get(t, &s);

	if (err)
		return err;
	splits.salted = s->salt_in_use > 0;
	tfs_schema_put(s);
	err = number ? tfs_splits(t, number, put_split, &splits) : tfs_tablets(t, put_split, &splits);
	splits_fini(&splits);
	return err;
}

int admin_each_table(int (*fn)(struct tfs_table *t))
{
	char names[16][TFS_NAME_MAX + 1], after[TFS_NAME_MAX + 1] = "";
	int n;

	while ((n = tfs_table_list(fs.store, after, names, 16)) > 0) {
		for (int i = 0; i < n; i++) {
			struct tfs_table *t;
			int r = tfs_table_open(fs.store, names[i], &t);

			if (r == -ENOENT || r == -EBADMSG) /* just dropped, or its schema is damaged */
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
static void drop_kernel_row(struct node *view, struct tfs_bytes row, struct changes *c)
{
	struct node *holder = view, *below;
	struct tfs_bytes name, at = {0};
	struct buf path = {0};
	bool last = false;

	if (name_encode(NAME_ROW, row, 0, &path))
		goto out;
	node_hold(view);
	while (!last && holder && name_component(buf_bytes(&path), at, &name, &last)) {
		at = tfs_bytes_of(path.p, (size_t)(name.p + name.n - path.p));
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

/* The arguments of a verb. */
struct acting {
	struct node *n;              /* the control file */
	const struct caller *caller; /* the user who opened it */
	struct tfs_table *
		t; /* on behalf of the caller: the server and the master check the verb.  NULL: the control file belongs to no table */
};

static int drop_rows(const struct acting *a, struct tfs_bytes prefix, struct changes *c)
{
	struct node *n = a->n;
	struct node *table = node_table(n), *latest = node_find(table, NODE_LATEST, tfs_bytes_of(NULL, 0), 0);
	struct tfs_table *t = node_store_table(n);
	struct tfs_scan_spec spec = {.what = TFS_SCAN_ROWS, .row_from = prefix};
	struct tfs_scan *scan = NULL;
	struct tfs_cell cell;
	int r;

	/* The server would check the families, but the table's owner may remove all rows. */
	r = fs_owns_table(a->caller, n) ? permit_data(table, NULL, NODE_ROW, true) : -EACCES;
	if (!r)
		r = tfs_scan_new(t, &spec, &scan);
	if (r)
		goto out;
	while ((r = tfs_scan_next(scan, &cell)) > 0 && bytes_has_prefix(cell.row, prefix)) {
		struct tfs_mutation *m = tfs_mutation_new(t, cell.row);

		r = m ? tfs_mutation_delete_row(m) : -ENOMEM;
		if (r == 0)
			r = tfs_apply(m, 0, NULL);
		tfs_mutation_free(m);
		if (r == 0 && fs_is_interrupted(NULL))
			r = -EINTR;
		if (r)
			break;
		drop_kernel_row(table, cell.row, c);
		if (latest)
			drop_kernel_row(latest, cell.row, c);
	}
	tfs_scan_free(scan);
	if (r >= 0)
		made_drop_rows(table, prefix, c);
	c->entries_first = true; /* no process holds a directory's lock during a verb */
	atomic_fetch_add(&fs.changes, 1);
	table_new_epoch(table);
	dir_time_raise_table(table);
	changes_table(c, table);
out:
	node_put(latest);
	return r < 0 ? r : 0;
}

static bool line_is_verb(struct tfs_bytes line, const char *name, struct tfs_bytes *argument)
{
	size_t n = strlen(name);

	if (!bytes_has_prefix(line, tfs_str(name)) || (line.n > n && line.p[n] != ' '))
		return false;
	*argument = line.n > n ? tfs_bytes_of(line.p + n + 1, line.n - n - 1) : tfs_bytes_of(NULL, 0);
	return true;
}

/* Results of a verb besides 0 and -errno.  refuse_line logs the reason and returns -errno. */
enum { NO_SUCH_VERB = 1, NO_ROW, NO_RANGE, NO_TABLE, TABLE_EXISTS, NO_CLIENT };

static int refuse_line(struct node *n, struct tfs_bytes line, int r)
{
	static const struct {
		int result, err;
		const char *reason;
	} reasons[] = {
		{NO_SUCH_VERB, -EINVAL, "no such verb"},
		{NO_ROW, -EINVAL, "the name of a row is missing"},
		{NO_RANGE, -EINVAL, "the table is salted, and no row is stored with this byte in front"},
		{NO_TABLE, -EINVAL, "the name of the new table is missing or not valid"},
		{NO_CLIENT, -EINVAL, "no client has this number, or it is not refused"},
		{TABLE_EXISTS, -EEXIST, "there is such a table already"},
		{-EINVAL, -EINVAL, "not the name of a row"},
		{-EEXIST, -EINVAL, "a tablet begins there already"},
		{-ENOENT, -EINVAL, "there is no tablet after it, or the table was dropped"},
		{-ECANCELED, -EINTR, "the mount ends"},
		{-EINTR, -EINTR, "the mount ends; the other rows are still there"},
		{-E2BIG, -E2BIG, "row keys too long to merge the tablet's list of files"},
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if (reasons[i].result == r)
			return refuse(reasons[i].err, n, NULL, "%s: %s", reasons[i].reason, Q(line));
	return refuse(r, n, NULL, "%s", Q(line));
}

/* Returns NO_RANGE if the table is salted and the key's first byte is not a salt, 0, -errno. */
static int in_a_range(struct tfs_table *t, struct tfs_bytes key)
{
	const struct tfs_schema *s;
	int r = tfs_schema_get(t, &s);

	if (r == 0) {
		r = s->salt_in_use && key.p[0] >= s->salt_in_use ? NO_RANGE : 0;
		tfs_schema_put(s);
	}
	return r;
}

/* ---- verbs ---- */

struct verb {
	const char *name, *argument; /* argument as the list of verbs names it, or NULL */
	const char *help;
	/* One of these. */
	int (*of_table)(struct tfs_table *t); /* called for each table if the verb is in the mount's root */
	int (*of_store)(struct tfs_store *s);
	int (*run)(const struct acting *a, struct tfs_bytes argument, struct changes *c);
	bool of_row; /* the argument is the name of a row, as ls shows it; run gets the key */
};

static int split_verb(const struct acting *a, struct tfs_bytes row, struct changes *c)
{
	int r = in_a_range(a->t, row);

	return r ? r : tfs_split(a->t, row);
}

static int merge_verb(const struct acting *a, struct tfs_bytes row, struct changes *c)
{
	return tfs_merge(a->t, row);
}

/* A new table with the rows of the table or snapshot in whose .ctl the verb was written. */
static int clone_verb(const struct acting *a, struct tfs_bytes name, struct changes *c)
{
	char copy[TFS_NAME_MAX + 1];
	int r;

	if (name.n == 0 || name.n > TFS_NAME_MAX)
		return NO_TABLE;
	/* As for mkdir in the root. */
	if (a->caller->user.uid != 0 && a->caller->user.uid != fs.uid)
		return refuse(-EACCES, node_root(), NULL, "only the user who mounted may make tables");
	memcpy(copy, name.p, name.n);
	copy[name.n] = 0;
	r = tfs_table_clone(a->t, copy);
	if (r == 0)
		changes_listing(c, node_root());
	return r == -EINVAL ? NO_TABLE : r == -EEXIST ? TABLE_EXISTS : r;
}

static int truncate_verb(const struct acting *a, struct tfs_bytes argument, struct changes *c)
{
	return admin_truncate(a->n, a->t, c);
}

static int refuse_client(struct tfs_bytes number, bool refuse)
{
	int64_t client;
	int r = bytes_int64(number, &client) && client > 0 ? tfs_client_refuse(fs.store, (uint64_t)client, refuse) : -ENOENT;

	return r == -ENOENT ? NO_CLIENT : r;
}

static int disconnect_verb(const struct acting *a, struct tfs_bytes argument, struct changes *c)
{
	return refuse_client(argument, true);
}

static int allow_verb(const struct acting *a, struct tfs_bytes argument, struct changes *c)
{
	return refuse_client(argument, false);
}

static const struct verb table_verbs[] = {
	{"flush", NULL, "write the memtables to SSTables", tfs_flush},
	{"compact", NULL, "do a major compaction of each tablet", tfs_compact},
	{"purge", NULL, "remove from the disk what was deleted, and the kept changes", tfs_purge},
	{"split", "ROW", "begin a tablet at the row", .run = split_verb, .of_row = true},
	{"merge", "ROW", "join the tablet of the row and the next one", .run = merge_verb, .of_row = true},
	{"drop-rows", "PREFIX", "delete the rows that begin with it", .run = drop_rows, .of_row = true},
	{"truncate", NULL, "delete all rows", .run = truncate_verb},
	{"clone", "TABLE", "make a new table with the same rows", .run = clone_verb},
	{0},
};
static const struct verb snapshot_verbs[] = {
	{"clone", "TABLE", "make a new table with the same rows", .run = clone_verb},
	{0},
};
static const struct verb system_verbs[] = {
	{"flush", NULL, "write the memtables of all tables to SSTables", tfs_flush},
	{"compact", NULL, "do a major compaction of all tables", tfs_compact},
	{"sync", NULL, "wait until all acknowledged changes are on disk", .of_store = tfs_sync},
	{"confirm-clock", NULL, "trust the present time of the system", .of_store = tfs_confirm_clock},
	{"disconnect", "N", "end a client of /.tabletfs/clients, and refuse it for a minute", .run = disconnect_verb},
	{"allow", "N", "let a client in again that was disconnected", .run = allow_verb},
	{0},
};

/* The verbs of a control file. */
static const struct verb *verbs_of(struct node *n)
{
	return !node_table(n) ? system_verbs : n->parent->kind == NODE_SNAPSHOT ? snapshot_verbs : table_verbs;
}

static int run_verb(const struct verb *v, const struct acting *a, struct tfs_bytes argument, struct changes *c)
{
	struct buf row = {0};
	int r;

	if (v->of_store)
		return v->of_store(fs.store);
	if (v->of_table)
		return a->t ? v->of_table(a->t) : admin_each_table(v->of_table);
	if (!v->of_row)
		return v->run(a, argument, c);
	if (!argument.n)
		return NO_ROW;
	/* The first tablet, as .tablets shows where it begins. */
	r = v->run == merge_verb && bytes_eq(argument, TFS_S("-")) ? 0 : border_key(argument, &row);
	if (r == -ENOENT)
		r = -EINVAL;
	if (r == 0)
		r = v->run(a, buf_bytes(&row), c);
	buf_fini(&row);
	return r;
}

static int run_line(const struct acting *a, struct tfs_bytes line, struct changes *c)
{
	struct tfs_bytes argument;

	for (const struct verb *v = verbs_of(a->n); v->name; v++)
		if (line_is_verb(line, v->name, &argument))
			return v->argument || !argument.n ? run_verb(v, a, argument, c) : NO_SUCH_VERB;
	return NO_SUCH_VERB;
}

int admin_apply_verbs(struct node *n, struct tfs_bytes text, const struct caller *caller, struct changes *c)
{
	struct acting a = {.n = n, .caller = caller};
	struct tfs_bytes line;
	int r = node_table(n) ? fs_table_as_caller(caller, n, &a.t) : 0;

	if (r)
		return r;
	while (r == 0 && bytes_line(&text, &line)) {
		if (line.n)
			r = run_line(&a, line, c);
		if (r)
			r = refuse_line(n, line, r);
	}
	if (a.t)
		tfs_table_close(a.t);
	return r;
}

int admin_render_verbs(struct node *n, struct buf *out)
{
	int err = 0;

	for (const struct verb *v = verbs_of(n); v->name && !err; v++)
		err = buf_printf(out, "%s%s%-*s %s\n", v->name, v->argument ? " " : "",
			(int)(17 - strlen(v->name) - (v->argument ? 1 : 0)), v->argument ? v->argument : "", v->help);
	return err;
}

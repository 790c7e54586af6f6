/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients' work (work.h).  Values are unique, so that the checker can tell
 * which write a read saw.  A row has four columns of one family: a (appends),
 * n (a counter), v and w (values).
 */
#include "t/sim/work.h"
#include "engine/client/call.h"
#include "engine/meta/meta.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { A, N, V, W };
static const char *const columns[LIN_COLUMNS] = {"a", "n", "v", "w"};
#define TABLE "t"
enum { ROWS_MOST = 32 };
#define SCAN_BATCH_BYTES 1024u /* more than a row has, less than the table */

/* The value of column v that a client last read or wrote: a check of it often holds.  By row. */
static char known[ROWS_MOST][32];

struct work work;

static void row_name(char row[16], unsigned i)
{
	snprintf(row, 16, "row%02u", i);
}

static const char *family_of(unsigned column)
{
	return work.groups && column >= V ? "e" : "f";
}

void work_table(struct node *client)
{
	struct tfs_table *t = NULL;
	char text[200];
	int err;

	snprintf(text, sizeof(text), "%sfamilies = ( { name = \"f\"; }%s );%s", work.salted ? "salt = 3; " : "",
		work.groups ? ", { name = \"e\"; group = \"g\"; }" : "", work.groups ? " groups = ( { name = \"g\"; } );" : "");

	do {
		err = tfs_table_create(client->store, TABLE, 0, 0, 0755);
		if (!err || err == -EEXIST)
			err = tfs_table_open(client->store, TABLE, &t);
		if (!err) {
			err = tfs_schema_set_text(t, tfs_str(text), TFS_NO_TIME, NULL);
			tfs_table_close(t);
		}
		if (err) {
			sim_trace("the table: %s", strerror(-err));
			sim_sleep(200000);
		}
	} while (err);
	sim_trace("the table is made");
	work.table_made = 1;
}

/* Which row has this name?  ROWS_MOST: none. */
static unsigned row_number(struct tfs_bytes name)
{
	char row[16];

	for (unsigned i = 0; i < work.rows && i < ROWS_MOST; i++) {
		row_name(row, i);
		if (name.n == strlen(row) && !memcmp(name.p, row, name.n))
			return i;
	}
	return ROWS_MOST;
}

static void know(struct tfs_bytes row, const char *value)
{
	unsigned i = row_number(row);

	if (i < ROWS_MOST)
		snprintf(known[i], sizeof(known[i]), "%s", value ? value : "");
}

/* ---- one operation ---- */

/* Errors that prove that nothing was applied (tfs_apply).  After all others it may have been. */
static enum lin_outcome outcome_of(int err, bool has_check)
{
	switch (err) {
	case 0:
		return LIN_OK;
	case -ECANCELED:
		return has_check ? LIN_FAILED : LIN_DOUBT;
	case -EINVAL:
	case -ENOENT:
	case -ENOMEM:
	case -ENOSPC:
		return LIN_NONE;
	default:
		return LIN_DOUBT;
	}
}

/*
 * Operations without an answer.  The client begins an epoch then.  So none of them is
 * applied after a later answer to the same client about the row.
 */
static struct doubt {
	struct lin_op *op;
	unsigned client, row;
} doubts[64];

static void doubts_end(unsigned client, unsigned row, bool answered)
{
	for (unsigned i = 0; i < sizeof(doubts) / sizeof(doubts[0]); i++) {
		struct doubt *d = &doubts[i];

		if (!d->op || d->client != client || (answered && d->row != row))
			continue;
		if (answered)
			d->op->answered = (int64_t)sim_now();
		d->op = NULL;
	}
}

static void doubt_begins(struct lin_op *op, unsigned row)
{
	static unsigned next;

	doubts[next++ % (sizeof(doubts) / sizeof(doubts[0]))] = (struct doubt){op, op->client, row};
}

static void finish(struct lin_op *op, const char *row, int err)
{
	const char *v = op->kind == LIN_PUT ? op->value : op->found[V];
	static const char *const kinds[] = {"read", "put", "delete", "append", "increment"};
	uint64_t took = sim_now() - (uint64_t)op->called;

	op->outcome = outcome_of(err, op->check != 0);
	if (op->outcome == LIN_FAILED && cluster.blind)
		op->outcome = LIN_NONE; /* it has read without a lease, and changed nothing */
	if (op->outcome != LIN_DOUBT)
		op->answered = (int64_t)sim_now();
	if (op->kind == LIN_READ && err)
		op->outcome = LIN_NONE;
	if (op->outcome == LIN_DOUBT && err == -ETIMEDOUT && !work.doubts_last)
		doubt_begins(op, row_number(tfs_str(row)));
	else if (!err)
		doubts_end(op->client, row_number(tfs_str(row)), true);
	if (!err && op->columns & (1u << V) && (op->kind == LIN_READ || op->kind == LIN_PUT))
		know(tfs_str(row), v);
	work.ops++;
	work.errors += err && err != -ECANCELED;
	if (took > work.longest_us)
		work.longest_us = took;
	sim_trace("%s %s columns %x %s %lld: %s", kinds[op->kind], row, op->columns, op->value ? op->value : "", (long long)op->by,
		err ? strerror(-err) : "ok");
}

static int read_column(struct tfs_table *t, const char *row, unsigned column, struct lin_op *op)
{
	size_t got = 0, size = 64 << 10;
	char *text = malloc(size);
	int err = tfs_read(t, tfs_str(row), family_of(column), tfs_str(columns[column]), TFS_AUTO, 0, text, size, &got, NULL);

	op->found[column] = NULL;
	if (!err)
		op->found[column] = lin_text(work.record, text, got);
	free(text);
	return err == -ENOENT ? 0 : err;
}

static void keep_cell(struct lin_op *op, const struct tfs_cell *cell)
{
	for (unsigned i = 0; i < LIN_COLUMNS; i++)
		if (cell->qualifier.n == 1 && *(const char *)cell->qualifier.p == *columns[i])
			op->found[i] = lin_text(work.record, cell->value.p, cell->value.n);
}

static int read_row(struct tfs_table *t, const char *row, struct lin_op *op)
{
	struct tfs_scan_spec spec = {.row_from = tfs_str(row), .one_row = true, .versions = 1};
	struct tfs_scan *s = NULL;
	struct tfs_cell cell;
	int err = tfs_scan_new(t, &spec, &s), n = 0;

	if (err)
		return err;
	for (unsigned i = 0; i < LIN_COLUMNS; i++)
		op->found[i] = NULL;
	while ((n = tfs_scan_next(s, &cell)) > 0)
		keep_cell(op, &cell);
	tfs_scan_free(s);
	return n;
}

static int do_read(struct tfs_table *t, const char *row, unsigned client, unsigned which)
{
	bool scan = which >= LIN_COLUMNS;
	struct lin_op say = {
		.kind = LIN_READ, .client = client, .columns = scan ? 15 : 1u << which, .seen = scan ? 15 : 1u << which};
	struct lin_op *op = lin_called(work.record, row, &say, (int64_t)sim_now());
	int err = scan ? read_row(t, row, op) : read_column(t, row, which, op);

	finish(op, row, err);
	return err;
}

/* A scan of the table is a read of each row at some time of the scan. */
static void do_scan(struct tfs_table *t, unsigned client)
{
	struct tfs_scan_spec spec = {.versions = 1, .batch_bytes = SCAN_BATCH_BYTES};
	struct lin_op rows[ROWS_MOST] = {0}, none = {0};
	int64_t since = (int64_t)sim_now();
	struct tfs_scan *s = NULL;
	struct tfs_cell cell;
	int err = tfs_scan_new(t, &spec, &s), n = 0;

	while (!err && (n = tfs_scan_next(s, &cell)) > 0) {
		unsigned i = row_number(cell.row);

		keep_cell(i < ROWS_MOST ? &rows[i] : &none, &cell);
		if (work.slow && sim_chance(40))
			sim_sleep(50000000 + sim_random(20000000)); /* servers forget scans after 60 s */
	}
	tfs_scan_free(s);
	err = err ? err : n;
	for (unsigned i = 0; i < work.rows && i < ROWS_MOST; i++) {
		struct lin_op *op;
		char row[16];

		row_name(row, i);
		rows[i].client = client;
		rows[i].columns = rows[i].seen = 15;
		op = lin_called(work.record, row, &rows[i], since);
		finish(op, row, err);
	}
}

/* Adds the operation of one column to the mutation. */
static void add_op(struct tfs_mutation *m, const struct lin_op *op, unsigned column)
{
	struct tfs_bytes q = tfs_str(columns[column]);
	const char *family = family_of(column);
	int err = 0;

	switch (op->kind) {
	case LIN_PUT:
		err = tfs_mutation_put(m, family, q, TFS_AUTO, tfs_str(op->value));
		break;
	case LIN_DELETE:
		err = tfs_mutation_delete_column(m, family, q);
		break;
	case LIN_APPEND:
		err = tfs_mutation_write(m,
			&(struct tfs_write){.family = family,
				.qualifier = q,
				.base = TFS_BASE_NEWEST,
				.truncate_to = UINT64_MAX,
				.append = tfs_str(op->value),
				.place = TFS_AUTO});
		break;
	case LIN_INCREMENT:
		err = tfs_mutation_increment(m, family, q, op->by);
		break;
	case LIN_READ:
		break;
	}
	if (err)
		sim_fail("no memory for a mutation");
}

static int do_change(struct tfs_table *t, const char *row, const struct lin_op *say)
{
	struct lin_op *op = lin_called(work.record, row, say, (int64_t)sim_now());
	struct tfs_mutation *m = tfs_mutation_new(t, tfs_str(row));
	struct tfs_result results[LIN_COLUMNS + 1] = {0};
	unsigned n = 0;
	int err = 0;

	if (op->check) {
		struct tfs_bytes q = tfs_str(columns[op->check - 1]);

		if (op->expect)
			err = tfs_mutation_check(m, TFS_CHECK_VALUE, family_of(op->check - 1), q, TFS_AUTO, tfs_str(op->expect));
		else
			err = tfs_mutation_check(m, TFS_CHECK_ABSENT, family_of(op->check - 1), q, TFS_AUTO, (struct tfs_bytes){0});
		n++;
	}
	for (unsigned i = 0; i < LIN_COLUMNS; i++)
		if (op->columns & (1u << i))
			add_op(m, op, i);
	if (!err)
		err = tfs_apply(m, sim_chance(2) ? TFS_APPLY_SYNC : 0, results);
	for (unsigned i = 0; i < LIN_COLUMNS && !err; i++) {
		if (!(op->columns & (1u << i)))
			continue;
		if (op->kind == LIN_INCREMENT) {
			char text[32];

			snprintf(text, sizeof(text), "%lld", (long long)results[n].counter);
			op->seen |= 1u << i;
			op->found[i] = lin_text(work.record, text, strlen(text));
		}
		op->hint = results[n].commit_us;
		n++;
	}
	tfs_mutation_free(m);
	finish(op, row, err);
	return err;
}

/* ---- mutations of several rows ---- */

struct batch {
	struct lin_op *ops[ROWS_MOST]; /* one for each row at most */
	int errs[ROWS_MOST];
};

static void batch_failed(void *arg, struct tfs_bytes row, int err)
{
	struct batch *b = arg;
	unsigned i = row_number(row);

	if (i == ROWS_MOST)
		sim_fail("a batch reports a row that was not in it");
	b->errs[i] = err;
}

/* Writes a value to each of some rows. */
static void do_batch(struct tfs_table *t, const struct lin_op *say)
{
	struct batch b = {0};
	const struct tfs_batch_options o = {.failed = batch_failed, .arg = &b, .threads = 2, .sync = true};
	struct tfs_batch *batch = NULL;
	int err = tfs_batch_new(t, &o, &batch);
	char row[16];

	if (err)
		return;
	for (unsigned i = 0; i < work.rows && i < ROWS_MOST; i++) {
		struct tfs_mutation *m;

		if (!sim_chance(2))
			continue;
		row_name(row, i);
		m = tfs_mutation_new(t, tfs_str(row));
		for (unsigned c = 0; c < LIN_COLUMNS; c++)
			if (say->columns & (1u << c))
				add_op(m, say, c);
		b.ops[i] = lin_called(work.record, row, say, (int64_t)sim_now());
		err = tfs_batch_add(batch, m);
		tfs_mutation_free(m);
		if (err)
			b.errs[i] = err;
	}
	err = tfs_batch_close(batch);
	for (unsigned i = 0; i < ROWS_MOST; i++)
		if (b.ops[i]) {
			row_name(row, i);
			finish(b.ops[i], row, b.errs[i]);
			if (b.errs[i] && !err)
				sim_fail("a batch with a failed row returned no error");
		}
}

/* ---- a client ---- */

/* A split, a merge, a flush or a compaction.  Errors do not matter. */
static void do_move(struct tfs_table *t, const char *row)
{
	int err;

	switch (cluster.busy ? sim_random(6) / 2 : sim_random(4)) {
	case 0:
		err = tfs_split(t, tfs_str(row));
		sim_trace("split at %s: %s", row, strerror(-err));
		break;
	case 1:
		err = tfs_merge(t, tfs_str(row));
		sim_trace("merge at %s: %s", row, strerror(-err));
		break;
	case 2:
		err = tfs_flush(t);
		sim_trace("flush: %s", strerror(-err));
		break;
	default:
		err = tfs_compact(t);
		sim_trace("compact: %s", strerror(-err));
		break;
	}
}

static void one_operation(struct node *client, struct tfs_table *t, unsigned *number)
{
	struct lin_op op = {.client = client->number};
	char row[16], value[32], expect[sizeof(known[0])];

	row_name(row, (unsigned)sim_random(work.rows));
	snprintf(value, sizeof(value), "%u.%u;", client->number, ++*number);
	op.value = value;
	if (sim_chance(20)) {
		do_scan(t, client->number);
		return;
	}
	/* If the check fails, no log has the operation: a late copy may be carried out after the tablet has moved away and back. */
	if (cluster.moves > 8 && sim_chance(3)) {
		op.kind = sim_chance(4) ? LIN_DELETE : LIN_PUT;
		op.columns = 1u << (op.kind == LIN_PUT ? W : V);
		op.check = op.kind == LIN_PUT ? 1 + V : 0;
		op.value = op.kind == LIN_PUT ? value : NULL;
		do_change(t, row, &op);
		return;
	}
	switch (sim_random(12)) {
	case 0:
	case 1:
	case 2:
		do_read(t, row, client->number, (unsigned)sim_random(LIN_COLUMNS));
		return;
	case 3:
	case 4:
		do_read(t, row, client->number, LIN_COLUMNS);
		return;
	case 5:
	case 6:
		op.kind = LIN_APPEND;
		op.columns = 1u << A;
		break;
	case 7:
	case 8:
		op.kind = LIN_INCREMENT;
		op.columns = 1u << N;
		op.by = 1 + (int64_t)sim_random(5);
		op.value = NULL;
		break;
	case 9:
		op.kind = LIN_DELETE;
		op.columns = 1 + (unsigned)sim_random(15);
		op.value = NULL;
		break;
	default:
		op.kind = LIN_PUT;
		op.columns = sim_chance(2) ? (1u << V | 1u << W) : 1u << (V + sim_random(2));
		break;
	}
	if (work.moves && sim_chance(cluster.busy ? 3 : 8)) {
		do_move(t, row);
		return;
	}
	if ((op.kind == LIN_APPEND || op.kind == LIN_PUT) && sim_chance(6)) {
		do_batch(t, &op);
		return;
	}
	if (op.kind != LIN_APPEND && sim_chance(3)) {
		unsigned i = row_number(tfs_str(row));

		op.check = 1 + V;
		if (i < ROWS_MOST && *known[i] && !sim_chance(8)) {
			memcpy(expect, known[i], sizeof(expect));
			op.expect = expect;
		}
	}
	do_change(t, row, &op);
}

void work_run(struct node *client)
{
	struct tfs_table *t = NULL;
	unsigned number = 0, reads = 0;
	char row[16];

	work.running++;
	while (!work.table_made)
		sim_sleep(100000);
	while (!work.stop) {
		if (work.slow && sim_chance(100)) /* servers and tablets forget a client after 120 s */
			client->idle_until_us = sim_now() + 110000000 + sim_random(20000000);
		if (client->idle_until_us > sim_now()) {
			sim_sleep(client->idle_until_us - sim_now());
			reads = work.rows; /* a server that the client knows may be a zombie by now */
		}
		if (!t && tfs_table_open(client->store, TABLE, &t))
			t = NULL;
		if (t && reads) {
			row_name(row, --reads);
			do_read(t, row, client->number, LIN_COLUMNS);
			continue;
		}
		if (t)
			one_operation(client, t, &number);
		if (t && sim_chance(30)) {
			tfs_table_close(t);
			t = NULL;
			doubts_end(client->number, 0, false);
			client_again(client);
		}
		sim_sleep(1 + sim_random(work.pause_us));
	}
	work.running--;
}

/* ---- tables, snapshots and clones; errors do not matter, because the state of the cluster is checked at the end ---- */

static void change_table(struct node *client, const char *name)
{
	const struct tfs_schema_edit family = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "g", .mode = 0644};
	struct tfs_table *t = NULL;
	struct tfs_mutation *m;
	int err = tfs_table_open(client->store, name, &t), made;

	if (err)
		return;
	made = tfs_schema_change(t, &family, NULL);
	m = tfs_mutation_new(t, TFS_S("row"));
	if (m && !tfs_mutation_put(m, "g", TFS_S("q"), TFS_AUTO, TFS_S("value")))
		err = tfs_apply(m, 0, NULL);
	if (!made && err == -EINVAL)
		sim_fail("table %s has a family that a server does not know", name);
	tfs_mutation_free(m);
	if (sim_chance(2))
		err = tfs_table_truncate(t, NULL);
	sim_trace("change of table %s: %s", name, strerror(-err));
	tfs_table_close(t);
}

/* A client asks a server to end the service of a tablet, as only a master may. */
static void ask_as_master(struct node *client)
{
	static const struct ts_request list = {.method = TS_LIST};
	struct node *n = node_find(SERVER, 1 + (unsigned)sim_random(4));
	struct ts_answer a = {0}, b = {0};
	int one = -EPERM;

	if (cluster.sole || !n || !n->serving)
		return;
	if (!ts_call(net_tablets(client->proc, &n->ep), &list, &a) && a.tablet_count) {
		const struct ts_request q = {
			.method = TS_UNLOAD, .tablets = &a.tablets[sim_random(a.tablet_count)], .tablet_count = 1};

		b.row_errs = &one;
		if (!ts_call(net_tablets(client->proc, &n->ep), &q, &b))
			sim_fail("%s unloads a tablet for a client", n->proc->name);
	}
	ts_answer_fini(&a);
	ts_answer_fini(&b);
}

/* Makes and drops a family of the table that the clients change: it blocks their writes for a moment. */
static void change_families(struct tfs_table *t)
{
	static const struct tfs_schema_edit add = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "h", .mode = 0644},
					    drop = {.op = TFS_SCHEMA_FAMILY_DROP, .name = "h"};
	int err = tfs_schema_change(t, &add, NULL);

	if (err == -EEXIST)
		err = tfs_schema_change(t, &drop, NULL);
	sim_trace("change of families: %s", strerror(-err));
}

/* A snapshot or a clone shows each row as of some time at which it was made. */
static void compare_copy(struct node *client, const char *table, const char *snapshot, int64_t since, int64_t until)
{
	struct tfs_table *t = NULL, *copy = NULL;
	struct lin_op rows[ROWS_MOST] = {0}, none = {0};
	struct tfs_scan_spec spec = {.versions = 1};
	struct tfs_scan *s = NULL;
	struct tfs_cell cell;
	int err = tfs_table_open(client->store, table, &t), n = 0;

	if (!err && snapshot)
		err = tfs_snapshot_open(t, snapshot, &copy);
	if (!err)
		err = tfs_scan_new(snapshot ? copy : t, &spec, &s);
	while (!err && (n = tfs_scan_next(s, &cell)) > 0) {
		unsigned i = row_number(cell.row);

		keep_cell(i < ROWS_MOST ? &rows[i] : &none, &cell);
	}
	tfs_scan_free(s);
	err = err ? err : n;
	for (unsigned i = 0; i < work.rows && i < ROWS_MOST && !err; i++) {
		struct lin_op *op;
		char row[16];

		row_name(row, i);
		rows[i].client = client->number;
		rows[i].columns = rows[i].seen = 15;
		op = lin_called(work.record, row, &rows[i], since);
		op->outcome = LIN_OK;
		op->answered = until;
	}
	sim_trace("comparison of %s %s: %s", table, snapshot ? snapshot : "", err ? strerror(-err) : "read");
	if (copy)
		tfs_table_close(copy);
	if (t)
		tfs_table_close(t);
}

void work_tables(struct node *client)
{
	struct tfs_table *t = NULL;

	work.running++;
	while (!work.stop) {
		char name[8];
		const int64_t since = (int64_t)sim_now();
		int err = 0;
		unsigned what = (unsigned)sim_random(7);

		snprintf(name, sizeof(name), "u%u", (unsigned)sim_random(3));
		if (!t && (!work.table_made || tfs_table_open(client->store, TABLE, &t)))
			t = NULL;
		switch (t ? what : 0) {
		case 0:
			err = tfs_table_create(client->store, name, 0, 0, 0755);
			break;
		case 1:
			err = tfs_table_drop(client->store, name);
			break;
		case 2:
			change_table(client, name);
			break;
		case 3:
			err = tfs_snapshot_create(t, name);
			break;
		case 4:
			err = tfs_snapshot_drop(t, name);
			break;
		case 5:
			change_families(t);
			break;
		default:
			err = tfs_table_clone(t, name);
			break;
		}
		sim_trace("tables: %u of %s: %s", what, name, strerror(-err));
		if (t && !err && (what == 3 || what == 6))
			compare_copy(client, what == 3 ? TABLE : name, what == 3 ? name : NULL, since, (int64_t)sim_now());
		if (sim_chance(4))
			ask_as_master(client);
		sim_sleep(1 + sim_random(2000000));
	}
	work.running--;
}

void work_last_block(struct node *client)
{
	const uint64_t until = sim_now() + 20000000;
	struct tfs_table *t = NULL;

	while (cluster.last_block && sim_now() < until) {
		if (!t && tfs_table_open(client->store, TABLE, &t))
			t = NULL;
		if (t)
			change_families(t);
		sim_sleep(100000);
	}
	if (t)
		tfs_table_close(t);
	cluster.last_block = false;
}

/* Only this client makes and drops the table, so each change is carried out once, or its outcome is unknown. */
void work_table_again(struct node *client)
{
	enum { ABSENT, PRESENT, UNKNOWN } state = ABSENT;

	work.running++;
	while (!work.last_row_read) {
		int err = tfs_table_create(client->store, "again", 0, 0, 0755);

		sim_trace("the table again: %s", strerror(-err));
		if (err == -EEXIST && state == ABSENT)
			sim_fail("a table was made, and its creation refused");
		state = !err || err == -EEXIST ? PRESENT : UNKNOWN;
		err = tfs_table_drop(client->store, "again");
		sim_trace("the table again, dropped: %s", strerror(-err));
		if (err == -ENOENT && state == PRESENT)
			sim_fail("a table was dropped, and its drop refused");
		state = !err || err == -ENOENT ? ABSENT : UNKNOWN;
		sim_sleep(1 + sim_random(200000));
	}
	work.running--;
}

unsigned work_read_all(struct node *client, uint64_t until)
{
	struct tfs_table *t = NULL;
	unsigned failed = 0;
	int err;

	while ((err = tfs_table_open(client->store, TABLE, &t)) && sim_now() < until)
		sim_sleep(200000);
	if (err)
		return work.rows;
	for (unsigned i = 0; i < work.rows; i++) {
		char row[16];

		row_name(row, i);
		while ((err = do_read(t, row, client->number, LIN_COLUMNS)) && sim_now() < until)
			sim_sleep(200000);
		failed += err != 0;
	}
	tfs_table_close(t);
	return failed;
}

unsigned work_change_all(struct node *client, uint64_t until)
{
	struct tfs_table *t = NULL;
	unsigned failed = 0;
	int err;

	while ((err = tfs_table_open(client->store, TABLE, &t)) && sim_now() < until)
		sim_sleep(200000);
	for (unsigned i = 0; i < work.rows && t; i++) {
		struct lin_op op = {.kind = LIN_APPEND, .client = client->number, .columns = 1u << A};
		char row[16], value[32];
		unsigned n = 0;

		row_name(row, i);
		do {
			snprintf(value, sizeof(value), "%u.last%u;", client->number, n++);
			op.value = value;
			err = do_change(t, row, &op);
		} while (err && sim_now() < until);
		failed += err != 0;
	}
	if (t)
		tfs_table_close(t);
	return t ? failed : work.rows;
}

static int compact_metadata(struct node *client)
{
	struct buf row = {0};
	bool last = false;
	int err = 0;

	while (!err && !last) {
		const struct ts_request q = {
			.method = TS_COMPACT, .table = META_TABLE, .row = tfs_bytes_of(row.n ? row.p : (const uint8_t *)"", row.n)};
		struct ts_answer a = {0};

		err = call_tablet_service(route_service(client->router), &q, &a);
		last = !a.tablet_end.p;
		if (!err && !last)
			err = buf_set(&row, a.tablet_end.p, a.tablet_end.n);
		ts_answer_fini(&a);
	}
	buf_fini(&row);
	return err;
}

void work_compact(struct node *client)
{
	struct tfs_table *t = NULL;
	int err = compact_metadata(client);

	if (!err)
		err = tfs_table_open(client->store, TABLE, &t);

	if (!err)
		err = tfs_compact(t);
	sim_trace("compaction: %s", strerror(-err));
	if (t)
		tfs_table_close(t);
}

size_t work_check(struct lin_totals *totals)
{
	return lin_record_check(work.record, columns, stderr, totals);
}

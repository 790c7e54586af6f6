/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a server in eight lines for an operator (server_status), and all
 * numbers as Prometheus text (server_metrics).  tabletfs-metrics(7) lists all
 * numbers, and a test (t/05) compares the list with this file.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/base/numbers.h"
#include "engine/base/units.h"
#include "engine/server/requests/requests.h"
#include "engine/server/storage/storage.h"
#include "engine/server/tablets/tablets.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <time.h>

#define NUMBERS_MAX 72

/* Sums the counter at an offset in tablet_env over the environments of root, METADATA and user tablets. */
static uint64_t counter_sum(struct server *s, size_t at)
{
	uint64_t sum = 0;

	for (unsigned k = 0; k < KINDS; k++)
		sum += atomic_load((const _Atomic uint64_t *)((const char *)environment_of(s, k) + at));
	return sum;
}
#define COUNTER(name) counter_sum(s, offsetof(struct tablet_env, name))

static struct table_counts count_tables(struct server *s)
{
	schemas_current(s);
	return tables_count(s);
}

/* Sets *us to how long, at most, a tablet has kept data that should have left the disk. */
static int deletion_overdue(struct server *s, uint64_t *us)
{
	struct served_tablet **list;
	unsigned count;
	int err = served_list(s, 0, &list, &count);

	if (err)
		return err;
	*us = 0;
	for (unsigned i = 0; i < count; i++) {
		uint64_t late = (uint64_t)tablet_overdue_us(list[i]->tablet);

		if (late > *us)
			*us = late;
	}
	served_list_put(list, count);
	return 0;
}

/* **used counts the bytes of the store, with its log and its reserve. */
/* An error calls attention for so long. */
#define ERROR_SHOWN_S 600

static int disk_numbers(struct server *s, uint64_t *used, uint64_t *size, uint64_t *available)
{
	struct statvfs v;
	int err = server_disk_bytes(s, used);

	if (err)
		return err;
	if (statvfs(s->o.data_dir, &v))
		return -errno;
	*size = (uint64_t)v.f_blocks * v.f_frsize;
	*available = (uint64_t)v.f_bavail * v.f_frsize;
	return 0;
}

static int put_causes(struct server *s, struct buf *out) TFS_MUST;

static int list_numbers(struct server *s, struct number *v, unsigned *count)
{
	struct sst_cache_stats c;
	struct served_sums sums;
	struct log_stats l;
	struct clock_state clock;
	uint64_t longest_us = 0, overdue_us = 0, used = 0, size = 0, available = 0;
	struct table_counts counts;
	struct buf causes = {0};
	bool attention;
	unsigned n = 0;
	int err = served_sum(s, &sums);

	if (!err)
		err = disk_numbers(s, &used, &size, &available);
	if (!err)
		err = deletion_overdue(s, &overdue_us);
	if (!err)
		err = put_causes(s, &causes);
	if (!err && causes.n)
		traffic_set_cause(s->traffic, buf_bytes(&causes));
	attention = causes.n > 0;
	buf_fini(&causes);
	if (err)
		return err;
	clock_get_state(s->o.clock, &clock);
	sst_cache_get_stats(s->cache, &c);
	log_get_stats(s->log, &l);
	counts = count_tables(s);
	for (unsigned k = 0; k < KINDS; k++)
		if (atomic_load(&environment_of(s, k)->retire_wait_longest_us) > longest_us)
			longest_us = atomic_load(&environment_of(s, k)->retire_wait_longest_us);
#define ADD(n_, h_, v_, g_) v[n++] = (struct number){n_, h_, v_, g_}
	ADD("incarnation", "number of this server process over the store's life", s->o.incarnation, true);
	ADD("tables", "tables", counts.tables, true);
	ADD("tables_salt_waits", "tables whose salt waits until they are empty", counts.salts_waiting, true);
	ADD("tablets", "tablets served, METADATA's included", sums.tablets, true);
	ADD("memtable_bytes", "memory of all memtables", memtables_bytes(s), true);
	ADD("memtable_limit_bytes", "bound of memtable_bytes", environment_of(s, KIND_USER)->memtable_bytes, true);
	ADD("block_cache_bytes", "uncompressed blocks in memory", c.block_bytes, true);
	ADD("block_cache_hits", "look-ups of a block that was in memory", c.block_hits, false);
	ADD("block_cache_misses", "look-ups of a block that was not in memory", c.block_misses, false);
	ADD("cell_cache_bytes", "single cells in memory, under the same bound", c.cell_bytes, true);
	ADD("cell_cache_hits", "look-ups of a column in an SSTable that found its newest cell in memory", c.cell_hits, false);
	ADD("cell_cache_misses", "look-ups of a column in an SSTable that used its index and blocks", c.cell_misses, false);
	ADD("cache_limit_bytes", "bound of block_cache_bytes and cell_cache_bytes together, without in-memory groups",
		c.block_bytes_max, true);
	ADD("in_memory_cache_bytes", "blocks and cells of in-memory groups in memory", c.memory_bytes, true);
	ADD("table_cache_bytes", "indexes, filters and dictionaries of open SSTables", c.table_bytes, true);
	ADD("table_cache_limit_bytes", "bound of table_cache_bytes", c.table_bytes_max, true);
	ADD("tables_open", "SSTables open", c.tables_open, true);
	ADD("blocks_read", "data blocks read from disk", c.blocks_read, false);
	ADD("bytes_read", "bytes of SSTables read from disk", c.bytes_read, false);
	ADD("sstable_opens", "SSTables opened", c.table_opens, false);
	ADD("bloom_probes", "Bloom filter look-ups", c.probes, false);
	ADD("bloom_misses", "Bloom filter look-ups that avoided a read", c.probe_misses, false);
	ADD("log_records", "records appended to the commit log", l.records, false);
	ADD("log_bytes_appended", "bytes appended to the commit log", l.bytes, false);
	ADD("log_groups", "group commits", l.groups, false);
	ADD("log_syncs", "syncs of the commit log", l.syncs, false);
	ADD("log_switches", "times that one log writer replaced the other", l.switches, false);
	ADD("log_retained_bytes", "records kept until a sync covers them", l.retained_bytes, true);
	ADD("log_size_bytes", "bytes of all segments", log_bytes(s->log), true);
	ADD("log_next_lsn", "log sequence number of the next record", log_next_lsn(s->log), true);
	ADD("log_durable_lsn", "log sequence number up to which all records are on disk", log_durable_lsn(s->log), true);
	ADD("log_records_lost",
		"whole records of the last mount's log that were not replayed, because an earlier record is damaged or missing",
		replays_lost(s), true);
	ADD("compactions_minor", "minor compactions", COUNTER(minor), false);
	ADD("compactions_merging", "merging compactions", COUNTER(merging), false);
	ADD("compactions_major", "major compactions", COUNTER(major), false);
	ADD("compactions_behind", "tablets with so many SSTables that writers are slowed down", sums.behind, true);
	ADD("request_failures", "requests for user tables that failed for damage, disk space or memory",
		traffic_failures(s->traffic), false);
	ADD("snapshots", "snapshots, one for each table that one was made of", counts.snapshots, true);
	ADD("snapshots_pinned_bytes", "bytes of SSTables that only snapshots use, or more", sums.pinned_bytes, true);
	ADD("tables_near_quota", "tables with more than nine tenths of their quota", counts.near_quota, true);
	ADD("attention", "1 while the status calls attention", attention, true);
	ADD("flushed_bytes", "bytes written by minor compactions", COUNTER(bytes_flushed), false);
	ADD("compacted_bytes_in", "bytes read by merging and major compactions", COUNTER(bytes_compacted_in), false);
	ADD("compacted_bytes_out", "bytes written by merging and major compactions", COUNTER(bytes_compacted_out), false);
	ADD("write_stalls", "writes slowed down", COUNTER(stalls), false);
	ADD("write_stall_us", "time by which writes were slowed down", COUNTER(stall_us), false);
	ADD("split_waits", "writes that waited for a split or merge of their tablet", COUNTER(retire_waits), false);
	ADD("split_wait_us", "time that writes waited for a split or merge of their tablet", COUNTER(retire_wait_us), false);
	ADD("split_wait_longest_us", "longest time that a write waited for a split or merge of its tablet", longest_us, true);
	ADD("snapshot_wait_longest_us", "longest time that a snapshot or clone held back the writes of its table",
		counts.held_longest_us, true);
	ADD("log_refusing", "1 while the commit log cannot be written, so that changes are refused", l.refusing != 0, true);
	ADD("damage", "damaged places of files that reads found since the start", msg_damage_count(), false);
	ADD("clock_held", "1 while the system's clock is not trusted, so that expired cells are kept", !clock.trusted, true);
	ADD("deletion_overdue_us", "time by which deleted data is on the disk for longer than major_within", overdue_us, true);
	ADD("store_bytes", "bytes that the store uses on its disk, with its log and its reserve", used, true);
	ADD("disk_size_bytes", "size of the file system of the data directory", size, true);
	ADD("disk_available_bytes", "bytes available on the file system of the data directory", available, true);
	ADD("reserve", "1 while the reserve for a full disk is whole", space_is_whole(s), true);
	ADD("disk_full", "1 while the disk is too full for puts", space_is_full(s), true);
#undef ADD
	*count = n;
	return 0;
}

/* ---- status.  The mount adds a line, and tabletctl status adds another line ---- */

static int put_state_line(struct server *s, struct buf *out)
{
	struct server_load l;
	char since[32];
	time_t started = traffic_since(s->traffic);
	struct tm tm;
	int err = server_get_load(s, &l);

	if (err)
		return err;
	strftime(since, sizeof(since), "%F %T %z", localtime_r(&started, &tm));
	return buf_printf(out, "state        %s since %s, incarnation %llu\n", l.state, since, (unsigned long long)l.incarnation);
}

/* file: a schema's file in the lock service. */
static int put_refused(struct buf *out, const char *file)
{
	const char *name = strchr(file, '/');

	return buf_printf(out, "%s %s is refused, its schema is damaged: tabletctl repair; ",
		strncmp(file, "snapshots/", 10) == 0 ? "snapshot" : "table", name ? name + 1 : file);
}

/* Appends the conditions that an operator must act upon, separated by "; ". */
static int put_causes(struct server *s, struct buf *out)
{
	struct table_counts counts = count_tables(s);
	const size_t before = out->n;
	int err = 0;

	for (unsigned i = 0; schemas_refused(s, i) && !err; i++)
		err = put_refused(out, schemas_refused(s, i));
	if (!err && replays_lost(s))
		err = buf_printf(out, "%llu records behind a damaged place in the log were lost at the start; ",
			(unsigned long long)replays_lost(s));
	if (!err && counts.salts_waiting)
		err = buf_printf(out, "salts that wait until their table is empty: %u; ", counts.salts_waiting);
	if (!err && space_is_full(s))
		err = buf_printf(out, "the disk is full: puts are refused until files are removed; ");
	if (!err && msg_damage_count())
		err = buf_printf(out, "damaged places of files: %u, see .tabletfs/log; ", msg_damage_count());
	else if (!err && time(NULL) - traffic_error_time(s->traffic) < ERROR_SHOWN_S)
		err = buf_printf(out, "errors since the start: %u, see .tabletfs/log; ", msg_error_count());
	if (!err)
		err = server_clock_attention(s, out);
	if (!err)
		err = server_commits_attention(s, out);
	if (!err && out->n > before)
		out->n -= strlen("; ");
	return err;
}

static int put_time(struct buf *out, time_t t)
{
	char text[32];
	struct tm tm;

	strftime(text, sizeof(text), "%F %T %z", localtime_r(&t, &tm));
	return buf_append(out, text, strlen(text));
}

/*
 * The causes, or "none" and the last cause with the time at which it was last seen.  A cause is seen when
 * the status or the metrics are read.
 */
static int put_attention_line(struct server *s, struct buf *out)
{
	struct buf causes = {0}, last = {0};
	time_t seen = 0;
	int err = put_causes(s, &causes);

	if (!err && causes.n)
		traffic_set_cause(s->traffic, buf_bytes(&causes));
	if (!err)
		err = buf_printf(out, "attention    ");
	if (!err)
		err = causes.n ? buf_append(out, causes.p, causes.n) : buf_printf(out, "none");
	if (!err && !causes.n) {
		err = traffic_cause(s->traffic, &last, &seen);
		if (!err && last.n)
			err = buf_printf(out, "; the last, until ") || put_time(out, seen) || buf_printf(out, ": ") ||
					buf_append(out, last.p, last.n)
				? -ENOMEM
				: 0;
	}
	buf_fini(&causes);
	buf_fini(&last);
	return err ? err : buf_u8(out, '\n');
}

static int put_tables_line(struct server *s, struct buf *out)
{
	struct table_counts n = count_tables(s);
	struct served_sums sums;
	int err = served_sum(s, &sums);

	if (err)
		return err;
	return buf_printf(out, "tables       %u, in %u tablets and %llu SSTables; %u snapshots\n", n.tables, sums.user_tablets,
		(unsigned long long)sums.user_files, n.snapshots);
}

static int put_disk_line(struct server *s, struct buf *out)
{
	char used[UNITS_SIZE_TEXT], free_bytes[UNITS_SIZE_TEXT];
	uint64_t bytes, size, available;
	int err = disk_numbers(s, &bytes, &size, &available);

	return err ? err
		   : buf_printf(out, "disk         %s used, %s available\n", units_size_text(bytes, used),
			     units_size_text(available, free_bytes));
}

static int put_memory_line(struct server *s, struct buf *out)
{
	char memtables[UNITS_SIZE_TEXT], most[UNITS_SIZE_TEXT], caches[UNITS_SIZE_TEXT], caches_most[UNITS_SIZE_TEXT],
		log[UNITS_SIZE_TEXT], unsynced[UNITS_SIZE_TEXT];
	struct sst_cache_stats c;
	struct log_stats l;

	sst_cache_get_stats(s->cache, &c);
	log_get_stats(s->log, &l);
	return buf_printf(out, "memory       memtables %s of %s, caches %s of %s; log %s, %s of it not yet synced\n",
		units_size_text(memtables_bytes(s), memtables), units_size_text(environment_of(s, KIND_USER)->memtable_bytes, most),
		units_size_text(c.block_bytes + c.cell_bytes + c.table_bytes, caches),
		units_size_text(c.block_bytes_max + c.table_bytes_max, caches_most), units_size_text(log_bytes(s->log), log),
		units_size_text(l.retained_bytes, unsynced));
}

static int put_requests_line(struct server *s, uint64_t watcher, struct buf *out)
{
	int err = buf_printf(out, "requests     ");

	if (!err)
		err = traffic_rates(s, watcher, out);
	return err ? err : buf_u8(out, '\n');
}

static int put_latency_line(struct server *s, struct buf *out)
{
	int err = buf_printf(out, "latency      reads ");

	if (!err)
		err = traffic_status(s, REQUEST_READ, out);
	if (!err)
		err = buf_printf(out, "; writes ");
	if (!err)
		err = traffic_status(s, REQUEST_WRITE, out);
	return err ? err : buf_u8(out, '\n');
}

static int put_compactions_line(struct server *s, struct buf *out)
{
	struct served_sums sums;
	int err = served_sum(s, &sums);

	if (err)
		return err;
	return buf_printf(out,
		"compactions  %u tablets behind; %llu minor, %llu merging, %llu major; %llu writes slowed, %llu ms\n", sums.behind,
		(unsigned long long)COUNTER(minor), (unsigned long long)COUNTER(merging), (unsigned long long)COUNTER(major),
		(unsigned long long)COUNTER(stalls), (unsigned long long)COUNTER(stall_us) / 1000);
}

int server_status(struct server *s, uint64_t watcher, struct buf *out)
{
	static int (*const first[])(struct server *, struct buf *) = {
		put_state_line, put_attention_line, put_tables_line, put_disk_line, put_memory_line};
	int err = 0;

	for (unsigned i = 0; i < sizeof(first) / sizeof(*first) && !err; i++)
		err = first[i](s, out);
	if (!err)
		err = put_requests_line(s, watcher, out);
	if (!err)
		err = put_latency_line(s, out);
	return err ? err : put_compactions_line(s, out);
}

/* ---- usage of tables and families ---- */
#define METADATA_LABEL ".METADATA" /* no table can have this name */

struct table_numbers {
	uint32_t table;
	char name[TFS_NAME_MAX + 1];
	struct store_schema *schema;
	uint64_t tablets, sstables, traffic[TABLE_TRAFFIC];
	uint64_t quota_used; /* on all servers */
	uint64_t changes_bytes;
	struct tablet_family all;
	struct tablet_family *families; /* by id */
	unsigned family_count;
	bool unread; /* the numbers of some tablets could not be read */
};

static void add_stats(struct tablet_family *to, const struct tablet_family *from)
{
	to->disk_bytes += from->disk_bytes;
	to->raw_bytes += from->raw_bytes;
	to->memory_bytes += from->memory_bytes;
	to->cells += from->cells;
	to->tombstones += from->tombstones;
}

/* Starts the sums of the table of `served`, one for each family of its schema.  Cells of dropped families count for the table only. */
static int begin_table(struct server *s, const struct served_tablet *served, struct table_numbers *t)
{
	*t = (struct table_numbers){.table = served->table, .name = METADATA_LABEL};
	if (!served->user_table)
		return 0;
	user_table_name(s, served->user_table, t->name);
	t->schema = user_table_schema(s, served->user_table);
	for (unsigned i = 0; i < TABLE_TRAFFIC; i++)
		t->traffic[i] = atomic_load(&served->user_table->traffic[i]);
	t->quota_used = quota_used(served->user_table);
	t->families = calloc(t->schema->family_count + 1u, sizeof(*t->families));
	if (!t->families)
		return -ENOMEM;
	t->family_count = t->schema->family_count;
	for (unsigned i = 0; i < t->family_count; i++)
		t->families[i].id = t->schema->families[i].id;
	return 0;
}

/* Adds a tablet's numbers to its table's. */
static int add_tablet(struct table_numbers *t, struct tablet *tablet)
{
	struct tablet_family *v, all;
	struct tablet_stats st;
	unsigned n;
	int err;

	tablet_get_stats(tablet, &st);
	all = (struct tablet_family){.disk_bytes = st.disk_bytes,
		.raw_bytes = st.raw_bytes,
		.memory_bytes = st.memory_bytes,
		.cells = st.cells,
		.tombstones = st.tombstones};
	add_stats(&t->all, &all);
	t->tablets++;
	t->sstables += st.files;
	t->changes_bytes += st.changes_disk_bytes + st.changes_memory_bytes;
	if (!t->schema || t->unread)
		return 0;
	err = tablet_families(tablet, &v, &n);
	if (err == -ENOMEM)
		return err;
	t->unread = err != 0;
	for (unsigned i = 0, k = 0; !err && i < n; i++) {
		while (k < t->family_count && t->families[k].id < v[i].id)
			k++;
		if (k < t->family_count && t->families[k].id == v[i].id)
			add_stats(&t->families[k], &v[i]);
	}
	if (!err)
		free(v);
	return 0;
}

struct usage_metric {
	const char *name, *help;
	size_t at; /* the member's offset in struct tablet_family */
};
static const struct usage_metric usage_metrics[] = {
	{"disk_bytes", "bytes of SSTables", offsetof(struct tablet_family, disk_bytes)},
	{"raw_bytes", "keys and values in SSTables, uncompressed", offsetof(struct tablet_family, raw_bytes)},
	{"memory_bytes", "memory of memtables", offsetof(struct tablet_family, memory_bytes)},
	{"cells", "cells stored, also those not yet collected", offsetof(struct tablet_family, cells)},
	{"tombstones", "deletes stored", offsetof(struct tablet_family, tombstones)},
};

/* Appends the HELP and TYPE lines of a metric. */
static int put_help(struct buf *out, const char *what, const char *name, const char *help, const char *type)
{
	return buf_printf(
		out, "# HELP tabletfs_%s_%s %s, of one %s\n# TYPE tabletfs_%s_%s %s\n", what, name, help, what, what, name, type);
}

static int put_table_metric(struct buf *out, const char *name, const struct table_numbers *t, uint64_t value)
{
	return buf_printf(out, "tabletfs_table_%s{table=\"%s\"} %llu\n", name, t->name, (unsigned long long)value);
}

static int put_traffic_metrics(struct buf *out, const struct table_numbers *v, unsigned n)
{
	static const struct traffic_metric {
		const char *name, *help;
	} metrics[TABLE_TRAFFIC] = {
		{"reads_total", "reads of a cell or a row"},
		{"writes_total", "row mutations"},
		{"written_bytes_total", "keys and values of row mutations"},
		{"scanned_cells_total", "cells returned by scans"},
	};
	int err = 0;

	for (unsigned m = 0; m < TABLE_TRAFFIC && !err; m++) {
		err = put_help(out, "table", metrics[m].name, metrics[m].help, "counter");
		for (unsigned i = 0; i < n && !err; i++)
			if (v[i].schema)
				err = put_table_metric(out, metrics[m].name, &v[i], v[i].traffic[m]);
	}
	return err;
}

static int put_family_metrics(struct buf *out, const struct usage_metric *m, const struct table_numbers *t)
{
	int err = 0;

	for (unsigned i = 0; i < t->family_count && !t->unread && !err; i++)
		if (t->schema->families[i].name)
			err = buf_printf(out, "tabletfs_family_%s{table=\"%s\",family=\"%s\"} %llu\n", m->name, t->name,
				t->schema->families[i].name,
				(unsigned long long)*(const uint64_t *)((const char *)&t->families[i] + m->at));
	return err;
}

/* Of the tables that have a quota. */
static int put_quota_metrics(struct buf *out, const struct table_numbers *v, unsigned n)
{
	int err = put_help(out, "table", "quota_bytes", "the quota in the schema", "gauge");

	for (unsigned i = 0; i < n && !err; i++)
		if (v[i].schema && v[i].schema->quota)
			err = put_table_metric(out, "quota_bytes", &v[i], v[i].schema->quota);
	if (!err)
		err = put_help(out, "table", "quota_used_bytes", "bytes on all servers that count for the quota", "gauge");
	for (unsigned i = 0; i < n && !err; i++)
		if (v[i].schema && v[i].schema->quota)
			err = put_table_metric(out, "quota_used_bytes", &v[i], v[i].quota_used);
	return err;
}

static int put_tables_metrics(struct buf *out, const struct table_numbers *v, unsigned n)
{
	int err = put_help(out, "table", "tablets", "tablets", "gauge");

	for (unsigned i = 0; i < n && !err; i++)
		err = put_table_metric(out, "tablets", &v[i], v[i].tablets);
	if (!err)
		err = put_help(out, "table", "sstables", "SSTables, counted once for each tablet that uses them", "gauge");
	for (unsigned i = 0; i < n && !err; i++)
		err = put_table_metric(out, "sstables", &v[i], v[i].sstables);
	for (const struct usage_metric *m = usage_metrics; m < usage_metrics + sizeof(usage_metrics) / sizeof(*m) && !err; m++) {
		err = put_help(out, "table", m->name, m->help, "gauge");
		for (unsigned i = 0; i < n && !err; i++)
			err = put_table_metric(out, m->name, &v[i], *(const uint64_t *)((const char *)&v[i].all + m->at));
		if (!err)
			err = put_help(out, "family", m->name, m->help, "gauge");
		for (unsigned i = 0; i < n && !err; i++)
			err = put_family_metrics(out, m, &v[i]);
	}
	if (!err)
		err = put_help(out, "table", "changes_bytes", "bytes of the changes that are kept, on disk and in memory", "gauge");
	for (unsigned i = 0; i < n && !err; i++)
		if (v[i].schema)
			err = put_table_metric(out, "changes_bytes", &v[i], v[i].changes_bytes);
	if (!err)
		err = put_quota_metrics(out, v, n);
	return err ? err : put_traffic_metrics(out, v, n);
}

static int put_usage_metrics(struct server *s, struct buf *out)
{
	struct table_numbers *v = NULL;
	struct served_tablet **list;
	unsigned count, n = 0;
	int err = served_list(s, 0, &list, &count);

	if (err)
		return err;
	v = calloc(count + 1u, sizeof(*v));
	if (!v)
		err = -ENOMEM;
	for (unsigned i = 0; i < count && !err; i++) {
		if (list[i]->user_table && list[i]->user_table->frozen)
			continue;
		if (!n || v[n - 1].table != list[i]->table)
			err = begin_table(s, list[i], &v[n++]);
		if (!err)
			err = add_tablet(&v[n - 1], list[i]->tablet);
	}
	if (!err)
		err = put_tables_metrics(out, v, n);
	for (unsigned i = 0; i < n; i++) {
		free(v[i].families);
		store_schema_put(v[i].schema);
	}
	free(v);
	served_list_put(list, count);
	return err;
}

int server_metrics(struct server *s, struct buf *out)
{
	struct number v[NUMBERS_MAX];
	unsigned count;
	int err = list_numbers(s, v, &count);

	if (!err)
		err = numbers_metrics(v, count, out);
	if (!err)
		err = traffic_metrics(s, out);
	return err ? err : put_usage_metrics(s, out);
}

int server_get_load(struct server *s, struct server_load *out)
{
	struct served_sums sums;
	int err = served_sum(s, &sums);

	if (err)
		return err;
	*out = (struct server_load){
		.name = s->o.name,
		.state = atomic_load(&s->recovering) ? "LOADING"
			: atomic_load(&s->closing)   ? "CLOSING"
						     : "SERVING",
		.incarnation = s->o.incarnation,
		.bytes = sums.disk_bytes + sums.memory_bytes,
		.tablets = sums.tablets,
	};
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl dump: prints a log segment, an SSTable, METADATA or schemas, one
 * record a line, with bytes quoted.  Each is printed as far as it can be
 * decoded; the last line then names the part that cannot.
 */
#include "engine/cell/batch_format.h"
#include "engine/log/log_format.h"
#include "engine/tablet/props_format.h"
#include "engine/tool/store/offline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static const char *const kind_names[] = {
	[CELL_DELETE_ROW] = "delete-row",
	[CELL_DELETE_FAMILY] = "delete-family",
	[CELL_DELETE_COLUMN] = "delete-column",
	[CELL_DELETE_VERSION] = "delete-version",
	[CELL_VALUE] = "value",
};

static int print_failure(const char *path, int err)
{
	complain("%s: %s", path, err == -EBADMSG ? "damaged" : strerror(-err));
	return err == -EBADMSG ? EXIT_DAMAGED : EXIT_CANNOT;
}

/* Returns true if the 8 bytes at offset (from the end of the file, if from_end is set) are the magic; else prints an error. */
static bool has_magic(const char *what, const char *path, const char *magic, uint64_t offset, bool from_end)
{
	struct file *f = NULL;
	uint64_t size = 0;
	size_t got = 0;
	char text[8];
	int err = file_open(path, FILE_READ, &f);

	if (!err)
		err = file_size(f, &size);
	if (!err && size >= offset)
		err = file_pread(f, text, sizeof(text), from_end ? size - offset : offset, &got);
	file_close(f);
	if (err)
		complain("%s: %s", path, strerror(-err));
	else if (got != sizeof(text) || memcmp(text, magic, sizeof(text)) != 0)
		complain("%s: not %s", path, what);
	else
		return true;
	return false;
}

/* ---- a log segment ---- */

/* Prints the parts of a name that a cell or delete of this kind has. */
static void print_name(enum cell_kind kind, uint16_t family, struct tfs_bytes qualifier, int64_t ts)
{
	if (kind != CELL_DELETE_ROW)
		printf(" %u", family);
	if (kind != CELL_DELETE_ROW && kind != CELL_DELETE_FAMILY)
		printf(":%s@%" PRId64, quoted(qualifier), ts);
}

static void print_cells(struct tfs_bytes batch)
{
	struct batch_reader b;
	struct batch_cell c;
	int n = batch_open(&b, batch);

	if (n == 0)
		printf(" commit %" PRId64 " row %s:", b.commit, quoted(b.row));
	while (n == 0 && (n = batch_next(&b, &c)) > 0) {
		printf(" %s", kind_names[c.kind]);
		print_name(c.kind, c.family, c.qualifier, c.ts);
		if (c.kind == CELL_VALUE)
			printf(" %zu bytes", c.value.n);
		putchar(';');
		n = 0;
	}
	if (n < 0)
		printf(" (the batch cannot be decoded)");
}

static int print_record(const struct log_frame *f, struct tfs_bytes body, uint64_t offset)
{
	struct log_record r;

	printf("%" PRIu64 ": lsn %" PRIu64 " durable %" PRIu64, offset, f->lsn, f->durable);
	if (f->kind == LOG_VOID || f->kind == LOG_MARK) {
		printf(" %s\n", f->kind == LOG_VOID ? "void" : "end mark");
		return 0;
	}
	if (!log_body_decode(f, body, &r)) {
		printf(" table %u, %u bytes: damaged\n", f->table, f->body_bytes);
		return EXIT_DAMAGED;
	}
	printf(" table %u rows %s-%s token %" PRIu64 "/%" PRIu64 "/%" PRIu64 " seq %" PRIu64, r.table, quoted(r.row_from),
		quoted(r.row_to), r.token.client, r.token.number, r.token.lowest_unanswered, r.seq);
	print_cells(r.batch);
	putchar('\n');
	return 0;
}

static bool all_zero(struct tfs_bytes s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i])
			return false;
	return true;
}

static int dump_log(const char *path)
{
	struct log_header h;
	struct buf b = {0};
	uint64_t records = 0, next;
	size_t at = LOG_HEADER_BYTES;
	int status = 0, err;

	if (!has_magic("a commit log segment", path, "TFSLOG\r\n", 0, false))
		return EXIT_CANNOT;
	err = file_read_all(path, SIZE_MAX, &b);
	if (!err)
		err = log_header_decode(buf_bytes(&b), &h);
	if (err) {
		buf_fini(&b);
		return print_failure(path, err);
	}
	printf("segment %" PRIu64 " of incarnation %" PRIu64 ": first lsn %" PRIu64 ", durable before %" PRIu64 ", %zu bytes\n",
		h.number, h.incarnation, h.first_lsn, h.durable_lsn, b.n);
	next = h.first_lsn;
	while (at < b.n && !status) {
		struct tfs_bytes rest = tfs_bytes_of(b.p + at, b.n - at);
		struct log_frame f;

		if (!log_frame_decode(rest, h.salt, &f) || log_frame_total(&f) > rest.n)
			break;
		if (f.kind != LOG_MARK && f.lsn != next++) /* left from an earlier use of the file */
			break;
		status = print_record(&f, tfs_bytes_of(rest.p + LOG_FRAME_BYTES, log_frame_total(&f) - LOG_FRAME_BYTES), at);
		at += log_frame_total(&f);
		records++;
	}
	if (!status && at < b.n && all_zero(tfs_bytes_of(b.p + at, b.n - at)))
		printf("%zu: end, %" PRIu64 " records; zeros follow\n", at, records);
	else if (!status && at >= b.n)
		printf("%zu: end of the file, %" PRIu64 " records\n", at, records);
	else if (!status)
		printf("%zu: no whole record, %" PRIu64 " records before; bytes that are not zero follow\n", at, records);
	buf_fini(&b);
	return status;
}

/* ---- an SSTable ---- */

static int print_properties(struct sst *s)
{
	struct props p = {0};
	struct buf blob = {0};
	int err = sst_properties(s, &blob);

	if (!err && blob.n == 0) {
		puts("properties: none");
	} else if (!err && props_decode(buf_bytes(&blob), &p)) {
		puts("properties: cannot be decoded");
	} else if (!err) {
		printf("table %u group %u rows %s-%s\n", p.table, p.group, quoted(buf_bytes(&p.first)), quoted(buf_bytes(&p.last)));
		printf("cells %" PRIu64 " tombstones %" PRIu64 " row-deletes %" PRIu64 " family-deletes %" PRIu64
		       " raw-bytes %" PRIu64 "\n",
			p.cells, p.tombstones, p.row_deletes, p.family_deletes, p.raw_bytes);
		printf("sequence numbers %" PRIu64 "-%" PRIu64 " timestamps %" PRId64 "-%" PRId64 "\n", p.seq_min, p.seq_max,
			p.oldest_us, p.newest_us);
		for (uint32_t i = 0; i < p.family_count; i++)
			printf("family %u cells %" PRIu64 " tombstones %" PRIu64 " raw-bytes %" PRIu64 "\n", p.families[i].id,
				p.families[i].cells, p.families[i].tombstones, p.families[i].raw_bytes);
		props_fini(&p);
	}
	buf_fini(&blob);
	return err;
}

static int print_keys(struct sst *s)
{
	struct buf scratch = {0};
	struct iter *it;
	int err = sst_scan_new(s, &it);

	if (err)
		return err;
	for (iter_seek(it, tfs_bytes_of("", 0)); it->valid && !err; iter_next(it)) {
		struct cellkey k;

		err = cellkey_decode(it->key, &k, &scratch);
		if (err == -EBADMSG) {
			printf("not a cell key: %s %zu bytes\n", quoted(it->key), (size_t)it->size);
			err = 0;
			continue;
		}
		if (err)
			break;
		printf("%s", quoted(k.row));
		print_name(k.kind, k.family, k.qualifier, k.ts);
		printf(" seq %" PRIu64 " %s", k.seq, kind_names[k.kind]);
		if (k.kind == CELL_VALUE)
			printf(" %" PRIu64 " bytes commit %" PRId64, it->size, k.commit);
		putchar('\n');
	}
	if (!err)
		err = it->err;
	iter_free(it);
	buf_fini(&scratch);
	return err;
}

static int dump_sst(const char *path, bool keys)
{
	struct sst_cache *cache = NULL;
	struct sst_layout y;
	struct sst *s = NULL;
	int err;

	if (!has_magic("an SSTable", path, "TFSSST01", 8, true))
		return EXIT_CANNOT;
	err = sst_cache_new(8u << 20, 8u << 20, &cache);
	if (!err)
		err = sst_new(cache, path, false, &s);
	if (!err)
		err = sst_layout(s, &y);
	if (!err) {
		printf("file-bytes %" PRIu64 " raw-bytes %" PRIu64 " blocks %" PRIu64 " units %" PRIu64
		       " codec %s map-bytes %" PRIu64 " filter-bytes %" PRIu64 " filter-partitions %" PRIu64 "\n",
			y.file_bytes, y.raw_bytes, y.blocks, y.units, sst_codec_kinds[y.codec].name, y.map_bytes, y.filter_bytes,
			y.filter_partitions);
		err = print_properties(s);
	}
	if (!err && keys)
		err = print_keys(s);
	sst_put(s);
	sst_cache_free(cache);
	return err ? print_failure(path, err) : 0;
}

/* ---- METADATA and schemas ---- */

static void print_row(const struct offline *store, const struct offline_row *row)
{
	const struct offline_table *t = offline_table(store, row->m.table);
	const struct meta_tablet *m = &row->m;

	printf("tablet table %u%s%s begin %s", m->table, t ? " " : "", t ? t->p->name : "", quoted(buf_bytes(&row->begin)));
	printf(" end %s hint %s server %" PRIu64 " assignment %" PRIu64 " tokens %u seq-mark %" PRIu64 " clock-mark %" PRId64
	       " major %" PRId64 "\n",
		m->last ? "-" : quoted(buf_bytes(&m->end)), quoted(buf_bytes(&m->begin)), m->server, m->assignment, m->token_count,
		m->seq_mark, m->clock_mark, m->major_us);
	for (unsigned i = 0; i < m->redo_count; i++)
		printf("  redo log/%" PRIu64 " lsn %" PRIu64 "\n", m->redo[i].incarnation, m->redo[i].lsn);
	for (unsigned i = 0; i < m->file_count; i++) {
		const struct tablet_file *f = &m->files[i];

		printf("  sst/%u/%" PRIu64 "-%" PRIu64 ".sst group %u bytes %" PRIu64 " raw-bytes %" PRIu64 " cells %" PRIu64
		       " tombstones %" PRIu64 " row-deletes %" PRIu64 " family-deletes %" PRIu64,
			f->table, f->incarnation, f->number, f->group, f->bytes, f->raw_bytes, f->cells, f->tombstones,
			f->row_deletes, f->family_deletes);
		printf(" seq %" PRIu64 "-%" PRIu64 " timestamps %" PRId64 "-%" PRId64, f->seq_min, f->seq_max, f->oldest_us,
			f->newest_us);
		if (f->commit_us)
			printf(" committed until %" PRId64, f->commit_us);
		printf(" range %s-%s rows %s-%s\n", quoted(buf_bytes(&f->begin)), f->end.p ? quoted(buf_bytes(&f->end)) : "",
			quoted(buf_bytes(&f->first)), quoted(buf_bytes(&f->last)));
	}
	for (struct tfs_bytes events = buf_bytes(&row->events), line; bytes_line(&events, &line);)
		printf("  event %.*s\n", (int)line.n, (const char *)line.p);
}

static int dump_meta(const struct offline *store)
{
	const struct offline_row *row;

	for (unsigned i = 0; (row = offline_row_at(store, i)); i++)
		print_row(store, row);
	return 0;
}

static int dump_schema(const struct offline *store, const char *name)
{
	bool found = false;

	for (unsigned i = 0; i < store->table_count; i++) {
		const struct tfs_schema *p = store->tables[i].p;

		if (name && (p->snapshot_of || strcmp(name, p->name) != 0))
			continue;
		found = true;
		printf("# %s %s id %u tablets %u generation %" PRIu64 " %s%s time %" PRId64 "\n",
			p->snapshot_of ? "snapshot" : "table", p->name, p->table_id, p->tablets_id, p->generation,
			p->is_set ? "set" : "not set", p->is_hidden ? " hidden" : "", p->mtime_us);
		for (unsigned k = 0; k < p->family_count; k++)
			printf("# family %u %s\n", p->families[k].id, p->families[k].name);
		for (unsigned k = 0; k < p->group_count; k++)
			printf("# group %u %s\n", p->groups[k].id, p->groups[k].name);
		fwrite(p->text, 1, p->text_size, stdout);
		if (p->text_size && p->text[p->text_size - 1] != '\n')
			putchar('\n');
	}
	if (name && !found) {
		complain("%s: no table %s", store->dir, name);
		return EXIT_CANNOT;
	}
	return 0;
}

static int dump_store(const char *what, const char *dir, const char *table)
{
	struct report r = {.to = stderr, .no_notes = true};
	struct offline store;
	int status;

	if (offline_open(given(dir), &r, &store)) {
		report_fini(&r);
		return EXIT_CANNOT;
	}
	status = strcmp(what, "meta") == 0 ? dump_meta(&store) : dump_schema(&store, table);
	offline_close(&store);
	report_fini(&r);
	return status ? status : r.count[REPORT_PROBLEM] ? EXIT_DAMAGED : 0;
}

/* The path that the user gave may contain links, but the file must not be a link. */
static const char *file_operand(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash != path ? text("%s/%s", given(text("%.*s", (int)(slash - path), path)), slash + 1) : path;
}

static int dump_run(const struct arguments *a)
{
	const char *what = a->operand[0], *path = file_operand(a->operand[1]), *table = a->operands == 3 ? a->operand[2] : NULL;

	if (a->option['k'] && strcmp(what, "sst") != 0)
		return bad_usage(&dump_command, "%s: --keys is an option of sst only", what);
	if (table && strcmp(what, "schema") != 0)
		return bad_usage(&dump_command, "%s: too many arguments", what);
	if (strcmp(what, "log") == 0)
		return dump_log(path);
	if (strcmp(what, "sst") == 0)
		return dump_sst(path, a->option['k']);
	if (strcmp(what, "meta") == 0 || strcmp(what, "schema") == 0)
		return dump_store(what, path, table);
	return bad_usage(&dump_command, "%s: not a thing that can be dumped (log, sst, meta, schema)", what);
}

const struct command dump_command = {
	.name = "dump",
	.kinds = "dff",
	.brief = "print a log segment, an SSTable, METADATA or a schema",
	.usage = "usage: tabletctl dump log SEGMENT\n"
		 "       tabletctl dump sst FILE [-k]\n"
		 "       tabletctl dump meta DATADIR\n"
		 "       tabletctl dump schema DATADIR [TABLE]\n"
		 "\n"
		 "  log     one line for each record: file offset, LSN, durable LSN when it was\n"
		 "          written, table, rows, token, first sequence number, and its cells as\n"
		 "          KIND FAMILY:QUALIFIER@TIMESTAMP SIZE\n"
		 "  sst     sizes and properties; with -k (--keys) one line for each key:\n"
		 "          ROW FAMILY:QUALIFIER@TIMESTAMP SEQUENCE KIND SIZE\n"
		 "  meta    METADATA: each tablet with its redo points, SSTables and events\n"
		 "  schema  the schema of each table, or of one, as .schema contains it, with ids\n"
		 "\n"
		 "Bytes are quoted as \"...\"; those that are not printable ASCII are \\xHH.\n"
		 "Families, groups and tables are ids.  meta and schema need a data directory\n"
		 "that is not mounted.  Exit status: 0, 1 something is damaged, 2 failed.\n",
	.letters = ":kh",
	.options = (const struct option[]){{"keys", no_argument, NULL, 'k'}, {"help", no_argument, NULL, 'h'}, {0}},
	.least = 2,
	.most = 3,
	.run = dump_run,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by import, export, compact, and the commands for rows and scans. */
#include "engine/tool/transfer.h"
#include "engine/bulk/escape.h"

#include "engine/base/file.h"
#include "engine/base/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SNAPSHOT "/.snap/"

/* ---- the table ---- */

static bool exists_in(const char *dir, const char *name)
{
	return access(text("%s/%s", dir, name), F_OK) == 0;
}

/* Returns the text before the last slash of DATADIR/TABLE or SOURCE/TABLE. */
static const char *parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash == path ? "/" : text("%.*s", (int)(slash - path), path) : ".";
}

bool source_is_served(const char *source)
{
	struct store_source s;
	char *why = NULL;
	bool served = store_source_parse(source, &s, &why) == 0;

	free(why);
	if (!served)
		return false;
	served = store_source_is_served(&s);
	store_source_fini(&s);
	return served;
}

static int cannot_open(struct place *p, const char *why)
{
	complain("%s: %s", p->path, why);
	(void)!place_close(p, 0);
	return EXIT_CANNOT;
}

static int open_mounted(struct place *p, bool make)
{
	if (make && mkdir(p->path, 0777) && errno != EEXIST) {
		complain_refused(p->path, p->path, -errno);
		return EXIT_CANNOT;
	}
	p->dir = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->dir >= 0)
		return 0;
	if (errno == ENOENT)
		return cannot_open(p, "there is no such table");
	complain_refused(p->path, p->path, -errno);
	return EXIT_CANNOT;
}

static int open_stored(struct place *p, const char *datadir, const char *name, bool make)
{
	struct tfs_login login;
	char *why = NULL;
	int err;

	if (!tfs_name_valid(name))
		return cannot_open(p, "not the name of a table");
	err = tfs_open(datadir, NULL, &p->store, &why);
	if (err) {
		complain("%s", why ? why : strerror(-err));
		free(why);
		return EXIT_CANNOT;
	}
	if (make) {
		tfs_login(p->store, &login);
		err = tfs_table_create(p->store, name, login.uid, login.gid, 0755);
		err = err == -EEXIST ? 0 : err;
	}
	if (!err)
		err = tfs_table_open(p->store, name, &p->table);
	if (err == -ENOENT)
		return cannot_open(p, "there is no such table");
	if (!err)
		return 0;
	place_complain(p, err);
	(void)!place_close(p, 0);
	return EXIT_CANNOT;
}

const char *snapshot_in(const char *path)
{
	const char *snap = strstr(path, SNAPSHOT);

	return snap && snap[sizeof(SNAPSHOT) - 1] && !strchr(snap + sizeof(SNAPSHOT) - 1, '/') ? snap : NULL;
}

int place_open(struct place *p, const char *path, bool make)
{
	const char *slash = strrchr(path, '/'), *parent = parent_of(path), *name = slash ? slash + 1 : path;

	*p = (struct place){.path = path, .dir = -1};
	if (source_is_served(parent) || (snapshot_in(path) && !exists_in(path, ".families")))
		return place_open_stored(p, path, make);
	if (exists_in(path, ".families") || exists_in(parent, ".tabletfs/version"))
		return open_mounted(p, make && !exists_in(path, ".families"));
	/* An absent directory becomes a store.  A directory that exists may be the mount point of a store that is not mounted. */
	if (exists_in(parent, "FORMAT") || (make && access(parent, F_OK) && errno == ENOENT))
		return open_stored(p, parent, name, make);
	complain("%s: neither a table in a mount (MOUNTPOINT/TABLE) nor one in a store (SOURCE/TABLE)", path);
	return EXIT_CANNOT;
}

int place_open_stored(struct place *p, const char *path, bool make)
{
	const char *snap = snapshot_in(path), *table = snap ? text("%.*s", (int)(snap - path), path) : path;
	const char *slash = strrchr(table, '/');
	int status, err;

	*p = (struct place){.path = path, .dir = -1};
	status = open_stored(p, parent_of(table), slash ? slash + 1 : table, make && !snap);
	if (status || !snap)
		return status;
	p->of = p->table;
	p->table = NULL;
	err = tfs_snapshot_open(p->of, snap + sizeof(SNAPSHOT) - 1, &p->table);
	return err ? cannot_open(p, err == -ENOENT ? "there is no such snapshot" : strerror(-err)) : 0;
}

void place_complain(const struct place *p, int err)
{
	const char *reason = p->store ? tfs_error(p->store) : "", *of_stream = err == -E2BIG ? bulk_stream_why(err) : NULL;

	complain("%s: %s", p->path, *reason ? reason : of_stream ? of_stream : strerror(-err));
}

int place_close(struct place *p, int status)
{
	int err = 0;

	if (p->table)
		tfs_table_close(p->table);
	if (p->of)
		tfs_table_close(p->of);
	if (p->store)
		err = tfs_close(p->store);
	if (p->dir >= 0)
		close(p->dir);
	p->table = p->of = NULL;
	p->store = NULL;
	p->dir = -1;
	if (err)
		complain("%s: the store: an error when it was closed: %s", p->path, strerror(-err));
	return err ? EXIT_CANNOT : status;
}

/* The columns of .tablets. */
enum { COLUMN_BYTES = 4, COLUMN_CELLS = 8, TABLETS_BYTES_MAX = 1 << 26 };

static int mounted_usage(const struct place *p, struct tfs_usage *out)
{
	struct buf b = {0};
	int err = file_read_all(given(text("%s/.tablets", p->path)), TABLETS_BYTES_MAX, &b), column = 0;
	bool header = true;

	*out = (struct tfs_usage){0};
	for (size_t at = 0; !err && at < b.n; at++) {
		bool begins = at == 0 || b.p[at - 1] == '\t';

		if (begins && !header && column == COLUMN_BYTES)
			out->disk_bytes += strtoull((const char *)b.p + at, NULL, 10);
		if (begins && !header && column == COLUMN_CELLS)
			out->cells += strtoull((const char *)b.p + at, NULL, 10);
		column = b.p[at] == '\n' ? 0 : column + (b.p[at] == '\t');
		header = header && b.p[at] != '\n';
	}
	buf_fini(&b);
	return err;
}

int place_usage(const struct place *p, struct tfs_usage *out)
{
	return p->store ? tfs_usage(p->table, NULL, out) : mounted_usage(p, out);
}

/* ---- formats ---- */

/* The end of the name, without what `packing` stands for; "" if it has none. */
static const char *suffix_of(const char *file, enum packing *packing)
{
	const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
	static const char *const packed[] = {[PACKED_GZ] = ".gz", [PACKED_ZST] = ".zst"};
	const char *dot;

	for (enum packing p = PACKED_GZ; p <= PACKED_ZST; p++) {
		const size_t n = strlen(base), end = strlen(packed[p]);

		if (*packing == PACKED_NOT && n > end && strcmp(base + n - end, packed[p]) == 0) {
			*packing = p;
			base = text("%.*s", (int)(n - end), base);
		}
	}
	for (dot = strchr(base, '.'); dot && (dot == base || strcmp(dot, ".wide.tsv") != 0); dot = strchr(dot + 1, '.'))
		;
	dot = dot ? dot : strrchr(base, '.');
	return dot && dot > base ? dot + 1 : "";
}

enum bulk_format transfer_format_named(const char *name)
{
	enum bulk_format f = BULK_TSV;

	while (f < BULK_FORMATS && strcmp(bulk_format_names[f], name) != 0)
		f++;
	return f;
}

bool transfer_format(const struct command *c, const char *option, const char *file, enum bulk_format *out, enum packing *packing)
{
	const char *suffix;

	*packing = PACKED_NOT;
	suffix = file ? suffix_of(file, packing) : "";
	*out = transfer_format_named(option ? option : !*suffix && *packing == PACKED_NOT ? "tsv" : suffix);
	if (*out != BULK_FORMATS)
		return true;
	if (option)
		(void)bad_usage(c, "--format: tsv, jsonl, csv, wide.tsv or tar, not %s", option);
	else
		(void)bad_usage(c,
			"%s: its name does not end in .tsv, .jsonl, .csv, .wide.tsv or .tar, before .gz or .zst: --format says the format",
			file);
	return false;
}

/* ---- bytes ---- */

int transfer_write(int fd, struct tfs_bytes s)
{
	while (s.n) {
		ssize_t n = write(fd, s.p, s.n);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			s = tfs_bytes_of(s.p + n, s.n - (size_t)n);
	}
	return 0;
}

int transfer_read(int fd, struct buf *out)
{
	ssize_t n = 1;

	while (n > 0) {
		if (buf_reserve(out, 65536))
			no_memory();
		n = read(fd, out->p + out->n, 65536);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			out->n += (size_t)n;
	}
	return n < 0 ? -errno : 0;
}

/* ---- rows and scans of a table in a data directory ---- */

enum { EXIT_NOTHING = 1, EXIT_ERROR = 3 };

bool stored_is(const char *path)
{
	const char *parent = parent_of(path);

	return source_is_served(parent) ||
		(access(text("%s/FORMAT", parent), F_OK) == 0 && access(text("%s/.families", path), F_OK) != 0 &&
			access(text("%s/.tabletfs/version", parent), F_OK) != 0);
}

int stored_mutate(const char *path, struct tfs_bytes row, struct tfs_bytes lines, struct buf *answer)
{
	struct mutation_lines l = {0};
	struct tfs_mutation *m = NULL;
	struct place p;
	int err;

	if (place_open(&p, path, false))
		return -EBUSY;
	err = mutation_lines_add(&l, p.table, lines);
	if (!err) {
		l.results = calloc(l.count + 1u, sizeof(*l.results));
		err = l.results ? mutation_lines_make(&l, p.table, row, &m) : -ENOMEM;
		if (!err)
			err = tfs_apply(m, 0, l.results);
		err = mutation_lines_answer(&l, err);
	}
	tfs_mutation_free(m);
	if (buf_append_bytes(answer, buf_bytes(&l.answer)))
		no_memory();
	mutation_lines_fini(&l);
	return place_close(&p, 0) && !err ? -EIO : err;
}

static int print(struct tfs_bytes s, uint64_t *bytes)
{
	if (bytes)
		*bytes += s.n;
	return fwrite(s.p, 1, s.n, stdout) == s.n ? 0 : -EIO;
}

int stored_scan(const char *path, const struct clauses *c, struct tfs_bytes row, enum bulk_format format, uint64_t *bytes)
{
	struct tfs_scan_spec spec = c->spec;
	struct bulk_stream *cells = NULL;
	struct buf piece = {0};
	struct place p;
	int r;

	if (place_open_stored(&p, path, false))
		return EXIT_ERROR;
	if (row.p) {
		spec.row_from = row;
		spec.one_row = true;
	}
	r = bulk_stream_new(p.table, format, &spec, &cells);
	for (r = r ? r : 1; r > 0;) {
		buf_reset(&piece);
		r = bulk_stream_read(cells, TRANSFER_BYTES, &piece);
		if (r >= 0 && piece.n && print(buf_bytes(&piece), bytes))
			r = 0; /* main reports it */
	}
	if (r < 0)
		place_complain(&p, r);
	bulk_stream_free(cells);
	buf_fini(&piece);
	return place_close(&p, r < 0 ? EXIT_ERROR : 0);
}

int stored_list(const char *path, const struct clauses *c, enum stored_list list)
{
	struct tfs_scan_spec spec = c->spec;
	uint64_t rows = 0, cells = 0;
	struct tfs_scan *scan = NULL;
	struct buf line = {0}, row = {0};
	struct tfs_cell cell;
	struct place p;
	int r;

	if (place_open_stored(&p, path, false))
		return EXIT_ERROR;
	spec.what = list == STORED_KEYS ? TFS_SCAN_ROWS : TFS_SCAN_KEYS;
	r = tfs_scan_new(p.table, &spec, &scan);
	for (r = r ? r : 1; r > 0 && (r = tfs_scan_next(scan, &cell)) > 0;) {
		cells++;
		if (list == STORED_COUNT) {
			rows += cells == 1 || !bytes_eq(cell.row, buf_bytes(&row));
			if (buf_set(&row, cell.row.p, cell.row.n))
				no_memory();
			continue;
		}
		buf_reset(&line);
		if ((list == STORED_NAMES ? line_name(&cell, &line) : text_escape(cell.row, &line)) || buf_u8(&line, '\n'))
			no_memory();
		if (print(buf_bytes(&line), NULL))
			r = 0; /* main reports it */
	}
	if (r == 0 && list == STORED_COUNT)
		printf("rows\t%llu\ncells\t%llu\n", (unsigned long long)rows, (unsigned long long)cells);
	if (r < 0)
		place_complain(&p, r);
	tfs_scan_free(scan);
	buf_fini(&line);
	buf_fini(&row);
	return place_close(&p, r < 0 ? EXIT_ERROR : 0);
}

int stored_get(const char *path, struct tfs_bytes row, const struct mutation_line *line)
{
	static uint8_t block[256 << 10];
	const struct tfs_ts ts = line->has_ts ? tfs_at(line->ts) : TFS_AUTO;
	struct tfs_ts at = ts;
	struct tfs_info info;
	uint64_t offset = 0;
	size_t got = 1;
	struct place p;
	int err;

	if (place_open(&p, path, false))
		return EXIT_ERROR;
	/* All pieces are of one version. */
	err = tfs_stat(p.table, row, line->family, line->qualifier, ts, &info);
	at = tfs_at(err ? 0 : info.ts);
	while (!err && got && offset < info.size) {
		err = tfs_read(p.table, row, line->family, line->qualifier, at, offset, block, sizeof(block), &got, NULL);
		if (!err && print(tfs_bytes_of(block, got), NULL))
			break;
		offset += got;
	}
	if (err && err != -ENOENT)
		place_complain(&p, err);
	return place_close(&p, err == -ENOENT ? EXIT_NOTHING : err ? EXIT_ERROR : 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole row as one JSON object (row_json.h).  Values above TFS_INLINE_MAX are
 * not in the scan that reads the row, but are read after it.  So the keys are
 * scanned again, and if they have other fingerprints, the row is read again.
 *
 * An object is parsed as a whole, because users write it with any layout and
 * order of its members.
 */
#include "engine/bulk/row_json.h"

#include "engine/bulk/json.h"
#include "engine/bulk/line.h"
#include "engine/bulk/value.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { RENDER_TRIES = 8, SEQUENCE_DIGITS = 16 };
#define FLAT_BASE64 "base64:"

/* ---- writing ---- */

static int read_large(struct tfs_table *t, const struct tfs_cell *c, struct buf *whole)
{
	struct value v = {0};
	struct tfs_bytes piece;
	int err = value_begin(&v, t, c);

	while (!err && whole->n < v.size && !(err = value_read(&v, whole->n, &piece)))
		err = buf_append_bytes(whole, piece);
	value_fini(&v);
	return err;
}

/* Appends a string of the short form. */
static int flat_string(struct tfs_bytes s, struct buf *out)
{
	const bool text = utf8_valid(s) && !(s.n && memchr(s.p, 0, s.n)) && !bytes_has_prefix(s, TFS_S(FLAT_BASE64));
	int err = buf_u8(out, '"');

	if (!err && !text)
		err = buf_append_bytes(out, TFS_S(FLAT_BASE64));
	if (!err)
		err = text ? json_escape(out, s) : base64_encode(out, s);
	return err ? err : buf_u8(out, '"');
}

/* Appends the line of a cell in the short form.  *family_id is the family of the cell before, 0 at the first cell. */
static int flat_append(const struct tfs_cell *c, uint16_t *family_id, struct buf *out)
{
	int err = 0;

	if (*family_id != c->family_id)
		err = buf_printf(out, "%s\"%s\":{\n", *family_id ? "},\n" : "", c->family);
	else
		err = buf_append(out, ",\n", 2);
	*family_id = c->family_id;
	if (!err)
		err = flat_string(c->qualifier, out);
	if (!err)
		err = buf_u8(out, ':');
	return err ? err : flat_string(c->value, out);
}

/* Properties of the cells of a row. */
struct row_sum {
	uint64_t fingerprints;
	int64_t commit_us;  /* the latest */
	bool later;         /* a value was read after the scan */
	bool flat;          /* the short form is written */
	uint16_t family_id; /* the short form: of the last cell, or 0 */
};

/* Appends the line of a cell without its row. */
static int append_cell(struct tfs_table *t, const struct tfs_cell *c, bool first, struct buf *out, struct row_sum *sum)
{
	struct tfs_cell cell = *c;
	struct buf large = {0};
	int err = 0;

	if (out->n + c->size > ROW_JSON_MAX)
		return -EFBIG;
	cell.row = (struct tfs_bytes){0};
	if (!c->value.p && c->size) {
		sum->later = true;
		err = read_large(t, c, &large);
		cell.value = buf_bytes(&large);
	}
	if (!err && !first && !sum->flat) {
		out->n--; /* the newline */
		err = buf_append(out, ",\n", 2);
	}
	if (!err)
		err = sum->flat ? flat_append(&cell, &sum->family_id, out) : line_append(LINE_JSON, &cell, out);
	buf_fini(&large);
	return !err && out->n > ROW_JSON_MAX ? -EFBIG : err;
}

/* Appends the cells to out, unless it is NULL. */
static int scan_row(struct tfs_table *t, struct tfs_bytes row, bool flat, struct buf *out, struct row_sum *sum)
{
	struct tfs_scan_spec spec = {
		.what = out ? TFS_SCAN_CELLS : TFS_SCAN_KEYS, .row_from = row, .one_row = true, .versions = flat ? 1 : 0};
	struct tfs_scan *scan = NULL;
	struct tfs_cell c;
	bool first = true;
	int r = tfs_scan_new(t, &spec, &scan);

	*sum = (struct row_sum){.flat = flat};
	while (r == 0 && (r = tfs_scan_next(scan, &c)) > 0) {
		sum->fingerprints += tfs_fingerprint(&c);
		if (c.commit_us > sum->commit_us)
			sum->commit_us = c.commit_us;
		r = out ? append_cell(t, &c, first, out, sum) : 0;
		first = false;
	}
	tfs_scan_free(scan);
	return r;
}

/* Appends what precedes the cells.  *sequence_at: where the digits of the sequence are. */
static int begin_object(struct tfs_bytes row, struct buf *out, size_t *sequence_at)
{
	int err = buf_u8(out, '{');

	if (!err)
		err = json_member(out, "row", row);
	if (!err)
		err = buf_printf(out, ",\"sequence\":\"");
	*sequence_at = out->n;
	return err ? err : buf_printf(out, "%0*d\",\"cells\":[\n", SEQUENCE_DIGITS, 0);
}

static int render_once(struct tfs_table *t, struct tfs_bytes row, bool flat, struct buf *out, int64_t *commit_us)
{
	struct row_sum sum = {0}, again;
	size_t at = 0;
	int err = flat ? buf_u8(out, '{') : begin_object(row, out, &at);

	if (!err)
		err = scan_row(t, row, flat, out, &sum);
	if (!err)
		err = buf_printf(out, "%s", flat ? sum.family_id ? "}}\n" : "}\n" : "]}\n");
	if (!err && sum.later)
		err = scan_row(t, row, flat, NULL, &again);
	if (err == -ESTALE || err == -ENOENT || (!err && sum.later && again.fingerprints != sum.fingerprints))
		return -EAGAIN;
	if (commit_us)
		*commit_us = sum.commit_us;
	if (!err && !flat) {
		char digits[SEQUENCE_DIGITS + 1];

		snprintf(digits, sizeof(digits), "%0*" PRIx64, SEQUENCE_DIGITS, sum.fingerprints);
		memcpy(out->p + at, digits, SEQUENCE_DIGITS);
	}
	return err;
}

int row_json_render(struct tfs_table *t, struct tfs_bytes row, bool flat, struct buf *out, int64_t *commit_us)
{
	const size_t before = out->n;
	int err = -EAGAIN;

	for (int i = 0; i < RENDER_TRIES && err == -EAGAIN; i++) {
		out->n = before;
		err = render_once(t, row, flat, out, commit_us);
	}
	if (err)
		out->n = before;
	return err;
}

/* ---- reading ---- */

size_t json_end_find(struct json_end *e, struct tfs_bytes piece)
{
	size_t i = 0;

	for (; i < piece.n && !e->ended; i++) {
		const uint8_t c = piece.p[i];

		if (e->in_string) {
			e->in_string = e->escaped || c != '"';
			e->escaped = !e->escaped && c == '\\';
		} else if (c == '"') {
			e->in_string = true;
		} else if (c == '{' || c == '[') {
			e->depth++;
		} else if (c == '}' || c == ']') {
			e->ended = e->depth <= 1;
			e->depth -= e->depth > 0;
		}
	}
	return i;
}

void row_json_fini(struct row_json *j)
{
	json_decref(j->tree);
	free(j->cells);
	arena_fini(&j->arena);
	*j = (struct row_json){0};
}

static int refuse(char why[160], size_t cell, const char *reason)
{
	if (cell)
		snprintf(why, 160, "cell %zu: %s", cell, reason);
	else
		snprintf(why, 160, "%s", reason);
	return -EINVAL;
}

/* Returns true if every member is one of names, which ends with NULL. */
static bool members_known(json_t *object, const char *const *names)
{
	const char *key;
	json_t *value;

	json_object_foreach(object, key, value)
	{
		const char *const *n = names;

		while (*n && strcmp(*n, key) != 0)
			n++;
		if (!*n)
			return false;
	}
	return true;
}

/* The bytes of member `name` or `name`_base64.  Returns NULL, or the reason why they cannot be read. */
static const char *read_bytes(struct row_json *j, json_t *object, const char *name, struct tfs_bytes *out, int *err)
{
	char name64[24];
	json_t *text = json_object_get(object, name), *base64;
	struct buf bytes = {0};

	snprintf(name64, sizeof(name64), "%s_base64", name);
	base64 = json_object_get(object, name64);
	if (!text == !base64)
		return "it needs one of qualifier and qualifier_base64, and one of value and value_base64";
	if (!json_is_string(text ? text : base64))
		return "qualifier and value are strings";
	if (text) {
		*out = tfs_bytes_of(json_string_value(text), json_string_length(text));
		return NULL;
	}
	*err = base64_decode(tfs_bytes_of(json_string_value(base64), json_string_length(base64)), &bytes);
	if (!*err && !arena_dup(&j->arena, buf_bytes(&bytes), out))
		*err = -ENOMEM;
	buf_fini(&bytes);
	return *err == -EINVAL ? "a member _base64 is not base64" : NULL;
}

static const char *limits_fault(const struct mutation_line *c)
{
	return c->qualifier.n > TFS_QUALIFIER_MAX ? "a qualifier is at most 16 KiB"
		: c->value.n > TFS_VALUE_MAX      ? "a value is at most 64 MiB"
						  : NULL;
}

static int read_cell(struct row_json *j, json_t *object, struct mutation_line *c, size_t number, char why[160])
{
	static const char *const names[] = {
		"family", "qualifier", "qualifier_base64", "timestamp", "value", "value_base64", "row", "row_base64", NULL};
	json_t *ts = json_object_get(object, "timestamp"), *family = json_object_get(object, "family");
	const char *wrong;
	int err = 0;

	if (!json_is_object(object) || !members_known(object, names))
		return refuse(why, number, "it is no object with the members family, qualifier, timestamp and value");
	if (!json_is_string(family) || strlen(json_string_value(family)) != json_string_length(family))
		return refuse(why, number, "it has no member family");
	if (ts && !json_is_integer(ts))
		return refuse(why, number, "the timestamp is not a whole number");
	c->verb = MUTATION_SET;
	c->family = json_string_value(family);
	c->has_ts = ts != NULL;
	c->ts = ts ? json_integer_value(ts) : 0;
	wrong = read_bytes(j, object, "qualifier", &c->qualifier, &err);
	if (j->merge && json_is_null(json_object_get(object, "value")) && !json_object_get(object, "value_base64"))
		c->verb = MUTATION_DELETE;
	else if (!wrong && !err)
		wrong = read_bytes(j, object, "value", &c->value, &err);
	if (wrong)
		return refuse(why, number, wrong);
	wrong = err ? NULL : limits_fault(c);
	return wrong ? refuse(why, number, wrong) : err;
}

static bool read_sequence(json_t *text, uint64_t *out)
{
	const char *digits = json_string_value(text);
	char *end;

	if (!digits || json_string_length(text) != SEQUENCE_DIGITS || strspn(digits, "0123456789abcdef") != SEQUENCE_DIGITS)
		return false;
	*out = strtoull(digits, &end, 16);
	return true;
}

static int read_row(struct row_json *j, json_t *object, char why[160])
{
	static const char *const names[] = {"row", "row_base64", "sequence", "merge", "cells", NULL};
	json_t *merge = json_object_get(object, "merge"), *cells = json_object_get(object, "cells"),
	       *sequence = json_object_get(object, "sequence");
	int err = 0;

	if (!json_is_object(object) || !members_known(object, names) || !json_is_array(cells))
		return refuse(why, 0, "it is no object with the members row, sequence, merge and cells");
	if (merge && !json_is_boolean(merge))
		return refuse(why, 0, "merge is true or false");
	j->merge = json_is_true(merge);
	j->has_sequence = sequence && !json_is_null(sequence);
	if (j->has_sequence && !read_sequence(sequence, &j->sequence))
		return refuse(why, 0, "the sequence is not one that was read");
	j->count = json_array_size(cells);
	j->cells = calloc(j->count + 1, sizeof(*j->cells));
	if (!j->cells)
		return -ENOMEM;
	for (size_t i = 0; i < j->count && !err; i++)
		err = read_cell(j, json_array_get(cells, i), &j->cells[i], i + 1, why);
	return err;
}

/* The bytes of a string of the short form.  -EINVAL: it is not base64. */
static int flat_bytes(struct row_json *j, struct tfs_bytes text, struct tfs_bytes *out)
{
	const size_t mark = strlen(FLAT_BASE64);
	struct buf bytes = {0};
	int err;

	*out = text;
	if (!bytes_has_prefix(text, TFS_S(FLAT_BASE64)))
		return 0;
	err = base64_decode(tfs_bytes_of(text.p + mark, text.n - mark), &bytes);
	if (!err && !arena_dup(&j->arena, buf_bytes(&bytes), out))
		err = -ENOMEM;
	buf_fini(&bytes);
	return err;
}

/* Returns the cell behind the others, or NULL. */
static struct mutation_line *add_cell(struct row_json *j, const char *family)
{
	if (array_grow(&j->cells, j->count, sizeof(*j->cells)))
		return NULL;
	j->cells[j->count] = (struct mutation_line){.verb = MUTATION_DELETE, .family = family};
	return &j->cells[j->count++];
}

static int read_flat_cell(struct row_json *j, const char *family, const char *qualifier, json_t *value, char why[160])
{
	struct mutation_line *c = add_cell(j, family);
	const char *wrong;
	int err = c ? flat_bytes(j, tfs_str(qualifier), &c->qualifier) : -ENOMEM;

	if (!err && json_is_string(value)) {
		c->verb = MUTATION_SET;
		err = flat_bytes(j, tfs_bytes_of(json_string_value(value), json_string_length(value)), &c->value);
	} else if (!err && !json_is_null(value)) {
		return refuse(why, j->count, "a value is a string, or null, which deletes the column");
	}
	wrong = err == -EINVAL ? "base64: is not followed by base64" : err ? NULL : limits_fault(c);
	return wrong ? refuse(why, j->count, wrong) : err;
}

static int read_flat(struct row_json *j, json_t *object, char why[160])
{
	const char *family, *qualifier;
	json_t *cells, *value;
	int err = 0;

	j->merge = true;
	if (!json_is_object(object))
		return refuse(why, 0, "it is no object of families");
	json_object_foreach(object, family, cells)
	{
		struct mutation_line *all = json_is_null(cells) ? add_cell(j, family) : NULL;

		if (all)
			all->all = true;
		else if (json_is_null(cells))
			return -ENOMEM;
		else if (!json_is_object(cells))
			return refuse(why, 0, "a family is an object, or null, which deletes its cells");
		json_object_foreach(cells, qualifier, value)
		{
			err = read_flat_cell(j, family, qualifier, value, why);
			if (err)
				return err;
		}
	}
	return 0;
}

int row_json_parse(struct tfs_bytes text, bool flat, struct row_json *out, char why[160])
{
	json_error_t error;

	*out = (struct row_json){0};
	out->tree = json_loadb((const char *)text.p, text.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
	if (!out->tree && json_error_code(&error) == json_error_out_of_memory)
		return -ENOMEM;
	if (!out->tree) {
		const char *near = strstr(error.text, " near "); /* bytes of the text */

		snprintf(why, 160, "line %d: %.*s", error.line, near ? (int)(near - error.text) : 120, error.text);
		return -EINVAL;
	}
	return flat ? read_flat(out, out->tree, why) : read_row(out, out->tree, why);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads lines of JSON.  Each line is one object with the members of a cell in any order.
 * The strings are decoded while they arrive and lie one after another in `line`, so a
 * line needs no more memory than its cell.
 *
 * Rejected: a library.  Debian's libraries build a tree of a whole line, which may have 90 MiB,
 * and need a second copy for base64.
 */
#include "engine/bulk/reader_internal.h"
#include "engine/base/name.h"
#include "engine/bulk/json.h"

#include <errno.h>

enum member { ROW, FAMILY, QUALIFIER, TIMESTAMP, VALUE, MEMBERS, BASE64 = 8 };

static const struct {
	const char *name;
	unsigned member;
} names[] = {
	{"row", ROW},
	{"row_base64", ROW | BASE64},
	{"family", FAMILY},
	{"qualifier", QUALIFIER},
	{"qualifier_base64", QUALIFIER | BASE64},
	{"timestamp", TIMESTAMP},
	{"value", VALUE},
	{"value_base64", VALUE | BASE64},
};
enum { NAME_BYTES = 24, ESCAPE_MAX = 12 };

/* The place within a line. */
enum place { START, FIRST_NAME, NAME, IN_NAME, COLON, CONTENT, IN_STRING, IN_NUMBER, COMMA, AFTER };

struct json_reader {
	struct line_reader lines; /* lines.line has the decoded strings and the timestamp */
	enum place place;
	struct {
		size_t from, n;
	} at[MEMBERS]; /* the place of each member in `line` */
	unsigned seen; /* members, bits */
	uint8_t name[NAME_BYTES];
	size_t name_n;
	enum member member; /* being read */
	bool is_base64;
	struct base64 base64;
	uint8_t escape[ESCAPE_MAX];
	size_t escape_n; /* bytes of an unfinished escape */
};

static struct tfs_bytes member_of(const struct json_reader *j, enum member m)
{
	return tfs_bytes_of(j->lines.line.p + j->at[m].from, j->at[m].n);
}

static void refuse_line(struct json_reader *j, const char *reason)
{
	j->lines.reason = reason;
}

/* ---- names ---- */

static void end_name(struct json_reader *j)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!bytes_eq(tfs_bytes_of(j->name, j->name_n), tfs_str(names[i].name)))
			continue;
		j->member = (enum member)(names[i].member & ~(unsigned)BASE64);
		j->is_base64 = names[i].member & BASE64;
		if (j->seen & 1u << j->member)
			refuse_line(j, "a member occurs twice");
		j->seen |= 1u << j->member;
		j->place = COLON;
		return;
	}
	refuse_line(j, "it has a member that is none of row, family, qualifier, timestamp, value and their _base64");
}

static void take_name(struct json_reader *j, uint8_t c)
{
	if (c == '"')
		end_name(j);
	else if (j->name_n == NAME_BYTES || c == '\\')
		refuse_line(j, "it has a member that is none of row, family, qualifier, timestamp, value and their _base64");
	else
		j->name[j->name_n++] = c;
}

/* ---- strings ---- */

/* Adds decoded bytes to the string. */
static int take_text(struct json_reader *j, const uint8_t *p, size_t n)
{
	int err;

	if (j->lines.line.n + (j->is_base64 ? n / 4 * 3 : n) > RECORD_BYTES_MAX) {
		refuse_line(j, "it is longer than any cell");
		return 0;
	}
	err = j->is_base64 ? base64_feed(&j->base64, tfs_bytes_of(p, n), &j->lines.line) : buf_append(&j->lines.line, p, n);
	if (err == -EINVAL)
		refuse_line(j, "a member _base64 is not base64");
	return err == -EINVAL ? 0 : err;
}

static int hex_value(uint8_t c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The code unit of "\uXXXX" at p; -1: it is none. */
static int32_t code_unit(const uint8_t *p)
{
	int32_t v = 0;

	for (unsigned i = 2; i < 6; i++) {
		int h = hex_value(p[i]);

		if (h < 0)
			return -1;
		v = v << 4 | h;
	}
	return p[0] == '\\' && p[1] == 'u' ? v : -1;
}

static int take_character(struct json_reader *j, uint32_t c)
{
	uint8_t out[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	if (n == 1) {
		out[0] = (uint8_t)c;
	} else {
		for (size_t i = n; i-- > 1; c >>= 6)
			out[i] = (uint8_t)(0x80 | (c & 63));
		out[0] = (uint8_t)((0xf00u >> n) | c);
	}
	return take_text(j, out, n);
}

/* Adds a byte to an unfinished escape, or ends it. */
static int take_escape(struct json_reader *j, uint8_t c)
{
	static const char letters[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
	const char *letter;
	int32_t first, second;

	j->escape[j->escape_n++] = c;
	if (j->escape_n == 2 && c != 'u') {
		letter = memchr(letters, c, sizeof(letters) - 1);
		j->escape_n = 0;
		if (!letter) {
			refuse_line(j, "a backslash begins no escape of JSON");
			return 0;
		}
		return take_text(j, (const uint8_t *)&bytes[letter - letters], 1);
	}
	if (j->escape_n < 6)
		return 0;
	first = code_unit(j->escape);
	if (first < 0 || (first >= 0xdc00 && first <= 0xdfff)) {
		refuse_line(j, "\\u is not followed by a character in four hexadecimal digits");
		return 0;
	}
	if (first < 0xd800 || first > 0xdfff) {
		j->escape_n = 0;
		return take_character(j, (uint32_t)first);
	}
	if (j->escape_n < 12)
		return 0;
	second = code_unit(j->escape + 6);
	j->escape_n = 0;
	if (second < 0xdc00 || second > 0xdfff) {
		refuse_line(j, "a surrogate \\uD800 to \\uDBFF is not followed by its second half");
		return 0;
	}
	return take_character(j, 0x10000 + ((uint32_t)(first - 0xd800) << 10) + (uint32_t)(second - 0xdc00));
}

static void end_string(struct json_reader *j)
{
	j->at[j->member].n = j->lines.line.n - j->at[j->member].from;
	j->place = COMMA;
	if (j->is_base64 && j->base64.digits)
		refuse_line(j, "a member _base64 is not base64");
	else if (!j->is_base64 && !utf8_valid(member_of(j, j->member)))
		refuse_line(j, "a string is not valid UTF-8; other bytes are written in a member _base64");
}

/* Reads bytes of a string up to its end, a special byte or `end`.  Returns the next byte to read. */
static const uint8_t *take_string(struct json_reader *j, const uint8_t *p, const uint8_t *end, int *err)
{
	const uint8_t *run = p;

	if (j->escape_n) {
		*err = take_escape(j, *p);
		return p + 1;
	}
	while (p < end && *p != '"' && *p != '\\' && *p >= 0x20)
		p++;
	if (p > run)
		*err = take_text(j, run, (size_t)(p - run));
	if (p == end || *err || j->lines.reason)
		return p;
	if (*p == '"')
		end_string(j);
	else if (*p == '\\')
		j->escape[j->escape_n++] = *p;
	else
		refuse_line(j, "a string contains a control byte that is not escaped");
	return p + 1;
}

/* ---- the object ---- */

static void begin_content(struct json_reader *j, uint8_t c)
{
	j->at[j->member].from = j->lines.line.n;
	j->base64 = (struct base64){0};
	if (j->member == TIMESTAMP && (c == '-' || (c >= '0' && c <= '9')))
		j->place = IN_NUMBER;
	else if (j->member != TIMESTAMP && c == '"')
		j->place = IN_STRING;
	else
		refuse_line(j, j->member == TIMESTAMP ? "the timestamp is not a number" : "a member is not a string");
}

/* Reads a byte outside of strings and numbers. */
static void take_token(struct json_reader *j, uint8_t c)
{
	static const struct {
		enum place at;
		char byte;
		enum place then;
	} steps[] = {
		{START, '{', FIRST_NAME},
		{FIRST_NAME, '"', IN_NAME},
		{FIRST_NAME, '}', AFTER},
		{NAME, '"', IN_NAME},
		{COLON, ':', CONTENT},
		{COMMA, ',', NAME},
		{COMMA, '}', AFTER},
	};

	if (c == ' ' || c == '\t' || c == '\r')
		return;
	if (j->place == CONTENT) {
		begin_content(j, c);
		return;
	}
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		if (steps[i].at != j->place || steps[i].byte != c)
			continue;
		j->place = steps[i].then;
		j->name_n = 0;
		return;
	}
	refuse_line(j, "it is not one object of JSON");
}

static int take_number(struct json_reader *j, uint8_t c)
{
	if (c == '-' || (c >= '0' && c <= '9')) {
		if (j->lines.line.n - j->at[TIMESTAMP].from < 32)
			return buf_u8(&j->lines.line, c);
		refuse_line(j, "the timestamp is not a whole number of 64 bits");
		return 0;
	}
	j->at[TIMESTAMP].n = j->lines.line.n - j->at[TIMESTAMP].from;
	j->place = COMMA;
	if (c == '.' || c == 'e' || c == 'E' || c == '+')
		refuse_line(j, "the timestamp is not a whole number of 64 bits");
	else
		take_token(j, c);
	return 0;
}

static int json_take(struct line_reader *l, const uint8_t *p, const uint8_t *end)
{
	struct json_reader *j = (struct json_reader *)l;
	int err = 0;

	while (p < end && !j->lines.reason && !err) {
		if (j->place == IN_STRING) {
			p = take_string(j, p, end, &err);
			continue;
		}
		if (j->place == IN_NAME)
			take_name(j, *p++);
		else if (j->place == IN_NUMBER)
			err = take_number(j, *p++);
		else {
			take_token(j, *p);
			/* A number has no byte in front of its first digit. */
			if (j->place != IN_NUMBER)
				p++;
		}
	}
	return err;
}

static const char *json_parse(struct line_reader *l, struct record *r)
{
	const struct json_reader *j = (const struct json_reader *)l;
	static const char *const missing[] = {[ROW] = "it has no member row",
		[FAMILY] = "it has no member family",
		[QUALIFIER] = "it has no member qualifier",
		[VALUE] = "it has no member value"};

	if (j->place != AFTER)
		return "it is not one object of JSON";
	for (enum member m = ROW; m < MEMBERS; m++)
		if (m != TIMESTAMP && !(j->seen & 1u << m))
			return missing[m];
	r->row = member_of(j, ROW);
	r->family = member_of(j, FAMILY);
	r->qualifier = member_of(j, QUALIFIER);
	r->value = member_of(j, VALUE);
	r->has_ts = j->seen & 1u << TIMESTAMP;
	if (r->has_ts && !name_parse_ts(member_of(j, TIMESTAMP), &r->ts))
		return "the timestamp is not a whole number of 64 bits";
	return record_fault(r);
}

static void json_begin(struct line_reader *l)
{
	struct json_reader *j = (struct json_reader *)l;

	j->place = START;
	j->seen = 0;
	j->escape_n = 0;
}

const struct record_reader_ops json_reader_ops = {
	.bytes = sizeof(struct json_reader), .begin = json_begin, .take = json_take, .parse = json_parse};

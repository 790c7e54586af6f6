/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the bytes of a text before libconfig parses them: a written .schema,
 * or a configuration file.  Any user who may write the file chooses the text.
 * libconfig
 *	- follows @include to files that the writer may not be able to read,
 *	- stops at a NUL, accepts a comment without end, drops \x00 in a string,
 *	- wraps large numbers silently,
 *	- recurses at each level of nesting,
 *	- compares each name of a group with all others,
 *	- leaks a string where it expects none.
 * This file refuses such texts and reports the line.  The text must be UTF-8.
 * Its length, its nesting and the number of names in a group are limited.
 * This file recognises only strings, comments, brackets and numbers; libconfig
 * parses the rest.
 */
#include "engine/schema/schema_internal.h"

#include <errno.h>
#include <libconfig.h>

#define DEPTH_MAX 8   /* levels of nesting; a schema needs 2 */
#define NAMES_MAX 64u /* names in one group; a schema needs 9 */

struct scan {
	const uint8_t *p, *end;
	unsigned line;
	unsigned depth;
	unsigned names[DEPTH_MAX + 1];
	uint8_t inside[DEPTH_MAX + 1]; /* the open bracket at each depth; 0 at depth 0 */
	uint8_t last;                  /* the previous token (punctuation, '"', or 'a' for a name or number), or 0 */
	const uint8_t *whole;          /* the end of the last token that ends a value or a line */
	const char *reason;
};

static bool scan_refuse(struct scan *s, const char *reason)
{
	s->reason = reason;
	return false;
}

static bool looking_at(const struct scan *s, const char *what)
{
	size_t n = strlen(what);

	return (size_t)(s->end - s->p) >= n && memcmp(s->p, what, n) == 0;
}

static bool is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

static bool is_name(uint8_t c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '*';
}

/* Refuses a line that begins with @include, even in a comment, where libconfig follows it, too. */
static bool line_start(struct scan *s)
{
	const uint8_t *p = s->p;

	while (p < s->end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\f' || *p == '\v'))
		p++;
	if (s->end - p >= 8 && memcmp(p, "@include", 8) == 0)
		return scan_refuse(s, "@include is not allowed");
	return true;
}

static bool scan_newline(struct scan *s)
{
	s->p++;
	s->line++;
	return line_start(s);
}

static bool skip_line(struct scan *s)
{
	while (s->p < s->end && *s->p != '\n')
		s->p++;
	return true;
}

static bool skip_comment(struct scan *s)
{
	for (s->p += 2; s->p < s->end;) {
		if (looking_at(s, "*/")) {
			s->p += 2;
			return true;
		}
		if (*s->p != '\n')
			s->p++;
		else if (!scan_newline(s))
			return false;
	}
	return scan_refuse(s, "a comment that does not end");
}

static bool skip_string(struct scan *s)
{
	bool expected = s->last == '=' || s->last == ':' || s->last == '(' || s->last == '"' ||
		(s->last == ',' && s->inside[s->depth] == '(');

	if (!expected)
		return scan_refuse(s, "a string where none is expected");
	s->last = '"';
	for (s->p++; s->p < s->end;) {
		if (*s->p == '"') {
			s->p++;
			return true;
		}
		if (looking_at(s, "\\x00"))
			return scan_refuse(s, "a NUL in a string");
		if (*s->p == '\\' && s->end - s->p > 1 && s->p[1] != '\n')
			s->p += 2;
		else if (*s->p == '\n') {
			if (!scan_newline(s))
				return false;
		} else {
			s->p++;
		}
	}
	return scan_refuse(s, "a string that does not end");
}

/* Skips a decimal or hexadecimal number.  It must fit an int; with the suffix L it must have at most 15 digits. */
static bool skip_number(struct scan *s)
{
	bool hex = looking_at(s, "0x") || looking_at(s, "0X");
	uint64_t v = 0;
	unsigned digits = 0;

	s->last = 'a';
	if (hex)
		s->p += 2;
	for (; s->p < s->end; s->p++) {
		uint8_t c = *s->p, low = c | 0x20;

		if (is_digit(c))
			v = v * (hex ? 16 : 10) + (uint64_t)(c - '0');
		else if (hex && low >= 'a' && low <= 'f')
			v = v * 16 + (uint64_t)(low - 'a' + 10);
		else
			break;
		if (v)
			digits++;
	}
	if (digits > 15 || (v > INT32_MAX && (s->p == s->end || *s->p != 'L')))
		return scan_refuse(s, "the number is too large: write a size as a string with a unit, such as \"128M\"");
	while (s->p < s->end && is_name(*s->p)) /* the suffix; libconfig checks it */
		s->p++;
	return true;
}

static bool scan_bracket(struct scan *s, uint8_t c)
{
	if (c == '[' || c == ']')
		return scan_refuse(s, "an array where none is expected");
	if (c == ')' || c == '}') {
		if (s->depth)
			s->depth--;
		return true;
	}
	if (s->depth == DEPTH_MAX)
		return scan_refuse(s, "nested too deeply");
	s->names[++s->depth] = 0;
	s->inside[s->depth] = c;
	return true;
}

static bool scan_one(struct scan *s)
{
	uint8_t c = *s->p;

	if (c == '\n')
		return scan_newline(s);
	if (c == '#' || looking_at(s, "//"))
		return skip_line(s);
	if (looking_at(s, "/*"))
		return skip_comment(s);
	if (c == '"')
		return skip_string(s);
	if (is_digit(c))
		return skip_number(s);
	if (is_name(c) && c != '-') {
		s->last = 'a';
		while (s->p < s->end && is_name(*s->p))
			s->p++;
		return true;
	}
	s->p++;
	if (c != ' ' && c != '\t' && c != '\r' && c != '\f')
		s->last = c;
	if ((c == '=' || c == ':') && ++s->names[s->depth] > NAMES_MAX)
		return scan_refuse(s, "too many settings");
	if (strchr("(){}[]", c))
		return scan_bracket(s, c);
	return true;
}

static bool scan_token(struct scan *s)
{
	const uint8_t c = *s->p;
	const bool ok = scan_one(s);

	if (ok && (c == '\n' || c == ';' || c == ',' || c == ')' || c == '}'))
		s->whole = s->p;
	return ok;
}

/* Like text_printable, but newlines and tabs are allowed. */
static bool check_bytes(struct tfs_bytes text, struct scan *s)
{
	for (size_t i = 0, n; i < text.n; i += n) {
		const uint8_t c = text.p[i];
		const bool space = c == '\n' || c == '\t' || c == '\r' || c == '\f';

		n = c < 0x80 ? 1 : utf8_length(text.p + i, text.n - i);
		if (c == 0)
			return scan_refuse(s, "a NUL byte");
		if (n == 0 || (!space && control_length(text.p + i, text.n - i)))
			return scan_refuse(s, "not printable UTF-8 text");
		s->line += c == '\n';
	}
	s->line = 1;
	return true;
}

int schema_scan_text(struct tfs_bytes text, unsigned *line, const char **reason)
{
	struct scan s = {.p = text.p, .end = text.n ? text.p + text.n : text.p, .line = 1};
	bool ok = true;

	if (text.n > SCHEMA_TEXT_MAX)
		ok = scan_refuse(&s, "the text is too long");
	if (ok)
		ok = check_bytes(text, &s) && line_start(&s);
	while (ok && s.p < s.end)
		ok = scan_token(&s);
	if (ok)
		return 0;
	*line = s.line;
	*reason = s.reason;
	return -EINVAL;
}

size_t schema_scan_whole(struct tfs_bytes text)
{
	struct scan s = {.p = text.p, .end = text.p + text.n, .line = 1, .whole = text.p};
	bool ok = text.n && text.n <= SCHEMA_TEXT_MAX && line_start(&s);

	while (ok && s.p < s.end)
		ok = scan_token(&s);
	/* An error before the end is not mended by more text. */
	return ok || s.p == s.end ? (size_t)(s.whole - text.p) : text.n;
}

/* ---- a key that is set twice ---- */

/* A setting of the table: its name and where it ends, as offsets. */
struct setting_span {
	size_t name, name_end, end;
};

/* Finds the settings at depth 0, in the order of the text.  Returns their count. */
static unsigned find_settings(struct tfs_bytes text, struct setting_span at[NAMES_MAX])
{
	struct scan s = {.p = text.p, .end = text.p + text.n, .line = 1};
	size_t token[2] = {0}, before = 0; /* the last token, and the end of the token before it */
	unsigned n = 0;
	bool ended = true; /* the last setting has its end */

	while (s.p < s.end) {
		const size_t begin = (size_t)(s.p - text.p);
		const uint8_t c = *s.p;
		const bool skipped = strchr(" \t\r\f\n#", c) || looking_at(&s, "//") || looking_at(&s, "/*");

		if (!scan_one(&s))
			return 0;
		if (skipped)
			continue;
		if (s.depth == 0 && (c == '=' || c == ':')) {
			if (!ended)
				at[n - 1].end = before;
			at[n++] = (struct setting_span){.name = token[0], .name_end = token[1]};
			ended = false;
		} else if (s.depth == 0 && !ended && (c == ';' || c == ',')) {
			at[n - 1].end = (size_t)(s.p - text.p);
			ended = true;
		}
		before = token[1];
		token[0] = begin;
		token[1] = (size_t)(s.p - text.p);
	}
	if (!ended)
		at[n - 1].end = token[1];
	return n;
}

/* Extends a setting that has its lines for itself to these lines. */
static void take_lines(struct tfs_bytes text, struct setting_span *x)
{
	size_t begin = x->name, end = x->end;

	while (begin && (text.p[begin - 1] == ' ' || text.p[begin - 1] == '\t'))
		begin--;
	while (end < text.n && (text.p[end] == ' ' || text.p[end] == '\t'))
		end++;
	if ((begin && text.p[begin - 1] != '\n') || end == text.n || text.p[end] != '\n')
		return;
	x->name = begin;
	x->end = end + 1;
}

int schema_text_last(struct tfs_bytes text, bool cut, struct buf *out)
{
	struct setting_span at[NAMES_MAX];
	const unsigned n = find_settings(text, at);
	size_t from = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct tfs_bytes name = tfs_bytes_of(text.p + at[i].name, at[i].name_end - at[i].name);
		bool again = false;

		for (unsigned k = i + 1; k < n && !again; k++)
			again = bytes_eq(name, tfs_bytes_of(text.p + at[k].name, at[k].name_end - at[k].name));
		if (!again)
			continue;
		if (cut)
			take_lines(text, &at[i]);
		if (buf_append(out, text.p + from, at[i].name - from))
			return -ENOMEM;
		for (from = at[i].name; from < at[i].end; from++)
			if (!cut && buf_u8(out, text.p[from] == '\n' ? '\n' : ' '))
				return -ENOMEM;
	}
	return buf_append(out, text.p + from, text.n - from);
}

int schema_config_read(struct tfs_bytes text, config_t *config)
{
	struct buf b = {0};
	/* libconfig requires a newline after a comment, also at the end of the text. */
	const bool ended = text.n && text.p[text.n - 1] == '\n';
	int err = buf_append_bytes(&b, text) || buf_append(&b, "\n", 2) ? -ENOMEM : 0;

	if (!err && ended)
		b.p[text.n] = 0;

	if (!err && !config_read_string(config, (const char *)b.p))
		err = -EINVAL;
	buf_fini(&b);
	return err;
}

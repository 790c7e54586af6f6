/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clauses of a scan, from the components of a path (clauses.h).  A clause
 * is NAME=VALUE, escaped and split as names of files are.  The value may be
 * pasted from such a name, of a row, a column or a version, which escape
 * different bytes and split at other places.  So any escape and any split is
 * accepted.
 */
#include "engine/bulk/clauses.h"

#include "engine/base/units.h"
#include "engine/base/name.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define DAY_US INT64_C(86400000000)

static const char *const clause_names[] = {
#define CLAUSE_NAME(upper, name, help) name,
	CLAUSES(CLAUSE_NAME)
#undef CLAUSE_NAME
};

int clauses_help(struct buf *out)
{
	static const char *const help[] = {
#define CLAUSE_HELP(upper, name, help) help,
		CLAUSES(CLAUSE_HELP)
#undef CLAUSE_HELP
	};
	int err = buf_printf(out,
		"TABLE/.scan/CLAUSE/CLAUSE/.../ and then one of\n"
		"  .rows/     the matching cells, as ROW/FAMILY/QUALIFIER@TIMESTAMP\n"
		"  .latest/   the newest matching version of each column, as ROW/FAMILY/QUALIFIER\n"
		"  .tsv       row, family:qualifier, timestamp and value, separated by tabs\n"
		"  .jsonl     one JSON object a cell\n"
		"  .tar       the tree of .rows as an archive\n"
		"  .keys      row keys\n"
		"  .count     the number of rows and of cells\n"
		"Clauses, in any order, each at most once:\n");

	for (int i = 0; i < CLAUSE_COUNT && err == 0; i++) {
		const char *arg_end = strchr(help[i], ' ');
		int arg_n = (int)(arg_end - help[i]);

		err = buf_printf(out, "  %s=%.*s%*s%s\n", clause_names[i], arg_n, help[i],
			(int)(16 - strlen(clause_names[i]) - (size_t)arg_n), "", arg_end + strspn(arg_end, " "));
	}
	return err ? err
		   : buf_printf(out,
			     "KEY and Q are written as the names of files are (%%2F for /).  A REGEX is one of PCRE2.\n"
			     "A TIME is in microseconds since 1970, or 2026-11-22T10:00:00Z, or an age such as 10d, or\n"
			     "now, today, yesterday.  Instead of yes also true, on and 1; no, false, off and 0 are the\n"
			     "opposite.\n");
}

/* ---- values ---- */

static bool has(const struct clauses *c, enum clause k)
{
	return c->given >> k & 1;
}

/* Each of these returns why the value of a clause is refused, or NULL.  A clause that is absent leaves its output. */
static const char *parse_count(const struct clauses *c, enum clause k, uint64_t max, uint64_t *out)
{
	const char *p = (const char *)c->value[k].p;

	if (!has(c, k))
		return NULL;
	return units_number(&p, out) && !*p && *out && *out <= max ? NULL : "it needs a number, at least 1";
}

/* Reads HH, HH:MM, or HH:MM:SS with a fraction of the second.  Returns the end, or NULL. */
static const char *parse_clock(const char *p, struct tm *at, int64_t *fraction_us)
{
	static const char *const fields[] = {"%H", ":%M", ":%S"};
	int64_t scale = 100000;

	for (int i = 0; p && i < 3 && (i == 0 || *p == ':'); i++)
		p = strptime(p, fields[i], at);
	if (p && (*p == '.' || *p == ','))
		for (p++; *p >= '0' && *p <= '9'; p++, scale /= 10)
			*fraction_us += (*p - '0') * scale;
	return p;
}

/* A date, or date and time, of ISO 8601; UTC unless it ends in an offset. */
static bool parse_iso(const char *text, int64_t *us)
{
	struct tm day = {0}, at = {0}, offset = {0};
	int64_t fraction_us = 0, seconds;
	const char *p = strptime(text, "%Y-%m-%d", &day);
	int mday = day.tm_mday, sign = 0;

	seconds = timegm(&day);
	if (!p || day.tm_mday != mday) /* 31 February has become 3 March */
		return false;
	if (*p == 'T' || *p == ' ')
		p = parse_clock(p + 1, &at, &fraction_us);
	if (p && *p == 'Z') {
		p++;
	} else if (p && (*p == '+' || *p == '-')) {
		sign = *p == '-' ? -1 : 1;
		p = strptime(p + 1, "%H", &offset);
		if (p && *p)
			p = strptime(p, *p == ':' ? ":%M" : "%M", &offset);
	}
	if (!p || *p)
		return false;
	seconds += at.tm_hour * 3600 + at.tm_min * 60 + at.tm_sec - sign * (offset.tm_hour * 3600 + offset.tm_min * 60);
	*us = seconds * 1000000 + fraction_us;
	return true;
}

/* Days begin at midnight UTC, as dates without a time do. */
static bool parse_day(const char *text, int64_t now_us, int64_t *us)
{
	static const struct {
		const char *text;
		int64_t days;
	} days[] = {{"today", 0}, {"yesterday", -1}, {"tomorrow", 1}};

	for (size_t i = 0; i < sizeof(days) / sizeof(*days); i++) {
		if (strcmp(text, days[i].text) != 0)
			continue;
		*us = now_us - now_us % DAY_US + days[i].days * DAY_US;
		return true;
	}
	*us = now_us;
	return strcmp(text, "now") == 0;
}

static const char *parse_time(struct clauses *c, enum clause k, int64_t now_us, int64_t *us)
{
	const char *text = (const char *)c->value[k].p;
	uint64_t age;

	if (!has(c, k) || name_parse_ts(tfs_str(text), us) || parse_iso(text, us))
		return NULL;
	c->has_age = true;
	if (parse_day(text, now_us, us))
		return NULL;
	if (!units_duration(text, &age))
		return "it needs a time: microseconds since 1970, 2026-11-22T10:00:00Z, an age such as 10d, now, today or "
		       "yesterday";
	*us = now_us - (int64_t)age;
	return NULL;
}

static const char *parse_flag(const struct clauses *c, enum clause k, bool *out)
{
	static const char *const texts[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};

	*out = false;
	for (size_t i = 0; has(c, k) && i < sizeof(texts) / sizeof(*texts); i++) {
		if (strcmp((const char *)c->value[k].p, texts[i]) != 0)
			continue;
		*out = i % 2;
		return NULL;
	}
	return has(c, k) ? "it needs yes or no" : NULL;
}

static const char *parse_families(struct clauses *c, int *err)
{
	char *text = (char *)c->value[CLAUSE_FAMILY].p;
	size_t count = 1;

	if (!has(c, CLAUSE_FAMILY))
		return NULL;
	for (const char *p = text; *p; p++)
		count += *p == ',';
	c->families = calloc(count, sizeof(*c->families));
	if (!c->families) {
		*err = -ENOMEM;
		return NULL;
	}
	for (char *name = strsep(&text, ","); name; name = strsep(&text, ",")) {
		if (!tfs_name_valid(name))
			return "it needs names of families, joined by commas";
		c->families[c->spec.family_count++] = name;
	}
	c->spec.families = c->families;
	return NULL;
}

/* ---- bounds ---- */

void bound_from(struct tfs_bytes *from, bool *after, struct tfs_bytes with, bool with_after)
{
	int order = bytes_cmp(*from, with);

	if (order < 0) {
		*from = with;
		*after = with_after;
	} else if (order == 0) {
		*after = *after || with_after;
	}
}

void bound_to(struct tfs_bytes *to, struct tfs_bytes with)
{
	if (!to->p || bytes_cmp(*to, with) > 0)
		*to = tfs_bytes_of(with.n ? (const void *)with.p : "", with.n);
}

bool clauses_admit_row(const struct clauses *c, struct tfs_bytes row)
{
	const struct tfs_scan_spec *s = &c->spec;
	int order = bytes_cmp(row, s->row_from);

	return (order > 0 || (order == 0 && !s->row_from_after)) && (!s->row_to.p || bytes_cmp(row, s->row_to) < 0);
}

static int set_prefix(struct tfs_bytes prefix, struct tfs_bytes *from, bool *after, struct buf *end, struct tfs_bytes *to)
{
	int err = key_after_prefix(prefix, end);

	bound_from(from, after, prefix, false);
	if (err == 0 && end->n)
		bound_to(to, buf_bytes(end));
	return err;
}

static int set_rows(struct clauses *c)
{
	struct tfs_scan_spec *s = &c->spec;
	int err = 0;

	if (has(c, CLAUSE_FROM))
		bound_from(&s->row_from, &s->row_from_after, buf_bytes(&c->value[CLAUSE_FROM]), false);
	if (has(c, CLAUSE_TO))
		bound_to(&s->row_to, buf_bytes(&c->value[CLAUSE_TO]));
	if (has(c, CLAUSE_AFTER) && s->reverse)
		bound_to(&s->row_to, buf_bytes(&c->value[CLAUSE_AFTER]));
	else if (has(c, CLAUSE_AFTER))
		bound_from(&s->row_from, &s->row_from_after, buf_bytes(&c->value[CLAUSE_AFTER]), true);
	if (has(c, CLAUSE_PREFIX))
		err = set_prefix(buf_bytes(&c->value[CLAUSE_PREFIX]), &s->row_from, &s->row_from_after, &c->row_to, &s->row_to);
	return err;
}

static int set_qualifiers(struct clauses *c)
{
	struct tfs_scan_spec *s = &c->spec;
	int err = 0;

	if (has(c, CLAUSE_QFROM))
		bound_from(&s->qualifier_from, &s->qualifier_from_after, buf_bytes(&c->value[CLAUSE_QFROM]), false);
	if (has(c, CLAUSE_QAFTER))
		bound_from(&s->qualifier_from, &s->qualifier_from_after, buf_bytes(&c->value[CLAUSE_QAFTER]), true);
	if (has(c, CLAUSE_QTO))
		bound_to(&s->qualifier_to, buf_bytes(&c->value[CLAUSE_QTO]));
	if (has(c, CLAUSE_QPREFIX))
		err = set_prefix(buf_bytes(&c->value[CLAUSE_QPREFIX]), &s->qualifier_from, &s->qualifier_from_after,
			&c->qualifier_to, &s->qualifier_to);
	return err;
}

/* ---- all clauses ---- */

static const char *set_counts(struct clauses *c)
{
	uint64_t columns = 0, versions = 0;
	const char *why = parse_count(c, CLAUSE_LIMIT, UINT64_MAX, &c->limit);

	if (!why)
		why = parse_count(c, CLAUSE_QLIMIT, UINT32_MAX, &columns);
	if (!why)
		why = parse_count(c, CLAUSE_VERSIONS, UINT32_MAX, &versions);
	c->spec.column_limit = (uint32_t)columns;
	c->spec.versions = (uint32_t)versions;
	return why;
}

static const char *set_times(struct clauses *c, int64_t now_us)
{
	struct tfs_scan_spec *s = &c->spec;
	int64_t at = INT64_MAX;
	const char *why;

	s->since = INT64_MIN;
	s->until = INT64_MAX;
	why = parse_time(c, CLAUSE_SINCE, now_us, &s->since);
	if (!why)
		why = parse_time(c, CLAUSE_UNTIL, now_us, &s->until);
	if (!why)
		why = parse_time(c, CLAUSE_AT, now_us, &at);
	if (!why)
		why = parse_time(c, CLAUSE_CHANGED, now_us, &s->changed_since);
	if (at < s->until)
		s->until = at + 1;
	s->has_times = has(c, CLAUSE_SINCE) || has(c, CLAUSE_UNTIL) || at < INT64_MAX;
	if (has(c, CLAUSE_AT) && !has(c, CLAUSE_VERSIONS))
		s->versions = 1;
	s->has_changed = has(c, CLAUSE_CHANGED);
	return why;
}

static struct tfs_bytes text_of(const struct clauses *c, enum clause k)
{
	return has(c, k) ? buf_bytes(&c->value[k]) : (struct tfs_bytes){0};
}

static const char *set_spec(struct clauses *c, int64_t now_us, int *err)
{
	const char *why = set_counts(c);

	if (!why)
		why = set_times(c, now_us);
	if (!why)
		why = parse_families(c, err);
	if (!why)
		why = parse_flag(c, CLAUSE_REVERSE, &c->spec.reverse);
	if (why || *err)
		return why;
	c->spec.row_regex = text_of(c, CLAUSE_ROW);
	c->spec.qualifier_regex = text_of(c, CLAUSE_QUALIFIER);
	c->spec.value_regex = text_of(c, CLAUSE_VALUE);
	c->spec.value_is = text_of(c, CLAUSE_VALUE_IS);
	*err = set_rows(c);
	if (*err == 0)
		*err = set_qualifiers(c);
	return NULL;
}

#define BIT(k) (1u << CLAUSE_##k)
#define TEXT_CLAUSES                                                                                                               \
	(BIT(REVERSE) | BIT(LIMIT) | BIT(FAMILY) | BIT(QLIMIT) | BIT(SINCE) | BIT(UNTIL) | BIT(VERSIONS) | BIT(AT) | BIT(CHANGED))

/* text is NAME=VALUE; it becomes VALUE. */
static const char *add_clause(struct clauses *c, struct buf *text)
{
	const uint8_t *equals = memchr(text->p, '=', text->n);
	size_t name_n = equals ? (size_t)(equals - text->p) : 0;

	for (enum clause k = 0; equals && k < CLAUSE_COUNT; k++) {
		if (strlen(clause_names[k]) != name_n || memcmp(clause_names[k], text->p, name_n) != 0)
			continue;
		if (has(c, k))
			return "this clause is given twice";
		if (TEXT_CLAUSES >> k & 1 && memchr(equals, 0, text->n - name_n))
			return "its value is a text without a NUL byte";
		c->given |= 1u << k;
		text->n -= name_n + 1;
		memmove(text->p, equals + 1, text->n + 1); /* with the NUL */
		c->value[k] = *text;
		*text = (struct buf){0};
		return NULL;
	}
	return "not a clause: cat TABLE/.scan/.help";
}

/* The bytes of the first clause of path, with the parts of its name. */
static size_t clause_length(struct tfs_bytes path, bool *partial)
{
	size_t at = 0, end;

	do {
		const uint8_t *slash = memchr(path.p + at, '/', path.n - at);

		end = slash ? (size_t)(slash - path.p) : path.n;
		*partial = name_is_part(tfs_bytes_of(path.p + at, end - at));
		at = end + 1;
	} while (*partial && end < path.n);
	return end;
}

int clauses_parse(struct tfs_bytes path, int64_t now_us, struct clauses *out, const char **why)
{
	struct buf text = {0};
	int err = 0;

	*out = (struct clauses){0};
	*why = NULL;
	while (path.n && err == 0 && !*why) {
		size_t n = clause_length(path, &out->partial);

		if (out->partial)
			break;
		err = name_decode_text(tfs_bytes_of(path.p, n), &text);
		if (err == 0)
			err = buf_reserve(&text, 1);
		if (err == -ENOENT) {
			*why = "% begins an escape: %XX, with digits from 0 to 9 and A to F";
			err = 0;
		} else if (err == 0) {
			text.p[text.n] = 0;
			*why = add_clause(out, &text);
		}
		path = n < path.n ? tfs_bytes_of(path.p + n + 1, path.n - n - 1) : tfs_bytes_of(NULL, 0);
	}
	buf_fini(&text);
	if (err == 0 && !*why)
		*why = set_spec(out, now_us, &err);
	return *why ? -EINVAL : err;
}

void clauses_fini(struct clauses *c)
{
	for (int i = 0; i < CLAUSE_COUNT; i++)
		buf_fini(&c->value[i]);
	buf_fini(&c->row_to);
	buf_fini(&c->qualifier_to);
	buf_fini(&c->row_last);
	free(c->families);
}

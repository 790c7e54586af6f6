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
#include "engine/base/where.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define DAY_US INT64_C(86400000000)

#define MEMBER(member) (((struct tfs_scan_spec *)NULL)->member)
#define TYPE_OF(x)                                                                                                                 \
	_Generic((x),                                                                                                              \
		struct tfs_bytes: CLAUSE_TYPE_REGEX,                                                                               \
		uint32_t: CLAUSE_TYPE_COUNT,                                                                                       \
		uint64_t: CLAUSE_TYPE_COUNT,                                                                                       \
		int64_t: CLAUSE_TYPE_TIME,                                                                                         \
		bool: CLAUSE_TYPE_FLAG,                                                                                            \
		const char *const *: CLAUSE_TYPE_NAMES)
#define MEMBER_FITS(upper, name, type, member, ...)                                                                                \
	_Static_assert((CLAUSE_TYPE_##type <= CLAUSE_TYPE_WHERE                  ? CLAUSE_TYPE_REGEX                               \
				       : CLAUSE_TYPE_##type == CLAUSE_TYPE_SHARE ? CLAUSE_TYPE_COUNT                               \
										 : CLAUSE_TYPE_##type) == TYPE_OF(MEMBER(member)), \
		"the clause " name " has another type");
CLAUSES(MEMBER_FITS)
_Static_assert(CLAUSE_COUNT <= 32, "bits of clauses.given");

const struct clause_kind clause_kinds[CLAUSE_COUNT] = {
#define CLAUSE_KIND(upper, name, type, member, argument, help)                                                                     \
	{name, argument, help, CLAUSE_TYPE_##type, offsetof(struct tfs_scan_spec, member), sizeof(MEMBER(member))},
	CLAUSES(CLAUSE_KIND)
#undef CLAUSE_KIND
};

int clauses_help(struct buf *out)
{
#define STREAM_HELP(upper, name, what, help) {name, help},
	static const char *const streams[][2] = {SCAN_STREAMS(STREAM_HELP)};
	int err = buf_printf(out,
		"TABLE/.scan/CLAUSE/CLAUSE/.../ and then one of\n"
		"  .rows/     the matching cells, as ROW/FAMILY/QUALIFIER@TIMESTAMP\n"
		"  .latest/   the newest matching version of each column, as ROW/FAMILY/QUALIFIER\n");

	for (unsigned i = 0; i < sizeof(streams) / sizeof(*streams) && err == 0; i++)
		err = buf_printf(out, "  %-10s %s\n", streams[i][0], streams[i][1]);
	if (err == 0)
		err = buf_printf(out, "Clauses, in any order, each at most once but prefix= and where=:\n");
	for (const struct clause_kind *k = clause_kinds; k < clause_kinds + CLAUSE_COUNT && err == 0; k++) {
		const char *argument = k->type == CLAUSE_TYPE_FLAG ? "=yes" : k->argument;

		err = buf_printf(
			out, "  %s%s%*s%s\n", k->name, argument, (int)(18 - strlen(k->name) - strlen(argument)), "", k->help);
	}
	return err ? err
		   : buf_printf(out,
			     "KEY and Q are written as the names of files are (%%2F for /).  A REGEX is one of PCRE2.\n"
			     "A TIME is in microseconds since 1970, or 2026-11-22T10:00:00Z, or an age such as 10d, or\n"
			     "now, today, yesterday.  Instead of yes also true, on and 1; no, false, off and 0 are the\n"
			     "opposite.\n");
}

/* How a value of the clause is written; "": the argument says it. */
static const char *value_form(const struct clause_kind *k)
{
	if (k->type <= CLAUSE_TYPE_AFTER)
		return "It is written as the names of files are: %2F for /.\n";
	if (k->type == CLAUSE_TYPE_REGEX && k != &clause_kinds[CLAUSE_LUA])
		return "A pattern is one of PCRE2 and matches the whole; %2F for /.\n";
	if (k->type == CLAUSE_TYPE_TIME)
		return "A time is in microseconds since 1970, or 2026-11-22T10:00:00Z, or an age such as 10d, or\n"
		       "now, today, yesterday.\n";
	return "";
}

int clause_help(enum clause clause, struct buf *out)
{
	const struct clause_kind *k = &clause_kinds[clause];

	return buf_printf(out,
		"%s%s   %s\n%s"
		"Give the value, and the name is a directory: more clauses below it narrow the scan, and\n"
		".rows, .latest, .tsv, .keys, .count and others are its results.  .help has them all.\n",
		k->name, k->type == CLAUSE_TYPE_FLAG ? "=yes" : k->argument, k->help, value_form(k));
}

/* ---- values ---- */

#define SHARE_NEEDED "it needs a share from 0.0001% to 100%, in steps of 0.0001%, such as 1% or 0.01"

static bool has(const struct clauses *c, enum clause k)
{
	return c->given >> k & 1;
}

/* Each of these returns why the value of a clause is refused, or NULL. */
static const char *parse_count(const struct clauses *c, enum clause k, void *member)
{
	const char *p = (const char *)c->value[k].p;
	const bool wide = clause_kinds[k].size == sizeof(uint64_t);
	uint64_t n;

	if (!units_number(&p, &n) || *p || !n || (!wide && n > UINT32_MAX))
		return "it needs a number, at least 1";
	if (wide)
		*(uint64_t *)member = n;
	else
		*(uint32_t *)member = (uint32_t)n;
	return NULL;
}

/* Reads a share as 1% or 0.01, in steps of a millionth of all. */
static const char *parse_share(const struct clauses *c, enum clause k, uint32_t *out)
{
	const char *p = (const char *)c->value[k].p;
	uint64_t n = 0, digits = 0;
	int64_t scale = 100000000, point = 0; /* n counts parts of `scale` */

	for (; (*p >= '0' && *p <= '9' && digits < 10) || (*p == '.' && digits && !point); p++) {
		if (*p == '.') {
			point = 1;
			continue;
		}
		digits++;
		if (point && !(scale /= 10))
			return SHARE_NEEDED;
		n = n * 10 + (uint64_t)(*p - '0');
	}
	n *= (uint64_t)scale;
	if (digits && strcmp(p, "%") == 0 && n % 100 == 0)
		n /= 100;
	else if (!digits || *p)
		return SHARE_NEEDED;
	if (n < 100 || n % 100 != 0 || n > 100000000)
		return SHARE_NEEDED;
	*out = (uint32_t)(n / 100);
	return NULL;
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

bool clauses_time(const char *text, int64_t now_us, int64_t *us, bool *is_age)
{
	uint64_t age = 0;

	*is_age = !name_parse_ts(tfs_str(text), us) && !parse_iso(text, us);
	if (*is_age && !parse_day(text, now_us, us) && !units_duration(text, &age))
		return false;
	*us -= (int64_t)age;
	return true;
}

/* `at` narrows the bound that `until` has set, because `until` is earlier in the list. */
static const char *parse_time(struct clauses *c, enum clause k, int64_t now_us, int64_t *member)
{
	int64_t us;
	bool is_age;

	if (!clauses_time((const char *)c->value[k].p, now_us, &us, &is_age))
		return "it needs a time: microseconds since 1970, 2026-11-22T10:00:00Z, an age such as 10d, now, today or "
		       "yesterday";
	c->has_age = c->has_age || is_age;
	if (k != CLAUSE_AT) {
		*member = us;
	} else if (us < *member) {
		*member = us + 1;
		c->spec.has_times = true;
	}
	return NULL;
}

static const char *parse_flag(const struct clauses *c, enum clause k, bool *out)
{
	static const char *const texts[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		if (strcmp((const char *)c->value[k].p, texts[i]) != 0)
			continue;
		*out = i % 2;
		return NULL;
	}
	return "it needs yes or no";
}

static const char *parse_families(struct clauses *c, int *err)
{
	char *text = (char *)c->value[CLAUSE_FAMILY].p;
	size_t count = 1;

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

/* *err: -ENOMEM, or unchanged. */
static const char *check_where(struct tfs_bytes text, int *err)
{
	struct where w;
	const char *why;
	int failed = where_parse(text, &w, &why);

	where_fini(&w);
	if (failed == -ENOMEM)
		*err = failed;
	return why;
}

/* Adds the condition `more` to where=. */
static const char *join_where(struct clauses *c, struct tfs_bytes more, int *err)
{
	struct buf *to = &c->value[CLAUSE_WHERE], first = *to;
	const char *why = check_where(more, err);

	if (why || *err)
		return why;
	*to = (struct buf){0};
	*err = c->where_joined ? buf_append_bytes(to, buf_bytes(&first))
			       : buf_printf(to, "(") || buf_append_bytes(to, buf_bytes(&first)) || buf_printf(to, ")");
	if (*err || buf_printf(to, " and (") || buf_append_bytes(to, more) || buf_printf(to, ")"))
		*err = -ENOMEM;
	c->where_joined = true;
	buf_fini(&first);
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
	bool is_key = !s->keys;

	for (unsigned i = 0; i < s->key_count && !is_key; i++)
		is_key = bytes_has_prefix(row, s->keys[i].key);
	if (!is_key)
		return false;
	return (order > 0 || (order == 0 && !s->row_from_after)) && (!s->row_to.p || bytes_cmp(row, s->row_to) < 0);
}

/* Narrows the bounds of rows or of qualifiers by the key of a clause. */
static int set_bound(struct clauses *c, enum clause k)
{
	struct tfs_scan_spec *const s = &c->spec;
	const size_t at = clause_kinds[k].at;
	const bool row = at == offsetof(struct tfs_scan_spec, row_from) || at == offsetof(struct tfs_scan_spec, row_to);
	const bool stored = at == offsetof(struct tfs_scan_spec, stored_from) || at == offsetof(struct tfs_scan_spec, stored_to);
	struct tfs_bytes *from = row ? &s->row_from : &s->qualifier_from, *to = row ? &s->row_to : &s->qualifier_to;
	bool *after = row ? &s->row_from_after : &s->qualifier_from_after;
	struct buf *end = row ? &c->row_to : &c->qualifier_to;
	const struct tfs_bytes key = buf_bytes(&c->value[k]);
	const enum clause_type type = clause_kinds[k].type;
	int err = 0;

	if ((k == CLAUSE_PREFIX && s->keys) ||
		(!key.n && ((row && type == CLAUSE_TYPE_TO) || stored))) /* the end, or the beginning */
		return 0;
	if (stored) {
		*(struct tfs_bytes *)((char *)s + at) = key;
		return 0;
	}
	if (type == CLAUSE_TYPE_TO || (type == CLAUSE_TYPE_AFTER && row && s->reverse))
		bound_to(to, key);
	else
		bound_from(from, after, key, type == CLAUSE_TYPE_AFTER);
	if (type == CLAUSE_TYPE_PREFIX)
		err = key_after_prefix(key, end);
	if (err == 0 && end->n)
		bound_to(to, buf_bytes(end));
	return err;
}

/* ---- all clauses ---- */

static const char *set_member(struct clauses *c, enum clause k, int64_t now_us, int *err)
{
	void *member = (char *)&c->spec + clause_kinds[k].at;

	switch (clause_kinds[k].type) {
	case CLAUSE_TYPE_BYTES:
	case CLAUSE_TYPE_REGEX:
		*(struct tfs_bytes *)member = buf_bytes(&c->value[k]);
		return NULL;
	case CLAUSE_TYPE_WHERE:
		*(struct tfs_bytes *)member = buf_bytes(&c->value[k]);
		return check_where(buf_bytes(&c->value[k]), err);
	case CLAUSE_TYPE_COUNT:
		return parse_count(c, k, member);
	case CLAUSE_TYPE_SHARE:
		return parse_share(c, k, member);
	case CLAUSE_TYPE_FLAG:
		return parse_flag(c, k, member);
	case CLAUSE_TYPE_TIME:
		return parse_time(c, k, now_us, member);
	case CLAUSE_TYPE_NAMES:
		return parse_families(c, err);
	case CLAUSE_TYPE_PREFIX:
	case CLAUSE_TYPE_FROM:
	case CLAUSE_TYPE_TO:
	case CLAUSE_TYPE_AFTER:
		break; /* set_bound() needs reverse */
	}
	return NULL;
}

static const char *set_spec(struct clauses *c, int64_t now_us, int *err)
{
	struct tfs_scan_spec *const s = &c->spec;
	const char *why = NULL;

	s->keys = c->keys;
	s->since = INT64_MIN;
	s->until = INT64_MAX;
	for (enum clause k = 0; k < CLAUSE_COUNT && !why && *err == 0; k++)
		if (has(c, k))
			why = set_member(c, k, now_us, err);
	s->has_times = s->has_times || has(c, CLAUSE_SINCE) || has(c, CLAUSE_UNTIL);
	s->has_changed = has(c, CLAUSE_CHANGED);
	if (has(c, CLAUSE_AT) && !has(c, CLAUSE_VERSIONS))
		s->versions = 1;
	for (enum clause k = 0; k < CLAUSE_COUNT && !why && *err == 0; k++)
		if (has(c, k) && clause_kinds[k].type <= CLAUSE_TYPE_AFTER)
			*err = set_bound(c, k);
	return why;
}

bool clauses_need_store(const struct clauses *c)
{
	for (enum clause k = 0; k < CLAUSE_COUNT; k++)
		if (has(c, k) &&
			(clause_kinds[k].type == CLAUSE_TYPE_REGEX || clause_kinds[k].type == CLAUSE_TYPE_WHERE ||
				clause_kinds[k].type == CLAUSE_TYPE_NAMES))
			return true;
	return false;
}

/* Adds one more prefix. */
static int add_prefix(struct clauses *c, struct tfs_bytes prefix)
{
	struct tfs_scan_spec *s = &c->spec;

	if (array_grow(&c->keys, s->key_count, sizeof(*c->keys)) || !arena_dup(&c->arena, prefix, &c->keys[s->key_count].key))
		return -ENOMEM;
	c->keys[s->key_count++].is_prefix = true;
	return 0;
}

/* text is NAME=VALUE; it becomes VALUE. */
static const char *add_clause(struct clauses *c, struct buf *text, int *err)
{
	const uint8_t *equals = memchr(text->p, '=', text->n);
	size_t name_n = equals ? (size_t)(equals - text->p) : 0;

	for (enum clause k = 0; equals && k < CLAUSE_COUNT; k++) {
		if (strlen(clause_kinds[k].name) != name_n || memcmp(clause_kinds[k].name, text->p, name_n) != 0)
			continue;
		if (has(c, k) && clause_kinds[k].type == CLAUSE_TYPE_WHERE)
			return join_where(c, tfs_bytes_of(equals + 1, text->n - name_n - 1), err);
		if (has(c, k) && k == CLAUSE_PREFIX) {
			if (!c->keys)
				*err = add_prefix(c, buf_bytes(&c->value[k]));
			if (!*err)
				*err = add_prefix(c, tfs_bytes_of(equals + 1, text->n - name_n - 1));
			return NULL;
		}
		if (has(c, k))
			return "this clause is given twice";
		if (clause_kinds[k].type >= CLAUSE_TYPE_COUNT && memchr(equals, 0, text->n - name_n))
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

/* Returns true for sample=N%, where % is neither an escape nor the end of a part. */
static bool is_share(struct tfs_bytes clause)
{
	const struct tfs_bytes name = TFS_S("sample=");

	if (clause.n <= name.n || !bytes_has_prefix(clause, name) || clause.p[clause.n - 1] != '%')
		return false;
	for (size_t i = name.n; i < clause.n - 1; i++)
		if (clause.p[i] != '.' && (clause.p[i] < '0' || clause.p[i] > '9'))
			return false;
	return true;
}

/* The bytes of the first clause of path, with the parts of its name. */
static size_t clause_length(struct tfs_bytes path, bool *partial)
{
	size_t at = 0, end;

	do {
		const uint8_t *slash = memchr(path.p + at, '/', path.n - at);

		end = slash ? (size_t)(slash - path.p) : path.n;
		*partial = name_is_part(tfs_bytes_of(path.p + at, end - at)) && !is_share(tfs_bytes_of(path.p + at, end - at));
		at = end + 1;
	} while (*partial && end < path.n);
	return end;
}

/* Returns true if the clause is an open end of .tablets. */
static bool is_open_end(struct tfs_bytes clause)
{
	static const char *const ends[] = {"from=-", "to=-", "stored-from=-", "stored-to=-"};

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (bytes_eq(clause, tfs_str(ends[i])))
			return true;
	return false;
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
		err = is_share(tfs_bytes_of(path.p, n))
			? buf_set(&text, path.p, n)
			: name_decode_text(tfs_bytes_of(path.p, is_open_end(tfs_bytes_of(path.p, n)) ? n - 1 : n), &text);
		if (err == 0)
			err = buf_reserve(&text, 1);
		if (err == -ENOENT) {
			*why = "% begins an escape: %XX, with digits from 0 to 9 and A to F";
			err = 0;
		} else if (err == 0) {
			text.p[text.n] = 0;
			*why = add_clause(out, &text, &err);
			buf_reset(&text);
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
	free(c->keys);
	arena_fini(&c->arena);
}

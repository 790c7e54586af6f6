/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mutation of one row as lines of text (mutation_lines.h).  A line is
 * parsed when its newline has been read, so that the write that contains it can
 * be refused.  `commit` is complete without a newline, because shells often
 * write the last line so; then only a newline may follow.
 *
 * Rejected: several mutations through one descriptor.  The kernel splits long
 * writes, so a program would not know which of its mutations was refused.
 */
#include "engine/bulk/mutation_lines.h"

#include "engine/base/counter.h"
#include "engine/base/reason.h"
#include "engine/bulk/escape.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE_COST = 512 }; /* bytes of memory for an operation, here and in the library */

/* The operands that can follow the verb. */
enum { TAKES_VALUE = 1, TAKES_TIME = 2, TAKES_ALL = 4 };
static const struct {
	const char *name;
	unsigned takes;
} verbs[MUTATION_VERBS] = {
	[MUTATION_SET] = {"set", TAKES_VALUE | TAKES_TIME},
	[MUTATION_APPEND] = {"append", TAKES_VALUE},
	[MUTATION_INCREMENT] = {"increment", TAKES_VALUE},
	[MUTATION_DELETE] = {"delete", TAKES_TIME | TAKES_ALL},
	[MUTATION_CHECK] = {"check", TAKES_VALUE},
	[MUTATION_CHECK_ABSENT] = {"check-absent", 0},
	[MUTATION_CHECK_MATCH] = {"check-match", TAKES_VALUE},
};

void mutation_lines_fini(struct mutation_lines *l)
{
	free(l->lines);
	free(l->results);
	buf_fini(&l->rest);
	buf_fini(&l->answer);
	arena_fini(&l->arena);
	*l = (struct mutation_lines){0};
}

/* ---- refusals ---- */

static const char refused_word[] = "refused\t";

static int lines_refuse(struct mutation_lines *l, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int lines_refuse(struct mutation_lines *l, int err, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	buf_reset(&l->answer);
	return buf_printf(&l->answer, "%s%s\n", refused_word, text) ? -ENOMEM : err;
}

struct tfs_bytes mutation_lines_reason(const struct mutation_lines *l)
{
	const size_t word = sizeof(refused_word) - 1;

	if (!bytes_has_prefix(buf_bytes(&l->answer), tfs_str(refused_word)))
		return tfs_bytes_of("", 0);
	return tfs_bytes_of(l->answer.p + word, l->answer.n - word - 1);
}

/* ---- parsing ---- */

/* Removes and returns the part of *s before the first c.  Returns false if there is no c. */
static bool bytes_cut(struct tfs_bytes *s, char c, struct tfs_bytes *before)
{
	const uint8_t *at = s->n ? memchr(s->p, c, s->n) : NULL;

	if (!at)
		return false;
	*before = tfs_bytes_of(s->p, (size_t)(at - s->p));
	*s = tfs_bytes_of(at + 1, s->n - before->n - 1);
	return true;
}

/* A decimal number of 64 bits and nothing else. */
static bool number_read(struct tfs_bytes s, int64_t *out)
{
	const bool minus = s.n && s.p[0] == '-';
	__int128 v = 0;

	if (s.n == minus || s.n > 20u)
		return false;
	for (size_t i = minus; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		v = v * 10 + (s.p[i] - '0');
	}
	v = minus ? -v : v;
	*out = (int64_t)v;
	return *out == v;
}

/* Returns the index of the '@' that ends the qualifier, or s.n. */
static size_t qualifier_end(struct tfs_bytes s)
{
	size_t at = s.n;

	while (at > 0 && s.p[at - 1] >= '0' && s.p[at - 1] <= '9')
		at--;
	if (at > 0 && s.p[at - 1] == '-')
		at--;
	return at > 0 && s.p[at - 1] == '@' ? at - 1 : s.n;
}

static int line_unescape(struct mutation_lines *l, struct tfs_bytes text, struct tfs_bytes *out)
{
	struct buf bytes = {0};
	int err = text_unescape(text, &bytes);

	if (!err && !arena_dup(&l->arena, buf_bytes(&bytes), out))
		err = -ENOMEM;
	buf_fini(&bytes);
	return err;
}

static int refuse_line(struct mutation_lines *l, const char *why)
{
	return lines_refuse(l, -EINVAL, "line %u: %s", l->count + 1, why);
}

static int refuse_size(struct mutation_lines *l)
{
	return lines_refuse(l, -EFBIG, "line %u: a mutation is at most 128 MiB, and each line counts 512 bytes more", l->count + 1);
}

/* F:Q[@TS], F: or "row". */
static int parse_target(
	struct mutation_lines *l, const struct tfs_schema *schema, struct tfs_bytes target, struct mutation_line *out)
{
	const unsigned takes = verbs[out->verb].takes;
	struct tfs_bytes name, rest = target;
	char text[TFS_NAME_MAX + 1];
	size_t end;
	int err;

	if (!arena_dup(&l->arena, target, &out->name))
		return -ENOMEM;
	if (takes & TAKES_ALL && bytes_eq(target, tfs_str("row")))
		return 0;
	if (!bytes_cut(&rest, ':', &name))
		return refuse_line(l, "FAMILY:QUALIFIER is missing");
	snprintf(text, sizeof(text), "%.*s", (int)(name.n < sizeof(text) ? name.n : 0), (const char *)name.p);
	if (!tfs_name_valid(text) || strlen(text) != name.n || (schema && !tfs_schema_family(schema, text)))
		return refuse_line(l, "the table has no such family");
	out->family = arena_text(&l->arena, text);
	if (!out->family)
		return -ENOMEM;
	out->all = takes & TAKES_ALL && rest.n == 0;
	end = qualifier_end(rest);
	out->has_ts = rest.n - end > 1;
	if (out->has_ts && !(takes & TAKES_TIME))
		return refuse_line(l, "this verb takes no timestamp; an @ before a number is written \\x40");
	if (out->has_ts && !number_read(tfs_bytes_of(rest.p + end + 1, rest.n - end - 1), &out->ts))
		return refuse_line(l, "the timestamp is not a number of 64 bits");
	out->name.n -= rest.n - end;
	err = line_unescape(l, tfs_bytes_of(rest.p, end), &out->qualifier);
	if (err == -EINVAL)
		return refuse_line(l, "a backslash in the qualifier begins no escape");
	if (!err && out->qualifier.n > TFS_QUALIFIER_MAX)
		return refuse_line(l, "a qualifier is at most 16 KiB");
	return err;
}

int mutation_counter_value(struct arena *arena, struct tfs_bytes *value)
{
	char text[COUNTER_TEXT_MAX];
	int64_t number;

	if (counter_parse(*value, &number))
		return -EINVAL;
	return arena_dup(arena, tfs_bytes_of(text, counter_text(number, text)), value) ? 0 : -ENOMEM;
}

static int parse_value(struct mutation_lines *l, const struct tfs_schema *schema, struct tfs_bytes text, struct mutation_line *out)
{
	const bool counter = schema && tfs_schema_family(schema, out->family)->type == TFS_TYPE_COUNTER;
	int err;

	if (out->verb == MUTATION_INCREMENT)
		return number_read(text, &out->by) ? 0 : refuse_line(l, "the value is not a number of 64 bits");
	err = line_unescape(l, text, &out->value);
	if (err)
		return err == -EINVAL ? refuse_line(l, "a backslash in the value begins no escape") : err;
	if (out->value.n > TFS_VALUE_MAX)
		return lines_refuse(l, -EFBIG, "line %u: a value is at most 64 MiB", l->count + 1);
	if (!counter || (out->verb != MUTATION_SET && out->verb != MUTATION_APPEND))
		return 0;
	err = out->verb == MUTATION_APPEND ? -EINVAL : mutation_counter_value(&l->arena, &out->value);
	return err == -EINVAL ? refuse_line(l, "a counter is set to one decimal number") : err;
}

int mutation_lines_push(struct mutation_lines *l, const struct mutation_line *line)
{
	int err = array_grow(&l->lines, l->count, sizeof(*l->lines));

	if (!err)
		l->lines[l->count++] = *line;
	return err;
}

static int parse_line(struct mutation_lines *l, const struct tfs_schema *schema, struct tfs_bytes line)
{
	struct mutation_line out = {0};
	struct tfs_bytes verb, target, rest = line;
	bool has_value;
	int err;

	if (bytes_eq(line, tfs_str("commit"))) {
		l->complete = true;
		return 0;
	}
	if (l->count == MUTATION_LINE_COUNT_MAX)
		return lines_refuse(l, -E2BIG, "line %u: a mutation has at most 65,536 lines", l->count + 1);
	if (l->bytes > MUTATION_LINES_MAX - LINE_COST)
		return refuse_size(l);
	l->bytes += LINE_COST;
	if (!bytes_cut(&rest, ' ', &verb))
		verb = rest;
	while (out.verb < MUTATION_VERBS && !bytes_eq(verb, tfs_str(verbs[out.verb].name)))
		out.verb++;
	if (out.verb == MUTATION_VERBS)
		return refuse_line(l, "it begins with no verb");
	has_value = bytes_cut(&rest, '\t', &target);
	if (!has_value)
		target = rest;
	if (has_value != ((verbs[out.verb].takes & TAKES_VALUE) != 0))
		return refuse_line(l, has_value ? "this verb takes no value" : "a tab and the value are missing");
	err = parse_target(l, schema, target, &out);
	if (!err && has_value)
		err = parse_value(l, schema, rest, &out);
	return err ? err : mutation_lines_push(l, &out);
}

/* Returns the length of the first line of text, with its newline; 0: it has no end yet. */
static size_t line_length(struct tfs_bytes text)
{
	const uint8_t *end = text.n ? memchr(text.p, '\n', text.n) : NULL;

	return end ? (size_t)(end - text.p) + 1 : 0;
}

static int add_lines(struct mutation_lines *l, const struct tfs_schema *schema, struct tfs_bytes text)
{
	size_t at = 0, n;
	int err = 0;

	while (!err && at < text.n && (n = line_length(tfs_bytes_of(text.p + at, text.n - at)))) {
		if (l->complete && !(l->unended && n == 1))
			return refuse_line(l, "a mutation ends with `commit'");
		if (!l->complete)
			err = parse_line(l, schema, tfs_bytes_of(text.p + at, n - 1));
		l->unended = false;
		at += n;
	}
	text = tfs_bytes_of(text.p + at, text.n - at);
	if (err || !text.n)
		return err ? err : buf_set(&l->rest, "", 0);
	if (l->complete)
		return refuse_line(l, "a mutation ends with `commit'");
	if (bytes_eq(text, tfs_str("commit"))) {
		l->complete = l->unended = true;
		text.n = 0;
	}
	return buf_set(&l->rest, text.p, text.n);
}

int mutation_lines_add(struct mutation_lines *l, struct tfs_table *t, struct tfs_bytes text)
{
	const struct tfs_schema *schema = NULL;
	struct buf joined = {0};
	int err;

	if (text.n > MUTATION_LINES_MAX - l->bytes)
		return refuse_size(l);
	l->bytes += text.n;
	if (l->rest.n > strlen("commit") && !line_length(text))
		return buf_append_bytes(&l->rest, text);
	err = t ? tfs_schema_get(t, &schema) : 0;
	if (err)
		return err;
	if (l->rest.n) {
		joined = l->rest;
		l->rest = (struct buf){0};
		err = buf_append_bytes(&joined, text);
		text = buf_bytes(&joined);
	}
	if (!err)
		err = add_lines(l, schema, text);
	tfs_schema_put(schema);
	buf_fini(&joined);
	if (err == -ENOMEM)
		err = lines_refuse(l, err, "line %u: out of memory", l->count + 1);
	return err;
}

/* ---- applying ---- */

static int add_delete(struct tfs_mutation *m, const struct mutation_line *line)
{
	if (!line->family)
		return tfs_mutation_delete_row(m);
	if (line->all)
		return tfs_mutation_delete_family(m, line->family);
	if (line->has_ts)
		return tfs_mutation_delete_version(m, line->family, line->qualifier, line->ts);
	return tfs_mutation_delete_column(m, line->family, line->qualifier);
}

static int add_operation(struct tfs_mutation *m, const struct mutation_line *line)
{
	const struct tfs_bytes qualifier = line->qualifier, value = line->value;
	struct tfs_write append = {
		.family = line->family,
		.qualifier = qualifier,
		.base = TFS_BASE_NEWEST,
		.truncate_to = UINT64_MAX,
		.append = value,
		.place = TFS_AUTO,
	};

	switch (line->verb) {
	case MUTATION_SET:
		return tfs_mutation_put(m, line->family, qualifier, line->has_ts ? tfs_at(line->ts) : TFS_AUTO, value);
	case MUTATION_APPEND:
		return tfs_mutation_write(m, &append);
	case MUTATION_INCREMENT:
		return tfs_mutation_increment(m, line->family, qualifier, line->by);
	case MUTATION_DELETE:
		return add_delete(m, line);
	case MUTATION_CHECK:
		return tfs_mutation_check(m, TFS_CHECK_VALUE, line->family, qualifier, TFS_AUTO, value);
	case MUTATION_CHECK_ABSENT:
		return tfs_mutation_check(m, TFS_CHECK_ABSENT, line->family, qualifier, TFS_AUTO, value);
	case MUTATION_CHECK_MATCH:
		return tfs_mutation_check(m, TFS_CHECK_MATCH, line->family, qualifier, TFS_AUTO, value);
	case MUTATION_CHECK_FAMILY:
		return tfs_mutation_check_family(m, line->family, (uint64_t)line->by);
	case MUTATION_VERBS:
		break;
	}
	return -EINVAL;
}

int mutation_lines_make(const struct mutation_lines *l, struct tfs_table *t, struct tfs_bytes row, struct tfs_mutation **out)
{
	struct tfs_mutation *m = tfs_mutation_new(t, row);
	int err = m ? 0 : -ENOMEM;

	for (unsigned i = 0; i < l->count && !err; i++)
		err = add_operation(m, &l->lines[i]);
	if (err)
		tfs_mutation_free(m);
	else
		*out = m;
	return err;
}

static const char *reason_of(const struct mutation_line *line, int err)
{
	static const enum reason_op ops[MUTATION_CHECK_FAMILY + 1] = {
		[MUTATION_INCREMENT] = REASON_INCREMENT,
		[MUTATION_CHECK] = REASON_CHECK_VALUE,
		[MUTATION_CHECK_ABSENT] = REASON_CHECK_ABSENT,
		[MUTATION_CHECK_MATCH] = REASON_CHECK_MATCH,
		[MUTATION_CHECK_FAMILY] = REASON_CHECK_FAMILY,
	};
	const char *reason = reason_of_op(ops[line->verb], err);

	return reason ? reason : strerror(-err);
}

static int answer_refused(struct mutation_lines *l, int err)
{
	const char *reason = err == -EINVAL ? NULL : reason_of_op(REASON_OTHER, err);

	for (unsigned i = 0; l->results && i < l->count; i++) {
		const struct mutation_line *line = &l->lines[i];
		const int n = line->name.n < 200 ? (int)line->name.n : 200;

		if (l->results[i].failed)
			return lines_refuse(l, err, "line %u: %s %.*s: %s", i + 1, verbs[line->verb].name, n,
				(const char *)line->name.p, reason_of(line, err));
	}
	return lines_refuse(l, err, "%s", reason ? reason : strerror(-err));
}

static int answer_line(struct buf *out, const struct mutation_line *line, const struct tfs_result *r)
{
	const bool readable = r->size != UINT64_MAX;
	int err = buf_printf(out, "%s ", verbs[line->verb].name);

	if (!err)
		err = buf_append_bytes(out, line->name);
	if (!err && line->has_ts)
		err = buf_printf(out, "@%" PRId64, line->ts);
	else if (!err && mutation_line_writes(line) && readable) /* the time shows a newest version that is in the future */
		err = buf_printf(out, "@%" PRId64, r->ts);
	if (!err && line->verb == MUTATION_APPEND && readable)
		err = buf_printf(out, "\t%" PRIu64, r->size);
	else if (!err && line->verb == MUTATION_INCREMENT)
		err = buf_printf(out, "\t%" PRId64, r->counter);
	return err ? err : buf_u8(out, '\n');
}

int mutation_lines_answer(struct mutation_lines *l, int err)
{
	if (err)
		return answer_refused(l, err);
	buf_reset(&l->answer);
	for (unsigned i = 0; i < l->count && !err; i++)
		err = answer_line(&l->answer, &l->lines[i], &l->results[i]);
	return err ? err : buf_printf(&l->answer, "committed %" PRId64 "\n", l->count ? l->results[0].commit_us : 0);
}

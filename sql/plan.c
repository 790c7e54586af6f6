/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the conditions of a statement that become clauses of a scan (xBestIndex).
 *
 * The choice is a text, which EXPLAIN QUERY PLAN prints and which cursor.c parses:
 *
 *	row>=? row<'?' family=? limit=? keys order=row
 *
 * A ? stands for an argument of xFilter, '?' for a text of the statement itself (range.c has
 * the difference).  SQLite checks each condition again, so a scan may return more rows, but
 * never fewer.
 *
 * Only conditions with the collation BINARY are used: another one, such as NOCASE, has another
 * order.  A limit is used only if every condition is one of the plan.
 */
#include "sql/internal.h"

#include <stdio.h>
#include <strings.h>

SQLITE_EXTENSION_INIT3

static const char *const columns[] = {
	[COLUMN_ROW] = "row", [COLUMN_FAMILY] = "family", [COLUMN_QUALIFIER] = "qualifier", [COLUMN_TIMESTAMP] = "timestamp"};
/* An operator that begins another one follows it. */
static const struct {
	const char *text;
	enum plan_op op;
} operators[] = {{"<=", PLAN_LE}, {"<", PLAN_LT}, {">=", PLAN_GE}, {">", PLAN_GT}, {"=", PLAN_EQ}, {"-in-", PLAN_IN},
	{"-glob-", PLAN_GLOB}, {"-like-", PLAN_LIKE}};
#define COLUMNS (int)(sizeof(columns) / sizeof(*columns))
#define OPERATORS (sizeof(operators) / sizeof(*operators))

/* ---- the text ---- */

static void add_condition(sqlite3_str *s, const struct plan_condition *c)
{
	const char *text = "";

	for (size_t i = 0; i < OPERATORS; i++)
		if (operators[i].op == c->op)
			text = operators[i].text;
	sqlite3_str_appendf(s, "%s%s%s%s", sqlite3_str_length(s) ? " " : "", columns[c->column], text, c->literal ? "'?'" : "?");
}

static void add_word(sqlite3_str *s, bool set, const char *word)
{
	if (set)
		sqlite3_str_appendf(s, "%s%s", sqlite3_str_length(s) ? " " : "", word);
}

static char *plan_text(const struct plan *p)
{
	sqlite3_str *s = sqlite3_str_new(NULL);

	for (unsigned i = 0; i < p->count; i++)
		add_condition(s, &p->condition[i]);
	add_word(s, p->limit, "limit=?");
	add_word(s, p->offset, "offset=?");
	add_word(s, p->keys, "keys");
	add_word(s, p->ordered, p->descending ? "order=-row" : "order=row");
	add_word(s, !sqlite3_str_length(s), "all");
	return sqlite3_str_finish(s);
}

static bool parse_condition(const char *word, struct plan_condition *out)
{
	for (int c = 0; c < COLUMNS; c++) {
		const size_t n = strlen(columns[c]);

		for (size_t i = 0; strncmp(word, columns[c], n) == 0 && i < OPERATORS; i++) {
			const size_t m = strlen(operators[i].text);

			if (strncmp(word + n, operators[i].text, m) != 0)
				continue;
			*out = (struct plan_condition){.column = c, .op = operators[i].op, .literal = word[n + m] == '\''};
			return true;
		}
	}
	return false;
}

void plan_parse(const char *text, struct plan *out)
{
	struct plan_condition c;

	*out = (struct plan){0};
	for (const char *word = text; *word; word += strcspn(word, " "), word += *word == ' ') {
		if (out->count < PLAN_CONDITIONS_MAX && parse_condition(word, &c))
			out->condition[out->count++] = c;
		out->limit |= strncmp(word, "limit=", 6) == 0;
		out->offset |= strncmp(word, "offset=", 7) == 0;
		out->keys |= strncmp(word, "keys", 4) == 0;
		out->ordered |= strncmp(word, "order=", 6) == 0;
		out->descending |= strncmp(word, "order=-", 7) == 0;
	}
}

/* ---- the choice ---- */

static enum plan_op operator_of(int op)
{
	switch (op) {
	case SQLITE_INDEX_CONSTRAINT_EQ:
	case SQLITE_INDEX_CONSTRAINT_IS: /* the columns are never NULL */
		return PLAN_EQ;
	case SQLITE_INDEX_CONSTRAINT_LT:
		return PLAN_LT;
	case SQLITE_INDEX_CONSTRAINT_LE:
		return PLAN_LE;
	case SQLITE_INDEX_CONSTRAINT_GT:
		return PLAN_GT;
	case SQLITE_INDEX_CONSTRAINT_GE:
		return PLAN_GE;
	case SQLITE_INDEX_CONSTRAINT_GLOB:
		return PLAN_GLOB;
	case SQLITE_INDEX_CONSTRAINT_LIKE:
		return PLAN_LIKE;
	default:
		return PLAN_OPS;
	}
}

static bool is_supported(const struct sql_table *t, int column, enum plan_op op)
{
	const bool pattern = op == PLAN_GLOB || op == PLAN_LIKE;

	if (op == PLAN_OPS)
		return false;
	if (column == COLUMN_ROW)
		return true;
	if (!table_has_cells(t))
		return false;
	switch (column) {
	case COLUMN_FAMILY:
		return op == PLAN_EQ;
	case COLUMN_QUALIFIER:
		return true;
	case COLUMN_TIMESTAMP:
		return !pattern;
	default:
		return false;
	}
}

/* Returns true if constraint i becomes *out. */
static bool use(const struct sql_table *t, sqlite3_index_info *info, int i, struct plan_condition *out)
{
	const enum plan_op op = operator_of(info->aConstraint[i].op);
	const bool pattern = op == PLAN_GLOB || op == PLAN_LIKE;
	sqlite3_value *value;

	if (!info->aConstraint[i].usable || !is_supported(t, info->aConstraint[i].iColumn, op))
		return false;
	if (!pattern && strcasecmp(sqlite3_vtab_collation(info, i), "BINARY") != 0)
		return false;
	*out = (struct plan_condition){.column = info->aConstraint[i].iColumn, .op = op};
	if (op == PLAN_EQ && sqlite3_vtab_in(info, i, -1)) {
		sqlite3_vtab_in(info, i, 1);
		out->op = PLAN_IN;
	}
	out->literal = sqlite3_vtab_rhs_value(info, i, &value) == SQLITE_OK && sqlite3_value_type(value) == SQLITE_TEXT;
	return true;
}

/* Returns the part of the rows that a condition leaves: a guess, because nothing counts them. */
static double share(const struct plan_condition *c)
{
	static const double others[PLAN_OPS] = {
		[PLAN_LT] = 0.3, [PLAN_LE] = 0.3, [PLAN_GT] = 0.3, [PLAN_GE] = 0.3, [PLAN_GLOB] = 0.05, [PLAN_LIKE] = 0.05};

	if (c->op == PLAN_EQ)
		return c->column == COLUMN_ROW ? 1e-6 : c->column == COLUMN_FAMILY ? 0.2 : 0.1;
	if (c->op == PLAN_IN)
		return c->column == COLUMN_ROW ? 1e-5 : c->column == COLUMN_FAMILY ? 0.5 : 0.3;
	return others[c->op];
}

/* The scan can return rows in the order that SQLite wants. */
static void choose_order(sqlite3_index_info *info, struct plan *p)
{
	const int kind = sqlite3_vtab_distinct(info);
	const bool exact = kind == 0 || kind == 3;

	if (info->nOrderBy != 1 || info->aOrderBy[0].iColumn != COLUMN_ROW)
		return;
	info->orderByConsumed = 1;
	p->ordered = exact;
	p->descending = exact && info->aOrderBy[0].desc;
}

static bool uses_values(const struct sql_table *t, const sqlite3_index_info *info)
{
	return table_has_cells(t) ? info->colUsed >> COLUMN_VALUE & 1 : info->colUsed >> COLUMN_FAMILY != 0;
}

int plan_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	const struct sql_table *t = (const struct sql_table *)vtab;
	struct plan p = {0};
	int limit = -1, offset = -1, arguments = 0;
	bool others = false;
	double rows = 1e6;

	for (int i = 0; i < info->nConstraint; i++) {
		struct plan_condition *c = &p.condition[p.count];

		if (info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_LIMIT) {
			limit = i;
		} else if (info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_OFFSET) {
			offset = i;
		} else if (p.count < PLAN_CONDITIONS_MAX && use(t, info, i, c)) {
			info->aConstraintUsage[i].argvIndex = ++arguments;
			rows *= share(c);
			p.count++;
		} else {
			others = true;
		}
	}
	choose_order(info, &p);
	if (limit >= 0 && !others && info->aConstraint[limit].usable && (info->nOrderBy == 0 || info->orderByConsumed)) {
		p.limit = true;
		info->aConstraintUsage[limit].argvIndex = ++arguments;
		if (offset >= 0) {
			p.offset = true;
			info->aConstraintUsage[offset].argvIndex = ++arguments;
		}
	}
	p.keys = !uses_values(t, info);
	info->estimatedRows = rows < 1 ? 1 : (sqlite3_int64)rows;
	info->estimatedCost = 10 + rows * (p.keys ? 0.5 : 1);
	info->idxStr = plan_text(&p);
	info->needToFreeIdxStr = 1;
	return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a table as lines, and the texts of their places. */
#include "engine/bulk/feed.h"

#include "engine/bulk/clauses.h"
#include "engine/bulk/escape.h"
#include "engine/bulk/json.h"

#include <errno.h>

static const char *const kinds[] = {[TFS_FEED_SET] = "set",
	[TFS_FEED_DELETE_CELL] = "delete-cell",
	[TFS_FEED_DELETE_COLUMN] = "delete-column",
	[TFS_FEED_DELETE_FAMILY] = "delete-family",
	[TFS_FEED_DELETE_ROW] = "delete-row",
	[TFS_FEED_TRUNCATE] = "truncate",
	[TFS_FEED_DROP] = "drop"};

static bool has_row(const struct tfs_feed_change *c)
{
	return c->kind != TFS_FEED_TRUNCATE && c->kind != TFS_FEED_DROP;
}

static bool has_column(const struct tfs_feed_change *c)
{
	return c->kind == TFS_FEED_SET || c->kind == TFS_FEED_DELETE_CELL || c->kind == TFS_FEED_DELETE_COLUMN;
}

static bool has_time(const struct tfs_feed_change *c)
{
	return has_column(c) && c->ts != INT64_MAX;
}

static int append_tsv(const struct tfs_feed_change *c, struct buf *out)
{
	const char *kind = kinds[c->kind];

	if (buf_append(out, c->token, strlen(c->token)) || buf_u8(out, '\t') || text_number(c->commit_us, out) ||
		buf_u8(out, '\t') || buf_append(out, kind, strlen(kind)) || buf_u8(out, '\t') ||
		(has_row(c) && text_escape(c->row, out)) || buf_u8(out, '\t') ||
		(c->family && buf_append(out, c->family, strlen(c->family))) || (c->family && has_column(c) && buf_u8(out, ':')) ||
		(has_column(c) && text_escape(c->qualifier, out)) || buf_u8(out, '\t') ||
		(has_time(c) && text_number(c->ts, out)) || buf_u8(out, '\t') ||
		(c->kind == TFS_FEED_SET && text_escape(c->value, out)) || buf_u8(out, '\n'))
		return -ENOMEM;
	return 0;
}

static int append_json(const struct tfs_feed_change *c, struct buf *out)
{
	if (buf_printf(
		    out, "{\"token\":\"%s\",\"commit\":%lld,\"kind\":\"%s\"", c->token, (long long)c->commit_us, kinds[c->kind]) ||
		(has_row(c) && (buf_u8(out, ',') || json_member(out, "row", c->row))) ||
		(c->family && buf_printf(out, ",\"family\":\"%s\"", c->family)) ||
		(has_column(c) && (buf_u8(out, ',') || json_member(out, "qualifier", c->qualifier))) ||
		(has_time(c) && buf_printf(out, ",\"timestamp\":%lld", (long long)c->ts)) ||
		(c->kind == TFS_FEED_SET && (buf_u8(out, ',') || json_member(out, "value", c->value))) || buf_append(out, "}\n", 2))
		return -ENOMEM;
	return 0;
}

int feed_line(enum line_format format, const struct tfs_feed_change *c, struct buf *out)
{
	return format == LINE_TSV ? append_tsv(c, out) : append_json(c, out);
}

const char *feed_why(int err)
{
	return err == -EINVAL ? "from= needs start, now, a time such as 2026-11-26T10:00:00Z, or a token of this table"
		: err == -ESTALE
		? "changes behind this place are not kept any more: copy the table, and follow its changes from the time before the copy"
		: err == -EOPNOTSUPP ? "the table keeps no changes: write changes = \"7d\"; into its .schema"
				     : NULL;
}

int feed_open(struct tfs_table *t, const char *from, int64_t now_us, struct tfs_feed **out, const char **why)
{
	const char *token = NULL;
	int64_t us = 0;
	bool age;
	int err;

	if (strcmp(from, "start") == 0)
		us = TFS_FEED_START;
	else if (strcmp(from, "now") == 0)
		us = TFS_FEED_NOW;
	else if (!clauses_time(from, now_us, &us, &age))
		token = from;
	err = tfs_feed_open(t, token, us, out);
	*why = feed_why(err);
	return err;
}

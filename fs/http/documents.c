/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The documents that the HTTP server sends (http.h).  The metrics are the
 * contents of /.tabletfs/metrics.  status.json has what the metrics lack: the
 * status lines, the tablets of each table, the recent messages.  The page reads
 * both.
 *
 * JSON is UTF-8, but names of rows and messages may have any bytes.  A byte that
 * is no UTF-8 is sent as the four characters \xHH.  Row keys are cut after
 * KEY_SHOWN bytes, and no more than TABLETS_SHOWN tablets are sent, because
 * there may be many and a page is made for people.
 */
#include "fs/http/http.h"

#include "engine/base/msg.h"
#include "engine/base/name.h"
#include "engine/daemon/http.h"
#include "fs/base/slow.h"
#include "fs/http/history.h"
#include "fs/node/admin.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#define KEY_SHOWN 200u
#define TABLETS_SHOWN 5000u
#define MESSAGES_SHOWN 200u

/* ---- metrics ---- */

struct sum {
	struct tfs_bytes name; /* n is 0 if there is none */
	unsigned long long value;
};

static int sum_put(struct sum *s, struct buf *out)
{
	int err = s->name.n ? buf_printf(out, "%.*s %llu\n", (int)s->name.n, (const char *)s->name.p, s->value) : 0;

	*s = (struct sum){0};
	return err;
}

/*
 * Replaces the lines of one metric that have labels by one line, their sum.
 * Labels of kinds of requests stay, because they are not names.
 */
static int metrics_without_names(struct tfs_bytes text, struct buf *out)
{
	struct sum sum = {0};
	struct tfs_bytes line;
	int err = 0;

	while (!err && bytes_line(&text, &line)) {
		const uint8_t *labels = memchr(line.p, '{', line.n);
		const uint8_t *value = memrchr(line.p, ' ', line.n);
		struct tfs_bytes name = tfs_bytes_of(line.p, labels ? (size_t)(labels - line.p) : 0);

		if (line.p[0] != '#' && labels && value &&
			!bytes_has_prefix(tfs_bytes_of(labels, line.n - name.n), tfs_str("{request="))) {
			if (!bytes_eq(name, sum.name))
				err = sum_put(&sum, out);
			sum.name = name;
			sum.value += strtoull((const char *)value + 1, NULL, 10); /* it ends at the newline */
			continue;
		}
		err = sum_put(&sum, out);
		if (!err)
			err = buf_append_bytes(out, line);
		if (!err)
			err = buf_u8(out, '\n');
	}
	return err ? err : sum_put(&sum, out);
}

static int document_metrics(void *arg, bool named, struct buf *out)
{
	struct buf all = {0};
	int err;

	if (named)
		return admin_render_metrics(NULL, out);
	err = admin_render_metrics(NULL, &all);
	if (!err)
		err = metrics_without_names(buf_bytes(&all), out);
	buf_fini(&all);
	return err;
}

/* ---- status.json ---- */

/* Any bytes as a JSON string, at most `most` of them. */
static json_t *text_of(struct tfs_bytes s, size_t most)
{
	struct buf b = {0};
	json_t *j = NULL;
	size_t i = 0;
	int err = 0;

	while (i < s.n && i < most && !err) {
		size_t n = s.p[i] < 0x80 ? 1 : utf8_length(s.p + i, s.n - i);

		err = n ? buf_append(&b, s.p + i, n) : buf_printf(&b, "\\x%02x", s.p[i]);
		i += n ? n : 1;
	}
	if (!err && i < s.n)
		err = buf_append(&b, "...", 3);
	if (!err)
		j = json_stringn(b.n ? (const char *)b.p : "", b.n);
	buf_fini(&b);
	return j;
}

/* A border as ls shows the row that begins there; empty for the ends of the table. */
static json_t *border_of(struct tfs_bytes key)
{
	struct buf b = {0};
	json_t *j = NULL;

	if (!key.n || name_encode(NAME_ROW, key, 0, &b) == 0)
		j = text_of(buf_bytes(&b), KEY_SHOWN);
	buf_fini(&b);
	return j;
}

/* Lines "NAME TEXT" as pairs of strings. */
static json_t *pairs_of(struct tfs_bytes text)
{
	json_t *all = json_array();
	struct tfs_bytes line;

	while (all && bytes_line(&text, &line)) {
		const uint8_t *space = memchr(line.p, ' ', line.n);
		size_t name = space ? (size_t)(space - line.p) : line.n, at = name;

		while (at < line.n && line.p[at] == ' ')
			at++;
		if (json_array_append_new(all,
			    json_pack("[o, o]", text_of(tfs_bytes_of(line.p, name), SIZE_MAX),
				    text_of(tfs_bytes_of(line.p + at, line.n - at), SIZE_MAX)))) {
			json_decref(all);
			all = NULL;
		}
	}
	return all;
}

struct tablets {
	json_t *tables, *of_table;
	unsigned shown;
	bool more; /* some are not shown */
};

static int put_tablet(void *arg, const struct tfs_tablet *t)
{
	struct tablets *all = arg;
	json_t *j;

	if (all->shown == TABLETS_SHOWN) {
		all->more = true;
		return 1;
	}
	all->shown++;
	j = json_pack("{s:o, s:o, s:b, s:s, s:I, s:I, s:i, s:I, s:I, s:I, s:i, s:o}", "begin", border_of(t->begin), "end",
		border_of(t->end), "last", t->end.p == NULL, "state", t->state, "bytes", (json_int_t)t->bytes, "memory",
		(json_int_t)t->usage.memory_bytes, "sstables", (int)t->sstables, "cells", (json_int_t)t->usage.cells, "reads",
		(json_int_t)t->reads, "writes", (json_int_t)t->writes, "compactions", (int)t->compactions, "events",
		pairs_of(tfs_str(t->events)));
	return json_array_append_new(all->of_table, j) ? -ENOMEM : 0;
}

static int put_table(struct tablets *all, const char *name)
{
	struct tfs_table *t;
	int err = tfs_table_open(fs.store, name, &t);

	if (err)
		return err == -ENOENT || err == -EBADMSG ? 0 : err; /* just dropped, or its schema is damaged */
	all->of_table = json_array();
	err = all->of_table ? tfs_tablets(t, put_tablet, all) : -ENOMEM;
	tfs_table_close(t);
	if (err == -ENOENT)
		json_decref(all->of_table);
	else if (json_array_append_new(all->tables, json_pack("{s:s, s:o}", "name", name, "tablets", all->of_table)))
		return -ENOMEM;
	return err < 0 && err != -ENOENT ? err : 0;
}

static int put_tables(struct tablets *all)
{
	char names[16][TFS_NAME_MAX + 1], after[TFS_NAME_MAX + 1] = "";
	int n, err = 0;

	while (!err && !all->more && (n = tfs_table_list(fs.store, after, names, 16)) != 0) {
		if (n < 0)
			return n;
		for (int i = 0; i < n && !err && !all->more; i++)
			err = put_table(all, names[i]);
		memcpy(after, names[n - 1], sizeof(after));
	}
	return err;
}

/* The last lines, the newest first. */
static json_t *messages(void)
{
	json_t *all = json_array();
	struct tfs_bytes text, line;
	struct buf ring = {0};

	if (all && msg_ring(&ring) == 0) {
		text = buf_bytes(&ring);
		while (bytes_line(&text, &line) && json_array_insert_new(all, 0, text_of(line, SIZE_MAX)) == 0)
			if (json_array_size(all) > MESSAGES_SHOWN)
				json_array_remove(all, MESSAGES_SHOWN);
	}
	buf_fini(&ring);
	return all;
}

/* Hides the lines that name tables, paths and users: "attention", "mount" and "client". */
static int hide_names(struct tfs_bytes text, struct buf *out)
{
	struct tfs_bytes line;
	int err = 0;

	while (!err && bytes_line(&text, &line)) {
		if (bytes_has_prefix(line, tfs_str("attention    none")))
			line = tfs_str("attention    none");
		else if (bytes_has_prefix(line, tfs_str("attention ")))
			line = tfs_str("attention    yes; the reason needs a token");
		if (bytes_has_prefix(line, tfs_str("mount ")))
			line = tfs_str("mount        the paths need a token");
		if (bytes_has_prefix(line, tfs_str("client ")))
			continue;
		err = buf_append_bytes(out, line);
		if (!err)
			err = buf_u8(out, '\n');
	}
	return err;
}

/* ---- the name, the history, slow requests and snapshots ---- */

static const char *given_name; /* "": none */

/* The setting, or the host and, for clients with the token, the data directory. */
static json_t *store_name(bool named)
{
	char host[256] = "", text[sizeof(host) + 1100];

	if (*given_name)
		return text_of(tfs_str(given_name), SIZE_MAX);
	if (gethostname(host, sizeof(host) - 1))
		host[0] = 0;
	snprintf(text, sizeof(text), "%s%s%s", host, named ? ":" : "", named ? fs.source : "");
	return text_of(tfs_str(text), SIZE_MAX);
}

/* Minutes as [time, requests a second, seconds, bytes of the store, bytes compacted a second]. */
static json_t *history_json(void)
{
	struct history_minute v[HISTORY_MINUTES];
	unsigned n = history_minutes(v);
	json_t *all = json_array();

	for (unsigned i = 0; all && i < n; i++)
		if (json_array_append_new(all,
			    json_pack("[I, f, f, I, f]", (json_int_t)v[i].time, v[i].requests, v[i].seconds_99,
				    (json_int_t)v[i].store_bytes, v[i].compacted)))
			break;
	return all;
}

static json_t *slow_json(void)
{
	struct slow_request v[SLOW_MOST];
	unsigned n = slow_list(v);
	json_t *all = json_array();

	for (unsigned i = 0; all && i < n; i++)
		if (json_array_append_new(all,
			    json_pack("{s:I, s:I, s:s, s:i, s:I, s:o, s:o}", "time", (json_int_t)v[i].ended, "us",
				    (json_int_t)v[i].us, "request", slow_name(v[i].opcode), "process", (int)v[i].pid, "user",
				    (json_int_t)v[i].uid, "program", text_of(tfs_str(v[i].program), SIZE_MAX), "path",
				    text_of(tfs_str(v[i].path), SIZE_MAX))))
			break;
	return all;
}

static json_t *snapshots_json(void)
{
	unsigned n = 0;
	struct history_snapshot *v = history_snapshots(&n);
	json_t *all = json_array();

	for (unsigned i = 0; all && i < n; i++)
		if (json_array_append_new(all,
			    json_pack("{s:s, s:s, s:I, s:I, s:I}", "table", v[i].table, "name", v[i].name, "time_us",
				    (json_int_t)v[i].time_us, "bytes", (json_int_t)v[i].bytes, "pinned",
				    (json_int_t)v[i].pinned_bytes)))
			break;
	free(v);
	return all;
}

static int put_named(json_t *root)
{
	return json_object_set_new(root, "messages", messages()) || json_object_set_new(root, "slow", slow_json()) ||
			json_object_set_new(root, "snapshots", snapshots_json())
		? -ENOMEM
		: 0;
}

static int document_json(void *arg, bool named, struct buf *out)
{
	struct tablets all = {0};
	struct buf status = {0}, shown = {0};
	json_t *root = NULL;
	char *text = NULL;
	int err = admin_render_status(NULL, &status);

	if (!err && !named)
		err = hide_names(buf_bytes(&status), &shown);
	if (!err)
		root = json_pack("{s:s, s:o, s:I, s:I, s:I, s:b, s:o, s:o}", "version", PACKAGE_VERSION, "name", store_name(named),
			"time_us", (json_int_t)fs_now_us(), "started_us", (json_int_t)fs.started_us, "slow_us",
			(json_int_t)slow_limit(), "named", named, "history", history_json(), "status",
			pairs_of(buf_bytes(named ? &status : &shown)));
	if (!err && !root)
		err = -ENOMEM;
	if (!err && named) {
		all.tables = json_array();
		err = json_object_set_new(root, "tables", all.tables) ? -ENOMEM : put_tables(&all);
		if (!err)
			err = json_object_set_new(root, "more", json_boolean(all.more)) ? -ENOMEM : put_named(root);
	}
	if (!err) {
		text = json_dumps(root, JSON_COMPACT);
		err = text ? buf_append(out, text, strlen(text)) : -ENOMEM;
	}
	free(text);
	json_decref(root);
	buf_fini(&shown);
	buf_fini(&status);
	return err;
}

static int document_status(void *arg, bool named, struct buf *out)
{
	struct buf status = {0};
	int err = admin_render_status(NULL, &status);

	if (!err)
		err = named ? buf_append_bytes(out, buf_bytes(&status)) : hide_names(buf_bytes(&status), out);
	buf_fini(&status);
	return err;
}

/* For a monitor that wants a status code only: 200, or 503 if the store does not answer. */
static int document_health(void *arg, bool named, struct buf *out)
{
	uint64_t total, available;
	int err = tfs_space(fs.store, &total, &available);

	return err ? err : buf_printf(out, "ok\n");
}

int documents_start(const char *name, uint64_t slow_us)
{
	static const struct http_document documents[] = {
		{"/metrics", "text/plain; version=0.0.4; charset=utf-8", document_metrics},
		{"/status", "text/plain; charset=utf-8", document_status},
		{"/status.json", "application/json", document_json},
		{"/healthz", "text/plain; charset=utf-8", document_health},
		{0},
	};
	const struct http_contents c = {.documents = documents, .page = document_page, .page_bytes = document_page_bytes};

	given_name = name;
	slow_set_limit(http_is_wanted() ? slow_us : 0);
	if (http_is_wanted() && history_start())
		msg_error("the status page has no history: no thread can be started");
	return http_start(&c);
}

void documents_stop(void)
{
	http_stop();
	history_stop();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data directory of a store, and the incarnations of its servers (host.h).
 */
#include "engine/host.h"

#include "engine/base/copies.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- the directory ---- */
struct contents {
	bool format, other, any;
	char first_other[256];
};

static int contents_entry(void *arg, const char *name, bool is_dir)
{
	struct contents *c = arg;

	/* Names that file systems add: ext4, NFS, snapshots of a NAS, GlusterFS. */
	if (strcmp(name, "lost+found") == 0 || strncmp(name, ".nfs", 4) == 0 || strcmp(name, ".snapshot") == 0 ||
		strcmp(name, ".trashcan") == 0 || strcmp(name, "FORMAT.tmp") == 0)
		return 0;
	c->any = true;
	if (strcmp(name, "FORMAT") == 0) {
		c->format = true;
	} else if (!is_dir || (strcmp(name, "lock") && strcmp(name, "log") && strcmp(name, "sst"))) {
		if (!c->other)
			snprintf(c->first_other, sizeof(c->first_other), "%s", name);
		c->other = true;
	}
	return 0;
}

static int contents_first(void *arg, const char *name, bool is_dir)
{
	struct contents *c = arg;

	snprintf(c->first_other, sizeof(c->first_other), "%s", name);
	return 1;
}

static const char *const store_dirs[] = {"lock", "log", "sst"};
#define STORE_DIRS (sizeof(store_dirs) / sizeof(store_dirs[0]))

/* A store must have the three directories.  In a directory that may become a store they must be absent or empty. */
static int check_store_dirs(const char *dir, bool is_store, char **why)
{
	int err = 0;

	for (unsigned i = 0; i < STORE_DIRS && !err; i++) {
		struct contents c = {0};
		char *path = path_join(dir, store_dirs[i]);
		int found = path ? file_list(path, contents_first, &c) : -ENOMEM;

		if (found == -ENOENT || found == -ENOTDIR) {
			err = is_store ? -EBADMSG : found == -ENOENT ? 0 : -ENOTEMPTY;
			if (is_store)
				why_set(why, "%s: this directory of the store is missing", path);
		} else if (found < 0) {
			err = found;
			if (path)
				why_set(why, "%s: %s", path, error_text(found));
		} else if (found > 0 && !is_store) {
			err = -ENOTEMPTY;
			why_set(why, "%s: not a tabletfs data directory (no FORMAT), and %s is not empty (it holds %s)", dir, path,
				c.first_other);
		}
		free(path);
	}
	return err;
}

#define FORMAT_LINE_MAX 64
#define FORMAT_TEXT "tabletfs data directory, format %u"

static size_t format_line(unsigned version, char line[FORMAT_LINE_MAX])
{
	int n = snprintf(line, FORMAT_LINE_MAX, FORMAT_TEXT, version);

	if (version == 1)
		return (size_t)(n + snprintf(line + n, FORMAT_LINE_MAX - (size_t)n, "\n"));
	return (size_t)(n + snprintf(line + n, FORMAT_LINE_MAX - (size_t)n, ", CRC-32C %08x\n", crc32c(0, line, (size_t)n)));
}

int store_format_encode(unsigned version, struct buf *out)
{
	char line[FORMAT_LINE_MAX];
	size_t from = out->n, n = format_line(version, line);
	int err = buf_append(out, line, n);

	if (!err)
		err = copies_add(out, from);
	if (err)
		out->n = from;
	return err;
}

/* Encodes the parsed version again, and accepts the line only if the bytes are the same. */
static bool format_line_decode(struct tfs_bytes text, unsigned *version)
{
	char copy[FORMAT_LINE_MAX] = "", again[FORMAT_LINE_MAX];
	unsigned v = 0;

	if (text.n && text.n < sizeof(copy))
		memcpy(copy, text.p, text.n);
	if (sscanf(copy, FORMAT_TEXT, &v) != 1 || v == 0 || !bytes_eq(text, tfs_bytes_of(again, format_line(v, again))))
		return false;
	*version = v;
	return true;
}

static struct tfs_bytes first_line(struct tfs_bytes s)
{
	const uint8_t *end = s.n ? memchr(s.p, '\n', s.n) : NULL;

	return tfs_bytes_of(s.p, end ? (size_t)(end + 1 - s.p) : 0);
}

/* A copy_length_fn: of a line with a checksum. */
static size_t format_line_length(struct tfs_bytes s)
{
	struct tfs_bytes line = first_line(s);
	unsigned v;

	return format_line_decode(line, &v) && v != 1 ? line.n : 0;
}

int store_format_decode(struct tfs_bytes file, unsigned *version, bool *whole)
{
	struct tfs_bytes line = copies_get(file, 0, format_line_length);

	if (!line.n)
		line = copies_get(file, 1, format_line_length);
	if (!line.n && first_line(file).n == file.n) /* format 1 has one copy without a checksum */
		line = file;
	if (!format_line_decode(line, version))
		return -EBADMSG;
	*whole = *version == 1 || copies_whole(file, line.n);
	return 0;
}

int store_format_check(const char *path, bool *whole, char **why)
{
	struct buf b = {0};
	unsigned version = 0;
	bool holes;
	int err = copies_read(path, 64 * 1024, &b, &holes);

	*why = NULL;
	if (!err)
		err = store_format_decode(buf_bytes(&b), &version, whole);
	if (err == -EBADMSG && holes)
		err = -EIO;
	if (!err && version != STORE_FORMAT_VERSION)
		err = -EPROTO;
	if (err == -EPROTO)
		why_set(why, "%s: format %u is %s than this program reads (%u)%s", path, version,
			version < STORE_FORMAT_VERSION ? "older" : "newer", STORE_FORMAT_VERSION,
			version < STORE_FORMAT_VERSION
				? ": export its tables with the version that wrote it (tabletctl export), and import them into a new store"
				: "");
	if (err == -EBADMSG)
		why_set(why, "%s: damaged: not a tabletfs format line", path);
	if (err && err != -EPROTO && err != -EBADMSG)
		why_set(why, "%s: %s", path, error_text(err));
	buf_fini(&b);
	return err;
}

/* Step 2 of opening. */
int host_rewrite_format(const char *dir)
{
	struct buf b = {0};
	char *path = path_join(dir, "FORMAT");
	int err = path ? store_format_encode(STORE_FORMAT_VERSION, &b) : -ENOMEM;

	if (!err)
		copies_rewrite(path, buf_bytes(&b));
	buf_fini(&b);
	free(path);
	return err;
}

/* Makes the data directory's own entry durable, unless this process may not open the parent. */
static int sync_parent(const char *dir)
{
	int err = file_sync_parent(dir);

	return err == -EACCES ? 0 : err;
}

int host_prepare(const char *dir, bool create, bool *whole, char **why)
{
	struct buf line = {0};
	struct contents c = {0};
	char *format;
	int err = create ? file_mkdir(dir) : 0;

	if (err && err != -EEXIST)
		return err;
	err = file_list(dir, contents_entry, &c);
	if (err == -ENOENT || (!err && !create && !c.format && !c.other)) {
		why_set(why, "%s: there is no store, and none is created here", dir);
		err = -ENOENT;
	}
	if (err)
		return err;
	if (access(dir, W_OK))
		return -errno;
	format = path_join(dir, "FORMAT");
	if (!format)
		return -ENOMEM;
	if (c.format) {
		err = store_format_check(format, whole, why);
		if (!err)
			err = check_store_dirs(dir, true, why);
		/* The process that created it may have been killed before these. */
		if (!err)
			err = file_sync_dir(dir);
		if (!err)
			err = sync_parent(dir);
	} else if (c.other) {
		err = -ENOTEMPTY;
		why_set(why, "%s: not a tabletfs data directory, and not empty (it holds %s)", dir, c.first_other);
	} else {
		err = check_store_dirs(dir, false, why);
		for (unsigned i = 0; i < STORE_DIRS && !err; i++) {
			char *path = path_join(dir, store_dirs[i]);

			err = path ? file_mkdir(path) : -ENOMEM;
			err = err == -EEXIST ? 0 : err;
			free(path);
		}
		if (!err)
			err = file_sync_dir(dir);
		if (!err)
			err = sync_parent(dir);
		if (!err)
			err = store_format_encode(STORE_FORMAT_VERSION, &line);
		if (!err)
			err = file_replace(format, buf_bytes(&line));
		if (!err)
			msg_notice("%s: created a new store", dir);
	}
	buf_fini(&line);
	free(format);
	return err;
}

/* ---- incarnations ---- */

int host_last_incarnation(const char *dir, struct lock_service *locks, uint64_t *last, uint64_t *version, char **why)
{
	uint64_t latest = 0;
	int err = lock_get_number(locks, "incarnation", last, version);

	if (!err)
		err = server_latest_log(dir, &latest);
	if (!err && latest > *last) {
		err = -EBADMSG;
		why_set(why, "%s/lock/incarnation: %s, but there is a log of incarnation %llu", dir,
			*version == LOCK_ABSENT ? "missing" : "an old one", (unsigned long long)latest);
	}
	if (err && !*why)
		why_set(why, "%s/lock/incarnation: %s", dir, error_text(err));
	return err;
}

int host_take_incarnation(
	const char *dir, struct lock_service *locks, uint64_t last, uint64_t version, uint64_t *incarnation, char **why)
{
	uint8_t bytes[8];
	int err;

	put_be64(bytes, last + 1);
	err = lock_put(locks, "incarnation", tfs_bytes_of(bytes, sizeof(bytes)), version, NULL);
	if (err)
		why_set(why, "%s/lock/incarnation: %s", dir, error_text(err));
	else
		*incarnation = last + 1;
	return err;
}

static struct script_settings script_settings(const struct tfs_options *o)
{
	return (struct script_settings){.instructions = o->script_instructions,
		.memory = o->script_memory,
		.time_us = o->script_time_us,
		.workers_of_user = o->script_runs};
}

struct server_options host_server_options(const char *dir, const struct tfs_options *o)
{
	return (struct server_options){
		.data_dir = dir,
		.block_cache_bytes = o->block_cache_bytes,
		.table_cache_bytes = o->table_cache_bytes,
		.memtable_bytes = o->memtable_bytes,
		.log_segment_bytes = o->log_segment_bytes,
		.sync_interval_us = o->sync_interval_us,
		.compaction_threads = o->compaction_threads,
		.compaction_rate = o->compaction_rate,
		.major_within_us = o->major_within_us,
		.clock_gap_us = o->clock_gap_us,
		.scripts = script_settings(o),
		.sync = o->sync,
		.no_background = o->no_background,
	};
}

static struct server_settings server_settings(const struct tfs_options *o)
{
	return (struct server_settings){
		.block_cache_bytes = o->block_cache_bytes,
		.table_cache_bytes = o->table_cache_bytes,
		.memtable_bytes = o->memtable_bytes,
		.sync_interval_us = o->sync_interval_us,
		.compaction_rate = o->compaction_rate,
		.scripts = script_settings(o),
		.sync = o->sync,
	};
}

/* ---- calls of the client (struct client_options) ---- */
static int host_space(void *arg, uint64_t *total_bytes, uint64_t *available_bytes)
{
	const struct host *h = arg;
	struct statvfs v;
	uint64_t used;
	int err = server_disk_bytes(h->server, &used);

	if (err)
		return err;
	if (statvfs(h->dir, &v))
		return -errno;
	*total_bytes = used + (uint64_t)v.f_bavail * v.f_frsize;
	*available_bytes = (uint64_t)v.f_bavail * v.f_frsize;
	return 0;
}

static int host_status(void *arg, uint64_t watcher, struct buf *out)
{
	return server_status(((struct host *)arg)->server, watcher, out);
}

static int host_metrics(void *arg, struct buf *out)
{
	return server_metrics(((struct host *)arg)->server, out);
}

static int host_clients(void *arg, struct buf *out)
{
	return serve_list(((struct host *)arg)->serving, out);
}

static int host_client_refuse(void *arg, uint64_t client, bool refuse)
{
	return serve_refuse(((struct host *)arg)->serving, client, refuse);
}

static int host_answers(void *arg, uint64_t limit_us)
{
	return serve_answers(((struct host *)arg)->serving, limit_us);
}

static void host_change(void *arg, const struct tfs_options *o)
{
	const struct server_settings to = server_settings(o);

	server_change(((struct host *)arg)->server, &to);
	serve_read_keys(((struct host *)arg)->serving);
}

static int host_key(void *arg, const char *purpose, uint8_t *key)
{
	identity_key(&((struct host *)arg)->identity, purpose, key);
	return 0;
}

static void host_will_close(void *arg)
{
	server_will_close(((struct host *)arg)->server);
}

static int host_confirm_clock(void *arg)
{
	server_confirm_clock(((struct host *)arg)->server);
	return 0;
}

static int host_watch(void *arg)
{
	return serve_watch(((struct host *)arg)->serving);
}

static void host_heard(void *arg, uint64_t notice)
{
	serve_heard(((struct host *)arg)->serving, notice);
}

struct client_options host_client_options(const struct tfs_options *o)
{
	return (struct client_options){
		.space = host_space,
		.status = host_status,
		.metrics = host_metrics,
		.clients = host_clients,
		.client_refuse = host_client_refuse,
		.answers = host_answers,
		.confirm_clock = host_confirm_clock,
		.key = host_key,
		.will_close = host_will_close,
		.change = host_change,
		.watch = host_watch,
		.heard = host_heard,
		.options = *o,
	};
}

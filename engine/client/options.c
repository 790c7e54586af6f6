/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options and their file, tabletfs.conf(5).  An unknown setting and a value of
 * the wrong type are errors with file and line.
 *
 * This file reads the text, checks it (engine/schema/scan.c), and passes it to
 * libconfig.  libconfig must not read the file itself: its scanner ends the
 * process when a read fails, for example of a directory, and wraps large
 * numbers.
 */
#include "engine/base/address.h"
#include "engine/base/msg.h"
#include "engine/base/units.h"
#include "engine/client/client.h"
#include "engine/schema/schema.h"

#include <errno.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>

void tfs_options_init(struct tfs_options *o)
{
	*o = (struct tfs_options){
		.block_cache_bytes = 256u << 20,
		.memtable_bytes = 128u << 20,
		.table_cache_bytes = 64u << 20,
		.log_segment_bytes = 64u << 20,
		.sync_interval_us = 1000000,
		.compaction_threads = 2,
		.script_instructions = 10000000,
		.script_runs = 64,
		.script_memory = (size_t)64 << 20,
		.script_time_us = 60000000,
		.major_within_us = 7 * 86400000000ull,
		.clock_gap_us = 86400000000ull,
		.timeout_us = 60000000,
		.coherence_us = 1000000,
		.slow_us = 1000000,
		.log_level = -1,
		.socket_mode = "0600",
	};
}

void options_fill(struct tfs_options *to, const struct tfs_options *from)
{
	struct tfs_options d;

	tfs_options_init(&d);
	*to = from ? *from : d;
#define FILL(member) to->member = to->member ? to->member : d.member
	FILL(block_cache_bytes);
	FILL(memtable_bytes);
	FILL(table_cache_bytes);
	FILL(log_segment_bytes);
	FILL(sync_interval_us);
	FILL(compaction_threads);
	FILL(script_instructions);
	FILL(script_runs);
	FILL(script_memory);
	FILL(script_time_us);
	FILL(major_within_us);
	FILL(clock_gap_us);
	FILL(timeout_us);
	FILL(coherence_us);
	FILL(slow_us);
#undef FILL
}

enum setting_type { SIZE, DURATION, COUNT, LEVEL, FLAG, TEXT, PATH, ADDRESS, TOKEN, SOCKET_MODE };
/* This is the text of the example configuration, too. */
struct setting {
	const char *name;
	enum setting_type type;
	bool changes;         /* while the store is open */
	size_t at;            /* offset in struct tfs_options */
	uint64_t least, most; /* FLAG: least is 1 if the member is true for the setting false */
	const char *range;    /* the reason for a value outside of it */
	const char *about;    /* the lines of its comment */
};
#define AT(member) offsetof(struct tfs_options, member)
#define LONGEST(member) sizeof(((struct tfs_options *)0)->member) - 1
static const struct setting settings[] = {
	{"data", PATH, false, AT(data), 0, LONGEST(data), "must be an absolute path of at most 1023 bytes",
		"The data directory.  The argument DATADIR of tabletfs replaces it."},
	{"mountpoint", PATH, false, AT(mountpoint), 0, LONGEST(mountpoint), "must be an absolute path of at most 1023 bytes",
		"The mount point.  The argument MOUNTPOINT of tabletfs replaces it."},
	{"mount_options", TEXT, false, AT(mount_options), 0, LONGEST(mount_options), "must be a string of at most 511 bytes",
		"Options of the mount, separated by commas, as after -o of tabletfs(1):\n\"allow_other\" lets all users in, "
		"as modes and owners permit."},
	{"create", FLAG, false, AT(existing), 1, 0, "must be true or false",
		"A store is made in a data directory that is absent or empty."},
	{"block_cache", SIZE, true, AT(block_cache_bytes), 1u << 20, 1ull << 42, "must be from 1M to 4T",
		"Memory for uncompressed blocks of SSTables and for single cells that were read."},
	{"memtable", SIZE, true, AT(memtable_bytes), 1u << 20, 1ull << 40, "must be from 1M to 1T",
		"Memory of all memtables together."},
	{"table_cache", SIZE, true, AT(table_cache_bytes), 1u << 20, 1ull << 40, "must be from 1M to 1T",
		"Memory for indexes, Bloom filters and dictionaries of open SSTables."},
	{"log_segment", SIZE, false, AT(log_segment_bytes), 1u << 20, 1ull << 32, "must be from 1M to 4G",
		"The largest segment of the commit log."},
	{"sync", FLAG, true, AT(sync), 0, 0, "must be true or false", "Every commit is on disk before it is acknowledged."},
	{"sync_interval", DURATION, true, AT(sync_interval_us), 1000, 3600000000ull, "must be from 1ms to 1h",
		"The commit log is synced at the latest this long after a commit."},
	{"compaction_threads", COUNT, false, AT(compaction_threads), 1, 64, "must be from 1 to 64",
		"Threads for merging and major compactions."},
	{"compaction_rate", SIZE, true, AT(compaction_rate), 1u << 20, 1ull << 42, "must be 0 or from 1M to 4T",
		"Bytes a second that all merging and major compactions together write.\n0 is no limit."},
	{"major_within", DURATION, false, AT(major_within_us), 3600000000ull, 3650 * 86400000000ull, "must be from 1h to 3650d",
		"After this time, no file contains cells that were deleted or have expired."},
	{"clock_gap", DURATION, false, AT(clock_gap_us), 3600000000ull, 36500 * 86400000000ull, "must be from 1h to 36500d",
		"At a mount the system's clock is trusted if it differs by no more than this\nfrom the time when the store was last "
		"mounted."},
	{"script_instructions", COUNT, true, AT(script_instructions), 1000, 2000000000u, "must be from 1000 to 2000000000",
		"Instructions of Lua that a script may use for one row."},
	{"script_memory", SIZE, true, AT(script_memory), 1u << 20, 1ull << 32, "must be from 1M to 4G",
		"Memory of a script: a row, and outputs that have not been returned yet."},
	{"script_time", DURATION, true, AT(script_time_us), 10000, 86400000000ull, "must be from 10ms to 24h",
		"Processor time that a script may use for one request, which is about a second's\nwork unless a row takes longer."},
	{"script_runs", COUNT, true, AT(script_runs), 1, 64, "must be from 1 to 64",
		"Processes that run scripts of one user at a time.  There are as many in all as\nprocessors, and at least two."},
	{"log_level", LEVEL, true, AT(log_level), 0, 0, "must be \"error\", \"warning\", \"notice\", \"info\" or \"debug\"",
		"Messages of this level and above are written."},
	{"socket_mode", SOCKET_MODE, false, AT(socket_mode), 0, LONGEST(socket_mode), "must be \"0600\", \"0660\" or \"0666\"",
		"Who may use the store through DATADIR/socket while it is mounted: its owner,\nalso its group, or all users.  Each has "
		"the rights of its user."},
	{"socket_group", TEXT, false, AT(socket_group), 0, LONGEST(socket_group), "must be a string of at most 63 bytes",
		"The group of DATADIR/socket; \"\": the group of the daemon."},
	{"listen", ADDRESS, false, AT(listen), 0, LONGEST(listen),
		"must be a numeric address with a port, such as \"192.0.2.1:9181\", or \"\": none",
		"The address on which other hosts can use the store while it is mounted, by TLS.\nIt needs keys."},
	{"keys", PATH, false, AT(keys), 0, LONGEST(keys), "must be an absolute path of at most 1023 bytes",
		"The file of keys of hosts that may use the store at `listen`: tabletctl keys\nmakes it.  SIGHUP reads it again."},
	{"insecure_tcp", FLAG, false, AT(insecure_tcp), 0, 0, "must be true or false",
		"`listen` is for clear text without keys, in which every client is nobody.\nFor benchmarks only."},
	{"coherence", DURATION, false, AT(coherence_us), 500000, 60000000, "must be from 500ms to 60s",
		"Of a store that another daemon serves: a mount that has not heard of that daemon for\nthis time keeps nothing that it has "
		"read."},
	{"ssh", TEXT, false, AT(ssh), 0, LONGEST(ssh), "must be a string of at most 255 bytes",
		"The program that reaches HOST of HOST:DATADIR, with its options: \"ssh -p 2222\".\n\"\": that of the environment "
		"variable TABLETFS_SSH, or ssh."},
	{"http", ADDRESS, false, AT(http), 0, LONGEST(http),
		"must be a numeric address with a port, such as \"127.0.0.1:9180\", or \"\": none",
		"The address on which the daemon serves metrics and a status page over HTTP."},
	{"http_token", TOKEN, false, AT(http_token), 16, LONGEST(http_token),
		"must be 16 to 128 letters, digits or any of -._~+/=, or \"\": names are not shown",
		"The secret of HTTP clients that may see names of tables and rows, and messages."},
	{"name", TEXT, false, AT(name), 0, LONGEST(name), "must be a string of at most 128 bytes",
		"The name of the store on the status page; \"\": the host and the data directory."},
	{"slow", DURATION, false, AT(slow_us), 1000, 86400000000ull, "must be from 1ms to 1d",
		"The status page lists the last requests of the mount that took longer."},
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

/* A token is sent in a header of HTTP: the characters of RFC 6750. */
static bool text_fits(const struct setting *s, const char *text)
{
	static const char in_token[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";
	struct sockaddr_storage address;
	socklen_t bytes;

	switch ((int)s->type) {
	case PATH:
		return *text == '/' || strstr(text, "://");
	case ADDRESS:
		return address_parse(text, &address, &bytes);
	case SOCKET_MODE:
		return strcmp(text, "0600") == 0 || strcmp(text, "0660") == 0 || strcmp(text, "0666") == 0;
	case TOKEN:
		return strlen(text) >= s->least && !text[strspn(text, in_token)];
	}
	return true;
}

static const char *text_set(struct tfs_options *o, const struct setting *s, const char *text)
{
	if (!text || strlen(text) > s->most || (*text && !text_fits(s, text)))
		return s->range;
	if (text_has_control(text))
		return "must not contain control characters";
	memcpy((char *)o + s->at, text, strlen(text) + 1);
	return NULL;
}

/* Sets one option.  Returns NULL, or the reason of a refusal. */
static const char *option_set(struct tfs_options *o, const config_setting_t *c, bool changes)
{
	const char *name = config_setting_name(c);
	const struct setting *s = NULL;
	const char *text = config_setting_get_string(c);
	enum msg_level level;
	uint64_t v = 0;

	for (unsigned i = 0; i < SETTINGS; i++)
		if (strcmp(settings[i].name, name) == 0)
			s = &settings[i];
	if (!s)
		return "unknown setting";
	if (changes && !s->changes)
		return "cannot change while the store is open";
	if (s->type == LEVEL) {
		if (!text || !msg_level_parse(text, &level))
			return s->range;
		o->log_level = (int)level;
		return NULL;
	}
	if (s->type == TEXT || s->type == PATH || s->type == ADDRESS || s->type == TOKEN || s->type == SOCKET_MODE)
		return text_set(o, s, text);
	if (s->type == FLAG) {
		if (config_setting_type(c) != CONFIG_TYPE_BOOL)
			return s->range;
		*(bool *)((char *)o + s->at) = !config_setting_get_bool(c) == (s->least != 0);
		return NULL;
	}
	if (s->type == DURATION) {
		if (!text || !units_duration(text, &v))
			return "must be a duration such as \"500ms\" or \"1s\"";
	} else if (config_setting_type(c) == CONFIG_TYPE_INT || config_setting_type(c) == CONFIG_TYPE_INT64) {
		long long n = config_setting_get_int64(c);

		if (n < 0)
			return "must not be negative";
		v = (uint64_t)n;
	} else if (s->type == COUNT) {
		return "must be an integer";
	} else if (!text || !units_size(text, &v)) {
		return "must be a size such as \"64M\"";
	}
	/* A rate of 0 is no limit. */
	if ((v < s->least || v > s->most) && (v || s->at != offsetof(struct tfs_options, compaction_rate)))
		return s->range;
	if (s->type == COUNT)
		*(unsigned *)((char *)o + s->at) = (unsigned)v;
	else if (s->type == DURATION)
		*(uint64_t *)((char *)o + s->at) = v;
	else
		*(size_t *)((char *)o + s->at) = (size_t)v;
	return NULL;
}

static void setting_why(char **why, const char *path, int line, const char *setting, const char *reason)
{
	if (!why)
		return;
	if (asprintf(why, "%s:%d: %s%s%s", path, line, setting, *setting ? ": " : "", reason) < 0)
		*why = NULL;
}

/*
 * Reads the file, which may be a pipe.  Reads one byte more than the longest text has, so that
 * a longer text is refused.
 */
static int read_text(const char *path, struct buf *text)
{
	FILE *f = fopen(path, "re");
	int err = 0;

	if (!f)
		return -errno;
	err = buf_reserve(text, SCHEMA_TEXT_MAX + 1);
	if (!err) {
		text->n = fread(text->p, 1, SCHEMA_TEXT_MAX + 1, f);
		err = ferror(f) ? -errno : 0;
	}
	fclose(f);
	return err;
}

static int text_parse(const char *path, struct buf *text, config_t *config, char **why)
{
	const char *reason;
	unsigned line;
	int err = schema_scan_text(buf_bytes(text), &line, &reason);

	if (err) {
		setting_why(why, path, (int)line, "", reason);
		return err;
	}
	err = schema_config_read(buf_bytes(text), config);
	if (err == -EINVAL)
		setting_why(why, path, config_error_line(config), "", config_error_text(config));
	return err;
}

/* changes: the store is open, so only some settings are accepted. */
static int options_apply(struct tfs_options *o, const char *path, struct buf *text, bool changes, char **why)
{
	struct tfs_options next = *o;
	const config_setting_t *root;
	config_t config;
	int err;

	config_init(&config);
	err = text_parse(path, text, &config, why);
	root = err ? NULL : config_root_setting(&config);
	for (int i = 0; root && i < config_setting_length(root) && !err; i++) {
		const config_setting_t *c = config_setting_get_elem(root, (unsigned)i);
		const char *reason = option_set(&next, c, changes);

		if (reason) {
			setting_why(why, path, (int)config_setting_source_line(c), config_setting_name(c), reason);
			err = -EINVAL;
		}
	}
	config_destroy(&config);
	if (!err)
		*o = next;
	return err;
}

int tfs_options_load(struct tfs_options *o, const char *path, char **why)
{
	struct buf text = {0};
	int err;

	if (why)
		*why = NULL;
	err = read_text(path, &text);
	if (err && why && asprintf(why, "%s: %s", path, strerror(-err)) < 0)
		*why = NULL;
	if (!err)
		err = options_apply(o, path, &text, false, why);
	buf_fini(&text);
	return err;
}

int options_change(struct tfs_options *o, struct tfs_bytes text, char **why)
{
	struct buf copy = {0};
	int err = buf_append_bytes(&copy, text);

	if (!err)
		err = options_apply(o, "config", &copy, true, why);
	buf_fini(&copy);
	return err;
}

/* ---- as text ---- */

struct unit {
	uint64_t size;
	const char *name;
};

/* In the first unit of the list that divides the value. */
static int render_units(struct buf *out, uint64_t v, const struct unit *u)
{
	while (u->size > 1 && (!v || v % u->size))
		u++;
	return buf_printf(out, "\"%llu%s\"", (unsigned long long)(v / u->size), u->name);
}

static int render_text(struct buf *out, const char *text)
{
	int err = buf_u8(out, '"');

	for (; *text && !err; text++)
		err = (unsigned char)*text < 0x20 || *text == 0x7f ? buf_printf(out, "\\x%02x", *text)
			: *text == '"' || *text == '\\'            ? buf_printf(out, "\\%c", *text)
								   : buf_u8(out, (uint8_t)*text);
	return err ? err : buf_u8(out, '"');
}

static int render_value(const struct tfs_options *o, const struct setting *s, struct buf *out)
{
	static const struct unit sizes[] = {{1ull << 40, "T"}, {1u << 30, "G"}, {1u << 20, "M"}, {1u << 10, "K"}, {1, ""}};
	static const struct unit times[] = {
		{86400000000ull, "d"}, {3600000000ull, "h"}, {60000000, "m"}, {1000000, "s"}, {1000, "ms"}, {1, "us"}};
	static const char *const levels[] = {"error", "warning", "notice", "info", "debug"};
	const char *at = (const char *)o + s->at;

	switch (s->type) {
	case SIZE:
		return render_units(out, *(const size_t *)(const void *)at, sizes);
	case DURATION:
		return render_units(out, *(const uint64_t *)(const void *)at, times);
	case COUNT:
		return buf_printf(out, "%u", *(const unsigned *)(const void *)at);
	case LEVEL:
		return buf_printf(out, "\"%s\"", levels[o->log_level < 0 ? MSG_NOTICE : o->log_level]);
	case FLAG:
		return buf_printf(out, "%s", *(const bool *)at == (s->least == 0) ? "true" : "false");
	case TEXT:
	case PATH:
	case ADDRESS:
	case SOCKET_MODE:
		return render_text(out, at);
	case TOKEN: /* a secret */
		return render_text(out, *at ? "(set)" : "");
	}
	return -EINVAL;
}

int options_render(const struct tfs_options *o, struct buf *out)
{
	int err = 0;

	for (unsigned i = 0; i < SETTINGS && !err; i++) {
		const struct setting *s = &settings[i];

		err = buf_printf(out, "%s%s = ", s->changes ? "" : "# ", s->name);
		if (!err)
			err = render_value(o, s, out);
		if (!err)
			err = buf_printf(out, s->changes ? ";\n" : "; (at the mount only)\n");
	}
	return err;
}

/* The comment of a setting: its meaning, its range, and whether it can change. */
static int render_about(const struct setting *s, struct buf *out)
{
	static const char must[] = "must ";
	int err = buf_printf(out, "\n# ");

	for (const char *c = s->about; *c && !err; c++)
		err = *c == '\n' ? buf_printf(out, "\n# ") : buf_u8(out, (uint8_t)*c);
	if (!err)
		err = buf_printf(out, "\n# It must %s%s\n#", s->range + strlen(must),
			s->changes ? ".  It can change while the store is mounted." : ".");
	return err;
}

int options_render_example(struct buf *out)
{
	struct tfs_options defaults;
	int err;

	tfs_options_init(&defaults);
	err = buf_printf(out,
		"# Settings of tabletfs with their defaults; tabletfs.conf(5) describes them.\n"
		"# To set one, remove the # before it.\n");
	for (unsigned i = 0; i < SETTINGS && !err; i++) {
		err = render_about(&settings[i], out);
		if (!err)
			err = buf_printf(out, "%s = ", settings[i].name);
		if (!err)
			err = render_value(&defaults, &settings[i], out);
		if (!err)
			err = buf_printf(out, ";\n");
	}
	return err;
}

/* ---- from a file that was read again ---- */

static bool value_same(const struct setting *s, const struct tfs_options *a, const struct tfs_options *b)
{
	struct buf one = {0}, other = {0};
	bool same = s->type == TOKEN
		? strcmp(a->http_token, b->http_token) == 0
		: render_value(a, s, &one) == 0 && render_value(b, s, &other) == 0 && bytes_eq(buf_bytes(&one), buf_bytes(&other));

	buf_fini(&one);
	buf_fini(&other);
	return same;
}

static void value_copy(const struct setting *s, struct tfs_options *to, const struct tfs_options *from)
{
	static const size_t size[] = {[SIZE] = sizeof(size_t),
		[DURATION] = sizeof(uint64_t),
		[COUNT] = sizeof(unsigned),
		[LEVEL] = sizeof(int),
		[FLAG] = sizeof(bool)};

	memcpy((char *)to + s->at, (const char *)from + s->at, size[s->type]);
}

int options_adopt(struct tfs_options *o, const struct tfs_options *from, struct buf *left)
{
	int err = 0;

	for (unsigned i = 0; i < SETTINGS && !err; i++) {
		if (settings[i].changes)
			value_copy(&settings[i], o, from);
		else if (!value_same(&settings[i], o, from))
			err = buf_printf(left, "%s%s", left->n ? ", " : "", settings[i].name);
	}
	if (o->log_level < 0)
		o->log_level = MSG_NOTICE;
	return err;
}

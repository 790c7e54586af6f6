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
		.major_within_us = 7 * 86400000000ull,
		.clock_gap_us = 86400000000ull,
		.log_level = -1,
	};
}

enum setting_type { SIZE, DURATION, COUNT, LEVEL, FLAG };
struct setting {
	const char *name;
	enum setting_type type;
	bool changes; /* while the store is open */
	size_t at;    /* offset in struct tfs_options */
	uint64_t least, most;
	const char *range; /* the reason for a value outside of it */
};
static const struct setting settings[] = {
	{"block_cache", SIZE, true, offsetof(struct tfs_options, block_cache_bytes), 1u << 20, 1ull << 42, "must be from 1M to 4T"},
	{"memtable", SIZE, true, offsetof(struct tfs_options, memtable_bytes), 1u << 20, 1ull << 40, "must be from 1M to 1T"},
	{"table_cache", SIZE, true, offsetof(struct tfs_options, table_cache_bytes), 1u << 20, 1ull << 40, "must be from 1M to 1T"},
	{"log_segment", SIZE, false, offsetof(struct tfs_options, log_segment_bytes), 1u << 20, 1ull << 32,
		"must be from 1M to 4G"},
	{"sync", FLAG, true, offsetof(struct tfs_options, sync), 0, 0, ""},
	{"sync_interval", DURATION, true, offsetof(struct tfs_options, sync_interval_us), 1000, 3600000000ull,
		"must be from 1ms to 1h"},
	{"compaction_threads", COUNT, false, offsetof(struct tfs_options, compaction_threads), 1, 64, "must be from 1 to 64"},
	{"compaction_rate", SIZE, true, offsetof(struct tfs_options, compaction_rate), 1u << 20, 1ull << 42,
		"must be 0 or from 1M to 4T"},
	{"major_within", DURATION, false, offsetof(struct tfs_options, major_within_us), 3600000000ull, 3650 * 86400000000ull,
		"must be from 1h to 3650d"},
	{"clock_gap", DURATION, false, offsetof(struct tfs_options, clock_gap_us), 3600000000ull, 36500 * 86400000000ull,
		"must be from 1h to 36500d"},
	{"log_level", LEVEL, true, offsetof(struct tfs_options, log_level), 0, 0, ""},
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

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
			return "must be \"error\", \"warning\", \"notice\", \"info\" or \"debug\"";
		o->log_level = (int)level;
		return NULL;
	}
	if (s->type == FLAG) {
		if (config_setting_type(c) != CONFIG_TYPE_BOOL)
			return "must be true or false";
		*(bool *)((char *)o + s->at) = config_setting_get_bool(c);
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

static void reason_set(char **why, const char *path, int line, const char *setting, const char *reason)
{
	if (!why)
		return;
	if (asprintf(why, "%s:%d: %s%s%s", path, line, setting, *setting ? ": " : "", reason) < 0)
		*why = NULL;
}

/*
 * Reads the file, which may be a pipe.  Reads one byte more than the longest
 * text, so that a longer one is refused.
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
	int err = schema_scan_text(buf_slice(text), &line, &reason);

	if (err) {
		reason_set(why, path, (int)line, "", reason);
		return err;
	}
	err = schema_config_read(buf_slice(text), config);
	if (err == -EINVAL)
		reason_set(why, path, config_error_line(config), "", config_error_text(config));
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
			reason_set(why, path, (int)config_setting_source_line(c), config_setting_name(c), reason);
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

int options_change(struct tfs_options *o, struct slice text, char **why)
{
	struct buf copy = {0};
	int err = buf_append_slice(&copy, text);

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
		return buf_printf(out, "%s", *(const bool *)at ? "true" : "false");
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options: their defaults, and the configuration file.  The settings have the names of the struct's
 * members without their units: block_cache, memtable, table_cache, log_segment (sizes, "256M"),
 * sync_interval ("1s"), compaction_threads, compaction_rate, major_within, sync, log_level (error
 * warning notice info debug).
 */
#include <errno.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>

#include "t/model/model_types.h"

void tfs_options_init(struct tfs_options *o)
{
	*o = (struct tfs_options){
		.block_cache_bytes = (size_t)256 << 20,
		.memtable_bytes = (size_t)128 << 20,
		.table_cache_bytes = (size_t)64 << 20,
		.log_segment_bytes = (size_t)64 << 20,
		.sync_interval_us = 1000000,
		.compaction_threads = 2,
		.major_within_us = (uint64_t)7 * 86400 * 1000000,
		.log_level = -1,
	};
}

static const char *set(struct tfs_options *o, const config_setting_t *s)
{
	static const char *const level[] = {"error", "warning", "notice", "info", "debug"};
	const char *key = config_setting_name(s), *text = config_setting_get_string(s);
	size_t *size = strcmp(key, "block_cache") == 0 ? &o->block_cache_bytes
		: strcmp(key, "memtable") == 0         ? &o->memtable_bytes
		: strcmp(key, "table_cache") == 0      ? &o->table_cache_bytes
		: strcmp(key, "compaction_rate") == 0  ? &o->compaction_rate
		: strcmp(key, "log_segment") == 0      ? &o->log_segment_bytes
						       : NULL;
	uint64_t bytes;
	int64_t us;

	if (size) {
		if (!text || !mdl_size(text, &bytes))
			return "must be a size, such as \"256M\"";
		*size = bytes;
		return NULL;
	}
	if (strcmp(key, "sync_interval") == 0 || strcmp(key, "major_within") == 0) {
		if (!text || !mdl_duration(text, strlen(text), &us))
			return "must be a duration, such as \"1s\"";
		*(*key == 's' ? &o->sync_interval_us : &o->major_within_us) = (uint64_t)us;
		return NULL;
	}
	if (strcmp(key, "compaction_threads") == 0) {
		int n = config_setting_type(s) == CONFIG_TYPE_INT ? config_setting_get_int(s) : 0;
		if (n < 1 || n > 64)
			return "must be a number from 1 to 64";
		o->compaction_threads = (unsigned)n;
		return NULL;
	}
	if (strcmp(key, "sync") == 0) {
		if (config_setting_type(s) != CONFIG_TYPE_BOOL)
			return "must be true or false";
		o->sync = config_setting_get_bool(s) != 0;
		return NULL;
	}
	if (strcmp(key, "log_level") == 0) {
		for (int i = 0; text && i < 5; i++)
			if (strcmp(level[i], text) == 0) {
				o->log_level = i;
				return NULL;
			}
		return "must be error, warning, notice, info or debug";
	}
	return "is not a known setting";
}

int tfs_options_load(struct tfs_options *o, const char *path, char **why)
{
	struct tfs_options next = *o;
	config_t config;
	FILE *f = fopen(path, "re");
	int r = 0;

	if (why)
		*why = NULL;
	if (!f) {
		r = -errno;
		mdl_why(why, "%s: %m", path);
		return r;
	}
	config_init(&config);
	if (!config_read(&config, f)) {
		mdl_why(why, "%s:%d: %s", path, config_error_line(&config), config_error_text(&config));
		r = -EINVAL;
	} else {
		const config_setting_t *root = config_root_setting(&config);
		for (int i = 0; r == 0 && i < config_setting_length(root); i++) {
			const config_setting_t *s = config_setting_get_elem(root, (unsigned)i);
			const char *reason = set(&next, s);
			if (reason) {
				mdl_why(why, "%s:%u: %s %s", path, config_setting_source_line(s), config_setting_name(s), reason);
				r = -EINVAL;
			}
		}
	}
	config_destroy(&config);
	fclose(f);
	if (r == 0)
		*o = next;
	return r;
}

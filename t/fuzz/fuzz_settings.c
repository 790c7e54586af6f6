/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What people write, from any bytes.  The first byte chooses: 0 the
 * configuration file, 1 a size, 2 a duration, 3 a counter, 4 FORMAT, 5 the
 * contents of a setting under .families/ or .groups/ (the next byte which).
 * What is accepted is within its bounds and means the same written again;
 * what is refused changes nothing and has a reason.
 */
#include "engine/base/counter.h"
#include "engine/base/msg.h"
#include "engine/base/units.h"
#include "engine/host.h"
#include "engine/schema/schema.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)

static void try_config(struct tfs_bytes text)
{
	static int fd = -1;
	struct tfs_options o, before;
	char path[64], *why = (char *)"";
	int err;

	if (fd < 0)
		fd = memfd_create("config", 0);
	CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, text.p, text.n, 0) == (ssize_t)text.n);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	memset(&o, 0, sizeof(o));
	memset(&before, 0, sizeof(before));
	tfs_options_init(&o);
	tfs_options_init(&before);
	err = tfs_options_load(&o, path, &why);
	CHECK(err == 0 || err == -EINVAL);
	CHECK((err == 0) == (why == NULL));
	if (err) {
		CHECK(memcmp(&o, &before, sizeof(o)) == 0);
	} else {
		CHECK(o.block_cache_bytes >= 1 << 20 && o.memtable_bytes >= 1 << 20 && o.log_segment_bytes >= 1 << 20);
		CHECK(o.compaction_threads >= 1 && o.compaction_threads <= 64 && o.sync_interval_us >= 1000 &&
			o.major_within_us >= 3600000000ull && (!o.compaction_rate || o.compaction_rate >= 1u << 20));
		CHECK(o.log_level >= -1 && o.log_level <= MSG_DEBUG);
	}
	free(why);
}

static char *terminated(struct tfs_bytes text)
{
	char *s = malloc(text.n + 1);

	CHECK(s);
	if (text.n)
		memcpy(s, text.p, text.n);
	s[text.n] = 0;
	return s;
}

static void try_units(struct tfs_bytes text, bool size)
{
	char *s = terminated(text), again[40];
	uint64_t v = 77, w;

	if (!(size ? units_size(s, &v) : units_duration(s, &v))) {
		CHECK(v == 77);
	} else {
		CHECK(v <= INT64_MAX && s[0] >= '0' && s[0] <= '9');
		snprintf(again, sizeof(again), size ? "%" PRIu64 : "%" PRIu64 "us", v);
		CHECK((size ? units_size(again, &w) : units_duration(again, &w)) && w == v);
	}
	free(s);
}

static void try_counter(struct tfs_bytes text)
{
	char again[COUNTER_TEXT_MAX];
	int64_t v, w;
	size_t n;

	if (counter_parse(text, &v)) {
		bool digits = text.n > 0 && text.n <= 18;

		for (size_t i = 0; i < text.n; i++)
			digits = digits && text.p[i] >= '0' && text.p[i] <= '9';
		CHECK(!digits);
		return;
	}
	for (size_t i = 0; i <= text.n && text.n <= 4096; i++)
		CHECK(counter_prefix(tfs_bytes_of(text.p, i)));
	n = counter_text(v, again);
	CHECK(n <= COUNTER_DIGITS_MAX && n == strlen(again) && counter_file_size(n) == n + 1);
	CHECK(counter_parse(tfs_bytes_of(again, n), &w) == 0 && w == v);
}

static void try_format(struct tfs_bytes text)
{
	struct buf again = {0};
	unsigned version = 77;
	bool whole = false;

	if (store_format_decode(text, &version, &whole))
		CHECK(version == 77);
	else
		CHECK(version > 0 && store_format_encode(version, &again) == 0 &&
			(version == 1 || whole == bytes_eq(text, buf_bytes(&again))));
	buf_fini(&again);
}

static void try_setting(uint8_t which, struct tfs_bytes text)
{
	static const struct {
		enum tfs_schema_op op;
		const char *name;
	} settings[] = {
		{TFS_SCHEMA_FAMILY_GC, "f"},
		{TFS_SCHEMA_FAMILY_GROUP, "f"},
		{TFS_SCHEMA_FAMILY_TYPE, "f"},
		{TFS_SCHEMA_GROUP_COMPRESSION, "default"},
		{TFS_SCHEMA_GROUP_LEVEL, "default"},
		{TFS_SCHEMA_GROUP_BLOCK_SIZE, "default"},
		{TFS_SCHEMA_GROUP_BLOOM_BITS, "default"},
		{TFS_SCHEMA_GROUP_IN_MEMORY, "default"},
		{TFS_SCHEMA_FAMILY_ADD, NULL},
		{TFS_SCHEMA_GROUP_ADD, NULL},
	};
	const unsigned k = which % (sizeof(settings) / sizeof(settings[0]));
	char *value = terminated(text), *why = NULL;
	struct tfs_schema_edit e = {.op = settings[k].op,
		.name = settings[k].name ? settings[k].name : value,
		.value = value,
		.explicit_act = true,
		.mode = 0644,
		.uid = 0,
		.gid = 0};
	const struct tfs_schema_edit family = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "f", .mode = 0644};
	struct schema *empty, *s, *t = NULL, *back;
	struct buf bytes = {0};
	bool allow;
	int err;

	CHECK(schema_new("t", 16, 0, 0, 0755, 1, &empty) == 0 && schema_edit(empty, &family, 2, &s, NULL) == 0);
	err = schema_edit(s, &e, 3, &t, &why);
	CHECK(err == 0 || err == -EINVAL || err == -EEXIST || err == -ENOENT);
	CHECK((err == 0) == (t != NULL) && (err != -EINVAL || why));
	if (t) {
		/* What the setting made of the schema, .schema can say and its file can hold. */
		CHECK(schema_set_text(
			      t, tfs_bytes_of(schema_public(t)->text, schema_public(t)->text_size), 3, &back, &allow, NULL) == 0);
		CHECK(schema_public(back)->family_count == schema_public(t)->family_count);
		schema_put(back);
		CHECK(schema_encode(t, &bytes) == 0 && schema_decode(buf_bytes(&bytes), &back) == 0);
		schema_put(back);
		schema_put(t);
	}
	buf_fini(&bytes);
	free(why);
	free(value);
	schema_put(s);
	schema_put(empty);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tfs_bytes rest;

	if (!size)
		return 0;
	rest = tfs_bytes_of(data + 1, size - 1);
	switch (data[0] % 6) {
	case 0:
		try_config(rest);
		break;
	case 1:
	case 2:
		try_units(rest, data[0] % 6 == 1);
		break;
	case 3:
		try_counter(rest);
		break;
	case 4:
		try_format(rest);
		break;
	default:
		if (rest.n)
			try_setting(rest.p[0], tfs_bytes_of(rest.p + 1, rest.n - 1));
		break;
	}
	return 0;
}

/* '0' is 48: target 0, and setting 8. */
size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static const char *const texts[] = {
		"0# all of them\nblock_cache = \"64M\"; memtable = 16777216; table_cache = \"8M\";\nlog_segment = \"4MiB\"; sync_interval = \"500ms\";\n"
		"compaction_threads = 2; compaction_rate = \"8M\"; major_within = \"30d\"; log_level = \"info\";\n",
		"0log_level = 17.5;",
		"0memtable = ( { a = [ 1, 2 ]; }, 0x7fffffffffffffffL );",
		"0compaction_threads = 8L; # \n/* */",
		"1128M",
		"19223372036854775807",
		"164KiB",
		"2500ms",
		"252w",
		"3-9223372036854775808\n",
		"3 +17 ",
		"3x",
		"4tabletfs data directory, format 1\n",
		"4tabletfs data directory, format 3, CRC-32C f30837ad\n",
		"52maxversions=3 or (maxage=7d and maxversions=9)\n",
		"53default\n",
		"54counter",
		"55zstd-dict\n",
		"5619\n",
		"5764K\n",
		"5810\n",
		"59true\n",
		"50family-2.x",
		"51pages",
	};

	if (i >= sizeof(texts) / sizeof(texts[0]))
		return 0;
	*data = (const uint8_t *)texts[i];
	return strlen(texts[i]);
}

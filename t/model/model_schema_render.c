/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical text of a schema, and the values of a locality
 * group as text.  What is rendered parses back to the same schema.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>

#include "t/model/model_types.h"

static void put_quoted(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			fprintf(f, "\\x%02x", c);
		else
			fputc(c, f);
	}
	fputc('"', f);
}

static void put_string(FILE *f, const char *key, const char *value)
{
	fprintf(f, "%s = ", key);
	put_quoted(f, value);
	fputs("; ", f);
}

static void put_owner(FILE *f, uid_t uid, gid_t gid, mode_t mode)
{
	const struct passwd *pw = getpwuid(uid);
	char number[32];

	snprintf(number, sizeof(number), "%lu", (unsigned long)uid);
	put_string(f, "owner", pw ? pw->pw_name : number);
	const struct group *gr = getgrgid(gid);
	snprintf(number, sizeof(number), "%lu", (unsigned long)gid);
	put_string(f, "owner_group", gr ? gr->gr_name : number);
	fprintf(f, "mode = \"0%o\";", (unsigned)mode);
}

static void put_acl(FILE *f, const char *acl)
{
	struct tfs_acl_entry e;
	const char *comma = "acl = \"";

	while (tfs_acl_next(&acl, &e)) {
		const struct group *gr = e.is_group ? getgrgid(e.id) : NULL;
		const struct passwd *pw = e.is_group ? NULL : getpwuid(e.id);
		char id[32] = "";

		if (!e.is_owner)
			snprintf(id, sizeof(id), "%lu", (unsigned long)e.id);
		fprintf(f, "%s%c:%s:%c%c%c", comma, e.is_group ? 'g' : 'u',
			gr && !e.is_owner ? gr->gr_name
				: pw      ? pw->pw_name
					  : id,
			e.may & 4 ? 'r' : '-', e.may & 2 ? 'w' : '-', e.may & 1 ? 'x' : '-');
		comma = ",";
	}
	fputs("\"; ", f);
}

static void put_size(FILE *f, const char *key, uint64_t bytes)
{
	static const char unit[] = "\0KMGT";
	unsigned i = 0;

	while (i < 4 && bytes > 0 && bytes % 1024 == 0) {
		bytes /= 1024;
		i++;
	}
	fprintf(f, "%s = \"%llu%.1s\";", key, (unsigned long long)bytes, unit + i);
}

static void put_duration(FILE *f, const char *name, int64_t us)
{
	static const struct {
		const char *name;
		int64_t us;
	} units[] = {{"w", 604800000000}, {"d", 86400000000}, {"h", 3600000000}, {"m", 60000000}, {"s", 1000000}, {"ms", 1000},
		{"us", 1}};
	unsigned i = 0;

	if (!us)
		return;
	while (us % units[i].us)
		i++;
	fprintf(f, "%s = \"%lld%s\";\n", name, (long long)(us / units[i].us), units[i].name);
}

int mdl_schema_render(const struct mdl_schema *s, char **text, size_t *size)
{
	char *p = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&p, &n);

	if (!f)
		return -ENOMEM;
	put_owner(f, s->pub.uid, s->pub.gid, s->pub.mode);
	fputc('\n', f);
	put_size(f, "tablet_size", s->pub.tablet_size);
	fprintf(f, "\nsalt = %d;\n%s%s%s", s->pub.salt, s->pub.mkdir_families ? "mkdir_families = true;\n" : "",
		s->pub.protect == TFS_PROTECT_DATA           ? "protect = \"data\";\n"
			: s->pub.protect == TFS_PROTECT_NONE ? ""
							     : "protect = true;\n",
		s->pub.readonly ? "readonly = true;\n" : "");
	if (s->pub.quota) {
		put_size(f, "quota", s->pub.quota);
		fputc('\n', f);
	}
	put_duration(f, "snapshot_maxage", s->pub.snapshot_maxage_us);
	put_duration(f, "changes", s->pub.changes_us);
	mdl_splits_render(s, f);
	fputs("groups = (", f);
	for (unsigned i = 0; i < s->pub.group_count; i++) {
		const struct tfs_group *g = &s->group[i];
		fputs(i ? ",\n  { " : "\n  { ", f);
		put_string(f, "name", g->name);
		put_string(f, "compression", g->compression);
		fprintf(f, "level = %d; ", g->level);
		put_size(f, "block_size", g->block_size);
		fprintf(f, " bloom_bits = %d; in_memory = %s; }", g->bloom_bits, g->in_memory ? "true" : "false");
	}
	fputs(" );\nfamilies = (", f);
	for (unsigned i = 0; i < s->pub.family_count; i++) {
		const struct tfs_family *fam = &s->family[i];
		fputs(i ? ",\n  { " : "\n  { ", f);
		put_string(f, "name", fam->name);
		if (*fam->gc)
			put_string(f, "gc", fam->gc);
		put_string(f, "group", fam->group);
		put_string(f, "type", fam->type == TFS_TYPE_COUNTER ? "counter" : "bytes");
		fputs("\n    ", f);
		put_owner(f, fam->uid, fam->gid, fam->mode);
		fputc(' ', f);
		if (*fam->acl)
			put_acl(f, fam->acl);
		fputs("}", f);
	}
	fputs(" );\n", f);
	bool failed = ferror(f);
	if (fclose(f) != 0 || failed) {
		free(p);
		return -ENOMEM;
	}
	*text = p;
	*size = n;
	return 0;
}

static bool small_number(const char *s, int least, int most, int *out)
{
	uint64_t v;

	if (*s < '0' || *s > '9' || strpbrk(s, "KMGT") || !mdl_size(s, &v) || v < (uint64_t)least || v > (uint64_t)most)
		return false;
	*out = (int)v;
	return true;
}

/* Only zstd has levels; all other codecs keep the default. */
bool mdl_group_fits(const struct tfs_group *g)
{
	return strncmp(g->compression, "zstd", 4) == 0 || g->level == 3;
}

const char *mdl_group_set(struct tfs_group *g, enum tfs_schema_op op, const char *value)
{
	static const char *const codec[] = {"none", "snappy", "lz4", "zstd", "zstd-dict"};
	uint64_t bytes;

	switch ((int)op) {
	case TFS_SCHEMA_GROUP_COMPRESSION:
		for (size_t i = 0; i < sizeof(codec) / sizeof(codec[0]); i++)
			if (strcmp(codec[i], value) == 0) {
				g->compression = codec[i];
				return NULL;
			}
		return "compression is none, snappy, lz4, zstd or zstd-dict";
	case TFS_SCHEMA_GROUP_LEVEL:
		return small_number(value, 1, 19, &g->level) ? NULL : "level is a number from 1 to 19";
	case TFS_SCHEMA_GROUP_BLOCK_SIZE:
		if (!mdl_size(value, &bytes) || bytes < 1024 || bytes > 4 * 1024 * 1024)
			return "block_size is a size from 1K to 4M";
		g->block_size = (uint32_t)bytes;
		return NULL;
	case TFS_SCHEMA_GROUP_BLOOM_BITS:
		return small_number(value, 0, 20, &g->bloom_bits) ? NULL : "bloom_bits is a number from 0 to 20";
	case TFS_SCHEMA_GROUP_IN_MEMORY:
		if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
			return "in_memory is true or false";
		g->in_memory = *value == 't';
		return NULL;
	default:
		return "not a setting of a group";
	}
}

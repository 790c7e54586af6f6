/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a table's file in the lock service.  Big-endian; lstr is a
 * LEB128 length and that many bytes.
 *	u32 magic "TFSC"  u16 format (1)
 *	u32 table id  u32 id of its tablets  u64 generation  lstr name  u32 uid  u32 gid  u16 mode
 *	u8 flags (1 is_set, 2 is_hidden, 4 mkdir_families, 8 a snapshot,
 *	          16 the snapshot was made with those of all tables, 32 protect,
 *	          64 splits follow, 128 snapshot_maxage follows)
 *	i64 mtime  u64 tablet size  u8 salt  u8 salt in use
 *	u32 next family id  u32 next group id
 *	if flag 64 is set: u16 count, keys of splits, ascending, each an lstr
 *	u16 count, groups:   u16 id  lstr name  u8 codec  u8 level
 *	                     u32 block size  u8 bloom bits  u8 in memory
 *	u16 count, families: u16 id  lstr name  lstr gc  u16 group id  u8 type
 *	                     u32 uid  u32 gid  u16 mode  lstr acl
 *	lstr text of .schema
 *	of a snapshot (flag 8): u32 id of its table  i64 the instant that it shows
 *	if flag 128 is set: i64 snapshot_maxage
 *	unless both are 0 and neither of the next two follows: u64, u64 numbers of the requests that made it and that changed it last
 *	if there are scripts, or one of the next two follows: u16 count, scripts: lstr name  i64 mtime  lstr text
 *	if changes are kept, or the next follows: i64 for so long, or 0
 *	unless they are 0: u8 more flags (1 protect = "data", with flag 32, 2 readonly, 4 quota follows)
 *	if this flag 4 is set: u64 quota
 *	u32 CRC-32C of all bytes before it
 * Groups and families are in the order of their ids, scripts in the order of their
 * names.  The decoder accepts valid
 * schemas only: names are valid and unique, ids ascend and are below the next
 * id, the default group and no other has id 0, the families' groups exist, and
 * values are within their limits.
 */
#include "engine/base/envelope.h"
#include "engine/schema/schema_internal.h"

#include <errno.h>
#include <stdlib.h>

#define MAGIC 0x54465343u /* TFSC */
#define FLAG_SET 1u
#define FLAG_HIDDEN 2u
#define FLAG_MKDIR 4u
#define FLAG_SNAPSHOT 8u
#define FLAG_OF_ALL 16u
#define FLAG_PROTECT 32u
#define FLAG_SPLITS 64u
#define FLAG_MAXAGE 128u
/* More flags. */
#define MORE_DATA 1u
#define MORE_READONLY 2u
#define MORE_QUOTA 4u

/* ---- encode ---- */

static int encode_group(const struct tfs_group *g, struct buf *out)
{
	return buf_be16(out, g->id) || buf_lstr(out, tfs_str(g->name)) || buf_u8(out, (uint8_t)sst_codec_by_name(g->compression)) ||
		buf_u8(out, (uint8_t)g->level) || buf_be32(out, g->block_size) || buf_u8(out, (uint8_t)g->bloom_bits) ||
		buf_u8(out, g->in_memory);
}

static int encode_family(const struct schema *s, const struct tfs_family *f, struct buf *out)
{
	const struct tfs_group *g = draft_find_group(s, f->group);

	return !g || buf_be16(out, f->id) || buf_lstr(out, tfs_str(f->name)) || buf_lstr(out, tfs_str(f->gc)) ||
		buf_be16(out, g->id) || buf_u8(out, (uint8_t)f->type) || buf_be32(out, f->uid) || buf_be32(out, f->gid) ||
		buf_be16(out, (uint16_t)f->mode) || buf_lstr(out, tfs_str(f->acl));
}

static int encode_splits(const struct tfs_schema *t, struct buf *out)
{
	int err = t->split_count ? buf_be16(out, (uint16_t)t->split_count) : 0;

	for (unsigned i = 0; i < t->split_count && !err; i++)
		err = buf_lstr(out, t->splits[i]);
	return err;
}

static uint8_t more_flags(const struct schema *s)
{
	return (uint8_t)((s->pub.protect == TFS_PROTECT_DATA ? MORE_DATA : 0) | (s->pub.readonly ? MORE_READONLY : 0) |
		(s->pub.quota ? MORE_QUOTA : 0));
}

/* Returns true if fields follow the numbers of requests. */
static bool has_more(const struct schema *s)
{
	return s->pub.script_count || s->pub.changes_us || more_flags(s);
}

static int encode_more(const struct schema *s, struct buf *out)
{
	int err = has_more(s) ? buf_be16(out, (uint16_t)s->pub.script_count) : 0;

	for (unsigned i = 0; i < s->pub.script_count && !err; i++)
		err = buf_lstr(out, tfs_str(s->scripts[i].name)) || buf_be64(out, (uint64_t)s->scripts[i].mtime_us) ||
			buf_lstr(out, s->scripts[i].text);
	if (!err && (s->pub.changes_us || more_flags(s)))
		err = buf_be64(out, (uint64_t)s->pub.changes_us);
	if (!err && more_flags(s))
		err = buf_u8(out, more_flags(s));
	if (!err && s->pub.quota)
		err = buf_be64(out, s->pub.quota);
	return err;
}

static int encode_table(const struct schema *s, struct buf *out)
{
	const struct tfs_schema *t = &s->pub;
	uint8_t flags = (uint8_t)((t->is_set ? FLAG_SET : 0) | (t->is_hidden ? FLAG_HIDDEN : 0) |
		(t->mkdir_families ? FLAG_MKDIR : 0) | (t->snapshot_of ? FLAG_SNAPSHOT : 0) |
		(t->snapshot_of_all ? FLAG_OF_ALL : 0) | (t->protect ? FLAG_PROTECT : 0) | (t->split_count ? FLAG_SPLITS : 0) |
		(t->snapshot_maxage_us ? FLAG_MAXAGE : 0));

	return envelope_begin(out, MAGIC) || buf_be32(out, t->table_id) || buf_be32(out, t->tablets_id) ||
		buf_be64(out, t->generation) || buf_lstr(out, tfs_str(t->name)) || buf_be32(out, t->uid) || buf_be32(out, t->gid) ||
		buf_be16(out, (uint16_t)t->mode) || buf_u8(out, flags) || buf_be64(out, (uint64_t)t->mtime_us) ||
		buf_be64(out, t->tablet_size) || buf_u8(out, (uint8_t)t->salt) || buf_u8(out, (uint8_t)t->salt_in_use) ||
		buf_be32(out, s->next_family) || buf_be32(out, s->next_group) || encode_splits(t, out);
}

int schema_encode(const struct schema *s, struct buf *out)
{
	size_t from = out->n;

	if (encode_table(s, out) || buf_be16(out, (uint16_t)s->pub.group_count))
		goto fail;
	for (unsigned i = 0; i < s->pub.group_count; i++)
		if (encode_group(&s->groups[i], out))
			goto fail;
	if (buf_be16(out, (uint16_t)s->pub.family_count))
		goto fail;
	for (unsigned i = 0; i < s->pub.family_count; i++)
		if (encode_family(s, &s->families[i], out))
			goto fail;
	if (buf_lstr(out, tfs_bytes_of(s->text, s->pub.text_size)))
		goto fail;
	if (s->pub.snapshot_of && (buf_be32(out, s->pub.snapshot_of) || buf_be64(out, (uint64_t)s->pub.snapshot_us)))
		goto fail;
	if (s->pub.snapshot_maxage_us && buf_be64(out, (uint64_t)s->pub.snapshot_maxage_us))
		goto fail;
	if ((s->made || s->changed || has_more(s)) && (buf_be64(out, s->made) || buf_be64(out, s->changed)))
		goto fail;
	if (encode_more(s, out))
		goto fail;
	if (envelope_end(out, from))
		goto fail;
	return 0;
fail:
	out->n = from;
	return -ENOMEM;
}

/* ---- decode ---- */

/*
 * Reads printable text of at most max bytes into the draft's arena.  Returns
 * false if it is invalid, or sets *no_memory.
 */
static bool get_text(struct schema *s, struct reader *r, size_t max, const char **out, bool *no_memory)
{
	struct tfs_bytes v;
	char *copy;

	if (!get_lstr(r, &v) || v.n > max || (v.n && memchr(v.p, 0, v.n)))
		return false;
	copy = arena_alloc(&s->arena, v.n + 1);
	if (!copy) {
		*no_memory = true;
		return false;
	}
	if (v.n)
		memcpy(copy, v.p, v.n);
	copy[v.n] = 0;
	*out = copy;
	return text_printable(copy);
}

static bool decode_splits(struct schema *s, struct reader *r, bool *no_memory)
{
	const char *reason;
	struct tfs_bytes key, last = {0};
	uint16_t count;
	int err = 0;

	if (!get_be16(r, &count) || !count)
		return false;
	for (unsigned i = 0; i < count && !err; i++) {
		if (!get_lstr(r, &key) || (i && bytes_cmp(key, last) <= 0))
			return false;
		err = draft_split(s, key, &reason);
		last = key;
	}
	*no_memory = err == -ENOMEM;
	return !err;
}

static bool decode_table(struct schema *s, struct reader *r, bool *no_memory)
{
	struct tfs_schema *t = &s->pub;
	const char *name;
	uint64_t mtime;
	uint16_t mode;
	uint8_t flags, salt, in_use;

	if (!get_be32(r, &t->table_id) || !get_be32(r, &t->tablets_id) || !get_be64(r, &t->generation) ||
		!get_text(s, r, TFS_NAME_MAX, &name, no_memory) || !get_be32(r, &t->uid) || !get_be32(r, &t->gid) ||
		!get_be16(r, &mode) || !get_u8(r, &flags) || !get_be64(r, &mtime) || !get_be64(r, &t->tablet_size) ||
		!get_u8(r, &salt) || !get_u8(r, &in_use) || !get_be32(r, &s->next_family) || !get_be32(r, &s->next_group))
		return false;
	if (!schema_name_valid(tfs_str(name)) || mode & ~07777 || (flags & FLAG_OF_ALL && !(flags & FLAG_SNAPSHOT)) ||
		t->generation == 0 || t->generation == UINT64_MAX || salt == 1 || in_use == 1)
		return false;
	if (t->tablet_size < 64 * 1024 || t->tablet_size > (uint64_t)1 << 40 || s->next_family < 1 || s->next_family > 65536 ||
		s->next_group < 1 || s->next_group > 65536)
		return false;
	strcpy(t->name, name); /* a valid name fits */
	t->mode = mode;
	t->salt = salt;
	t->salt_in_use = in_use;
	t->is_set = flags & FLAG_SET;
	t->is_hidden = flags & FLAG_HIDDEN;
	t->mkdir_families = flags & FLAG_MKDIR;
	t->snapshot_of = flags & FLAG_SNAPSHOT ? 1 : 0; /* the id follows the text */
	t->snapshot_of_all = flags & FLAG_OF_ALL;
	t->protect = flags & FLAG_PROTECT ? TFS_PROTECT_TABLE : TFS_PROTECT_NONE;
	t->snapshot_maxage_us = flags & FLAG_MAXAGE ? 1 : 0; /* it follows the text */
	t->mtime_us = (int64_t)mtime;
	return !(flags & FLAG_SPLITS) || decode_splits(s, r, no_memory);
}

static bool decode_group(struct schema *s, struct reader *r, int *last, bool *no_memory)
{
	const char *name, *reason;
	struct tfs_group *g;
	uint8_t codec, level, bloom, in_memory;
	uint16_t id;
	uint32_t block;
	int err;

	if (!get_be16(r, &id) || !get_text(s, r, TFS_NAME_MAX, &name, no_memory) || !get_u8(r, &codec) || !get_u8(r, &level) ||
		!get_be32(r, &block) || !get_u8(r, &bloom) || !get_u8(r, &in_memory))
		return false;
	if (id <= *last || id >= s->next_group || (id == 0) != (strcmp(name, SCHEMA_DEFAULT_GROUP) == 0) || !sst_is_codec(codec) ||
		level < 1 || level > 19 || bloom > 20 || in_memory > 1 || block < SCHEMA_BLOCK_LEAST || block > SCHEMA_BLOCK_MOST)
		return false;
	*last = id;
	err = draft_group(s, name, id, &g, &reason);
	*no_memory = err == -ENOMEM;
	if (err)
		return false;
	g->compression = sst_codec_kinds[codec].name;
	g->level = level;
	g->block_size = block;
	g->bloom_bits = bloom;
	g->in_memory = in_memory;
	return true;
}

static bool decode_family(struct schema *s, struct reader *r, int *last, bool *no_memory)
{
	const char *name, *gc, *acl, *reason;
	const struct tfs_group *g;
	struct tfs_family *f;
	uint16_t id, group, mode;
	uint32_t uid, gid;
	uint8_t type;
	int err;

	if (!get_be16(r, &id) || !get_text(s, r, TFS_NAME_MAX, &name, no_memory) ||
		!get_text(s, r, SCHEMA_GC_MAX, &gc, no_memory) || !get_be16(r, &group) || !get_u8(r, &type) || !get_be32(r, &uid) ||
		!get_be32(r, &gid) || !get_be16(r, &mode) || !get_text(s, r, SCHEMA_ACL_MAX, &acl, no_memory))
		return false;
	if (!acl_valid(acl, no_memory) || id <= *last || id >= s->next_family || type > TFS_TYPE_COUNTER || mode & ~0777)
		return false;
	*last = id;
	g = draft_group_by_id(s, group);
	if (!g)
		return false;
	err = draft_family(s, name, id, &f, &reason);
	*no_memory = err == -ENOMEM;
	if (err)
		return false;
	f->group = g->name;
	f->gc = gc;
	f->type = type ? TFS_TYPE_COUNTER : TFS_TYPE_BYTES;
	f->uid = uid;
	f->gid = gid;
	f->mode = mode;
	f->acl = acl;
	return true;
}

static bool decode_maxage(struct schema *s, struct reader *r)
{
	uint64_t us;

	if (!s->pub.snapshot_maxage_us)
		return true;
	if (!get_be64(r, &us) || !us || us > INT64_MAX)
		return false;
	s->pub.snapshot_maxage_us = (int64_t)us;
	return true;
}

static bool decode_numbers(struct schema *s, struct reader *r)
{
	return !reader_left(r) || (get_be64(r, &s->made) && get_be64(r, &s->changed) && (s->made || s->changed || reader_left(r)));
}

/* Reads the last fields.  scripts: there are scripts, so the fields may be absent. */
static bool decode_more(struct schema *s, struct reader *r, bool scripts)
{
	struct tfs_schema *t = &s->pub;
	uint64_t changes;
	uint8_t more = 0;

	if (!reader_left(r))
		return scripts;
	if (!get_be64(r, &changes) || changes > INT64_MAX)
		return false;
	t->changes_us = (int64_t)changes;
	if (!reader_left(r))
		return changes > 0;
	if (!get_u8(r, &more) || !more || more & ~(MORE_DATA | MORE_READONLY | MORE_QUOTA) || (more & MORE_DATA && !t->protect))
		return false;
	if (more & MORE_DATA)
		t->protect = TFS_PROTECT_DATA;
	t->readonly = more & MORE_READONLY;
	return !(more & MORE_QUOTA) || (get_be64(r, &t->quota) && t->quota);
}

static bool decode_scripts(struct schema *s, struct reader *r, bool *no_memory)
{
	const char *name, *last = "", *reason;
	struct tfs_bytes text;
	uint64_t mtime;
	uint16_t count;
	int err = 0;

	if (!reader_left(r))
		return true;
	if (!get_be16(r, &count))
		return false;
	for (unsigned i = 0; i < count && !err; i++) {
		if (!get_text(s, r, TFS_SCRIPT_NAME_MAX, &name, no_memory) || strcmp(name, last) <= 0 || !get_be64(r, &mtime) ||
			!get_lstr(r, &text))
			return false;
		last = name;
		err = draft_script(s, name, text, (int64_t)mtime, &reason);
	}
	*no_memory = err == -ENOMEM;
	return !err && decode_more(s, r, count > 0);
}

/* Reads the fields of a snapshot.  A snapshot's table id is above the id of the table that it shows. */
static bool decode_snapshot(struct schema *s, struct reader *r)
{
	struct tfs_schema *t = &s->pub;
	uint64_t us;

	if (!t->snapshot_of)
		return true;
	if (!get_be32(r, &t->snapshot_of) || !get_be64(r, &us))
		return false;
	t->snapshot_us = (int64_t)us;
	return t->snapshot_of && t->snapshot_of < t->table_id && t->table_id == t->tablets_id;
}

static bool decode_body(struct schema *s, struct reader *r, bool *no_memory)
{
	struct tfs_bytes text;
	uint16_t count;
	int last = -1;

	if (!decode_table(s, r, no_memory) || !get_be16(r, &count))
		return false;
	for (unsigned i = 0; i < count; i++)
		if (!decode_group(s, r, &last, no_memory))
			return false;
	if (!draft_find_group(s, SCHEMA_DEFAULT_GROUP) || !get_be16(r, &count))
		return false;
	last = 0;
	for (unsigned i = 0; i < count; i++)
		if (!decode_family(s, r, &last, no_memory))
			return false;
	if (!get_lstr(r, &text) || text.n > SCHEMA_TEXT_MAX || !decode_snapshot(s, r) || !decode_maxage(s, r) ||
		!decode_numbers(s, r) || !decode_scripts(s, r, no_memory) || reader_left(r))
		return false;
	*no_memory = draft_text(s, (const char *)text.p, text.n) != 0;
	return !*no_memory;
}

int schema_decode_draft(struct tfs_bytes in, struct schema **out)
{
	bool no_memory = false;
	struct schema *s;
	struct reader r;
	int err = envelope_open(in, MAGIC, &r);

	if (err)
		return err;
	s = schema_draft(NULL);
	if (!s)
		return -ENOMEM;
	if (!decode_body(s, &r, &no_memory)) {
		schema_put(s);
		return no_memory ? -ENOMEM : -EBADMSG;
	}
	*out = s;
	return 0;
}

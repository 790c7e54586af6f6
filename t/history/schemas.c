/* SPDX-License-Identifier: Apache-2.0 */
/* Random changes of tables and schemas. */
#include "engine/sstable/sstable.h"
#include "t/history/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

const char *const table_names[TABLES] = {"t0", "web.table", "z-2"};

static const char *const groups[] = {"default", "g1", "g2"};

void say_schema(struct side *s, struct tfs_table *t, bool access, struct out *o)
{
	const struct tfs_schema *c;
	int err = s->api->schema_get(t, &c);

	if (err) {
		say(o, "  schema: %s\n", strerror(-err));
		return;
	}
	if (access)
		say(o, "  table %u:%u %o\n", c->uid, c->gid, c->mode);
	/* To the millisecond, as the clock moves: background work draws unique times in between. */
	say(o, "  schema %s set %d hidden %d mtime %lld tablet %llu salt %d protect %d readonly %d splits %u\n", c->name, c->is_set,
		c->is_hidden, (long long)(c->mtime_us / 1000), (unsigned long long)c->tablet_size, c->salt, c->protect, c->readonly,
		c->split_count);
	for (unsigned i = 0; i < c->split_count; i++)
		say_bytes(o, c->splits[i]);
	for (unsigned i = 0; i < c->family_count; i++) {
		const struct tfs_family *f = &c->families[i];

		say(o, "  family %s(%u) gc \"%s\" group %s type %d age %lld\n", f->name, f->id, f->gc, f->group, f->type,
			(long long)f->max_age_us);
		if (access)
			say(o, "    %u:%u %o acl \"%s\"\n", f->uid, f->gid, f->mode, f->acl);
	}
	for (unsigned i = 0; i < c->group_count; i++) {
		const struct tfs_group *g = &c->groups[i];

		say(o, "  group %s(%u) %s %d %u %d %d\n", g->name, g->id, g->compression, g->level, g->block_size, g->bloom_bits,
			g->in_memory);
	}
	for (unsigned i = 0; i < c->script_count; i++)
		say(o, "  script %s %lld %.*s\n", c->scripts[i].name, (long long)(c->scripts[i].mtime_us / 1000),
			(int)c->scripts[i].text.n, (const char *)c->scripts[i].text.p);
	if (access)
		say(o, "  text %zu: %.*s\n", c->text_size, (int)c->text_size, c->text);
	s->api->schema_put(c);
}

/* Deletes every row: in mutations of a row each, as rm -r would. */
static void purge(struct side *s, struct tfs_table *t, const char *family)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_ROWS};
	struct tfs_scan *sc;
	struct tfs_cell c;
	struct tfs_mutation *m;

	if (s->api->scan_new(t, &spec, &sc))
		return;
	while (s->api->scan_next(sc, &c) > 0) {
		char *row = malloc(c.row.n + 1);

		if (!row)
			abort();
		memcpy(row, c.row.p, c.row.n);
		m = s->api->mutation_new(t, tfs_bytes_of(row, c.row.n));
		if (!m || (family ? s->api->mutation_delete_family(m, family) : s->api->mutation_delete_row(m)))
			abort();
		(void)!s->api->apply(m, 0, NULL);
		s->api->mutation_free(m);
		free(row);
	}
	s->api->scan_free(sc);
}

/* The table of a handle was dropped, and every call reports it. */
static void let_go(struct side *s, unsigned k, struct out *o)
{
	bool b = false;
	struct tfs_info info;
	int err = s->api->table_empty(s->table[k], &b);

	say(o, "  gone: %s", strerror(-err));
	err = s->api->stat(s->table[k], TFS_S("a"), "a", TFS_S("q"), TFS_AUTO, &info);
	say(o, ", %s\n", strerror(-err));
	s->api->table_close(s->table[k]);
	s->table[k] = NULL;
}

static void open_handle(struct side *s, unsigned k, struct out *o)
{
	int err = s->api->table_open(s->store, table_names[k], &s->table[k]);

	if (err) {
		say(o, "  open: %s\n", strerror(-err));
		s->table[k] = NULL;
	}
}

static int rename_table(struct side *s, struct rng *r, unsigned flags, struct out *o)
{
	unsigned from = (unsigned)below(r, TABLES), to = (unsigned)below(r, TABLES);
	bool noreplace = one_in(r, 2);
	const char *name = one_in(r, 20) ? "no/name" : table_names[to];
	int err;

	if (one_in(r, 2) && s->table[to] && from != to && !(flags & STEP_SINGLE))
		purge(s, s->table[to], NULL);
	say(o, "rename %s to %s%s: ", table_names[from], name, noreplace ? " noreplace" : "");
	err = s->api->table_rename(s->store, table_names[from], name, noreplace);
	say(o, "%s\n", strerror(-err));
	if (err || from == to)
		return err;
	if (s->table[to])
		let_go(s, to, o);
	s->table[to] = s->table[from];
	s->table[from] = NULL;
	say_schema(s, s->table[to], true, o);
	return 0;
}

int step_table(struct side *s, struct rng *r, unsigned flags, struct out *o)
{
	unsigned k = (unsigned)below(r, TABLES), what = (unsigned)below(r, 9);
	char names[TABLES + 1][TFS_NAME_MAX + 1];
	bool clear = one_in(r, 2);
	int err;

	switch (what) {
	case 0:
	case 1:
	case 2:
		err = s->api->table_create(
			s->store, table_names[k], (uid_t)below(r, 3), (gid_t)below(r, 3), one_in(r, 2) ? 0755 : 0700);
		say(o, "create %s: %s\n", table_names[k], strerror(-err));
		if (!err)
			open_handle(s, k, o);
		return err;
	case 3:
	case 4:
		if (s->table[k] && clear && !(flags & STEP_SINGLE))
			purge(s, s->table[k], NULL);
		err = s->api->table_drop(s->store, table_names[k]);
		say(o, "drop %s: %s\n", table_names[k], strerror(-err));
		if (!err)
			let_go(s, k, o);
		return err;
	case 5:
	case 6:
		return rename_table(s, r, flags, o);
	case 7:
		if (!s->table[k])
			return 0;
		err = s->api->table_truncate(s->table[k], NULL);
		say(o, "truncate %s: %s\n", table_names[k], strerror(-err));
		return err;
	default:
		err = s->api->table_list(s->store, clear ? "" : table_names[k], names, one_in(r, 2) ? TABLES + 1 : 1);
		say(o, "list: %d", err);
		for (int i = 0; i < err; i++)
			say(o, " %s", names[i]);
		say(o, "\n");
		return err < 0 ? err : 0;
	}
}

const char *const schema_op_names[TFS_SCHEMA_TEXT_APPEND + 1] = {
	"table mode",
	"table owner",
	"time",
	"hide",
	"family add",
	"family drop",
	"family mode",
	"family owner",
	"family gc",
	"family group",
	"family type",
	"group add",
	"group drop",
	"compression",
	"level",
	"block size",
	"bloom bits",
	"in memory",
	"family rename",
	"group rename",
	"family acl",
	"script set",
	"script time",
	"script drop",
	"append",
};

static int change(struct side *s, struct tfs_table *t, const struct tfs_schema_edit *e, struct out *o)
{
	char *why = NULL;
	int err = s->api->schema_change(t, e, &why);

	free(why);
	say(o, "edit %s %s = %s%.*s: %s\n", schema_op_names[e->op], e->name ? e->name : "", e->value ? e->value : "",
		(int)e->text.n, e->text.n ? (const char *)e->text.p : "", strerror(-err));
	return err;
}

static const char *pick_gc(struct rng *r)
{
	static const char *const rules[] = {
		"",
		"maxversions=1",
		"maxversions=2",
		"maxversions=3",
		"maxage=1h",
		"maxage=10m",
		"maxversions=2 or maxage=1h",
		"maxversions=1 and maxage=1h",
		"(maxage=10m or maxversions=3) and maxage=1m",
		"maxage=3w",
		"maxversions=0",
		"rubbish=1",
	};

	return rules[below(r, sizeof(rules) / sizeof(*rules))];
}

/* A family that is renamed or gets another's name: no counters, and where rules are not to change their family, not that which has one. */
static unsigned renamed(struct rng *r, unsigned flags)
{
	unsigned least = flags & STEP_AGES ? 0 : 1;

	return least + (unsigned)below(r, FAMILIES - 1 - least);
}

int step_edit(struct side *s, struct tfs_table *t, struct rng *r, unsigned flags, struct out *o)
{
	static const enum tfs_schema_op ops[] = {
		TFS_SCHEMA_TABLE_MODE,
		TFS_SCHEMA_TABLE_OWNER,
		TFS_SCHEMA_TIME,
		TFS_SCHEMA_HIDE,
		TFS_SCHEMA_FAMILY_ADD,
		TFS_SCHEMA_FAMILY_ADD,
		TFS_SCHEMA_FAMILY_ADD,
		TFS_SCHEMA_FAMILY_DROP,
		TFS_SCHEMA_FAMILY_DROP,
		TFS_SCHEMA_FAMILY_MODE,
		TFS_SCHEMA_FAMILY_OWNER,
		TFS_SCHEMA_FAMILY_ACL,
		TFS_SCHEMA_FAMILY_GROUP,
		TFS_SCHEMA_FAMILY_GROUP,
		TFS_SCHEMA_FAMILY_TYPE,
		TFS_SCHEMA_GROUP_ADD,
		TFS_SCHEMA_GROUP_DROP,
		TFS_SCHEMA_GROUP_COMPRESSION,
		TFS_SCHEMA_GROUP_LEVEL,
		TFS_SCHEMA_GROUP_BLOCK_SIZE,
		TFS_SCHEMA_GROUP_BLOOM_BITS,
		TFS_SCHEMA_GROUP_IN_MEMORY,
		TFS_SCHEMA_FAMILY_GROUP,
		TFS_SCHEMA_FAMILY_RENAME,
		TFS_SCHEMA_FAMILY_RENAME,
		TFS_SCHEMA_FAMILY_RENAME,
		TFS_SCHEMA_GROUP_RENAME,
		TFS_SCHEMA_SCRIPT_SET,
		TFS_SCHEMA_SCRIPT_SET,
		TFS_SCHEMA_SCRIPT_TIME,
		TFS_SCHEMA_SCRIPT_DROP,
		TFS_SCHEMA_TEXT_APPEND,
	};
	static const char *const refs[] = {"#1", "#2", "#3", "#9"};
#define CODEC_NAME(upper, number, name, ...) name,
	static const char *const codecs[] = {SST_CODEC_LIST(CODEC_NAME) "bzip2"};
#undef CODEC_NAME
	static const char *const acls[] = {"", "u:1:r--,g::r--", "g::rw-,g:2:---", "rubbish"};
	static const char *const levels[] = {"1", "3", "7", "x"};
	static const char *const blocks[] = {"4K", "16K", "64K", "1"};
	static const char *const blooms[] = {"0", "10", "16", "-1"};
	static const char *const lines[] = {
		"quota = \"1G\";\n", "quota = \"2G\";", "snapshot_maxage = \"30d\";\n", "rubbish = 1;\n", ""};
	struct tfs_schema_edit e = {.op = ops[below(r, sizeof(ops) / sizeof(*ops))]};
	bool defaults;
	int err;

	if (e.op == TFS_SCHEMA_FAMILY_TYPE &&
		(flags & STEP_AGES)) /* hidden cells would keep it from changing: step_rules does it */
		e.op = TFS_SCHEMA_FAMILY_MODE;
	e.explicit_act = one_in(r, 3);
	e.uid = (uid_t)below(r, 3);
	e.gid = one_in(r, 3) ? (gid_t)-1 : (gid_t)below(r, 3);
	e.mode = one_in(r, 2) ? 0640 : 0755;
	defaults = !one_in(r, 3);
	if (defaults) { /* the rights with which snapshots are made */
		e.uid = e.gid = 0;
		e.mode = e.op == TFS_SCHEMA_TABLE_MODE ? 0755 : 0644;
	}
	e.mtime_us = CLOCK_BASE + (int64_t)below(r, 1000);
	e.name = groups[below(r, 3)];
	switch (e.op) {
	case TFS_SCHEMA_FAMILY_ADD:
	case TFS_SCHEMA_FAMILY_DROP:
	case TFS_SCHEMA_FAMILY_MODE:
	case TFS_SCHEMA_FAMILY_OWNER:
	case TFS_SCHEMA_FAMILY_GC:
	case TFS_SCHEMA_FAMILY_GROUP:
	case TFS_SCHEMA_FAMILY_TYPE:
	case TFS_SCHEMA_FAMILY_ACL:
		e.name = family_names[below(r, FAMILIES)];
		if (e.op == TFS_SCHEMA_FAMILY_ADD && e.gid == (gid_t)-1)
			e.gid = 1;
		if (one_in(r, 30) && e.op == TFS_SCHEMA_FAMILY_ADD)
			e.name = ".bad";
		e.value = e.op == TFS_SCHEMA_FAMILY_TYPE  ? (one_in(r, 2) ? "counter" : "bytes")
			: e.op == TFS_SCHEMA_FAMILY_GROUP ? groups[below(r, 3)]
			: e.op == TFS_SCHEMA_FAMILY_ACL   ? acls[defaults ? 0 : below(r, 4)]
							  : NULL;
		if (one_in(r, 3) && (e.op == TFS_SCHEMA_FAMILY_DROP || e.op == TFS_SCHEMA_FAMILY_TYPE) && !(flags & STEP_SINGLE))
			purge(s, t, e.name);
		break;
	case TFS_SCHEMA_FAMILY_RENAME:
		e.name = family_names[renamed(r, flags)];
		e.value = one_in(r, 20) ? "no/name" : family_names[renamed(r, flags)];
		if (one_in(r, 4) && (flags & STEP_AGES))
			e.name = refs[below(r, 4)];
		break;
	case TFS_SCHEMA_GROUP_RENAME:
		e.value = groups[below(r, 3)];
		if (one_in(r, 4))
			e.name = refs[below(r, 4)];
		break;
	case TFS_SCHEMA_GROUP_COMPRESSION:
		e.value = codecs[below(r, sizeof(codecs) / sizeof(*codecs))];
		break;
	case TFS_SCHEMA_GROUP_LEVEL:
		e.value = levels[below(r, 4)];
		break;
	case TFS_SCHEMA_GROUP_BLOCK_SIZE:
		e.value = blocks[below(r, 4)];
		break;
	case TFS_SCHEMA_GROUP_BLOOM_BITS:
		e.value = blooms[below(r, 4)];
		break;
	case TFS_SCHEMA_GROUP_IN_MEMORY:
		e.value = one_in(r, 2) ? "true" : "false";
		break;
	case TFS_SCHEMA_SCRIPT_SET:
	case TFS_SCHEMA_SCRIPT_TIME:
	case TFS_SCHEMA_SCRIPT_DROP:
		e.explicit_act = false;
		e.text = tfs_str(pick_gc(r));
		break;
	case TFS_SCHEMA_TEXT_APPEND:
		e.text = tfs_str(lines[below(r, sizeof(lines) / sizeof(*lines))]);
		break;
	case TFS_SCHEMA_TABLE_MODE:
	case TFS_SCHEMA_TABLE_OWNER:
	case TFS_SCHEMA_TIME:
	case TFS_SCHEMA_HIDE:
	case TFS_SCHEMA_GROUP_ADD:
	case TFS_SCHEMA_GROUP_DROP:
		break;
	}
	if (e.op == TFS_SCHEMA_HIDE && (flags & STEP_SINGLE))
		e.op = TFS_SCHEMA_TABLE_MODE;
	if (e.op == TFS_SCHEMA_HIDE) {
		e.explicit_act = false;
		/* Hidden does not outlive the store's opening, so it is shown again at once. */
		e.flag = true;
		(void)change(s, t, &e, o);
		e.flag = false;
	}
	err = change(s, t, &e, o);
	say_schema(s, t, true, o);
	return err;
}

int step_rules(struct side *s, struct tfs_table *t, struct rng *r, unsigned flags, struct out *o)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_GC};
	char text[2000], *why = NULL;
	size_t n = 0;
	/* Some for salted tables; the last two are refused. */
	static const char *const splits[] = {
		"\"b\"",
		"\"row-2\", \"b%2Fc\", \"\\xff\"",
		"\"%00b\"",
		"\"%01\", \"%02\", \"%01\\\"m\\\\\"",
		"\"c%2f\"",
		"\"c\", \"c\"",
	};
	unsigned from = FAMILIES, to = FAMILIES;
	bool first = true;
	int err;

	if (one_in(r, 2) && (flags & STEP_AGES)) {
		e.name = family_names[below(r, FAMILIES)];
		e.value = pick_gc(r);
		if (one_in(r, 3)) {
			e.op = TFS_SCHEMA_FAMILY_TYPE;
			e.value = one_in(r, 2) ? "counter" : "bytes";
			if (one_in(r, 3))
				purge(s, t, e.name);
		}
		err = change(s, t, &e, o);
		say_schema(s, t, true, o);
		return err;
	}
	/* Now and then two families or groups change names, or one gets another's. */
	if (one_in(r, 3)) {
		from = renamed(r, flags);
		to = renamed(r, flags);
	}
	n += (size_t)snprintf(text, sizeof(text), "%sfamilies = (", flags & STEP_KEEPS ? KEEPS_CHANGES : "");
	for (unsigned i = 0; i < FAMILIES; i++) {
		char was[40] = "";
		const char *gc = pick_gc(r), *group = groups[below(r, one_in(r, 2) ? 2 : 3)];
		bool there = !one_in(r, 4), counter = i == FAMILIES - 1;

		if (!(flags & STEP_AGES))
			gc = i == 0 ? "maxversions=2" : ""; /* loosening shows what is not yet collected */
		if (!there)
			continue;
		if (i == to)
			snprintf(was, sizeof(was), " was = \"%s\";", family_names[from]);
		else if (i == from && one_in(r, 2))
			snprintf(was, sizeof(was), " was = \"%s\";", family_names[to]);
		n += (size_t)snprintf(text + n, sizeof(text) - n,
			"%s\n  { name = \"%s\";%s gc = \"%s\"; group = \"%s\"; type = \"%s\"; }", first ? "" : ",", family_names[i],
			was, strstr(gc, "rubbish") && !one_in(r, 4) ? "" : gc, group, counter ? "counter" : "bytes");
		first = false;
	}
	n += (size_t)snprintf(text + n, sizeof(text) - n,
		");\ngroups = ( { name = \"g1\";%s block_size = \"4K\"; compression = \"%s\"; }%s);\n",
		one_in(r, 8) ? " was = \"g2\";" : "", one_in(r, 2) ? "lz4" : "none",
		!one_in(r, 2)          ? ""
			: one_in(r, 4) ? ", { name = \"g2\"; was = \"g1\"; }"
				       : ", { name = \"g2\"; bloom_bits = 0; }");
	if (!one_in(r, 3))
		n += (size_t)snprintf(text + n, sizeof(text) - n, "allow_delete = true;\n");
	if ((flags & STEP_SALTED) && !one_in(r, 4))
		n += (size_t)snprintf(text + n, sizeof(text) - n, "salt = %s;\n", one_in(r, 4) ? one_in(r, 2) ? "16" : "1" : "3");
	if (one_in(r, 12))
		n += (size_t)snprintf(text + n, sizeof(text) - n, "protect = %s;\n", one_in(r, 2) ? "true" : "\"data\"");
	if (one_in(r, 24))
		n += (size_t)snprintf(text + n, sizeof(text) - n, "readonly = true;\n");
	if (one_in(r, 3))
		n += (size_t)snprintf(
			text + n, sizeof(text) - n, "splits = (%s);\n", splits[below(r, sizeof(splits) / sizeof(*splits))]);
	err = s->api->schema_set_text(t, tfs_bytes_of(text, n), one_in(r, 2) ? TFS_NO_TIME : CLOCK_BASE + 77, &why);
	free(why);
	say(o, "set schema: %s\n", strerror(-err));
	say_schema(s, t, true, o);
	return err;
}

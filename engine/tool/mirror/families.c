/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The families of a mirror's target: they are made, renamed and dropped as in the source, and have its rules and types.
 *
 * The state has the ids of the source's families with their names, so a family that was renamed is
 * known from a family that was dropped and another one that was made.  The steps, each of which may be repeated:
 *	1 families that the source has dropped lose their cells, and are dropped
 *	2 families with a new name are renamed, first to a name that no family has, because two may exchange their names
 *	3 families that the target lacks are made, and those whose access has changed in the source get the new one
 *	4 the state has the new list
 *	5 rules are set.  A rule decides which versions a delete leaves, and changes of the schema have no place
 *	  among the changes of cells.  So if a rule of a family that has cells changes, the state asks for another copy first
 *
 * Access is owner, group, mode and ACL.  The state has a hash of each family's access in the source.  So only a change in the source
 * replaces what the target's owner has set.  Only root sets owners and groups.
 */
#include "engine/tool/mirror/mirror.h"

#include "engine/cell/gc.h"

#include <errno.h>
#include <stdlib.h>

static const struct tfs_schema *schema_of(const struct place *p)
{
	const struct tfs_schema *s = NULL;

	return tfs_schema_get(p->table, &s) ? NULL : s;
}

uint64_t families_generation(struct mirror *m)
{
	const struct tfs_schema *s = schema_of(&m->from);
	const uint64_t generation = s ? s->generation : 0;

	tfs_schema_put(s);
	return generation;
}

int families_readable(struct mirror *m)
{
	const struct tfs_schema *s = schema_of(&m->from);
	int err = s ? 0 : -ENOENT;

	for (unsigned i = 0; s && i < s->family_count && !err; i++) {
		const struct tfs_scan_spec spec = {
			.what = TFS_SCAN_ROWS, .families = &s->families[i].name, .family_count = 1, .row_limit = 1, .limit = 1};
		struct tfs_scan *scan = NULL;
		struct tfs_cell cell;

		err = tfs_scan_new(m->from.table, &spec, &scan);
		if (!err)
			err = tfs_scan_next(scan, &cell);
		tfs_scan_free(scan);
		err = err > 0 ? 0 : err;
		if (err == -EACCES)
			complain("%s: the user may not read the family %s, and a mirror has all families", m->from.path,
				s->families[i].name);
		else if (err)
			(void)mirror_failed(&m->from, err, s->families[i].name);
	}
	if (!s)
		(void)mirror_failed(&m->from, err, NULL);
	tfs_schema_put(s);
	return err;
}

/* ---- changes of the target's schema ---- */

/* Makes the change, unless it is made already (but). */
static int change(struct mirror *m, const struct tfs_schema_edit *e, int but)
{
	char *why = NULL;
	int err = tfs_schema_change(m->to.table, e, &why);

	if (err == but)
		err = 0;
	if (err)
		complain("%s: family %s: %s%s", m->to.path, e->name, why ? why : strerror(-err),
			err == -EPERM && !why ? " (the table is protected, or is another user's)" : "");
	free(why);
	return err;
}

static int drop_family(struct mirror *m, const char *name)
{
	const struct tfs_schema *s = schema_of(&m->to);
	const bool exists = s && tfs_schema_family(s, name);
	int err = 0;

	tfs_schema_put(s);
	if (!exists)
		return 0;
	err = writer_clear(m, name);
	return err ? err : change(m, &(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_DROP, .name = name}, -ENOENT);
}

static const struct tfs_family *family_by_id(const struct tfs_schema *s, uint16_t id)
{
	for (unsigned i = 0; i < s->family_count; i++)
		if (s->families[i].id == id)
			return &s->families[i];
	return NULL;
}

static int drop_dropped(struct mirror *m, const struct tfs_schema *source)
{
	int err = 0;

	for (unsigned i = 0; i < m->s.family_count && !err;) {
		struct mirrored_family *f = &m->s.families[i];

		if (family_by_id(source, f->id)) {
			i++;
			continue;
		}
		err = drop_family(m, f->name);
		if (!err)
			*f = m->s.families[--m->s.family_count];
	}
	return err;
}

static int rename_family(struct mirror *m, const char *from, const char *to)
{
	return change(m, &(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_RENAME, .name = from, .value = to}, -ENOENT);
}

static int rename_families(struct mirror *m, const struct tfs_schema *source)
{
	int err = 0;

	for (unsigned round = 0; round < 2 && !err; round++) {
		for (unsigned i = 0; i < m->s.family_count && !err; i++) {
			struct mirrored_family *f = &m->s.families[i];
			const struct tfs_family *now = family_by_id(source, f->id);
			const char *aside = text("mirror.%u", (unsigned)f->id);

			if (now && strcmp(now->name, f->name) != 0)
				err = round ? rename_family(m, aside, now->name) : rename_family(m, f->name, aside);
		}
	}
	return err;
}

static int add_family(struct mirror *m, const struct tfs_family *f)
{
	struct tfs_schema_edit add = {.op = TFS_SCHEMA_FAMILY_ADD, .name = f->name, .mode = f->mode};
	const struct tfs_schema *s;
	struct tfs_login login;
	bool exists;
	int err;

	tfs_login(m->to.store, &login);
	add.uid = login.uid ? login.uid : f->uid;
	add.gid = login.uid ? login.gid : f->gid;
	err = change(m, &add, -EEXIST);
	if (!err && *f->acl)
		err = change(m,
			&(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ACL, .name = f->name, .value = f->acl, .mode = f->mode},
			0);
	s = schema_of(&m->to);
	exists = s && tfs_schema_group(s, f->group);
	tfs_schema_put(s);
	if (!err && exists)
		err = change(m, &(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_GROUP, .name = f->name, .value = f->group}, 0);
	return err;
}

/* ---- access ---- */

static uint64_t access_of(const struct tfs_family *f)
{
	uint8_t numbers[12];
	uint64_t hash;

	put_be32(numbers, f->mode);
	put_be32(numbers + 4, f->uid);
	put_be32(numbers + 8, f->gid);
	hash = hash64(tfs_str(f->acl), hash64(tfs_bytes_of(numbers, sizeof(numbers)), 0));

	return hash ? hash : 1;
}

/* Makes a change of the access of a family of the source in the target, too. */
static int follow_access(struct mirror *m, const struct tfs_family *f)
{
	const struct tfs_schema_edit acl = {.op = TFS_SCHEMA_FAMILY_ACL, .name = f->name, .value = f->acl, .mode = f->mode};
	const struct tfs_schema_edit owner = {.op = TFS_SCHEMA_FAMILY_OWNER, .name = f->name, .uid = f->uid, .gid = f->gid};
	uint64_t before = 0;
	struct tfs_login login;
	int err;

	for (unsigned i = 0; i < m->s.family_count; i++)
		if (m->s.families[i].id == f->id)
			before = m->s.families[i].access;
	if (!before || before == access_of(f))
		return 0;
	tfs_login(m->to.store, &login);
	err = change(m, &acl, 0);
	return err || login.uid ? err : change(m, &owner, 0);
}

/* Makes the families that the target lacks, and sets the state's list. */
static int add_families(struct mirror *m, const struct tfs_schema *source)
{
	int err = 0;

	for (unsigned i = 0; i < source->family_count && !err; i++) {
		const struct tfs_schema *target = schema_of(&m->to);

		if (!target)
			return mirror_failed(&m->to, -ENOENT, NULL);
		if (!tfs_schema_family(target, source->families[i].name))
			err = add_family(m, &source->families[i]);
		else
			err = follow_access(m, &source->families[i]);
		tfs_schema_put(target);
	}
	m->s.family_count = err ? m->s.family_count : 0;
	for (unsigned i = 0; i < source->family_count && !err; i++) {
		struct mirrored_family f = {.id = source->families[i].id, .access = access_of(&source->families[i])};

		snprintf(f.name, sizeof(f.name), "%s", source->families[i].name);
		tool_grow(m->s.families, m->s.family_count);
		m->s.families[m->s.family_count++] = f;
	}
	return err;
}

/* ---- a target that has no families of the source yet ---- */

/* Gives a new target the source's whole schema. */
static int copy_schema(struct mirror *m, const struct tfs_schema *source)
{
	const struct tfs_schema *target = schema_of(&m->to);
	char *why = NULL;
	int err = target ? 0 : -ENOENT;

	if (!err && !target->family_count && !target->is_set && source->text_size)
		err = tfs_schema_set_text(m->to.table, tfs_bytes_of(source->text, source->text_size), source->mtime_us, &why);
	if (err)
		complain("%s: the schema of %s: %s", m->to.path, m->from.path, why ? why : strerror(-err));
	free(why);
	tfs_schema_put(target);
	return err;
}

/* Drops the families of the target that the source does not have. */
static int drop_others(struct mirror *m, const struct tfs_schema *source)
{
	const struct tfs_schema *target = schema_of(&m->to);
	int err = target ? 0 : mirror_failed(&m->to, -ENOENT, NULL);

	for (unsigned i = 0; !err && i < target->family_count; i++)
		if (!tfs_schema_family(source, target->families[i].name))
			err = drop_family(m, target->families[i].name);
	tfs_schema_put(target);
	return err;
}

/* ---- rules ---- */

/* Sets *differs if the rule of a family is not the source's; or, if `set` is given, sets all rules and types. */
static int rules(struct mirror *m, const struct tfs_schema *source, bool set, bool *differs)
{
	const struct tfs_schema *target = schema_of(&m->to);
	int err = target ? 0 : mirror_failed(&m->to, -ENOENT, NULL);

	*differs = false;
	for (unsigned i = 0; i < source->family_count && !err; i++) {
		const struct tfs_family *f = &source->families[i], *of = tfs_schema_family(target, f->name);
		const bool gc = of && strcmp(of->gc, f->gc) != 0;

		*differs = *differs || gc;
		if (set && gc)
			err = change(m, &(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_GC, .name = f->name, .value = f->gc}, 0);
		if (!err && set && of && of->type != f->type)
			err = change(m,
				&(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_TYPE,
					.name = f->name,
					.value = f->type == TFS_TYPE_COUNTER ? "counter" : "bytes"},
				0);
	}
	tfs_schema_put(target);
	return err;
}

int families_follow(struct mirror *m)
{
	const struct tfs_schema *source = schema_of(&m->from);
	bool differs;
	int err = 0;

	if (!source)
		return mirror_failed(&m->from, -ENOENT, NULL);
	if (m->s.copying && !m->s.family_count && !(err = copy_schema(m, source)))
		err = drop_others(m, source);
	if (!err)
		err = drop_dropped(m, source);
	if (!err)
		err = rename_families(m, source);
	if (!err)
		err = add_families(m, source);
	if (!err)
		err = rules(m, source, false, &differs);
	if (!err && differs && !m->s.copying) {
		m->s.copying = true;
		*m->s.copied_family = 0;
		buf_reset(&m->s.copied_row);
	}
	if (!err)
		err = state_save(m);
	if (!err)
		err = rules(m, source, true, &differs);
	m->generation = err ? 0 : source->generation;
	tfs_schema_put(source);
	return err;
}

bool family_counts(struct mirror *m, const char *name)
{
	const struct tfs_schema *s = schema_of(&m->from);
	const struct tfs_family *f = s ? tfs_schema_family(s, name) : NULL;
	struct gc_rule *rule = NULL;
	bool counts = true; /* a rule that this program does not know may count */

	if (s && (!f || gc_parse(f->gc, &rule, NULL) == 0))
		counts = f && gc_has_versions(rule);
	gc_free(rule);
	tfs_schema_put(s);
	return counts;
}

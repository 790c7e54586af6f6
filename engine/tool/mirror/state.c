/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a mirror: one row of the table TARGET.mirror beside the target.
 *
 * The row changes in one step.  So the token, the place of the copy and the families that the target has always agree.
 * It is written when the changes before the token are on disk in the target.
 *
 * Only one process may write the target: one that is behind another would put old values over new ones, and
 * the token of the other would pass them.  So a process writes its own random number into the row when it begins,
 * and looks for it before each chunk and in each change of the row.
 *
 * The target's id and the id of its tablets are in the row.  If the target was made anew there is no mirror; if it was
 * truncated, the table is copied again.
 */
#include "engine/tool/mirror/mirror.h"

#include "engine/base/clock.h"
#include "engine/base/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define SUFFIX ".mirror"
#define ROW TFS_S("mirror")
#define FAMILY "state"

int mirror_failed(const struct place *p, int err, const char *what)
{
	complain("%s: %s%s%s", p->path, what ? what : "", what ? ": " : "", strerror(-err));
	return err;
}

static const char *notes_path(const struct mirror *m)
{
	return text("%s" SUFFIX, m->to.path);
}

static int notes_failed(const struct mirror *m, int err)
{
	complain("%s: %s", notes_path(m), strerror(-err));
	return err;
}

static int taken(const struct mirror *m)
{
	complain("%s: another tabletctl mirror writes this table now", m->to.path);
	return -ECANCELED;
}

/* ---- the table ---- */

static int make_notes(struct mirror *m, const char *name)
{
	struct tfs_schema_edit add = {.op = TFS_SCHEMA_FAMILY_ADD, .name = FAMILY, .mode = 0600, .explicit_act = true};
	const struct tfs_schema_edit rule = {.op = TFS_SCHEMA_FAMILY_GC, .name = FAMILY, .value = "maxversions=1"};
	struct tfs_login login;
	int err;

	tfs_login(m->to.store, &login);
	add.uid = login.uid;
	add.gid = login.gid;
	err = tfs_table_create(m->to.store, name, login.uid, login.gid, 0700);
	if (!err || err == -EEXIST)
		err = tfs_table_open(m->to.store, name, &m->notes);
	if (!err)
		err = tfs_schema_change(m->notes, &add, NULL);
	return err && err != -EEXIST ? err : tfs_schema_change(m->notes, &rule, NULL);
}

static int open_notes(struct mirror *m)
{
	const char *slash = strrchr(m->to.path, '/'), *name = text("%s" SUFFIX, slash ? slash + 1 : m->to.path);
	const struct tfs_schema *s;
	int err;

	if (!tfs_name_valid(name)) {
		complain("%s: the name is too long: the table %s beside it keeps the token", m->to.path, name);
		return -EINVAL;
	}
	err = tfs_table_open(m->to.store, name, &m->notes);
	if (!err && !(err = tfs_schema_get(m->notes, &s))) {
		err = tfs_schema_family(s, FAMILY) ? 0 : -ENOENT;
		tfs_schema_put(s);
		if (err)
			tfs_table_close(m->notes);
	}
	if (err == -ENOENT) {
		m->notes = NULL;
		err = make_notes(m, name);
	}
	return err ? notes_failed(m, err) : 0;
}

/* ---- identities ---- */

/* The id of a table among the tables of all stores. */
static int table_id(const struct place *p, char *out, size_t n)
{
	uint8_t key[TFS_KEY_BYTES];
	int err = tfs_key(p->store, "mirror", key);

	if (err)
		return mirror_failed(p, err, NULL);
	snprintf(out, n, "%016" PRIx64 "-%" PRIx32, load_be64(key), tfs_table_id(p->table));
	return 0;
}

static int target_id(struct mirror *m, char *out, size_t n)
{
	const struct tfs_schema *s;
	int err = tfs_schema_get(m->to.table, &s);

	if (err)
		return mirror_failed(&m->to, err, NULL);
	snprintf(out, n, "%" PRIx32 "-%" PRIx32, s->table_id, s->tablets_id);
	tfs_schema_put(s);
	return 0;
}

/* ---- loading ---- */

static void set_text(char *out, size_t size, struct tfs_bytes value)
{
	snprintf(out, size, "%.*s", (int)value.n, (const char *)value.p);
}

static void load_families(struct mirror_state *s, struct tfs_bytes lines)
{
	struct tfs_bytes line;

	while (bytes_line(&lines, &line)) {
		struct mirrored_family f = {0};
		const char *l = text("%.*s", (int)line.n, (const char *)line.p);

		if (sscanf(l, "%" SCNu16 " %64s %" SCNx64, &f.id, f.name, &f.access) < 2)
			continue;
		tool_grow(s->families, s->family_count);
		s->families[s->family_count++] = f;
	}
}

static void load_cell(struct mirror_state *s, const struct tfs_cell *c)
{
	const struct tfs_bytes q = c->qualifier, v = c->value;

	if (bytes_eq(q, TFS_S("source-id")))
		set_text(s->source, sizeof(s->source), v);
	else if (bytes_eq(q, TFS_S("target-id")))
		set_text(s->target, sizeof(s->target), v);
	else if (bytes_eq(q, TFS_S("owner")))
		set_text(s->owner, sizeof(s->owner), v);
	else if (bytes_eq(q, TFS_S("token")))
		set_text(s->token, sizeof(s->token), v);
	else if (bytes_eq(q, TFS_S("phase")))
		s->copying = bytes_eq(v, TFS_S("copy"));
	else if (bytes_eq(q, TFS_S("copied-family")))
		set_text(s->copied_family, sizeof(s->copied_family), v);
	else if (bytes_eq(q, TFS_S("copied-row")) && buf_set(&s->copied_row, v.p, v.n))
		no_memory();
	else if (bytes_eq(q, TFS_S("families")))
		load_families(s, v);
	else if (bytes_eq(q, TFS_S("until")) && !bytes_int64(v, &s->until_us))
		s->until_us = 0;
}

static int load(struct mirror *m)
{
	const struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .row_from = ROW, .one_row = true, .versions = 1};
	struct tfs_scan *scan = NULL;
	struct tfs_cell cell;
	int r = tfs_scan_new(m->notes, &spec, &scan);

	while (!r && (r = tfs_scan_next(scan, &cell)) > 0) {
		load_cell(&m->s, &cell);
		r = 0;
	}
	tfs_scan_free(scan);
	return r < 0 ? notes_failed(m, r) : 0;
}

int state_open(struct mirror *m, bool *known)
{
	char source[sizeof(m->s.source)], to[sizeof(m->s.source)], target[sizeof(m->s.target)];
	int err = table_id(&m->from, source, sizeof(source));

	if (!err)
		err = table_id(&m->to, to, sizeof(to));
	if (!err && strcmp(source, to) == 0) {
		complain("%s: this is the source itself", m->to.path);
		return -EINVAL;
	}
	if (!err)
		err = open_notes(m);
	if (!err)
		err = load(m);
	if (!err)
		err = target_id(m, target, sizeof(target));
	if (err)
		return err;
	*known = *m->s.token && strcspn(target, "-") == strcspn(m->s.target, "-") &&
		strncmp(target, m->s.target, strcspn(target, "-")) == 0;
	if (*known && strcmp(source, m->s.source) != 0 && !m->restart) {
		complain("%s: it is the mirror of another table; --restart makes it the mirror of %s", m->to.path, m->from.path);
		return -EINVAL;
	}
	if (*known && strcmp(target, m->s.target) != 0) { /* the target was truncated */
		m->s.copying = true;
		*m->s.copied_family = 0;
		buf_reset(&m->s.copied_row);
	}
	memcpy(m->s.source, source, sizeof(source));
	return 0;
}

int state_again(struct mirror *m)
{
	struct mirror_state old = m->s;
	int err;

	m->s = (struct mirror_state){.families = old.families, .copied_row = old.copied_row};
	buf_reset(&m->s.copied_row);
	err = load(m);
	if (!err && strcmp(m->s.owner, old.owner) == 0)
		return 0;
	if (!err)
		err = taken(m);
	old.families = m->s.families;
	old.copied_row = m->s.copied_row;
	m->s = old;
	return err;
}

/* ---- saving ---- */

static int save(struct mirror *m, bool check)
{
	struct tfs_mutation *mu = tfs_mutation_new(m->notes, ROW);
	struct mirror_state *s = &m->s;
	struct buf families = {0}, until = {0};
	int err = mu ? target_id(m, s->target, sizeof(s->target)) : -ENOMEM;

	for (unsigned i = 0; i < s->family_count && !err; i++)
		err = buf_printf(&families, "%" PRIu16 " %s %016" PRIx64 "\n", s->families[i].id, s->families[i].name,
			s->families[i].access);
	if (!err)
		err = buf_printf(&until, "%" PRId64, s->until_us);
	if (!err && check)
		err = tfs_mutation_check(mu, TFS_CHECK_VALUE, FAMILY, TFS_S("owner"), TFS_AUTO, tfs_str(s->owner));
	const struct {
		struct tfs_bytes qualifier, value;
	} cells[] = {{TFS_S("owner"), tfs_str(s->owner)}, {TFS_S("source"), tfs_str(m->from.path)},
		{TFS_S("source-id"), tfs_str(s->source)}, {TFS_S("target-id"), tfs_str(s->target)},
		{TFS_S("token"), tfs_str(s->token)}, {TFS_S("phase"), tfs_str(s->copying ? "copy" : "follow")},
		{TFS_S("copied-family"), tfs_str(s->copied_family)}, {TFS_S("copied-row"), buf_bytes(&s->copied_row)},
		{TFS_S("families"), buf_bytes(&families)}, {TFS_S("until"), buf_bytes(&until)}};
	for (unsigned i = 0; i < sizeof(cells) / sizeof(*cells) && !err; i++)
		err = tfs_mutation_put(mu, FAMILY, cells[i].qualifier, TFS_AUTO, cells[i].value);
	if (!err)
		err = tfs_apply(mu, TFS_APPLY_SYNC, NULL);
	tfs_mutation_free(mu);
	buf_fini(&families);
	buf_fini(&until);
	m->saved_us = (int64_t)monotonic_us();
	return err == -ECANCELED ? taken(m) : err ? notes_failed(m, err) : 0;
}

int state_take(struct mirror *m)
{
	uint64_t number;

	if (random_bytes(&number, sizeof(number)))
		number = monotonic_us();
	snprintf(m->s.owner, sizeof(m->s.owner), "%016" PRIx64, number);
	return save(m, false);
}

int state_save(struct mirror *m)
{
	return save(m, true);
}

int state_check(struct mirror *m)
{
	char owner[sizeof(m->s.owner)] = "";
	size_t got = 0;
	int err = tfs_read(m->notes, ROW, FAMILY, TFS_S("owner"), TFS_AUTO, 0, owner, sizeof(owner) - 1, &got, NULL);

	if (err && err != -ENOENT)
		return notes_failed(m, err);
	if (!err && strcmp(owner, m->s.owner) == 0)
		return 0;
	if (!err)
		return taken(m);
	complain("%s: the state of the mirror was removed", m->to.path);
	return -ECANCELED;
}

void state_close(struct mirror *m)
{
	if (m->notes)
		tfs_table_close(m->notes);
	m->notes = NULL;
	free(m->s.families);
	buf_fini(&m->s.copied_row);
}

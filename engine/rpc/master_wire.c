/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master service's requests and answers, packed and unpacked; the same
 * rules as tablet_wire.c.
 */
#include "engine/rpc/master.pb-c.h"
#include "engine/rpc/master_service.h"
#include "engine/rpc/wire.h"

#include <errno.h>
#include <stdlib.h>

#define WHY_MAX 65536

void ms_answer_fini(struct ms_answer *a)
{
	schema_put(a->schema);
	free(a->why);
	free(a->names);
	*a = (struct ms_answer){0};
}

static uint64_t put_string(struct tail *t, const char *s)
{
	return s ? tail_put(t, slice_str(s)) : 0;
}

/* ---- requests ---- */

static void edit_pack(const struct tfs_schema_edit *e, Tfs__SchemaEdit *m, struct tail *t)
{
	tfs__schema_edit__init(m);
	m->op = e->op;
	m->explicit_act = e->explicit_act;
	m->name_size = put_string(t, e->name);
	m->value_size = put_string(t, e->value);
	m->uid = e->uid;
	m->gid = e->gid;
	m->mode = e->mode;
	m->flag = e->flag;
	m->mtime_us = e->mtime_us;
}

static int edit_unpack(const Tfs__SchemaEdit *m, struct arena *arena, struct reader *tail, const struct tfs_schema_edit **out)
{
	struct tfs_schema_edit *e = arena_alloc(arena, sizeof *e);
	int rc;

	if (!e)
		return -ENOMEM;
	if (m->op > TFS_SCHEMA_GROUP_RENAME)
		return -EBADMSG;
	*e = (struct tfs_schema_edit){.op = (enum tfs_schema_op)m->op,
		.explicit_act = m->explicit_act,
		.uid = m->uid,
		.gid = m->gid,
		.mode = m->mode,
		.flag = m->flag,
		.mtime_us = m->mtime_us};
	rc = tail_get_string(tail, m->name_size, arena, &e->name);
	if (!rc)
		rc = tail_get_string(tail, m->value_size, arena, &e->value);
	*out = e;
	return rc;
}

int ms_request_pack(const struct ms_request *q, struct buf *out)
{
	Tfs__MsRequest m = TFS__MS_REQUEST__INIT;
	Tfs__SchemaEdit edit;
	struct tail tail = {0};

	m.method = q->method;
	m.name_size = put_string(&tail, q->name);
	m.to_size = put_string(&tail, q->to);
	m.table = q->table;
	m.noreplace = q->noreplace;
	m.uid = q->uid;
	m.gid = q->gid;
	m.mode = q->mode;
	m.count = q->count;
	m.text_size = tail_put(&tail, q->text);
	m.mtime_us = q->mtime_us;
	m.n_groups = q->groups.n / sizeof(gid_t);
	m.groups = (uint32_t *)(uintptr_t)q->groups.p; /* gid_t is 32 bits */
	if (q->edit) {
		edit_pack(q->edit, &edit, &tail);
		m.edit = &edit;
	}
	return wire_close(&tail, &m.base, out);
}

int ms_request_unpack(struct slice in, struct arena *arena, struct ms_request *q)
{
	struct ms_request x = {0};
	ProtobufCMessage *base;
	const Tfs__MsRequest *m;
	struct reader tail;
	int rc = wire_open(in, &tfs__ms_request__descriptor, arena, &base, &tail);

	if (rc)
		return rc;
	m = (const Tfs__MsRequest *)base;
	if (m->method == 0 || m->method >= MS_METHODS)
		return -EBADMSG;
	x.method = (enum ms_method)m->method;
	x.table = m->table;
	x.noreplace = m->noreplace;
	x.uid = m->uid;
	x.gid = m->gid;
	x.mode = m->mode;
	x.count = m->count;
	x.mtime_us = m->mtime_us;
	if (m->n_groups && !arena_dup(arena, slice_of(m->groups, m->n_groups * sizeof(gid_t)), &x.groups))
		return -ENOMEM;
	rc = tail_get_string(&tail, m->name_size, arena, &x.name);
	if (!rc)
		rc = tail_get_string(&tail, m->to_size, arena, &x.to);
	if (!rc && !tail_get(&tail, m->text_size, &x.text))
		rc = -EBADMSG;
	/* the text is borrowed no longer than the arena lives */
	if (!rc && x.text.n && !arena_dup(arena, x.text, &x.text))
		rc = -ENOMEM;
	if (!rc && m->edit)
		rc = edit_unpack(m->edit, arena, &tail, &x.edit);
	if (!rc && !tail_done(&tail))
		rc = -EBADMSG;
	if (!rc)
		*q = x;
	return rc;
}

/* ---- answers ---- */

int ms_answer_pack(const struct ms_request *q, const struct ms_answer *a, struct buf *out)
{
	Tfs__MsAnswer m = TFS__MS_ANSWER__INIT;
	struct tail tail = {0};
	struct buf schema = {0};
	int rc = 0;

	(void)q;
	m.err = a->err;
	if (a->schema) {
		rc = schema_encode(a->schema, &schema);
		m.schema_size = tail_put(&tail, buf_slice(&schema));
	}
	m.why_size = put_string(&tail, a->why);
	if (a->name_count && !rc) {
		m.name_sizes = calloc(a->name_count, sizeof *m.name_sizes);
		rc = m.name_sizes ? 0 : -ENOMEM;
	}
	for (uint32_t i = 0; i < a->name_count && !rc; i++)
		m.name_sizes[m.n_name_sizes++] = put_string(&tail, a->names[i]);
	tail.no_memory |= rc != 0;
	rc = wire_close(&tail, &m.base, out);
	free(m.name_sizes);
	buf_fini(&schema);
	return rc;
}

static int names_unpack(const Tfs__MsAnswer *m, struct reader *tail, struct ms_answer *x)
{
	struct slice name;

	if (m->n_name_sizes == 0)
		return 0;
	x->names = calloc(m->n_name_sizes, sizeof *x->names);
	if (!x->names)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_name_sizes; i++) {
		if (!tail_get(tail, m->name_sizes[i], &name) || !schema_name_valid(name))
			return -EBADMSG;
		memcpy(x->names[i], name.p, name.n);
		x->name_count++;
	}
	return 0;
}

static int why_unpack(const Tfs__MsAnswer *m, struct reader *tail, struct ms_answer *x)
{
	struct slice why;

	if (!tail_get(tail, m->why_size, &why) || why.n > WHY_MAX || (why.n && memchr(why.p, 0, why.n)))
		return -EBADMSG;
	if (!why.p)
		return 0;
	x->why = malloc(why.n + 1);
	if (!x->why)
		return -ENOMEM;
	memcpy(x->why, why.p, why.n);
	x->why[why.n] = 0;
	return 0;
}

static int answer_unpack(const Tfs__MsAnswer *m, struct reader *tail, const struct ms_request *q, struct ms_answer *x)
{
	struct schema *s = NULL;
	struct slice schema;
	int rc;

	if (m->err > 0 || m->err < -4095 || m->n_name_sizes > q->count || !tail_get(tail, m->schema_size, &schema))
		return -EBADMSG;
	if (schema.p) {
		rc = schema_decode(schema, &s);
		if (rc)
			return rc == -EPROTO ? -EBADMSG : rc;
		x->schema = s;
	}
	x->err = m->err;
	rc = why_unpack(m, tail, x);
	if (!rc)
		rc = names_unpack(m, tail, x);
	return rc ? rc : tail_done(tail) ? 0 : -EBADMSG;
}

int ms_answer_unpack(struct slice in, const struct ms_request *q, struct ms_answer *a)
{
	struct arena arena = {0};
	struct ms_answer x = {0};
	ProtobufCMessage *base;
	struct reader tail;
	int rc = wire_open(in, &tfs__ms_answer__descriptor, &arena, &base, &tail);

	if (!rc)
		rc = answer_unpack((const Tfs__MsAnswer *)base, &tail, q, &x);
	if (rc)
		ms_answer_fini(&x);
	else
		*a = x;
	arena_fini(&arena);
	return rc;
}

/* ---- the round trip of debug builds ---- */

struct round_trip {
	struct master_service base;
	struct master_service *inner;
};

static int serve(struct master_service *inner, struct slice in, struct buf *out)
{
	struct arena arena = {0};
	struct ms_answer a = {0};
	struct ms_request q;
	unsigned tries = 0;
	int rc = ms_request_unpack(in, &arena, &q);

	if (!rc) {
		a.err = ms_call(inner, &q, &a);
		do
			rc = ms_answer_pack(&q, &a, out);
		while (wire_again(rc, &tries));
	}
	ms_answer_fini(&a);
	arena_fini(&arena);
	return rc;
}

static int round_trip_call(struct master_service *s, const struct ms_request *q, struct ms_answer *a)
{
	struct round_trip *r = (struct round_trip *)s;
	struct buf there = {0}, back = {0};
	unsigned tries = 0;
	int rc = ms_request_pack(q, &there);

	if (!rc)
		rc = serve(r->inner, buf_slice(&there), &back);
	if (!rc)
		do
			rc = ms_answer_unpack(buf_slice(&back), q, a);
		while (wire_again(rc, &tries));
	buf_fini(&there);
	buf_fini(&back);
	return rc ? rc : a->err;
}

struct master_service *ms_round_trip_new(struct master_service *inner)
{
	static const struct master_service_ops ops = {.call = round_trip_call};
	struct round_trip *r = calloc(1, sizeof *r);

	if (!r)
		return NULL;
	r->base.ops = &ops;
	r->inner = inner;
	return &r->base;
}

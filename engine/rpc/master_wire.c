/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master service's requests and answers as bytes.  The rules of tablet_wire.c
 * hold here, too.  An answer consists of two messages: the listed members of struct
 * ms_answer, and then struct payload.  The answer of an error has both.
 */
#include "engine/rpc/master_service.h"
#include "engine/rpc/user_wire.h"

#include <errno.h>
#include <stdlib.h>

#define WHY_MAX 65536

void ms_answer_fini(struct ms_answer *a)
{
	schema_put(a->schema);
	free(a->why);
	*a = (struct ms_answer){0};
}

/* ---- requests ---- */

#define SCHEMA_EDIT(F)                                                                                                             \
	F(VALUE, 1, enum tfs_schema_op, op)                                                                                        \
	F(VALUE, 2, bool, explicit_act)                                                                                            \
	F(VALUE, 3, const char *, name)                                                                                            \
	F(VALUE, 4, const char *, value)                                                                                           \
	F(VALUE, 11, struct tfs_bytes, text)                                                                                       \
	F(VALUE, 5, uid_t, uid)                                                                                                    \
	F(VALUE, 6, gid_t, gid)                                                                                                    \
	F(VALUE, 7, mode_t, mode)                                                                                                  \
	F(VALUE, 8, bool, flag)                                                                                                    \
	F(VALUE, 10, bool, while_open)                                                                                             \
	F(VALUE, 9, int64_t, mtime_us)
WIRE_COMPLETE(tfs_schema_edit, SCHEMA_EDIT)

static bool edit_valid(const void *m)
{
	return ((const struct tfs_schema_edit *)m)->op <= TFS_SCHEMA_TEXT_APPEND;
}

static bool request_valid(const void *m)
{
	const struct ms_request *q = m;

	return q->method > 0 && q->method < MS_METHODS;
}

WIRE_MESSAGE(tfs_schema_edit, SCHEMA_EDIT, edit_valid)
WIRE_MESSAGE(ms_request, MS_REQUEST, request_valid)

int ms_request_pack(const struct ms_request *q, struct buf *out)
{
	return wire_pack_request(ms_request_wire(), q, out);
}

int ms_request_unpack(struct tfs_bytes in, struct arena *arena, struct ms_request *q)
{
	struct ms_request x = {0};
	int err = wire_unpack_request(in, ms_request_wire(), arena, &x);

	if (!err)
		*q = x;
	return err;
}

/* ---- answers ---- */

#define PAYLOAD(F)                                                                                                                 \
	F(VALUE, 1, struct tfs_bytes, schema) /* by schema_encode, as in the lock service's files */                               \
	F(VALUE, 2, const char *, why)
struct payload {
	PAYLOAD(WIRE_MEMBER)
};

static bool answer_valid(const void *m)
{
	return wire_errno_valid(((const struct ms_answer *)m)->err);
}

WIRE_MESSAGE(ms_answer, MS_ANSWER, answer_valid)
WIRE_MESSAGE(payload, PAYLOAD, NULL)

int ms_answer_pack(const struct ms_request *q, const struct ms_answer *a, struct buf *out)
{
	struct payload p = {.why = a->why};
	struct buf schema = {0};
	const size_t from = out->n;
	int err = a->schema ? schema_encode(a->schema, &schema) : 0;

	p.schema = buf_bytes(&schema);
	if (!err)
		err = wire_pack(ms_answer_wire(), a, out);
	if (!err)
		err = wire_pack(payload_wire(), &p, out);
	if (err)
		out->n = from;
	buf_fini(&schema);
	return err;
}

static int payload_unpack(const struct payload *p, struct ms_answer *a)
{
	struct schema *s = NULL;
	int err;

	if (p->why && strlen(p->why) > WHY_MAX)
		return -EBADMSG;
	if (p->schema.p) {
		err = schema_decode(p->schema, &s);
		if (err)
			return err == -EPROTO ? -EBADMSG : err;
		a->schema = s;
	}
	a->why = p->why ? strdup(p->why) : NULL;
	return p->why && !a->why ? -ENOMEM : 0;
}

int ms_answer_unpack(struct tfs_bytes in, const struct ms_request *q, struct ms_answer *a)
{
	struct reader r = reader_of(in);
	struct arena arena = {0};
	struct ms_answer x = {0};
	struct payload p = {0};
	int err = wire_unpack(&r, ms_answer_wire(), &arena, &x);

	if (!err)
		err = wire_unpack(&r, payload_wire(), &arena, &p);
	if (!err && reader_left(&r))
		err = -EBADMSG;
	if (!err)
		err = payload_unpack(&p, &x);
	if (err)
		ms_answer_fini(&x);
	else
		*a = x;
	arena_fini(&arena);
	return err;
}

/* ---- channels ---- */

int ms_serve(struct master_service *inner, struct tfs_bytes in, struct buf *out)
{
	struct arena arena = {0};
	struct ms_answer a = {0};
	struct ms_request q;
	unsigned tries = 0;
	int err = ms_request_unpack(in, &arena, &q);

	if (err) {
		ts_refused_bytes(inner->refused, err);
	} else {
		a.err = ms_call(inner, &q, &a);
		do
			err = ms_answer_pack(&q, &a, out);
		while (wire_again(err, &tries));
	}
	ms_answer_fini(&a);
	arena_fini(&arena);
	return err;
}

WIRE_ROUND_TRIP(ms, master_service)

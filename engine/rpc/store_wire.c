/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of the store service as bytes. */
#include "engine/rpc/store_service.h"

#include <errno.h>

static bool request_valid(const void *m)
{
	const struct ss_request *q = m;

	return q->method > 0 && q->method < SS_METHODS;
}

static bool answer_valid(const void *m)
{
	const struct ss_answer *a = m;

	for (uint32_t i = 0; i < a->name_count; i++)
		if (!a->names[i].name)
			return false;
	for (uint32_t i = 0; i < a->server_count; i++)
		if (!a->servers[i].name || !a->servers[i].state)
			return false;
	return wire_errno_valid(a->err) && (a->probe_err == 1 || wire_errno_valid(a->probe_err)) &&
		a->tablet_count <= SS_LOCATIONS_MAX;
}

WIRE_MESSAGE(ss_name, SS_NAME, NULL)
WIRE_MESSAGE(ss_location, SS_LOCATION, NULL)
WIRE_MESSAGE(ss_server, SS_SERVER, NULL)
WIRE_MESSAGE(ss_step, SS_STEP, NULL)
WIRE_MESSAGE(ss_request, SS_REQUEST, request_valid)
WIRE_MESSAGE(ss_answer, SS_ANSWER, answer_valid)

void ss_answer_fini(struct ss_answer *a)
{
	arena_fini(&a->arena);
	buf_fini(&a->in);
	*a = (struct ss_answer){0};
}

int ss_request_pack(const struct ss_request *q, struct buf *out)
{
	return wire_pack_request(ss_request_wire(), q, out);
}

int ss_request_unpack(struct tfs_bytes in, struct arena *arena, struct ss_request *q)
{
	*q = (struct ss_request){0};
	return wire_unpack_request(in, ss_request_wire(), arena, q);
}

int ss_answer_pack(const struct ss_answer *a, struct buf *out)
{
	return wire_pack(ss_answer_wire(), a, out);
}

int ss_answer_unpack(struct buf *in, struct ss_answer *a)
{
	struct reader r;
	int err;

	*a = (struct ss_answer){.in = *in};
	*in = (struct buf){0};
	r = reader_of(buf_bytes(&a->in));
	err = wire_unpack(&r, ss_answer_wire(), &a->arena, a);
	if (!err && reader_left(&r))
		err = -EBADMSG;
	if (err)
		ss_answer_fini(a);
	return err;
}

int ss_serve(struct store_service *s, const struct ss_peer *peer, struct tfs_bytes request, struct buf *answer)
{
	struct arena arena = {0};
	struct ss_answer a = {0};
	struct ss_request q;
	unsigned tries = 0;
	int err = ss_request_unpack(request, &arena, &q);

	if (!err) {
		a.err = ss_call(s, peer, &q, &a);
		do
			err = ss_answer_pack(&a, answer);
		while (wire_again(err, &tries));
	}
	ss_answer_fini(&a);
	arena_fini(&arena);
	return err;
}

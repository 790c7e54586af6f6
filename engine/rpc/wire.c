/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes.  The message part is protobuf-c's; it allocates from an arena,
 * so decoding a batch of cells is no flood of mallocs and nothing has to be
 * walked to free it.  protobuf-c cannot borrow byte strings from its input,
 * which is why they travel in a tail of our own.
 */
#include "engine/rpc/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* A "none" that is still a pointer: {non-NULL, 0}. */
static const uint8_t empty[1];

uint64_t tail_put(struct tail *t, struct slice s)
{
	if (!s.p)
		return 0;
	if (s.n && t->count == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : 16;
		struct slice *more = realloc(t->v, cap * sizeof *more);

		if (!more) {
			t->no_memory = true;
			return 1;
		}
		t->v = more;
		t->cap = cap;
	}
	if (s.n)
		t->v[t->count++] = s;
	return (uint64_t)s.n + 1;
}

int wire_close(struct tail *t, const ProtobufCMessage *m, struct buf *out)
{
	/* What had no memory may be half filled in. */
	int rc = t->no_memory ? -ENOMEM : 0;
	size_t from = out->n, n = rc ? 0 : protobuf_c_message_get_packed_size(m), total = n + 16;

	for (size_t i = 0; i < t->count; i++)
		total += t->v[i].n;
	if (!rc)
		rc = buf_reserve(out, total);
	if (!rc)
		rc = buf_varint(out, n);
	if (!rc) {
		out->n += protobuf_c_message_pack(m, out->p + out->n); /* reserved above */
		for (size_t i = 0; i < t->count && !rc; i++)
			rc = buf_append_slice(out, t->v[i]);
	}
	if (rc)
		out->n = from;
	free(t->v);
	*t = (struct tail){0};
	return rc;
}

struct arena_source {
	struct arena *arena;
	bool no_memory;
};

static void *from_arena(void *arg, size_t n)
{
	struct arena_source *a = arg;
	void *p = arena_alloc(a->arena, n ? n : 1);

	a->no_memory |= !p;
	return p;
}

static void to_arena(void *arg, void *p)
{
	(void)arg, (void)p;
}

static bool has_unknown(const ProtobufCMessage *m);

static bool field_has_unknown(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
	const uint8_t *at = (const uint8_t *)m + f->offset;
	const ProtobufCMessage *one, *const *many;
	size_t n;

	if (f->type != PROTOBUF_C_TYPE_MESSAGE)
		return false;
	if (f->label != PROTOBUF_C_LABEL_REPEATED) {
		memcpy(&one, at, sizeof one);
		return one && has_unknown(one);
	}
	memcpy(&many, at, sizeof many);
	memcpy(&n, (const uint8_t *)m + f->quantifier_offset, sizeof n);
	for (size_t i = 0; i < n; i++)
		if (has_unknown(many[i]))
			return true;
	return false;
}

static bool has_unknown(const ProtobufCMessage *m)
{
	if (m->n_unknown_fields)
		return true;
	for (unsigned i = 0; i < m->descriptor->n_fields; i++)
		if (field_has_unknown(m, &m->descriptor->fields[i]))
			return true;
	return false;
}

int wire_open(struct slice in, const ProtobufCMessageDescriptor *d, struct arena *arena, ProtobufCMessage **m, struct reader *tail)
{
	struct arena_source source = {.arena = arena};
	ProtobufCAllocator allocator = {.alloc = from_arena, .free = to_arena, .allocator_data = &source};
	struct reader r = reader_of(in);
	struct slice message;
	ProtobufCMessage *got;

	if (!get_lstr(&r, &message))
		return -EBADMSG;
	got = protobuf_c_message_unpack(d, &allocator, message.n, message.p);
	if (!got)
		return source.no_memory ? -ENOMEM : -EBADMSG;
	if (has_unknown(got))
		return -EBADMSG;
	*m = got;
	*tail = r;
	return 0;
}

bool tail_get(struct reader *tail, uint64_t size, struct slice *v)
{
	*v = (struct slice){0};
	if (size == 0)
		return true;
	if (size == 1) {
		*v = slice_of(empty, 0);
		return true;
	}
	if (size - 1 > reader_left(tail)) {
		tail->bad = true;
		return false;
	}
	return get_bytes(tail, (size_t)(size - 1), v);
}

int tail_get_string(struct reader *tail, uint64_t size, struct arena *arena, const char **s)
{
	struct slice v;
	char *copy;

	*s = NULL;
	if (!tail_get(tail, size, &v) || (v.n && memchr(v.p, 0, v.n))) {
		tail->bad = true;
		return -EBADMSG;
	}
	if (!v.p)
		return 0;
	copy = arena_alloc(arena, v.n + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, v.p, v.n);
	copy[v.n] = 0;
	*s = copy;
	return 0;
}

bool wire_again(int rc, unsigned *tries)
{
	if (rc != -ENOMEM || ++*tries > 100)
		return false;
	(void)usleep(1000);
	return true;
}

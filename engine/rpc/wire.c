/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec of all messages: it walks the table of a struct's fields.  Each
 * function that encodes takes `out` NULL to return the size only, so the size
 * of a message and its bytes come from the same code.
 */
#include "engine/rpc/wire.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

/* ---- integers ---- */

/* The value of an integer as it stands on the wire. */
static uint64_t number_get(const void *from, size_t size, enum wire_kind kind)
{
	const unsigned unused_bits = 64 - 8 * (unsigned)size;
	uint64_t v = 0;
	int64_t s;

	memcpy(&v, from, size);
	if (kind != WIRE_SIGNED)
		return v;
	s = (int64_t)(v << unused_bits) >> unused_bits;
	return (uint64_t)s << 1 ^ (uint64_t)(s >> 63);
}

/* Returns false if v does not fit the member. */
static bool number_set(void *to, size_t size, enum wire_kind kind, uint64_t v)
{
	const uint64_t plain = kind == WIRE_SIGNED ? v >> 1 ^ (0 - (v & 1)) : v;

	if (kind == WIRE_BOOL && v > 1)
		return false;
	memcpy(to, &plain, size);
	return number_get(to, size, kind) == v;
}

/* ---- encoding ---- */

static size_t message_put(uint8_t *out, const struct wire_message *m, const void *from);

static uint8_t *out_after(uint8_t *out, size_t n)
{
	return out ? out + n : NULL;
}

static bool is_number(const struct wire_field *f)
{
	return f->kind == WIRE_UNSIGNED || f->kind == WIRE_SIGNED || f->kind == WIRE_BOOL;
}

static uint64_t key_of(const struct wire_field *f)
{
	return (uint64_t)f->number << 3 | (is_number(f) ? 0 : 2);
}

static size_t varint_put(uint8_t *out, uint64_t v)
{
	size_t n = 0;

	do {
		if (out)
			out[n] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
		n++;
		v >>= 7;
	} while (v);
	return n;
}

static size_t bytes_put(uint8_t *out, const struct wire_field *f, const void *p, size_t size)
{
	size_t n;

	if (!p)
		return 0;
	n = varint_put(out, key_of(f));
	n += varint_put(out_after(out, n), size);
	if (out && size)
		memcpy(out + n, p, size);
	return n + size;
}

static size_t struct_put(uint8_t *out, const struct wire_field *f, const void *from)
{
	const struct wire_message *m = f->message();
	size_t size, n;

	if (!from)
		return 0;
	size = message_put(NULL, m, from);
	if (!size && f->kind == WIRE_STRUCT)
		return 0;
	n = varint_put(out, key_of(f));
	n += varint_put(out_after(out, n), size);
	return n + (out ? message_put(out + n, m, from) : size);
}

static size_t array_put(uint8_t *out, const struct wire_field *f, const uint8_t *array, uint32_t count)
{
	size_t n = 0;

	for (uint32_t i = 0; i < count; i++)
		n += struct_put(out_after(out, n), f, array + i * f->message()->size);
	return n;
}

static size_t numbers_put(uint8_t *out, const struct wire_field *f, const uint8_t *array, uint32_t count)
{
	size_t size = 0, n;

	if (!array)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		size += varint_put(NULL, number_get(array + i * f->size, f->size, f->element));
	n = varint_put(out, key_of(f));
	n += varint_put(out_after(out, n), size);
	if (!out)
		return n + size;
	for (uint32_t i = 0; i < count; i++)
		n += varint_put(out + n, number_get(array + i * f->size, f->size, f->element));
	return n;
}

static const void *pointer_at(const uint8_t *at)
{
	const void *p;

	memcpy(&p, at, sizeof p);
	return p;
}

static uint32_t count_at(const uint8_t *at)
{
	uint32_t count;

	memcpy(&count, at, sizeof count);
	return count;
}

static size_t field_put(uint8_t *out, const struct wire_field *f, const uint8_t *from)
{
	const uint8_t *at = from + f->offset;
	const char *string;
	struct tfs_bytes s;
	uint64_t v;
	size_t n;

	switch (f->kind) {
	case WIRE_BYTES:
		memcpy(&s, at, sizeof s);
		return bytes_put(out, f, s.p, s.n);
	case WIRE_STRING:
		string = pointer_at(at);
		return bytes_put(out, f, string, string ? strlen(string) : 0);
	case WIRE_STRUCT:
		return struct_put(out, f, at);
	case WIRE_POINTER:
		return struct_put(out, f, pointer_at(at));
	case WIRE_ARRAY:
		return array_put(out, f, pointer_at(at), count_at(from + f->count_offset));
	case WIRE_NUMBERS:
		return numbers_put(out, f, pointer_at(at), count_at(from + f->count_offset));
	case WIRE_UNSIGNED:
	case WIRE_SIGNED:
	case WIRE_BOOL:
		break;
	}
	v = number_get(at, f->size, f->kind);
	if (!v)
		return 0;
	n = varint_put(out, key_of(f));
	return n + varint_put(out_after(out, n), v);
}

static size_t message_put(uint8_t *out, const struct wire_message *m, const void *from)
{
	size_t n = 0;

	for (size_t i = 0; i < m->count; i++)
		n += field_put(out_after(out, n), &m->fields[i], from);
	return n;
}

int wire_pack(const struct wire_message *m, const void *from, struct buf *out)
{
	const size_t size = message_put(NULL, m, from), length = varint_put(NULL, size);
	int err = buf_reserve(out, length + size);

	if (err)
		return err;
	(void)varint_put(out->p + out->n, size);
	(void)message_put(out->p + out->n + length, m, from);
	out->n += length + size;
	return 0;
}

/* ---- decoding ---- */

static int message_get(struct tfs_bytes in, const struct wire_message *m, struct arena *arena, uint8_t *to);

void *wire_zalloc(struct arena *arena, size_t n)
{
	void *p = arena_alloc(arena, n ? n : 1);

	if (p)
		memset(p, 0, n);
	return p;
}

static int string_get(struct tfs_bytes s, struct arena *arena, uint8_t *at)
{
	char *copy;

	if (s.n && memchr(s.p, 0, s.n))
		return -EBADMSG;
	copy = wire_zalloc(arena, s.n + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, s.p, s.n);
	memcpy(at, &copy, sizeof copy);
	return 0;
}

/* Returns how many more fields with this key follow. */
static uint32_t count_key(struct reader r, uint64_t key)
{
	uint32_t n = 0;
	uint64_t k, v;
	struct tfs_bytes s;

	while (get_varint(&r, &k) && ((k & 7) == 0 ? get_varint(&r, &v) : get_lstr(&r, &s)))
		n += k == key;
	return n;
}

/* Decodes one element.  The first one allocates the array. */
static int array_get(
	struct tfs_bytes s, const struct wire_field *f, const struct reader *rest, bool first, struct arena *arena, uint8_t *to)
{
	const struct wire_message *m = f->message();
	uint32_t count = 0;
	uint8_t *array;
	int err;

	if (first) {
		array = wire_zalloc(arena, (1 + (size_t)count_key(*rest, key_of(f))) * m->size);
		if (!array)
			return -ENOMEM;
		memcpy(to + f->offset, &array, sizeof array);
	} else {
		memcpy(&array, to + f->offset, sizeof array);
		memcpy(&count, to + f->count_offset, sizeof count);
	}
	err = message_get(s, m, arena, array + count * m->size);
	count++;
	memcpy(to + f->count_offset, &count, sizeof count);
	return err;
}

static int pointer_get(struct tfs_bytes s, const struct wire_field *f, struct arena *arena, uint8_t *at)
{
	uint8_t *p = wire_zalloc(arena, f->message()->size);

	if (!p)
		return -ENOMEM;
	memcpy(at, &p, sizeof p);
	return message_get(s, f->message(), arena, p);
}

static int numbers_get(struct tfs_bytes s, const struct wire_field *f, struct arena *arena, uint8_t *to)
{
	struct reader r = reader_of(s);
	uint32_t count = 0;
	uint8_t *array;
	uint64_t v;

	for (size_t i = 0; i < s.n; i++)
		count += s.p[i] < 0x80;
	array = wire_zalloc(arena, (size_t)count * f->size);
	if (!array)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		if (!get_varint(&r, &v) || !number_set(array + i * f->size, f->size, f->element, v))
			return -EBADMSG;
	memcpy(to + f->offset, &array, sizeof array);
	memcpy(to + f->count_offset, &count, sizeof count);
	return reader_left(&r) ? -EBADMSG : 0;
}

static int field_get(struct reader *r, const struct wire_field *f, bool first, struct arena *arena, uint8_t *to)
{
	uint8_t *at = to + f->offset;
	struct tfs_bytes s;
	uint64_t v;

	if (is_number(f))
		return get_varint(r, &v) && number_set(at, f->size, f->kind, v) ? 0 : -EBADMSG;
	if (!get_lstr(r, &s))
		return -EBADMSG;
	switch (f->kind) {
	case WIRE_BYTES:
		memcpy(at, &s, sizeof s);
		return 0;
	case WIRE_STRING:
		return string_get(s, arena, at);
	case WIRE_STRUCT:
		return message_get(s, f->message(), arena, at);
	case WIRE_POINTER:
		return pointer_get(s, f, arena, at);
	case WIRE_ARRAY:
		return array_get(s, f, r, first, arena, to);
	case WIRE_NUMBERS:
		return numbers_get(s, f, arena, to);
	case WIRE_UNSIGNED:
	case WIRE_SIGNED:
	case WIRE_BOOL:
		break;
	}
	return -EBADMSG;
}

/* Sets a member as an absent field leaves it. */
static void field_clear(const struct wire_field *f, uint8_t *to)
{
	static const uint32_t none;

	if (f->kind == WIRE_STRUCT) {
		const struct wire_message *m = f->message();

		for (size_t i = 0; i < m->count; i++)
			field_clear(&m->fields[i], to + f->offset);
		return;
	}
	memset(to + f->offset, 0, is_number(f) ? f->size : f->kind == WIRE_BYTES ? sizeof(struct tfs_bytes) : sizeof(void *));
	if (f->kind == WIRE_ARRAY || f->kind == WIRE_NUMBERS)
		memcpy(to + f->count_offset, &none, sizeof none);
}

static const struct wire_field *field_by_key(const struct wire_message *m, uint64_t key)
{
	for (size_t i = 0; i < m->count; i++)
		if (key_of(&m->fields[i]) == key)
			return &m->fields[i];
	return NULL;
}

static int message_get(struct tfs_bytes in, const struct wire_message *m, struct arena *arena, uint8_t *to)
{
	struct reader r = reader_of(in);
	const struct wire_field *f;
	uint64_t seen = 0, key, bit;
	int err;

	while (reader_left(&r)) {
		f = get_varint(&r, &key) ? field_by_key(m, key) : NULL;
		bit = f ? UINT64_C(1) << f->number : 0;
		if (!f || ((seen & bit) && f->kind != WIRE_ARRAY))
			return -EBADMSG;
		err = field_get(&r, f, !(seen & bit), arena, to);
		if (err)
			return err;
		seen |= bit;
	}
	return !m->valid || m->valid(to) ? 0 : -EBADMSG;
}

int wire_unpack(struct reader *r, const struct wire_message *m, struct arena *arena, void *to)
{
	struct tfs_bytes in;

	if (!get_lstr(r, &in) || in.n > UINT32_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < m->count; i++)
		field_clear(&m->fields[i], to);
	return message_get(in, m, arena, to);
}

int wire_pack_request(const struct wire_message *m, const void *from, struct buf *out)
{
	const size_t n = out->n;
	int err = buf_varint(out, RPC_VERSION);

	if (!err)
		err = wire_pack(m, from, out);
	if (err)
		out->n = n;
	return err;
}

int wire_unpack_request(struct tfs_bytes in, const struct wire_message *m, struct arena *arena, void *to)
{
	struct reader r = reader_of(in);
	uint64_t version;
	int err;

	if (!get_varint(&r, &version))
		return -EBADMSG;
	if (version != RPC_VERSION)
		return -EPROTO;
	err = wire_unpack(&r, m, arena, to);
	return err || !reader_left(&r) ? err : -EBADMSG;
}

/* ---- copies ---- */

static size_t aligned(size_t n)
{
	return (n + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
}

static const uint8_t *array_of(const struct wire_field *f, const uint8_t *at, uint32_t *count)
{
	const uint8_t *array;

	memcpy(&array, at + f->offset, sizeof array);
	memcpy(count, at + f->count_offset, sizeof *count);
	return array;
}

size_t wire_copy_bytes(const struct wire_message *m, const void *from)
{
	const struct wire_field *f = m->fields, *const end = m->flat ? f : f + m->count;
	const uint8_t *array, *at = from;
	struct tfs_bytes s;
	uint32_t count;
	size_t n = 0;

	for (; f < end; f++) {
		if (f->kind < WIRE_BYTES) {
			continue;
		} else if (f->kind == WIRE_BYTES) {
			memcpy(&s, at + f->offset, sizeof s);
			n += aligned(s.n);
		} else if (f->kind == WIRE_STRUCT) {
			n += wire_copy_bytes(f->message(), at + f->offset);
		} else {
			assert(f->kind == WIRE_ARRAY);
			array = array_of(f, at, &count);
			n += aligned(count * f->message()->size);
			for (uint32_t i = 0; i < count; i++)
				n += wire_copy_bytes(f->message(), array + i * f->message()->size);
		}
	}
	return n;
}

/* Copies n bytes, unless the pointer at `member` is NULL, and makes it point to the copy. */
static uint8_t *copy_to(uint8_t *member, const uint8_t *p, size_t n, uint8_t **memory)
{
	uint8_t *to = *memory;

	if (!p)
		return NULL;
	if (n)
		memcpy(to, p, n);
	memcpy(member, &to, sizeof to);
	*memory = to + aligned(n);
	return to;
}

void wire_copy(const struct wire_message *m, void *to, uint8_t **memory)
{
	const struct wire_field *f = m->fields, *const end = m->flat ? f : f + m->count;
	uint8_t *at = to, *array;
	const uint8_t *from;
	struct tfs_bytes s;
	uint32_t count;

	for (; f < end; f++) {
		if (f->kind < WIRE_BYTES) {
			continue;
		} else if (f->kind == WIRE_BYTES) {
			memcpy(&s, at + f->offset, sizeof s);
			(void)copy_to(at + f->offset + offsetof(struct tfs_bytes, p), s.p, s.n, memory);
		} else if (f->kind == WIRE_STRUCT) {
			wire_copy(f->message(), at + f->offset, memory);
		} else if (f->kind == WIRE_ARRAY) {
			from = array_of(f, at, &count);
			array = copy_to(at + f->offset, from, count * f->message()->size, memory);
			for (uint32_t i = 0; i < count; i++)
				wire_copy(f->message(), array + i * f->message()->size, memory);
		}
	}
}

bool wire_again(int err, unsigned *tries)
{
	if (err != -ENOMEM || ++*tries > 100)
		return false;
	(void)usleep(1000);
	return true;
}

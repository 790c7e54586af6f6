/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages as bytes.  A message is a C struct, and a list describes its
 * fields once:
 *
 *	#define ROW_MUTATION(F)                        \
 *		F(VALUE, 1, struct tfs_bytes, row)     \
 *		F(ARRAY, 2, op, ops, op_count)
 *
 *	struct row_mutation {ROW_MUTATION(WIRE_MEMBER)};  declares the members
 *	WIRE_MESSAGE(row_mutation, ROW_MUTATION, NULL)    defines row_mutation_wire(), the table for the codec
 *
 * To add a field, add its line to the list.  A number on the wire belongs to
 * one field of its list for ever.  The kinds of fields:
 *
 *	F(VALUE,   n, type, member, ...)    an integer, a bool, an enum, a struct tfs_bytes, a const char *.
 *	                                    Further arguments are for others (engine/base/scan.h)
 *	F(STRUCT,  n, tag, member)          struct tag member
 *	F(POINTER, n, tag, member)          const struct tag *member
 *	F(ARRAY,   n, tag, member, count)   const struct tag *member; uint32_t count
 *	F(NUMBERS, n, type, member, count)  const type *member; uint32_t count
 *
 * A struct that another header defines needs WIRE_MESSAGE only, and
 * WIRE_COMPLETE, which does not compile if the list and the struct differ in
 * a member.  (It does not notice a small member in the struct's padding.)
 *
 * The format is protobuf's: a key (number << 3 | 0 for a varint, 2 for
 * a length and bytes), then the value.  Signed integers are zigzag varints,
 * NUMBERS are packed.  A field is absent if it is zero, false or NULL; NULL
 * and the empty string remain different.  In front of a message stands its
 * length, a varint.  In front of a request stands RPC_VERSION, a varint.
 *
 * Decoding accepts any input.  Unknown keys, keys that come twice (except keys of arrays), varints that are longer than necessary and integers that
 * do not fit their member are -EBADMSG.  Byte strings are borrowed from the
 * input; everything else is allocated in the arena.  A message of n bytes takes at most about 100 *
 * n bytes of the arena.
 *
 * protobuf-c is not used because it decodes into structs of its own, which
 * would have to be copied to and from ours member by member, and cannot
 * borrow byte strings from its input.
 */
#ifndef TFS_RPC_WIRE_H
#define TFS_RPC_WIRE_H

#include "engine/base/bytes.h"

enum wire_kind {
	WIRE_UNSIGNED,
	WIRE_SIGNED,
	WIRE_BOOL,
	WIRE_BYTES, /* this kind and the next ones contain pointers */
	WIRE_STRING,
	WIRE_STRUCT,
	WIRE_POINTER,
	WIRE_ARRAY,
	WIRE_NUMBERS
};
struct wire_message;
struct wire_field {
	uint8_t number; /* 1 .. 63 */
	enum wire_kind kind;
	enum wire_kind element;                      /* for NUMBERS: UNSIGNED or SIGNED */
	uint16_t offset, count_offset;               /* the offsets of the member and of its count in the struct */
	uint16_t size;                               /* the size of an integer or a bool */
	const struct wire_message *(*message)(void); /* for STRUCT, POINTER and ARRAY */
};
struct wire_message {
	const struct wire_field *fields;
	size_t count, size; /* the size of the struct */
	/* Returns false if a decoded struct holds an enum or a count out of range; NULL: there is nothing to check. */
	bool (*valid)(const void *m);
	bool flat; /* all fields are numbers */
};

/* Appends the message and its length.  -ENOMEM leaves out unchanged. */
int wire_pack(const struct wire_message *m, const void *from, struct buf *out) TFS_MUST;
/*
 * Decodes one message from r to the struct `to`.  Members that are not in the
 * list keep their values.  -EBADMSG, -ENOMEM; then the listed members are undefined.
 */
int wire_unpack(struct reader *r, const struct wire_message *m, struct arena *arena, void *to) TFS_MUST;

/* The version of the protocol.  A server refuses requests of other versions (-EPROTO). */
#define RPC_VERSION 1u
/* A whole request: the version, then one message and nothing after it.  Returns -EPROTO, too. */
int wire_pack_request(const struct wire_message *m, const void *from, struct buf *out) TFS_MUST;
int wire_unpack_request(struct tfs_bytes in, const struct wire_message *m, struct arena *arena, void *to) TFS_MUST;

/*
 * A deep copy of a struct.  Its members are integers, byte strings, structs and arrays.
 * `to` is a flat copy of it.  wire_copy copies everything to which it points to *memory,
 * which has wire_copy_bytes(m, to) bytes and the alignment of malloc, and moves *memory
 * to the end.
 */
size_t wire_copy_bytes(const struct wire_message *m, const void *from);
void wire_copy(const struct wire_message *m, void *to, uint8_t **memory);

/* Zeroed memory of the arena, also for n = 0; NULL on a lack of memory. */
void *wire_zalloc(struct arena *arena, size_t n) TFS_MUST;

#define WIRE_ERRNO_MAX 4095
static inline bool wire_errno_valid(int err)
{
	return err <= 0 && err >= -WIRE_ERRNO_MAX;
}

/* ---- the round trip of debug builds ---- */

/*
 * A change that has been carried out must not be answered with an error
 * because memory for the answer is short.  Returns true if err is -ENOMEM,
 * after a short wait, unless this happened 100 times.
 */
bool wire_again(int err, unsigned *tries);

/*
 * Defines NAME_round_trip_new.  NAME_serve, which the includer defines before,
 * is the server's side: it decodes a request, calls the service and encodes
 * the answer.
 */
#define WIRE_ROUND_TRIP(name, service)                                                                                             \
	struct name##_round_trip {                                                                                                 \
		struct service base;                                                                                               \
		struct service *inner;                                                                                             \
	};                                                                                                                         \
                                                                                                                                   \
	static int name##_round_trip_call(struct service *s, const struct name##_request *q, struct name##_answer *a)              \
	{                                                                                                                          \
		struct name##_round_trip *r = (struct name##_round_trip *)s;                                                       \
		struct buf request = {0}, answer = {0};                                                                            \
		unsigned tries = 0;                                                                                                \
		int err = name##_request_pack(q, &request);                                                                        \
                                                                                                                                   \
		if (!err)                                                                                                          \
			err = name##_serve(r->inner, buf_bytes(&request), &answer);                                                \
		if (!err)                                                                                                          \
			do                                                                                                         \
				err = name##_answer_unpack(buf_bytes(&answer), q, a);                                              \
			while (wire_again(err, &tries));                                                                           \
		buf_fini(&request);                                                                                                \
		buf_fini(&answer);                                                                                                 \
		return err ? err : a->err;                                                                                         \
	}                                                                                                                          \
                                                                                                                                   \
	struct service *name##_round_trip_new(struct service *inner)                                                               \
	{                                                                                                                          \
		static const struct service##_ops ops = {.call = name##_round_trip_call};                                          \
		struct name##_round_trip *r = calloc(1, sizeof *r);                                                                \
                                                                                                                                   \
		if (!r)                                                                                                            \
			return NULL;                                                                                               \
		r->base = *inner;                                                                                                  \
		r->base.ops = &ops;                                                                                                \
		r->inner = inner;                                                                                                  \
		return &r->base;                                                                                                   \
	}

/* ---- from lists to structs and tables ---- */

#define WIRE_MEMBER(kind, number, ...) WIRE_MEMBER_##kind(__VA_ARGS__)
#define WIRE_MEMBER_VALUE(type, member, ...) type member;
#define WIRE_MEMBER_STRUCT(tag, member) struct tag member;
#define WIRE_MEMBER_POINTER(tag, member) const struct tag *member;
#define WIRE_MEMBER_ARRAY(tag, member, count)                                                                                      \
	const struct tag *member;                                                                                                  \
	uint32_t count;
#define WIRE_MEMBER_NUMBERS(type, member, count)                                                                                   \
	const type *member;                                                                                                        \
	uint32_t count;

#define WIRE_KIND_OF(x)                                                                                                            \
	_Generic((x),                                                                                                              \
		bool: WIRE_BOOL,                                                                                                   \
		int: WIRE_SIGNED,                                                                                                  \
		int64_t: WIRE_SIGNED,                                                                                              \
		uint16_t: WIRE_UNSIGNED,                                                                                           \
		uint32_t: WIRE_UNSIGNED,                                                                                           \
		uint64_t: WIRE_UNSIGNED,                                                                                           \
		struct tfs_bytes: WIRE_BYTES,                                                                                          \
		const char *: WIRE_STRING)
#define WIRE_FIELD(kind, number, ...) WIRE_FIELD_##kind(number, __VA_ARGS__)
#define WIRE_AT(member) (((wire_owner *)NULL)->member)
#define WIRE_FIELD_VALUE(number_, type, member, ...)                                                                               \
	{.number = number_,                                                                                                        \
		.kind = WIRE_KIND_OF(WIRE_AT(member)),                                                                             \
		.offset = offsetof(wire_owner, member),                                                                            \
		.size = sizeof(WIRE_AT(member))},
#define WIRE_FIELD_STRUCT(number_, tag, member)                                                                                    \
	{.number = number_, .kind = WIRE_STRUCT, .offset = offsetof(wire_owner, member), .message = tag##_wire},
#define WIRE_FIELD_POINTER(number_, tag, member)                                                                                   \
	{.number = number_, .kind = WIRE_POINTER, .offset = offsetof(wire_owner, member), .message = tag##_wire},
#define WIRE_FIELD_ARRAY(number_, tag, member, count)                                                                              \
	{.number = number_,                                                                                                        \
		.kind = WIRE_ARRAY,                                                                                                \
		.offset = offsetof(wire_owner, member),                                                                            \
		.count_offset = offsetof(wire_owner, count),                                                                       \
		.message = tag##_wire},
#define WIRE_FIELD_NUMBERS(number_, type, member, count)                                                                           \
	{.number = number_,                                                                                                        \
		.kind = WIRE_NUMBERS,                                                                                              \
		.element = WIRE_KIND_OF(*WIRE_AT(member)),                                                                         \
		.offset = offsetof(wire_owner, member),                                                                            \
		.count_offset = offsetof(wire_owner, count),                                                                       \
		.size = sizeof(*WIRE_AT(member))},

#define WIRE_POINTS(kind, number, ...) +WIRE_POINTS_##kind(__VA_ARGS__)
#define WIRE_POINTS_VALUE(type, member, ...) (WIRE_KIND_OF(WIRE_AT(member)) >= WIRE_BYTES)
#define WIRE_POINTS_STRUCT(...) 1
#define WIRE_POINTS_POINTER(...) 1
#define WIRE_POINTS_ARRAY(...) 1
#define WIRE_POINTS_NUMBERS(...) 1
#define WIRE_MESSAGE(tag, LIST, valid_)                                                                                            \
	static const struct wire_message *tag##_wire(void)                                                                         \
	{                                                                                                                          \
		typedef struct tag wire_owner;                                                                                     \
		static const struct wire_field fields[] = {LIST(WIRE_FIELD)};                                                      \
		static const struct wire_message m = {                                                                             \
			fields, sizeof fields / sizeof *fields, sizeof(wire_owner), valid_, !(0 LIST(WIRE_POINTS))};               \
                                                                                                                                   \
		return &m;                                                                                                         \
	}
#define WIRE_COMPLETE(tag, LIST) WIRE_COMPLETE_WITH(tag, LIST, )
/* members: declarations of the members that stay on this side of the wire. */
#define WIRE_COMPLETE_WITH(tag, LIST, members)                                                                                     \
	struct tag##_of_list {                                                                                                     \
		LIST(WIRE_MEMBER)                                                                                                  \
		members                                                                                                            \
	};                                                                                                                         \
	_Static_assert(sizeof(struct tag##_of_list) == sizeof(struct tag), "struct " #tag " has a member that is not in its list");

#endif

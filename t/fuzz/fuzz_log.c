/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit log's formats from any bytes, and whole segment images.
 *
 * The first byte selects the target.  Formats: a decoded value encodes to the
 * same bytes and decodes again to the same value.  Images: the rest of the input
 * becomes one or two segments, unchanged or with corrected checksums, so that the
 * code after the checksums is reached.  Replay must return rising LSNs or fail,
 * and read no byte outside.  If it succeeds, a seal of the images replays the same
 * records.  Another seal, from the input, must not lead the replay outside either.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/log/log_format.h"
#include "engine/log/log_seal.h"
#include "engine/log/log_sorted.h"

#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)

static void try_header(struct tfs_bytes s)
{
	uint8_t bytes[LOG_HEADER_BYTES];
	struct log_header h, again;

	if (log_header_decode(s, &h))
		return;
	log_header_encode(bytes, &h);
	CHECK(log_header_decode(tfs_bytes_of(bytes, sizeof bytes), &again) == 0);
	CHECK(memcmp(&h, &again, sizeof h) == 0);
}

static void try_body(struct tfs_bytes s)
{
	size_t padded = (s.n + 7) & ~(size_t)7;
	uint8_t *body = calloc(1, padded + 1), *copy = calloc(1, padded + 64);
	struct log_frame f = {.lsn = 9, .durable = 3, .kind = LOG_DATA, .body_bytes = (uint32_t)s.n};
	struct log_record r;
	uint32_t n;

	CHECK(body && copy);
	if (s.n)
		memcpy(body, s.p, s.n);
	f.body_crc = crc32c(0, body, padded);
	if (s.n && log_body_decode(&f, tfs_bytes_of(body, padded), &r)) {
		struct log_record again;

		CHECK(log_body_bytes(&r, &n) && n <= s.n); /* varints may have been longer than needed */
		f.body_bytes = n;
		f.body_crc = log_body_encode(copy, n, &r);
		CHECK(log_body_decode(&f, tfs_bytes_of(copy, log_frame_total(&f) - LOG_FRAME_BYTES), &again));
		CHECK(bytes_eq(r.batch, again.batch) && bytes_eq(r.row_from, again.row_from) && bytes_eq(r.row_to, again.row_to) &&
			r.seq == again.seq && r.token.client == again.token.client);
	}
	free(body);
	free(copy);
}

static void try_frame(struct tfs_bytes s)
{
	uint8_t bytes[LOG_FRAME_BYTES];
	struct log_frame f, again;

	if (s.n < LOG_FRAME_BYTES)
		return;
	memcpy(bytes, s.p, sizeof bytes);
	put_be32(bytes + 4, LOG_MAGIC);
	put_be32(bytes, crc32c(0, bytes + 4, LOG_FRAME_BYTES - 4));
	if (!log_frame_decode(tfs_bytes_of(bytes, sizeof bytes), 0, &f))
		return;
	log_frame_encode(bytes, &f, 0);
	CHECK(log_frame_decode(tfs_bytes_of(bytes, sizeof bytes), 0, &again));
	CHECK(f.lsn == again.lsn && f.durable == again.durable && f.kind == again.kind && f.body_bytes == again.body_bytes);
}

/* Makes headers and every frame-like place of an image valid. */
static void mend(uint8_t *p, size_t n, uint64_t number)
{
	struct log_header h = {.incarnation = 1, .number = number, .salt = 77};
	size_t at = LOG_HEADER_BYTES;

	if (n < LOG_HEADER_BYTES)
		return;
	h.first_lsn = 1 + p[0] % 16;
	h.durable_lsn = p[1] % h.first_lsn;
	log_header_encode(p, &h);
	while (at + LOG_FRAME_BYTES <= n) {
		struct log_frame f = {.lsn = p[at + 15],
			.durable = p[at + 23],
			.body_bytes = p[at + 27],
			.kind = (enum log_kind)(1 + p[at + 35] % 3)};
		size_t total;

		if (f.kind != LOG_DATA)
			f.body_bytes = 0;
		total = log_frame_total(&f);
		if (at + total > n)
			break;
		f.body_crc = crc32c(0, p + at + LOG_FRAME_BYTES, total - LOG_FRAME_BYTES);
		if (p[at] != 0x55) /* else it stays damaged */
			log_frame_encode(p + at, &f, h.salt);
		at += total;
	}
}

static int see(void *arg, const struct log_record *r)
{
	uint64_t *last = arg;

	CHECK(r->lsn > *last);
	*last = r->lsn;
	CHECK(r->batch.n == 0 || r->batch.p[r->batch.n - 1] + 1 > 0);
	return 0;
}

static void store(const char *dir, uint64_t number, const uint8_t *p, size_t n, bool mended)
{
	uint8_t *copy = malloc(n + 1);
	char name[32], *path;
	struct file *f;

	CHECK(copy);
	if (n)
		memcpy(copy, p, n);
	if (mended)
		mend(copy, n, number);
	log_segment_name(name, number);
	path = path_join(dir, name);
	(void)!file_unlink(path);
	CHECK(path && file_open(path, FILE_CREATE, &f) == 0);
	CHECK(n == 0 || file_pwrite(f, copy, n, 0) == 0);
	file_close(f);
	free(path);
	free(copy);
}

static char dir[] = "/dev/shm/tfs-fuzz-log-XXXXXX";

static void clean(void)
{
	for (uint64_t i = 1; i <= 2; i++) {
		char name[32], *path;

		log_segment_name(name, i);
		path = path_join(dir, name);
		if (path)
			(void)!file_unlink(path);
		free(path);
	}
	(void)!file_rmdir(dir);
}

/* Stores the two segments.  *from: the LSN to replay from. */
static bool store_images(struct tfs_bytes s, bool mended, uint64_t *from)
{
	static bool made;
	size_t cut;

	if (s.n < 3)
		return false;
	if (!made) {
		CHECK(mkdtemp(dir));
		atexit(clean);
		made = true;
	}
	*from = s.p[0] % 8;
	cut = (size_t)load_be16(s.p + 1) % (s.n - 2);
	store(dir, 1, s.p + 3, cut < s.n - 3 ? cut : s.n - 3, mended);
	store(dir, 2, s.p + 3 + (cut < s.n - 3 ? cut : s.n - 3), s.n - 3 - (cut < s.n - 3 ? cut : s.n - 3), mended);
	return true;
}

static int replay(const struct log_seal *seal, uint64_t from, uint64_t *last)
{
	struct log_end end = {0};
	char *why = NULL;
	uint64_t seen = 0;
	int err = seal ? log_replay_sealed(dir, seal, from, see, &seen, &end, &why) : log_replay(dir, from, see, &seen, &end, &why);

	CHECK(err <= 0);
	CHECK(err || seen <= end.last_lsn);
	free(why);
	*last = seen;
	return err;
}

static void try_images(struct tfs_bytes s, bool mended)
{
	uint64_t from, last, of_seal;
	struct log_seal seal = {0};
	char *why = NULL;

	if (!store_images(s, mended, &from) || replay(NULL, from, &last))
		return;
	if (log_scan(dir, &seal, &why) == 0) {
		/* The seal lists no empty segment, so records from `from` on, which were dropped, count as missing. */
		if (replay(&seal, from, &of_seal) == 0)
			CHECK(of_seal == last);
		else
			CHECK(from < (seal.count ? seal.segments[0].first_lsn : seal.stated + 1));
	}
	log_seal_fini(&seal);
	free(why);
}

/* A seal from the first bytes, and segments from the rest. */
static void try_sealed(struct tfs_bytes s)
{
	struct log_seal_segment segments[2];
	struct log_seal seal = {.incarnation = 1, .salt = 77, .segments = segments, .count = 2}, valid;
	struct buf b = {0};
	uint64_t from, last;

	if (s.n < 12)
		return;
	seal.stated = s.p[0] % 16;
	for (unsigned i = 0; i < 2; i++) {
		const uint8_t *p = s.p + 1 + 5 * i;

		segments[i] = (struct log_seal_segment){p[0], p[1] % 16, p[2] % 16, UINT64_C(8) * load_be16(p + 3)};
	}
	CHECK(log_seal_encode(&seal, &b) == 0);
	if (log_seal_decode(buf_bytes(&b), &valid) == 0) {
		if (store_images(tfs_bytes_of(s.p + 11, s.n - 11), true, &from) && replay(&valid, from, &last) == 0)
			CHECK(last <= valid.segments[valid.count - 1].last_lsn);
		log_seal_fini(&valid);
	}
	buf_fini(&b);
}

static void decode_seal(struct tfs_bytes in)
{
	struct log_seal seal;
	struct buf b = {0};

	if (log_seal_decode(in, &seal))
		return;
	CHECK(log_seal_encode(&seal, &b) == 0 && bytes_eq(buf_bytes(&b), in));
	log_seal_fini(&seal);
	buf_fini(&b);
}

/* A seal: unchanged, and with a correct checksum. */
static void try_seal(struct tfs_bytes s)
{
	uint8_t *p = malloc(s.n + 1);

	CHECK(p);
	decode_seal(s);
	if (s.n >= 4) {
		memcpy(p, s.p, s.n);
		put_be32(p + s.n - 4, crc32c(0, p, s.n - 4));
		decode_seal(tfs_bytes_of(p, s.n));
	}
	free(p);
}

static int see_sorted(void *arg, const struct log_record *r)
{
	CHECK(r->lsn >= 3 && r->lsn <= 8);
	return 0;
}

/* Records from a server that sorts a segment: unchanged, and with correct checksums. */
static void try_sorted(struct tfs_bytes s)
{
	struct log_seal_segment segment = {.number = 1, .first_lsn = 3, .last_lsn = 8};
	const struct log_seal seal = {.incarnation = 1, .salt = 77, .segments = &segment, .count = 1};
	uint8_t *p = calloc(1, LOG_HEADER_BYTES + s.n);

	CHECK(p);
	(void)!log_sorted_decode(&seal, 0, s, see_sorted, NULL);
	if (s.n)
		memcpy(p + LOG_HEADER_BYTES, s.p, s.n);
	mend(p, LOG_HEADER_BYTES + s.n, 1);
	(void)!log_sorted_decode(&seal, 0, tfs_bytes_of(p + LOG_HEADER_BYTES, s.n), see_sorted, NULL);
	free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tfs_bytes s;

	if (size == 0)
		return 0;
	s = tfs_bytes_of(data + 1, size - 1);
	switch (data[0] % 8) {
	case 0:
		try_header(s);
		break;
	case 1:
		try_body(s);
		break;
	case 2:
		try_frame(s);
		break;
	case 3:
		try_images(s, false);
		break;
	case 4:
		try_images(s, true);
		break;
	case 5:
		try_seal(s);
		break;
	case 6:
		try_sealed(s);
		break;
	default:
		try_sorted(s);
		break;
	}
	return 0;
}

static size_t seal_example(uint8_t *out)
{
	struct log_seal_segment segments[2] = {{1, 1, 5, LOG_HEADER_BYTES + 800}, {2, 6, 10, LOG_HEADER_BYTES + 800}};
	const struct log_seal seal = {.incarnation = 1, .salt = 77, .stated = 4, .segments = segments, .count = 2};
	struct buf b = {0};
	size_t n;

	CHECK(log_seal_encode(&seal, &b) == 0);
	memcpy(out, b.p, b.n);
	n = b.n;
	buf_fini(&b);
	return n;
}

/* Makes the bytes in front of the images of try_sealed, with the offsets of the frames that follow. */
static size_t sealed_example(uint8_t *out, uint32_t frame_bytes)
{
	const uint8_t bytes[] = {4, 1, 1, 5, 0, 0, 2, 6, 10, 0, 0};

	memcpy(out, bytes, sizeof(bytes));
	put_be16(out + 4, (uint16_t)((LOG_HEADER_BYTES + 5 * frame_bytes) / 8));
	put_be16(out + 9, (uint16_t)((LOG_HEADER_BYTES + 5 * frame_bytes) / 8));
	return sizeof(bytes);
}

/* A header, a body, a frame, twice a log in two segments, cut where the second begins, a seal, the log with a seal, and sorted records. */
size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static uint8_t out[8192];
	struct log_record r = {.row_from = tfs_str("row"), .row_to = tfs_str("row2"), .seq = 7, .batch = tfs_str("some batch")};
	uint8_t *p = out + (i < 3 || i == 7 ? 1 : 4), *begin;
	uint32_t n;

	if (i > 7 || !log_body_bytes(&r, &n)) {
		*data = NULL;
		return 0;
	}
	memset(out, 0, sizeof out);
	out[0] = (uint8_t)i;
	*data = out;
	if (i == 5)
		return 1 + seal_example(out + 1);
	if (i == 6)
		p += sealed_example(out + 1, (uint32_t)log_frame_total(&(struct log_frame){.body_bytes = n}));
	begin = p;
	if (i == 1) {
		log_body_encode(p, n, &r);
		return 1 + n;
	}
	for (uint64_t seg = 1, lsn = i == 7 ? 3 : 1; seg <= (i < 3 || i == 7 ? 1 : 2); seg++) {
		struct log_header h = {.incarnation = 1, .number = seg, .first_lsn = lsn, .durable_lsn = lsn - 1, .salt = 77};

		if (i != 2 && i != 7) {
			log_header_encode(p, &h);
			p += LOG_HEADER_BYTES;
		}
		if (i == 0)
			return (size_t)(p - out);
		for (unsigned k = 0; k < 5; k++, lsn++) {
			struct log_frame f = {.lsn = lsn, .durable = lsn - 1, .kind = LOG_DATA, .body_bytes = n};

			f.body_crc = log_body_encode(p + LOG_FRAME_BYTES, n, &r);
			log_frame_encode(p, &f, h.salt);
			if (i == 2)
				return 1 + LOG_FRAME_BYTES;
			p += log_frame_total(&f);
		}
		if (seg == 1 && i != 7)
			put_be16(begin - 2, (uint16_t)(p - begin));
	}
	return (size_t)(p - out);
}

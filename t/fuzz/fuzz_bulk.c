/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports of any bytes.  The first byte selects the format (TSV, JSON lines, tar, CSV)
 * and the size of the pieces in which the rest is fed.
 *
 * A record that is accepted is a valid cell, and as a line of TSV it is read
 * again as the same.  The result does not depend on the pieces.
 */
#include "engine/bulk/line.h"
#include "engine/bulk/reader.h"
#include "engine/bulk/tar_format.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)

/* All that a reader has reported, as text. */
struct seen {
	struct buf text;
	bool again; /* lines that were accepted are read again */
};

static int take_cell(void *arg, const struct record *r)
{
	struct seen *s = arg;

	CHECK(!record_fault(r));
	CHECK(line_append_record(r, &s->text) == 0);
	return 0;
}

static int take_schema(void *arg, uint64_t number, struct tfs_bytes text, int64_t mtime_us)
{
	struct seen *s = arg;

	CHECK(!s->again);
	CHECK(buf_printf(&s->text, "schema %llu %lld ", (unsigned long long)number, (long long)mtime_us) == 0);
	CHECK(buf_append_bytes(&s->text, text) == 0);
	return 0;
}

static int take_refused(void *arg, uint64_t number, const char *reason)
{
	struct seen *s = arg;

	CHECK(!s->again && number > 0 && *reason);
	CHECK(buf_printf(&s->text, "refused %llu: %s\n", (unsigned long long)number, reason) == 0);
	return 0;
}

static void read_all(enum bulk_format format, struct tfs_bytes in, size_t piece, struct seen *s)
{
	struct record_reader *r;
	int err = 0;

	CHECK(record_reader_new(format, &(struct record_sink){s, take_cell, take_schema, take_refused}, &r) == 0);
	while (in.n && !err) {
		size_t n = in.n < piece ? in.n : piece;
		uint8_t *copy = malloc(n);

		memcpy(copy, in.p, n);
		err = record_reader_feed(r, copy, n);
		free(copy);
		in = tfs_bytes_of(in.p + n, in.n - n);
	}
	if (!err)
		err = record_reader_end(r);
	CHECK(err == 0 || err == -EBADMSG);
	record_reader_free(r);
}

/* Reads each cell of TSV in the text again. */
static void read_again(struct tfs_bytes text)
{
	struct seen s = {.again = true};

	read_all(BULK_TSV, text, SIZE_MAX, &s);
	CHECK(bytes_eq(buf_bytes(&s.text), text));
	buf_fini(&s.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen one = {0}, pieces = {0};
	enum bulk_format format;

	if (size == 0)
		return 0;
	format = (enum bulk_format)(data[0] % 4);
	read_all(format, tfs_bytes_of(data + 1, size - 1), SIZE_MAX, &one);
	read_all(format, tfs_bytes_of(data + 1, size - 1), format == BULK_TAR ? 512 + data[0] : 1 + data[0] / 3, &pieces);
	CHECK(bytes_eq(buf_bytes(&one.text), buf_bytes(&pieces.text)));
	if (one.text.n && !memmem(one.text.p, one.text.n, "refused ", 8) && !memmem(one.text.p, one.text.n, "schema ", 7))
		read_again(buf_bytes(&one.text));
	buf_fini(&one.text);
	buf_fini(&pieces.text);
	return 0;
}

static size_t archive(struct buf *out)
{
	static const char *const paths[] = {"./", "./.schema", "./r/f/q@5", "./r/f/plain", "./%00/f/%2E@-1"};
	char path[400];

	if (out->n)
		return out->n;
	CHECK(buf_u8(out, BULK_TAR) == 0);
	memset(path, 'x', sizeof(path));
	memcpy(path, "./", 2);
	memcpy(path + 256, "%/y/f/@7", 8);
	for (unsigned i = 0; i < 6; i++) {
		struct tfs_bytes name = i < 5 ? tfs_str(paths[i]) : tfs_bytes_of(path, 264);

		CHECK(tar_append_header(out,
			      &(struct tar_entry){
				      .path = name, .is_dir = i == 0, .size = i ? 3 : 0, .mtime_us = 1234567 * (int64_t)i}) == 0);
		CHECK(buf_append(out, "abc", i ? 3 : 0) == 0);
		CHECK(tar_append_padding(out, i ? 3 : 0) == 0);
	}
	CHECK(tar_append_end(out, out->n - 1) == 0);
	return out->n;
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static const char *const texts[] = {
		"\x08r\tf:q\t5\tv\\t\\n\\r\\\\\\x00\n\tx:\t\t\nr2\tf:\t-1\t\n",
		"\x05{\"row\":\"r\",\"family\":\"f\",\"qualifier_base64\":\"/w==\",\"timestamp\":-5,\"value\":\"\\u00fc\\ud83d\\ude00\\n\"}\n{}\n",
		"\x03key,f:q,\"g:a,\"\"b\",f:\r\nr,\"1\n\"\"2\",,\"\"\n\n\"s\",a b,c,d\r\n",
		"\x07\xef\xbb\xbfid;f:a\nr;1,5\nr;\"x\n",
		"\x01 { \"value_base64\" : \"AAEC\" , \"row\":\"a\", \"qualifier\":\"\" , \"family\" : \"g\" } ",
	};
	static struct buf tar;

	if (i < sizeof(texts) / sizeof(*texts)) {
		*data = (const uint8_t *)texts[i];
		return strlen(texts[i]);
	}
	if (i > sizeof(texts) / sizeof(*texts))
		return 0;
	(void)archive(&tar);
	*data = tar.p;
	return tar.n;
}

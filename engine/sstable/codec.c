/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compression and decompression of blocks.
 *
 * zstd: one context per writer and one per reading thread, reset and reused,
 * since making one costs more than a small block.  Long-distance matching is
 * on for units of 1 MiB and more (groups with large blocks, where pages of
 * one site repeat each other far apart, the paper's section 6).
 *
 * Dictionary: trained on up to 4 MiB of the table's first blocks, cut into
 * samples of 8 KiB.  It costs its own size in the file, so it must save more
 * than that: it is trained on the first three quarters, both ways are tried
 * on the last (a dictionary is made of pieces of what it was trained on, and
 * would look good on noise there), and it is dropped unless it wins, for a
 * whole table its full size counted, for one that goes on an eighth of it.
 *
 * Decided against: a dictionary shared by several tables (a table would then
 * depend on another file's life).
 */
#include "engine/sstable/codec.h"
#include <errno.h>
#include <limits.h>
#include <lz4.h>
#include <pthread.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <zdict.h>
#include <zstd.h>
#include <zstd_errors.h>

enum {
	LDM_BYTES = 1 << 20,
	SAMPLE_BYTES = 8 << 10,
	SAMPLES_MIN = 16,
	DICT_BYTES_MIN = 4 << 10,
	DICT_BYTES_MAX = 96 << 10,
	TRIAL_BYTES = 1 << 20,
	SCRATCH_KEEP_BYTES = 1 << 20, /* a larger scratch is not kept once a small one is asked for */
};

const char *const sst_codec_names[SST_CODECS] = {
	[SST_NONE] = "none", [SST_SNAPPY] = "snappy", [SST_LZ4] = "lz4", [SST_ZSTD] = "zstd", [SST_ZSTD_DICT] = "zstd-dict",
};

struct coder {
	enum sst_codec codec;
	int level;
	bool ldm;          /* as set in zstd now */
	ZSTD_CCtx *zstd;
	ZSTD_CDict *cdict; /* in use when not NULL */
	struct buf dict, out;
};

int coder_new(enum sst_codec codec, int level, struct coder **out)
{
	struct coder *c;

	if ((unsigned)codec >= SST_CODECS)
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->codec = codec;
	c->level = level < ZSTD_minCLevel() ? ZSTD_minCLevel() : level > ZSTD_maxCLevel() ? ZSTD_maxCLevel() : level;
	if (codec == SST_ZSTD || codec == SST_ZSTD_DICT) {
		c->zstd = ZSTD_createCCtx();
		if (!c->zstd || ZSTD_isError(ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_compressionLevel, c->level))) {
			coder_free(c);
			return -ENOMEM;
		}
	}
	*out = c;
	return 0;
}

void coder_free(struct coder *c)
{
	if (!c)
		return;
	ZSTD_freeCDict(c->cdict);
	ZSTD_freeCCtx(c->zstd);
	buf_fini(&c->dict);
	buf_fini(&c->out);
	free(c);
}

static int reserve(struct buf *b, size_t n)
{
	buf_reset(b);
	return buf_reserve(b, n);
}

static int encode_zstd(struct coder *c, struct slice raw, size_t *n)
{
	bool ldm = raw.n >= LDM_BYTES;
	size_t r;

	if (reserve(&c->out, ZSTD_compressBound(raw.n)))
		return -ENOMEM;
	if (ldm != c->ldm) {
		if (ZSTD_isError(ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_enableLongDistanceMatching, ldm)))
			return -ENOMEM;
		c->ldm = ldm;
	}
	r = ZSTD_compress2(c->zstd, c->out.p, c->out.cap, raw.p, raw.n);
	if (ZSTD_isError(r))
		return -ENOMEM; /* the destination is large enough, the parameters were taken */
	*n = r;
	return 0;
}

int coder_encode(struct coder *c, struct slice raw, enum sst_codec *used, struct slice *out)
{
	size_t n = raw.n;
	enum sst_codec codec = c->codec;
	int err = 0;

	switch (codec) {
	case SST_NONE:
		break;
	case SST_SNAPPY:
		n = snappy_max_compressed_length(raw.n);
		if (reserve(&c->out, n))
			return -ENOMEM;
		if (snappy_compress((const char *)raw.p, raw.n, (char *)c->out.p, &n) != SNAPPY_OK)
			return -ENOMEM;
		break;
	case SST_LZ4:
		if (raw.n > LZ4_MAX_INPUT_SIZE)
			break;
		n = (size_t)LZ4_compressBound((int)raw.n);
		if (reserve(&c->out, n))
			return -ENOMEM;
		n = (size_t)LZ4_compress_default((const char *)raw.p, (char *)c->out.p, (int)raw.n, (int)n);
		if (n == 0)
			return -ENOMEM;
		break;
	case SST_ZSTD_DICT:
		if (!c->cdict)
			codec = SST_ZSTD;
		err = encode_zstd(c, raw, &n);
		break;
	case SST_ZSTD:
		err = encode_zstd(c, raw, &n);
		break;
	case SST_CODECS:
	default:
		return -EINVAL;
	}
	if (err)
		return err;
	*used = n < raw.n ? codec : SST_NONE;
	*out = n < raw.n ? slice_of(c->out.p, n) : raw;
	return 0;
}

/* The compressed size of the units from `from` on, up to TRIAL_BYTES of them; how much that was in *raw_bytes. */
static int trial(struct coder *c, struct slice raw, const uint32_t *lengths, size_t n, size_t from, uint64_t *bytes,
		 uint64_t *raw_bytes)
{
	uint64_t sum = 0, tried = 0;
	size_t at = 0;

	for (size_t i = 0; i < n && tried < TRIAL_BYTES; at += lengths[i], i++) {
		enum sst_codec used;
		struct slice s;
		int err;

		if (at < from)
			continue;
		err = coder_encode(c, slice_of(raw.p + at, lengths[i]), &used, &s);
		if (err)
			return err;
		sum += s.n;
		tried += lengths[i];
	}
	*bytes = sum;
	*raw_bytes = tried;
	return 0;
}

int coder_train(struct coder *c, struct slice raw, const uint32_t *lengths, size_t n, bool whole, struct slice *dict)
{
	size_t part = raw.n / 4 * 3, samples = part / SAMPLE_BYTES, want, got;
	size_t *sizes = NULL;
	uint64_t plain, with, tried;
	double saved;
	int err = 0;

	*dict = slice_of(NULL, 0);
	if (c->codec != SST_ZSTD_DICT || samples < SAMPLES_MIN)
		return 0;
	/* zstd advises a hundred times as much sample as dictionary; below 4 KiB it saves nothing. */
	want = raw.n / 32;
	want = want > DICT_BYTES_MAX ? DICT_BYTES_MAX : want;
	if (want < DICT_BYTES_MIN)
		return 0;
	sizes = calloc(samples, sizeof(*sizes));
	if (!sizes)
		return -ENOMEM;
	for (size_t i = 0; i < samples; i++)
		sizes[i] = SAMPLE_BYTES;
	err = buf_reserve(&c->dict, want);
	if (err)
		goto out;
	got = ZDICT_trainFromBuffer(c->dict.p, want, raw.p, sizes, (unsigned)samples);
	if (ZDICT_isError(got))
		goto out; /* too uniform or too random: plain zstd */
	err = trial(c, raw, lengths, n, part, &plain, &tried);
	if (err)
		goto out;
	c->dict.n = got;
	c->cdict = ZSTD_createCDict(c->dict.p, c->dict.n, c->level);
	if (!c->cdict || ZSTD_isError(ZSTD_CCtx_refCDict(c->zstd, c->cdict))) {
		err = -ENOMEM;
		goto drop;
	}
	err = trial(c, raw, lengths, n, part, &with, &tried);
	if (err)
		goto drop;
	saved = tried ? ((double)plain - (double)with) * (double)raw.n / (double)tried : 0;
	if (saved <= (double)(whole ? got : got / 8))
		goto drop;
	*dict = buf_slice(&c->dict);
	goto out;
drop:
	if (ZSTD_isError(ZSTD_CCtx_refCDict(c->zstd, NULL)) && !err)
		err = -ENOMEM;
	ZSTD_freeCDict(c->cdict);
	c->cdict = NULL;
	c->dict.n = 0;
out:
	free(sizes);
	return err;
}

/* ---- decoding ---- */
struct decode_dict {
	ZSTD_DDict *d;
};

int decode_dict_new(struct slice dict, struct decode_dict **out)
{
	struct decode_dict *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->d = ZSTD_createDDict(dict.p, dict.n);
	if (!d->d) {
		free(d);
		return -EBADMSG; /* or out of memory: zstd does not say */
	}
	*out = d;
	return 0;
}

void decode_dict_free(struct decode_dict *d)
{
	if (!d)
		return;
	ZSTD_freeDDict(d->d);
	free(d);
}

size_t decode_dict_bytes(const struct decode_dict *d)
{
	return d ? ZSTD_sizeof_DDict(d->d) : 0;
}

struct per_thread {
	ZSTD_DCtx *zstd;
	uint8_t *scratch;
	size_t scratch_bytes;
};

static __thread struct per_thread *mine;
static pthread_key_t mine_key;
static pthread_once_t mine_once = PTHREAD_ONCE_INIT;
static bool mine_key_good;

static void per_thread_free(void *arg)
{
	struct per_thread *t = arg;

	ZSTD_freeDCtx(t->zstd);
	free(t->scratch);
	free(t);
	mine = NULL;
}

static void per_thread_key(void)
{
	mine_key_good = pthread_key_create(&mine_key, per_thread_free) == 0;
}

static struct per_thread *per_thread_get(void)
{
	struct per_thread *t = mine;

	if (t)
		return t;
	pthread_once(&mine_once, per_thread_key);
	t = mine_key_good ? calloc(1, sizeof(*t)) : NULL;
	if (!t)
		return NULL;
	if (pthread_setspecific(mine_key, t)) {
		free(t);
		return NULL;
	}
	mine = t;
	return t;
}

uint8_t *codec_scratch(size_t n)
{
	struct per_thread *t = per_thread_get();

	if (!t)
		return NULL;
	if (n > t->scratch_bytes || (t->scratch_bytes > SCRATCH_KEEP_BYTES && n <= SCRATCH_KEEP_BYTES)) {
		size_t want = n < (64 << 10) ? 64 << 10 : n;

		free(t->scratch);
		t->scratch_bytes = 0;
		t->scratch = malloc(want);
		if (t->scratch)
			t->scratch_bytes = want;
	}
	return t->scratch;
}

static int decode_zstd(struct slice payload, const struct decode_dict *dict, void *dst, size_t raw_bytes)
{
	struct per_thread *t = per_thread_get();
	size_t n;

	if (t && !t->zstd)
		t->zstd = ZSTD_createDCtx();
	if (!t || !t->zstd)
		return -ENOMEM;
	if (dict)
		n = ZSTD_decompress_usingDDict(t->zstd, dst, raw_bytes, payload.p, payload.n, dict->d);
	else
		n = ZSTD_decompressDCtx(t->zstd, dst, raw_bytes, payload.p, payload.n);
	if (ZSTD_isError(n))
		return ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation ? -ENOMEM : -EBADMSG;
	return n == raw_bytes ? 0 : -EBADMSG;
}

int codec_decode(enum sst_codec codec, struct slice payload, const struct decode_dict *dict, void *dst, size_t raw_bytes)
{
	size_t n = raw_bytes;

	switch (codec) {
	case SST_NONE:
		if (payload.n != raw_bytes)
			return -EBADMSG;
		memcpy(dst, payload.p, raw_bytes);
		return 0;
	case SST_SNAPPY:
		/* It writes the length it finds: ask for that first. */
		if (snappy_uncompressed_length((const char *)payload.p, payload.n, &n) != SNAPPY_OK || n != raw_bytes)
			return -EBADMSG;
		return snappy_uncompress((const char *)payload.p, payload.n, dst, &n) == SNAPPY_OK ? 0 : -EBADMSG;
	case SST_LZ4:
		if (raw_bytes > INT_MAX || payload.n > INT_MAX)
			return -EBADMSG;
		return LZ4_decompress_safe((const char *)payload.p, dst, (int)payload.n, (int)raw_bytes) == (int)raw_bytes ?
			0 : -EBADMSG;
	case SST_ZSTD:
		return decode_zstd(payload, NULL, dst, raw_bytes);
	case SST_ZSTD_DICT:
		return dict ? decode_zstd(payload, dict, dst, raw_bytes) : -EBADMSG;
	case SST_CODECS:
	default:
		return -EBADMSG;
	}
}

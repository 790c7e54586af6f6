/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compression and decompression of blocks.
 *
 * zstd: one context per writer and one per reading thread, reset and reused,
 * because a new context costs more than a small block.  Long-distance matching
 * is on for units of 1 MiB and more: in groups with large blocks the pages of
 * one site repeat each other at a distance (the paper's section 6).
 *
 * Dictionary: trained on up to 8 MiB of samples, either units from all parts of
 * the table that the caller supplies, or the table's first units.  It has a
 * 32nd of their size, at most 256 KiB, and is stored as a zstd frame (a quarter
 * of its size).  The training leaves out every fourth unit.  Those units are
 * then compressed with and without the dictionary, because it would look good
 * on the units that it was made of, even on noise.  It is dropped unless it
 * saves more than its own stored size.
 *
 * Versions: a version of a page is nearly equal to the next older one, which
 * may be a quarter of a megabyte before it.  Such a unit is compressed against
 * the earlier unit (coder_encode_against), without the dictionary.
 *
 * Rejected: a dictionary shared by several tables, because a table would then
 * depend on another file.
 */
#include "engine/sstable/codec.h"
#include <errno.h>
#include <limits.h>
#include <lz4.h>
#include <lz4hc.h>
#include <pthread.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <zdict.h>
#include <zstd_errors.h>

enum {
	LDM_BYTES = 1 << 20,
	SAMPLE_BYTES = 8 << 10,
	SAMPLES_MIN = 16,
	DICT_BYTES_MIN = 4 << 10,
	DICT_BYTES_MAX = 512 << 10,
	DICT_SHARE = 32, /* the dictionary's share of the samples; zstd advises a hundredth, but larger dictionaries still gain */
	DICT_PACK_LEVEL = 12,
	TRIAL_BYTES = 1 << 20,
	TRIAL_EVERY = 4,
	TABLES_LOG = 19,                /* the size of zstd's tables with a dictionary, for half a megabyte */
	DICT_BYTES_MAX_READ = 16 << 20, /* the most that a reader allocates for a packed dictionary */
	SCRATCH_KEEP_BYTES = 1 << 20,   /* a larger buffer is freed when a small one is requested */
};

const struct sst_codec_kind sst_codec_kinds[SST_CODECS] = {
#define CODEC_KIND(upper, number, name, levels) [SST_##upper] = {name, levels},
	SST_CODEC_LIST(CODEC_KIND)
#undef CODEC_KIND
};

int sst_codec_by_name(const char *name)
{
	for (int i = 0; i < SST_CODECS; i++)
		if (sst_is_codec((uint32_t)i) && strcmp(sst_codec_kinds[i].name, name) == 0)
			return i;
	return -1;
}

struct coder {
	enum sst_codec codec;
	int level;
	bool ldm; /* zstd's present setting of long-distance matching */
	ZSTD_CCtx *zstd;
	ZSTD_CCtx *against; /* for coder_encode_against, made when first needed */
	bool has_dict;      /* the coder uses a dictionary */
	struct buf dict, packed, out, out_against;
};

int coder_new(enum sst_codec codec, int level, struct coder **out)
{
	struct coder *c = calloc(1, sizeof(*c));

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
	ZSTD_freeCCtx(c->zstd);
	ZSTD_freeCCtx(c->against);
	buf_fini(&c->dict);
	buf_fini(&c->packed);
	buf_fini(&c->out);
	buf_fini(&c->out_against);
	free(c);
}

static int codec_reserve(struct buf *b, size_t n)
{
	buf_reset(b);
	return buf_reserve(b, n);
}

static int encode_zstd(struct coder *c, struct tfs_bytes raw, size_t *n)
{
	bool ldm = raw.n >= LDM_BYTES;
	size_t r;

	if (codec_reserve(&c->out, ZSTD_compressBound(raw.n)))
		return -ENOMEM;
	if (ldm != c->ldm) {
		if (ZSTD_isError(ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_enableLongDistanceMatching, ldm)))
			return -ENOMEM;
		c->ldm = ldm;
	}
	r = ZSTD_compress2(c->zstd, c->out.p, c->out.cap, raw.p, raw.n);
	if (ZSTD_isError(r))
		return -ENOMEM; /* the only cause left, because the destination is large enough and the parameters are valid */
	*n = r;
	return 0;
}

int coder_encode(struct coder *c, enum sst_codec codec, struct tfs_bytes raw, enum sst_codec *used, struct tfs_bytes *out)
{
	size_t n = raw.n;
	int err = 0;

	switch (codec) {
	case SST_NONE:
		break;
	case SST_SNAPPY:
		n = snappy_max_compressed_length(raw.n);
		if (codec_reserve(&c->out, n))
			return -ENOMEM;
		if (snappy_compress((const char *)raw.p, raw.n, (char *)c->out.p, &n) != SNAPPY_OK)
			return -ENOMEM;
		break;
	case SST_LZ4:
		if (raw.n > LZ4_MAX_INPUT_SIZE)
			break;
		n = (size_t)LZ4_compressBound((int)raw.n);
		if (codec_reserve(&c->out, n))
			return -ENOMEM;
		if (c->zstd) /* blocks of keys beside values with zstd, which takes longer; they are read as fast */
			n = (size_t)LZ4_compress_HC(
				(const char *)raw.p, (char *)c->out.p, (int)raw.n, (int)n, LZ4HC_CLEVEL_DEFAULT);
		else
			n = (size_t)LZ4_compress_default((const char *)raw.p, (char *)c->out.p, (int)raw.n, (int)n);
		if (n == 0)
			return -ENOMEM;
		break;
	case SST_ZSTD_DICT:
		if (!c->has_dict)
			codec = SST_ZSTD;
		/* fall through */
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
	*out = n < raw.n ? tfs_bytes_of(c->out.p, n) : raw;
	return 0;
}

int coder_encode_against(struct coder *c, struct tfs_bytes raw, struct tfs_bytes base, struct tfs_bytes *out)
{
	size_t r;

	if (!c->against) {
		c->against = ZSTD_createCCtx();
		if (!c->against || ZSTD_isError(ZSTD_CCtx_setParameter(c->against, ZSTD_c_compressionLevel, c->level)))
			return -ENOMEM;
	}
	if (codec_reserve(&c->out_against, ZSTD_compressBound(raw.n)))
		return -ENOMEM;
	if (ZSTD_isError(ZSTD_CCtx_refPrefix(c->against, base.p, base.n))) /* for one frame */
		return -ENOMEM;
	r = ZSTD_compress2(c->against, c->out_against.p, c->out_against.cap, raw.p, raw.n);
	if (ZSTD_isError(r))
		return -ENOMEM;
	*out = tfs_bytes_of(c->out_against.p, r);
	return 0;
}

/* ---- training ---- */

/* Compresses every fourth unit, up to TRIAL_BYTES of them.  *raw_bytes: their size. */
static int dict_trial(
	struct coder *c, struct tfs_bytes raw, const uint32_t *lengths, size_t n, uint64_t *bytes, uint64_t *raw_bytes)
{
	uint64_t sum = 0, tried = 0;
	size_t at = 0;

	for (size_t i = 0; i < n && tried < TRIAL_BYTES; at += lengths[i], i++) {
		enum sst_codec used;
		struct tfs_bytes s;
		int err;

		if (i % TRIAL_EVERY != TRIAL_EVERY - 1)
			continue;
		err = coder_encode(c, c->codec, tfs_bytes_of(raw.p + at, lengths[i]), &used, &s);
		if (err)
			return err;
		sum += s.n;
		tried += lengths[i];
	}
	*bytes = sum;
	*raw_bytes = tried;
	return 0;
}

/* Trains c->dict on the units that no trial uses; it stays empty if zstd makes none. */
static int make_dict(struct coder *c, struct tfs_bytes raw, const uint32_t *lengths, size_t n, size_t want)
{
	struct buf train = {0};
	size_t samples, at = 0, got, *sizes = NULL;
	int err = buf_reserve(&train, raw.n);

	for (size_t i = 0; i < n && !err; at += lengths[i], i++)
		if (n < TRIAL_EVERY || i % TRIAL_EVERY != TRIAL_EVERY - 1)
			err = buf_append(&train, raw.p + at, lengths[i]);
	samples = train.n / SAMPLE_BYTES;
	if (err || samples < SAMPLES_MIN)
		goto out;
	err = -ENOMEM;
	sizes = calloc(samples, sizeof(*sizes));
	if (!sizes || buf_reserve(&c->dict, want))
		goto out;
	err = 0;
	for (size_t i = 0; i < samples; i++)
		sizes[i] = SAMPLE_BYTES;
	got = ZDICT_trainFromBuffer(c->dict.p, want, train.p, sizes, (unsigned)samples);
	if (!ZDICT_isError(got)) /* on an error the units are too uniform or too random, and plain zstd is used */
		c->dict.n = got;
out:
	buf_fini(&train);
	free(sizes);
	return err;
}

/* Uses c->dict from now on, or no dictionary if it is empty. */
static int use_dict(struct coder *c, size_t n)
{
	/*
	 * zstd sizes its tables by the dictionary, as if each unit were small.
	 * Such tables are too small to find a match 50 KiB back.
	 */
	int log = n ? TABLES_LOG : 0;

	if (ZSTD_isError(ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_hashLog, log)) ||
		ZSTD_isError(ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_chainLog, log)) ||
		ZSTD_isError(ZSTD_CCtx_loadDictionary(c->zstd, c->dict.p, n)))
		return -ENOMEM;
	c->has_dict = n != 0;
	return 0;
}

static int pack_dict(struct coder *c)
{
	size_t n = ZSTD_compressBound(c->dict.n);

	if (buf_reserve(&c->packed, n))
		return -ENOMEM;
	n = ZSTD_compress(c->packed.p, n, c->dict.p, c->dict.n, DICT_PACK_LEVEL);
	if (ZSTD_isError(n))
		return -ENOMEM;
	c->packed.n = n;
	return 0;
}

int coder_train(struct coder *c, struct tfs_bytes raw, const uint32_t *lengths, size_t n, uint64_t expect, struct tfs_bytes *dict)
{
	size_t want = raw.n / DICT_SHARE;
	uint64_t plain, with, tried;
	int err;

	*dict = tfs_bytes_of(NULL, 0);
	if (want < DICT_BYTES_MIN)
		return 0;
	err = make_dict(c, raw, lengths, n, want < DICT_BYTES_MAX ? want : DICT_BYTES_MAX);
	if (err || !c->dict.n)
		return err;
	err = dict_trial(c, raw, lengths, n, &plain, &tried);
	if (!err)
		err = pack_dict(c);
	if (!err)
		err = use_dict(c, c->dict.n);
	if (!err)
		err = dict_trial(c, raw, lengths, n, &with, &tried);
	if (!err && tried && ((double)plain - (double)with) * (double)expect / (double)tried > (double)c->packed.n) {
		*dict = buf_bytes(&c->packed);
		return 0;
	}
	if (use_dict(c, 0) && !err)
		err = -ENOMEM;
	c->dict.n = c->packed.n = 0;
	return err;
}

/* ---- decoding ---- */
int codec_load_dict(struct tfs_bytes dict, ZSTD_DDict **out)
{
	unsigned long long n = ZSTD_getFrameContentSize(dict.p, dict.n);
	void *raw;
	int err;

	if (n == 0 || n > DICT_BYTES_MAX_READ) /* "unknown" and "not a frame" are larger numbers */
		return -EBADMSG;
	raw = malloc((size_t)n);
	err = raw ? codec_decode(SST_ZSTD, dict, NULL, raw, (size_t)n) : -ENOMEM;
	if (!err) {
		*out = ZSTD_createDDict(raw, (size_t)n);
		err = *out ? 0 : -EBADMSG; /* or zstd was out of memory: it does not distinguish the two */
	}
	free(raw);
	return err;
}

size_t codec_frame_bytes(struct tfs_bytes s)
{
	size_t n = ZSTD_findFrameCompressedSize(s.p, s.n);

	return ZSTD_isError(n) ? 0 : n;
}

struct per_thread {
	ZSTD_DCtx *zstd;
	uint8_t *scratch[SCRATCHES];
	size_t scratch_bytes[SCRATCHES];
	struct scratch_base base;
};

static __thread struct per_thread *mine;
static pthread_key_t mine_key;
static pthread_once_t mine_once = PTHREAD_ONCE_INIT;
static bool mine_key_good;

static void per_thread_free(void *arg)
{
	struct per_thread *t = arg;

	ZSTD_freeDCtx(t->zstd);
	for (int i = 0; i < SCRATCHES; i++)
		free(t->scratch[i]);
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

uint8_t *codec_scratch(enum codec_scratch kind, size_t n)
{
	struct per_thread *t = per_thread_get();

	if (!t)
		return NULL;
	if (n > t->scratch_bytes[kind] || (t->scratch_bytes[kind] > SCRATCH_KEEP_BYTES && n <= SCRATCH_KEEP_BYTES)) {
		size_t want = n < (64 << 10) ? 64 << 10 : n;

		free(t->scratch[kind]);
		t->scratch_bytes[kind] = 0;
		t->scratch[kind] = malloc(want);
		if (t->scratch[kind])
			t->scratch_bytes[kind] = want;
	}
	if (kind == SCRATCH_BASE)
		t->base = (struct scratch_base){.p = t->scratch[kind]};
	return t->scratch[kind];
}

struct scratch_base *codec_scratch_base(void)
{
	struct per_thread *t = per_thread_get();

	return t ? &t->base : NULL;
}

static ZSTD_DCtx *thread_decoder(void)
{
	struct per_thread *t = per_thread_get();

	if (t && !t->zstd)
		t->zstd = ZSTD_createDCtx();
	return t ? t->zstd : NULL;
}

static int check_decoded(size_t n, size_t raw_bytes)
{
	if (ZSTD_isError(n))
		return ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation ? -ENOMEM : -EBADMSG;
	return n == raw_bytes ? 0 : -EBADMSG;
}

/* dict may be NULL. */
static int decode_zstd(struct tfs_bytes payload, const ZSTD_DDict *dict, void *dst, size_t raw_bytes)
{
	ZSTD_DCtx *z = thread_decoder();

	if (!z)
		return -ENOMEM;
	return check_decoded(ZSTD_decompress_usingDDict(z, dst, raw_bytes, payload.p, payload.n, dict), raw_bytes);
}

int codec_decode_against(struct tfs_bytes payload, struct tfs_bytes base, void *dst, size_t raw_bytes)
{
	ZSTD_DCtx *z = thread_decoder();

	if (!z)
		return -ENOMEM;
	if (ZSTD_isError(ZSTD_DCtx_refPrefix(z, base.p, base.n))) /* for one frame */
		return -EBADMSG;
	return check_decoded(ZSTD_decompressDCtx(z, dst, raw_bytes, payload.p, payload.n), raw_bytes);
}

int codec_decode(enum sst_codec codec, struct tfs_bytes payload, const ZSTD_DDict *dict, void *dst, size_t raw_bytes)
{
	size_t n = raw_bytes;

	switch (codec) {
	case SST_NONE:
		if (payload.n != raw_bytes)
			return -EBADMSG;
		memcpy(dst, payload.p, raw_bytes);
		return 0;
	case SST_SNAPPY:
		/* It writes the length in the payload, so that is checked first. */
		if (snappy_uncompressed_length((const char *)payload.p, payload.n, &n) != SNAPPY_OK || n != raw_bytes)
			return -EBADMSG;
		return snappy_uncompress((const char *)payload.p, payload.n, dst, &n) == SNAPPY_OK ? 0 : -EBADMSG;
	case SST_LZ4:
		if (raw_bytes > INT_MAX || payload.n > INT_MAX)
			return -EBADMSG;
		return LZ4_decompress_safe((const char *)payload.p, dst, (int)payload.n, (int)raw_bytes) == (int)raw_bytes
			? 0
			: -EBADMSG;
	case SST_ZSTD:
		return decode_zstd(payload, NULL, dst, raw_bytes);
	case SST_ZSTD_DICT:
		return dict ? decode_zstd(payload, dict, dst, raw_bytes) : -EBADMSG;
	case SST_CODECS:
	default:
		return -EBADMSG;
	}
}

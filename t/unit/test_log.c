/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit log without faults: acknowledged records are replayed once and in order,
 * segments are started and removed, and damage is distinguished from the end of
 * the log.
 */
#include "t/unit/log_lib.h"

static void test_round_trip_of_all_sizes(void **state)
{
	static const size_t sizes[] = {8, 9, 15, 16, 100, 1000, 65000, 65536, 70000, 262144, 262200, 5 << 20};
	struct env *e = *state;
	struct seen s;

	start(e, 64 << 20, 0);
	for (unsigned i = 0; i < 48; i++)
		must_put(e, i + 1, sizes[i % 12], i % 5 == 0);
	assert_int_equal(log_next_lsn(e->log), 49);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(replay(e, &s), 0);
	holds(&s, 1, 48);
	assert_int_equal(s.last, 48);
	assert_int_equal(replay_from(e->dir, 40, &s), 0);
	holds(&s, 40, 48);
	assert_int_equal(replay_from(e->dir, 49, &s), 0);
	assert_int_equal(s.count, 0);
	assert_int_equal(s.last, 48);
}

static int count_one(void *arg, const struct log_record *r)
{
	*(uint64_t *)arg += 1 + r->batch.n + r->row_from.n;
	return 0;
}

static void test_empty_batch_and_largest_rows(void **state)
{
	struct env *e = *state;
	uint8_t *row = calloc(1, 65536);
	struct log_record r = {.row_from = tfs_bytes_of(row, 65536), .row_to = tfs_bytes_of(row, 65535)};
	struct log_ticket t;
	uint64_t n = 0;
	struct log_end end;

	start(e, 1 << 20, 0);
	assert_int_equal(log_submit(e->log, &r, true, &t), 0);
	assert_int_equal(log_wait(e->log, &t), 0);
	r.batch = tfs_bytes_of(row, (size_t)LOG_MAX_BODY_BYTES + 1);
	assert_int_equal(log_submit(e->log, &r, true, &t), -EINVAL);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(log_replay(e->dir, 1, count_one, &n, &end, NULL), 0);
	assert_int_equal(n, 65537);
	assert_int_equal(end.last_lsn, 1);
	free(row);
}

static void test_nothing_there(void **state)
{
	struct env *e = *state;
	struct seen s;
	char *why = NULL;

	assert_int_equal(replay(e, &s), 0);
	assert_int_equal(s.count, 0);
	start(e, 4096, 0);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(replay(e, &s), 0);
	assert_int_equal(s.count, 0);
	assert_int_equal(s.last, 0);
	assert_int_equal(log_replay("/dev/shm/absent-tfs-log", 1, see, &s, &s.end, &why), -ENOENT);
	assert_non_null(why);
	free(why);
}

static void test_stops_where_the_callback_says(void **state)
{
	struct env *e = *state;
	struct seen s = {.whole = true, .stop_at = 3};

	start(e, 4096, 0);
	for (unsigned i = 1; i <= 5; i++)
		must_put(e, i, 100, false);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(log_replay(e->dir, 1, see, &s, &s.end, NULL), 42);
	assert_int_equal(s.count, 3);
}

static void test_segments_roll_and_are_dropped(void **state)
{
	struct env *e = *state;
	struct seen s;
	uint64_t all;

	start(e, 4096, 0);
	for (unsigned i = 1; i <= 100; i++)
		must_put(e, i, 500, i % 10 == 0);
	all = log_bytes(e->log);
	assert_true(files(e) > 10);
	assert_true(all > 50000);
	assert_int_equal(log_drop_below(e->log, 1), 0);
	assert_int_equal(log_bytes(e->log), all);
	assert_int_equal(log_drop_below(e->log, 51), 0);
	assert_true(log_bytes(e->log) < all / 2 + 8192);
	assert_int_equal(replay_from(e->dir, 51, &s), 0);
	holds(&s, 51, 100);
	assert_int_equal(replay_from(e->dir, 1, &s), -EBADMSG);
	assert_int_equal(log_drop_below(e->log, UINT64_MAX), 0);
	assert_int_equal(files(e), 3); /* the active one, two to be used again */
	must_put(e, 101, 500, true);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(replay_from(e->dir, 101, &s), 0);
	holds(&s, 101, 101);
	assert_int_equal(replay_from(e->dir, 0, &s), 0);
	assert_true(s.count >= 1);
}

static void test_a_group_is_cut_at_the_segment_end(void **state)
{
	struct env *e = *state;
	struct log_ticket t[200];
	uint8_t batch[512];
	struct log_record r;
	struct log_stats st;
	struct seen s;

	start(e, 8192, 0);
	for (unsigned i = 0; i < 200; i++) {
		fill(&r, batch, i + 1, 300);
		assert_int_equal(log_submit(e->log, &r, i % 2, &t[i]), 0);
	}
	for (unsigned i = 200; i-- > 0;)
		assert_int_equal(log_wait(e->log, &t[i]), 0);
	log_get_stats(e->log, &st);
	assert_int_equal(st.records, 200);
	assert_int_equal(st.groups, files(e));
	assert_int_equal(st.syncs, 1);
	assert_int_equal(log_durable_lsn(e->log), 200);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(replay(e, &s), 0);
	holds(&s, 1, 200);
}

/* ---- damage ---- */
static uint64_t stated_in(struct tfs_bytes img)
{
	struct log_header h;
	struct log_frame f;
	uint64_t most = 0;

	if (log_header_decode(img, &h))
		return 0;
	most = h.durable_lsn;
	for (size_t at = LOG_HEADER_BYTES; at + LOG_FRAME_BYTES <= img.n; at += 8)
		if (log_frame_decode(tfs_bytes_of(img.p + at, img.n - at), h.salt, &f) && f.durable > most)
			most = f.durable;
	return most;
}

/* Small log of synced and unsynced records in one file, as a crash would leave it. */
static void small_log(struct env *e, struct buf *img, char **path, bool clean)
{
	start(e, 1 << 20, 0);
	for (unsigned i = 1; i <= 12; i++)
		must_put(e, i, 8 + i * 5, i % 3 == 0);
	*path = path_join(e->dir, "0000000001.log");
	if (clean) {
		assert_int_equal(log_free(e->log), 0);
		assert_int_equal(file_read_all(*path, 1 << 20, img), 0);
	} else {
		assert_int_equal(file_read_all(*path, 1 << 20, img), 0);
		assert_int_equal(log_free(e->log), 0);
	}
	e->log = NULL;
}

static void test_every_truncation(void **state)
{
	struct env *e = *state;
	struct buf img = {0};
	struct seen s;
	char *path;

	for (int clean = 0; clean < 2; clean++) {
		small_log(e, &img, &path, clean);
		for (size_t n = 0; n <= img.n; n++) {
			uint64_t stated = stated_in(tfs_bytes_of(img.p, n));

			write_image(path, img.p, n);
			assert_int_equal(replay(e, &s), 0);
			assert_true(s.last >= stated);
			if (s.count)
				holds(&s, 1, s.count);
		}
		assert_int_equal(s.count, 12);
		buf_fini(&img);
		free(path);
		empty_dir(e->dir);
	}
}

static void test_every_damaged_byte(void **state)
{
	struct env *e = *state;
	struct buf img = {0};
	struct seen s;
	char *path;

	for (int clean = 0; clean < 2; clean++) {
		unsigned refused = 0, shorter = 0;

		small_log(e, &img, &path, clean);
		for (size_t at = 0; at < img.n; at++) {
			uint8_t was = img.p[at];
			int err;

			img.p[at] ^= (uint8_t)(1 + at % 255);
			write_image(path, img.p, img.n);
			err = replay(e, &s);
			if (err) {
				assert_int_equal(err, -EBADMSG);
				refused++;
			} else {
				assert_true(s.last >= stated_in(buf_bytes(&img)));
				assert_true(s.last >= (clean ? 12 : 9) || at >= img.n);
				shorter += s.count < 12;
			}
			if (s.count)
				holds(&s, 1, s.count);
			img.p[at] = was;
		}
		assert_true(refused > 500);
		if (clean)
			assert_int_equal(shorter, 0);
		else
			assert_true(shorter > 100);
		buf_fini(&img);
		free(path);
		empty_dir(e->dir);
	}
}

/* The page that holds both copies of the header, and whatever follows: lost records that had been stated durable are not "no log". */
static void test_a_lost_head(void **state)
{
	struct env *e = *state;
	struct buf img = {0};
	struct seen s;
	char *path;

	for (int clean = 0; clean < 2; clean++) {
		unsigned refused = 0;

		small_log(e, &img, &path, clean);
		for (size_t n = LOG_HEADER_BYTES; n <= img.n; n += 8) {
			bool stated = false;

			for (size_t at = n; at + LOG_FRAME_BYTES <= img.n; at += 8)
				stated = stated ||
					(load_be32(img.p + at + 4) == LOG_MAGIC && load_be32(img.p + at + 32) != LOG_VOID &&
						load_be64(img.p + at + 16) > 0);
			memset(img.p, 0, n);
			write_image(path, img.p, img.n);
			for (uint64_t from = 0; from < 2; from++) {
				assert_int_equal(replay_from(e->dir, from, &s), stated ? -EBADMSG : 0);
				assert_int_equal(s.count, 0);
			}
			refused += stated;
		}
		assert_true(refused > 50);
		buf_fini(&img);
		free(path);
		empty_dir(e->dir);
	}
	/* Never synced: a crash may lose the header and keep records. */
	start(e, 1 << 20, 0);
	for (unsigned i = 1; i <= 5; i++)
		must_put(e, i, 100, false);
	path = path_join(e->dir, "0000000001.log");
	assert_int_equal(file_read_all(path, 1 << 20, &img), 0);
	memset(img.p, 0, LOG_HEADER_BYTES);
	write_image(path, img.p, img.n);
	assert_int_equal(replay(e, &s), 0);
	assert_int_equal(s.count, 0);
	assert_int_equal(log_free(e->log), 0);
	free(path);
	buf_fini(&img);
}

static void test_a_missing_or_short_segment(void **state)
{
	struct env *e = *state;
	struct seen s;
	struct buf img = {0};
	char *path = path_join(e->dir, "0000000002.log");

	start(e, 2048, 0);
	for (unsigned i = 1; i <= 20; i++)
		must_put(e, i, 400, true);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(file_read_all(path, 1 << 20, &img), 0);
	write_image(path, img.p, img.n / 2);
	assert_int_equal(replay(e, &s), -EBADMSG);
	assert_int_equal(file_unlink(path), 0);
	assert_int_equal(replay(e, &s), -EBADMSG);
	free(path);
	/* Unsynced: the same gap is just the end. */
	empty_dir(e->dir);
	start(e, 2048, 0);
	for (unsigned i = 1; i <= 20; i++)
		must_put(e, i, 400, false);
	path = path_join(e->dir, "0000000002.log");
	write_image(path, img.p, 0);
	assert_int_equal(replay(e, &s), 0);
	assert_true(s.count > 0 && s.count < 20);
	holds(&s, 1, s.count);
	assert_int_equal(log_free(e->log), 0);
	free(path);
	buf_fini(&img);
}

/* ---- damage after the last sync ---- */
struct store_image { /* the segments as kill -9 leaves them, by number */
	struct buf seg[64];
	char *path[64];
	size_t count;
	size_t mark; /* offset of the mark in the last one */
};

static int take_path(void *arg, const char *name, bool is_dir)
{
	struct store_image *im = arg;

	im->path[im->count++] = strdup(name);
	return 0;
}

/* Records of mixed sizes, some segments unsynced when they were ended, the last record synced, then idle. */
static uint64_t marked_log(struct env *e, struct store_image *im, uint64_t random)
{
	struct log_options o = {.dir = e->dir,
		.incarnation = 7,
		.segment_bytes = 1024 + random % 16 * 1024,
		.sync_interval_us = 3600000000u,
		.mark_us = 100,
		.pool = e->pool};
	uint64_t n = 2 + random / 16 % 60;
	struct log_header h;
	struct log_frame f;

	assert_int_equal(log_new(&o, &e->log), 0);
	for (uint64_t i = 1; i <= n; i++)
		must_put(e, i, 8 + (i * 37 + random) % 600, i == n || i % (2 + random % 50) == 0);
	memset(im, 0, sizeof *im);
	assert_int_equal(file_list(e->dir, take_path, im), 0);
	for (size_t i = 0; i < im->count; i++) {
		char *path = path_join(e->dir, im->path[i]);

		free(im->path[i]);
		im->path[i] = path;
		do { /* the mark comes by itself */
			struct buf *b = &im->seg[i];

			buf_fini(b);
			assert_int_equal(file_read_all(path, 1 << 20, b), 0);
			assert_int_equal(log_header_decode(buf_bytes(b), &h), 0);
			for (im->mark = b->n - b->n % 8; im->mark >= LOG_HEADER_BYTES; im->mark -= 8)
				if (log_frame_decode(tfs_bytes_of(b->p + im->mark, b->n - im->mark), h.salt, &f) &&
					f.kind == LOG_MARK && f.durable == n)
					break;
		} while (i + 1 == im->count && im->mark < LOG_HEADER_BYTES);
	}
	assert_int_equal(log_free(e->log), 0);
	empty_dir(e->dir);
	return n;
}

static void damage(struct store_image *im, uint64_t random)
{
	static const size_t units[] = {512, 4096};
	size_t unit = units[random & 1], i = (random >> 8) % im->count, k = im->count > 1 ? (random >> 16) % (im->count - 1) : 0;
	size_t end = i + 1 < im->count ? im->seg[i].n : im->mark, at = (random >> 24) % end;
	struct buf was;

	switch ((random >> 1) % 5) {
	case 0:
	case 1:
		im->seg[i].p[at] ^= (uint8_t)(1u << (random >> 4) % 8);
		break;
	case 2: /* a sector or page that lies in front of the mark */
		at -= at % unit;
		if (at + unit <= end)
			memset(im->seg[i].p + at, 0, unit);
		break;
	case 3: /* a segment before the last is truncated or removed */
		if (im->count > 1) {
			buf_reset(&im->seg[k]);
			if (random & 32)
				free(im->path[k]), im->path[k] = NULL;
		}
		break;
	default: /* two of them are swapped; the last one, too */
		was = im->seg[i];
		im->seg[i] = im->seg[k];
		im->seg[k] = was;
	}
}

static void test_a_thousand_damaged_logs(void **state)
{
	struct env *e = *state;
	unsigned refused = 0, counted = 0, whole = 0;
	uint64_t random = 12;

	for (unsigned run = 0; run < 1000; run++) {
		struct store_image im;
		struct seen s;
		uint64_t n;
		int err;

		random = random * 6364136223846793005u + 1442695040888963407u;
		n = marked_log(e, &im, random >> 33);
		damage(&im, (random >> 20) ^ (uint64_t)run * 0x9e3779b97f4a7c15u);
		for (size_t i = 0; i < im.count; i++) {
			struct file *f;

			if (im.path[i]) {
				assert_int_equal(file_open(im.path[i], FILE_CREATE, &f), 0);
				assert_int_equal(im.seg[i].n ? file_pwrite(f, im.seg[i].p, im.seg[i].n, 0) : 0, 0);
				file_close(f);
			}
			free(im.path[i]);
			buf_fini(&im.seg[i]);
		}
		err = replay(e, &s);
		assert_true(err == 0 || err == -EBADMSG);
		if (err)
			refused++;
		else if (s.end.lost)
			counted++;
		else if (s.count < n)
			fail_msg("run %u: %llu of %llu records, and nothing said", run, (unsigned long long)s.count,
				(unsigned long long)n);
		else
			whole++;
		empty_dir(e->dir);
	}
	print_message("# refused %u, counted %u, whole %u\n", refused, counted, whole);
	assert_true(refused > 500 && whole > 20);
}

/* Before the mark is written, or where a power cut took it: the records after the damage are counted. */
static void test_lost_records_are_counted(void **state)
{
	struct env *e = *state;
	char *path = path_join(e->dir, "0000000001.log"), *why = NULL;
	struct buf img = {0};
	struct seen s;

	start(e, 1 << 20, 0);
	for (unsigned i = 1; i <= 200; i++)
		must_put(e, i, 100, i == 200);
	assert_int_equal(file_read_all(path, 1 << 20, &img), 0);
	img.p[LOG_HEADER_BYTES + 900] ^= 4;
	write_image(path, img.p, img.n);
	assert_int_equal(replay(e, &s), 0);
	assert_in_range(s.count, 4, 7);
	assert_int_equal(s.end.lost, 199 - s.count);
	assert_int_equal(log_replay(e->dir, 1, count_one, &s.count, &s.end, &why), 0);
	assert_non_null(strstr(why, "0000000001.log"));
	assert_non_null(strstr(why, "lost"));
	assert_int_equal(log_free(e->log), 0);
	buf_fini(&img);
	free(path);
	free(why);
}

static void test_another_logs_segment_and_a_newer_format(void **state)
{
	struct env *e = *state;
	struct seen s;
	struct buf img = {0};
	char *one = path_join(e->dir, "0000000001.log"), *two = path_join(e->dir, "0000000002.log");
	struct file *f;

	start(e, 1 << 20, 0);
	must_put(e, 1, 100, true);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(file_read_all(one, 1 << 20, &img), 0);
	assert_int_equal(file_open(two, FILE_CREATE, &f), 0);
	assert_int_equal(file_pwrite(f, img.p, img.n, 0), 0);
	file_close(f);
	assert_int_equal(replay(e, &s), 0); /* its header says number 1: passed over */
	holds(&s, 1, 1);
	log_header_encode(img.p, &(struct log_header){7, 2, 2, 1, 4711});
	write_image(two, img.p, img.n);
	assert_int_equal(replay(e, &s), -EBADMSG);
	assert_int_equal(file_unlink(two), 0);
	assert_int_equal(file_read_all(one, 1 << 20, &img), 0);
	put_be32(img.p + 8, 2);
	put_be32(img.p + 60, crc32c(0, img.p, 60));
	write_image(one, img.p, img.n);
	assert_int_equal(replay(e, &s), -ENOTSUP);
	buf_fini(&img);
	free(one);
	free(two);
}

static void test_eight_threads(void **state)
{
	struct env *e = *state;
	struct worker *w = calloc(8, sizeof *w);
	struct seen s;
	struct log_stats st;

	start(e, 64 << 10, 0);
	run_workers(w, 8, e, 400);
	log_get_stats(e->log, &st);
	assert_int_equal(st.records, 3200);
	assert_int_equal(st.switches, 0);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(replay(e, &s), 0);
	assert_int_equal(s.count, 3200);
	check_workers(w, 8, &s);
	free(w);
}

static void test_memory_is_bounded(void **state)
{
	struct env *e = *state;
	struct log_stats st;

	start(e, 64 << 20, 0);
	for (unsigned i = 1; i <= 300; i++) {
		must_put(e, i, 1 << 20, false);
		log_get_stats(e->log, &st);
		assert_true(st.retained_bytes < (66u << 20));
	}
	assert_true(st.syncs > 0);
	assert_int_equal(log_free(e->log), 0);
}

static void test_lazy_sync(void **state)
{
	struct env *e = *state;
	struct log_options o = {
		.dir = e->dir, .incarnation = 1, .segment_bytes = 1 << 20, .sync_interval_us = 1000, .pool = e->pool};
	struct log_ticket t;
	uint8_t batch[64];
	struct log_record r;

	assert_int_equal(log_new(&o, &e->log), 0);
	fill(&r, batch, 1, 64);
	assert_int_equal(log_submit(e->log, &r, false, &t), 0);
	assert_int_equal(log_wait(e->log, &t), 0);
	while (log_durable_lsn(e->log) < 1)
		sched_yield();
	assert_int_equal(log_free(e->log), 0);
}

static int no_room_err;

static int no_room_for_zeros(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if (op != FILE_OP_WRITE || n < 100000)
		return 0;
	++*(_Atomic unsigned *)arg;
	return no_room_err;
}

static void test_zeros_ahead_keep_records(void **state)
{
	struct env *e = *state;
	struct log_ticket t;
	struct seen s;
	uint8_t *batch = malloc(300000);
	struct log_record r;
	uint64_t bytes = 0, tag = 0;
	char *path = path_join(e->dir, "0000000001.log");

	start(e, 64 << 20, 0);
	/* Frequent syncs first (zeroed ahead), then a burst over the zeroed part. */
	for (; tag < 400; tag++)
		must_put(e, tag + 1, 1000, true);
	assert_int_equal(file_stat_size(path, &bytes), 0);
	assert_true(bytes > log_bytes(e->log) + 4096); /* something lies ahead */
	for (; tag < 440; tag++) {
		fill(&r, batch, tag + 1, 250000);
		assert_int_equal(log_submit(e->log, &r, tag % 9 == 0, &t), 0);
		assert_int_equal(log_wait(e->log, &t), 0);
	}
	for (; tag < 500; tag++)
		must_put(e, tag + 1, 1000, true);
	assert_int_equal(replay(e, &s), 0);
	holds(&s, 1, 500);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(replay(e, &s), 0);
	holds(&s, 1, 500);
	free(path);
	free(batch);
}

/* No room on the disk, or of a quota. */
static void no_room_for_zeros_ahead(struct env *e, int err)
{
	_Atomic unsigned refused = 0;
	struct log_stats st;
	struct seen s;

	no_room_err = err;
	start(e, 64 << 20, 0);
	file_set_hook(no_room_for_zeros, &refused);
	for (uint64_t tag = 1; tag <= 400; tag++)
		must_put(e, tag, 1000, true);
	file_set_hook(NULL, NULL);
	assert_int_equal(refused, 1); /* and is not asked for again */
	log_get_stats(e->log, &st);
	assert_int_equal(st.switches, 0);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(replay(e, &s), 0);
	holds(&s, 1, 400);
}

static void test_no_room_for_zeros_ahead(void **state)
{
	no_room_for_zeros_ahead(*state, -ENOSPC);
}

static void test_no_quota_for_zeros_ahead(void **state)
{
	no_room_for_zeros_ahead(*state, -EDQUOT);
}

static void test_zeros_ahead_end_with_the_segment(void **state)
{
	struct env *e = *state;
	uint64_t bytes = 0;
	struct seen s;
	char *path = path_join(e->dir, "0000000001.log");

	start(e, 100 << 10, 0);
	for (uint64_t tag = 1; tag <= 50; tag++)
		must_put(e, tag, 1000, true);
	assert_int_equal(file_stat_size(path, &bytes), 0);
	assert_int_equal(bytes, 100 << 10);
	for (uint64_t tag = 51; tag <= 300; tag++)
		must_put(e, tag, 1000, true);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(replay(e, &s), 0);
	holds(&s, 1, 300);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(test_round_trip_of_all_sizes),
		T(test_empty_batch_and_largest_rows),
		T(test_nothing_there),
		T(test_stops_where_the_callback_says),
		T(test_segments_roll_and_are_dropped),
		T(test_a_group_is_cut_at_the_segment_end),
		T(test_every_truncation),
		T(test_every_damaged_byte),
		T(test_a_lost_head),
		T(test_a_missing_or_short_segment),
		T(test_a_thousand_damaged_logs),
		T(test_lost_records_are_counted),
		T(test_another_logs_segment_and_a_newer_format),
		T(test_eight_threads),
		T(test_memory_is_bounded),
		T(test_lazy_sync),
		T(test_zeros_ahead_keep_records),
		T(test_no_room_for_zeros_ahead),
		T(test_no_quota_for_zeros_ahead),
		T(test_zeros_ahead_end_with_the_segment),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

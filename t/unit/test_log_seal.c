/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A zombie against the seal of its log: threads write to the log while it is sealed,
 * and go on after that.  Every acknowledged record is replayed from the seal, and the
 * same records each time, whatever the zombie writes.  Without the look-up of the
 * fence, acknowledged records are missing.
 */
#include "t/unit/log_lib.h"

#include "engine/log/log_seal.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { WRITERS = 4, EACH = 150, NO_MARKS = 11 /* a seed */ };

static struct zombie {
	struct env *e;
	char dir[80], dead[80];
	bool looks;               /* the fence looks the directory up */
	uint64_t id;              /* of dir */
	_Atomic uint64_t dropped; /* redo points are at this LSN */
	_Atomic unsigned acked, done;
	_Atomic uint64_t random; /* for faults and pauses */
	unsigned faults;         /* one operation of this many fails; 0 if none does */
	struct worker w[WRITERS];
} z;

static uint64_t next_random(void)
{
	uint64_t x = atomic_fetch_add(&z.random, 0x9e3779b97f4a7c15u);

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static int look(void *arg)
{
	uint64_t id;

	if (next_random() % 4 == 0)
		usleep((unsigned)(next_random() % 100)); /* between the sync and the look */
	if (!z.looks)
		return 0;
	return file_look_up(z.dir, &id) || id != z.id ? -FENCE_LOST : 0;
}

static __thread bool is_writer;

static int fail_some(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	return is_writer && z.faults && op != FILE_OP_LOOK_UP && next_random() % z.faults == 0 ? -EIO : 0;
}

static void *write_on(void *arg)
{
	struct worker *w = arg;

	is_writer = true;
	for (w->count = 0; w->count < EACH; w->count++) {
		struct log_ticket t = {0};
		uint64_t tag = ((uint64_t)w->id << 32) + w->count + 1;
		int err = put(w->e, tag, 8 + next_random() % 700, true, &t);

		w->did[w->count].err = err;
		w->did[w->count].tag = tag;
		w->did[w->count].lsn = t.lsn;
		z.acked += err == 0;
		if (err == -FENCE_LOST)
			break;
		if (err)
			usleep(200); /* refused */
		if (w->id == 1 && w->count % 40 == 39) {
			z.dropped = log_durable_lsn(w->e->log) / 2;
			(void)!log_drop_below(w->e->log, z.dropped);
		}
	}
	z.done++;
	return NULL;
}

static void zombie_start(struct env *e, uint64_t seed, bool looks)
{
	struct log_options o = {
		.dir = z.dir,
		.incarnation = 1,
		.segment_bytes = 2048u << seed % 6,
		.sync_interval_us = 2000,
		.retry_us = 300,
		.mark_us = seed == NO_MARKS ? 3600000000u : 100,
		.pool = e->pool,
		.fence = look,
	};

	memset(&z, 0, sizeof(z));
	snprintf(z.dir, sizeof(z.dir), "%s/1", e->dir);
	snprintf(z.dead, sizeof(z.dead), "%s/1.dead", e->dir);
	z.e = e;
	z.random = seed;
	z.looks = looks;
	assert_int_equal(file_mkdir(z.dir), 0);
	assert_int_equal(file_look_up(z.dir, &z.id), 0);
	file_set_hook(fail_some, NULL);
	assert_int_equal(log_new(&o, &e->log), 0);
	for (unsigned i = 0; i < WRITERS; i++) {
		z.w[i].e = e;
		z.w[i].id = i + 1;
	}
}

static void zombie_run(void)
{
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&z.w[i].thread, NULL, write_on, &z.w[i]), 0);
}

static void zombie_end(void)
{
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(z.w[i].thread, NULL);
	z.faults = 0;
	(void)!log_free(z.e->log);
}

static void remove_log(void)
{
	file_set_hook(NULL, NULL);
	empty_dir(z.dead);
	assert_int_equal(file_rmdir(z.dead), 0);
}

/* Seals, and passes the seal through its bytes, as the lock service does. */
static void seal_log(struct env *e, struct log_seal *seal)
{
	struct buf b = {0};
	char *why = NULL;
	int err = log_seal_make(e->dir, 1, seal, &why);

	if (err && err != -EBADMSG)
		print_message("# seal: %s: %s\n", strerror(-err), why ? why : "");
	assert_int_equal(err, 0);
	assert_null(why);
	assert_int_equal(log_seal_encode(seal, &b), 0);
	log_seal_fini(seal);
	assert_int_equal(log_seal_decode(buf_bytes(&b), seal), 0);
	buf_fini(&b);
}

static int replay_seal(const struct log_seal *seal, uint64_t from, struct seen *s)
{
	char *why = NULL;
	int err;

	memset(s, 0, sizeof(*s));
	s->whole = true;
	err = log_replay_sealed(z.dead, seal, from, see, s, &s->end, &why);
	s->last = s->end.last_lsn;
	assert_true(s->whole);
	if (err && err != -EBADMSG)
		print_message("# %s\n", why ? why : "");
	assert_true(!err || why);
	free(why);
	return err;
}

/* Returns the acknowledged records from LSN `from` on that were not replayed. */
static unsigned missing(const struct seen *s, uint64_t from)
{
	unsigned n = 0;

	for (unsigned i = 0; i < WRITERS; i++)
		for (unsigned k = 0; k < z.w[i].count; k++) {
			uint64_t lsn = z.w[i].did[k].lsn, at = 0;

			if (z.w[i].did[k].err || lsn < from)
				continue;
			while (at < s->count && s->lsn[at] != lsn)
				at++;
			n += at == s->count || s->tag[at] != z.w[i].did[k].tag;
		}
	return n;
}

static void same(const struct seen *a, const struct seen *b)
{
	assert_int_equal(a->last, b->last);
	assert_int_equal(a->count, b->count);
	assert_memory_equal(a->lsn, b->lsn, b->count * sizeof(*b->lsn));
	assert_memory_equal(a->tag, b->tag, b->count * sizeof(*b->tag));
}

/* ---- what a zombie may write ---- */
static void put_frames(int fd, uint64_t at, const struct log_seal *seal, uint64_t lsn)
{
	uint8_t out[1024] = {0}, *p = out, batch[64];
	struct log_record r;

	for (unsigned i = 0; i < 4; i++) {
		struct log_frame f = {.lsn = lsn + i, .durable = lsn + i - 1, .kind = LOG_DATA};

		fill(&r, batch, 0xbad + i, sizeof(batch));
		f.table = r.table;
		assert_true(log_body_bytes(&r, &f.body_bytes));
		f.body_crc = log_body_encode(p + LOG_FRAME_BYTES, f.body_bytes, &r);
		log_frame_encode(p, &f, seal->salt);
		p += log_frame_total(&f);
	}
	struct log_frame mark = {.lsn = lsn + 40, .durable = lsn + 40, .kind = LOG_MARK};

	log_frame_encode(p, &mark, seal->salt);
	p += LOG_FRAME_BYTES;
	assert_int_equal(pwrite(fd, out, (size_t)(p - out), (off_t)at), p - out);
}

static void put_segment(int dir, const struct log_seal *seal, uint64_t number, uint64_t first)
{
	struct log_header h = {
		.incarnation = 1, .number = number, .first_lsn = first, .durable_lsn = first - 1, .salt = seal->salt};
	uint8_t header[LOG_HEADER_BYTES];
	char name[32];
	int fd;

	log_segment_name(name, number);
	fd = openat(dir, name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	log_header_encode(header, &h);
	assert_int_equal(pwrite(fd, header, sizeof(header), 0), sizeof(header));
	put_frames(fd, LOG_HEADER_BYTES, seal, first);
	close(fd);
}

/* Below the length and at the end of each file; new files, by the old directory; statements of durability. */
static void vandalise(int dir, const struct log_seal *seal)
{
	const struct log_seal_segment *last = &seal->segments[seal->count - 1];

	for (size_t i = 0; i < seal->count; i++) {
		const struct log_seal_segment *g = &seal->segments[i];
		struct stat st;
		char name[32];
		int fd;

		log_segment_name(name, g->number);
		fd = openat(dir, name, O_RDWR);
		if (fd < 0)
			continue; /* dropped */
		assert_int_equal(fstat(fd, &st), 0);
		put_frames(fd, g->end, seal, g->last_lsn + 1);
		put_frames(fd, ((uint64_t)st.st_size + 4095) & ~4095ull, seal, g->last_lsn + 5);
		close(fd);
	}
	put_segment(dir, seal, last->number + 1, last->last_lsn + 1);
	put_segment(dir, seal, last->number + 7, seal->segments[0].first_lsn + 1);
}

/* ---- tests ---- */
static unsigned zombie_round(struct env *e, uint64_t seed, bool looks)
{
	static struct seen first, second;
	struct log_seal seal;
	uint64_t from;
	unsigned wait, lost;
	int dir, err;

	zombie_start(e, seed, looks);
	z.faults = seed % 3 ? 0 : 60 + seed % 100;
	wait = (unsigned)(seed * 7919 % (WRITERS * EACH));
	dir = open(z.dir, O_RDONLY | O_DIRECTORY);
	zombie_run();
	while (z.acked < wait && z.done < WRITERS)
		sched_yield();
	seal_log(e, &seal);
	from = z.dropped; /* drops that come now do not find the directory */
	/* The zombie is still writing.  Without a look it may have stated records that the seal missed: damage. */
	err = replay_seal(&seal, from, &first);
	assert_true(!err || (!looks && err == -EBADMSG));
	if (looks && seed % 2 && seal.count)
		vandalise(dir, &seal);
	zombie_end();
	if (looks && seal.count)
		vandalise(dir, &seal);
	close(dir);
	assert_int_equal(replay_seal(&seal, from, &second), err);
	same(&first, &second);
	lost = missing(&second, from);
	log_seal_fini(&seal);
	remove_log();
	return lost;
}

static void test_no_acknowledged_record_is_missing(void **state)
{
	for (uint64_t seed = 1; seed <= 300; seed++) {
		unsigned lost = zombie_round(*state, seed, true);

		if (lost)
			print_message("# round %llu\n", (unsigned long long)seed);
		assert_int_equal(lost, 0);
	}
}

static void test_without_the_look_up_records_are_lost(void **state)
{
	unsigned lost = 0, rounds = 0;

	for (uint64_t seed = 1; seed <= 100; seed++) {
		unsigned n = zombie_round(*state, seed, false);

		lost += n;
		rounds += n > 0;
	}
	print_message("# %u acknowledged records lost, in %u of 100 rounds\n", lost, rounds);
	assert_true(lost > 0);
}

/* The n-th file operation of sealing and all later operations fail; then it is repeated. */
static struct {
	unsigned from, n;
} stop;

static int stop_from(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	return ++stop.n >= stop.from ? -EIO : 0;
}

static void test_sealing_continues_after_any_step(void **state)
{
	struct env *e = *state;
	static struct seen s, again;
	struct log_seal seal, second;
	bool whole = false;

	for (stop.from = 1; !whole; stop.from++) {
		char *why = NULL;
		int err;

		zombie_start(e, 5, true);
		zombie_run();
		zombie_end();
		stop.n = 0;
		file_set_hook(stop_from, NULL);
		err = log_seal_make(e->dir, 1, &seal, &why);
		file_set_hook(NULL, NULL);
		free(why);
		whole = !err;
		if (!err)
			log_seal_fini(&seal);
		else
			assert_int_equal(err, -EIO);
		seal_log(e, &seal);
		seal_log(e, &second); /* by another master */
		assert_int_equal(replay_seal(&seal, z.dropped, &s), 0);
		assert_int_equal(replay_seal(&second, z.dropped, &again), 0);
		same(&s, &again);
		assert_int_equal(missing(&s, z.dropped), 0);
		log_seal_fini(&seal);
		log_seal_fini(&second);
		remove_log();
	}
	print_message("# %u steps\n", stop.from);
	assert_true(stop.from > 10);
}

static unsigned openings, absent; /* the opening of a segment that finds no file; from 1 on */

static int absent_at(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	return op == FILE_OP_OPEN && strstr(path, ".dead/") && ++openings == absent ? -ENOENT : 0;
}

/* The zombie drops a segment while its log is sealed: that is no error, and there is no reason of one. */
static void test_a_dropped_segment_is_no_error(void **state)
{
	struct env *e = *state;
	struct log_seal seal;

	zombie_start(e, 5, true);
	zombie_run();
	zombie_end();
	for (absent = 1; absent == 1 || openings >= absent - 1; absent++) {
		char *why = NULL;
		int err;

		openings = 0;
		file_set_hook(absent_at, NULL);
		err = log_seal_make(e->dir, 1, &seal, &why);
		file_set_hook(NULL, NULL);
		assert_true(err || !why);
		free(why);
		if (!err)
			log_seal_fini(&seal);
	}
	assert_true(absent > 4);
	remove_log();
}

static void *seal_too(void *arg)
{
	char *why;

	return (void *)(intptr_t)log_seal_make(z.e->dir, 1, arg, &why);
}

static void test_two_masters_seal_at_once(void **state)
{
	struct env *e = *state;
	static struct seen s;
	struct log_seal mine, other;
	pthread_t thread;
	void *err;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		zombie_start(e, seed, true);
		zombie_run();
		while (z.acked < seed * 10 && z.done < WRITERS)
			sched_yield();
		assert_int_equal(pthread_create(&thread, NULL, seal_too, &other), 0);
		seal_log(e, &mine);
		pthread_join(thread, &err);
		assert_int_equal((intptr_t)err, 0);
		zombie_end();
		/* Either may be the stored one. */
		assert_int_equal(replay_seal(&mine, z.dropped, &s), 0);
		assert_int_equal(missing(&s, z.dropped), 0);
		assert_int_equal(replay_seal(&other, z.dropped, &s), 0);
		assert_int_equal(missing(&s, z.dropped), 0);
		log_seal_fini(&mine);
		log_seal_fini(&other);
		remove_log();
	}
}

static void whole_log(struct env *e, struct log_seal *seal)
{
	zombie_start(e, 3, true);
	for (unsigned i = 1; i <= 200; i++)
		must_put(e, i, 200, true);
	assert_int_equal(log_free(e->log), 0);
	if (seal)
		seal_log(e, seal);
}

static void change(const char *dir, uint64_t number, uint64_t at, bool cut)
{
	char path[128], name[32];
	uint8_t byte;
	int fd;

	log_segment_name(name, number);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	if (cut) {
		assert_int_equal(ftruncate(fd, (off_t)at), 0);
	} else {
		assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
		byte ^= 4;
		assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	}
	close(fd);
}

static void test_damage_behind_the_seal_is_found(void **state)
{
	static struct seen s;
	struct log_seal seal;
	const struct log_seal_segment *g;

	whole_log(*state, &seal);
	assert_true(seal.count > 2);
	assert_int_equal(replay_seal(&seal, 1, &s), 0);
	holds(&s, 1, 200);
	g = &seal.segments[1];
	change(z.dead, g->number, g->end - 20, false);
	assert_int_equal(replay_seal(&seal, 1, &s), -EBADMSG);
	assert_int_equal(replay_seal(&seal, g->last_lsn + 1, &s), 0);
	holds(&s, g->last_lsn + 1, 200);
	change(z.dead, g->number, g->end - 100, true);
	assert_int_equal(replay_seal(&seal, 1, &s), -EBADMSG);
	{
		char path[128], name[32];

		log_segment_name(name, g->number);
		snprintf(path, sizeof(path), "%s/%s", z.dead, name);
		assert_int_equal(unlink(path), 0);
	}
	assert_int_equal(replay_seal(&seal, 1, &s), -EBADMSG);
	assert_int_equal(replay_seal(&seal, g->last_lsn + 1, &s), 0);
	/* Headers are not read, because a zombie may erase the header of a segment that it has dropped. */
	change(z.dead, seal.segments[2].number, 8, false);
	change(z.dead, seal.segments[2].number, 520, false);
	assert_int_equal(replay_seal(&seal, g->last_lsn + 1, &s), 0);
	log_seal_fini(&seal);
	remove_log();
}

static void test_damage_before_the_seal_stops_who_needs_it(void **state)
{
	struct env *e = *state;
	static struct seen s;
	struct log_seal seal;

	whole_log(e, NULL);
	change(z.dir, 2, 1024 + 300, false);
	seal_log(e, &seal);
	assert_true(seal.stated >= 199);
	assert_int_equal(replay_seal(&seal, 1, &s), -EBADMSG);
	assert_true(seal.count > 2 && seal.segments[2].last_lsn > 20);
	assert_int_equal(replay_seal(&seal, seal.segments[2].first_lsn, &s), 0);
	holds(&s, seal.segments[2].first_lsn, 200);
	log_seal_fini(&seal);
	remove_log();
}

/* In the last segment, after all statements: the end of the log, as for log_replay. */
static void test_an_unstated_end_is_the_end(void **state)
{
	struct env *e = *state;
	static struct seen s, plain;
	struct log_seal seal;

	zombie_start(e, NO_MARKS, true);
	for (unsigned i = 1; i <= 20; i++)
		must_put(e, i, 200, true);
	assert_int_equal(log_scan(z.dir, &seal, NULL), 0);
	assert_int_equal(seal.count, 1);
	change(z.dir, 1, seal.segments[0].end - 20, false);
	log_seal_fini(&seal);
	assert_int_equal(replay_from(z.dir, 1, &plain), 0);
	z.looks = false;
	seal_log(e, &seal);
	assert_int_equal(replay_seal(&seal, 1, &s), 0);
	same(&plain, &s);
	assert_true(s.count < 20);
	log_seal_fini(&seal);
	(void)!log_free(e->log);
	remove_log();
}

static void test_absent_and_empty_logs(void **state)
{
	struct env *e = *state;
	static struct seen s;
	struct log_seal seal;
	char *why;

	assert_int_equal(log_seal_make(e->dir, 1, &seal, &why), -ENOENT);
	zombie_start(e, 1, true);
	assert_int_equal(log_free(e->log), 0);
	seal_log(e, &seal);
	assert_int_equal(seal.count, 0);
	assert_int_equal(replay_seal(&seal, 1, &s), 0);
	assert_int_equal(s.count, 0);
	log_seal_fini(&seal);
	remove_log();
}

static void test_damaged_seals_are_refused(void **state)
{
	struct log_seal seal, got;
	struct buf b = {0};
	struct log_seal_segment wrong[] = {
		{2, 1, 0, 4096}, {2, 0, 5, 4096}, {2, 1, 200, 4096}, {2, 1, 5, 4097}, {2, 1, 5, 512}, {2, 1, 5, UINT64_MAX}};

	whole_log(*state, &seal);
	assert_int_equal(log_seal_encode(&seal, &b), 0);
	for (size_t i = 0; i < b.n * 8; i++) {
		b.p[i / 8] ^= (uint8_t)(1u << i % 8);
		assert_int_equal(log_seal_decode(buf_bytes(&b), &got), -EBADMSG);
		b.p[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	for (size_t n = 0; n < b.n; n++)
		assert_int_equal(log_seal_decode(tfs_bytes_of(b.p, n), &got), -EBADMSG);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct log_seal bad = {.segments = &wrong[i], .count = 1};

		b.n = 0;
		assert_int_equal(log_seal_encode(&bad, &b), 0);
		assert_int_equal(log_seal_decode(buf_bytes(&b), &got), -EBADMSG);
	}
	buf_fini(&b);
	log_seal_fini(&seal);
	remove_log();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_acknowledged_record_is_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_the_look_up_records_are_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sealing_continues_after_any_step, setup, teardown),
		cmocka_unit_test_setup_teardown(test_two_masters_seal_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damage_behind_the_seal_is_found, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damage_before_the_seal_stops_who_needs_it, setup, teardown),
		cmocka_unit_test_setup_teardown(test_an_unstated_end_is_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_dropped_segment_is_no_error, setup, teardown),
		cmocka_unit_test_setup_teardown(test_absent_and_empty_logs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_seals_are_refused, setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

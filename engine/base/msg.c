/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages: one line each, to standard error or syslog, and into a ring.
 *
 * The caller's thread formats the line on its stack, in LINE_BYTES at most.
 * Control characters become '?', so a name in a message cannot forge another line.
 * One write(2) outside the lock writes it: lines of several threads do not
 * mix, and a stuck terminal blocks only its writer.  The ring owns copies of
 * its lines; without memory for a copy the line is written only.
 */
#include "engine/base/msg.h"

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/mutex.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

enum { RING_LINES = 1000, RING_BYTES = 256 * 1024, LINE_BYTES = 2048 };
enum sink { SINK_STDERR, SINK_SYSLOG, SINK_NOWHERE };

static const char *const level_names[] = {
	[MSG_ERROR] = "error",
	[MSG_WARNING] = "warning",
	[MSG_NOTICE] = "notice",
	[MSG_INFO] = "info",
	[MSG_DEBUG] = "debug",
};
static const int syslog_levels[] = {
	[MSG_ERROR] = LOG_ERR,
	[MSG_WARNING] = LOG_WARNING,
	[MSG_NOTICE] = LOG_NOTICE,
	[MSG_INFO] = LOG_INFO,
	[MSG_DEBUG] = LOG_DEBUG,
};
enum { LEVELS = sizeof(level_names) / sizeof(level_names[0]) };

static atomic_int least_level = MSG_NOTICE;
static atomic_int sink = SINK_STDERR;
static atomic_bool with_levels;
static atomic_uint errors, damage;

static struct {
	struct mutex lock; /* guards all below */
	char *line[RING_LINES];
	unsigned first, count;
	uint32_t total; /* lines ever added, modulo 2^32 */
	size_t bytes;
	char ident[64]; /* syslog keeps a pointer to it */
} ring = {.lock = MUTEX_INITIALIZER(RANK_MSG)};

/* Errors and warnings of the last MSG_REPEAT_US, as written to standard error or syslog. */
static struct {
	struct mutex lock; /* guards all below */
	struct written {
		uint64_t hash, until_us; /* until_us 0: unused */
		unsigned left_out;       /* lines of this text that were left out since then */
	} texts[MSG_TEXTS];
	unsigned others; /* lines for whose texts there was no place */
} written = {.lock = MUTEX_INITIALIZER(RANK_MSG)};

void msg_set_level(enum msg_level least)
{
	atomic_store(&least_level, (int)least);
}

bool msg_level_parse(const char *name, enum msg_level *out)
{
	for (int i = 0; i < (int)LEVELS; i++) {
		if (strcmp(name, level_names[i]) == 0) {
			*out = (enum msg_level)i;
			return true;
		}
	}
	return false;
}

void msg_to_syslog(const char *ident)
{
	mutex_lock(&ring.lock);
	snprintf(ring.ident, sizeof(ring.ident), "%s", ident);
	openlog(ring.ident, LOG_PID, LOG_DAEMON);
	mutex_unlock(&ring.lock);
	atomic_store(&sink, SINK_SYSLOG);
}

void msg_with_levels(void)
{
	atomic_store(&with_levels, true);
}

void why_set(char **why, const char *fmt, ...)
{
	va_list ap;

	free(*why);
	va_start(ap, fmt);
	if (vasprintf(why, fmt, ap) < 0)
		*why = NULL;
	va_end(ap);
}

unsigned msg_error_count(void)
{
	return errors;
}

void msg_count_damage(void)
{
	atomic_fetch_add(&damage, 1);
}

unsigned msg_damage_count(void)
{
	return damage;
}

void msg_to_nowhere(void)
{
	atomic_store(&sink, SINK_NOWHERE);
}

static void drop_oldest_locked(void)
{
	char *old = ring.line[ring.first];

	ring.bytes -= strlen(old);
	ring.line[ring.first] = NULL;
	ring.first = (ring.first + 1) % RING_LINES;
	ring.count--;
	free(old);
}

static void ring_add(const char *time_text, const char *text)
{
	size_t n = strlen(time_text) + 1 + strlen(text);
	char *line = malloc(n + 1);

	if (!line)
		return;
	snprintf(line, n + 1, "%s %s", time_text, text);
	mutex_lock(&ring.lock);
	while (ring.count == RING_LINES || (ring.count > 0 && ring.bytes + n > RING_BYTES))
		drop_oldest_locked();
	ring.line[(ring.first + ring.count) % RING_LINES] = line;
	ring.count++;
	ring.total++;
	ring.bytes += n;
	mutex_unlock(&ring.lock);
}

static void time_text_of(char *dst, size_t dst_bytes)
{
	struct timespec ts;
	struct tm tm;
	char day[32];

	clock_gettime(CLOCK_REALTIME, &ts);
	if (!gmtime_r(&ts.tv_sec, &tm) || strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm) == 0)
		day[0] = '\0';
	snprintf(dst, dst_bytes, "%s.%06ldZ", day, ts.tv_nsec / 1000);
}

static void write_whole(const char *p, size_t n)
{
	while (n > 0) {
		ssize_t got = write(STDERR_FILENO, p, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return; /* there is no place to report it */
		p += got;
		n -= (size_t)got;
	}
}

/* Returns false if the text is not to be written.  Sets *left_out and *others, to be written with it. */
static bool is_due(const char *text, unsigned *left_out, unsigned *others)
{
	const uint64_t hash = hash_private(0, tfs_str(text)), now = monotonic_us();
	struct written *place = NULL;
	bool due = false, known = false;

	mutex_lock(&written.lock);
	for (unsigned i = 0; i < MSG_TEXTS && !known; i++) {
		struct written *w = &written.texts[i];

		known = w->until_us && w->hash == hash;
		if (known || (!place && now >= w->until_us))
			place = w;
	}
	due = place && now >= place->until_us;
	if (due) {
		*left_out = known ? place->left_out : 0;
		*others = written.others + place->left_out - *left_out;
		written.others = 0;
		*place = (struct written){.hash = hash, .until_us = now + MSG_REPEAT_US};
	} else if (place) {
		place->left_out++;
	} else {
		written.others++;
	}
	mutex_unlock(&written.lock);
	return due;
}

void msg_log(enum msg_level level, const char *fmt, ...)
{
	enum { LEVEL_BYTES = 3, COUNT_BYTES = 120 }; /* "<5>" */
	int saved_errno = errno;
	char line[LEVEL_BYTES + LINE_BYTES + COUNT_BYTES], *text = line + LEVEL_BYTES, when[64];
	unsigned left_out = 0, others = 0;
	va_list ap;
	int head, body;
	size_t n;

	if (level == MSG_ERROR)
		atomic_fetch_add(&errors, 1);
	if ((int)level > atomic_load(&least_level))
		return;
	head = snprintf(text, LINE_BYTES, "%s: ", level_names[level]);
	va_start(ap, fmt);
	errno = saved_errno; /* for %m */
	body = vsnprintf(text + head, LINE_BYTES - 1 - (size_t)head, fmt, ap);
	va_end(ap);
	if (body < 0)
		text[head] = '\0';
	text_hide_controls(text);
	n = strlen(text);
	text[n++] = '\n';
	text[n] = '\0';

	time_text_of(when, sizeof(when));
	ring_add(when, text);
	if (atomic_load(&sink) == SINK_NOWHERE || (level <= MSG_WARNING && !is_due(text, &left_out, &others))) {
		errno = saved_errno;
		return;
	}
	if (left_out)
		n += (size_t)snprintf(text + n - 1, COUNT_BYTES / 2, " (%u more such lines since the last one)\n", left_out) - 1;
	if (others)
		n += (size_t)snprintf(text + n - 1, COUNT_BYTES / 2, " (%u other lines were left out)\n", others) - 1;
	switch ((enum sink)atomic_load(&sink)) {
	case SINK_STDERR:
		line[0] = '<';
		line[1] = (char)('0' + syslog_levels[level]);
		line[2] = '>';
		if (atomic_load(&with_levels))
			write_whole(line, LEVEL_BYTES + n);
		else
			write_whole(text, n);
		break;
	case SINK_SYSLOG:
		syslog(syslog_levels[level], "%s", text + head);
		break;
	case SINK_NOWHERE:
		break;
	}
	errno = saved_errno;
}

int msg_ring_after(uint32_t *seen, bool all, struct buf *out)
{
	uint32_t news;
	int err;

	mutex_lock(&ring.lock);
	news = !all && ring.total - *seen < ring.count ? ring.total - *seen : ring.count;
	err = buf_reserve(out, ring.bytes);
	for (unsigned i = ring.count - news; err == 0 && i < ring.count; i++) {
		const char *line = ring.line[(ring.first + i) % RING_LINES];

		err = buf_append(out, line, strlen(line));
	}
	if (err == 0)
		*seen = ring.total;
	mutex_unlock(&ring.lock);
	return err;
}

int msg_ring(struct buf *out)
{
	uint32_t seen = 0;

	return msg_ring_after(&seen, true, out);
}

const char *msg_quote(char *dst, size_t dst_bytes, struct tfs_bytes s)
{
	static const char hex[] = "0123456789abcdef";
	size_t n = 0;

	if (dst_bytes < 8) {
		if (dst_bytes)
			dst[0] = '\0';
		return dst;
	}
	dst[n++] = '"';
	for (size_t i = 0; i < s.n; i++) {
		uint8_t b = s.p[i];

		/* The longest unit, the dots, the closing quote and the NUL must fit. */
		if (n + 4 + 3 + 2 > dst_bytes) {
			memcpy(dst + n, "...", 3);
			n += 3;
			break;
		}
		if (b == '"' || b == '\\') {
			dst[n++] = '\\';
			dst[n++] = (char)b;
		} else if (b >= 0x20 && b < 0x7f) {
			dst[n++] = (char)b;
		} else {
			dst[n++] = '\\';
			dst[n++] = 'x';
			dst[n++] = hex[b >> 4];
			dst[n++] = hex[b & 15];
		}
	}
	dst[n++] = '"';
	dst[n] = '\0';
	return dst;
}

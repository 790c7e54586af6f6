/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress of a long command, and the signals that interrupt it
 * (progress.h).  The signals are blocked in all threads and received by
 * sigtimedwait, so no system call of the command ends early, and the thread may
 * call any function.  stderr's lock orders its lines and the messages of other
 * threads.
 */
#include "engine/tool/progress.h"

#include "engine/base/clock.h"
#include "engine/base/units.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { TERMINAL_S = 1, FILE_S = 60 };

static _Atomic uint64_t bytes, cells, rows, done, total;
static _Atomic bool about;

static struct progress_options options;
static sigset_t signals;
static uint64_t began_us;
static bool terminal;
static _Atomic int received; /* the signal */
static int wake = -1;        /* an eventfd, readable when a signal came */
/* Under stderr's lock. */
static bool shown; /* the terminal has the line */
static bool ever_shown, ended, failed;

static const char *time_text(double seconds, char *out, size_t room)
{
	uint64_t s = (uint64_t)(seconds + 0.5);

	if (s < 120)
		snprintf(out, room, "%" PRIu64 " s", s);
	else if (s < 7200)
		snprintf(out, room, "%" PRIu64 " min", s / 60);
	else
		snprintf(out, room, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s / 60 % 60);
	return out;
}

/* Prints the line.  Under stderr's lock. */
static void print_locked(bool at_end)
{
	double seconds = (double)(monotonic_us() - began_us + 1) / 1e6;
	uint64_t n = bytes, parts = done, all = total;
	char size[UNITS_SIZE_TEXT], rate[UNITS_SIZE_TEXT], left[40];

	fprintf(stderr, "%s%s %s", terminal ? "\r\033[K" : "", failed ? "read" : options.done, units_size_text(n, size));
	if (failed)
		fprintf(stderr, ", %s %" PRIu64 " cells", options.done, (uint64_t)cells);
	else if (cells)
		fprintf(stderr, ", %" PRIu64 " cells", (uint64_t)cells);
	if (rows)
		fprintf(stderr, ", %" PRIu64 " rows", (uint64_t)rows);
	fprintf(stderr, ", %s/s", units_size_text((uint64_t)((double)n / seconds), rate));
	if (at_end)
		fprintf(stderr, ", %.1f s", seconds);
	else if (parts && all > parts)
		fprintf(stderr, ", %s%s left", about ? "about " : "",
			time_text(seconds * (double)(all - parts) / (double)parts, left, sizeof(left)));
	fputs(at_end || !terminal ? "\n" : "", stderr);
	shown = terminal && !at_end;
	ever_shown = true;
}

void progress_clear(void)
{
	flockfile(stderr);
	if (shown)
		fputs("\r\033[K", stderr);
	shown = false;
	funlockfile(stderr);
}

static void show(void)
{
	flockfile(stderr);
	if (!ended && options.refresh)
		options.refresh(options.arg);
	if (!ended)
		print_locked(false);
	funlockfile(stderr);
}

/* The next signal has its default action. */
static void unblock(void)
{
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

static void interrupt(int number)
{
	uint64_t one = 1;

	unblock();
	progress_clear();
	if (options.polls) {
		received = number;
		(void)!write(wake, &one, sizeof(one));
		return;
	}
	/* Reports that were printed so far. */
	if (ftrylockfile(stdout) == 0)
		fflush(stdout);
	fprintf(stderr, "tabletctl: %s: interrupted%s%s\n", options.command, *options.interrupted ? ": " : "", options.interrupted);
	_exit(128 + number);
}

static void *watch(void *arg)
{
	const struct timespec interval = {.tv_sec = terminal ? TERMINAL_S : FILE_S};
	int number;

	while ((number = sigtimedwait(&signals, NULL, &interval)) <= 0)
		if (!options.quiet)
			show();
	interrupt(number);
	return arg;
}

void progress_begin(const struct progress_options *o)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction is;
	pthread_t thread;

	options = *o;
	began_us = monotonic_us();
	terminal = isatty(STDERR_FILENO);
	sigemptyset(&signals);
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (sigaction(numbers[i], NULL, &is) == 0 && is.sa_handler != SIG_IGN)
			sigaddset(&signals, numbers[i]);
	wake = o->polls ? eventfd(0, EFD_CLOEXEC) : -1;
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	/* Without the thread the signals kill the program, and only the last line is printed. */
	if ((o->polls && wake < 0) || pthread_create(&thread, NULL, watch, NULL))
		unblock();
	else
		pthread_detach(thread);
}

void progress_failed(void)
{
	flockfile(stderr);
	failed = true;
	funlockfile(stderr);
}

void progress_end(void)
{
	flockfile(stderr);
	ended = true;
	if (!options.quiet && (options.summary || ever_shown))
		print_locked(true);
	funlockfile(stderr);
}

void progress_total(uint64_t n, bool estimated)
{
	total = n;
	about = estimated;
}

void progress_add(uint64_t n)
{
	bytes += n;
	done += n;
}

void progress_set(uint64_t n, uint64_t parts)
{
	bytes = n;
	done = parts;
}

void progress_cells(uint64_t n, uint64_t of_rows)
{
	cells = n;
	rows = of_rows;
}

int progress_signal(void)
{
	return received;
}

bool progress_wait_input(int fd)
{
	struct pollfd polled[] = {{.fd = fd, .events = POLLIN}, {.fd = wake, .events = POLLIN}};

	while (!received && poll(polled, 2, -1) >= 0 && !polled[0].revents && !polled[1].revents)
		;
	return !received;
}

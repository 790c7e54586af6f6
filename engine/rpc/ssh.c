/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs ssh (ssh.h).  No local shell sees the command, the host or the path.  At the host the login's
 * shell does, so the path is in single quotes.
 *
 * The program is held by a descriptor (pidfd), not by its number: a program that embeds the
 * library may reap all its children.  When the connection is closed, ssh reads the end of its
 * input and ends.  An ssh that does not end, because its network is cut, is killed by the
 * next call.
 */
#include "engine/rpc/ssh.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/base/outcome.h"
#include "engine/base/socket.h"
#include "engine/rpc/events.h"

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 64u
#define OPTIONS_MAX 16u
#define LINE_MAX_BYTES 512u
#define LINES_LOGGED 16u /* the most lines of one connection that are logged */
#define READS_MOST 16u   /* reads at once, because others use the loop, too */
#define END_MS 1000
#define FIRST_US 120000000u
#define PAUSE_FIRST_US 1000000u
#define PAUSE_MOST_US 8000000u

struct ssh {
	char *words, *argv[WORDS_MAX + OPTIONS_MAX];
	unsigned word_count;
	char *host, *remote;
	int process; /* a pidfd, or -1 */
	pid_t pid;
	bool was_greeted; /* an earlier connection was greeted */
	uint64_t failed_us, pause_us;
	/* Used by the loop's thread, or while it does not read. */
	int errors; /* the program's standard error, -1: closed */
	ev_io readable;
	char line[LINE_MAX_BYTES], last[LINE_MAX_BYTES]; /* the line that is being read, and the last one */
	char told[LINE_MAX_BYTES];                       /* the last line that was logged */
	size_t line_n;
	unsigned logged;
	_Atomic bool greeted;
};

/* ---- standard error ---- */

static void end_line(struct ssh *s)
{
	s->line[s->line_n] = 0;
	text_hide_controls(s->line);
	if (s->line_n)
		memcpy(s->last, s->line, s->line_n + 1);
	/* While the host cannot be reached, each try says the same. */
	if (s->line_n && s->greeted && strcmp(s->line, s->told) && s->logged++ < LINES_LOGGED) {
		memcpy(s->told, s->line, s->line_n + 1);
		msg_warning("%s: %s", s->host, s->line);
	}
	s->line_n = 0;
}

static void take_errors(struct ssh *s, char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n' || p[i] == '\r')
			end_line(s);
		else if (s->line_n < sizeof(s->line) - 1)
			s->line[s->line_n++] = p[i];
		if ((unsigned char)p[i] < 0x20 && !strchr("\n\r\t", p[i]))
			p[i] = '?';
	}
	if (!s->greeted)
		(void)!write(STDERR_FILENO, p, n);
}

/* Returns false at the end. */
static bool read_errors(struct ssh *s)
{
	char p[4096];
	ssize_t n = 1;

	for (unsigned i = 0; i < READS_MOST && (n = read(s->errors, p, sizeof(p))) > 0; i++)
		take_errors(s, p, (size_t)n);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void on_errors(struct ev_loop *loop, ev_io *w, int revents)
{
	if (!read_errors(w->data))
		ev_io_stop(loop, w);
}

static void begin_errors(void *arg)
{
	struct ssh *s = arg;

	ev_io_init(&s->readable, on_errors, s->errors, EV_READ);
	s->readable.data = s;
	ev_io_start(events_loop(), &s->readable);
}

static void end_errors(void *arg)
{
	struct ssh *s = arg;

	ev_io_stop(events_loop(), &s->readable);
	(void)read_errors(s);
	end_line(s);
	close(s->errors);
	s->errors = -1;
}

/* ---- the program ---- */

static bool has_ended(struct ssh *s)
{
	struct pollfd p = {.fd = s->process, .events = POLLIN};
	int n;

	do
		n = poll(&p, 1, END_MS);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

/* The connection is closed, so the program ends by itself, unless its network is stuck. */
static void end_program(struct ssh *s)
{
	siginfo_t info;

	if (s->process < 0)
		return;
	if (!has_ended(s)) {
		(void)pidfd_send_signal(s->process, SIGTERM, NULL, 0);
		if (!has_ended(s))
			(void)pidfd_send_signal(s->process, SIGKILL, NULL, 0);
	}
	while (waitid(P_PIDFD, (id_t)s->process, &info, WEXITED) < 0 && errno == EINTR)
		;
	close(s->process);
	s->process = -1;
	events_run(end_errors, s);
}

/* Returns a descriptor above the descriptors of the standard streams. */
static int above_standard(int fd)
{
	int other = fd > STDERR_FILENO ? fd : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), err = errno;

	if (other != fd)
		close(fd);
	return other < 0 ? -err : other;
}

/* in_out, errors: the program's ends.  Returns 0 or -errno. */
static int spawn(struct ssh *s, int in_out, int errors)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int err;

	sigemptyset(&none);
	sigfillset(&all);
	if (posix_spawn_file_actions_init(&files))
		return -ENOMEM;
	if (posix_spawnattr_init(&attr)) {
		posix_spawn_file_actions_destroy(&files);
		return -ENOMEM;
	}
	err = posix_spawn_file_actions_adddup2(&files, in_out, STDIN_FILENO) ||
			posix_spawn_file_actions_adddup2(&files, in_out, STDOUT_FILENO) ||
			posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO) ||
			posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1) ||
			posix_spawnattr_setsigmask(&attr, &none) || posix_spawnattr_setsigdefault(&attr, &all) ||
			posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)
		? -ENOMEM
		: -posix_spawnp(&s->pid, s->argv[0], &files, &attr, s->argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	if (!err) {
		s->process = pidfd_open(s->pid, 0);
		err = s->process < 0 ? -errno : 0;
		if (err)
			(void)kill(s->pid, SIGKILL);
	}
	return err;
}

/* Takes the descriptors of the program's side. */
static int start_program(struct ssh *s, int in_out, int errors)
{
	int err;

	in_out = above_standard(in_out);
	errors = above_standard(errors);
	err = in_out < 0 ? in_out : errors < 0 ? errors : spawn(s, in_out, errors);
	if (in_out >= 0)
		close(in_out);
	if (errors >= 0)
		close(errors);
	return err;
}

static int start(struct ssh *s, int *fd)
{
	int pair[2], errors[2], err;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	if (pipe2(errors, O_CLOEXEC)) {
		err = -errno;
		close(pair[0]);
		close(pair[1]);
		return err;
	}
	err = start_program(s, pair[1], errors[1]);
	if (!err && (fcntl(pair[0], F_SETFL, O_NONBLOCK) || fcntl(errors[0], F_SETFL, O_NONBLOCK)))
		err = -errno;
	if (err) {
		close(pair[0]);
		close(errors[0]);
		return err;
	}
	s->errors = errors[0];
	*fd = pair[0];
	events_run(begin_errors, s);
	return 0;
}

/* ---- the command ---- */

static void set_argv(struct ssh *s)
{
	static const char *const options[] = {"-x", "-a", "-oClearAllForwardings=yes", "-oServerAliveInterval=15"};
	unsigned n = s->word_count;

	for (unsigned i = 0; i < sizeof(options) / sizeof(*options); i++)
		s->argv[n++] = (char *)(uintptr_t)options[i];
	if (s->was_greeted)
		s->argv[n++] = (char *)(uintptr_t) "-oBatchMode=yes";
	s->argv[n++] = (char *)(uintptr_t) "--";
	s->argv[n++] = s->host;
	s->argv[n++] = s->remote;
	s->argv[n] = NULL;
}

/* Cuts the text at blanks outside of quotes, which are removed.  Returns false if there is no word, or a quote without end. */
static bool cut_words(struct ssh *s)
{
	char *to = s->words, quote = 0;
	bool in_word = false;

	for (const char *c = s->words; *c; c++) {
		if (!quote && strchr(" \t\n", *c)) {
			if (in_word)
				*to++ = 0;
			in_word = false;
			continue;
		}
		if (!in_word) {
			if (s->word_count == WORDS_MAX)
				return false;
			s->argv[s->word_count++] = to;
			in_word = true;
		}
		if (quote ? *c == quote : *c == '\'' || *c == '"')
			quote = quote ? 0 : *c;
		else
			*to++ = *c;
	}
	*to = 0;
	return s->word_count && *s->argv[0] && !quote;
}

/* The command for the shell of the login at the host. */
static char *remote_command(const char *dir)
{
	struct buf b = {0};
	int err = buf_printf(&b, "tabletctl serve --stdio -- '");

	for (; *dir && !err; dir++)
		err = *dir == '\'' ? buf_printf(&b, "'\\''") : buf_u8(&b, (uint8_t)*dir);
	if (!err)
		err = buf_append(&b, "'", 2);
	if (err)
		buf_fini(&b);
	return (char *)b.p;
}

/* ---- lifetime ---- */

int ssh_new(const char *command, const char *host, const char *dir, struct ssh **out, char **why)
{
	struct ssh *s = calloc(1, sizeof(*s));
	int err = 0;

	if (!s)
		return -ENOMEM;
	s->process = s->errors = -1;
	s->words = strdup(command);
	s->host = strdup(host);
	s->remote = remote_command(dir);
	if (!s->words || !s->host || !s->remote)
		err = -ENOMEM;
	else if (!cut_words(s)) {
		err = -EINVAL;
		why_set(why, "ssh: \"%s\" is not a program with options", command);
	}
	if (err)
		ssh_free(s);
	else
		*out = s;
	return err;
}

void ssh_free(struct ssh *s)
{
	if (!s)
		return;
	end_program(s);
	free(s->words);
	free(s->host);
	free(s->remote);
	free(s);
}

static void note_failure(struct ssh *s)
{
	s->failed_us = monotonic_us();
	s->pause_us = !s->pause_us ? PAUSE_FIRST_US : s->pause_us < PAUSE_MOST_US / 2 ? 2 * s->pause_us : PAUSE_MOST_US;
}

int ssh_connect(struct ssh *s, int *fd, char **why)
{
	int err;

	if (s->pause_us && monotonic_us() - s->failed_us < s->pause_us) {
		if (*s->last)
			why_set(why, "%s: %s", s->host, s->last);
		return -UNREACHABLE;
	}
	end_program(s);
	*s->last = 0;
	s->logged = 0;
	s->greeted = s->was_greeted;
	set_argv(s);
	err = start(s, fd);
	if (err) {
		why_set(why, "%s: %s", s->argv[0], strerror(-err));
		note_failure(s);
	}
	return err;
}

uint64_t ssh_patience_us(const struct ssh *s, uint64_t timeout_us)
{
	return s->was_greeted || timeout_us > FIRST_US ? timeout_us : FIRST_US;
}

void ssh_greeted(struct ssh *s)
{
	s->greeted = s->was_greeted = true;
	s->pause_us = 0;
}

void ssh_failed(struct ssh *s, char **why)
{
	end_program(s);
	note_failure(s);
	if (!*why && *s->last)
		why_set(why, "%s: %s", s->host, s->last);
}

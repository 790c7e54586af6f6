/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletfs-master zk://HOST:PORT[,HOST:PORT]/CLUSTER DIR -o listen=ADDR:PORT,keys=FILE
 *
 * A master of a cluster, which may have to wait until the leading master ends (engine/lead.c).  It
 * runs in the foreground, as service managers want it.  SIGTERM and SIGINT end it.  SIGHUP reads
 * the settings again, if a service manager waits for its messages; otherwise SIGHUP ends the
 * process, as when a terminal closes.
 *
 * The watchdog: four times in the manager's period the main thread asks the own listener.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/base/outcome.h"
#include "engine/cluster.h"
#include "engine/daemon/http.h"
#include "engine/daemon/notify.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME "tabletfs-master"
#define ANSWER_US 1000000u
#define OPTIONS_MOST 16u

static void print_usage(void)
{
	fputs("usage: " NAME " " SOURCE_CLUSTER_FORM " DIR -o listen=ADDR:PORT,keys=FILE\n"
	      "\n"
	      "A master of a cluster: it assigns tablets to servers, and makes and changes tables.  Of\n"
	      "several one leads, and another one takes over when it ends (tabletfs-cluster(7)).\n"
	      "\n"
	      "    -f                     accepted; it always stays in the foreground\n"
	      "    -o listen=ADDR:PORT    where the servers of the cluster reach it\n"
	      "    -o keys=FILE           the keys of the cluster\n"
	      "    -o http=ADDR:PORT      serve /metrics and /status over HTTP\n"
	      "    -o config=FILE         settings (tabletfs.conf(5)): keys, listen, http, http_token, log_level\n"
	      "    -V   --version         print the version\n"
	      "    -h   --help            print this\n",
		stdout);
}

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s%s%s\n", NAME, what, *why ? ": " : "", why);
	return 1;
}

/* One word of -o. */
static int take_option(struct tfs_options *o, char *word, char **why)
{
	char *value = strchr(word, '=');

	if (value)
		*value++ = 0;
	if (value && strcmp(word, "config") == 0)
		return tfs_options_load(o, value, why);
	if (value && strcmp(word, "listen") == 0 && strlen(value) < sizeof(o->listen)) {
		snprintf(o->listen, sizeof(o->listen), "%s", value);
		return 0;
	}
	if (value && strcmp(word, "http") == 0 && strlen(value) < sizeof(o->http)) {
		snprintf(o->http, sizeof(o->http), "%s", value);
		return 0;
	}
	if (value && strcmp(word, "keys") == 0) {
		char *path = file_real(value);

		if (!path || strlen(path) >= sizeof(o->keys)) {
			why_set(why, "keys=%s: %s", value, path ? "is too long" : strerror(errno));
			free(path);
			return -EINVAL;
		}
		snprintf(o->keys, sizeof(o->keys), "%s", path);
		free(path);
		return 0;
	}
	why_set(why, "-o %s: no such option, or a wrong value; see '" NAME " -h'", word);
	return -EINVAL;
}

/* words: copies of the values of -o, which stay as they are. */
static int take_options(struct tfs_options *o, char *const *words, unsigned count, char **why)
{
	int err = 0;

	tfs_options_init(o);
	for (unsigned i = 0; i < count && !err; i++) {
		char *copy = strdup(words[i]), *rest = copy, *word;

		err = copy ? 0 : -ENOMEM;
		while (!err && (word = strsep(&rest, ",")) != NULL)
			err = *word ? take_option(o, word, why) : 0;
		free(copy);
	}
	return err;
}

/* ---- its HTTP documents ---- */

static int render_metrics(void *arg, bool named, struct buf *out)
{
	return cluster_lead_metrics(arg, out);
}

static int render_status(void *arg, bool named, struct buf *out)
{
	return cluster_lead_status(arg, out);
}

static int begin_http(struct lead *lead)
{
	static const struct http_document documents[] = {
		{"/metrics", "text/plain; version=0.0.4; charset=utf-8", render_metrics},
		{"/status", "text/plain; charset=utf-8", render_status},
		{0},
	};

	return http_start(&(struct http_contents){.documents = documents, .arg = lead});
}

/* ---- running ---- */

static void reload(struct lead *lead, char *const *words, unsigned count)
{
	struct tfs_options o;
	char *why = NULL;
	int err;

	notify_say("RELOADING=1");
	err = take_options(&o, words, count, &why);
	if (!err)
		err = cluster_lead_read_keys(lead, &why);
	if (!err && o.log_level >= 0)
		msg_set_level((enum msg_level)o.log_level);
	if (err)
		msg_error("the settings stay as they are: %s", why ? why : error_text(err));
	else
		msg_notice("the settings were read again: log_level and the keys");
	free(why);
	notify_say("READY=1");
}

/* Returns when a signal ends the process. */
static void run(struct lead *lead, bool managed, const sigset_t *signals, char *const *words, unsigned count)
{
	const uint64_t step_us = notify_watchdog_us() / 4;
	const struct timespec step = {.tv_sec = (time_t)(step_us / 1000000), .tv_nsec = (long)(step_us % 1000000) * 1000};
	int sig;

	notify_say("READY=1");
	for (;;) {
		if (step_us && cluster_lead_answers(lead, ANSWER_US) == 0)
			notify_say("WATCHDOG=1");
		sig = sigtimedwait(signals, NULL, step_us ? &step : NULL);
		if (sig == SIGHUP && managed)
			reload(lead, words, count);
		else if (sig > 0)
			break;
	}
	notify_say("STOPPING=1");
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {0}};
	struct store_source at = {0};
	struct tfs_options o;
	struct lead *lead = NULL;
	char *why = NULL, *dir, *text = NULL;
	sigset_t signals;
	const bool managed = notify_init();
	char *words[OPTIONS_MOST];
	unsigned count = 0;
	int letter, err = 0;

	while ((letter = getopt_long(argc, argv, "fhVo:", longs, NULL)) != -1) {
		if (letter == 'h') {
			print_usage();
			return 0;
		}
		if (letter == 'V') {
			puts(NAME " " PACKAGE_VERSION);
			return 0;
		}
		if (letter == '?')
			return 1;
		if (letter == 'o' && count == OPTIONS_MOST)
			return fail("there are too many -o", "");
		if (letter == 'o')
			words[count++] = optarg;
	}
	err = take_options(&o, words, count, &why);
	if (!err && argc - optind != 2)
		return fail("two arguments are needed, " SOURCE_CLUSTER_FORM " and DIR; see '" NAME " -h'", "");
	dir = err ? NULL : file_real(argv[optind + 1]);
	if (!err && (!dir || asprintf(&text, "%s%s", argv[optind], dir) < 0))
		err = -ENOENT;
	if (!err)
		err = store_source_parse(text, &at, &why);
	if (!err && at.kind != SOURCE_CLUSTER) {
		err = -EINVAL;
		why_set(&why, "%s: must be " SOURCE_CLUSTER_FORM, argv[optind]);
	}
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	if (!err && o.log_level >= 0)
		msg_set_level((enum msg_level)o.log_level);
	if (!err && *o.http)
		err = http_listen(o.http, o.http_token, &why);
	if (!err)
		err = cluster_lead(&at, &o, &lead, &why);
	if (!err)
		err = begin_http(lead);
	if (err)
		fail(why ? why : argc > optind + 1 ? argv[optind + 1] : NAME, why ? "" : error_text(err));
	else
		run(lead, managed, &signals, words, count);
	http_stop();
	cluster_lead_end(lead);
	store_source_fini(&at);
	free(why);
	free(text);
	free(dir);
	return err ? 1 : 0;
}

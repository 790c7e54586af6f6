/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletfs-master zk://HOST:PORT[,HOST:PORT]/CLUSTER DIR -o listen=ADDR:PORT,keys=FILE
 *
 * A master of a cluster, or one that waits until the leading master ends (engine/lead.c).  It runs
 * in the foreground, as service managers want it.  SIGTERM and SIGINT end it.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/base/outcome.h"
#include "engine/cluster.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "tabletfs-master"

static void print_usage(void)
{
	fputs("usage: " NAME " zk://HOST:PORT[,HOST:PORT]/CLUSTER DIR -o listen=ADDR:PORT,keys=FILE\n"
	      "\n"
	      "A master of a cluster: it assigns tablets to servers, and makes and changes tables.  Of\n"
	      "several one leads, and another one takes over when it ends (tabletfs-cluster(7)).\n"
	      "\n"
	      "    -f                     accepted; it always stays in the foreground\n"
	      "    -o listen=ADDR:PORT    where the servers of the cluster reach it\n"
	      "    -o keys=FILE           the keys of the cluster\n"
	      "    -o config=FILE         settings (tabletfs.conf(5)): keys, listen, log_level\n"
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

static int take_options(struct tfs_options *o, char *words, char **why)
{
	char *word;
	int err = 0;

	while (!err && (word = strsep(&words, ",")) != NULL)
		err = *word ? take_option(o, word, why) : 0;
	return err;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {0}};
	struct store_source at = {0};
	struct tfs_options o;
	struct lead *lead = NULL;
	char *why = NULL, *dir, *text = NULL;
	sigset_t signals;
	int letter, sig = 0, err = 0;

	tfs_options_init(&o);
	while (!err && (letter = getopt_long(argc, argv, "fhVo:", longs, NULL)) != -1) {
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
		err = letter == 'o' ? take_options(&o, optarg, &why) : 0;
	}
	if (!err && argc - optind != 2)
		return fail("two arguments are needed, zk://HOST:PORT/CLUSTER and DIR; see '" NAME " -h'", "");
	dir = err ? NULL : file_real(argv[optind + 1]);
	if (!err && (!dir || asprintf(&text, "%s%s", argv[optind], dir) < 0))
		err = -ENOENT;
	if (!err)
		err = store_source_parse(text, &at, &why);
	if (!err && at.kind != SOURCE_CLUSTER) {
		err = -EINVAL;
		why_set(&why, "%s: must be zk://HOST:PORT[,HOST:PORT]/CLUSTER", argv[optind]);
	}
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	if (!err && o.log_level >= 0)
		msg_set_level((enum msg_level)o.log_level);
	if (!err)
		err = cluster_lead(&at, &o, &lead, &why);
	if (err)
		fail(why ? why : argc > optind + 1 ? argv[optind + 1] : NAME, why ? "" : error_text(err));
	else
		sigwait(&signals, &sig);
	cluster_lead_end(lead);
	store_source_fini(&at);
	free(why);
	free(text);
	free(dir);
	return err ? 1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tabletctl drain: moves all tablets away from a server of a cluster, which continues to run. */
#include "engine/base/outcome.h"
#include "engine/base/source.h"
#include "engine/client/client.h"
#include "engine/tool/transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A server, by its incarnation or its address. */
struct wanted {
	const char *name;
	uint64_t incarnation; /* 0: not found */
};

static int find(void *arg, const struct tfs_server *s)
{
	struct wanted *w = arg;

	if (s->incarnation &&
		(strcmp(w->name, s->name) == 0 || strcmp(w->name, text("%llu", (unsigned long long)s->incarnation)) == 0))
		w->incarnation = s->incarnation;
	return 0;
}

static int drain_run(const struct arguments *a)
{
	struct wanted w = {.name = a->operand[1]};
	struct tfs_options o;
	struct tfs_store *s;
	char *why = NULL;
	int err;

	if (!source_is_served(a->operand[0]))
		return bad_usage(&drain_command, "%s: not tls://HOST:PORT", a->operand[0]);
	tfs_options_init(&o);
	o.log_level = -1;
	err = tfs_open(a->operand[0], &o, &s, &why);
	if (err) {
		complain("drain: %s", why ? why : text("%s: %s", a->operand[0], error_text(err)));
		free(why);
		return EXIT_CANNOT;
	}
	err = tfs_servers(s, find, &w);
	if (!err)
		err = w.incarnation ? client_drain(s, w.incarnation) : -ENOENT;
	if (err)
		complain("drain: %s: %s", w.name,
			err == -ENOENT          ? "the cluster has no such server"
				: err == -EBUSY ? "no other server can take its tablets"
						: error_text(err));
	(void)!tfs_close(s);
	return err ? EXIT_CANNOT : 0;
}

const struct command drain_command = {
	.name = "drain",
	.kinds = "f",
	.brief = "move all tablets away from a server of a cluster",
	.usage = "usage: tabletctl drain tls://HOST:PORT[,HOST:PORT] SERVER\n"
		 "\n"
		 "Moves all tablets of a server to the other servers, and waits for that.  The server\n"
		 "goes on, and gets no tablets until it is started again.  SERVER is its incarnation or\n"
		 "its HOST:PORT, as 'tabletctl cluster status' prints them.  Only root and the owner of the\n"
		 "store may do this; the key is that of TABLETFS_KEYS.  A server that is ended by SIGTERM\n"
		 "is drained, too.\n"
		 "\n"
		 "  -h, --help  this text\n",
	.least = 2,
	.most = 2,
	.run = drain_run,
};

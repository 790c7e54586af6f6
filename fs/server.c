/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletfs-server: the daemon without a mount.  The engine's threads serve the store at its
 * socket, so the main thread only waits for the end.
 *
 * The option while-used is for the server that `tabletctl serve' starts for a user who is
 * logged in by ssh.  It asks once a second whether there are clients, which costs less than
 * a second way by which the engine would have to report them.
 */
#include "fs/daemon.h"

#include "engine/base/clock.h"

#include <stdlib.h>
#include <time.h>

#define FIRST_CLIENT_US 10000000u

/* Returns true also if it cannot be known. */
static bool has_clients(void)
{
	char *text = NULL;
	bool has = tfs_clients(fs.store, &text) != 0 || *text;

	free(text);
	return has;
}

void server_run(bool while_used, const sigset_t *signals, bool (*ends)(int sig))
{
	static const struct timespec second = {.tv_sec = 1};
	const uint64_t begun = monotonic_us();
	bool used = false, has = true;
	int sig;

	do {
		sig = sigtimedwait(signals, NULL, while_used ? &second : NULL);
		if (sig < 0 && while_used) {
			has = has_clients();
			used = used || has;
			if (!has && (used || monotonic_us() - begun > FIRST_CLIENT_US))
				sig = SIGTERM;
		}
	} while (sig < 0 || !ends(sig));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The channel of a process to itself (self.h). */
#include "engine/self.h"

#include "engine/base/hash.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <stdlib.h>

#define TIMEOUT_US 1000000u

int self_channel(const char *source, const char *keys, struct channel **out)
{
	struct channel_options co = {.later = true, .program = "watchdog", .timeout_us = TIMEOUT_US};
	struct store_source at = {0};
	char *why = NULL;
	int err = random_bytes(&co.client, sizeof(co.client));

	co.client |= TS_CLIENT_RANDOM;
	if (!err)
		err = store_source_parse(source, &at, &why);
	if (!err)
		err = dial_new(&at, &(struct dial_options){.keys = keys, .ssh = ""}, &co.dial, &why);
	if (!err)
		err = channel_new(&co, out, &why);
	if (err)
		msg_error("%s: the watchdog cannot ask it: %s", source, why ? why : error_text(err));
	store_source_fini(&at);
	free(why);
	return err;
}

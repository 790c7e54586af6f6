/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals of the logs of dead servers (engine/log/log_seal.h): this server makes a seal
 * at the master's request, and reads the seals that the master has stored.
 *
 * A server on shared storage replays no log without a seal, because the log's
 * server may be a zombie.  In an embedded store the lock of the store proves that
 * the predecessor is dead, so its log needs none.
 */
#include "engine/server/tablets/tablets.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int seal_make(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct log_seal seal = {0};
	struct buf b = {0};
	char *logs = path_join(s->o.data_dir, "log"), *marker = path_join(s->o.data_dir, "FORMAT"), *why = NULL;
	uint64_t id;
	int err = !logs || !marker ? -ENOMEM : q->incarnation == s->o.incarnation ? -EINVAL : file_look_up(marker, &id);

	if (err == -ENOENT)
		err = -UNREACHABLE; /* the storage is not mounted, which does not mean that there is no log */
	if (!err) {
		err = log_seal_make(logs, q->incarnation, &seal, &why);
		if (err && err != -ENOENT)
			msg_error("%s/%llu: cannot be sealed: %s", logs, (unsigned long long)q->incarnation,
				why ? why : error_text(err));
	}
	if (!err)
		err = log_seal_encode(&seal, &b);
	if (!err && !arena_dup(&a->arena, buf_bytes(&b), &a->log))
		err = -ENOMEM;
	log_seal_fini(&seal);
	buf_fini(&b);
	free(why);
	free(logs);
	free(marker);
	return err;
}

int seal_read(struct server *s, uint64_t incarnation, bool *sealed, struct log_seal *seal, char **dir, char **why)
{
	char *logs = path_join(s->o.data_dir, "log"), name[32];
	struct buf b = {0};
	int err;

	snprintf(name, sizeof(name), "seals/%llu", (unsigned long long)incarnation);
	err = logs ? lock_sync(s->locks) : -ENOMEM; /* the master has just written it */
	if (!err)
		err = lock_get(s->locks, name, &b, NULL);
	*sealed = err != -ENOENT;
	*seal = (struct log_seal){0};
	if (!err)
		err = log_seal_decode(buf_bytes(&b), seal);
	if (!err && seal->incarnation != incarnation) {
		log_seal_fini(seal);
		err = -EBADMSG;
	}
	if (err == -ENOENT && !s->fence)
		err = 0;
	else if (err == -ENOENT)
		err = -EAGAIN;
	if (err)
		why_set(why, "lock/%s: %s", name, *sealed ? error_text(err) : "this log is not sealed yet");
	if (!err) {
		if (*sealed)
			*dir = log_sealed_dir(logs, incarnation);
		else if (asprintf(dir, "%s/%llu", logs, (unsigned long long)incarnation) < 0)
			*dir = NULL;
		err = *dir ? 0 : -ENOMEM;
	}
	if (err)
		log_seal_fini(seal);
	buf_fini(&b);
	free(logs);
	return err;
}

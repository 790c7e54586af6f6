/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the tablet service, for all parts of the client.  An action that lasts for
 * longer than its first request is polled until it has ended.
 */
#include "engine/client/call.h"
#include "engine/base/msg.h"

#include <errno.h>

bool call_is_lost(int err)
{
	return err == -SCAN_UNKNOWN || err == -TABLET_MOVED || err == -EPOCH_ENDED || err == -UNREACHABLE || err == -ANSWER_LOST ||
		err == -ETIMEDOUT;
}

/*
 * Polls until the action has ended.  Returns its result, or -EAGAIN if the server
 * has lost it and it can be started again.  A lost merge is not started again,
 * because the merged tablet would be merged with the next one.
 */
static int poll_action(struct tablet_service *svc, const struct ts_request *q, struct ts_answer *a)
{
	struct ts_request poll = {.method = TS_POLL, .table = q->table, .row = q->row, .user = q->user};
	int err = 0;

	while (!err && a->scan) {
		poll.scan = a->scan;
		err = ts_call(svc, &poll, a);
	}
	return !call_is_lost(err) ? err : q->method == TS_MERGE ? -EIO : -EAGAIN;
}

static bool is_action(const struct ts_request *q)
{
	return q->method == TS_FLUSH || q->method == TS_COMPACT || q->method == TS_PURGE || q->method == TS_SPLIT ||
		q->method == TS_MERGE;
}

/* Returns the error for the caller of the library, or TABLE_DROPPED or SESSION_ENDED.  A brief service's outcome stays as it is. */
static int public_error(const struct tablet_service *svc, const struct ts_request *q, int err)
{
	const int user = err == -EAGAIN ? -EIO : err == -TABLE_DROPPED || err == -SESSION_ENDED ? err : user_errno(err);

	if (svc->brief)
		return err;
	if (user != err || err == -ETIMEDOUT)
		msg_error("table %u: the server of row %s has not carried out a request: %s", q->table, Q(ts_request_row(q)),
			error_text(err));
	return user;
}

int call_tablet_service(struct tablet_service *svc, const struct ts_request *q, struct ts_answer *a)
{
	int err = ts_call(svc, q, a);

	for (unsigned tries = 0; !err && a->scan && is_action(q) && tries < LOST_MOST; tries++) {
		err = poll_action(svc, q, a);
		if (err != -EAGAIN)
			break;
		a->scan = 0;
		err = ts_call(svc, q, a);
		if (err == -EEXIST && q->method == TS_SPLIT)
			err = 0; /* the first attempt has succeeded */
	}
	for (uint32_t i = 0; i < q->row_count && !err && a->row_errs; i++)
		a->row_errs[i] = public_error(svc, q, a->row_errs[i]);
	return public_error(svc, q, err);
}

int receive_tablet_service(struct ts_sent *sent, const struct ts_request *q, struct ts_answer *a)
{
	const struct tablet_service *svc = sent->service;

	return public_error(svc, q, ts_receive(sent, q, a));
}

void close_scan(struct tablet_service *svc, uint32_t table, uint64_t scan)
{
	struct ts_request q = {.method = TS_SCAN_CLOSE, .table = table, .scan = scan};
	struct ts_answer a = {0};

	(void)!ts_call(svc, &q, &a);
	ts_answer_fini(&a);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The errnos and the texts of outcomes, and the reasons of errors (reason.h). */
#include "engine/base/outcome.h"
#include "engine/base/reason.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

int user_errno(int err)
{
	switch (-err) {
#define X(name, user, text)                                                                                                        \
	case name:                                                                                                                 \
		return -user;
		OUTCOMES(X)
#undef X
	default:
		return err;
	}
}

bool outcome_is_answer(int err)
{
	return err != -UNREACHABLE && err != -ANSWER_LOST && err != -ETIMEDOUT && err != -TABLET_MOVED && err != -WAIT_INTERRUPTED;
}

const char *error_text(int err)
{
	switch (-err) {
#define X(name, user, text)                                                                                                        \
	case name:                                                                                                                 \
		return text;
		OUTCOMES(X)
#undef X
	default:
		return strerror(-err);
	}
}

/* ---- reasons (reason.h) ---- */

static _Thread_local struct reason thread_reason;

void reason_clear(void)
{
	thread_reason.store = 0;
}

bool reason_is_set(void)
{
	return thread_reason.store != 0;
}

void reason_get(struct reason *out)
{
	*out = thread_reason;
}

void reason_put(const struct reason *reason)
{
	thread_reason = *reason;
}

uint64_t reason_store(void)
{
	static _Atomic uint64_t stores;

	return atomic_fetch_add(&stores, 1) + 1;
}

int reason_set(uint64_t store, int err, const char *fmt, ...)
{
	char text[REASON_BYTES]; /* an argument may be the text so far */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(thread_reason.text, sizeof(thread_reason.text), "%s", text);
	thread_reason.store = store;
	return err;
}

const char *reason_text(uint64_t store)
{
	return store && thread_reason.store == store ? thread_reason.text : "";
}

const char *reason_of_op(enum reason_op op, int err)
{
	static const struct {
		enum reason_op op; /* REASON_OTHER: any */
		int err;
		const char *reason;
	} reasons[] = {
		{REASON_CHECK_EXISTS, -ECANCELED, "there is no version of it"},
		{REASON_CHECK_ABSENT, -ECANCELED, "there is a version of it"},
		{REASON_CHECK_NEWEST, -ECANCELED, "its newest version has another timestamp, or there is none"},
		{REASON_CHECK_VALUE, -ECANCELED, "its newest version has another value, or there is none"},
		{REASON_CHECK_MATCH, -ECANCELED, "its newest version does not match, or there is none"},
		{REASON_CHECK_FAMILY, -ECANCELED, "its cells have changed"},
		{REASON_CHECK_MATCH, -EINVAL, "not a regular expression"},
		{REASON_CHECK_MATCH, -ETIME, "matching takes too many steps"},
		{REASON_INCREMENT, -EINVAL, "its newest version is not a decimal number"},
		{REASON_SET_TIME, -EINVAL, "the time is not above that of the next older version"},
		{REASON_SET_TIME, -ENOENT, "there is no version of it"},
		{REASON_MOVE, -ENOENT, "there is no version of it"},
		{REASON_MOVE, -EEXIST, "there is a version where it is to be moved"},
		{REASON_OTHER, -EINVAL, "the table has no such family"},
		{REASON_OTHER, -EOVERFLOW, "the number or the timestamp would be too large"},
		{REASON_OTHER, -EFBIG, "a value is at most 64 MiB"},
		{REASON_OTHER, -E2BIG, "a mutation has at most 256 MiB and 131,072 operations"},
		{REASON_OTHER, -EACCES, "no permission for the family"},
		{REASON_OTHER, -EDQUOT, "the table has reached its quota (quota in its .schema)"},
		{REASON_OTHER, -EPERM, "the data of the table is protected (protect in its .schema)"},
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if ((reasons[i].op == op || reasons[i].op == REASON_OTHER) && reasons[i].err == err)
			return reasons[i].reason;
	return NULL;
}

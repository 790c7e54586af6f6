/* SPDX-License-Identifier: Apache-2.0 */
/* The errnos and the texts of outcomes. */
#include "engine/base/outcome.h"

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

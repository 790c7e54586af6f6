/* SPDX-License-Identifier: Apache-2.0 */
/* The changes of the library's tables in a history: each acknowledged mutation is listed once and in order, and the changes make the cells. */
#ifndef T_HISTORY_FEED_H
#define T_HISTORY_FEED_H

#include "t/history/history.h"

/* The library; each mutation that it acknowledges is noted. */
const struct api *feed_api(void);
/*
 * After a step: reads what is new.  Returns false, and prints why, if the changes are not those of the step's mutations.
 * dropped: families may have been dropped after the mutations, whose changes are then not listed.
 */
bool feed_follow(struct side *s, bool dropped);
/*
 * Reads all changes again.  dir: a directory for a store of the model, in which the changes make the cells of each table that
 * has kept all of them; NULL: rules have changed, so the cells are not compared.
 */
bool feed_check(struct side *s, const char *dir);
void feed_end(void);

#endif

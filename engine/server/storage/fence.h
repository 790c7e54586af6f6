/* SPDX-License-Identifier: Apache-2.0 */
/* The fence: a server on shared storage stops when its session or its log is lost.  Any thread may call these. */
#ifndef TFS_SERVER_FENCE_H
#define TFS_SERVER_FENCE_H

#include "engine/server/internal.h"

/* log_dir: this server's.  -ENOENT: the store's FORMAT is missing. */
int fence_new(struct server *s, const char *log_dir, struct fence **out) TFS_MUST;
void fence_watch(struct fence *f); /* starts the periodic checks; the log exists */
void fence_stop(struct fence *f);  /* ends them; NULL is allowed */
void fence_free(struct fence *f);  /* NULL is allowed */
/* log_options.fence; arg: the fence. */
int fence_check(void *arg) TFS_MUST;
/* Before a request is carried out.  -UNREACHABLE: the fence is lost.  -TABLET_MOVED: the server's clock is too far off. */
int fence_begin(const struct fence *f, const struct ts_request *q) TFS_MUST;
/* Returns the offset of the server's clock (server_options.clock_offset), or 0 if the server serves with it. */
int64_t fence_clock_offset(const struct fence *f);
/* After it.  Returns the error of the answer: err, or -ANSWER_LOST if the fence is lost. */
int fence_answer(struct fence *f, int err) TFS_MUST;
/* Another server takes this server for dead.  NULL is allowed. */
void fence_buried(struct fence *f);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics of several servers as one Prometheus text: each sample has the label server="INCARNATION" in front, and the
 * samples of one metric are together, as the format requires.
 */
#ifndef TFS_LABELLED_H
#define TFS_LABELLED_H

#include "engine/base/bytes.h"

struct labelled_metric;
struct labelled {
	struct labelled_metric *metrics; /* in the order in which they came */
	unsigned count;
};
/* Adds the text of a server.  -ENOMEM. */
int labelled_add(struct labelled *all, uint64_t server, struct tfs_bytes text) TFS_MUST;
/* Appends the text of all. */
int labelled_put(const struct labelled *all, struct buf *out) TFS_MUST;
void labelled_fini(struct labelled *all);

#endif

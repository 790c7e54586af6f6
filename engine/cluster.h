/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs of a cluster (tabletfs-cluster(7)).  They are in a library of their own, which needs ZooKeeper's.
 *
 * at: a SOURCE_CLUSTER.  After an error *why is one line, or NULL; the caller frees it.  A process that must not go on,
 * because the lock service or its lease is lost, ends with status 3.
 */
#ifndef TFS_CLUSTER_H
#define TFS_CLUSTER_H

#include "engine/base/bytes.h"
#include "engine/base/source.h"
#include "engine/tabletfs.h"

/*
 * Opens the store as one of the servers of a cluster, which listens at o->listen.  A program that is not linked with the
 * library has no such function.
 */
int cluster_serve(const struct store_source *at, const struct tfs_options *o, struct tfs_store **out, char **why)
	__attribute__((weak));

struct lead;
/* Begins to be a master of the cluster, or to wait for its turn. */
int cluster_lead(const struct store_source *at, const struct tfs_options *o, struct lead **out, char **why) TFS_MUST;
/* Append status lines, and Prometheus text. */
int cluster_lead_status(struct lead *l, struct buf *out) TFS_MUST;
int cluster_lead_metrics(struct lead *l, struct buf *out) TFS_MUST;
/* Asks the own listener (channel_answers).  One thread at a time. */
int cluster_lead_answers(struct lead *l, uint64_t limit_us) TFS_MUST;
/* Reads the file of keys again. */
int cluster_lead_read_keys(struct lead *l, char **why) TFS_MUST;
/* Ends the term, if it leads, so that another master need not wait for the session to end. */
void cluster_lead_end(struct lead *l);

/*
 * Makes a cluster in a directory that is absent or empty, and the two files of keys: keys_dir/CLUSTER.cluster.keys for the servers
 * and masters, and keys_dir/CLUSTER.mount.keys for mounts.  Keys that exist are used.  After a crash, or for a cluster that is
 * complete, the call finishes or changes nothing.
 */
int cluster_init(const struct store_source *at, const char *keys_dir, char **why) TFS_MUST;
/* Makes a cluster of a directory with an embedded store, which no process may have open.  The store becomes the cluster's. */
int cluster_adopt(const struct store_source *at, const char *keys_dir, char **why) TFS_MUST;

#endif

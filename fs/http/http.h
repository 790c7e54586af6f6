/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's HTTP server: /metrics, /status.json and the status page.  It
 * only reads.  One thread of its own serves all connections, so a client never
 * uses a thread of the file system.
 */
#ifndef TFS_FS_HTTP_HTTP_H
#define TFS_FS_HTTP_HTTP_H

#include "engine/base/bytes.h"

/* ---- server.c ---- */
/*
 * Listens only on an address of tabletfs.conf(5).  Connections wait until
 * http_start.  token: "" if none is set; it is copied.  On an error *why is one
 * line, which the caller frees, or NULL.
 */
int http_listen(const char *address, const char *token, char **why) TFS_MUST;
/* Starts the thread, if http_listen was called.  Call it when the store is open and the mount is made. */
int http_start(void) TFS_MUST;
/* Ends the thread and closes all connections.  Call it before the store is closed.  Does nothing if there is no server. */
void http_stop(void);

/*
 * The documents that the HTTP server sends.  Each function appends to out and
 * returns 0 or -errno.  named: the client may see names of tables and rows, and
 * messages.  Threads: one.
 */
/* Prometheus text.  Without names the numbers of all tables, and of all families, are added. */
int document_metrics(bool named, struct buf *out) TFS_MUST;
/* The status lines; with names the tablets of each table and the recent messages. */
int document_status(bool named, struct buf *out) TFS_MUST;
/* page.html (generated in the build directory). */
extern const unsigned char document_page[];
extern const size_t document_page_bytes;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The documents that the HTTP server sends.  Each function appends to out and
 * returns 0 or -errno.  named: the client may see names of tables and rows, and
 * messages.  Threads: one.
 */
#ifndef TFS_FS_HTTP_DOCUMENTS_H
#define TFS_FS_HTTP_DOCUMENTS_H

#include "engine/base/bytes.h"

/* Prometheus text.  Without names the numbers of all tables, and of all families, are added. */
int document_metrics(bool named, struct buf *out) TFS_MUST;
/* The status lines; with names the tablets of each table and the recent messages. */
int document_status(bool named, struct buf *out) TFS_MUST;
/* page.html (generated in the build directory). */
extern const unsigned char document_page[];
extern const size_t document_page_bytes;

#endif

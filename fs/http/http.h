/* SPDX-License-Identifier: Apache-2.0 */
/* The documents of the daemon's HTTP server (engine/daemon/http.h): /metrics, /status, /status.json and the status page. */
#ifndef TFS_FS_HTTP_HTTP_H
#define TFS_FS_HTTP_HTTP_H

#include "engine/base/bytes.h"

/*
 * Starts the server, if http_listen was called.  Call it when the store is open and the mount is made.  name: of the
 * store, or ""; it outlives the server.  slow_us: requests that take longer are listed.
 */
int documents_start(const char *name, uint64_t slow_us) TFS_MUST;
/* Ends the server and its thread of history, before the store is closed. */
void documents_stop(void);
/* page.html (generated in the build directory). */
extern const unsigned char document_page[];
extern const size_t document_page_bytes;

#endif

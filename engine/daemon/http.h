/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server of a daemon: documents that it renders for each request, and perhaps a
 * page.  It only reads.  One thread of its own serves all connections, so a client never
 * uses a thread of the daemon's work.  A process has one server.
 */
#ifndef TFS_DAEMON_HTTP_H
#define TFS_DAEMON_HTTP_H

#include "engine/base/bytes.h"

/*
 * Listens only on an address of tabletfs.conf(5).  Connections wait until
 * http_start.  token: "" if none is set; it is copied.  On an error *why is one
 * line, which the caller frees, or NULL.
 */
int http_listen(const char *address, const char *token, char **why) TFS_MUST;

struct http_document {
	const char *path, *type; /* path is NULL at the end of the list */
	/* Appends to out.  named: the client may see names of tables and rows, and messages.  Called by one thread. */
	int (*render)(void *arg, bool named, struct buf *out);
};
struct http_contents {
	const struct http_document *documents;
	const unsigned char *page; /* the document at /; NULL: none.  Each NONCE in it is replaced by the nonce of the answer */
	size_t page_bytes;
	void *arg; /* the argument of render */
};
/* Starts the thread, if http_listen was called.  Call it when the documents can be rendered.  Copies c. */
int http_start(const struct http_contents *c) TFS_MUST;
/* Returns true if http_listen was called. */
bool http_is_wanted(void);
/* Ends the thread and closes all connections.  Does nothing if there is no server. */
void http_stop(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server, by libmicrohttpd: one thread that polls all connections.  It
 * answers GET and HEAD only, and calls nothing that changes the store.
 *
 * The token.  A client sends it as "Authorization: Bearer TOKEN" with each
 * request.  There is no cookie, which a browser would also send for another
 * site's page, and no ?token=, which ends in logs and histories of browsers and
 * proxies.  The page keeps the token in the tab's sessionStorage.  The server
 * writes no log of requests.
 *
 * DNS rebinding: a name of another site that resolves to this address would make
 * that site's script and this page one origin.  So the Host of a request must be
 * a numeric address, localhost or this machine's name; none of them can be
 * another site's.
 *
 * The page is one document, so its Content-Security-Policy permits inline script
 * and style by a nonce that is new in each answer.
 *
 * Limits: CONNECTIONS at a time; REQUEST_BYTES for the request line and the
 * headers, which MHD answers with 431 or 414; IDLE_S seconds without a byte.  A
 * request with a body is refused.
 *
 * Slow clients: one more connection than CONNECTIONS ends the oldest one.  So
 * clients that send a byte now and then, or read none, cannot keep others out, also
 * on this machine, where all have one address.  A request is answered as soon as its
 * headers are there, so the oldest connections are the slow and the idle ones.
 */
#include "engine/daemon/http.h"

#include "engine/base/address.h"
#include "engine/base/hash.h"
#include "engine/base/msg.h"
#include "engine/tabletfs.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#define CONNECTIONS 32u
#define REQUEST_BYTES 16384u /* MHD uses it for the headers of the answer, too */
#define IDLE_S 5u
#define NONCE_BYTES 16

static struct {
	struct MHD_Daemon *daemon;
	int socket; /* -1: none.  http.daemon owns it after the start */
	char token[sizeof(((struct tfs_options *)0)->http_token)];
	char host[256]; /* the machine's name */
	struct http_contents contents;
} http = {.socket = -1};

/* ---- requests ---- */

static const char *header_of(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* "127.0.0.1:9180", "[::1]", "localhost:8080".  The port may belong to a forwarded connection. */
static bool host_allowed(const char *value)
{
	char host[256];
	size_t n = value ? strlen(value) : 0;
	const char *colon;

	if (!n || n >= sizeof(host))
		return false;
	memcpy(host, value, n + 1);
	colon = host[0] == '[' ? strstr(host, "]:") : strrchr(host, ':');
	if (colon)
		host[colon - host + (*colon == ']')] = 0;
	n = strlen(host);
	if (host[0] == '[') {
		if (host[n - 1] != ']')
			return false;
		host[n - 1] = 0;
		return address_is_host(host + 1);
	}
	return address_is_host(host) || strcasecmp(host, "localhost") == 0 || (http.host[0] && strcasecmp(host, http.host) == 0);
}

/* The time depends on the length of the given text only. */
static bool token_matches(const char *given)
{
	char padded[sizeof(http.token)] = "";
	size_t n = strlen(given);
	volatile unsigned char differ = 0;

	if (n >= sizeof(padded))
		return false;
	memcpy(padded, given, n);
	for (size_t i = 0; i < sizeof(padded); i++)
		differ |= (unsigned char)(padded[i] ^ http.token[i]);
	return differ == 0 && http.token[0];
}

enum access { ACCESS_SUMS, ACCESS_NAMES, ACCESS_REFUSED };
static enum access access_of(struct MHD_Connection *c)
{
	const char *value = header_of(c, MHD_HTTP_HEADER_AUTHORIZATION);
	static const char bearer[] = "Bearer ";

	if (!value)
		return ACCESS_SUMS;
	if (strncasecmp(value, bearer, strlen(bearer)) != 0)
		return ACCESS_REFUSED;
	return token_matches(value + strlen(bearer)) ? ACCESS_NAMES : ACCESS_REFUSED;
}

/* Headers that must not be there twice. */
enum { LENGTH, ENCODING, HOST, AUTHORIZATION, ONCE };
static const char *const once[ONCE] = {[LENGTH] = MHD_HTTP_HEADER_CONTENT_LENGTH,
	[ENCODING] = MHD_HTTP_HEADER_TRANSFER_ENCODING,
	[HOST] = MHD_HTTP_HEADER_HOST,
	[AUTHORIZATION] = MHD_HTTP_HEADER_AUTHORIZATION};

struct framing {
	unsigned count[ONCE];
	bool has_body, is_unclear;
};

static enum MHD_Result add_header(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct framing *f = arg;
	const size_t n = strlen(name);

	value = value ? value : "";
	for (int i = 0; i < ONCE; i++) {
		if (strcasecmp(name, once[i]) != 0)
			continue;
		f->is_unclear |= f->count[i]++ > 0;
		f->has_body |= i == ENCODING || (i == LENGTH && strcmp(value, "0") != 0);
	}
	/*
	 * Another server may take "Content-Length :" for the header, and a line that
	 * begins with a blank for a part of the previous line.
	 */
	f->is_unclear |= !n || strcspn(name, " \t\r\v\f") != n || strpbrk(value, "\r\n");
	return MHD_YES;
}

/*
 * How the end of the request is found.  If a proxy in front could find another end, or
 * another host, the bytes after it would be a request that the proxy has not seen.
 */
static struct framing framing_of(struct MHD_Connection *c)
{
	struct framing f = {0};

	MHD_get_connection_values(c, MHD_HEADER_KIND, add_header, &f);
	f.is_unclear |= f.count[LENGTH] && f.count[ENCODING];
	return f;
}

/* ---- answers ---- */

static bool add_headers(struct MHD_Response *r, const char *const (*v)[2])
{
	bool ok = true;

	for (; (*v)[0]; v++)
		ok &= MHD_add_response_header(r, (*v)[0], (*v)[1]) == MHD_YES;
	return ok;
}

/* Sends body, and frees it.  extra: one more header, or NULL. */
static enum MHD_Result send_answer(
	struct MHD_Connection *c, unsigned status, const char *type, struct buf *body, const char *extra, const char *value)
{
	const char *const headers[][2] = {
		{MHD_HTTP_HEADER_CONTENT_TYPE, type},
		{MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
		{"X-Content-Type-Options", "nosniff"},
		{"Referrer-Policy", "no-referrer"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
		{extra, value},
		{NULL, NULL},
	};
	struct MHD_Response *r = MHD_create_response_from_buffer(body->n, body->p, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result sent = MHD_NO;

	if (!r) {
		buf_fini(body);
		return MHD_NO;
	}
	*body = (struct buf){0}; /* the response's now */
	if (add_headers(r, headers))
		sent = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return sent;
}

static enum MHD_Result refuse_request(
	struct MHD_Connection *c, unsigned status, const char *reason, const char *extra, const char *value)
{
	struct buf body = {0};

	if (buf_printf(&body, "%s\n", reason)) {
		buf_fini(&body);
		return MHD_NO;
	}
	return send_answer(c, status, "text/plain; charset=utf-8", &body, extra, value);
}

/* Appends the page with the nonce in place of each NONCE. */
static int render_page(const char *nonce, struct buf *out)
{
	const unsigned char *p = http.contents.page, *end = p + http.contents.page_bytes, *at;
	int err = 0;

	while (!err && (at = memmem(p, (size_t)(end - p), "NONCE", 5))) {
		err = buf_append(out, p, (size_t)(at - p));
		if (!err)
			err = buf_append(out, nonce, strlen(nonce));
		p = at + 5;
	}
	return err ? err : buf_append(out, p, (size_t)(end - p));
}

static enum MHD_Result send_page(struct MHD_Connection *c)
{
	unsigned char random[NONCE_BYTES];
	char nonce[2 * NONCE_BYTES + 1], policy[512];
	struct buf body = {0};

	if (random_bytes(random, sizeof(random)))
		return MHD_NO;
	for (unsigned i = 0; i < NONCE_BYTES; i++)
		snprintf(nonce + 2 * i, 3, "%02x", random[i]);
	snprintf(policy, sizeof(policy),
		"default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; img-src data:; connect-src 'self'; "
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		nonce, nonce);
	if (render_page(nonce, &body)) {
		buf_fini(&body);
		return MHD_NO;
	}
	return send_answer(c, MHD_HTTP_OK, "text/html; charset=utf-8", &body, "Content-Security-Policy", policy);
}

static enum MHD_Result send_document(struct MHD_Connection *c, const struct http_document *d, enum access access)
{
	struct buf body = {0};
	int err = d->render(http.contents.arg, access == ACCESS_NAMES, &body);

	if (!err)
		return send_answer(c, MHD_HTTP_OK, d->type, &body, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_AUTHORIZATION);
	buf_fini(&body);
	return refuse_request(c, MHD_HTTP_SERVICE_UNAVAILABLE, strerror(-err), MHD_HTTP_HEADER_RETRY_AFTER, "10");
}

static enum MHD_Result answer(struct MHD_Connection *c, const char *url, const char *method)
{
	const enum access access = access_of(c);
	const struct framing framing = framing_of(c);

	if (framing.is_unclear)
		return refuse_request(
			c, MHD_HTTP_BAD_REQUEST, "a header is malformed, or there twice", MHD_HTTP_HEADER_CONNECTION, "close");
	if (!host_allowed(header_of(c, MHD_HTTP_HEADER_HOST)))
		return refuse_request(c, MHD_HTTP_FORBIDDEN, "the Host must be a numeric address, localhost or this machine's name",
			MHD_HTTP_HEADER_CONNECTION, "close");
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return refuse_request(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD", MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	if (framing.has_body)
		return refuse_request(c, MHD_HTTP_BAD_REQUEST, "a body is not accepted", MHD_HTTP_HEADER_CONNECTION, "close");
	if (access == ACCESS_REFUSED)
		return refuse_request(
			c, MHD_HTTP_UNAUTHORIZED, "this is not the http_token", MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
	if (strcmp(url, "/") == 0 && http.contents.page)
		return send_page(c);
	for (const struct http_document *d = http.contents.documents; d->path; d++)
		if (strcmp(url, d->path) == 0)
			return send_document(c, d, access);
	return refuse_request(c, MHD_HTTP_NOT_FOUND, "there are /metrics and /status", NULL, NULL);
}

/* MHD calls it when it has the headers, and again at the end of the request.  A refusal at the first call reads no body. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url, const char *method, const char *version,
	const char *body, size_t *body_bytes, void **state)
{
	const struct framing framing = framing_of(c);
	bool first = !*state;

	*state = &http;
	if (first && !framing.has_body && !framing.is_unclear)
		return MHD_YES; /* an answer now would end the connection */
	return answer(c, url, method);
}

/* ---- connections.  Only the server's thread uses them ---- */

struct client {
	int fd;
	bool used, ended;
	uint64_t number; /* in the order of their beginnings */
};
static struct client clients[2 * CONNECTIONS]; /* as many as MHD accepts, including ended connections until MHD closes them */

static void end_oldest(void)
{
	struct client *oldest = NULL;
	unsigned open = 0;

	for (struct client *c = clients; c < clients + 2 * CONNECTIONS; c++)
		if (c->used && !c->ended) {
			open++;
			if (!oldest || c->number < oldest->number)
				oldest = c;
		}
	if (open <= CONNECTIONS)
		return;
	oldest->ended = true;
	shutdown(oldest->fd, SHUT_RDWR); /* MHD reads the end, and closes */
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **state, enum MHD_ConnectionNotificationCode what)
{
	static uint64_t number;
	struct client *c = *state;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED && c)
		c->used = false;
	if (what != MHD_CONNECTION_NOTIFY_STARTED)
		return;
	for (c = clients; c < clients + 2 * CONNECTIONS && c->used; c++)
		;
	if (c == clients + 2 * CONNECTIONS)
		return;
	*c = (struct client){.fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
		.used = true,
		.number = number++};
	*state = c;
	end_oldest();
}

/* ---- the server ---- */

int http_listen(const char *address, const char *token, char **why)
{
	struct sockaddr_storage to;
	socklen_t bytes;
	const int on = 1;
	int fd = -1, err = 0;

	*why = NULL;
	if (!address_parse(address, &to, &bytes)) {
		why_set(why, "http: %s: not a numeric address with a port, such as 127.0.0.1:9180", address);
		return -EINVAL;
	}
	fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		err = -errno;
	if (!err && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		err = -errno;
	if (!err && to.ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)))
		err = -errno;
	if (!err && bind(fd, (struct sockaddr *)&to, bytes))
		err = -errno;
	if (!err && listen(fd, CONNECTIONS))
		err = -errno;
	if (err) {
		why_set(why, "http: cannot listen on %s: %s", address, strerror(-err));
		if (fd >= 0)
			close(fd);
		return err;
	}
	snprintf(http.token, sizeof(http.token), "%s", token);
	if (gethostname(http.host, sizeof(http.host) - 1))
		http.host[0] = 0;
	http.socket = fd;
	return 0;
}

int http_start(const struct http_contents *c)
{
	if (http.socket < 0)
		return 0;
	http.contents = *c;
	http.daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, NULL, MHD_OPTION_LISTEN_SOCKET,
		http.socket, MHD_OPTION_CONNECTION_LIMIT, 2 * CONNECTIONS, MHD_OPTION_NOTIFY_CONNECTION, on_connection, NULL,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
		MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_END);
	return http.daemon ? 0 : errno ? -errno : -ENOMEM;
}

bool http_is_wanted(void)
{
	return http.socket >= 0;
}

void http_stop(void)
{
	if (http.daemon)
		MHD_stop_daemon(http.daemon); /* closes the socket */
	else if (http.socket >= 0)
		close(http.socket);
	http.daemon = NULL;
	http.socket = -1;
	explicit_bzero(http.token, sizeof(http.token));
}

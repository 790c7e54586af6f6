/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream sockets with and without TLS.
 *
 * OpenSSL uses the socket through a BIO of this file, because its own one would raise
 * SIGPIPE.  A piece that is sent becomes one record: a record that the socket did not take
 * as a whole is kept by OpenSSL, which expects the same bytes again.  So pieces are cut the
 * same way each time that they are sent.
 */
#include "engine/rpc/stream.h"

#include "engine/base/socket.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdlib.h>

#define RECORD 16384u
#define SEND_MAX (4 * RECORD) /* the most bytes of one call, because the owner may hold a lock */
#define GROUPS "X25519:P-256" /* a peer without a key must not choose expensive ones */
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"

struct tls {
	SSL_CTX *ctx;
	struct keys *keys;
};

/* ---- the socket as a BIO ---- */

static int bio_write(BIO *b, const char *p, int n)
{
	struct stream *s = BIO_get_data(b);
	const struct tfs_bytes bytes = tfs_bytes_of(p, n > 0 ? (size_t)n : 0);
	const int64_t r = socket_send(s->fd, &bytes, 1);

	s->sent += r > 0 ? (uint64_t)r : 0;
	BIO_clear_retry_flags(b);
	s->err = r < 0 ? (int)r : 0;
	if (r == -EAGAIN)
		BIO_set_retry_write(b);
	return r < 0 ? -1 : (int)r;
}

static int bio_read(BIO *b, char *p, int n)
{
	struct stream *s = BIO_get_data(b);
	const int64_t r = socket_receive(s->fd, p, n > 0 ? (size_t)n : 0);

	s->received += r > 0 ? (uint64_t)r : 0;
	BIO_clear_retry_flags(b);
	s->err = r < 0 ? (int)r : 0;
	if (r == -EAGAIN)
		BIO_set_retry_read(b);
	return r < 0 ? -1 : (int)r;
}

static long bio_ctrl(BIO *b, int command, long n, void *p)
{
	return command == BIO_CTRL_FLUSH;
}

static BIO *bio_new(struct stream *s)
{
	static BIO_METHOD *_Atomic method;
	BIO_METHOD *m = method, *none = NULL;
	BIO *b;

	if (!m) {
		m = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "tabletfs");
		if (!m || !BIO_meth_set_write(m, bio_write) || !BIO_meth_set_read(m, bio_read) || !BIO_meth_set_ctrl(m, bio_ctrl)) {
			BIO_meth_free(m);
			return NULL;
		}
		if (!atomic_compare_exchange_strong(&method, &none, m)) {
			BIO_meth_free(m);
			m = none;
		}
	}
	b = BIO_new(m);
	if (b) {
		BIO_set_data(b, s);
		BIO_set_init(b, 1);
	}
	return b;
}

/* ---- keys ---- */

/* Sets *out to the session that a pre-shared key is for OpenSSL.  It has the key's name. */
static int session_of(SSL *ssl, const struct key *k, SSL_SESSION **out)
{
	static const unsigned char suite[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256; its hash counts */
	const SSL_CIPHER *c = SSL_CIPHER_find(ssl, suite);
	SSL_SESSION *s = SSL_SESSION_new();

	if (!c || !s || !SSL_SESSION_set1_master_key(s, k->secret, sizeof(k->secret)) || !SSL_SESSION_set_cipher(s, c) ||
		!SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION) ||
		!SSL_SESSION_set1_ticket_appdata(s, k->name, strlen(k->name))) {
		SSL_SESSION_free(s);
		return 0;
	}
	*out = s;
	return 1;
}

/* A server looks for the key that a client names. */
static int on_find(SSL *ssl, const unsigned char *identity, size_t n, SSL_SESSION **out)
{
	const struct tls *t = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	const struct key *k = keys_find(t->keys, tfs_bytes_of(identity, n));

	*out = NULL;
	return k ? session_of(ssl, k, out) : 1;
}

/* A client offers its key. */
static int on_use(SSL *ssl, const EVP_MD *md, const unsigned char **identity, size_t *n, SSL_SESSION **out)
{
	const struct tls *t = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	const struct key *k = keys_at(t->keys, 0);

	*out = NULL;
	if (md && !EVP_MD_is_a(md, "SHA256"))
		return 1;
	*identity = (const unsigned char *)k->name;
	*n = strlen(k->name);
	return session_of(ssl, k, out);
}

/* ---- contexts ---- */

static int tls_new(struct keys *keys, bool server, struct tls **out)
{
	struct tls *t = calloc(1, sizeof(*t));
	int err = -ENOMEM;

	/* OpenSSL must not clean up at exit, because threads may use it until the process ends. */
	if (t && OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL))
		t->ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
	if (t && t->ctx && SSL_CTX_set_min_proto_version(t->ctx, TLS1_3_VERSION) &&
		SSL_CTX_set_max_proto_version(t->ctx, TLS1_3_VERSION) && SSL_CTX_set_ciphersuites(t->ctx, SUITES) &&
		SSL_CTX_set1_groups_list(t->ctx, GROUPS) && SSL_CTX_set_num_tickets(t->ctx, 0) &&
		SSL_CTX_set_max_early_data(t->ctx, 0) && SSL_CTX_set_recv_max_early_data(t->ctx, 0))
		err = 0;
	if (err) {
		if (t)
			SSL_CTX_free(t->ctx);
		free(t);
		return err;
	}
	SSL_CTX_set_session_cache_mode(t->ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(t->ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_clear_options(t->ctx, SSL_OP_ALLOW_NO_DHE_KEX); /* the option permits psk_ke, an exchange without Diffie-Hellman */
	SSL_CTX_set_mode(t->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	/* A receive ends after the messages of TLS itself that have arrived, so a peer that sends nothing else does not hold the loop. */
	SSL_CTX_clear_mode(t->ctx, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_read_ahead(t->ctx, 1);
	SSL_CTX_set_quiet_shutdown(t->ctx, 1);
	if (server) {
		SSL_CTX_set_psk_find_session_callback(t->ctx, on_find);
	} else {
		SSL_CTX_set_psk_use_session_callback(t->ctx, on_use);
		SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL); /* no authority is trusted, so no certificate replaces the key */
	}
	SSL_CTX_set_app_data(t->ctx, t);
	t->keys = keys_get(keys);
	*out = t;
	return 0;
}

int tls_server_new(struct keys *keys, struct tls **out)
{
	return tls_new(keys, true, out);
}

int tls_client_new(struct keys *keys, struct tls **out)
{
	return tls_new(keys, false, out);
}

void tls_set_keys(struct tls *t, struct keys *keys)
{
	struct keys *old = t->keys;

	t->keys = keys_get(keys);
	keys_put(old);
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->ctx);
	keys_put(t->keys);
	free(t);
}

/* ---- streams ---- */

int stream_init(struct stream *s, int fd, struct tls *tls, bool server)
{
	BIO *b = NULL;

	*s = (struct stream){.fd = fd};
	if (!tls)
		return 0;
	s->ssl = SSL_new(tls->ctx);
	if (s->ssl)
		b = bio_new(s);
	if (!b) {
		SSL_free(s->ssl);
		*s = (struct stream){.fd = -1};
		return -ENOMEM;
	}
	SSL_set_bio(s->ssl, b, b);
	if (server)
		SSL_set_accept_state(s->ssl);
	else
		SSL_set_connect_state(s->ssl);
	return 0;
}

void stream_fini(struct stream *s)
{
	SSL_free(s->ssl);
	s->ssl = NULL;
	if (s->fd >= 0)
		socket_abort(s->fd);
	s->fd = -1;
}

/* The error of a call of OpenSSL that returned r.  sending: the caller wanted to send, else to receive. */
static int64_t failure(struct stream *s, int r, bool sending)
{
	switch (SSL_get_error(s->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		s->send_waits = sending;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		s->receive_waits = !sending;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return sending ? -EPIPE : 0;
	case SSL_ERROR_SYSCALL:
		return s->err ? s->err : sending ? -EPIPE : 0;
	}
	s->reason = ERR_reason_error_string(ERR_peek_last_error());
	s->failed = s->established ? -EBADMSG : -EKEYREJECTED;
	return s->failed;
}

static int64_t shake_hands(struct stream *s, bool sending)
{
	int r;

	if (s->established || s->failed)
		return s->failed;
	r = SSL_do_handshake(s->ssl);
	if (r != 1)
		return failure(s, r, sending);
	if (!SSL_session_reused(s->ssl)) { /* the handshake has used another way than a pre-shared key */
		s->failed = -EKEYREJECTED;
		return s->failed;
	}
	s->established = true;
	return 0;
}

/* Returns the next record: one piece if it is long, else several pieces copied into one. */
static struct tfs_bytes next_record(const struct tfs_bytes *v, unsigned count, size_t sent, uint8_t memory[RECORD])
{
	size_t n = 0;

	for (unsigned i = 0; i < count && n < RECORD; i++) {
		struct tfs_bytes rest = v[i];
		size_t part;

		if (sent >= rest.n) {
			sent -= rest.n;
			continue;
		}
		rest = tfs_bytes_of(rest.p + sent, rest.n - sent);
		sent = 0;
		part = rest.n < RECORD - n ? rest.n : RECORD - n;
		if (!n && part == RECORD)
			return tfs_bytes_of(rest.p, RECORD);
		memcpy(memory + n, rest.p, part);
		n += part;
	}
	return tfs_bytes_of(memory, n);
}

int64_t stream_send(struct stream *s, const struct tfs_bytes *v, unsigned count)
{
	uint8_t memory[RECORD];
	struct tfs_bytes record;
	size_t sent = 0, n;
	int64_t err;

	if (!s->ssl) {
		err = socket_send(s->fd, v, count);
		s->sent += err > 0 ? (uint64_t)err : 0;
		return err;
	}
	s->send_waits = false;
	ERR_clear_error();
	err = shake_hands(s, true);
	while (!err && sent < SEND_MAX && (record = next_record(v, count, sent, memory)).n) {
		int r = SSL_write_ex(s->ssl, record.p, record.n, &n);

		if (r == 1)
			sent += n;
		else
			err = failure(s, r, true);
	}
	return sent ? (int64_t)sent : err;
}

int64_t stream_receive(struct stream *s, void *p, size_t n)
{
	size_t got = 0, part;
	int64_t err;

	if (!s->ssl) {
		err = socket_receive(s->fd, p, n);
		s->received += err > 0 ? (uint64_t)err : 0;
		return err;
	}
	s->receive_waits = s->more = false;
	ERR_clear_error();
	err = shake_hands(s, false);
	if (err || !s->established)
		return err;
	do {
		int r = SSL_read_ex(s->ssl, (uint8_t *)p + got, n - got, &part);

		if (r != 1) {
			err = failure(s, r, false);
			s->more = got && err != -EAGAIN; /* so that the next call returns it */
			return got ? (int64_t)got : err;
		}
		got += part;
	} while (got < n && SSL_has_pending(s->ssl));
	s->more = got == n;
	return (int64_t)got;
}

struct tfs_bytes stream_key(const struct stream *s)
{
	SSL_SESSION *session = s->ssl && s->established ? SSL_get0_session(s->ssl) : NULL;
	void *name;
	size_t n;

	return session && SSL_SESSION_get0_ticket_appdata(session, &name, &n) ? tfs_bytes_of(name, n) : (struct tfs_bytes){0};
}

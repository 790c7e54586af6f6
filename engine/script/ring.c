/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of bytes between two processes.  An end publishes its position every CHANNEL_STEP bytes and
 * before it waits.  A waiting end sets a flag, looks again, then sleeps; the other end sees the
 * flag after it has published its position.
 */
#include "engine/script/channel.h"

#include <errno.h>
#include <sys/socket.h>

static void publish(struct ring_end *e, _Atomic uint64_t *mine, _Atomic uint32_t *other_waits)
{
	if (e->published == e->at)
		return;
	e->published = e->at;
	atomic_store(mine, e->at);
	if (atomic_load(other_waits)) {
		atomic_store(other_waits, 0);
		/* If the socket is full, a wake-up is on its way. */
		(void)!send(e->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

/* Computes the number of bytes between the ends.  Returns false if the positions are impossible. */
static bool between(uint64_t written, uint64_t read, uint64_t *n)
{
	*n = written - read;
	return *n <= CHANNEL_RING;
}

void ring_flush(struct ring_end *e)
{
	publish(e, &e->ring->written, &e->ring->reader_waits);
}

/* Sets *room to the bytes that can be written, at least one. */
static int wait_for_room(struct ring_end *e, uint64_t *room)
{
	uint64_t used;
	int err;

	for (;;) {
		if (!between(e->at, atomic_load(&e->ring->read), &used))
			return -EBADMSG;
		*room = CHANNEL_RING - used;
		if (*room)
			return 0;
		ring_flush(e);
		atomic_store(&e->ring->writer_waits, 1);
		if (e->at - atomic_load(&e->ring->read) < CHANNEL_RING)
			continue;
		err = e->wait(e->arg);
		if (err)
			return err;
	}
}

static int wait_for_bytes(struct ring_end *e, uint64_t *have)
{
	int err;

	for (;;) {
		if (!between(atomic_load(&e->ring->written), e->at, have))
			return -EBADMSG;
		if (*have)
			return 0;
		publish(e, &e->ring->read, &e->ring->writer_waits);
		atomic_store(&e->ring->reader_waits, 1);
		if (atomic_load(&e->ring->written) != e->at)
			continue;
		err = e->wait(e->arg);
		if (err)
			return err;
	}
}

/* Returns how many bytes from the position on are in one piece. */
static size_t piece(const struct ring_end *e, uint64_t n, size_t most)
{
	const size_t to_end = CHANNEL_RING - (size_t)(e->at % CHANNEL_RING);

	if (n > most)
		n = most;
	return n < to_end ? (size_t)n : to_end;
}

int ring_write(struct ring_end *e, const void *p, size_t n)
{
	uint64_t room;

	while (n) {
		int err = wait_for_room(e, &room);
		size_t k;

		if (err)
			return err;
		k = piece(e, room, n);
		memcpy(e->ring->bytes + e->at % CHANNEL_RING, p, k);
		e->at += k;
		p = (const uint8_t *)p + k;
		n -= k;
		if (e->at - e->published >= CHANNEL_STEP)
			ring_flush(e);
	}
	return 0;
}

int ring_read(struct ring_end *e, void *p, size_t n)
{
	uint64_t have;

	while (n) {
		int err = wait_for_bytes(e, &have);
		size_t k;

		if (err)
			return err;
		k = piece(e, have, n);
		memcpy(p, e->ring->bytes + e->at % CHANNEL_RING, k);
		e->at += k;
		p = (uint8_t *)p + k;
		n -= k;
		if (e->at - e->published >= CHANNEL_STEP)
			publish(e, &e->ring->read, &e->ring->writer_waits);
	}
	return 0;
}

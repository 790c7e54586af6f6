/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_relay DELAY_MS LOSS SEED: a network of two machines on one, whose packets are late and
 * sometimes lost.  It makes two network namespaces, each with a TUN device, and passes each
 * packet from device to device after DELAY_MS, except LOSS in 1,000, which it drops (SEED
 * chooses which).  SIGUSR1 cuts the line, SIGUSR2 joins it again.
 *
 * The namespaces belong to two processes that wait for the relay's end.  It prints their process
 * numbers on one line: nsenter -t PID -n COMMAND runs a command on a machine.  The machines are
 * 10.99.0.1 and 10.99.0.2.  It needs root and /dev/net/tun; without them it ends with the status
 * 77.
 */
#include "t/lib/xorshift.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PACKET_MAX 1600u
#define QUEUE 8192u /* packets under way in one direction; more are lost, as in a real queue */

struct packet {
	uint64_t due_us;
	unsigned n;
	uint8_t bytes[PACKET_MAX];
};
struct way {
	int from, to;
	struct packet *v; /* a ring */
	unsigned first, count;
};

static volatile sig_atomic_t cut;

static void on_signal(int sig)
{
	cut = sig == SIGUSR1;
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000;
}

static void need(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "net_relay: %s: %s\n", what, strerror(errno));
	exit(77);
}

static void set_address(struct ifreq *r, const char *text)
{
	struct sockaddr_in in = {.sin_family = AF_INET};

	inet_pton(AF_INET, text, &in.sin_addr);
	memcpy(&r->ifr_addr, &in, sizeof(in));
}

static void bring_up(int s, const char *name, const char *address)
{
	struct ifreq r = {0};

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	if (address) {
		set_address(&r, address);
		need(ioctl(s, SIOCSIFADDR, &r) == 0, "SIOCSIFADDR");
		set_address(&r, "255.255.255.0");
		need(ioctl(s, SIOCSIFNETMASK, &r) == 0, "SIOCSIFNETMASK");
	}
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	need(ioctl(s, SIOCSIFFLAGS, &r) == 0, "SIOCSIFFLAGS");
}

/* Makes a machine, and returns its device.  The descriptor comes over a socket pair from the process in the namespace. */
static int machine(const char *address, pid_t *pid)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	char byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
	int pair[2], fd = -1;
	struct cmsghdr *c;

	need(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
	*pid = fork();
	need(*pid >= 0, "fork");
	if (*pid == 0) {
		struct ifreq r = {.ifr_name = "tun0", .ifr_flags = IFF_TUN | IFF_NO_PI};
		int s;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGUSR1, SIG_IGN);
		signal(SIGUSR2, SIG_IGN);
		need(unshare(CLONE_NEWNET) == 0, "unshare");
		fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
		need(fd >= 0, "/dev/net/tun");
		need(ioctl(fd, TUNSETIFF, &r) == 0, "TUNSETIFF");
		s = socket(AF_INET, SOCK_DGRAM, 0);
		bring_up(s, "tun0", address);
		bring_up(s, "lo", NULL);
		close(s);
		c = CMSG_FIRSTHDR(&m);
		if (c) {
			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(c), &fd, sizeof(fd));
		}
		need(sendmsg(pair[1], &m, 0) == 1, "sendmsg");
		close(fd);
		close(pair[0]);
		close(pair[1]);
		for (;;)
			pause();
	}
	close(pair[1]);
	c = recvmsg(pair[0], &m, 0) == 1 ? CMSG_FIRSTHDR(&m) : NULL;
	need(c != NULL, "a machine");
	if (c)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	close(pair[0]);
	return fd;
}

static void take(struct way *w, uint64_t delay_us, unsigned loss, uint64_t *seed)
{
	uint8_t bytes[PACKET_MAX];
	ssize_t n;

	while ((n = read(w->from, bytes, sizeof(bytes))) > 0) {
		struct packet *p;

		if (cut || w->count == QUEUE || xorshift(seed) % 1000 < loss)
			continue;
		p = &w->v[(w->first + w->count++) % QUEUE];
		p->due_us = now_us() + delay_us;
		p->n = (unsigned)n;
		memcpy(p->bytes, bytes, (size_t)n);
	}
}

/* Returns the time until the next packet, or -1. */
static int64_t give(struct way *w)
{
	while (w->count) {
		struct packet *p = &w->v[w->first];
		const uint64_t now = now_us();

		if (p->due_us > now)
			return (int64_t)(p->due_us - now);
		if (!cut)
			(void)!write(w->to, p->bytes, p->n);
		w->first = (w->first + 1) % QUEUE;
		w->count--;
	}
	return -1;
}

int main(int argc, char **argv)
{
	struct way ways[2];
	struct pollfd fds[2];
	uint64_t delay_us, seed;
	pid_t pids[2];
	unsigned loss;

	if (argc != 4) {
		fputs("usage: net_relay DELAY_MS LOSS_IN_1000 SEED\n", stderr);
		return 2;
	}
	delay_us = strtoull(argv[1], NULL, 10) * 1000;
	loss = (unsigned)strtoul(argv[2], NULL, 10);
	seed = strtoull(argv[3], NULL, 10) * 2 + 1;
	signal(SIGUSR1, on_signal);
	signal(SIGUSR2, on_signal);
	for (int i = 0; i < 2; i++) {
		fds[i] = (struct pollfd){.fd = machine(i ? "10.99.0.2" : "10.99.0.1", &pids[i]), .events = POLLIN};
		ways[i].v = calloc(QUEUE, sizeof(*ways[i].v));
		ways[i].first = ways[i].count = 0;
		need(ways[i].v != NULL, "memory");
	}
	for (int i = 0; i < 2; i++) {
		ways[i].from = fds[i].fd;
		ways[i].to = fds[!i].fd;
	}
	printf("%d %d\n", (int)pids[0], (int)pids[1]);
	fflush(stdout);
	for (;;) {
		const int64_t a = give(&ways[0]), b = give(&ways[1]), next = a < 0 ? b : b < 0 || a < b ? a : b;
		const struct timespec t = {next / 1000000, next % 1000000 * 1000};

		if (ppoll(fds, 2, next < 0 ? NULL : &t, NULL) < 0 && errno != EINTR)
			return 1;
		for (int i = 0; i < 2; i++)
			take(&ways[i], delay_us, loss, &seed);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl init and cluster: a cluster of real programs.
 *
 * cluster start DIR runs one on this host: ZooKeeper, masters, servers, over the directory DIR/data.  It stays in the
 * foreground, starts a process that has ended again after a second, and ends all at ^C.  It ends the servers in turn, because each
 * server gives its tablets to the servers that are left, and the last server writes the rest.  Then it ends the masters, then
 * ZooKeeper.
 *
 *	DIR/running      its flock is the supervisor's; it has its number
 *	DIR/members      a line "NAME ADDRESS" for each process; addresses stay the same over restarts
 *	DIR/processes    a line "NAME PID" for each that runs
 *	DIR/keys the key of mounts; DIR/local.cluster.keys the key of the processes
 *	DIR/NAME.log     standard output and error of each;  DIR/zookeeperN/  of ZooKeeper
 *
 * The other subcommands read these files, and signal the supervisor or a process.
 */
#include "engine/cluster.h"

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/outcome.h"
#include "engine/base/source.h"
#include "engine/base/units.h"
#include "engine/tabletfs.h"
#include "engine/tool/transfer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLUSTER "local"
#define MEMBERS_MOST 64u
#define AGAIN_US 1000000u
#define READY_US 60000000u
#define END_US 90000000u
#define PAUSE_US 50000u

enum kind { ZOOKEEPER, MASTER, SERVER, KINDS };
static const char *const kind_names[KINDS] = {"zookeeper", "master", "server"};

struct member {
	char name[32], address[64];
	enum kind kind;
	pid_t pid;         /* 0: it does not run */
	uint64_t again_us; /* the time at which it is started again */
};
static struct {
	const char *dir;
	struct member v[MEMBERS_MOST];
	unsigned count;
} cluster;

static const char *in_dir(const char *name)
{
	return text("%s/%s", cluster.dir, name);
}

/* ---- the files ---- */

static bool add_member(const char *name, const char *address)
{
	struct member *m = &cluster.v[cluster.count];
	unsigned k = 0;

	while (k < KINDS && strncmp(name, kind_names[k], strlen(kind_names[k])) != 0)
		k++;
	if (k == KINDS || cluster.count == MEMBERS_MOST)
		return false;
	*m = (struct member){.kind = (enum kind)k};
	snprintf(m->name, sizeof(m->name), "%s", name);
	snprintf(m->address, sizeof(m->address), "%s", address);
	cluster.count++;
	return true;
}

static struct member *find_member(const char *name)
{
	for (unsigned i = 0; i < cluster.count; i++)
		if (strcmp(cluster.v[i].name, name) == 0)
			return &cluster.v[i];
	return NULL;
}

/* Adds the members of the file that are not known yet.  Returns false if there is no such file. */
static bool read_members(void)
{
	FILE *f = fopen(in_dir("members"), "re");
	char name[32], address[64];

	if (!f)
		return false;
	while (fscanf(f, "%31s %63s", name, address) == 2)
		if (!find_member(name))
			add_member(name, address);
	fclose(f);
	return true;
}

/* Replaces a file of DIR as a whole. */
static int write_lines(const char *name, const char *(*line)(const struct member *m))
{
	const char *path = in_dir(name);
	struct buf b = {0};
	int err = 0;

	for (unsigned i = 0; i < cluster.count && !err; i++) {
		const char *l = line(&cluster.v[i]);

		err = l ? buf_printf(&b, "%s\n", l) : 0;
	}
	if (!err)
		err = file_replace(path, buf_bytes(&b));
	buf_fini(&b);
	if (err)
		complain("%s: %s", path, strerror(-err));
	return err;
}

static const char *member_line(const struct member *m)
{
	return text("%s %s", m->name, m->address);
}

static const char *process_line(const struct member *m)
{
	return m->pid ? text("%s %d", m->name, (int)m->pid) : NULL;
}

/* Sets the processes' numbers from the file. */
static void read_processes(void)
{
	FILE *f = fopen(in_dir("processes"), "re");
	struct member *m;
	char name[32];
	int pid;

	while (f && fscanf(f, "%31s %d", name, &pid) == 2) {
		m = find_member(name);
		if (m)
			m->pid = pid;
	}
	if (f)
		fclose(f);
}

/* Opens DIR/running.  Returns the descriptor with its lock; -EBUSY: the cluster runs, and *pid is its supervisor. */
static int lock_running(bool make, int *pid)
{
	const char *path = in_dir("running");
	int fd = open(path, O_RDWR | (make ? O_CREAT : 0) | O_CLOEXEC, 0600), err = fd < 0 ? -errno : 0;
	char number[16] = "";

	if (!err && flock(fd, LOCK_EX | LOCK_NB)) {
		err = errno == EWOULDBLOCK ? -EBUSY : -errno;
		*pid = read(fd, number, sizeof(number) - 1) > 0 ? atoi(number) : 0;
	}
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

/* The supervisor of a cluster that runs; 0 after a message. */
static int running(void)
{
	int pid = 0, fd = lock_running(false, &pid);

	if (fd >= 0)
		close(fd);
	if (fd == -EBUSY && pid > 0 && read_members()) {
		read_processes();
		return pid;
	}
	complain("cluster: %s: no cluster runs there", cluster.dir);
	return 0;
}

/* ---- addresses ---- */

static const char *free_address(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool found = fd >= 0 && bind(fd, (struct sockaddr *)&at, n) == 0 && getsockname(fd, (struct sockaddr *)&at, &n) == 0;

	if (fd >= 0)
		close(fd);
	return found ? text("127.0.0.1:%u", ntohs(at.sin_port)) : NULL;
}

static int add_members(enum kind kind, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const char *address = free_address();

		if (!address || !add_member(text("%s%u", kind_names[kind], i + 1), address)) {
			complain("cluster: there is no free port");
			return -EADDRINUSE;
		}
	}
	return 0;
}

/* The addresses of all members of a kind, with commas. */
static const char *addresses(enum kind kind)
{
	const char *all = "";

	for (unsigned i = 0; i < cluster.count; i++)
		if (cluster.v[i].kind == kind)
			all = text("%s%s%s", all, *all ? "," : "", cluster.v[i].address);
	return all;
}

static const char *port_of(const struct member *m)
{
	return strrchr(m->address, ':') + 1;
}

static const char *cluster_source(void)
{
	return text("zk://%s/" CLUSTER "%s/data", addresses(ZOOKEEPER), cluster.dir);
}

static const char *mount_source(void)
{
	return text("tls://%s", addresses(SERVER));
}

/* ---- processes ---- */

/* In an ensemble, the ports of ZooKeeper's own protocol follow from the ports of its clients. */
static int write_zookeeper(const struct member *m)
{
	const char *dir = in_dir(m->name);
	struct buf b = {0};
	unsigned number = 0, mine = 0;
	int err = buf_printf(&b,
		"tickTime=500\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
		"4lw.commands.whitelist=ruok,srvr,mntr\nminSessionTimeout=1000\n",
		dir, port_of(m));

	if (mkdir(dir, 0700) && errno != EEXIST)
		err = -errno;
	for (unsigned i = 0; i < cluster.count && !err; i++) {
		const struct member *z = &cluster.v[i];
		const int port = atoi(port_of(z));

		if (z->kind != ZOOKEEPER)
			continue;
		number++;
		mine = z == m ? number : mine;
		if (strchr(addresses(ZOOKEEPER), ','))
			err = buf_printf(&b, "server.%u=127.0.0.1:%d:%d\n", number, (port + 20011) % 40000 + 20000,
				(port + 10007) % 40000 + 20000);
	}
	if (!err && number > 1) {
		err = buf_printf(&b, "initLimit=20\nsyncLimit=4\n");
		if (!err)
			err = file_replace(text("%s/myid", dir), tfs_str(text("%u\n", mine)));
	}
	if (!err)
		err = file_replace(text("%s/zookeeper.conf", dir), buf_bytes(&b));
	buf_fini(&b);
	if (err)
		complain("%s: %s", dir, strerror(-err));
	return err;
}

/* In the child. */
static void run_member(const struct member *m) __attribute__((noreturn));
static void run_member(const struct member *m)
{
	static const char jars[] = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-api.jar:/usr/share/java/slf4j-simple.jar:"
				   "/usr/share/java/netty-all.jar:/usr/share/java/metrics-core.jar";
	const char *log = in_dir(text("%s.log", m->name)), *program;
	int null = open("/dev/null", O_RDWR), fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	sigset_t none;

	setpgid(0, 0); /* ^C must reach the supervisor only */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null, 0);
	dup2(fd, 1);
	dup2(fd, 2);
	if (m->kind == ZOOKEEPER) {
		program = "java";
		execlp("java", "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars,
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", in_dir(text("%s/zookeeper.conf", m->name)), NULL);
	} else {
		const char *options = text("listen=%s,keys=%s/" CLUSTER ".cluster.keys%s", m->address, cluster.dir,
			access(in_dir("config"), R_OK) == 0 ? text(",config=%s/config", cluster.dir) : "");

		program = program_beside(m->kind == MASTER ? "tabletfs-master" : "tabletfs-server");
		execlp(program, program, "-f", "-o", options, text("zk://%s/" CLUSTER, addresses(ZOOKEEPER)), in_dir("data"), NULL);
	}
	dprintf(2, "%s: %s\n", program, strerror(errno));
	_exit(127);
}

static int start_member(struct member *m)
{
	m->pid = fork();
	if (m->pid == 0)
		run_member(m);
	if (m->pid < 0) {
		m->pid = 0;
		complain("cluster: %s: %s", m->name, strerror(errno));
		return -errno;
	}
	return 0;
}

static int start_all(enum kind kind)
{
	int err = 0;

	for (unsigned i = 0; i < cluster.count && !err; i++)
		if (cluster.v[i].kind == kind && !cluster.v[i].pid)
			err = start_member(&cluster.v[i]);
	return err ? err : write_lines("processes", process_line);
}

/* Takes note of processes that have ended. */
static bool reap(bool ends)
{
	bool any = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (unsigned i = 0; i < cluster.count; i++)
			if (cluster.v[i].pid == pid) {
				cluster.v[i].pid = 0;
				cluster.v[i].again_us = monotonic_us() + AGAIN_US;
				any = true;
				if (!ends)
					complain("cluster: %s has ended (%s %d); it is started again", cluster.v[i].name,
						WIFSIGNALED(status) ? "signal" : "status",
						WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
			}
	return any;
}

static void start_ended(void)
{
	bool any = false;

	for (unsigned i = 0; i < cluster.count; i++) {
		struct member *m = &cluster.v[i];

		if (!m->pid && monotonic_us() >= m->again_us) {
			m->again_us = monotonic_us() + AGAIN_US;
			any = start_member(m) == 0 || any;
		}
	}
	if (any)
		(void)!write_lines("processes", process_line);
}

/* Ends a process, at first by SIGTERM. */
static void end_one(struct member *m)
{
	const uint64_t until = monotonic_us() + END_US;

	kill(m->pid, SIGTERM);
	kill(m->pid, SIGCONT);
	for (bool killed = false; m->pid; reap(true)) {
		(void)usleep(PAUSE_US);
		if (monotonic_us() < until || killed)
			continue;
		killed = true;
		complain("cluster: %s does not end: killed", m->name);
		kill(m->pid, SIGKILL);
	}
}

static void end_all(enum kind kind)
{
	for (unsigned i = 0; i < cluster.count; i++)
		if (cluster.v[i].kind == kind && cluster.v[i].pid)
			end_one(&cluster.v[i]);
}

/* ---- readiness ---- */

static bool zookeeper_answers(const struct member *m)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval second = {.tv_sec = 1};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char said[512] = "";
	bool is = false;

	at.sin_port = htons((uint16_t)atoi(port_of(m)));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && write(fd, "srvr", 4) == 4)
		is = recv(fd, said, sizeof(said) - 1, MSG_WAITALL) > 0 && strstr(said, "Mode:");
	if (fd >= 0)
		close(fd);
	return is;
}

static bool zookeeper_is_ready(void)
{
	for (unsigned i = 0; i < cluster.count; i++)
		if (cluster.v[i].kind == ZOOKEEPER && !zookeeper_answers(&cluster.v[i]))
			return false;
	return true;
}

struct seen {
	unsigned servers, masters, tablets;
	bool print;
};

static int see_server(void *arg, const struct tfs_server *s)
{
	struct seen *x = arg;

	if (x->print)
		printf("%-10s %-22s %-12s %6u tablets %12llu bytes\n",
			s->incarnation ? text("%llu", (unsigned long long)s->incarnation) : "-", s->name, s->state, s->tablets,
			(unsigned long long)s->bytes);
	if (!s->incarnation)
		x->masters++;
	else if (strcmp(s->state, "unreachable") != 0)
		x->servers++;
	x->tablets += s->tablets;
	return 0;
}

/* Asks a server for all servers. why is set to the reason of an error; it may be NULL. */
static int see(const char *source, const char *keys, struct seen *x, char **why)
{
	struct tfs_store *s;
	struct tfs_options o;
	int err;

	tfs_options_init(&o);
	o.log_level = -1;
	o.timeout_us = 5000000;
	if (keys)
		snprintf(o.keys, sizeof(o.keys), "%s", keys);
	err = tfs_open(source, &o, &s, why);
	if (err)
		return err;
	err = tfs_servers(s, see_server, x);
	(void)!tfs_close(s);
	return err;
}

static bool servers_are_ready(void)
{
	struct seen x = {0};
	unsigned want = 0;
	char *why = NULL;

	for (unsigned i = 0; i < cluster.count; i++)
		want += cluster.v[i].kind == SERVER;
	(void)!see(mount_source(), in_dir("keys"), &x, &why);
	free(why);
	return x.servers >= want && x.masters && x.tablets;
}

/* Waits until ready() returns true, for a minute at most.  -EINTR: SIGINT or SIGTERM has come; -ECHILD: a process has ended. */
static int wait_until(const char *for_what, bool (*ready)(void), const sigset_t *signals)
{
	static const struct timespec pause = {.tv_nsec = PAUSE_US * 1000};
	const uint64_t until = monotonic_us() + READY_US;

	while (!ready()) {
		int sig = sigtimedwait(signals, NULL, &pause);

		if (sig == SIGINT || sig == SIGTERM)
			return -EINTR;
		if (reap(true)) {
			complain("cluster: a process has ended; see the .log files in %s", cluster.dir);
			return -ECHILD;
		}
		if (monotonic_us() > until) {
			complain("cluster: %s: not ready after a minute; see the .log files in %s", for_what, cluster.dir);
			return -ETIMEDOUT;
		}
	}
	return 0;
}

/* ---- start ---- */

/* The members of a kind: as many as the option says, for which the cluster must be new, or as many as `usual`. */
static int prepare_kind(const struct arguments *a, enum kind kind, bool known, unsigned usual)
{
	static const char letters[KINDS] = {[ZOOKEEPER] = 'z', [MASTER] = 'm', [SERVER] = 's'};
	const char *given_count = a->option[(unsigned char)letters[kind]], *rest = given_count;
	uint64_t count = usual;

	if (rest &&
		(!units_number(&rest, &count) || *rest || !count || count > MEMBERS_MOST / KINDS ||
			(kind == ZOOKEEPER && count != 1 && count != 3))) {
		complain("cluster: --%s%s %s: must be %s", kind_names[kind], kind == ZOOKEEPER ? "" : "s", given_count,
			kind == ZOOKEEPER ? "1 or 3" : "from 1 to 21");
		return -EINVAL;
	}
	if (rest && known) {
		complain("cluster: --%s%s: %s has its members already; add-server adds a server", kind_names[kind],
			kind == ZOOKEEPER ? "" : "s", cluster.dir);
		return -EINVAL;
	}
	return known ? 0 : add_members(kind, (unsigned)count);
}

static int prepare(const struct arguments *a)
{
	const bool known = read_members();
	int err = prepare_kind(a, ZOOKEEPER, known, 1);

	if (!err)
		err = prepare_kind(a, MASTER, known, 1);
	if (!err)
		err = prepare_kind(a, SERVER, known, 3);
	return err || known ? err : write_lines("members", member_line);
}

static int init(
	const char *source, const char *keys_dir, int (*make)(const struct store_source *at, const char *keys_dir, char **why))
{
	struct store_source at = {0};
	char *why = NULL;
	int err = store_source_parse(source, &at, &why);

	if (!err)
		err = make(&at, keys_dir, &why);
	if (err)
		complain("%s", why ? why : text("%s: %s", source, error_text(err)));
	store_source_fini(&at);
	free(why);
	return err;
}

static void supervise(const sigset_t *signals)
{
	static const struct timespec pause = {.tv_nsec = 200000000};
	int sig;

	do {
		sig = sigtimedwait(signals, NULL, &pause);
		if (sig == SIGHUP)
			read_members();
		if (reap(false))
			(void)!write_lines("processes", process_line);
		start_ended();
	} while (sig != SIGINT && sig != SIGTERM);
}

static int start(const struct arguments *a)
{
	sigset_t signals;
	int pid, fd, err = mkdir(cluster.dir, 0700) && errno != EEXIST ? -errno : 0;

	if (err) {
		complain("%s: %s", cluster.dir, strerror(-err));
		return EXIT_CANNOT;
	}
	cluster.dir = given(cluster.dir);
	fd = lock_running(true, &pid);
	if (fd < 0) {
		complain("cluster: %s: %s", cluster.dir, fd == -EBUSY ? "runs already" : strerror(-fd));
		return EXIT_CANNOT;
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	if (ftruncate(fd, 0) || dprintf(fd, "%d\n", (int)getpid()) < 0)
		err = -errno;
	if (!err)
		err = prepare(a);
	for (unsigned i = 0; i < cluster.count && !err; i++)
		err = cluster.v[i].kind == ZOOKEEPER ? write_zookeeper(&cluster.v[i]) : 0;
	if (!err)
		err = start_all(ZOOKEEPER);
	if (!err)
		err = wait_until("ZooKeeper", zookeeper_is_ready, &signals);
	if (!err)
		err = init(cluster_source(), cluster.dir, cluster_init);
	if (!err && link(in_dir(CLUSTER ".mount.keys"), in_dir("keys")) && errno != EEXIST)
		err = -errno;
	if (!err)
		err = start_all(MASTER);
	if (!err)
		err = start_all(SERVER);
	if (!err)
		err = wait_until("the servers", servers_are_ready, &signals);
	if (!err) {
		printf("tabletfs -o keys=%s %s MOUNTPOINT\n", in_dir("keys"), mount_source());
		fflush(stdout);
		supervise(&signals);
	}
	end_all(SERVER);
	end_all(MASTER);
	end_all(ZOOKEEPER);
	(void)unlink(in_dir("processes"));
	close(fd);
	return err && err != -EINTR ? EXIT_CANNOT : 0;
}

/* ---- subcommands for a running cluster ---- */

static int stop(void)
{
	int pid = running(), fd;

	if (!pid)
		return EXIT_CANNOT;
	kill(pid, SIGTERM);
	while ((fd = lock_running(false, &pid)) == -EBUSY)
		(void)usleep(PAUSE_US);
	if (fd >= 0)
		close(fd);
	return 0;
}

static int status_of(const char *source, const char *keys)
{
	struct seen x = {.print = true};
	char *why = NULL;
	int err = see(source, keys, &x, &why);

	if (err)
		complain("cluster: %s", why ? why : strerror(-err));
	free(why);
	return err ? EXIT_CANNOT : 0;
}

static int status(void)
{
	if (!running())
		return EXIT_CANNOT;
	for (unsigned i = 0; i < cluster.count; i++)
		printf("%-10s %-22s %s\n", cluster.v[i].name, cluster.v[i].address,
			cluster.v[i].pid ? text("process %d", (int)cluster.v[i].pid) : "ended");
	fflush(stdout);
	return status_of(mount_source(), in_dir("keys"));
}

static int add_server(void)
{
	const struct member *m;
	int pid = running();
	unsigned n = 0;

	if (!pid)
		return EXIT_CANNOT;
	while (find_member(text("server%u", n + 1)))
		n++;
	if (!free_address() || !add_member(text("server%u", n + 1), free_address())) {
		complain("cluster: there is no free port, or there are too many processes");
		return EXIT_CANNOT;
	}
	if (write_lines("members", member_line))
		return EXIT_CANNOT;
	m = &cluster.v[cluster.count - 1];
	kill(pid, SIGHUP);
	/* Until it runs, so that a script can kill it by its name. */
	while (!m->pid) {
		(void)usleep(PAUSE_US);
		if (!running())
			return EXIT_CANNOT;
	}
	printf("%s %s\n", m->name, m->address);
	return 0;
}

static int kill_member(const char *name)
{
	struct member *m;

	if (!running())
		return EXIT_CANNOT;
	m = find_member(name);
	if (!m || !m->pid) {
		complain("cluster: %s: no process of this name runs", name);
		return EXIT_CANNOT;
	}
	return kill(m->pid, SIGKILL) ? EXIT_CANNOT : 0;
}

static int cluster_run(const struct arguments *a)
{
	const char *verb = a->operand[0];
	const bool is_kill = strcmp(verb, "kill") == 0;

	if (a->operands != (is_kill ? 3 : 2))
		return bad_usage(&cluster_command, "%s: wrong number of arguments", verb);
	cluster.dir = a->operand[a->operands - 1];
	if (strcmp(verb, "start") == 0)
		return start(a);
	if (strcmp(verb, "status") == 0 && source_is_served(cluster.dir))
		return status_of(cluster.dir, NULL);
	cluster.dir = given(cluster.dir);
	if (strcmp(verb, "stop") == 0)
		return stop();
	if (strcmp(verb, "status") == 0)
		return status();
	if (strcmp(verb, "add-server") == 0)
		return add_server();
	return is_kill ? kill_member(a->operand[1]) : bad_usage(&cluster_command, "%s: no such verb", verb);
}

static const struct option cluster_options[] = {{"servers", required_argument, NULL, 's'},
	{"masters", required_argument, NULL, 'm'}, {"zookeeper", required_argument, NULL, 'z'}, {"help", no_argument, NULL, 'h'},
	{0}};
const struct command cluster_command = {
	.name = "cluster",
	.kinds = "ff",
	.brief = "run a cluster of servers on this host",
	.usage = "usage: tabletctl cluster start|stop|status|add-server DIR\n"
		 "       tabletctl cluster kill NAME DIR\n"
		 "       tabletctl cluster status tls://HOST:PORT[,HOST:PORT]\n"
		 "\n"
		 "start runs ZooKeeper, a master and servers over the directory DIR/data, prints the\n"
		 "command that mounts the store, and ends them all at ^C.  A process that ends is\n"
		 "started again.  kill ends one without warning, to see that nothing is lost.\n"
		 "\n"
		 "      --servers N     at the first start: of servers (3)\n"
		 "      --masters N     of masters, of which one leads (1)\n"
		 "      --zookeeper N   of ZooKeeper's servers, 1 or 3 (1)\n"
		 "  -h, --help          this text\n",
	.options = cluster_options,
	.least = 2,
	.most = 3,
	.run = cluster_run,
};

/* ---- init ---- */

static int init_run(const struct arguments *a)
{
	const char *dir = a->operand[1], *keys = a->operands > 2 ? given(a->operand[2]) : given(".");

	if (mkdir(dir, 0700) && errno != EEXIST) {
		complain("init: %s: %s", dir, strerror(errno));
		return EXIT_CANNOT;
	}
	return init(text("%s%s", a->operand[0], given(dir)), keys, cluster_init) ? EXIT_CANNOT : 0;
}

static int adopt_run(const struct arguments *a)
{
	const char *keys = a->operands > 2 ? given(a->operand[2]) : given(".");

	return init(text("%s%s", a->operand[1], given(a->operand[0])), keys, cluster_adopt) ? EXIT_CANNOT : 0;
}

const struct command adopt_command = {
	.name = "adopt",
	.kinds = "fff",
	.brief = "make an embedded store a cluster's",
	.usage = "usage: tabletctl adopt DATADIR " SOURCE_CLUSTER_FORM " [KEYSDIR]\n"
		 "\n"
		 "The store in DATADIR becomes that of a new cluster of this name in ZooKeeper, and\n"
		 "DATADIR the directory that all servers of the cluster share.  Keys as with init.\n"
		 "No process may have the store open.  There is no way back.  It can be repeated after a\n"
		 "failure.\n"
		 "\n"
		 "  -h, --help  this text\n",
	.least = 2,
	.most = 3,
	.run = adopt_run,
};

const struct command init_command = {
	.name = "init",
	.kinds = "fff",
	.brief = "make a cluster in an empty directory",
	.usage = "usage: tabletctl init " SOURCE_CLUSTER_FORM " DIR [KEYSDIR]\n"
		 "\n"
		 "Makes a cluster of this name in ZooKeeper and in DIR, which all its servers share, and in\n"
		 "KEYSDIR (default: this directory) the files CLUSTER.cluster.keys, for the servers and\n"
		 "masters, and CLUSTER.mount.keys, for mounts.  It can be repeated after a failure.\n"
		 "\n"
		 "  -h, --help  this text\n",
	.least = 2,
	.most = 3,
	.run = init_run,
};

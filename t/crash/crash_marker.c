/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power loss while a cluster is made of a lock service and a directory
 * (engine/lock/marker.c), and its file of keys is written (engine/rpc/keys.c).
 *
 * A child makes the cluster in forget mode and dies at its n-th file operation, or
 * at the end.  If the cluster was made, both places have its id, and the keys are there.
 * If not, the next attempt makes it.  Then each sync of the marker and of the keys is left
 * out in turn, and a death at the end must show it.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/lock/marker.h"
#include "engine/rpc/keys.h"
#include "t/crash/places.h"
#include "t/lib/file_faults.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SYNCS 200u

enum survival { NOTHING, EVERYTHING, RANDOM, SURVIVALS = RANDOM + 8 };
static struct shared {
	uint64_t ops, syncs, id; /* id is the id of the cluster that was made */
	char place_of_sync[SYNCS + 1][PLACE_BYTES];
} * sh;
static struct plan {
	uint64_t crash_at, skip, seed; /* crash_at is 0 for the end, skip 0 for no sync */
	unsigned survival;
} plan;
static char dir[64], locks_dir[80], data_dir[80], keys_path[80];
static const char keys_text[] = "cluster cluster 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";

static unsigned choose(void *arg, unsigned index, unsigned ways)
{
	if (plan.survival < RANDOM)
		return plan.survival % ways;
	plan.seed = mix(plan.seed);
	return (unsigned)(plan.seed % ways);
}

static void crash(void)
{
	_exit(file_forget_crash(choose, NULL) ? 3 : 0);
}

static int hook(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if ((op == FILE_OP_SYNC || op == FILE_OP_SYNCDIR) && sh->syncs < SYNCS)
		place_name(sh->place_of_sync[++sh->syncs], op);
	if (++sh->ops == plan.crash_at)
		crash();
	return 0;
}

static int make_cluster(uint64_t *id)
{
	struct lock_service *locks = NULL;
	char *why = NULL;
	int err = keys_write_new(keys_path, tfs_str(keys_text), &why);

	if (!err)
		err = lock_local_open(locks_dir, &locks);
	if (!err)
		err = marker_make(locks, data_dir, id, &why);
	free(why);
	lock_service_free(locks);
	return err;
}

static void child(void)
{
	uint64_t id;

	if (file_forget_start(dir))
		_exit(4);
	if (plan.skip)
		file_forget_skip(plan.skip);
	file_set_hook(hook, NULL);
	if (make_cluster(&id))
		_exit(5);
	sh->id = id;
	crash();
}

/* Returns true if both places have the id of the cluster that was made, with its keys, or another attempt makes one. */
static bool is_good(void)
{
	struct lock_service *locks = NULL;
	struct buf text = {0};
	char *why = NULL;
	uint64_t id = 0;
	int err = sh->id ? 0 : make_cluster(&id);

	if (!err)
		err = file_read_all(keys_path, sizeof(keys_text), &text);
	if (!err && !bytes_eq(buf_bytes(&text), tfs_str(keys_text)))
		err = -EBADMSG;
	buf_fini(&text);
	if (!err)
		err = lock_local_open(locks_dir, &locks);
	if (!err)
		err = marker_check(locks, data_dir, &id, &why);
	free(why);
	lock_service_free(locks);
	return !err && id && (!sh->id || id == sh->id);
}

static bool run(struct plan p)
{
	char command[200];
	bool good = false;
	int status;
	pid_t pid;

	plan = p;
	memset(sh, 0, sizeof(*sh));
	strcpy(dir, "/dev/shm/tfs-crash-marker-XXXXXX");
	if (!mkdtemp(dir))
		exit(2);
	snprintf(locks_dir, sizeof(locks_dir), "%s/lock", dir);
	snprintf(data_dir, sizeof(data_dir), "%s/data", dir);
	snprintf(keys_path, sizeof(keys_path), "%s/keys", dir);
	if (file_mkdir(locks_dir) || file_mkdir(data_dir))
		exit(2);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		child();
	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		good = is_good();
	snprintf(command, sizeof(command), "rm -rf '%s' '%s.forget'", dir, dir);
	if (system(command))
		exit(2);
	return good;
}

int main(void)
{
	unsigned deaths = 0, bad = 0;
	uint64_t ops, syncs;

	msg_to_nowhere();
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED || !run((struct plan){.survival = NOTHING}))
		bad++;
	ops = sh->ops;
	syncs = sh->syncs;
	for (uint64_t at = 1; at <= ops; at++)
		for (unsigned s = 0; s < SURVIVALS; s++, deaths++)
			if (!run((struct plan){.crash_at = at, .survival = s, .seed = at * 100 + s})) {
				printf("# death at operation %llu, survival %u: wrong\n", (unsigned long long)at, s);
				bad++;
			}
	for (uint64_t skip = 1; skip <= syncs; skip++) {
		bool good = run((struct plan){.skip = skip, .survival = NOTHING});
		struct place *p;

		if (!strstr(sh->place_of_sync[skip], "/marker.c") && !strstr(sh->place_of_sync[skip], "/keys.c"))
			continue;
		p = place_of(sh->place_of_sync[skip]);
		p->tried++;
		p->seen += !good;
		strcpy(p->by, "crash_marker");
	}
	places_print();
	printf("%s 1 - a cluster is made in spite of %u power losses\n1..1\n", bad ? "not ok" : "ok", deaths);
	return bad != 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tabletctl probe: tries whether servers on several hosts can share a directory (engine/base/probe.h). */
#include "engine/base/probe.h"
#include "engine/tool/progress.h"
#include "engine/tool/tool.h"

#include <errno.h>
#include <stdio.h>

static bool is_interrupted(void *arg)
{
	return progress_signal() != 0;
}

static void show_round(void *arg, unsigned done, unsigned rounds, uint64_t bytes)
{
	progress_total(rounds, true);
	progress_set(bytes, done);
}

static void print_wrong(const struct probe *p)
{
	struct buf line = {0};

	for (unsigned i = 0; i < PROBE_PROPERTIES; i++) {
		if (!p->wrong[i])
			continue;
		buf_reset(&line);
		if (probe_line(p, i, &line))
			no_memory();
		printf("unsafe: %.*s\n", (int)line.n, (const char *)line.p);
	}
	buf_fini(&line);
}

static int probe_dirs(const struct arguments *a)
{
	struct probe p = {.dir = {given(a->operand[0]), given(a->operand[1])}, .stop = is_interrupted, .round = show_round};
	unsigned wrong, tries = 0;
	int err;

	progress_begin(&(struct progress_options){.command = "probe", .done = "probed", .polls = true});
	err = probe_run(&p);
	progress_end();
	wrong = probe_wrong(&p);
	if (progress_signal()) {
		complain("probe: interrupted: no file is left");
		return 128 + progress_signal();
	}
	if (err) {
		complain("%s: %s", p.failed, err == -EXDEV ? "shows no file that is made in the other directory" : strerror(-err));
		return EXIT_CANNOT;
	}
	print_wrong(&p);
	for (unsigned i = 0; i < PROBE_PROPERTIES; i++)
		tries += p.tries[i];
	printf("%s: %s after %u tries in %u rounds\n", a->operand[1], wrong ? "not safe for servers on several hosts" : "safe",
		tries, p.done);
	return wrong ? EXIT_DAMAGED : 0;
}

const struct command probe_command = {
	.name = "probe",
	.kinds = "ff",
	.brief = "try whether hosts can share a directory",
	.usage = "usage: tabletctl probe DIRECTORY DIRECTORY\n"
		 "\n"
		 "Tries whether servers on several hosts can share a directory.  The arguments are\n"
		 "two mounts of it.  The same path twice tries less: only two mounts show whether\n"
		 "one of them caches what the other one changes.\n"
		 "\n"
		 "Exit status: 0 safe; 1 not safe, each line names a property and the setting that\n"
		 "may mend it; 2 it could not be tried.\n",
	.least = 2,
	.most = 2,
	.run = probe_dirs,
};

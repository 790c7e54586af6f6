/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of numbers as text. */
#include "engine/base/numbers.h"

#include <stdio.h>

int numbers_metrics(const struct number *v, unsigned n, struct buf *out)
{
	int err = 0;

	for (unsigned i = 0; i < n && !err; i++) {
		const char *suffix = v[i].gauge ? "" : "_total", *type = v[i].gauge ? "gauge" : "counter";
		size_t len = strlen(v[i].name);
		bool time = len > 3 && strcmp(v[i].name + len - 3, "_us") == 0;
		char name[64];

		snprintf(name, sizeof(name), "%.*s%s%s", (int)(time ? len - 3 : len), v[i].name, time ? "_seconds" : "", suffix);
		err = buf_printf(
			out, "# HELP tabletfs_%s %s\n# TYPE tabletfs_%s %s\ntabletfs_%s ", name, v[i].help, name, type, name);
		if (!err && time)
			err = buf_printf(out, "%llu.%06llu\n", (unsigned long long)v[i].value / 1000000,
				(unsigned long long)v[i].value % 1000000);
		else if (!err)
			err = buf_printf(out, "%llu\n", (unsigned long long)v[i].value);
	}
	return err;
}

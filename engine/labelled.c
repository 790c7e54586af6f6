/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of several servers (labelled.h). */
#include "engine/labelled.h"

#include <errno.h>
#include <stdlib.h>

struct labelled_metric {
	struct buf name, comments, samples;
	uint64_t first; /* the first server that has the metric; its comments are used */
};

/* The name of the metric of a comment "# HELP NAME ..." or "# TYPE NAME ...", or of a sample. */
static struct tfs_bytes name_of(struct tfs_bytes line)
{
	static const char help[] = "# HELP ";
	const size_t from = line.n > sizeof(help) && line.p[0] == '#' ? sizeof(help) - 1 : 0;
	size_t n = from;

	while (n < line.n && line.p[n] != ' ' && line.p[n] != '{')
		n++;
	return tfs_bytes_of(line.p + from, n - from);
}

/* hint: the index of the metric found last. */
static struct labelled_metric *find(struct labelled *all, uint64_t server, struct tfs_bytes name, unsigned *hint)
{
	struct labelled_metric *m;

	for (unsigned i = 0; i < all->count; i++) {
		const unsigned at = (*hint + i) % all->count;

		if (bytes_eq(buf_bytes(&all->metrics[at].name), name)) {
			*hint = at;
			return &all->metrics[at];
		}
	}
	if (array_grow(&all->metrics, all->count, sizeof(*all->metrics)))
		return NULL;
	m = &all->metrics[all->count];
	*m = (struct labelled_metric){.first = server};
	if (buf_append_bytes(&m->name, name))
		return NULL;
	*hint = all->count++;
	return m;
}

static int add_sample(struct labelled_metric *m, uint64_t server, struct tfs_bytes line)
{
	const size_t name = name_of(line).n;
	const bool labels = name < line.n && line.p[name] == '{';
	int err = buf_append(&m->samples, line.p, name);

	if (!err)
		err = buf_printf(&m->samples, "{server=\"%llu\"%s", (unsigned long long)server, labels ? "," : "}");
	if (!err)
		err = buf_append(&m->samples, line.p + name + labels, line.n - name - labels);
	return err ? err : buf_u8(&m->samples, '\n');
}

int labelled_add(struct labelled *all, uint64_t server, struct tfs_bytes text)
{
	struct labelled_metric *m = NULL;
	struct tfs_bytes line;
	unsigned hint = 0, of = 0; /* of: 1 + the index of the last line's metric; names of samples may begin with its name */
	int err = 0;

	while (!err && bytes_line(&text, &line)) {
		const bool comment = line.n && line.p[0] == '#';

		if (comment || !of || !bytes_has_prefix(name_of(line), buf_bytes(&all->metrics[of - 1].name)))
			of = 0;
		m = of ? &all->metrics[of - 1] : find(all, server, name_of(line), &hint);
		if (!m)
			return -ENOMEM;
		of = (unsigned)(m - all->metrics) + 1;
		if (!comment)
			err = add_sample(m, server, line);
		else if (m->first == server)
			err = buf_append_bytes(&m->comments, line) || buf_u8(&m->comments, '\n') ? -ENOMEM : 0;
	}
	return err;
}

int labelled_put(const struct labelled *all, struct buf *out)
{
	int err = 0;

	for (unsigned i = 0; i < all->count && !err; i++) {
		err = buf_append_bytes(out, buf_bytes(&all->metrics[i].comments));
		if (!err)
			err = buf_append_bytes(out, buf_bytes(&all->metrics[i].samples));
	}
	return err;
}

void labelled_fini(struct labelled *all)
{
	for (unsigned i = 0; i < all->count; i++) {
		buf_fini(&all->metrics[i].name);
		buf_fini(&all->metrics[i].comments);
		buf_fini(&all->metrics[i].samples);
	}
	free(all->metrics);
	*all = (struct labelled){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A FUSE daemon without a store: files and directories in memory, which end with
 * the mount.  What it takes is what the kernel, the context
 * switches and libfuse take, so it is the ceiling of any daemon that gets the
 * same requests.  For t/bench/mount.sh, which prints it beside ours.
 *
 *	empty [libfuse options] MOUNTPOINT
 *
 * One thread, which is the fastest here for one client.
 */
#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NODES (1u << 21)
#define FOREVER 86400.0

struct node {
	struct stat st;
	fuse_ino_t parent;
	uint32_t first, last, next; /* a directory's first and last entry, in the order of making; the next entry beside it */
	char *name, *data;
};

static struct node *nodes;                        /* by inode number */
static uint32_t count = FUSE_ROOT_ID + 1, *table; /* open addressing: inode numbers, 0 none */

static uint32_t *slot(fuse_ino_t parent, const char *name)
{
	uint64_t h = parent * 0x9e3779b97f4a7c15u;

	for (const char *p = name; *p; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3u;
	for (h ^= h >> 29;; h++) {
		uint32_t *s = &table[h % (2 * NODES)];

		if (!*s || (nodes[*s].parent == parent && strcmp(nodes[*s].name, name) == 0))
			return s;
	}
}

static void entry_of(uint32_t ino, struct fuse_entry_param *e)
{
	*e = (struct fuse_entry_param){.ino = ino, .attr = nodes[ino].st, .attr_timeout = FOREVER, .entry_timeout = FOREVER};
}

static void link_in(fuse_ino_t parent, uint32_t ino)
{
	if (nodes[parent].last)
		nodes[nodes[parent].last].next = ino;
	else
		nodes[parent].first = ino;
	nodes[parent].last = ino;
}

static int add(fuse_ino_t parent, const char *name, mode_t mode, struct fuse_entry_param *e)
{
	uint32_t *s = slot(parent, name);

	if (*s)
		return EEXIST;
	if (count == NODES)
		return ENOSPC;
	nodes[count] = (struct node){
		.st = {.st_ino = count, .st_mode = mode, .st_nlink = 1, .st_uid = getuid(), .st_gid = getgid()},
		.parent = parent,
		.name = strdup(name),
	};
	link_in(parent, count);
	*s = count++;
	entry_of(*s, e);
	return 0;
}

static void do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	uint32_t *s = slot(parent, name);
	struct fuse_entry_param e;

	if (!*s) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	entry_of(*s, &e);
	fuse_reply_entry(req, &e);
}

static void do_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	fuse_reply_attr(req, &nodes[ino].st, FOREVER);
}

static void do_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int set, struct fuse_file_info *fi)
{
	struct stat *mine = &nodes[ino].st;

	if (set & FUSE_SET_ATTR_MODE)
		mine->st_mode = (mine->st_mode & S_IFMT) | (st->st_mode & 07777);
	if (set & FUSE_SET_ATTR_MTIME)
		mine->st_mtim = st->st_mtim;
	fuse_reply_attr(req, mine, FOREVER);
}

static void do_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct fuse_entry_param e;
	int err = add(parent, name, S_IFDIR | mode, &e);

	if (err)
		fuse_reply_err(req, err);
	else
		fuse_reply_entry(req, &e);
}

static void do_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct fuse_entry_param e;
	int err = add(parent, name, S_IFREG | mode, &e);

	fi->direct_io = 1; /* as the plain names of tabletfs */
	if (err)
		fuse_reply_err(req, err);
	else
		fuse_reply_create(req, &e, fi);
}

static void do_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct node *n = &nodes[ino];
	char *more;

	if (off + (off_t)size > n->st.st_size) {
		more = realloc(n->data, (size_t)off + size);
		if (!more) {
			fuse_reply_err(req, ENOMEM);
			return;
		}
		n->data = more;
		n->st.st_size = off + (off_t)size;
	}
	memcpy(n->data + off, buf, size);
	fuse_reply_write(req, size);
}

/* The kernel keeps pages and listings. */
static void do_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	fi->keep_cache = 1;
	fi->cache_readdir = 1;
	fi->noflush = (fi->flags & O_ACCMODE) == O_RDONLY;
	fuse_reply_open(req, fi);
}

static void do_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	const struct node *n = &nodes[ino];
	const size_t left = off < n->st.st_size ? (size_t)(n->st.st_size - off) : 0;

	fuse_reply_buf(req, left ? n->data + off : NULL, size < left ? size : left);
}

/* An offset is the inode number of the entry before. */
static void do_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	char *buf = malloc(size);
	size_t used = 0, n;

	for (uint32_t i = off ? nodes[off].next : nodes[ino].first; i && buf; i = nodes[i].next, used += n) {
		struct fuse_entry_param e;

		entry_of(i, &e);
		n = fuse_add_direntry_plus(req, buf + used, size - used, nodes[i].name, &e, i);
		if (n > size - used)
			break;
	}
	fuse_reply_buf(req, buf, used);
	free(buf);
}

static void do_ok(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	fuse_reply_err(req, 0);
}

/* rsync's temporary files: onto a name that is not there. */
static void do_rename(
	fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname, unsigned flags)
{
	uint32_t ino = *slot(parent, name), *to = slot(newparent, newname);
	struct node *n = &nodes[ino];

	if (!ino || *to) {
		fuse_reply_err(req, ino ? EEXIST : ENOENT);
		return;
	}
	free(n->name);         /* the old slot stays taken, by a node of another name */
	n->parent = newparent; /* it is not listed in another directory than before */
	n->name = strdup(newname);
	*to = ino;
	fuse_reply_err(req, 0);
}

static const struct fuse_lowlevel_ops ops = {
	.lookup = do_lookup,
	.getattr = do_getattr,
	.setattr = do_setattr,
	.mkdir = do_mkdir,
	.create = do_create,
	.write = do_write,
	.open = do_open,
	.read = do_read,
	.opendir = do_open,
	.releasedir = do_ok,
	.readdirplus = do_readdirplus,
	.flush = do_ok,
	.release = do_ok,
	.rename = do_rename,
};

int main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	struct fuse_cmdline_opts o;
	struct fuse_session *s;
	int r = 1;

	nodes = calloc(NODES, sizeof(*nodes));
	table = calloc(2 * NODES, sizeof(*table));
	if (!nodes || !table || fuse_parse_cmdline(&args, &o) || !o.mountpoint) {
		fprintf(stderr, "empty [options] MOUNTPOINT\n");
		return 2;
	}
	nodes[FUSE_ROOT_ID].st = (struct stat){.st_ino = FUSE_ROOT_ID, .st_mode = S_IFDIR | 0755, .st_nlink = 2};
	nodes[FUSE_ROOT_ID].name = strdup("");
	s = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	if (s && fuse_set_signal_handlers(s) == 0 && fuse_session_mount(s, o.mountpoint) == 0) {
		r = fuse_session_loop(s) != 0;
		fuse_session_unmount(s);
	}
	if (s) {
		fuse_remove_signal_handlers(s);
		fuse_session_destroy(s);
	}
	fuse_opt_free_args(&args);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX ACLs, as the xattr system.posix_acl_access.  The kernel reads them and
 * checks them (FUSE_CAP_POSIX_ACL), and tools read and set them.
 *
 * An ACL belongs to a family: it is set on the family's directory in .families,
 * and the family's directories and cells have the same one.  A directory has x
 * wherever it has r, in each entry, as in its mode.  Elsewhere an ACL that
 * changes nothing is accepted, because cp -p sets one on each file that it
 * copies; any other ACL is a chmod.
 *
 * There are no default ACLs: a new cell has the ACL of its family.
 *
 * Where several users share the mount, nodes without an ACL answer ENODATA.
 * With EOPNOTSUPP the kernel would refuse to open the file for users other than
 * its owner.  A mount of one user answers EOPNOTSUPP, because ls -l then stops
 * asking; the kernel does not check ACLs there.
 */
#include "fs/request/request.h"

#include "fs/base/reply.h"
#include "fs/node/schema/new_family.h"
#include "fs/node/schema/schema_edit.h"

#include <endian.h>
#include <errno.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdio.h>
#include <stdlib.h>

#define ACCESS_NAME "system.posix_acl_access"
#define DEFAULT_NAME "system.posix_acl_default"
#define NO_ACL (fs.many_users ? -ENODATA : -EOPNOTSUPP)
#define NO_ID ((uint32_t)ACL_UNDEFINED_ID)

typedef struct posix_acl_xattr_entry acl_entry;

bool acl_is_name(const char *name)
{
	return strcmp(name, ACCESS_NAME) == 0 || strcmp(name, DEFAULT_NAME) == 0;
}

/* The family whose ACL the node has; NULL: it has none. */
static const struct node *acl_family(const struct node *n)
{
	if (n->kind == NODE_FAMILY_DIR)
		return n;
	if (node_is(n, KIND_SCRATCH))
		return NULL;
	while (n && !node_is(n, KIND_FAMILY))
		n = n->parent;
	return n;
}

static int put_entry(struct buf *out, unsigned tag, unsigned may, uint32_t id)
{
	const acl_entry e = {.e_tag = htole16((uint16_t)tag), .e_perm = htole16((uint16_t)may), .e_id = htole32(id)};

	return buf_append(out, &e, sizeof(e));
}

static int put_header(struct buf *out)
{
	const struct posix_acl_xattr_header head = {htole32(POSIX_ACL_XATTR_VERSION)};

	return buf_append(out, &head, sizeof(head));
}

/* The entries are in the order that the kernel requires: users, the owning group, groups. */
static int put_acl(const char *acl, mode_t mode, bool dir, struct buf *out)
{
	struct tfs_acl_entry e;
	int err = put_header(out);

	if (err == 0)
		err = put_entry(out, ACL_USER_OBJ, mode >> 6 & 7, NO_ID);
	while (err == 0 && tfs_acl_next(&acl, &e)) {
		const unsigned tag = !e.is_group ? ACL_USER : e.is_owner ? ACL_GROUP_OBJ : ACL_GROUP;

		err = put_entry(out, tag, e.may | (dir ? (e.may & 4) >> 2 : 0),
			e.is_owner           ? NO_ID
				: e.is_group ? fs_gid_across(e.id)
					     : fs_uid_across(e.id));
	}
	if (err == 0)
		err = put_entry(out, ACL_MASK, mode >> 3 & 7, NO_ID);
	if (err == 0)
		err = put_entry(out, ACL_OTHER, mode & 7, NO_ID);
	return err;
}

int acl_get(struct node *n, const char *name, struct buf *out)
{
	const struct node *family = acl_family(n);
	const struct tfs_family *f;
	const struct tfs_schema *s;
	mode_t mode;
	int err;

	if (!family || strcmp(name, ACCESS_NAME) != 0)
		return NO_ACL;
	err = tfs_schema_get(node_store_table(n), &s);
	if (err)
		return err == -ENOENT ? NO_ACL : err;
	f = tfs_schema_family(s, node_name(family));
	if (f && *f->acl) {
		mode = f->mode & 0777;
		err = put_acl(f->acl, node_is_dir(n) ? mode | (mode & 0444) >> 2 : mode, node_is_dir(n), out);
	} else {
		err = NO_ACL;
	}
	tfs_schema_put(s);
	return err;
}

/* ---- setting ---- */

/* An ACL that a user sets. */
struct acl {
	const uint8_t *entries; /* the entries may not be aligned */
	size_t count;
	unsigned owner, group, mask, other;
	bool extended; /* it has entries that a mode cannot express */
};

/* An entry in the byte order of this machine. */
static acl_entry entry_at(const struct acl *a, size_t i)
{
	acl_entry e;

	memcpy(&e, a->entries + i * sizeof(e), sizeof(e));
	return (acl_entry){le16toh(e.e_tag), le16toh(e.e_perm), le32toh(e.e_id)};
}

static int acl_parse_xattr(struct tfs_bytes value, struct acl *a)
{
	struct posix_acl_xattr_header head;

	*a = (struct acl){.mask = 7};
	if (value.n < sizeof(head) || (value.n - sizeof(head)) % sizeof(acl_entry))
		return -EINVAL;
	memcpy(&head, value.p, sizeof(head));
	if (le32toh(head.a_version) != POSIX_ACL_XATTR_VERSION)
		return -EOPNOTSUPP;
	a->entries = value.p + sizeof(head);
	a->count = (value.n - sizeof(head)) / sizeof(acl_entry);
	for (size_t i = 0; i < a->count; i++) {
		const acl_entry e = entry_at(a, i);
		const unsigned may = e.e_perm, tag = e.e_tag;

		if (may > 7)
			return -EINVAL;
		if (tag == ACL_USER_OBJ)
			a->owner = may;
		else if (tag == ACL_GROUP_OBJ)
			a->group = may;
		else if (tag == ACL_OTHER)
			a->other = may;
		else if (tag == ACL_MASK)
			a->mask = may;
		else if (tag != ACL_USER && tag != ACL_GROUP)
			return -EINVAL;
		a->extended = a->extended || tag == ACL_USER || tag == ACL_GROUP || tag == ACL_MASK;
	}
	return 0;
}

/* The family's ACL as in the schema.  x is dropped, as by chmod: directories have it wherever they have r. */
static int acl_text(const struct acl *a, struct buf *out)
{
	int err = 0;

	for (size_t i = 0; a->extended && i < a->count && err == 0; i++) {
		const acl_entry e = entry_at(a, i);
		const unsigned may = e.e_perm, tag = e.e_tag;
		char id[12] = "";

		if (tag != ACL_USER && tag != ACL_GROUP && tag != ACL_GROUP_OBJ)
			continue;
		if (tag != ACL_GROUP_OBJ)
			snprintf(id, sizeof(id), "%u", tag == ACL_USER ? fs_uid_across(e.e_id) : fs_gid_across(e.e_id));
		err = buf_printf(out, "%s%c:%s:%c%c-", out->n ? "," : "", tag == ACL_USER ? 'u' : 'g', id, may & 4 ? 'r' : '-',
			may & 2 ? 'w' : '-');
	}
	return err ? err : buf_u8(out, 0);
}

static int set_family(struct node *n, const struct acl *a, struct changes *c)
{
	const unsigned group = a->extended ? a->mask : a->group;
	struct buf text = {0};
	int err = acl_text(a, &text);

	if (err == 0)
		err = fs_schema_set_acl(
			n, (const char *)text.p, (mode_t)((a->owner & 6) << 6 | (group & 6) << 3 | (a->other & 6)), c);
	buf_fini(&text);
	return err;
}

/* Returns true if the node has this ACL.  The order of entries does not matter. */
static bool same_acl(struct node *n, const struct acl *a, const struct stat *st)
{
	struct buf now = {0};
	struct acl b;
	bool same;
	int err = acl_get(n, ACCESS_NAME, &now);

	if (err == NO_ACL) {
		buf_fini(&now);
		return !a->extended && (a->owner << 6 | a->group << 3 | a->other) == (st->st_mode & 0777);
	}
	same = err == 0 && acl_parse_xattr(buf_bytes(&now), &b) == 0 && a->count == b.count;
	for (size_t i = 0; same && i < a->count; i++) {
		bool found = false;

		for (size_t k = 0; k < b.count && !found; k++)
			found = memcmp(a->entries + i * sizeof(acl_entry), b.entries + k * sizeof(acl_entry), sizeof(acl_entry)) ==
				0;
		same = found;
	}
	buf_fini(&now);
	return same;
}

static int set_access(struct node *n, const struct acl *a, struct changes *c)
{
	struct stat st;
	double timeout;
	int err, asked;

	if (n->kind == NODE_FAMILY_DIR)
		return set_family(n, a, c);
	err = node_attr(n, &st, &timeout);
	/* The operation of a cell notes that a mode was asked for, also if the cell has it. */
	if (err || (same_acl(n, a, &st) && (a->extended || !node_ops(n)->set_owner)))
		return err;
	if (a->extended && n->kind == NODE_TABLE)
		return refuse(-EOPNOTSUPP, n, NULL, "only families have ACLs: setfacl TABLE/.families/F");
	/* Scratch has a mode only.  Its bits for the group are no more than the ACL gives this group. */
	if (node_ops(n)->set_owner) {
		st.st_mode = (st.st_mode & ~(mode_t)0777) | (mode_t)(a->owner << 6 | (a->group & a->mask) << 3 | a->other);
		asked = a->extended && (node_is(n, KIND_CELL) || node_is(n, KIND_FAMILY)) ? new_family_ask(n, st.st_mode, c) : 0;
		if (asked)
			return asked < 0 ? asked : 0;
		if (a->extended && same_acl(n, a, &st))
			return 0; /* .schema has just been written, as a restore does */
		err = request_set_owner(n, &st, FUSE_SET_ATTR_MODE, c);
		if (err || !a->extended || node_is(n, KIND_SCRATCH))
			return err;
	}
	return fs_schema_keep_owner(n);
}

int acl_set(struct node *n, const char *name, struct tfs_bytes value, struct changes *c)
{
	struct acl a;
	int err = acl_parse_xattr(value, &a);

	if (err)
		return refuse(err, n, NULL, "not an ACL");
	if (strcmp(name, ACCESS_NAME) == 0)
		return set_access(n, &a, c);
	return a.count == 0 ? 0 : refuse(-EOPNOTSUPP, n, NULL, "there are no default ACLs: new cells have the family's");
}

int acl_remove(struct node *n, const char *name, struct changes *c)
{
	struct buf now = {0};
	struct stat st;
	double timeout;
	int err = acl_get(n, name, &now);

	buf_fini(&now);
	if (err)
		return err == NO_ACL ? 0 : err;
	if (n->kind != NODE_FAMILY_DIR)
		return fs_schema_keep_owner(n);
	err = node_attr(n, &st, &timeout);
	return err ? err : fs_schema_set_acl(n, "", st.st_mode & 0666, c);
}

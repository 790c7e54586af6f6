# SPDX-License-Identifier: Apache-2.0
# The FUSE daemon.  tabletfs-model is the same over the in-memory reference
# model: it shows that fs/ knows nothing but tabletfs.h, and runs mount tests
# without a store.
fs_sources = \
	%D%/stream/bulk.c \
	%D%/http/http.h %D%/http/documents.c %D%/http/history.c %D%/http/history.h \
	%D%/loop.c %D%/daemon.h %D%/main.c %D%/memory.c %D%/mountpoint.c %D%/remount.c %D%/options.c %D%/options.h %D%/server.c %D%/service.c %D%/session.c %D%/session.h \
	%D%/request/acl.c %D%/request/change.c %D%/request/lookup.c %D%/request/scanning.c %D%/request/readdir.c %D%/request/request.h %D%/request/stream.c \
	%D%/request/stream.h %D%/request/xattr.c \
	%D%/node/admin.c %D%/node/admin.h %D%/node/truncate.c %D%/node/scratch/scratch_store.c %D%/node/cell.c \
	%D%/node/cell_rename.c %D%/node/control_name.c %D%/node/help.c %D%/node/help.h %D%/node/families.c %D%/request/foreign.c %D%/request/foreign.h %D%/node/family.c \
	%D%/node/list.c %D%/node/kinds.h %D%/node/list.h %D%/node/list_keys.c \
	%D%/node/made.c %D%/node/made.h %D%/node/schema/new_family.c %D%/node/schema/new_family.h %D%/node/part.c \
	%D%/node/root.c %D%/node/row.c %D%/stream/row_change.c %D%/stream/mutate.c %D%/stream/row_json.c %D%/node/schema/schema.c %D%/node/schema/schema_edit.c \
	%D%/node/scan.c %D%/stream/scan_stream.c %D%/stream/run.c %D%/stream/since.c %D%/stream/changes.c %D%/stream/stream.c %D%/stream/stream.h %D%/node/source.c %D%/node/source.h %D%/node/view.c \
	%D%/node/schema/schema_edit.h %D%/node/scratch/scratch.c %D%/node/scratch/scratch.h %D%/node/scratch/scratch_entry.c %D%/node/schema/setting.c \
	%D%/node/schema/setting.h %D%/node/snap.c %D%/node/table.c %D%/node/tree.c %D%/node/tree.h \
	%D%/file/blocks.c %D%/file/blocks.h %D%/file/cell.c %D%/file/cell.h %D%/file/commit.c %D%/file/counter.c %D%/file/counter.h %D%/file/io.c %D%/file/file.h %D%/file/setattr.c \
	%D%/file/open.c %D%/file/stat.c %D%/file/displaced.c %D%/file/descriptor.c %D%/file/read.c \
	%D%/file/read.h %D%/file/stage.c %D%/file/stage.h %D%/file/content.c %D%/file/content.h %D%/file/sequential.c %D%/file/sequential.h \
	%D%/base/access.c %D%/base/access.h %D%/base/ahead.c %D%/base/ahead.h %D%/base/cache.c %D%/base/cache.h %D%/base/dir_time.c %D%/base/dir_time.h %D%/base/extra.c %D%/base/extra.h \
	%D%/base/fs.c %D%/base/fs.h %D%/base/node.c %D%/base/node.h \
	%D%/base/node_ops.c %D%/base/node_ops.h %D%/base/permit.c %D%/base/permit.h %D%/base/notify.c %D%/base/notify.h %D%/base/reply.c \
	%D%/base/reply.h %D%/base/node_memory.c %D%/base/node_memory.h %D%/base/renumber.c %D%/base/renumber.h %D%/base/slow.c %D%/base/slow.h %D%/base/sender.c %D%/base/sender.h %D%/base/user_count.c %D%/base/user_count.h

bin_PROGRAMS += tabletfs
tabletfs_SOURCES = $(fs_sources)
nodist_tabletfs_SOURCES = %D%/http/page.c
tabletfs_LDADD = libbulk.a libdaemon.a libcluster.a engine/libzookeeper_lock.a libengine.a libbase.a $(ZOOKEEPER_LIBS) $(FUSE_LIBS) $(MICROHTTPD_LIBS) $(JANSSON_LIBS)
tabletfs_LDFLAGS = $(TFS_LDFLAGS) -Wl,-u,cluster_serve
# The same program by another name serves a store without a mount.
noinst_DATA = tabletfs-server
CLEANFILES += tabletfs-server
tabletfs-server: tabletfs$(EXEEXT)
	$(AM_V_GEN)ln -sf 'tabletfs$(EXEEXT)' '$@'

check_PROGRAMS += %D%/tabletfs-model
%C%_tabletfs_model_SOURCES = $(fs_sources)
nodist_%C%_tabletfs_model_SOURCES = %D%/http/page.c
%C%_tabletfs_model_LDADD = libbulk.a libdaemon.a t/model/libmodel.a libbase.a $(FUSE_LIBS) $(MICROHTTPD_LIBS) $(JANSSON_LIBS)
%C%_tabletfs_model_LDFLAGS = $(TFS_LDFLAGS)

# The status page as an array of bytes.
EXTRA_DIST += %D%/http/page.html
CLEANFILES += %D%/http/page.c
%D%/http/page.c: %D%/http/page.html %D%/local.mk
	$(AM_V_GEN)$(MKDIR_P) %D%/http && { echo '#include "fs/http/http.h"'; echo 'const unsigned char document_page[] = {'; \
	od -An -v -tx1 $(srcdir)/%D%/http/page.html | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'; echo '};'; \
	echo 'const size_t document_page_bytes = sizeof(document_page);'; } >$@.tmp && mv $@.tmp $@

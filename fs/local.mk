# SPDX-License-Identifier: Apache-2.0
# The FUSE daemon.  tabletfs-model is the same over the in-memory reference
# model: it shows that fs/ knows nothing but tabletfs.h, and runs mount tests
# without a store.
fs_sources = %D%/base/cache.c %D%/base/cache.h %D%/base/fs.c %D%/base/fs.h %D%/loop.c %D%/loop.h %D%/main.c %D%/mountpoint.c \
	%D%/mountpoint.h %D%/base/name.c %D%/base/name.h %D%/base/notify.c %D%/base/notify.h %D%/base/reply.c %D%/base/reply.h \
	%D%/session.c %D%/session.h %D%/xattr.c %D%/xattr.h \
	%D%/node/admin.c %D%/node/admin.h %D%/node/adopt.c %D%/node/adopt.h %D%/node/control.c \
	%D%/node/control.h %D%/node/dir.c %D%/node/dir.h %D%/node/dirtime.c %D%/node/dirtime.h \
	%D%/node/list.c %D%/node/made.c %D%/node/made.h %D%/base/node.c %D%/base/node.h %D%/node/rename.c \
	%D%/node/rendered.c %D%/node/rendered.h %D%/node/scratch.c %D%/node/scratch.h %D%/base/slab.c \
	%D%/base/slab.h %D%/node/tree.c %D%/node/tree.h %D%/node/tree_ops.c \
	%D%/file/cell.c %D%/file/cell.h %D%/file/commit.c %D%/file/file.c %D%/file/file.h %D%/file/file_change.c \
	%D%/file/file_open.c %D%/file/filex.c %D%/file/follow.c %D%/file/handle.c %D%/file/share.c \
	%D%/file/share.h %D%/file/stage.c %D%/file/stage.h %D%/file/writer.c %D%/file/writer.h

bin_PROGRAMS += tabletfs
tabletfs_SOURCES = $(fs_sources)
tabletfs_LDADD = libengine.la libbase.la $(FUSE_LIBS)
tabletfs_LDFLAGS = $(TFS_LDFLAGS)
# LevelDB is below: linked with the C++ compiler.
nodist_EXTRA_tabletfs_SOURCES = %D%/dummy.cc

check_PROGRAMS += %D%/tabletfs-model
%C%_tabletfs_model_SOURCES = $(fs_sources)
%C%_tabletfs_model_LDADD = t/model/libmodel.la libbase.la $(FUSE_LIBS)
%C%_tabletfs_model_LDFLAGS = $(TFS_LDFLAGS)

# SPDX-License-Identifier: Apache-2.0
# The FUSE daemon.  tabletfs-model is the same over the in-memory reference
# model: it shows that fs/ knows nothing but tabletfs.h, and runs mount tests
# without a store.
fs_sources = %D%/main.c %D%/mountpoint.c %D%/mountpoint.h %D%/session.c %D%/session.h %D%/fs.c %D%/fs.h %D%/name.c %D%/name.h %D%/node.c %D%/node.h %D%/adopt.c %D%/adopt.h %D%/slab.c %D%/slab.h \
	%D%/stage.c %D%/stage.h %D%/writer.c %D%/writer.h %D%/cell.c %D%/cell.h %D%/file.c %D%/file.h %D%/file_open.c %D%/handle.c %D%/share.c %D%/share.h %D%/dirtime.c %D%/dirtime.h %D%/file_change.c %D%/filex.c %D%/follow.c \
	%D%/scratch.c %D%/scratch.h %D%/tree.c %D%/tree.h %D%/tree_ops.c %D%/rename.c %D%/list.c %D%/made.c %D%/made.h %D%/dir.c %D%/dir.h \
	%D%/control.c %D%/control.h %D%/rendered.c %D%/rendered.h %D%/admin.c %D%/admin.h %D%/notify.c %D%/notify.h %D%/reply.c %D%/reply.h \
	%D%/loop.c %D%/loop.h %D%/cache.c %D%/cache.h %D%/xattr.c %D%/xattr.h

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

# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += liblock.a
liblock_a_SOURCES = %D%/lock.h %D%/lock_format.c %D%/lock_format.h %D%/ops.c %D%/ops.h %D%/watch.c %D%/watch.h %D%/local.c %D%/local_files.c %D%/local_files.h \
	%D%/clocks.c %D%/clocks.h %D%/identity.c %D%/identity.h %D%/marker.c %D%/marker.h %D%/session.c %D%/session.h %D%/term.c %D%/term.h

# The lock service of a cluster.  Programs of a cluster link it and $(ZOOKEEPER_LIBS) in front of libengine.a, so that no other
# program loads ZooKeeper's library.
noinst_LIBRARIES += engine/libzookeeper_lock.a
engine_libzookeeper_lock_a_SOURCES = %D%/zookeeper.c %D%/zookeeper.h %D%/zookeeper_internal.h %D%/zookeeper_call.c %D%/zookeeper_watch.c

# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += libmaster.a
libmaster_a_SOURCES = %D%/master.c %D%/term.c %D%/tasks.c %D%/collect.h %D%/collect_list.c %D%/collect.c %D%/steps.c %D%/pass.h %D%/pass_rows.c %D%/pass_servers.c %D%/drop.c %D%/assign.c %D%/assign.h %D%/move.c %D%/change.c %D%/master.h %D%/internal.h %D%/tables.c %D%/snapshots.c %D%/expiry.c %D%/reach.c %D%/start.c %D%/balance.c %D%/balance.h

bin_PROGRAMS += tabletfs-master
tabletfs_master_SOURCES = %D%/main.c
tabletfs_master_LDADD = libdaemon.a libcluster.a engine/libzookeeper_lock.a libengine.a libbase.a $(ZOOKEEPER_LIBS) $(MICROHTTPD_LIBS)
tabletfs_master_LDFLAGS = $(TFS_LDFLAGS)

# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += tabletctl
tabletctl_SOURCES = %D%/tool.h %D%/main.c %D%/message.c %D%/offline.h %D%/offline_lock.c %D%/offline_meta.c %D%/offline_tablet.c \
	%D%/sst_count.h %D%/check.h %D%/check.c %D%/check_sst.c %D%/check_log.c \
	%D%/repair.h %D%/repair.c %D%/repair_lock.c %D%/repair_meta.c %D%/repair_write.c %D%/repair_sst.c \
	%D%/repair_log.c %D%/repair_schema.c %D%/dump.c %D%/row.c %D%/scan.c %D%/bench.c \
	%D%/progress.c %D%/progress.h %D%/scan.h %D%/transfer.c %D%/transfer.h %D%/import.c %D%/export.c %D%/ctl.c %D%/complete.c %D%/remote.c %D%/sql/sql.c %D%/cluster/cluster.c %D%/cluster/drain.c
tabletctl_CPPFLAGS = $(AM_CPPFLAGS) -DLIBDIR='"$(libdir)"'
tabletctl_LDADD = libbulk.a libcluster.a engine/libzookeeper_lock.a libengine.a $(ZOOKEEPER_LIBS) $(TFS_LDFLAGS)

# Makes stores for t/20-check-finds-each-damage.t.
check_PROGRAMS += t/lib/fill
t_lib_fill_SOURCES = t/lib/fill.c
t_lib_fill_LDADD = libengine.a $(TFS_LDFLAGS)
# The mount's benchmark, by hand.
EXTRA_DIST += t/bench/mount.sh t/bench/compression.sh t/bench/walk.c

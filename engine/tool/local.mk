# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += tabletctl
tabletctl_SOURCES = %D%/tool.h %D%/main.c %D%/message.c %D%/store/offline.h %D%/store/offline_lock.c %D%/store/offline_meta.c %D%/store/offline_tablet.c \
	%D%/store/sst_count.h %D%/store/check.h %D%/store/check.c %D%/store/check_sst.c %D%/store/check_log.c \
	%D%/store/repair.h %D%/store/repair.c %D%/store/repair_lock.c %D%/store/repair_meta.c %D%/store/repair_write.c %D%/store/repair_sst.c \
	%D%/store/repair_log.c %D%/store/repair_schema.c %D%/store/dump.c %D%/table.c %D%/row.c %D%/scan.c %D%/bench.c \
	%D%/progress.c %D%/progress.h %D%/scan.h %D%/why.c %D%/transfer.c %D%/transfer.h %D%/delete.c %D%/du.c %D%/packed.c %D%/packed.h %D%/import.c %D%/export.c %D%/ctl.c %D%/complete.c %D%/remote.c %D%/sql/sql.c %D%/cluster/cluster.c %D%/cluster/drain.c
tabletctl_SOURCES += %D%/mirror/mirror.h %D%/mirror/mirror.c %D%/mirror/state.c %D%/mirror/families.c %D%/mirror/copy.c \
	%D%/mirror/follow.c %D%/mirror/write.c %D%/mirror/diff.h %D%/mirror/diff.c %D%/mirror/ranges.h %D%/mirror/ranges.c %D%/mirror/compare.c
tabletctl_CPPFLAGS = $(AM_CPPFLAGS) -DLIBDIR='"$(libdir)"'
tabletctl_LDADD = libbulk.a libcluster.a engine/libzookeeper_lock.a libengine.a $(ZOOKEEPER_LIBS) $(TFS_LDFLAGS)

# Makes stores for t/20-check-finds-each-damage.t.
check_PROGRAMS += t/lib/fill
t_lib_fill_SOURCES = t/lib/fill.c
t_lib_fill_LDADD = libengine.a $(TFS_LDFLAGS)
# The mount's benchmark, by hand.
EXTRA_DIST += t/bench/mount.sh t/bench/compression.sh t/bench/walk.c

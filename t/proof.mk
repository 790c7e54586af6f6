# SPDX-License-Identifier: Apache-2.0
# Tests of the whole engine: random histories, crashes, faults, stalls.
history_sources = %D%/history/api.c %D%/history/mutate.c %D%/history/look.c %D%/history/schemas.c %D%/history/steps.c %D%/history/server.c %D%/history/snapshots.c \
	%D%/history/history.h %D%/history/keys.h
engine_test_libs = t/model/libmodel_ref.a $(hooked_libs) $(TFS_LDFLAGS)

check_PROGRAMS += t/history/test_history t/crash/crash_store t/crash/crash_syncs
t_history_test_history_SOURCES = %D%/history/test_history.c %D%/history/feed.c %D%/history/feed.h $(history_sources)
t_history_test_history_LDADD = $(engine_test_libs)
t_history_test_history_LDFLAGS = $(hooked_flags)
check_PROGRAMS += t/history/test_clauses
t_history_test_clauses_SOURCES = %D%/history/test_clauses.c $(history_sources)
t_history_test_clauses_LDADD = libbulk.a $(engine_test_libs)
t_history_test_clauses_LDFLAGS = $(hooked_flags)
store_point_sources = %D%/crash/store_point.c %D%/crash/store_point.h $(history_sources)
t_crash_crash_store_SOURCES = %D%/crash/crash_store.c $(store_point_sources)
t_crash_crash_store_LDADD = $(engine_test_libs)
t_crash_crash_store_LDFLAGS = $(hooked_flags)
t_crash_crash_syncs_SOURCES = %D%/crash/crash_syncs.c %D%/crash/handed_on.c %D%/crash/handed_on.h \
	%D%/crash/places.h $(store_point_sources)
t_crash_crash_syncs_LDADD = $(engine_test_libs)
t_crash_crash_syncs_LDFLAGS = $(hooked_flags)
check_PROGRAMS += t/crash/crash_durable
t_crash_crash_durable_SOURCES = %D%/crash/crash_durable.c %D%/crash/durable.c %D%/crash/durable.h $(store_point_sources)
t_crash_crash_durable_LDADD = $(engine_test_libs)
t_crash_crash_durable_LDFLAGS = $(hooked_flags) -Wl,--wrap=metadata_mutate,--wrap=metadata_make,--wrap=metadata_delete

check_PROGRAMS += t/engine/test_stall t/engine/test_split t/engine/test_unfinished_splits t/engine/test_killed t/engine/test_tablets t/engine/test_schemas t/engine/test_access t/engine/test_memory t/engine/test_snapshots
t_engine_test_stall_SOURCES = %D%/engine/test_stall.c %D%/engine/lib.h %D%/unit/dir.h
t_engine_test_stall_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_stall_LDFLAGS = $(hooked_flags)
check_PROGRAMS += t/engine/test_feed
t_engine_test_feed_SOURCES = %D%/engine/test_feed.c %D%/engine/lib.h
t_engine_test_feed_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_feed_LDFLAGS = $(hooked_flags)
check_PROGRAMS += t/engine/test_changed
t_engine_test_changed_SOURCES = %D%/engine/test_changed.c %D%/engine/lib.h
t_engine_test_changed_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_changed_LDFLAGS = $(hooked_flags)
check_PROGRAMS += t/engine/test_hashes
t_engine_test_hashes_SOURCES = %D%/engine/test_hashes.c %D%/engine/lib.h
t_engine_test_hashes_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_hashes_LDFLAGS = $(hooked_flags)
check_PROGRAMS += t/engine/test_lost_scans
t_engine_test_lost_scans_SOURCES = %D%/engine/test_lost_scans.c %D%/engine/lib.h
t_engine_test_lost_scans_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_lost_scans_LDFLAGS = $(hooked_flags)
check_PROGRAMS += t/engine/test_holds
t_engine_test_holds_SOURCES = %D%/engine/test_holds.c %D%/engine/lib.h
t_engine_test_holds_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_holds_LDFLAGS = $(hooked_flags)
check_PROGRAMS += t/engine/test_truncate
t_engine_test_truncate_SOURCES = %D%/engine/test_truncate.c %D%/engine/deaths.h %D%/engine/lib.h
t_engine_test_truncate_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_truncate_LDFLAGS = $(hooked_flags)
t_engine_test_snapshots_SOURCES = %D%/engine/test_snapshots.c %D%/engine/snapshot_lib.h %D%/engine/lib.h
t_engine_test_snapshots_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_snapshots_LDFLAGS = $(hooked_flags)
check_PROGRAMS += t/engine/test_differences t/engine/test_snapshot_deaths
t_engine_test_differences_SOURCES = %D%/engine/test_differences.c %D%/engine/snapshot_lib.h %D%/engine/lib.h
t_engine_test_differences_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_differences_LDFLAGS = $(hooked_flags)
t_engine_test_snapshot_deaths_SOURCES = %D%/engine/test_snapshot_deaths.c %D%/engine/deaths.h %D%/engine/snapshot_lib.h %D%/engine/lib.h
t_engine_test_snapshot_deaths_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_snapshot_deaths_LDFLAGS = $(hooked_flags)
t_engine_test_schemas_SOURCES = %D%/engine/test_schemas.c %D%/engine/lib.h
t_engine_test_schemas_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_schemas_LDFLAGS = $(hooked_flags)
t_engine_test_access_SOURCES = %D%/engine/test_access.c %D%/engine/lib.h
t_engine_test_access_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_access_LDFLAGS = $(hooked_flags)
t_engine_test_tablets_SOURCES = %D%/engine/test_tablets.c %D%/engine/lib.h
t_engine_test_tablets_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_tablets_LDFLAGS = $(hooked_flags)
t_engine_test_killed_SOURCES = %D%/engine/test_killed.c %D%/engine/lib.h
t_engine_test_killed_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_killed_LDFLAGS = $(hooked_flags)
check_PROGRAMS += t/engine/test_linear
t_engine_test_linear_SOURCES = %D%/engine/test_linear.c %D%/engine/lib.h %D%/unit/dir.h
t_engine_test_linear_LDADD = t/lin/liblin.a $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_linear_LDFLAGS = $(hooked_flags)
t_engine_test_unfinished_splits_SOURCES = %D%/engine/test_unfinished_splits.c %D%/engine/lib.h
t_engine_test_unfinished_splits_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_unfinished_splits_LDFLAGS = $(hooked_flags)
t_engine_test_split_SOURCES = %D%/engine/test_split.c %D%/engine/lib.h
t_engine_test_split_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_split_LDFLAGS = $(hooked_flags)
t_engine_test_memory_SOURCES = %D%/engine/test_memory.c %D%/engine/lib.h
t_engine_test_memory_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_memory_LDFLAGS = $(hooked_flags)

check_PROGRAMS += t/engine/faults
t_engine_faults_SOURCES = %D%/engine/faults.c %D%/engine/faults_new.cc
t_engine_faults_LDADD = $(hooked_libs) $(TFS_LDFLAGS)
t_engine_faults_LDFLAGS = $(hooked_flags) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=strndup,--wrap=reallocarray \
	-Wl,--wrap=asprintf,--wrap=vasprintf,--wrap=__asprintf_chk,--wrap=__vasprintf_chk

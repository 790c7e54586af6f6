# SPDX-License-Identifier: Apache-2.0
# The client library: its way to the tablets, over servers that are made up and in a whole store.
check_PROGRAMS += t/unit/test_route t/unit/test_locations t/engine/test_locations
t_unit_test_route_SOURCES = t/unit/test_route.c t/unit/route_lib.h t/unit/wrap_alloc.h
t_unit_test_route_LDADD = libengine.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_route_LDFLAGS = $(wrap_alloc)
t_unit_test_locations_SOURCES = t/unit/test_locations.c
t_unit_test_locations_LDADD = libengine.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_locations_SOURCES = t/engine/test_locations.c t/engine/lib.h t/unit/dir.h
t_engine_test_locations_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_locations_LDFLAGS = $(hooked_flags)
check_PROGRAMS += t/engine/test_batch
t_engine_test_batch_SOURCES = t/engine/test_batch.c t/engine/lib.h t/unit/dir.h
t_engine_test_batch_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_batch_LDFLAGS = $(hooked_flags)
check_PROGRAMS += t/engine/test_batch_remote
t_engine_test_batch_remote_SOURCES = t/engine/test_batch_remote.c t/engine/lib.h t/unit/dir.h
t_engine_test_batch_remote_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_batch_remote_LDFLAGS = $(hooked_flags)
EXTRA_PROGRAMS += t/bench/bench_batch
t_bench_bench_batch_SOURCES = t/bench/bench_batch.c
t_bench_bench_batch_LDADD = libengine.a $(TFS_LDFLAGS)
check_PROGRAMS += t/engine/test_salt
t_engine_test_salt_SOURCES = t/engine/test_salt.c t/engine/lib.h t/unit/dir.h
t_engine_test_salt_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_salt_LDFLAGS = $(hooked_flags)
check_PROGRAMS += t/engine/test_salt_damage
t_engine_test_salt_damage_SOURCES = t/engine/test_salt_damage.c t/engine/lib.h t/unit/dir.h
t_engine_test_salt_damage_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_salt_damage_LDFLAGS = $(hooked_flags)
EXTRA_PROGRAMS += t/bench/bench_keys
t_bench_bench_keys_SOURCES = t/bench/bench_keys.c
t_bench_bench_keys_LDADD = libengine.a $(TFS_LDFLAGS)
check_PROGRAMS += t/engine/test_checks
t_engine_test_checks_SOURCES = t/engine/test_checks.c t/engine/lib.h t/unit/dir.h
t_engine_test_checks_LDADD = $(hooked_libs) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_engine_test_checks_LDFLAGS = $(hooked_flags)
check_PROGRAMS += t/unit/test_tellers
t_unit_test_tellers_SOURCES = t/unit/test_tellers.c
t_unit_test_tellers_LDADD = libengine.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)

check_PROGRAMS += t/unit/test_peers
t_unit_test_peers_SOURCES = t/unit/test_peers.c t/unit/wire_lib.h t/unit/dir.h
t_unit_test_peers_LDADD = libengine.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)

check_PROGRAMS += t/unit/test_watch
t_unit_test_watch_SOURCES = t/unit/test_watch.c
t_unit_test_watch_LDADD = libengine.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)

# SPDX-License-Identifier: Apache-2.0
# Server, master and opening behind the public API.
check_PROGRAMS += t/unit/test_server t/unit/test_server_faults t/unit/test_server_open
t_unit_test_server_SOURCES = t/unit/test_server.c t/unit/server_lib.h t/unit/dir.h
t_unit_test_server_LDADD = libengine.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_server_faults_SOURCES = t/unit/test_server_faults.c t/unit/server_lib.h t/unit/dir.h
t_unit_test_server_faults_LDADD = libengine.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_server_open_SOURCES = t/unit/test_server_open.c t/unit/server_lib.h t/unit/dir.h
t_unit_test_server_open_LDADD = libengine.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_convert t/unit/test_replay
t_unit_test_replay_SOURCES = t/unit/test_replay.c t/unit/server_lib.h t/unit/dir.h
t_unit_test_replay_LDADD = libengine.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_convert_SOURCES = t/unit/test_convert.c t/unit/server_lib.h t/unit/dir.h
t_unit_test_convert_LDADD = libengine.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_retire t/unit/test_sweep t/unit/test_promise
t_unit_test_retire_SOURCES = t/unit/test_retire.c t/unit/server_lib.h t/unit/dir.h
t_unit_test_retire_LDADD = libengine.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_sweep_SOURCES = t/unit/test_sweep.c t/unit/server_lib.h t/unit/dir.h
t_unit_test_sweep_LDADD = libengine.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_promise_SOURCES = t/unit/test_promise.c t/unit/server_lib.h t/unit/dir.h
t_unit_test_promise_LDADD = libengine.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
EXTRA_PROGRAMS += t/bench/bench_recover
t_bench_bench_recover_SOURCES = t/bench/bench_recover.c
t_bench_bench_recover_LDADD = libengine.la $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_server_memory
t_unit_test_server_memory_SOURCES = t/unit/test_server_memory.c t/unit/server_lib.h t/unit/dir.h t/unit/wrap_alloc.h
t_unit_test_server_memory_LDADD = libengine.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_server_memory_LDFLAGS = $(wrap_alloc)

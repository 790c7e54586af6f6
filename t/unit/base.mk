# SPDX-License-Identifier: Apache-2.0
# For programs whose allocations are to fail: t/unit/wrap_alloc.h.
wrap_alloc = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=reallocarray
check_PROGRAMS += t/unit/test_bytes t/unit/test_mutex t/unit/test_msg t/unit/test_task t/unit/test_file t/unit/test_forget t/unit/test_hash
t_unit_test_hash_SOURCES = t/unit/test_hash.c
t_unit_test_hash_LDADD = libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_bytes_SOURCES = t/unit/test_bytes.c
t_unit_test_bytes_LDADD = libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_bytes_LDFLAGS = -Wl,--wrap=realloc
t_unit_test_mutex_SOURCES = t/unit/test_mutex.c
t_unit_test_mutex_LDADD = libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_msg_SOURCES = t/unit/test_msg.c
t_unit_test_msg_LDADD = libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_msg_LDFLAGS = -Wl,--wrap=monotonic_us
t_unit_test_task_SOURCES = t/unit/test_task.c
t_unit_test_task_LDADD = libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_file_SOURCES = t/unit/test_file.c t/unit/dir.h
t_unit_test_file_LDADD = t/lib/libfaults.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_forget_SOURCES = t/unit/test_forget.c t/unit/forget_lib.h t/unit/dir.h
t_unit_test_forget_LDADD = t/lib/libfaults.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_forget_names t/unit/test_forget_points
t_unit_test_forget_names_SOURCES = t/unit/test_forget_names.c t/unit/forget_lib.h t/unit/dir.h
t_unit_test_forget_names_LDADD = t/lib/libfaults.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_forget_points_SOURCES = t/unit/test_forget_points.c t/unit/forget_lib.h t/unit/dir.h
t_unit_test_forget_points_LDADD = t/lib/libfaults.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_counter
t_unit_test_counter_SOURCES = t/unit/test_counter.c
t_unit_test_counter_LDADD = libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_probe
t_unit_test_probe_SOURCES = t/unit/test_probe.c t/unit/dir.h
t_unit_test_probe_LDADD = libprobe.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_source
t_unit_test_source_SOURCES = t/unit/test_source.c
t_unit_test_source_LDADD = libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)

check_PROGRAMS += t/unit/test_stop
t_unit_test_stop_SOURCES = t/unit/test_stop.c
t_unit_test_stop_LDADD = libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)

# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += t/unit/test_bytes t/unit/test_mutex t/unit/test_msg t/unit/test_task t/unit/test_file t/unit/test_forget
t_unit_test_bytes_SOURCES = t/unit/test_bytes.c
t_unit_test_bytes_LDADD = libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_bytes_LDFLAGS = -Wl,--wrap=realloc
t_unit_test_mutex_SOURCES = t/unit/test_mutex.c
t_unit_test_mutex_LDADD = libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_msg_SOURCES = t/unit/test_msg.c
t_unit_test_msg_LDADD = libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_task_SOURCES = t/unit/test_task.c
t_unit_test_task_LDADD = libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_file_SOURCES = t/unit/test_file.c t/unit/dir.h
t_unit_test_file_LDADD = libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_forget_SOURCES = t/unit/test_forget.c t/unit/dir.h
t_unit_test_forget_LDADD = libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)

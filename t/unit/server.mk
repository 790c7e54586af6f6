# SPDX-License-Identifier: Apache-2.0
# Server, master and opening behind the public API.
check_PROGRAMS += t/unit/test_server
t_unit_test_server_SOURCES = t/unit/test_server.c t/unit/dir.h
t_unit_test_server_LDADD = libengine.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)

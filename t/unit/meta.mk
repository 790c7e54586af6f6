# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += t/unit/test_meta
t_unit_test_meta_SOURCES = t/unit/test_meta.c
t_unit_test_meta_LDADD = libmeta.la libcompact.la libtablet.la liblog.la libcell.la libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)

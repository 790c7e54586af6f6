# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += t/unit/test_meta
t_unit_test_meta_SOURCES = t/unit/test_meta.c
t_unit_test_meta_LDADD = libmeta.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)

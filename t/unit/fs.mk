# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += t/unit/test_name t/unit/test_fs_stage t/unit/test_fs_nodes
t_unit_test_name_SOURCES = t/unit/test_name.c
t_unit_test_name_CPPFLAGS = $(AM_CPPFLAGS) -DTFS_SRC='"$(abs_top_srcdir)"'
t_unit_test_name_LDADD = libbase.a $(CMOCKA_LIBS)
t_unit_test_name_LDFLAGS = $(TFS_LDFLAGS)
t_unit_test_fs_stage_SOURCES = t/unit/test_fs_stage.c fs/file/stage.c
t_unit_test_fs_stage_LDADD = libbase.a $(CMOCKA_LIBS)
t_unit_test_fs_stage_LDFLAGS = $(TFS_LDFLAGS)
t_unit_test_fs_nodes_SOURCES = t/unit/test_fs_nodes.c fs/base/node.c fs/base/node_memory.c fs/base/renumber.c
t_unit_test_fs_nodes_CPPFLAGS = $(AM_CPPFLAGS) $(FUSE_CFLAGS)
t_unit_test_fs_nodes_LDADD = libbase.a $(CMOCKA_LIBS)
t_unit_test_fs_nodes_LDFLAGS = $(TFS_LDFLAGS)
EXTRA_DIST += t/names.tsv

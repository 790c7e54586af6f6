# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += t/unit/test_rpc
t_unit_test_rpc_SOURCES = t/unit/test_rpc.c
t_unit_test_rpc_LDADD = librpc.a libschema.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
# Allocations of engine/lock, schema, meta and rpc fail in turn.
check_PROGRAMS += t/unit/test_rooms_memory
t_unit_test_rooms_memory_SOURCES = t/unit/test_rooms_memory.c t/unit/wrap_alloc.h
t_unit_test_rooms_memory_LDADD = librpc.a libmeta.a libschema.a liblock.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_rooms_memory_LDFLAGS = $(wrap_alloc)
check_PROGRAMS += t/unit/test_frames
t_unit_test_frames_SOURCES = t/unit/test_frames.c t/unit/wire_lib.h t/unit/dir.h
t_unit_test_frames_LDADD = librpc.a libmeta.a libschema.a liblock.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_channel
t_unit_test_channel_SOURCES = t/unit/test_channel.c t/unit/wire_lib.h t/unit/dir.h
t_unit_test_channel_LDADD = librpc.a libmeta.a libschema.a liblock.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_keys
t_unit_test_keys_SOURCES = t/unit/test_keys.c t/unit/dir.h
t_unit_test_keys_LDADD = librpc.a libschema.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)

check_PROGRAMS += t/unit/test_notices
t_unit_test_notices_SOURCES = t/unit/test_notices.c t/unit/dir.h
t_unit_test_notices_LDADD = librpc.a libmeta.a libschema.a liblock.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_notices_LDFLAGS = -Wl,--wrap=monotonic_us

# SPDX-License-Identifier: Apache-2.0
# The local lock service: units and crashes.
check_PROGRAMS += t/unit/test_lock t/unit/test_lock_session t/crash/crash_lock
t_unit_test_lock_SOURCES = t/unit/test_lock.c t/lib/lock_conformance.c t/lib/lock_conformance.h
t_unit_test_lock_LDADD = t/lib/libfaults.a liblock.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_crash_crash_lock_SOURCES = t/crash/crash_lock.c t/crash/places.h
t_crash_crash_lock_LDADD = t/lib/libfaults.a liblock.a libbase.a $(TFS_LDFLAGS)
t_unit_test_lock_session_SOURCES = t/unit/test_lock_session.c
t_unit_test_lock_session_LDADD = liblock.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_marker
t_unit_test_marker_SOURCES = t/unit/test_marker.c t/unit/dir.h
t_unit_test_marker_LDADD = t/lib/libfaults.a liblock.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/crash/crash_marker
t_crash_crash_marker_SOURCES = t/crash/crash_marker.c t/crash/places.h
t_crash_crash_marker_LDADD = t/lib/libfaults.a liblock.a librpc.a libschema.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_lock_zookeeper
t_unit_test_lock_zookeeper_SOURCES = t/unit/test_lock_zookeeper.c t/lib/lock_conformance.c t/lib/lock_conformance.h
t_unit_test_lock_zookeeper_LDADD = engine/libzookeeper_lock.a liblock.a libbase.a $(ZOOKEEPER_LIBS) $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_lock_zookeeper_LDFLAGS = -Wl,--wrap=zookeeper_init,--wrap=zoo_amulti,--wrap=zoo_awexists,--wrap=zoo_awget_children,--wrap=calloc

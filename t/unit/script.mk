# SPDX-License-Identifier: Apache-2.0
# Scripts.
check_PROGRAMS += t/unit/test_script
t_unit_test_script_SOURCES = t/unit/test_script.c t/unit/script_lib.h
t_unit_test_script_LDADD = libscript.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_script_traps
t_unit_test_script_traps_SOURCES = t/unit/test_script_traps.c t/unit/script_lib.h
t_unit_test_script_traps_LDADD = libscript.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
# The walls of the worker in a test; liblua for the allocator beside them.
check_PROGRAMS += t/unit/test_script_walls
t_unit_test_script_walls_SOURCES = t/unit/test_script_walls.c t/unit/script_lib.h engine/script/worker_sandbox.c engine/script/worker_state.c
t_unit_test_script_walls_CPPFLAGS = $(AM_CPPFLAGS) $(LUA_CFLAGS)
t_unit_test_script_walls_LDADD = libscript.a libbase.a $(LUA_LIBS) $(CMOCKA_LIBS) $(TFS_LDFLAGS)

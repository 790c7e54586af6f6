# SPDX-License-Identifier: Apache-2.0
# Scripts: the pool of their workers, and the merging of their outputs.
noinst_LIBRARIES += libscript.a
libscript_a_SOURCES = %D%/script.h %D%/budget.h %D%/budget.c %D%/channel.h %D%/delta.h %D%/delta.c %D%/map.h %D%/map.c %D%/output.h %D%/output.c \
	%D%/outputs.c %D%/pool.h %D%/pool.c %D%/ring.c %D%/run.c %D%/total.h %D%/total.c %D%/worker_process.h %D%/worker_process.c
AM_CPPFLAGS += -DTFS_LIBEXEC='"$(pkglibexecdir)"'

# The process that runs them.  Nothing else links Lua.
pkglibexec_PROGRAMS += tabletfs-script
script_worker_sources = %D%/worker.h %D%/worker_lib.h %D%/worker_lib.c %D%/worker_lua.h %D%/worker_lua.c %D%/worker_output.h %D%/worker_output.c \
	%D%/worker_re.h %D%/worker_re.c %D%/worker_row.h %D%/worker_row.c %D%/worker_sandbox.h %D%/worker_state.c
tabletfs_script_SOURCES = $(script_worker_sources) %D%/worker_main.c %D%/worker_sandbox.c
tabletfs_script_CPPFLAGS = $(AM_CPPFLAGS) $(LUA_CFLAGS)
tabletfs_script_LDADD = libscript.a libbase.a $(LUA_LIBS)
tabletfs_script_LDFLAGS = $(TFS_LDFLAGS)

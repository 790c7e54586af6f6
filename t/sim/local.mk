# SPDX-License-Identifier: Apache-2.0
# The simulation of a cluster.
EXTRA_DIST += %D%/planted
sim_wrap = -Wl,--wrap=pthread_mutex_lock,--wrap=pthread_mutex_unlock,--wrap=pthread_cond_wait,--wrap=pthread_cond_timedwait \
	-Wl,--wrap=pthread_cond_signal,--wrap=pthread_cond_broadcast,--wrap=mutex_lock,--wrap=syscall \
	-Wl,--wrap=clock_gettime,--wrap=time,--wrap=usleep,--wrap=nanosleep,--wrap=getrandom,--wrap=pthread_create,--wrap=pthread_join
check_PROGRAMS += t/sim/sim
t_sim_sim_SOURCES = %D%/sim.c %D%/cluster.c %D%/cluster.h %D%/check.c %D%/check.h %D%/disk.c %D%/disk.h %D%/faults.c %D%/faults.h %D%/work.c %D%/work.h %D%/lock_sim.c %D%/lock_sim.h %D%/net.c %D%/net.h %D%/plant.c %D%/plant.h \
	%D%/sched.c %D%/sched.h %D%/sched_wrap.c %D%/task_sim.c
t_sim_sim_LDADD = t/lin/liblin.a libengine.a $(TFS_LDFLAGS)
t_sim_sim_LDFLAGS = $(sim_wrap) -Wl,--wrap=snap_take,--wrap=tokens_begin,--wrap=metadata_mutate,--wrap=clients_bury \
	-Wl,--wrap=meta_ops_owner,--wrap=row_release,--wrap=set_replace,--wrap=tablet_merge_end,--wrap=set_insert \
	-Wl,--wrap=tablet_split_drain,--wrap=writers_wait,--wrap=user_table_write_try,--wrap=user_table_is_behind \
	-Wl,--wrap=served_find_for,--wrap=client_begin,--wrap=tables_see_term,--wrap=fence_begin,--wrap=fence_answer \
	-Wl,--wrap=fence_check,--wrap=making_begin,--wrap=file_look_up,--wrap=lock_clocks_read,--wrap=fence_storage_answers,--wrap=reach_may_have_lease
check_PROGRAMS += t/sim/test_lock_sim
t_sim_test_lock_sim_SOURCES = %D%/test_lock_sim.c %D%/lock_sim.c %D%/sched.c %D%/sched_wrap.c %D%/task_sim.c t/lib/lock_conformance.c
t_sim_test_lock_sim_LDADD = libengine.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_sim_test_lock_sim_LDFLAGS = $(sim_wrap)

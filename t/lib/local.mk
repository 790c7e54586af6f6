# SPDX-License-Identifier: Apache-2.0
# The file layer for tests; it comes before the engine's libraries in LDADD.
check_LIBRARIES = %D%/libfaults.a
%C%_libfaults_a_SOURCES = %D%/file_faults.c %D%/file_faults.h %D%/forget.c %D%/forget.h %D%/forget_entry.c %D%/forget_crash.c \
	%D%/open_hooks.c %D%/open_hooks.h
# For programs that open stores by t/lib/open_hooks.h.
hooked_libs = t/lib/libfaults.a libengine.a
hooked_flags = -Wl,--wrap=server_new,--wrap=server_free,--wrap=server_stop,--wrap=master_new,--wrap=master_finish
# The daemon with a hash whose values collide.
check_PROGRAMS += %D%/tabletfs-weak
%C%_tabletfs_weak_SOURCES = $(fs_sources) %D%/weak_hash.c
nodist_%C%_tabletfs_weak_SOURCES = fs/http/page.c
%C%_tabletfs_weak_LDADD = $(tabletfs_LDADD)
%C%_tabletfs_weak_LDFLAGS = $(TFS_LDFLAGS) -Wl,--wrap=siphash
# A slow network between two machines, for t/94-slow-network-loses-nothing.t.
check_PROGRAMS += %D%/net_relay
%C%_net_relay_SOURCES = %D%/net_relay.c %D%/xorshift.h
# Files and the library, beside kills (t/917).
check_PROGRAMS += %D%/lin_files
%C%_lin_files_SOURCES = %D%/lin_files.c
%C%_lin_files_LDADD = t/lin/liblin.a libengine.a $(TFS_LDFLAGS)
# Damages the metadata of a cluster, for t/cluster/damage-stops-little.t.
check_PROGRAMS += %D%/spoil
%C%_spoil_SOURCES = %D%/spoil.c
%C%_spoil_LDADD = libcluster.a engine/libzookeeper_lock.a libengine.a $(ZOOKEEPER_LIBS) $(TFS_LDFLAGS)

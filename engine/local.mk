# SPDX-License-Identifier: Apache-2.0
# Everything behind tabletfs.h, as one library: for the programs here and, installed, for others.
noinst_LIBRARIES += libengine.a
libengine_a_SOURCES = %D%/open.c %D%/host.c %D%/host.h %D%/serve.c %D%/serve.h %D%/join.c %D%/join.h %D%/peers.c %D%/peers.h %D%/self.c %D%/self.h %D%/labelled.c %D%/labelled.h %D%/tellers.c %D%/tellers.h %D%/cluster.h %D%/tabletfs.h $(libmaster_a_SOURCES) $(libserver_a_SOURCES) $(libclient_a_SOURCES) \
	$(librpc_a_SOURCES) $(libscript_a_SOURCES) $(libmeta_a_SOURCES) $(libschema_a_SOURCES) $(liblock_a_SOURCES) $(libcompact_a_SOURCES) $(libtablet_a_SOURCES) \
	$(liblog_a_SOURCES) $(libcell_a_SOURCES) $(libsstable_a_SOURCES) $(libprobe_a_SOURCES) $(libbase_a_SOURCES)

# For others it is a shared library, whose file has the version of its ABI: a program for Automake.
tabletfs_so = libtabletfs.so.0
solibdir = $(libdir)
solib_PROGRAMS = libtabletfs.so.0.0.0
libtabletfs_so_0_0_0_SOURCES = $(libengine_a_SOURCES)
libtabletfs_so_0_0_0_LDFLAGS = -shared -Wl,-soname,$(tabletfs_so) -Wl,--version-script,$(srcdir)/%D%/tabletfs.map -Wl,-z,relro,-z,now
EXTRA_libtabletfs_so_0_0_0_DEPENDENCIES = $(srcdir)/%D%/tabletfs.map
EXTRA_DIST += %D%/tabletfs.map
include_HEADERS = %D%/tabletfs.h
pkgconfig_DATA = %D%/tabletfs.pc

# Programs find the library in a directory such as /usr/local/lib in the dynamic linker's cache only.
install-exec-hook:
	$(MKDIR_P) '$(DESTDIR)$(bindir)' && ln -sf tabletfs$(EXEEXT) '$(DESTDIR)$(bindir)/tabletfs-server'
	cd '$(DESTDIR)$(libdir)' && ln -sf libtabletfs.so.0.0.0 $(tabletfs_so) && ln -sf $(tabletfs_so) libtabletfs.so
	@test -n '$(DESTDIR)' || { PATH="$$PATH:/usr/sbin:/sbin"; ldconfig 2>/dev/null; ldconfig -p | grep -qF ' $(libdir)/libtabletfs.so.0'; } || \
	echo 'make install: programs do not find $(libdir)/libtabletfs.so.0 yet.  Run ldconfig as root, or set LD_LIBRARY_PATH=$(libdir)'
uninstall-hook:
	rm -f '$(DESTDIR)$(bindir)/tabletfs-server' '$(DESTDIR)$(libdir)/$(tabletfs_so)' '$(DESTDIR)$(libdir)/libtabletfs.so'

# The programs of a cluster, which need ZooKeeper's library: their part of the engine.
noinst_LIBRARIES += libcluster.a
libcluster_a_SOURCES = %D%/site.c %D%/site.h %D%/site_probe.c %D%/site_probe.h %D%/cluster.c %D%/lead.c %D%/init.c

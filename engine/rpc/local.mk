# SPDX-License-Identifier: Apache-2.0
# The messages are generated at build time, into the build tree; the code
# that protoc-c writes is compiled without our warnings.
noinst_LTLIBRARIES += libpb.la librpc.la
nodist_libpb_la_SOURCES = %D%/tablet.pb-c.c %D%/tablet.pb-c.h %D%/master.pb-c.c %D%/master.pb-c.h
libpb_la_CFLAGS = $(TFS_CFLAGS) -w
libpb_la_LIBADD = $(PROTOBUF_C_LIBS)

librpc_la_SOURCES = %D%/tablet_service.h %D%/master_service.h %D%/wire.h %D%/wire.c %D%/tablet_wire.c %D%/master_wire.c
librpc_la_LIBADD = libpb.la $(PROTOBUF_C_LIBS)

EXTRA_DIST += %D%/tablet.proto %D%/master.proto
BUILT_SOURCES += %D%/tablet.pb-c.h %D%/master.pb-c.h
CLEANFILES += %D%/tablet.pb-c.c %D%/tablet.pb-c.h %D%/master.pb-c.c %D%/master.pb-c.h

# Both files come from one run; the header's rule repairs a build tree that has lost it alone.
%D%/tablet.pb-c.c: %D%/tablet.proto
	$(AM_V_GEN)$(MKDIR_P) %D% && $(PROTOC_C) --proto_path=$(top_srcdir) --c_out=$(top_builddir) $(top_srcdir)/%D%/tablet.proto
%D%/master.pb-c.c: %D%/master.proto
	$(AM_V_GEN)$(MKDIR_P) %D% && $(PROTOC_C) --proto_path=$(top_srcdir) --c_out=$(top_builddir) $(top_srcdir)/%D%/master.proto
%D%/tablet.pb-c.h: %D%/tablet.pb-c.c
	@test -f $@ || { rm -f %D%/tablet.pb-c.c && $(MAKE) $(AM_MAKEFLAGS) %D%/tablet.pb-c.c; }
%D%/master.pb-c.h: %D%/master.pb-c.c
	@test -f $@ || { rm -f %D%/master.pb-c.c && $(MAKE) $(AM_MAKEFLAGS) %D%/master.pb-c.c; }
%D%/tablet_wire.lo: %D%/tablet.pb-c.h
%D%/master_wire.lo: %D%/master.pb-c.h

# SPDX-License-Identifier: Apache-2.0
# What an operator installs besides the programs: units, an example configuration, alert rules.
system_units = %D%/system/tabletfs@.service %D%/system/tabletfs-server@.service %D%/system/tabletfs-cluster-server@.service %D%/system/tabletfs-cluster-master@.service
user_units = %D%/user/tabletfs@.service %D%/user/tabletfs-server@.service
units = $(system_units) $(user_units)
EXTRA_DIST += $(units:=.in)
CLEANFILES += $(units) %D%/tabletfs.conf
$(units): Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && sed 's|[@]bindir[@]|$(bindir)|g' '$(srcdir)/$@.in' >'$@.tmp' && mv '$@.tmp' '$@'
%D%/system/tabletfs@.service: $(srcdir)/%D%/system/tabletfs@.service.in
%D%/system/tabletfs-server@.service: $(srcdir)/%D%/system/tabletfs-server@.service.in
%D%/system/tabletfs-cluster-server@.service: $(srcdir)/%D%/system/tabletfs-cluster-server@.service.in
%D%/system/tabletfs-cluster-master@.service: $(srcdir)/%D%/system/tabletfs-cluster-master@.service.in
%D%/user/tabletfs@.service: $(srcdir)/%D%/user/tabletfs@.service.in
%D%/user/tabletfs-server@.service: $(srcdir)/%D%/user/tabletfs-server@.service.in
if UNITS
nodist_systemdsystemunit_DATA = $(system_units)
nodist_systemduserunit_DATA = $(user_units)
endif

dist_doc_DATA = README NEWS

# The program prints it from the table of its parser.
exampledir = $(docdir)/examples
nodist_example_DATA = %D%/tabletfs.conf
dist_example_DATA = %D%/tabletfs.rules.yml
%D%/tabletfs.conf: tabletfs$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) %D% && ./tabletfs$(EXEEXT) --print-config >'$@.tmp' && mv '$@.tmp' '$@'

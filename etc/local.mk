# SPDX-License-Identifier: Apache-2.0
# What an operator installs besides the programs: units, an example configuration, alert rules.
units = %D%/system/tabletfs@.service %D%/user/tabletfs@.service
EXTRA_DIST += $(units:=.in)
CLEANFILES += $(units) %D%/tabletfs.conf
$(units): Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && sed 's|[@]bindir[@]|$(bindir)|g' '$(srcdir)/$@.in' >'$@.tmp' && mv '$@.tmp' '$@'
%D%/system/tabletfs@.service: $(srcdir)/%D%/system/tabletfs@.service.in
%D%/user/tabletfs@.service: $(srcdir)/%D%/user/tabletfs@.service.in
if UNITS
nodist_systemdsystemunit_DATA = %D%/system/tabletfs@.service
nodist_systemduserunit_DATA = %D%/user/tabletfs@.service
endif

# The program prints it from the table of its parser.
exampledir = $(docdir)/examples
nodist_example_DATA = %D%/tabletfs.conf
dist_example_DATA = %D%/tabletfs.rules.yml
%D%/tabletfs.conf: tabletfs$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) %D% && ./tabletfs$(EXEEXT) --print-config >'$@.tmp' && mv '$@.tmp' '$@'

# SPDX-License-Identifier: Apache-2.0
# Targets that run tests:
#
#	make check        all tests, with prove
#	make check-units  the test programs only
#	make check-programs  builds them; t/loaded runs them on a busy machine
#	make check-asan   } the test programs and two mount tests, in a second
#	make check-tsan   } build with sanitizers, in asan/ and tsan/
#	make check-crash  100,000 crash points
#	make check-faults each failing call and allocation of a workload
#	make check-sim    20,000 seeds of the simulated cluster
#	make check-cluster  the failures of a cluster of real programs, each by name (t/cluster), and 200 seeds of
#			  the simulated one
#	make check-wire   20,000 changes by two mounts, 10 minutes of kills beside writers, and
#			  the scripts of mount tests over a socket
#	make check-fuzz   each fuzz target, with libFuzzer if clang is installed, in fuzz/
#	make lint         checks scripts and manuals, and analyses the sources
#
# A test is a script t/NN-property.t or a program that prints TAP.  Its
# environment has SRC (the sources) and BUILD (this directory).
#	TESTS_ONLY="../t/46-schema-text-and-files-agree.t t/unit/test_log"
# runs these tests only.
tap_programs = $(filter t/unit/test_% t/history/test_% t/engine/test_% t/sim/test_%,$(check_PROGRAMS))
tap_scripts = $(sort $(wildcard $(srcdir)/t/[0-9]*.t))
tap_cluster = $(sort $(wildcard $(srcdir)/t/cluster/*.t))
# Those of them that last under 20 s, which make check runs, too.
tap_cluster_short = $(addprefix $(srcdir)/t/cluster/,disk-full.t init-is-repeated.t server-is-stopped.t two-masters.t)
# These run for a minute or more.  They start first, so that none of them runs alone at the end.
tap_long = $(wildcard $(srcdir)/t/22-*.t $(srcdir)/t/29-*.t $(srcdir)/t/30-*.t $(srcdir)/t/35-*.t $(srcdir)/t/351-*.t $(srcdir)/t/32-*.t $(srcdir)/t/34-*.t $(srcdir)/t/473-*.t $(srcdir)/t/481-*.t) t/history/test_history
tap_all = $(firstword $(tap_scripts)) $(tap_long) $(filter-out $(firstword $(tap_scripts)) $(tap_long),$(tap_scripts) $(tap_programs)) $(tap_cluster_short)
tap_env = SRC='$(abs_srcdir)' BUILD='$(abs_builddir)' CC='$(CC)' LC_ALL=C.UTF-8; export SRC BUILD CC LC_ALL; unset MAKEFLAGS MFLAGS
PROVE = prove
# Mount tests wait for the kernel and the disk: one process more than cores keeps all cores busy.
PROVE_FLAGS = -j$$(($$(nproc) + 1)) --timer
prove = $(PROVE) $(PROVE_FLAGS) --exec '$(abs_srcdir)/t/lib/run'

# With TESTS_ONLY, make check builds no other programs of tests, and no fuzz targets for other scripts.
check-am: check_PROGRAMS := $(if $(TESTS_ONLY),$(filter-out $(filter-out $(TESTS_ONLY),$(tap_programs)),$(check_PROGRAMS)),$(check_PROGRAMS))
check-local: $(if $(TESTS_ONLY),$(if $(findstring /80-,$(TESTS_ONLY)),fuzz-standalone),fuzz-standalone)
if !HAVE_CMOCKA
	@echo "cmocka is needed for make check (Debian: libcmocka-dev); see quickcheck" >&2; exit 1
endif
	@$(tap_env); $(prove) $(or $(TESTS_ONLY),$(tap_all))

# After all, which is a make of its own: two must not build one object.
check-programs: all
	@$(MAKE) $(AM_MAKEFLAGS) $(check_PROGRAMS)

check-units: $(tap_programs)
	@$(tap_env); $(prove) $(tap_programs)

check-crash: t/crash/crash_store t/crash/crash_durable
	@$(tap_env); CRASH_POINTS=100000 TEST_TIMEOUT=14400 $(prove) --verbose $(srcdir)/t/30-crash-keeps-acknowledged.t

check-faults: t/engine/faults
	@$(tap_env); FAULT_STRIDE=1 TEST_TIMEOUT=14400 $(prove) --verbose $(srcdir)/t/34-each-failing-call-is-reported.t

check-sim: t/sim/sim
	@$(tap_env); SIM_SEEDS=$(or $(SIM_SEEDS),20000) TEST_TIMEOUT=14400 $(prove) --verbose $(srcdir)/t/351-simulated-cluster.t

# One after another: each runs seven processes or more.
check-cluster: all t/lib/lin_files t/lib/spoil t/sim/sim
	@$(tap_env); SIM_SEEDS=200 ROUNDS=3 TEST_TIMEOUT=14400; export SIM_SEEDS ROUNDS TEST_TIMEOUT; \
	$(PROVE) --timer --exec '$(abs_srcdir)/t/lib/run' $(tap_cluster) $(srcdir)/t/351-simulated-cluster.t

check-wire: all t/lib/lin_files
	@$(tap_env); COUNT=20000 PY_LIMIT=14000 KILL_SECONDS=600 LIMIT=14000 TEST_TIMEOUT=14400 WIRE=all; \
	export COUNT PY_LIMIT KILL_SECONDS LIMIT TEST_TIMEOUT WIRE; $(prove) --verbose $(srcdir)/t/915-*.t $(srcdir)/t/917-*.t $(srcdir)/t/95-*.t

# The mount tests that run in a sanitized build.
sanitized_mounts = $(srcdir)/t/40-readme-session.t $(srcdir)/t/50-concurrent-mutations-are-whole.t
check-sanitized: check-programs
	@$(tap_env); HISTORY_SECONDS=30; TEST_TIMEOUT=3600; LIMIT=1800; SANITIZED=1; export HISTORY_SECONDS TEST_TIMEOUT LIMIT SANITIZED; \
	$(prove) $(tap_programs) $(sanitized_mounts)

asan_options = ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
tsan_options = TSAN_OPTIONS=halt_on_error=1:atexit_sleep_ms=50:second_deadlock_stack=1:suppressions=$(abs_srcdir)/t/lib/tsan.supp
check-asan: asan/config.status
	cd asan && $(asan_options) $(MAKE) $(AM_MAKEFLAGS) check-sanitized
check-tsan: tsan/config.status
	cd tsan && $(tsan_options) $(MAKE) $(AM_MAKEFLAGS) check-sanitized
sanitized_configure = $(abs_srcdir)/configure --enable-debug CC='$(CC)' CXX='$(CXX)' CFLAGS='-O1 -g' CXXFLAGS='-O1 -g'
asan/config.status: $(srcdir)/configure
	$(MKDIR_P) asan && cd asan && $(sanitized_configure) --enable-sanitizer=address,undefined
tsan/config.status: $(srcdir)/configure
	$(MKDIR_P) tsan && cd tsan && $(sanitized_configure) --enable-sanitizer=thread

shell_files = $(wildcard $(srcdir)/quickstart $(srcdir)/quickcheck $(srcdir)/autogen.sh $(srcdir)/.ci/run $(srcdir)/tools/* $(srcdir)/t/lib/*.sh $(srcdir)/t/lib/run $(srcdir)/t/loaded)
lint:
	@for f in $(shell_files) $(tap_scripts) $(tap_cluster); do \
		if head -1 $$f | grep -Eq '^#!.*[ /](ba|da)?sh'; then set -- "$$@" $$f; fi; \
	done; shellcheck -S warning -e SC3013 -x -P '$(srcdir)' "$$@"
	@for f in $(wildcard $(srcdir)/man/*.[1-8]); do mandoc -Tlint -Wwarning $$f || exit 1; done
	@cppcheck --quiet --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 \
		--suppress=missingIncludeSystem --suppress=unknownMacro --suppress=internalAstError --suppress=uninitStructMember --suppress=memleak -I$(srcdir) -DTFS_DEBUG=1 \
		$(srcdir)/engine $(srcdir)/master $(srcdir)/fs $(srcdir)/sql

.PHONY: check-programs check-units check-crash check-faults check-sim check-cluster check-wire check-sanitized check-asan check-tsan lint

clean-local:
	rm -rf asan tsan fuzz
	rm -f $(fuzz_programs)
EXTRA_DIST += t/README t/loaded $(tap_scripts) $(tap_cluster) $(wildcard $(srcdir)/t/lib/*)
EXTRA_DIST += %D%/names.tsv $(wildcard $(srcdir)/t/bench/*.sh $(srcdir)/t/bench/*.[ch] $(srcdir)/t/bench/report $(srcdir)/t/bench/snapshots $(srcdir)/t/bench/compare/*)

# SPDX-License-Identifier: Apache-2.0
# Fuzz targets: each t/fuzz/fuzz_NAME.c has LLVMFuzzerTestOneInput, and may
# have fuzz_example (t/fuzz/standalone.c).  `make check` runs each a bounded
# number of times by the standalone driver; `make check-fuzz` builds all by
# clang with libFuzzer, AddressSanitizer and UBSan in fuzz/ and runs each for
# FUZZ_SECONDS.
fuzz_sources = $(wildcard $(srcdir)/t/fuzz/fuzz_*.c)
fuzz_programs = $(patsubst $(srcdir)/%.c,%,$(fuzz_sources))
fuzz_libs = libengine.la $(CONFIG_LIBS)
FUZZ_SECONDS = 60
if FUZZERS
fuzz_driver = -fsanitize=fuzzer,address,undefined
else
fuzz_driver = $(srcdir)/t/fuzz/standalone.c
endif
# fs/name.c is pure, and all of fs that a fuzzer needs.
fuzz_compile = $(CC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS)
$(fuzz_programs): t/fuzz/%: $(srcdir)/t/fuzz/%.c $(srcdir)/t/fuzz/standalone.c $(srcdir)/fs/name.c libengine.la
	@$(MKDIR_P) t/fuzz
	$(AM_V_CCLD)$(LIBTOOL) $(AM_V_lt) --tag=CC --mode=link $(fuzz_compile) $(TFS_LDFLAGS) -o $@ \
		$< $(fuzz_driver) $(if $(findstring name,$@),$(srcdir)/fs/name.c) $(fuzz_libs) -lstdc++

fuzz-standalone: $(fuzz_programs)

check-fuzz:
	@if command -v clang >/dev/null && command -v clang++ >/dev/null; then \
		$(MKDIR_P) fuzz && cd fuzz && \
		{ test -f config.status || $(abs_srcdir)/configure --enable-debug --enable-fuzzers CC=clang CXX=clang++ \
			CFLAGS='-O1 -g -fsanitize=fuzzer-no-link,address,undefined' \
			CXXFLAGS='-O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr' LDFLAGS='-fsanitize=address,undefined'; } && \
		$(MAKE) $(AM_MAKEFLAGS) run-fuzz; \
	else \
		echo "no clang: the standalone driver instead"; $(MAKE) $(AM_MAKEFLAGS) run-standalone; \
	fi

run-fuzz: $(fuzz_programs)
	@for p in $(fuzz_programs); do \
		n=$$(basename $$p | sed s/fuzz_//); $(MKDIR_P) corpus/$$n; \
		echo "== $$n"; \
		UBSAN_OPTIONS=halt_on_error=1 $$p -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 -timeout=20 corpus/$$n \
			$$(test -d $(srcdir)/t/fuzz/corpus/$$n && echo $(srcdir)/t/fuzz/corpus/$$n) || exit 1; \
	done

run-standalone: $(fuzz_programs)
	@for p in $(fuzz_programs); do $$p --seconds $(FUZZ_SECONDS) || exit 1; done

.PHONY: fuzz-standalone check-fuzz run-fuzz run-standalone
EXTRA_DIST += $(fuzz_sources) %D%/fuzz/standalone.c

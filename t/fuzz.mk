# SPDX-License-Identifier: Apache-2.0
# Fuzz targets: each t/fuzz/fuzz_NAME.c defines LLVMFuzzerTestOneInput and
# fuzz_example, which returns its seeds (t/fuzz/standalone.c).  `make check`
# runs each for some seconds with the standalone driver.  `make check-fuzz`
# builds all with clang, libFuzzer, AddressSanitizer and UBSan in fuzz/, and
# runs each for FUZZ_SECONDS from these seeds and the inputs that earlier runs
# found (fuzz/corpus/NAME).
fuzz_sources = $(wildcard $(srcdir)/t/fuzz/fuzz_*.c)
fuzz_programs = $(patsubst $(srcdir)/%.c,%,$(fuzz_sources))
fuzz_libs = libengine.a
FUZZ_SECONDS = 60
# clang reports NULL + 0, which empty bytes have.  C2y defines it (N3322).
fuzz_sanitizers = -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=pointer-overflow
if FUZZERS
fuzz_driver = -fsanitize=fuzzer,address,undefined -fno-sanitize=pointer-overflow
else
fuzz_driver = $(srcdir)/t/fuzz/standalone.c
endif
# fuzz_control.c stands in for the engine itself, as far as it is called.
fuzz_more_fuzz_control = $(srcdir)/fs/node/admin.c
fuzz_libs_fuzz_bulk = libbulk.a $(fuzz_libs)
fuzz_libs_fuzz_control = libbase.a -Wl,--unresolved-symbols=ignore-in-object-files
# The reference model is the store.
fuzz_libs_fuzz_rows = libbulk.a t/model/libmodel.a libbase.a
fuzz_libs_fuzz_clauses = $(fuzz_libs_fuzz_rows)
# The worker's interpreter, without its main and its walls.
fuzz_more_fuzz_lua = $(LUA_CFLAGS) $(patsubst %.c,$(srcdir)/%.c,$(filter %.c,$(script_worker_sources)))
fuzz_libs_fuzz_lua = libscript.a libbase.a $(LUA_LIBS)
fuzz_compile = $(CC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS)
$(fuzz_programs): t/fuzz/%: $(srcdir)/t/fuzz/%.c $(srcdir)/t/fuzz/standalone.c $(srcdir)/fs/node/admin.c libengine.a libbulk.a libscript.a libbase.a t/model/libmodel.a $(addprefix $(srcdir)/,$(script_worker_sources))
	@$(MKDIR_P) t/fuzz
	$(AM_V_CCLD)$(fuzz_compile) $(TFS_LDFLAGS) -o $@ \
		$< $(fuzz_driver) $(fuzz_more_$*) $(or $(fuzz_libs_$*),$(fuzz_libs)) $(LIBS)

fuzz-standalone: $(fuzz_programs)

# libFuzzer does not call fuzz_example, so the standalone programs write the seeds to files.
check-fuzz: fuzz-standalone
	@$(MKDIR_P) fuzz/seeds && for p in $(fuzz_programs); do SRC='$(abs_srcdir)' $$p --write fuzz/seeds/$$(basename $$p) || exit 1; done
	@if command -v clang >/dev/null && command -v clang++ >/dev/null; then \
		$(MKDIR_P) fuzz && cd fuzz && \
		{ test -f config.status || $(abs_srcdir)/configure --enable-debug --enable-fuzzers CC=clang CXX=clang++ \
			CFLAGS='-O1 -g $(fuzz_sanitizers)' \
			CXXFLAGS='-O1 -g $(fuzz_sanitizers) -fno-sanitize=vptr,function' LDFLAGS='-fsanitize=address,undefined'; } && \
		$(MAKE) $(AM_MAKEFLAGS) run-fuzz; \
	else \
		echo "no clang: the standalone driver instead"; $(MAKE) $(AM_MAKEFLAGS) run-standalone; \
	fi

run-fuzz: $(fuzz_programs)
	@for p in $(fuzz_programs); do \
		n=$$(basename $$p | sed s/fuzz_//); $(MKDIR_P) corpus/$$n; \
		echo "== $$n"; \
		SRC='$(abs_srcdir)' UBSAN_OPTIONS=halt_on_error=1 $$p -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 -timeout=20 \
			-max_len=131072 corpus/$$n seeds/fuzz_$$n || exit 1; \
	done

run-standalone: $(fuzz_programs)
	@for p in $(fuzz_programs); do SRC='$(abs_srcdir)' $$p --seconds $(FUZZ_SECONDS) || exit 1; done

.PHONY: fuzz-standalone check-fuzz run-fuzz run-standalone
EXTRA_DIST += $(fuzz_sources) %D%/fuzz/standalone.c

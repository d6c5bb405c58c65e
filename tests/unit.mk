# SPDX-License-Identifier: BSD-2-Clause
#
# unit-tests: builds and runs them (no root); ends with "N passed, N failed". With SAN=1 and an O=
# of its own under the sanitizers. fuzz-plan: throws mutated ELF files at the plan for FUZZ_RUNS.

UNIT_SRC := $(wildcard tests/unit/test_*.c)
UNIT_OBJ := $(UNIT_SRC:%.c=$(O)/%.o)
UNIT_LIB ?= $(LIB_OBJ)
ELF := $(O)/tests/elf
ELF_SRC := tests/fixtures/elf
ELF_FIXTURES := $(addprefix $(ELF)/,flow edges twins cxx cxx-cold stripped static static-pie no-pie high \
	relr legacy/own_server v0/own_server debug/own_server versions.so versions-stripped.so \
	split split.debug split-other.debug split-no-id.debug)
FUZZ_RUNS ?= 2000

$(O)/tests/unit/%.o: tests/unit/%.c
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(CFLAGS) -DELF_FIXTURES='"$(abspath $(ELF))"' \
		-MMD -MP -c -o $@ $<

$(O)/tests/unit/run: $(UNIT_OBJ) $(UNIT_LIB)
	$(call say,LINK,$@)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcriterion $(LIBS)

# criterion counts tests; said again in the words that all suites use
unit-tests: $(O)/tests/unit/run $(ELF_FIXTURES)
	$(Q)set -o pipefail; out=$(O)/tests/unit/log; \
	echo leak:libcriterion > $$out.supp; \
	LSAN_OPTIONS=suppressions=$$out.supp:print_suppressions=0 \
	$(O)/tests/unit/run --color=never 2>&1 | tee $$out; \
	sed -n 's/.*Tested: [0-9]* | Passing: \([0-9]*\) | Failing: \([0-9]*\) | Crashing: \([0-9]*\).*/\1 \2 \3/p' \
		$$out | { read p f c && echo "unit tests: $$p passed, $$((f + c)) failed" && [ $$((f + c)) = 0 ]; }

unit-tests: SHELL = /bin/bash

# ---- fixtures; never run, only read ----

elf = $(call say,FIXTURE,$@)mkdir -p $(@D) &&

$(ELF)/flow $(ELF)/edges: $(ELF)/%: $(ELF_SRC)/%.S
	$(elf) $(CC) -o $@ $<

$(ELF)/twins: $(ELF_SRC)/twin_a.c $(ELF_SRC)/twin_b.c
	$(elf) $(CC) -O2 -fcf-protection -o $@ $^

$(ELF)/cxx: $(ELF_SRC)/cxx.cc
	$(elf) g++ -O2 -fno-reorder-blocks-and-partition -o $@ $<

$(ELF)/cxx-cold: $(ELF_SRC)/cxx.cc
	$(elf) g++ -O2 -freorder-blocks-and-partition -o $@ $<

$(ELF)/stripped: $(ELF)/twins
	$(elf) strip -s -o $@ $<

# E1: one source linked in all ways
$(ELF)/static: LINK = -static -no-pie
$(ELF)/static-pie: LINK = -static-pie
$(ELF)/no-pie: LINK = -no-pie
$(ELF)/high: LINK = -Wl,-Ttext-segment=0x34fd200000
$(ELF)/relr: LINK = -Wl,-z,pack-relative-relocs
$(ELF)/static $(ELF)/static-pie $(ELF)/no-pie $(ELF)/high $(ELF)/relr: $(ELF_SRC)/twin_a.c $(ELF_SRC)/twin_b.c
	$(elf) $(CC) -O2 $(LINK) -o $@ $^

$(ELF)/versions.so: tests/fixtures/libs/versions.c tests/fixtures/libs/versions.map
	$(elf) $(CC) -O2 -shared -fPIC -Wl,--version-script=$(word 2,$^) -Wl,-soname,libversions.so -o $@ $<
$(ELF)/versions-stripped.so: $(ELF)/versions.so
	$(elf) strip -s -o $@ $<

# E4: a program whose symbols are elsewhere, and debug files that are not its own
$(ELF)/split-full: $(ELF_SRC)/twin_a.c $(ELF_SRC)/twin_b.c
	$(elf) $(CC) -O2 -g -Wl,--build-id -o $@ $^
$(ELF)/split-other: $(ELF_SRC)/twin_a.c $(ELF_SRC)/twin_b.c
	$(elf) $(CC) -O1 -g -Wl,--build-id -o $@ $^
$(ELF)/split-no-id: $(ELF_SRC)/cxx.cc
	$(elf) g++ -g -Wl,--build-id=none -o $@ $^
$(ELF)/split%.debug: $(ELF)/split%
	$(elf) objcopy --only-keep-debug $< $@
$(ELF)/split.debug: $(ELF)/split-full
	$(elf) objcopy --only-keep-debug $< $@
$(ELF)/split: $(ELF)/split-full $(ELF)/split.debug
	$(elf) strip -o $@ $< && objcopy --add-gnu-debuglink=$(ELF)/split.debug $@

# the default of rustc 1.95 is the legacy scheme
$(ELF)/v0/own_server: RUST = -C symbol-mangling-version=v0
$(ELF)/debug/own_server: RUST = -g
$(ELF)/%/own_server: $(ELF_SRC)/own_server.rs $(ELF_SRC)/lib_own.rs
	$(elf) rustc --edition 2021 -O $(RUST) --crate-type rlib --crate-name own \
		-o $(@D)/libown.rlib $(ELF_SRC)/lib_own.rs && \
	rustc --edition 2021 -O $(RUST) --crate-name own_server --extern own=$(@D)/libown.rlib -o $@ $<

# ---- fuzzing ----

$(O)/tests/fuzz/fuzz_plan: tests/fuzz/fuzz_plan.c $(UNIT_LIB)
	$(call say,LINK,$@)mkdir -p $(@D) && $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

fuzz-plan: $(O)/tests/fuzz/fuzz_plan $(ELF_FIXTURES)
	$(Q)$< $(FUZZ_RUNS) $(ELF_FIXTURES)

-include $(wildcard $(O)/tests/unit/*.d)

.PHONY: unit-tests fuzz-plan

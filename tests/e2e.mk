# SPDX-License-Identifier: BSD-2-Clause
#
# The demo role, the fixtures and the end-to-end tests on them. e2e-build, e2e-tests

CARGO = cargo
RUSTC = rustc
CXX = g++
FIX := $(O)/tests/fixtures
DEMO_ROLE := $(O)/cargo/release/demo_role
cargo-build = CARGO_TARGET_DIR=$(O)/cargo $(CARGO) build $(if $(filter 1,$(V)),,--quiet) --release --locked

$(DEMO_ROLE): $(wildcard tests/demo-role/Cargo.* tests/demo-role/src/*.rs)
	$(call say,CARGO,$@)$(cargo-build) --manifest-path tests/demo-role/Cargo.toml && touch $@

demo-role: $(DEMO_ROLE)

# One executable per source file, and some of several files.
FIX_PARTS := tail_calls.S odd_symbols.S odd_names.S twin_a.c twin_b.c
FIX_C := $(filter-out $(FIX_PARTS:%=tests/fixtures/c/%),$(wildcard tests/fixtures/c/*.c))
FIX_BIN := $(FIX_C:tests/fixtures/c/%.c=$(FIX)/%) $(FIX)/clones
FIX_BIN += $(addprefix $(FIX)/thrown,-dynamic -static) $(FIX)/left-static
FIX_BIN += $(addprefix $(FIX)/,panics sleepers names-v0 names-legacy)
FIX_BIN += $(addprefix $(FIX)/rust-allocs,-plain -lto -counting)
FIX_BIN += $(addprefix $(FIX)/calls-,no-pie static-pie static high debug exported static-debug)
FIX_CFLAGS = -std=gnu17 -D_GNU_SOURCE -O2 -pthread -Wall -Wextra -Wno-unused-parameter

$(FIX)/tail_calls: tests/fixtures/c/tail_calls.S
$(FIX)/odd_symbols: tests/fixtures/c/odd_symbols.S
$(FIX)/odd_names: tests/fixtures/c/odd_names.S
$(FIX)/twins: tests/fixtures/c/twin_a.c tests/fixtures/c/twin_b.c

$(FIX)/%: tests/fixtures/c/%.c tests/fixtures/c/fixture.h
	$(call say,FIXTURE,$@)mkdir -p $(@D) && $(CC) $(FIX_CFLAGS) -o $@ $(filter %.c %.S,$^)

$(FIX)/clones: tests/fixtures/c/clones.cc tests/fixtures/c/fixture.h
	$(call say,FIXTURE,$@)mkdir -p $(@D) && $(CXX) -D_GNU_SOURCE -O2 -Wall -o $@ $<

# P4: from a library, and linked in
$(FIX)/thrown-%: tests/fixtures/c/thrown.cc tests/fixtures/c/fixture.h
	$(call say,FIXTURE,$@)mkdir -p $(@D) && $(CXX) -D_GNU_SOURCE -O2 -Wall \
		$(filter -static,-$*) -o $@ $<
$(FIX)/left-static: tests/fixtures/c/left.c tests/fixtures/c/fixture.h
	$(call say,FIXTURE,$@)mkdir -p $(@D) && $(CC) $(FIX_CFLAGS) -static -o $@ $<

# E11, E12: a program and its library
FIX_BIN += $(FIX)/uses_versions
$(FIX)/libversions.so: tests/fixtures/libs/versions.c tests/fixtures/libs/versions.map
	$(call say,FIXTURE,$@)mkdir -p $(@D) && $(CC) -O2 -shared -fPIC -o $@ $< \
		-Wl,--version-script=tests/fixtures/libs/versions.map -Wl,-soname,libversions.so
$(FIX)/uses_versions: tests/fixtures/libs/uses_versions.c tests/fixtures/c/fixture.h $(FIX)/libversions.so
	$(call say,FIXTURE,$@)$(CC) $(FIX_CFLAGS) -o $@ $< $(FIX)/libversions.so -Wl,-rpath,'$$ORIGIN'

# a program that loads a library only when told to
# (symbols bound at once: the lazy binder's frames hang on rbx, which nobody follows)
$(FIX)/burns: FIX_CFLAGS += -Wl,-z,now
$(FIX)/burns: $(FIX)/libburn.so
$(FIX)/libburn.so: tests/fixtures/libs/burn.c
	$(call say,FIXTURE,$@)mkdir -p $(@D) && $(CC) -O2 -fomit-frame-pointer -shared -fPIC -o $@ $<

# the same functions by other names, at other places in the file
$(FIX)/reloads: $(FIX)/libburn.so $(FIX)/libburn2.so $(FIX)/libburn3.so
$(FIX)/libburn2.so: tests/fixtures/libs/burn.c
	$(call say,FIXTURE,$@)mkdir -p $(@D) && $(CC) -O1 -fomit-frame-pointer -shared -fPIC -o $@ $< \
		-Dentry_library=entry_second -Dleaf_library=leaf_second -falign-functions=512
# and the same in the same places, by names of the same length
$(FIX)/libburn3.so: tests/fixtures/libs/burn.c
	$(call say,FIXTURE,$@)mkdir -p $(@D) && $(CC) -O2 -fomit-frame-pointer -shared -fPIC -o $@ $< \
		-Dentry_library=entry_another -Dleaf_library=leaf_another

# the same from other compilers and with other options: unwinding has to work in all
BURNS_OF := $(addprefix $(FIX)/burns-of/,gcc-O0 gcc-O3 gcc-static-pie gcc-static gcc-frame-pointers \
	gcc-no-pie gcc-debug clang-O2 clang-O0)
FIX_BIN += $(BURNS_OF) $(FIX)/reloads
$(FIX)/burns-of/%: tests/fixtures/c/burns.c tests/fixtures/c/fixture.h $(FIX)/libburn.so
	$(call say,FIXTURE,$@)mkdir -p $(@D) && \
		$(firstword $(subst -, ,$*)) $(FIX_CFLAGS) $(burns-$*) -Wno-format-truncation -o $@ $<
# Rust: no frame pointers in user code, and without unwinding there need be no tables at all
FIX_BIN += $(addprefix $(FIX)/burns-rust-,unwind abort)
$(FIX)/burns-rust-%: tests/fixtures/rust/burns.rs
	$(call say,FIXTURE,$@)$(RUST_FIXTURE) --crate-name burns -C panic=$* -C force-frame-pointers=no
FIX_BIN += $(FIX)/burns-rust-debug
$(FIX)/burns-rust-debug: tests/fixtures/rust/burns.rs
	$(call say,FIXTURE,$@)$(RUST_FIXTURE) --crate-name burns -g
burns-gcc-O0 = -O0
burns-gcc-O3 = -O3
burns-gcc-static-pie = -static-pie
burns-gcc-static = -static
burns-gcc-frame-pointers = -fno-omit-frame-pointer
burns-gcc-no-pie = -no-pie
burns-gcc-debug = -g
burns-clang-O2 = -O2
burns-clang-O0 = -O0

# L12: a program and what it maps later
FIX_BIN += $(FIX)/opens_plugin $(FIX)/libplugin.so
$(FIX)/libplugin.so: tests/fixtures/libs/plugin.c
	$(call say,FIXTURE,$@)mkdir -p $(@D) && $(CC) -O2 -shared -fPIC -o $@ $<
$(FIX)/opens_plugin: tests/fixtures/libs/opens_plugin.c tests/fixtures/c/fixture.h
	$(call say,FIXTURE,$@)mkdir -p $(@D) && $(CC) $(FIX_CFLAGS) -o $@ $< -ldl

# L12: allocators that come with a library
FIX_BIN += $(FIX)/late_allocs $(FIX)/late-allocs-rust $(FIX)/libgreedy.so $(FIX)/libgreedy-lto.so
$(FIX)/late_allocs: tests/fixtures/libs/late_allocs.c tests/fixtures/c/fixture.h
	$(call say,FIXTURE,$@)mkdir -p $(@D) && $(CC) $(FIX_CFLAGS) -o $@ $< -ldl
$(FIX)/late-allocs-rust: tests/fixtures/rust/late_allocs.rs
	$(call say,FIXTURE,$@)$(RUST_FIXTURE) --crate-name late_allocs
$(FIX)/libgreedy-lto.so: RUST_ALLOCS = -C lto=fat -C codegen-units=1 -C panic=abort
$(FIX)/libgreedy%so: tests/fixtures/rust/greedy.rs
	$(call say,FIXTURE,$@)$(RUST_FIXTURE) --crate-name greedy --crate-type cdylib $(RUST_ALLOCS)

# E1: one source, linked in all ways
$(FIX)/calls-no-pie: FIX_LINK = -no-pie
$(FIX)/calls-static-pie: FIX_LINK = -static-pie
$(FIX)/calls-static: FIX_LINK = -static
$(FIX)/calls-high: FIX_LINK = -Wl,-Ttext-segment=0x34fd200000
# E4, E6: with debug information, to be taken away
$(FIX)/calls-debug: FIX_LINK = -g
$(FIX)/calls-static-debug: FIX_LINK = -g -static
$(FIX)/calls-exported: FIX_LINK = -g -rdynamic
$(FIX)/calls-%: tests/fixtures/c/calls.c tests/fixtures/c/fixture.h
	$(call say,FIXTURE,$@)mkdir -p $(@D) && $(CC) $(FIX_CFLAGS) $(FIX_LINK) -o $@ $<

RUST_FIXTURE = mkdir -p $(@D) && $(RUSTC) --edition=2021 -O -o $@ $<
$(FIX)/panics $(FIX)/sleepers: $(FIX)/%: tests/fixtures/rust/%.rs tests/fixtures/rust/fixture.rs
	$(call say,FIXTURE,$@)$(RUST_FIXTURE)
$(FIX)/names-v0 $(FIX)/names-legacy: $(FIX)/names-%: tests/fixtures/rust/names.rs tests/fixtures/rust/fixture.rs
	$(call say,FIXTURE,$@)$(RUST_FIXTURE) -C symbol-mangling-version=$* $(RUST_UNSTABLE_$*)
# the legacy scheme is said to be unstable to ask for
RUST_UNSTABLE_legacy = -Z unstable-options
$(FIX)/names-legacy: export RUSTC_BOOTSTRAP = 1

# A9: link-time optimisation inlines some of the allocator's shims
$(FIX)/rust-allocs-lto: RUST_ALLOCS = -C lto=fat -C codegen-units=1 -C panic=abort
$(FIX)/rust-allocs-counting: RUST_ALLOCS = --cfg counting
$(FIX)/rust-allocs-%: tests/fixtures/rust/allocs.rs
	$(call say,FIXTURE,$@)$(RUST_FIXTURE) $(RUST_ALLOCS)

# A8: static, with musl's malloc (rustup target add x86_64-unknown-linux-musl); not everybody has it
MUSL := x86_64-unknown-linux-musl
ifneq ($(wildcard $(shell $(RUSTC) --print sysroot 2>/dev/null)/lib/rustlib/$(MUSL)/lib),)
FIX_BIN += $(FIX)/rust-allocs-musl
$(FIX)/rust-allocs-musl: RUST_ALLOCS = --target $(MUSL)
endif

# A8: jemalloc and mimalloc as Rust servers link them in. A minute to build, so only for slow-tests
ALLOCATORS := $(O)/cargo/release/role_jemalloc
$(ALLOCATORS): $(wildcard tests/fixtures/allocators/Cargo.* tests/fixtures/allocators/src/bin/*.rs) tests/fixtures/rust/allocs.rs
	$(call say,CARGO,$@)$(cargo-build) --manifest-path tests/fixtures/allocators/Cargo.toml && touch $@

TOKIO_PANICS := $(O)/cargo/release/tokio_panics
$(TOKIO_PANICS): $(wildcard tests/fixtures/tokio/Cargo.* tests/fixtures/tokio/src/*.rs) tests/fixtures/rust/fixture.rs
	$(call say,CARGO,$@)$(cargo-build) --manifest-path tests/fixtures/tokio/Cargo.toml && touch $@

STALLS := $(O)/cargo/release/stalls
$(STALLS): $(wildcard tests/fixtures/stalls/Cargo.* tests/fixtures/stalls/src/*.rs) tests/fixtures/rust/fixture.rs
	$(call say,CARGO,$@)$(cargo-build) --manifest-path tests/fixtures/stalls/Cargo.toml && touch $@

e2e-build: $(FIX_BIN) $(DEMO_ROLE) $(TOKIO_PANICS) $(STALLS)

run-e2e = ROLETRACE=$(O)/roletrace FIXTURES=$(FIX) CARGO_BIN=$(O)/cargo/release \
	PROMTOOL=$(or $(wildcard $(O)/promtool),promtool) python3 tests/e2e/run.py $(if $(T),-k '$(T)')

# T=PATTERN runs some of them only
e2e-tests: $(O)/roletrace e2e-build
	$(Q)$(run-e2e)

# what takes minutes to build or to run: part of check-roles
slow-build: e2e-build $(ALLOCATORS)
slow-tests: $(O)/roletrace slow-build
	$(Q)$(run-e2e) --slow

.PHONY: demo-role e2e-build e2e-tests slow-build slow-tests

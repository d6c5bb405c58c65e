# SPDX-License-Identifier: BSD-2-Clause
#
# The same few functions from every compiler, linker and way of linking: what test_matrix.py traces.
# COMPILER-LANGUAGE-LINK below $(O)/tests/matrix. lld is the one that comes with newer rustc; where
# there is none, its rows are left out.

MATRIX := $(O)/tests/matrix
MATRIX_SRC := tests/fixtures/matrix
LINKS := pie no-pie static static-pie
LLD_DIR = $(shell $(RUSTC) --print sysroot)/lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld

# gcc's -pie is its default in some distributions only
matrix-link-pie = -fPIE -pie
matrix-link-no-pie = -fno-pie -no-pie
matrix-link-static = -fno-pie -static
matrix-link-static-pie = -fPIE -static-pie
matrix-link-lld = -fPIE -pie -B$(LLD_DIR) -fuse-ld=lld -Wl,--build-id

MATRIX_BIN := $(foreach l,$(LINKS) lld,gcc-c-$(l) g++-c++-$(l)) $(foreach l,$(LINKS),clang-c-$(l)) \
	clang++-c++-pie clang++-c++-static-pie \
	$(foreach m,legacy v0,$(foreach l,$(LINKS),rustc-$(m)-$(l))) rustc-v0-bfd
MATRIX_BIN := $(MATRIX_BIN:%=$(MATRIX)/%)

$(MATRIX)/gcc-c-lld $(MATRIX)/g++-c++-lld: $(MATRIX)/%: tests/fixtures/c/calls.c $(MATRIX_SRC)/calls.cc
	$(if $(wildcard $(LLD_DIR)/ld.lld),$(call say,FIXTURE,$@)mkdir -p $(@D) && \
		$(firstword $(subst -, ,$(@F))) $(filter-out -std=%,$(FIX_CFLAGS)) -g $(matrix-link-lld) -o $@ \
		$(filter %$(if $(findstring ++,$@),.cc,.c),$^),@echo '  no lld: $(@F) is left out')

# One rule each: a pattern rule of two targets would take both for made by one run.
define matrix-c-rule
$(MATRIX)/$(1)-c-%: tests/fixtures/c/calls.c tests/fixtures/c/fixture.h
	$$(call say,FIXTURE,$$@)mkdir -p $$(@D) && $(1) $$(FIX_CFLAGS) -g $$(matrix-link-$$*) -o $$@ $$<
endef
define matrix-c++-rule
$(MATRIX)/$(1)-c++-%: $(MATRIX_SRC)/calls.cc tests/fixtures/c/fixture.h
	$$(call say,FIXTURE,$$@)mkdir -p $$(@D) && $(1) -D_GNU_SOURCE -O2 -g -Wno-unused-parameter \
		$$(matrix-link-$$*) -o $$@ $$<
endef
$(foreach cc,gcc clang,$(eval $(call matrix-c-rule,$(cc))))
$(foreach cc,g++ clang++,$(eval $(call matrix-c++-rule,$(cc))))

# rustc links by lld unless told otherwise; every debug file wants a build-id
matrix-rust-pie =
matrix-rust-no-pie = -C relocation-model=static
matrix-rust-static = -C target-feature=+crt-static -C relocation-model=static
matrix-rust-static-pie = -C target-feature=+crt-static
matrix-rust-bfd = -C link-arg=-fuse-ld=bfd

define matrix-rust-rule
$(MATRIX)/rustc-$(1)-%: $(MATRIX_SRC)/calls.rs tests/fixtures/rust/fixture.rs
	$$(call say,FIXTURE,$$@)mkdir -p $$(@D) && RUSTC_BOOTSTRAP=1 $$(RUSTC) --edition=2021 -O -g \
		--crate-name calls -Z unstable-options -C symbol-mangling-version=$(1) \
		-C link-arg=-Wl,--build-id $$(matrix-rust-$$*) -o $$@ $$<
endef
$(foreach m,legacy v0,$(eval $(call matrix-rust-rule,$(m))))

e2e-build: $(MATRIX_BIN)

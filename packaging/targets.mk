# SPDX-License-Identifier: BSD-2-Clause
#
# Set-up, demo and checks. The scripts install what is missing before anything is built, and then call
# make again: what a first parse could not find is there by then.

# cargo and rustc would look for make -j's job server, which only recipes marked as makes inherit.
export CARGO_MAKEFLAGS :=

C_FILES = $(shell find bpf daemon include tests bench -name '*.[ch]' -not -path 'tests/*/target/*' 2>/dev/null)

setup:
	@packaging/setup.sh build rust

demo:
	@+O='$(O)' MAKE='$(MAKE)' packaging/demo.sh

check:
	@+O='$(O)' SAN='$(SAN)' MAKE='$(MAKE)' packaging/check.sh

# clang-format 14, as in Debian 12: another one would quarrel with .clang-format
format-check:
	@bad=; for f in $(C_FILES); do \
		clang-format --dry-run -Werror $$f 2>/dev/null || bad="$$bad $$f"; \
	done; \
	if [ -n "$$bad" ]; then printf '%s: make format would change it\n' $$bad; echo "0 passed, 1 failed"; exit 1; fi; \
	echo "1 passed, 0 failed"

format:
	clang-format -i $(C_FILES)

arrows-check:
	@python3 tests/arrows.py --test

.PHONY: setup demo check format format-check arrows-check

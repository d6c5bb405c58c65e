# SPDX-License-Identifier: BSD-2-Clause
# make bench: ratios against the floor and the peers, as Markdown tables on standard output.
# BENCH="memory per-call exits budget ready daemon idle profile" for some parts only; PEERS=DIR for peers made by bench/peers.sh DIR.
# make bench-roles: what tracing adds to the translator under load.

$(O)/bench/target $(O)/bench/busy: $(O)/bench/%: bench/%.c
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) -O2 -Wall -Wextra -pthread -o $@ $<

bench: $(O)/roletrace $(O)/bench/target $(O)/bench/busy $(O)/tests/fixtures/rates
	$(Q)PEERS='$(PEERS)' python3 bench/run.py $(O) $(BENCH)

# the real roles (cached by make check-roles)
bench-roles: $(O)/roletrace
	$(Q)ROLETRACE=$(O)/roletrace python3 bench/roles.py $(BENCH)

.PHONY: bench bench-roles

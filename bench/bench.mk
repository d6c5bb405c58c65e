# SPDX-License-Identifier: BSD-2-Clause
# make bench: ratios against the floor and the peers, as Markdown tables on standard output.
# BENCH="per-call exits budget ready daemon idle profile" for some parts only; PEERS=DIR for peers made by bench/peers.sh DIR.
# make bench-memory: the price of --memory beside memleak and heaptrack; BENCH="pair role paths", ROUNDS=5.
# make bench-roles: what tracing adds to the translator under load.

BENCH_ROLE := $(O)/cargo/release/bench_role

$(O)/bench/target $(O)/bench/busy: $(O)/bench/%: bench/%.c
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) -O2 -Wall -Wextra -pthread -o $@ $<

$(O)/bench/floor: bench/floor.c
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) -O2 -Wall -Wextra -o $@ $< $(LIBS_BPF) -l:libelf.a -lz

$(BENCH_ROLE): $(wildcard bench/role/Cargo.* bench/role/src/*.rs)
	$(call say,CARGO,$@)$(cargo-build) --manifest-path bench/role/Cargo.toml && touch $@

# roletrace without call paths, for their price; should the two lines read otherwise one day, this fails
WITHOUT_PATHS := $(O)/bench/without-paths
$(WITHOUT_PATHS)/roletrace: $(O)/roletrace $(wildcard bpf/*.h)
	$(call say,BUILD,$@)rm -rf $(@D) && mkdir -p $(@D) && cp -a Makefile bpf daemon include proto profiles $(@D) && cd $(@D) && \
		sed -i 's/= path_of(s, d, fn);/= RT_PATH_ROOT;/; s/\tpath_add(f->path, dt, dt - inner);//' bpf/shadow.bpf.h && \
		! cmp -s bpf/shadow.bpf.h $(CURDIR)/bpf/shadow.bpf.h && \
		! grep -q 'path_of(s, d, fn)\|path_add(f->path' bpf/shadow.bpf.h && \
		$(MAKE) --no-print-directory O=out out/roletrace >/dev/null && mv out/roletrace . && rm -rf out

bench: $(O)/roletrace $(O)/bench/target $(O)/bench/busy $(O)/tests/fixtures/rates
	$(Q)PEERS='$(PEERS)' python3 bench/run.py $(O) $(BENCH)

bench-memory: $(O)/roletrace $(O)/bench/target $(O)/bench/floor $(BENCH_ROLE) $(if $(filter paths,$(or $(BENCH),paths)),$(WITHOUT_PATHS)/roletrace)
	$(Q)PEERS='$(PEERS)' python3 bench/memory.py $(O) $(BENCH)

# the real roles (cached by make check-roles)
bench-roles: $(O)/roletrace
	$(Q)ROLETRACE=$(O)/roletrace python3 bench/roles.py $(BENCH)

.PHONY: bench bench-memory bench-roles

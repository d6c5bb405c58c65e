# SPDX-License-Identifier: BSD-2-Clause
#
# oracle-tests: single-steps real functions and holds the plan's entry and exit sites against what
# their calls passed (no root). oracle-roles: the same for 1,000 functions of the real roles and cargo.

STEP := $(O)/tests/oracle/step
ROLE_BIN = $(or $(ROLETRACE_CACHE),$(HOME)/.cache/roletrace)/roles/bin
REAL_CARGO = $(shell rustup which cargo 2>/dev/null || command -v cargo)

$(STEP): tests/oracle/step.c $(LIB_OBJ)
	$(call say,LINK,$@)mkdir -p $(@D) && $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# "FILE COUNT CRATE..."...; says how many of them failed
step-all = $(Q)p=0; f=0; for args in $(1); do \
		if $(STEP) $$args; then p=$$((p + 1)); else f=$$((f + 1)); fi; \
	done; echo "oracle: $$p passed, $$f failed"; [ $$f = 0 ]

oracle-tests: $(STEP) $(DEMO_ROLE)
	$(call step-all,"$(DEMO_ROLE) 15 demo_role" "$(DEMO_ROLE) 100 tokio")

oracle-roles: $(STEP)
	$(call step-all,"$(ROLE_BIN)/translator_sv2 250 translator_sv2" \
		"$(ROLE_BIN)/pool_sv2 350 pool_sv2 stratum_apps jd_server_sv2" "$(REAL_CARGO) 500 cargo")

.PHONY: oracle-tests oracle-roles

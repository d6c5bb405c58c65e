# SPDX-License-Identifier: BSD-2-Clause
#
# cli-tests: what roletrace does without a target; no root. promtool: fetches the checker of Prometheus'
# format that they use, some 20 MB; without it one of them skips.

PROMTOOL := $(O)/promtool

$(PROMTOOL):
	$(call say,FETCH,$@)packaging/promtool.sh $@

promtool: $(PROMTOOL)

# T=PATTERN runs some of them only
cli-tests: $(O)/roletrace
	$(Q)ROLETRACE=$(O)/roletrace PROMTOOL=$(or $(wildcard $(PROMTOOL)),promtool) \
		python3 -B tests/cli/run.py $(if $(T),-k '$(T)')

.PHONY: promtool cli-tests

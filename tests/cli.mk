# SPDX-License-Identifier: BSD-2-Clause
#
# cli-tests: what roletrace does without a target; no root. promtool: fetches the checker of Prometheus'
# format that they use, some 20 MB, speedscope: the npm package of that name, 2 MB; without them some of
# them skip. Those of the flamegraph page need Chromium (packaging/setup.sh browser), others go.

PROMTOOL := $(O)/promtool

$(PROMTOOL):
	$(call say,FETCH,$@)packaging/promtool.sh $@

promtool: $(PROMTOOL)

SPEEDSCOPE := $(O)/speedscope
SPEEDSCOPE_VERSION := 1.25.0

$(SPEEDSCOPE)/package.json:
	$(call say,FETCH,$@)rm -rf $(SPEEDSCOPE) && mkdir -p $(SPEEDSCOPE) && cd $(SPEEDSCOPE) && \
		npm pack --silent speedscope@$(SPEEDSCOPE_VERSION) >/dev/null && \
		tar -xmf speedscope-*.tgz --strip-components=1

speedscope: $(SPEEDSCOPE)/package.json

# T=PATTERN runs some of them only
cli-tests: $(O)/roletrace
	$(Q)ROLETRACE=$(O)/roletrace PROMTOOL=$(or $(wildcard $(PROMTOOL)),promtool) \
		SPEEDSCOPE=$(SPEEDSCOPE)/dist/release \
		python3 -B tests/cli/run.py $(if $(T),-k '$(T)')

.PHONY: promtool speedscope cli-tests

# SPDX-License-Identifier: BSD-2-Clause
#
# check-roles: the real Stratum roles under load, roletrace on the translator. See tests/lab/lab.py.

check-roles:
	@+O='$(O)' MAKE='$(MAKE)' tests/lab/check-roles.sh

.PHONY: check-roles

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# make check-roles: builds the real roles into a cache outside the checkout unless they are there (the
# first time may take 40 minutes), then runs roletrace on the translator under load. Its last line is
# "N passed, N failed[, N skipped]". Exit: 0, 1 failed, 4 the machine does not allow it.
set -u
cd "$(dirname "$0")/../.." || exit 1
. packaging/lib.sh
me=check-roles

RUST_MIN=1.88 # what the roles declare

skip() {
	say "NOT RUN: $1"
	echo '0 passed, 0 failed, 1 skipped'
	exit "$2"
}

kernel_can_trace || skip "$kernel_says" 4
version=$(cargo --version 2>/dev/null | cut -d ' ' -f 2)
if [ -n "$version" ] && [ "$(printf '%s\n' $RUST_MIN "$version" | sort -V | head -n 1)" != $RUST_MIN ]; then
	skip "the roles need Rust $RUST_MIN, cargo is $version" 0
fi
packaging/setup.sh build roles || exit
make_in_parallel all || die 1 "the build failed, see above"
python3 tests/lab/lab.py build || die 1 "the roles are not built, see above"
[ "$(id -u)" = 0 ] || sudo -v || skip "attaching needs root, and there is no sudo" 0
export PYTHONDONTWRITEBYTECODE=1
as_root env "PATH=$PATH" "HOME=$HOME" "MAKE=${MAKE:-make}" "O=${O:-build}" "ROLETRACE=${O:-build}/roletrace" \
	"ROLETRACE_CACHE=${ROLETRACE_CACHE:-$HOME/.cache/roletrace}" python3 tests/lab/check_roles.py

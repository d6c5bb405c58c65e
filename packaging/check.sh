#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# make check: installs what is missing, builds, runs every suite and sums them up in one last line,
# "N passed, N failed[, N skipped]". A suite is a make target whose own last such line says how it went;
# one that says nothing has failed. Exit: 0, 1 something failed, 4 the kernel is too old for the
# end-to-end tests (all the others ran).
set -u
cd "$(dirname "$0")/.." || exit 1
. packaging/lib.sh
me=check

LINE='^([A-Za-z0-9_ -]+: *)?([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$'
passed=0 failed=0 skipped=0
summary=

work=$(mktemp -d -t roletrace-check.XXXXXX) || exit 1
running=
trap 'rm -rf "$work"' EXIT
trap '[ -z "$running" ] || kill "$running" 2>/dev/null; exit 130' INT TERM

# suite NAME LIMIT COMMAND...: shows what the command prints, adds up its closing line.
# The output goes to a file, so that nothing a test leaves running can hold the check up.
suite() {
	local name=$1 limit=$2 start=$SECONDS err line verdict note=
	shift 2
	printf '== %s\n' "$name"
	: >"$work/log"
	timeout --kill-after=10 "$limit" "$@" >"$work/log" 2>&1 </dev/null &
	running=$!
	tail -n +1 -f -s 0.1 --pid="$running" "$work/log"
	wait "$running"
	err=$?
	running=
	line=$(grep -E "$LINE" "$work/log" | tail -n 1)
	if [[ $line =~ $LINE ]]; then
		verdict=("${BASH_REMATCH[2]}" "${BASH_REMATCH[3]}" "${BASH_REMATCH[5]:-0}")
	else
		verdict=(0 1 0)
		note=' (no closing line)'
	fi
	if [ "$err" = 124 ]; then
		note=" (stopped after $limit s)"
	fi
	# A suite that failed without counting a failure, or that ran nothing, counts one.
	if [ "${verdict[1]}" = 0 ] && { [ "$err" != 0 ] || [ $((verdict[0] + verdict[2])) = 0 ]; }; then
		verdict[1]=1
		note=${note:-" (exit $err)"}
	fi
	passed=$((passed + verdict[0])) failed=$((failed + verdict[1])) skipped=$((skipped + verdict[2]))
	summary+=$(printf '%-14s %5d passed %4d failed %4d skipped %5d s%s' "$name" "${verdict[@]}" \
		$((SECONDS - start)) "$note")$'\n'
}

# build TARGET: a failure counts as one, and is said in the summary.
build() {
	printf '== build %s\n' "$1"
	"${make[@]}" "$1" && return
	failed=$((failed + 1))
	summary+="make $1 failed"$'\n'
	return 1
}

packaging/setup.sh build rust || exit

# The end-to-end tests need root; all that they need is built before, as the user. Without sudo they skip.
O=${O:-build}
root=()
if [ "$(id -u)" != 0 ] && command -v sudo >/dev/null && sudo -v; then
	root=(sudo env "PATH=$PATH" PYTHONDONTWRITEBYTECODE=1)
fi
find_make
make+=("O=$O")

suite format 60 "${make[@]}" format-check
suite arrows 60 "${make[@]}" arrows-check
if build all; then
	"${make[@]}" promtool >/dev/null 2>&1 || say "no promtool: tests of the Prometheus format skip"
	"${make[@]}" speedscope >/dev/null 2>&1 || say "no speedscope: its files are held against rules of ours only"
	suite cli 240 "${make[@]}" cli-tests
	suite unit 240 "${make[@]}" unit-tests
	suite oracle 180 "${make[@]}" oracle-tests
	[ -n "${SAN:-}" ] || suite unit-san 300 "${make[@]}" unit-tests SAN=1 "O=$O/san"
	if kernel_can_trace && build e2e-build; then
		suite e2e 1500 "${root[@]}" "${make[@]}" e2e-tests
	fi
fi

printf '== summary\n%s' "$summary"
[ -z "${kernel_says:-}" ] || say "no end-to-end tests: $kernel_says"
printf '%d passed, %d failed' "$passed" "$failed"
[ "$skipped" = 0 ] || printf ', %d skipped' "$skipped"
printf '\n'
[ "$failed" = 0 ] || exit 1
[ -z "${kernel_says:-}" ] || exit 4

# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# What setup.sh, demo.sh and check.sh share. Sourced; $me is who speaks.

say() { printf '%s: %s\n' "$me" "$*"; }

# die CODE MESSAGE
die() {
	printf '%s: %s\n' "$me" "$2" >&2
	exit "$1"
}

# Runs a command as root: directly, or through sudo.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# kernel_can_trace [LEAST]: 0 when the kernel is new enough; else sets $kernel_says to one line. The tests
# need uprobe_multi (6.6), a trace does not.
kernel_can_trace() {
	local release least=${1:-6.6}
	release=$(uname -r)
	[ "$(printf '%s\n' "$least" "${release%%[!0-9.]*}" | sort -V | head -n 1)" = "$least" ] && return 0
	kernel_says="kernel $release is too old: $least or newer is needed"
	return 1
}

# Sets $make: with the caller's settings (O, SAN, ... come along in MAKEFLAGS), on all CPUs unless it
# said how many, and without make's own remarks unless it asked to see everything.
find_make() {
	make=("${MAKE:-make}" --no-print-directory)
	case ${MAKEFLAGS:-} in *V=1*) ;; *) make+=(-s) ;; esac
	case ${MAKEFLAGS:-} in *-j*) ;; *) make+=(-j"$(nproc)") ;; esac
}

make_in_parallel() {
	find_make
	"${make[@]}" "$@"
}

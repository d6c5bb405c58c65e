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

# 0 when the kernel has uprobe_multi (6.6); else sets $kernel_says to one line.
kernel_can_trace() {
	local release
	release=$(uname -r)
	[ "$(printf '%s\n' 6.6 "${release%%[!0-9.]*}" | sort -V | head -n 1)" = 6.6 ] && return 0
	kernel_says="kernel $release is too old: roletrace needs 6.6 or newer (uprobe_multi)"
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

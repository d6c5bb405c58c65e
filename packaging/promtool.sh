#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# promtool.sh FILE: fetches promtool, which checks files in Prometheus' text format, to FILE. It is taken
# out of Debian's package "prometheus" without installing that: with it would come a server that starts
# at once, and 100 MB. Needs no root where apt's lists are there.
# Exit: 0 it is there, 1 failed, 2 usage, 4 this is not Debian.
set -u
. "$(dirname "$0")/lib.sh"
me=promtool

[ $# = 1 ] || die 2 "usage: promtool.sh FILE"
[ "${SETUP:-}" != no ] || die 1 "SETUP=no: put promtool on PATH yourself"
file=$(realpath -m "$1")
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || die 4 "this is not Debian: put promtool on PATH yourself"

work=$(mktemp -d -t roletrace-promtool.XXXXXX) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# apt as root fetches as another user, who must be able to write here
[ "$(id -u)" != 0 ] || chmod 777 .
download() { apt-get -q -o Acquire::Retries=3 download prometheus >log 2>&1; }
download || { as_root apt-get -q update >>log 2>&1 && download; } ||
	die 1 "apt-get download failed: $(tail -n 1 log)"
mkdir -p "$(dirname "$file")" || exit 1
dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xO ./usr/bin/promtool >promtool ||
	die 1 "the package prometheus holds no /usr/bin/promtool"
chmod 755 promtool && mv promtool "$file"

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# peers.sh DIR: a Debian 13 root folder with today's bpftrace (uprobe_multi) and libbpf-tools
# (funclatency, memleak), to be run by chroot; Debian 12 has older ones, or none. `make bench PEERS=DIR`
# uses it, and `make bench-memory PEERS=DIR` (without its mounts). heaptrack and
# the gdb it injects itself by come from this system. Takes half a minute and 400 MB; run again, it only
# makes sure of the mounts. peers.sh -u DIR takes the mounts away.
set -eu
if [ "${1:-}" = -u ]; then
	for m in sys proc tmp; do umount -R "$2/$m" 2>/dev/null || true; done
	exit 0
fi
dir=${1:?usage: peers.sh DIR}
lacking=
for program in debootstrap heaptrack gdb; do
	command -v $program >/dev/null || lacking+=" $program"
done
[ -z "$lacking" ] || apt-get install -y -q --no-install-recommends $lacking
mirror=$(apt-get indextargets --format '$(ORIGIN)|$(CODENAME)|$(COMPONENT)|$(REPO_URI)' 'Created-By: Packages' |
	awk -F'|' '$1 == "Debian" && $2 == "bookworm" && $3 == "main" { print $4; exit }')
if [ ! -x "$dir/usr/bin/bpftrace" ]; then
	debootstrap --variant=minbase --include=bpftrace,libbpf-tools trixie "$dir" "$mirror"
fi
mountpoint -q "$dir/proc" || mount -t proc proc "$dir/proc"
mountpoint -q "$dir/sys" || mount --rbind /sys "$dir/sys"
mountpoint -q "$dir/tmp" || mount --bind /tmp "$dir/tmp"

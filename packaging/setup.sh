#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Installs from Debian what the build needs and the machine lacks: packaging/setup.sh [build] [rust] [roles] [browser]
#   build   compilers, BPF tools, libraries, test tools (the default)
#   rust    cargo, where there is none (the demo role and the Rust fixtures)
#   roles   what the Stratum roles need to build; includes rust
#   browser Chromium, in which the tests look at pages (they skip without)
# Runs again at no cost: nothing is asked of the network when nothing is missing. Knows Debian 12 only.
# Exit: 0 all there, 1 failed, 2 usage, 4 this machine or these rights do not allow it.
set -u

# package [minimal version]: the second list is too old in bookworm and comes from its backports.
BUILD='clang gcc g++ libc6-dev make libelf-dev libdw-dev libbz2-dev liblzma-dev zlib1g-dev libiberty-dev
	libzydis-dev libzycore-dev libjansson-dev libprotobuf-c-dev protobuf-c-compiler clang-format libcriterion-dev python3
	gdb libc6-dbg libjemalloc2 libmimalloc2.0'
BACKPORTS='libbpf-dev=1:1.3 bpftool=7.3 linux-libc-dev=6.6'
RUST='cargo-web rustc-web ca-certificates'
ROLES='capnproto libcapnp-dev'
BROWSER='chromium fonts-dejavu-core'
RUST_MIN=1.85 # what bookworm has; older ones (its plain "cargo" is 1.63) cannot build tokio
RUST_MIN_ROLES=1.88

. "$(dirname "$0")/lib.sh"
me=setup

# Sets $missing: those of the given "package[=minimal version]" that are not installed, or are too old.
find_missing() {
	local have want name min version
	have=$(dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' "${@%%=*}" 2>/dev/null)
	missing=
	for want in "$@"; do
		name=${want%%=*}
		min=${want#"$name"}
		version=$(sed -n "s/^installed $name //p" <<<"$have" | head -n 1)
		if [ -z "$version" ]; then
			missing+=" $name"
		elif [ -n "$min" ] && ! dpkg --compare-versions "$version" ge "${min#=}"; then
			missing+=" $name"
		fi
	done
}

# cargo works and is new enough (rustup without a toolchain is not a cargo).
have_cargo() {
	local version
	version=$(cargo --version 2>/dev/null) || return 1
	version=${version#cargo }
	version=${version%% *}
	[ "$(printf '%s\n' "$RUST_MIN" "$version" | sort -V | head -n 1)" = "$RUST_MIN" ] ||
		die 1 "cargo is $version, but $RUST_MIN or newer is needed: update it, or remove it and run this again"
}

# Some fixtures are static, with musl: only where rustup has the toolchain, and no failure without.
add_musl() {
	local target=x86_64-unknown-linux-musl

	command -v rustup >/dev/null && [ ! -d "$(rustc --print sysroot 2>/dev/null)/lib/rustlib/$target" ] || return 0
	say "adding Rust's target $target"
	rustup target add "$target" >/dev/null 2>&1 || say "not to be had: its tests will skip"
}

# One line of what apt-get complained about: the first line of its own, else the last one printed.
apt_reason() {
	{ grep -m 1 '^[EW]: ' "$log" || tail -n 1 "$log"; } | cut -c 1-300
}

apt() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
		-o Acquire::Retries=3 "$@" >>"$log" 2>&1 </dev/null
}

# apt-get update succeeds when it could not reach anything: the first warning is kept for later.
apt_update() {
	apt update "$@" || die 1 "apt-get update failed: $(apt_reason) (log: $log)"
}

# Backports come from the mirror that this machine's own Debian comes from.
add_backports() {
	local targets mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	local file=/etc/apt/sources.list.d/roletrace-backports.sources

	targets=$(apt-get indextargets --format '$(CODENAME)|$(COMPONENT)|$(REPO_URI)' 'Created-By: Packages')
	! grep -q '^bookworm-backports|main|' <<<"$targets" || return 0
	mirror=$(sed -n 's/^bookworm|main|//p' <<<"$targets" | head -n 1)
	[ -n "$mirror" ] ||
		die 1 "found no mirror of bookworm main in apt's sources: $(apt_reason) (log: $log)"
	say "adding bookworm-backports, from the mirror this machine uses: $file"
	{
		printf 'Types: deb\nURIs: %s\nSuites: bookworm-backports\nComponents: main\n' "$mirror"
		[ ! -f "$keyring" ] || printf 'Signed-By: %s\n' "$keyring"
	} | as_root tee "$file" >/dev/null || die 1 "could not write $file"
	apt_update -o Dir::Etc::sourcelist="$file" -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0
}

want=
wants_rust=
for arg in "${@:-build}"; do
	case $arg in
	build) want+=" $BUILD $BACKPORTS" ;;
	rust) wants_rust=1 ;;
	roles)
		want+=" $ROLES"
		wants_rust=1
		RUST_MIN=$RUST_MIN_ROLES
		;;
	browser) want+=" $BROWSER" ;;
	*) die 2 "unknown argument '$arg' (build, rust, roles, browser)" ;;
	esac
done

[ "${SETUP:-}" != no ] || exit 0
command -v dpkg-query >/dev/null ||
	die 4 "this is not Debian 12: install the packages named in packaging/setup.sh yourself, then use SETUP=no"
if [ -n "$wants_rust" ] && ! have_cargo; then
	want+=" $RUST"
fi
[ -z "$wants_rust" ] || add_musl
# shellcheck disable=SC2086 # lists of words
find_missing $want
if [ -z "$missing" ]; then
	say "nothing to install"
	exit 0
fi

. /etc/os-release
[ "${VERSION_CODENAME:-}" = bookworm ] ||
	die 4 "knows Debian 12 (bookworm) only, this is ${PRETTY_NAME:-unknown}: install$missing yourself, or use SETUP=no"
[ "$(dpkg --print-architecture)" = amd64 ] || die 4 "roletrace runs on x86-64 only so far"
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || die 4 "not root, and no sudo to install with; missing:$missing"
	sudo -v || die 4 "not root, and sudo refused; missing:$missing"
fi

log=$(mktemp -t roletrace-setup.XXXXXX) || exit 1
start=$SECONDS
say "installing from Debian:$missing"
case $missing in *cargo-web*) say "cargo-web and rustc-web because no cargo was found (the demo role and fixtures are in Rust)" ;; esac
apt_update

install=
with_backports=
for name in $missing; do
	case " $BACKPORTS " in
	*" $name="*)
		with_backports=1
		name+=/bookworm-backports
		;;
	esac
	install+=" $name"
done
[ -z "$with_backports" ] || add_backports
# shellcheck disable=SC2086
apt install --no-install-recommends $install ||
	die 1 "apt-get install failed: $(apt_reason) (log: $log)"
rm -f "$log"
[ -z "$wants_rust" ] || have_cargo || die 1 "cargo does not work: $(cargo --version 2>&1 | tail -n 1)"
say "done in $((SECONDS - start)) s"

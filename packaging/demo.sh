#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# make demo: installs what is missing, builds, starts the demo role, traces it and prints the report.
# Ends what it started, by pid. Exit: 0, 1 failed, 4 the machine does not allow it (make itself says 2).
set -u
cd "$(dirname "$0")/.." || exit 1
. packaging/lib.sh
me=demo

O=${O:-build}
SECONDS_TRACED=${DEMO_SECONDS:-8}
SNAPSHOT=roletrace-demo.json

work=
role=
clean_up() {
	if [ -n "$role" ]; then
		kill "$role" 2>/dev/null
		wait "$role" 2>/dev/null
	fi
	[ -z "$work" ] || rm -rf "$work"
}
trap clean_up EXIT

kernel_can_trace 6.1 || die 4 "$kernel_says"
packaging/setup.sh build rust || exit

say "building roletrace and the demo role (the first time cargo fetches its crates: a minute or two)"
make_in_parallel all demo-role || die 1 "the build failed, see above"

work=$(mktemp -d -t roletrace-demo.XXXXXX) || exit 1
"$O/cargo/release/demo_role" --demo --seconds $((SECONDS_TRACED + 60)) >"$work/out" 2>"$work/err" &
role=$!
for _ in $(seq 100); do
	ready=$(grep -m 1 '^ready ' "$work/out") && break
	kill -0 "$role" 2>/dev/null || break
	sleep 0.1
done
[ -n "$ready" ] || die 1 "the demo role did not start: $(tail -n 1 "$work/err")"

# Much of what the demo role calls is a few microseconds long: the usual budget of 2 % would be too small.
options=(--pid "$role" -d "$SECONDS_TRACED" --budget 10 -o "json:$SNAPSHOT")
say "the demo role runs; now tracing it: roletrace ${options[*]}"
as_root "$O/roletrace" "${options[@]}"
err=$?
[ "$err" = 0 ] || die "$err" "roletrace failed with code $err, see above"
kill -0 "$role" 2>/dev/null || die 1 "the demo role did not survive: $(tail -n 1 "$work/err")"
[ -s "$SNAPSHOT" ] || die 1 "roletrace wrote no $SNAPSHOT"
[ "$(id -u)" = 0 ] || as_root chown "$(id -u):$(id -g)" "$SNAPSHOT"
say "the snapshot file is $PWD/$SNAPSHOT ($(wc -c <"$SNAPSHOT") bytes; docs/snapshot.md explains it)"

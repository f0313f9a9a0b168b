#!/usr/bin/env bash
# Run every fuzz target of the module, each for FUZZTIME (default 60s).
#
#   fuzz.sh [PACKAGE...]    default ./...
#
# A crash leaves its input in the package's testdata/fuzz, where every later
# go test runs it: fix the defect and check the file in with the fix.
set -euo pipefail

time=${FUZZTIME:-60s}
go=${GO:-go}
(($# > 0)) || set -- ./...

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# fuzz PACKAGE TARGET. The go command sometimes takes its own end of time for a
# failure of the target; then it has no failing input to show.
fuzz() {
	"$go" test -run '^$' -fuzz "^$2\$" -fuzzminimizetime=10x -fuzztime "$time" "$1" </dev/null 2>&1 | tee "$log" && return
	grep -q '^ *context deadline exceeded$' "$log" && ! grep -qE 'Failing input|panic|fatal error|DATA RACE|_test\.go:' "$log" &&
		echo "fuzz: $2 only ran out of time"
}

count=0
failed=()
for package in $("$go" list "$@"); do
	list=$("$go" test -list '^Fuzz' "$package")
	for target in $(grep '^Fuzz' <<<"$list" || true); do
		echo "fuzz: $package $target for $time"
		count=$((count + 1))
		fuzz "$package" "$target" || failed+=("$package $target")
	done
done
for f in "${failed[@]}"; do
	echo "fuzz: FAILED: $f" >&2
done
echo "fuzz: $count targets, ${#failed[@]} failed"
((count > 0 && ${#failed[@]} == 0))

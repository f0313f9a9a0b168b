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

count=0
failed=()
for package in $("$go" list "$@"); do
	list=$("$go" test -list '^Fuzz' "$package")
	for target in $(grep '^Fuzz' <<<"$list" || true); do
		echo "fuzz: $package $target for $time"
		count=$((count + 1))
		"$go" test -run '^$' -fuzz "^$target\$" -fuzzminimizetime=10x -fuzztime "$time" "$package" </dev/null || failed+=("$package $target")
	done
done
for f in "${failed[@]}"; do
	echo "fuzz: FAILED: $f" >&2
done
echo "fuzz: $count targets, ${#failed[@]} failed"
((count > 0 && ${#failed[@]} == 0))

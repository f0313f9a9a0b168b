#!/usr/bin/env bash
# Run every fuzz target of the module, each for FUZZTIME (default 60s) on one
# processor: as many at a time as there are processors.
#
#   fuzz.sh [PACKAGE...]    default ./...
#
# A crash leaves its input in the package's testdata/fuzz, where every later
# go test runs it: fix the defect and check the file in with the fix.
set -euo pipefail

go=${GO:-go}

# fuzz PACKAGE TARGET prints the target's log when it ends, and fails if it failed.
# The go command sometimes takes its own end of time for a failure of the target;
# then it has no failing input to show.
fuzz() {
	local log
	log=$(mktemp)
	trap "rm -f '$log'" EXIT
	if "$go" test -run '^$' -fuzz "^$2\$" -parallel 1 -fuzzminimizetime=10x -fuzztime "${FUZZTIME:-60s}" "$1" </dev/null >"$log" 2>&1; then
		echo "fuzz: ok: $1 $2: $(grep -E '^fuzz: elapsed' "$log" | tail -n 1 | cut -d' ' -f3-)"
	elif grep -q '^ *context deadline exceeded$' "$log" && ! grep -qE 'Failing input|panic|fatal error|DATA RACE|_test\.go:' "$log"; then
		echo "fuzz: ok: $1 $2: it only ran out of time"
	else
		cat "$log"
		echo "fuzz: FAILED: $1 $2" >&2
		return 1
	fi
}

if [[ ${1:-} == --target ]]; then
	fuzz "$2" "$3"
	exit
fi
(($# > 0)) || set -- ./...

targets=$(for package in $("$go" list "$@"); do
	# A package without tests has no list.
	"$go" test -list '^Fuzz' "$package" | awk -v p="$package" '/^Fuzz/ { print p, $1 }'
done)
[[ -n $targets ]] || { echo 'fuzz: no targets' >&2; exit 1; }
echo "fuzz: $(wc -l <<<"$targets") targets, each for ${FUZZTIME:-60s}"
xargs -P "$(nproc)" -L 1 "${BASH_SOURCE[0]}" --target <<<"$targets"

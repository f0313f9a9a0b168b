#!/usr/bin/env bash
# Install the programs of a directory's package.json in the user's cache directory,
# unless they are there already, and print the directory that they are in.
#
#   npm.sh DIRECTORY    of e2e
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/$1" && pwd)
dir=${XDG_CACHE_HOME:-${HOME:?}/.cache}/corral-e2e/$1
log=$dir/install.log

mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9

# The copy beside node_modules is written last: it says what is installed.
if ! cmp -s "$here/package.json" "$dir/installed.json"; then
	rm -rf "$dir/installed.json" "$dir/node_modules" "$dir/package-lock.json"
	cp "$here/package.json" "$dir/package.json"
	if ! npm --prefix "$dir" install --no-audit --no-fund </dev/null >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		echo "install: npm could not install the programs of e2e/$1/package.json" >&2
		exit 1
	fi
	cp "$here/package.json" "$dir/installed.json"
fi
echo "$dir/node_modules"

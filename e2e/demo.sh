#!/usr/bin/env bash
# A short tour of Corral on real input, in a real container. Run it by
# `make demo`, which builds the program and gets an engine and an image first.
# Commands for the shells of the gateway and the sandbox are in single quotes.
# shellcheck disable=SC2016
set -euo pipefail
cd "$(dirname "$0")/.."

corral=$PWD/bin/corral
scratch=$(mktemp -d "${TMPDIR:-/tmp}/corral-demo-XXXXXX")
export CORRAL_STATE_DIR=$scratch/state XDG_CONFIG_HOME=$scratch/config
work=$scratch/work
mkdir "$work"

clean_up() {
	"$corral" sandbox rm default >/dev/null 2>&1 || true # it may never have been made
	rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

step=0
title() {
	step=$((step + 1))
	printf '\n%d. %s\n' "$step" "$*"
}
# show prints a command as one would type it, runs it, and says how it ended if
# that is of interest.
show() {
	local code=0
	local word line=corral
	for word in "$@"; do
		[[ $word =~ ^[A-Za-z0-9_./=:-]+$ ]] || word="'${word//\'/\'\\\'\'}'"
		line+=" $word"
	done
	printf '   $ %s\n' "$line"
	"$corral" "$@" 2>&1 | sed 's/^/   | /' || code=${PIPESTATUS[0]}
	((code == ${want:-0})) || { printf 'demo: exit code %d, expected %d\n' "$code" "${want:-0}" >&2; exit 1; }
	if ((code)); then printf '   exit code %d\n' "$code"; fi
}
sandbox=(exec --host sandbox)
export CORRAL_WORKSPACE=$work CORRAL_WORKSPACE_ACCESS=rw

# Real input: the sizes of this repository's sources.
wc -l ./*.go | sort -n >"$work/lines.txt"
chown -R 1000:1000 "$work"

title 'The same command on this machine and in the sandbox'
show exec --quiet --host gateway 'uname -n; id -un'
show "${sandbox[@]}" 'uname -n; id -un; echo "PID 1 is $(tr "\0" " " </proc/1/cmdline)"'

title 'PATH outside, and inside after the login profile has set it'
show exec --quiet --host gateway --path-prepend /opt/tools/bin 'echo "$PATH" | tr : "\n" | head -4'
show "${sandbox[@]}" --path-prepend /opt/tools/bin 'echo "$PATH" | tr : "\n" | head -4'

title 'Python on files of the workspace; what it writes is there afterwards'
show "${sandbox[@]}" 'python3 -c "print(sum(int(l.split()[0]) for l in open(\"lines.txt\") if \".go\" in l))" | tee answer.txt'
printf '   answer.txt here says %s; its owner is user %s\n' "$(cat "$work/answer.txt")" "$(stat -c %u "$work/answer.txt")"

title 'What the sandbox does not let it do'
show "${sandbox[@]}" 'touch /etc/x 2>&1; cat /etc/shadow 2>&1; ls /sys/class/net; grep -E "^(CapEff|NoNewPrivs|Seccomp):" /proc/self/status'

title 'Output and exit code are those of the command'
want=3 show "${sandbox[@]}" 'echo to stdout; echo to stderr >&2; exit 3'

title 'A runaway with children that hide from their parent, ended after a second'
want=124 show "${sandbox[@]}" --timeout 1s 'setsid sh -c "while :; do :; done" & (trap "" TERM; nohup sleep 1000) & echo started; wait'
show "${sandbox[@]}" 'echo "of what it started, $(pgrep -fc "sleep 100[0]|while [:]") processes are left"'

title 'What one command costs, once the sandbox is there'
begin=$(date +%s%N)
for _ in $(seq 20); do "$corral" "${sandbox[@]}" true; done
printf '   20 times corral exec: %d ms each, most of it starting corral itself\n' $((($(date +%s%N) - begin) / 20000000))

printf '\nThat was a real container:\n'
show sandbox ls

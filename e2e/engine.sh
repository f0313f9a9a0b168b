#!/usr/bin/env bash
# Container engines for the demo and the tests.
#
#   engine.sh start        make sure that a Docker engine answers, and print its
#                          address
#   engine.sh run CMD...   the same, then run CMD with it: DOCKER_HOST is set
#                          unless it is at the usual socket
#   engine.sh status       print the address of the one that would be used
#   engine.sh containerd   make sure that a containerd answers, and print its
#                          address
#   engine.sh stop         stop those that were started; data is kept
#
# An engine that already answers (DOCKER_HOST, the usual socket) and knows the
# runtimes runsc and runsc-uds (gVisor) is used as it is. Otherwise a dockerd of our own is
# started: its data, sockets, pid file and configuration are in directories of
# our own, so an engine that is there already is neither changed nor restarted,
# and /etc/docker is not touched. It is left running for the next time. The same
# is so of containerd (CONTAINERD_ADDRESS, the usual socket).
set -euo pipefail

run_dir=${CORRAL_ENGINE_RUN:-/run/corral-engine}
data_dir=${CORRAL_ENGINE_DATA:-/var/lib/corral-engine}
usual_socket=unix:///var/run/docker.sock
our_socket=unix://$run_dir/docker.sock
pid_file=$run_dir/dockerd.pid
log_file=$run_dir/dockerd.log
usual_containerd=/run/containerd/containerd.sock
our_containerd=$run_dir/containerd.sock
containerd_pid_file=$run_dir/containerd.pid
containerd_log=$run_dir/containerd.log
alone=() # what dockerd is started by
start_seconds=90 # dockerd itself gives up on containerd after 60

# A root shell opened by plain su has no sbin on its PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { echo "engine: $*" >&2; }
die() {
	say "$@"
	exit 1
}

# runtimes ADDRESS: the engine's runtimes on one line; fails if none answers.
runtimes() {
	# shellcheck disable=SC2016 # the dollars are the template's
	timeout 10 docker -H "$1" info --format '{{range $name, $_ := .Runtimes}}{{$name}} {{end}}' 2>/dev/null
}

# fit ADDRESS: an engine answers there and has all that we need.
fit() {
	local names
	names=$(runtimes "$1") && [[ " $names" == *" runsc "* && " $names" == *" runsc-uds "* ]]
}

# alive FILE: FILE holds the pid of a process that was started for run_dir. A
# number alone is not enough: after a crash or a reboot it may be another's.
alive() {
	local pid
	pid=$(cat "$1" 2>/dev/null) && [[ $pid ]] &&
		tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF -- "$run_dir/"
}

# find_engine: print the address of an engine to use, or fail if there is none.
find_engine() {
	command -v docker >/dev/null || return
	local host
	for host in "${DOCKER_HOST:-$usual_socket}" "$our_socket"; do
		if fit "$host"; then
			echo "$host"
			return
		fi
	done
	return 1
}

# free_socket: whether the usual socket is ours to serve: nobody answers there,
# and nobody is about to (a dockerd that is still starting, a service of the
# init system that is stopped for now).
free_socket() {
	[[ -z ${DOCKER_HOST:-} && ! -d /run/systemd/system ]] || return
	local deadline=$((SECONDS + 30))
	while ((SECONDS < deadline)); do
		! runtimes "$usual_socket" >/dev/null || return 1
		pgrep -x dockerd >/dev/null || return 0
		sleep 0.2
	done
	return 1
}

# launch ARG...: start dockerd with these further arguments and wait for it.
launch() {
	alive "$pid_file" || rm -f "$pid_file" # dockerd would take it for a running one
	setsid ${alone[@]+"${alone[@]}"} dockerd --config-file "$run_dir/daemon.json" \
		--data-root "$data_dir" --exec-root "$run_dir/exec" --pidfile "$pid_file" \
		--containerd "$our_containerd" --containerd-namespace docker --containerd-plugins-namespace docker-plugins \
		-H "$our_socket" "$@" </dev/null >"$log_file" 2>&1 9>&- &
	local pid=$! deadline=$((SECONDS + start_seconds))
	while kill -0 "$pid" 2>/dev/null; do
		if fit "$our_socket"; then
			disown "$pid"
			return
		fi
		if ((SECONDS >= deadline)); then
			say "dockerd does not answer after ${start_seconds} s; ending it"
			kill "$pid" || true
			break
		fi
		sleep 0.1
	done
	wait "$pid" || true
	return 1
}

give_up() {
	say "dockerd did not start; the end of $log_file:"
	tail -n 15 "$log_file" >&2
	exit 1
}

# write_config: runsc-uds lets a sandbox dial the socket that Corral mounts into it.
write_config() {
	printf '{"runtimes":{"runsc":{"path":"%s","runtimeArgs":["--network=none"]},"runsc-uds":{"path":"%s","runtimeArgs":["--network=none","--host-uds=open"]}}}\n' \
		"$(command -v runsc)" "$(command -v runsc)" >"$run_dir/daemon.json"
}

# Its containerd is ours: one that dockerd starts itself it also kills, with all
# that tests do meanwhile, when the machine stood still for two seconds.
#
# With the machine to itself the engine serves the usual socket too, so that
# docker and corral find it without a setting, and has a network for the
# containers. Beside another engine it has none of both, and is in a network namespace of
# its own: a dockerd without a bridge removes docker0, which would be the other's.
start_engine() {
	local no_network=(--bridge=none --iptables=false --ip-forward=false --ip-masq=false)
	((EUID == 0)) || die "no engine with the runtimes runsc and runsc-uds answers, and starting one takes root: run this as root, or set DOCKER_HOST to such an engine"
	command -v dockerd >/dev/null || die "dockerd is not installed (Debian: apt-get install docker.io)"
	command -v runsc >/dev/null || die "runsc (gVisor) is not installed (Debian: apt-get install runsc)"
	write_config
	if alive "$pid_file"; then # one that was started without a runtime that is needed by now
		kill -HUP "$(cat "$pid_file")"
		local i
		for ((i = 0; i < 50; i++)); do
			! find_engine >/dev/null || return 0
			sleep 0.1
		done
	fi
	containerd_answers "$our_containerd" || start_containerd
	if free_socket; then
		say "starting dockerd on ${usual_socket#unix://} (log: $log_file)"
		launch -H "$usual_socket" && return
		grep -qiE 'iptables|bridge|network controller' "$log_file" || give_up
		say "this machine has no network for containers; starting dockerd without"
		launch -H "$usual_socket" "${no_network[@]}" || give_up
	else
		say "the engine that is there has no runtime runsc and runsc-uds or does not answer"
		say "starting a second dockerd on ${our_socket#unix://} (log: $log_file)"
		alone=(unshare --net)
		launch "${no_network[@]}" || give_up
	fi
}

# ensure: print the address of an engine to use, starting one if need be.
ensure() {
	if [[ ${DOCKER_HOST:-} ]] && ! runtimes "$DOCKER_HOST" >/dev/null; then
		die "no engine answers at DOCKER_HOST=$DOCKER_HOST; start it or unset DOCKER_HOST"
	fi
	find_engine && return
	((EUID != 0)) || mkdir -p "$run_dir"
	if [[ -w $run_dir ]]; then
		exec 9>"$run_dir/lock"
		flock 9
		find_engine && return # another one of us was faster
	fi
	start_engine
	find_engine || die "the engine was started and does not answer any more; see $log_file"
}

# containerd_answers ADDRESS
containerd_answers() {
	[[ -S $1 ]] && timeout 10 ctr --address "$1" version >/dev/null 2>&1
}

# find_containerd: print the address of a containerd to use, or fail.
find_containerd() {
	command -v ctr >/dev/null || return
	local address
	for address in "${CONTAINERD_ADDRESS:-$usual_containerd}" "$our_containerd"; do
		if containerd_answers "$address"; then
			echo "$address"
			return
		fi
	done
	return 1
}

# start_containerd: one that has nothing but what sandboxes need.
start_containerd() {
	((EUID == 0)) || die "no containerd answers, and starting one takes root: run this as root"
	command -v containerd >/dev/null || die "containerd is not installed (Debian: apt-get install containerd)"
	local plugins="" name
	for name in grpc.v1.cri snapshotter.v1.aufs snapshotter.v1.btrfs snapshotter.v1.devmapper snapshotter.v1.zfs; do
		plugins+="${plugins:+, }\"io.containerd.$name\""
	done
	cat >"$run_dir/containerd.toml" <<-EOF
		version = 2
		root = "$data_dir/containerd"
		state = "$run_dir/containerd"
		disabled_plugins = [$plugins]
		[grpc]
		address = "$our_containerd"
		[plugins."io.containerd.internal.v1.opt"]
		path = "$data_dir/containerd-opt"
	EOF
	say "starting containerd on $our_containerd (log: $containerd_log)"
	setsid containerd --config "$run_dir/containerd.toml" </dev/null >"$containerd_log" 2>&1 9>&- &
	local pid=$! deadline=$((SECONDS + start_seconds))
	echo "$pid" >"$containerd_pid_file"
	while kill -0 "$pid" 2>/dev/null; do
		if containerd_answers "$our_containerd"; then
			disown "$pid"
			return
		fi
		if ((SECONDS >= deadline)); then
			kill "$pid" || true
			break
		fi
		sleep 0.1
	done
	wait "$pid" || true
	say "containerd did not start; the end of $containerd_log:"
	tail -n 15 "$containerd_log" >&2
	exit 1
}

# ensure_containerd: print the address of one to use, starting it if need be.
ensure_containerd() {
	find_containerd && return
	((EUID != 0)) || mkdir -p "$run_dir"
	if [[ -w $run_dir ]]; then
		exec 9>"$run_dir/lock"
		flock 9
		find_containerd && return # another one of us was faster
	fi
	start_containerd
	find_containerd || die "containerd was started and does not answer any more; see $containerd_log"
}

# end NAME PID_FILE: end the daemon that was started by us; fails if none was.
end() {
	alive "$2" || return
	local pid i
	pid=$(cat "$2")
	kill "$pid"
	for ((i = 0; i < 300; i++)); do
		if ! kill -0 "$pid" 2>/dev/null; then
			say "stopped $1; its images are kept in $data_dir"
			return
		fi
		sleep 0.1
	done
	die "$1 (pid $pid) does not end; see its log in $run_dir"
}

# end_tasks: what runs under our containerd would outlive it.
end_tasks() {
	alive "$containerd_pid_file" || return 0
	local space task
	for space in $(ctr --address "$our_containerd" namespaces ls -q); do
		for task in $(ctr --address "$our_containerd" -n "$space" tasks ls -q); do
			ctr --address "$our_containerd" -n "$space" tasks rm -f "$task" >/dev/null 2>&1 || true
		done
	done
}

stop() {
	local ended=
	! end dockerd "$pid_file" || ended=1
	end_tasks
	! end containerd "$containerd_pid_file" || ended=1
	if [[ $ended ]]; then
		rm -rf --one-file-system "$run_dir"
	else
		say "none was started by us"
	fi
}

case ${1:-} in
start) ensure ;;
run)
	shift
	(($# > 0)) || die "run needs a command"
	host=$(ensure)
	[[ $host == "$usual_socket" ]] || export DOCKER_HOST=$host
	exec "$@"
	;;
containerd) ensure_containerd ;;
status) find_engine || die "none with the runtimes runsc and runsc-uds answers" ;;
stop) stop ;;
*) die "usage: $0 start | run CMD... | status | containerd | stop" ;;
esac

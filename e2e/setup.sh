#!/usr/bin/env bash
# Install what the demo and the tests need and is missing, on Debian, as root.
#
#   setup.sh demo | test | bench
#
# Does nothing, in well under a second, when all of it is there. Elsewhere, or
# as another user, it says what to install.
set -euo pipefail

# A root shell opened by plain su has no sbin on its PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# PROGRAM:PACKAGE[+PACKAGE...]
demo=(
	docker:docker.io dockerd:docker.io iptables:iptables # an engine
	runsc:runsc                                          # gVisor, the second container runtime
	mmdebstrap:mmdebstrap                                # images of Debian
	busybox:busybox-static                               # the smallest image
	pgrep:procps
)
test=(
	"${demo[@]}"
	containerd:containerd ctr:containerd # an engine without Docker
	podman:podman                        # and one with Docker's API
	gcc:gcc+libc6-dev                    # the race detector
	dash:dash         # a shell whose behaviour is compared
	tmux:tmux         # key names are compared with tmux's; it shows what programs draw
	node:nodejs       # the client in TypeScript, and other people's MCP programs
	npm:npm
	chromium-headless-shell:chromium-headless-shell+fonts-dejavu-core # the console is looked at in it
	/usr/bin/vim:vim # programs that are driven on terminals, also in an image made of them
	/usr/bin/htop:htop
	/usr/bin/python3:python3
	mypy:mypy # the types of the client in Python
	/usr/bin/ssh-keygen:openssh-client
	/usr/sbin/sshd:openssh-server
	openssl:openssl         # what the gateway speaks over TLS, by another program than Go
	nats-server:nats-server # a message server of somebody else's
	ip:iproute2             # network namespaces, as hosts of a network
	newuidmap:uidmap        # engines of users
	rootlesskit:rootlesskit
	useradd:passwd
)
bench=(
	"${demo[@]}"
	containerd:containerd ctr:containerd # what a pool is compared with, beside Docker
	/usr/bin/ssh:openssh-client # what output of nodes is compared with
	/usr/sbin/sshd:openssh-server
)

say() { echo "setup: $*" >&2; }
die() {
	say "$@"
	exit 1
}

# An engine that already serves us needs no second one installed.
have() {
	case $1 in
	dockerd | iptables | runsc) command -v "$1" >/dev/null || engine_answers ;;
	# The one in an image must not need libraries.
	busybox) command -v busybox >/dev/null && ! ldd "$(command -v busybox)" >/dev/null 2>&1 ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

engine_answers() { "${BASH_SOURCE[0]%/*}/engine.sh" status >/dev/null 2>&1; }

install_packages() {
	local packages=("$@") log
	if ! command -v apt-get >/dev/null; then
		die "install the programs of these Debian packages: ${packages[*]}"
	fi
	if ((EUID != 0)); then
		die "missing; run: sudo apt-get install --no-install-recommends ${packages[*]}"
	fi
	say "installing ${packages[*]}"
	log=$(mktemp)
	trap 'rm -f "$log"' RETURN
	# RUNLEVEL: daemons are not started.
	export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
	local apt=(apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120)
	# A source that cannot be reached is only a warning here: the packages
	# may come from another.
	if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${packages[@]}"; } </dev/null >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		die "apt-get could not install ${packages[*]}"
	fi
}

case ${1:-} in
demo) wanted=("${demo[@]}") ;;
test) wanted=("${test[@]}") ;;
bench) wanted=("${bench[@]}") ;;
*) die "usage: $0 demo | test | bench" ;;
esac

missing=()
for entry in "${wanted[@]}"; do
	if ! have "${entry%%:*}"; then
		IFS=+ read -ra packages <<<"${entry#*:}"
		missing+=("${packages[@]}")
	fi
done
if ((${#missing[@]} > 0)); then
	mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
	install_packages "${missing[@]}"
fi

if [[ $1 == test ]]; then
	"${BASH_SOURCE[0]%/*}/npm.sh" mcp >/dev/null
	"${BASH_SOURCE[0]%/*}/npm.sh" clients >/dev/null
	if [[ ! -d ${BASH_SOURCE[0]%/*}/console/node_modules ]]; then
		npm --prefix "${BASH_SOURCE[0]%/*}/console" ci --silent --no-audit --no-fund --ignore-scripts
	fi
fi

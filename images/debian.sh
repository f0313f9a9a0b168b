# Makes a Debian root file system in $ROOT, as root, in a mount and PID
# namespace of its own: what is mounted or started here ends with this script.
#
# SUITE     the release, such as bookworm
# MIRROR    where to fetch it; empty: debootstrap's default
# SOURCES   lines of sources.list; empty: the release, its updates and its
#           security updates, from the mirror and the place next to it
# PACKAGES  to be installed
set -eu
umask 022

say() { echo "I: $*"; }

mount -t proc proc /proc

# What apt is configured to fetch through, debootstrap fetches through too.
if [ -z "${http_proxy:-}" ]; then
	eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
	if [ "${http_proxy:-}" = DIRECT ]; then http_proxy=; fi
	export http_proxy
fi
acquire=$(apt-config dump Acquire)

# Neither the base nor a package starts a service: this is not a machine, and
# /proc/sys is that of the machine it is built on.
mkdir -p "$ROOT/usr/sbin" "$ROOT/etc/dpkg/dpkg.cfg.d"
printf '#!/bin/sh\nexit 101\n' >"$ROOT/usr/sbin/policy-rc.d"
chmod 755 "$ROOT/usr/sbin/policy-rc.d"

# Kept in the image, for those who build on it.
cat >"$ROOT/etc/dpkg/dpkg.cfg.d/slim" <<-'END'
	path-exclude=/usr/share/doc/*
	path-include=/usr/share/doc/*/copyright
	path-exclude=/usr/share/info/*
	path-exclude=/usr/share/lintian/*
	path-exclude=/usr/share/locale/*
	path-exclude=/usr/share/man/*
END
# Syncing each file to disk is for systems that must survive a power cut.
echo force-unsafe-io >"$ROOT/etc/dpkg/dpkg.cfg.d/build"

debootstrap --force-check-gpg --variant=minbase "$SUITE" "$ROOT" $MIRROR

# The machine's apt fetches, with the network as the machine sees it; only
# dpkg and the packages' scripts run inside.
if [ -z "$SOURCES" ]; then
	mirror=$(awk '$1 == "deb" { print $2; exit }' "$ROOT/etc/apt/sources.list")
	SOURCES="deb $mirror $SUITE main
deb $mirror $SUITE-updates main
deb ${mirror%/}-security $SUITE-security main"
fi
printf '%s\n' "$SOURCES" >"$ROOT/etc/apt/sources.list"
cat >"$CONFIG" <<-END
	$acquire
	Acquire::Languages "none";
	Acquire::Retries "3";
	APT::Architecture "$(dpkg --print-architecture)";
	APT::Install-Recommends "false";
	Dir "$ROOT";
	DPkg::Chroot-Directory "$ROOT";
	Dpkg::Use-Pty "false";
END
export APT_CONFIG="$CONFIG"
mount -t proc proc "$ROOT/proc"
say "Reading the lists of packages"
apt-get -q -y update
say "Installing security updates"
apt-get -q -y dist-upgrade
say "Installing $PACKAGES"
apt-get -q -y install $PACKAGES
umount "$ROOT/proc"

rm "$ROOT/etc/dpkg/dpkg.cfg.d/build"
# Debian ships these as copies; git itself installs them as links.
for program in git git-shell scalar; do
	if cmp -s "$ROOT/usr/bin/$program" "$ROOT/usr/lib/git-core/$program"; then
		ln -f "$ROOT/usr/bin/$program" "$ROOT/usr/lib/git-core/$program"
	fi
done

# The mirror without the password that it may need here.
sed -i 's#://[^/@]*@#://#' "$ROOT/etc/apt/sources.list"

# What debootstrap copied from this machine.
echo localhost >"$ROOT/etc/hostname"
printf '127.0.0.1 localhost\n::1 localhost ip6-localhost\n' >"$ROOT/etc/hosts"
echo >"$ROOT/etc/resolv.conf"

# A name for the usual user, which nothing needs: sandboxes run as any.
echo 'agent:x:1000:1000:agent:/workspace:/bin/bash' >>"$ROOT/etc/passwd"
echo 'agent:x:1000:' >>"$ROOT/etc/group"
echo 'agent:!:' >>"$ROOT/etc/gshadow"
echo 'agent:!::0:99999:7:::' >>"$ROOT/etc/shadow"
# The third field is the day of the build.
awk 'BEGIN { FS = OFS = ":" } { $3 = ""; print }' "$ROOT/etc/shadow" >"$ROOT/etc/shadow-"
cat "$ROOT/etc/shadow-" >"$ROOT/etc/shadow"
mkdir -m 1777 "$ROOT/workspace"

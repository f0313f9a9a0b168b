# Makes a Debian root file system in $ROOT, as root, in a mount and PID
# namespace of its own: what is mounted or started here ends with this script.
#
# SUITE     the release, such as bookworm
# KEYRING   whose keys the archives are signed with
# SOURCES   lines of sources.list; empty: mmdebstrap's default
# PACKAGES  to be installed, beside the essential ones and apt
# PINS      preferences of apt: a file, which may be empty
# CONFIG    a file for the configuration of apt
# SLIM      a file for that of dpkg
set -eu
umask 022

mount -t proc proc /proc

# The machine's apt fetches, as it is configured to; only dpkg and the
# packages' scripts run inside.
apt-config dump Acquire | grep -v '^Acquire::IndexTargets' >"$CONFIG"
cat >>"$CONFIG" <<-'END'
	Acquire::GzipIndexes "false";
	Acquire::Languages "none";
	Acquire::Retries "3";
	APT::Install-Recommends "false";
	DPkg::Use-Pty "false";
END

# Kept in the image, for those who build on it.
cat >"$SLIM" <<-'END'
	path-exclude=/usr/share/doc/*
	path-include=/usr/share/doc/*/copyright
	path-exclude=/usr/share/info/*
	path-exclude=/usr/share/lintian/*
	path-exclude=/usr/share/locale/*
	path-exclude=/usr/share/man/*
END
# Syncing each file to disk is for systems that must survive a power cut.
{
	cat "$SLIM"
	echo force-unsafe-io
} >"$SLIM.build"

set -- --mode=root --variant=apt --format=directory --keyring="$KEYRING" \
	--include="$PACKAGES" --aptopt="$CONFIG" --dpkgopt="$SLIM.build" \
	--setup-hook='mkdir -p "$1/etc/apt/preferences.d" && cp "$PINS" "$1/etc/apt/preferences.d/corral"' \
	--skip=cleanup/apt/lists "$SUITE" "$ROOT"
if [ -n "$SOURCES" ]; then
	printf '%s\n' "$SOURCES" | mmdebstrap "$@" -
else
	mmdebstrap "$@"
fi

rm "$ROOT/etc/dpkg/dpkg.cfg.d/99mmdebstrap"
cp "$SLIM" "$ROOT/etc/dpkg/dpkg.cfg.d/slim"
# Without these directories the packages of Java and of PostgreSQL's clients cannot be
# installed: they link manuals that were left out.
for section in 1 2 3 4 5 6 7 8; do
	mkdir -p "$ROOT/usr/share/man/man$section"
done
# Debian ships these as copies; git itself installs them as links.
for program in git git-shell scalar; do
	if cmp -s "$ROOT/usr/bin/$program" "$ROOT/usr/lib/git-core/$program"; then
		ln -f "$ROOT/usr/bin/$program" "$ROOT/usr/lib/git-core/$program"
	fi
done

# The mirror without the password that it may need here.
for list in "$ROOT/etc/apt/sources.list" "$ROOT"/etc/apt/sources.list.d/*; do
	[ ! -f "$list" ] || sed -i 's#://[^/@]*@#://#' "$list"
done

# No package that is installed later starts a service: this is not a machine.
printf '#!/bin/sh\nexit 101\n' >"$ROOT/usr/sbin/policy-rc.d"
chmod 755 "$ROOT/usr/sbin/policy-rc.d"

# These may have been copied from this machine.
rm -f "$ROOT/etc/hostname" "$ROOT/etc/hosts" "$ROOT/etc/resolv.conf"
echo localhost >"$ROOT/etc/hostname"
printf '127.0.0.1 localhost\n::1 localhost ip6-localhost\n' >"$ROOT/etc/hosts"
echo >"$ROOT/etc/resolv.conf"
echo LANG=C.UTF-8 >"$ROOT/etc/default/locale"
# One file in place of thirteen small ones: a shell starts 0.4 ms sooner, of 2.5.
chroot "$ROOT" localedef --add-to-archive /usr/lib/locale/C.utf8 >&2

# Debian's other build of the same bash, which links to no library: it starts in
# two thirds of the time. Upgrades of the package bash go beside it.
chroot "$ROOT" dpkg-divert --quiet --local --no-rename --divert /bin/bash.dynamic --add /bin/bash >&2
mv "$ROOT/bin/bash" "$ROOT/bin/bash.dynamic"
ln -s bash-static "$ROOT/bin/bash"

# Debian's profile starts id(1) twice, which costs more than the rest of a login
# shell. Who root is, the owner of the profile tells as well.
sed -i 's|\[ "$(id -u)" -eq 0 \]|[ -O /etc/profile ]|' "$ROOT/etc/profile"
if grep -F -e '$(' -e '`' "$ROOT/etc/profile"; then
	echo "Debian's /etc/profile starts programs in a way that this build does not know" >&2
	exit 1
fi

# A name for the usual user; sandboxes run as any.
echo 'agent:x:1000:1000:agent:/workspace:/bin/bash' >>"$ROOT/etc/passwd"
echo 'agent:x:1000:' >>"$ROOT/etc/group"
echo 'agent:!:' >>"$ROOT/etc/gshadow"
echo 'agent:!::0:99999:7:::' >>"$ROOT/etc/shadow"
# The third field is the day of the build.
awk 'BEGIN { FS = OFS = ":" } { $3 = ""; print }' "$ROOT/etc/shadow" >"$ROOT/etc/shadow-"
cat "$ROOT/etc/shadow-" >"$ROOT/etc/shadow"
mkdir -m 1777 "$ROOT/workspace"

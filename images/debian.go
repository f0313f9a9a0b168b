package images

import (
	_ "embed"
	"strings"
)

// debianScript installs the packages; debian_linux.go says what it is given.
//
//go:embed debian.sh
var debianScript string

// debianContent is what the default image is made from.
var debianContent = struct {
	Suite    string
	Packages []string // beside those that Debian calls essential, and apt
	Script   string
	Prune    pruning
}{
	Suite: "bookworm",
	Packages: strings.Fields(`
		bash ca-certificates coreutils curl diffutils file findutils git gzip
		jq less patch procps python3 ripgrep sed tar unzip xz-utils`),
	Script: debianScript,
	Prune:  debianPrune,
}

// debianPrune leaves out what a sandbox has no use for, and all that differs
// from one build to the next without being a package's: caches, logs, backups,
// identities of this machine.
var debianPrune = pruning{
	Drop: []string{
		// Engines mount over these.
		"dev/*", "proc/*", "run/*", "sys/*", "tmp/*", "var/tmp/*",

		"etc/*-", "etc/.pwd.lock", "etc/machine-id", "etc/ssh/ssh_host_*",
		"var/cache/apt/*", "var/cache/debconf/*-old", "var/cache/ldconfig/*", "var/cache/man/*",
		"var/lib/apt/lists/*", "var/lib/dbus/machine-id", "var/lib/dpkg/*-old", "var/lib/dpkg/lock*",
		"var/lib/systemd/*", "var/log/*",

		"usr/share/doc/*", "usr/share/doc-base/*", "usr/share/info/*", "usr/share/lintian/*",
		"usr/share/locale/*", "usr/share/man/*",
		"usr/lib/locale/*",

		// Large and for other purposes: headers to build perl modules in C,
		// git's servers and its mailer.
		"usr/lib/*/perl/*/CORE/*.h",
		"usr/lib/git-core/git-daemon", "usr/lib/git-core/git-http-backend",
		"usr/lib/git-core/git-http-push", "usr/lib/git-core/git-imap-send",
	},
	Keep: []string{
		"usr/lib/locale/C.utf8",
		// Licences require their text to go with the program.
		"usr/share/doc/*/copyright",
	},
}

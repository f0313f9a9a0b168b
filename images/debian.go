package images

import (
	"context"
	_ "embed"
	"strings"
)

// debianScript installs the packages; debian_linux.go says what it is given.
//
//go:embed debian.sh
var debianScript string

// suite is the release of Debian.
const suite = "bookworm"

// A debianContent is what an image is made from, beside the packages that
// Debian calls essential, and apt.
type debianContent struct {
	Suite    string
	Packages []string
	Script   string
	Prune    pruning
}

// Packages of the images. What an image needs for itself is in all of them.
var (
	always = strings.Fields(`bash-static ca-certificates passwd procps tzdata`)
	daily  = strings.Fields(`
		bash coreutils curl diffutils file findutils git gzip iproute2 jq less patch
		python3 ripgrep sed sudo tar unzip xz-utils`)
	compilers = strings.Fields(`
		build-essential cmake golang-go nodejs npm pkg-config python3-dev
		python3-pip python3-venv`)
	notebook = strings.Fields(`
		fonts-dejavu-core nodejs python3-ipykernel python3-jupyter-client python3-matplotlib python3-pandas`)
)

// debian is the recipe of an image of Debian's packages.
func debian(name, title string, packages ...string) recipe {
	return recipe{
		name: name, title: title, user: "1000:1000",
		path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", shell: "/bin/bash",
		content: debianContent{Suite: suite, Packages: append(append([]string(nil), always...), packages...), Script: debianScript, Prune: debianPrune},
		check:   func() error { return checkDebian(name) },
		build: func(ctx context.Context, b building, report Progress) (rootfs, error) {
			return buildDebian(ctx, b, report)
		},
	}
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

		// How this machine fetches, and what it was told to.
		"etc/apt/apt.conf.d/99mmdebstrap", "etc/apt/preferences.d/corral",

		"usr/share/doc/*", "usr/share/doc-base/*", "usr/share/info/*", "usr/share/lintian/*",
		"usr/share/locale/*", "usr/share/man/*/*",
		"usr/lib/locale/*",

		// Large and for other purposes: headers to build perl modules in C,
		// git's servers and its mailer.
		"usr/lib/*/perl/*/CORE/*.h",
		"usr/lib/git-core/git-daemon", "usr/lib/git-core/git-http-backend",
		"usr/lib/git-core/git-http-push", "usr/lib/git-core/git-imap-send",
	},
	Keep: []string{
		"usr/lib/locale/C.utf8", "usr/lib/locale/locale-archive",
		// Licences require their text to go with the program.
		"usr/share/doc/*/copyright",
	},
}

package sandbox

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/corral-exec/corral"
)

// Directories that are never mounted: what is in them is the machine's, and an
// engine's socket among it is root's power. After OpenClaw's list.
var (
	blockedTrees = []string{"/etc", "/proc", "/sys", "/dev", "/boot", "/run", "/var/run", "/private/etc", "/private/var/run", "/var/lib/docker", "/var/lib/containerd"}
	blockedHome  = []string{".aws", ".azure", ".cargo", ".config", ".docker", ".gnupg", ".kube", ".netrc", ".npm", ".ssh"}
)

// checkSource refuses to mount a directory, which has no symbolic links in it,
// that is or holds something a sandbox must not see.
func checkSource(dir string) error {
	refuse := func(what string) error {
		return corral.Errorf(corral.ErrDenied, "use a directory made for the work, such as a checkout", "cannot mount %s into a sandbox: %s", dir, what)
	}
	if dir == "/" {
		return refuse("it is the whole machine")
	}
	for _, tree := range blockedTrees {
		if under(dir, tree) {
			return refuse("it is in " + tree)
		}
		if under(tree, dir) && dir != "/var" && dir != "/private" {
			return refuse("it holds " + tree)
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil // without a home there is nothing in it
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	for _, name := range blockedHome {
		if secret := filepath.Join(home, name); under(dir, secret) {
			return refuse("it is in " + secret)
		}
	}
	if dir == home {
		return refuse("it is the home directory, which holds credentials")
	}
	return nil
}

// under reports whether path is tree or in it.
func under(path, tree string) bool {
	return path == tree || strings.HasPrefix(path, strings.TrimSuffix(tree, "/")+"/")
}

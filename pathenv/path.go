package pathenv

import (
	"os"
	"strings"

	"github.com/corral-exec/corral"
)

// ContainerPath is the PATH of a sandbox container when the image sets none.
const ContainerPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// DefaultPath is the minimal PATH of a daemon on the operating system goos (a
// GOOS value), for when it was started without one.
func DefaultPath(goos string) string {
	switch goos {
	case "darwin":
		return "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin"
	case "windows":
		return `C:\Windows\System32;C:\Windows;C:\Windows\System32\WindowsPowerShell\v1.0`
	}
	return "/usr/local/bin:/usr/bin:/bin"
}

// Join makes a PATH of directories, leaving out blank ones.
func Join(dirs []string) string { return join(dirs, string(os.PathListSeparator)) }

// Merge joins lists of directories. Of equal entries the first is kept; blank ones are
// dropped. Entries are not trimmed, since the name of a directory may end in a space.
func Merge(lists ...[]string) []string {
	var merged []string
	seen := make(map[string]bool)
	for _, list := range lists {
		for _, dir := range list {
			if usable(dir) && !seen[dir] {
				seen[dir] = true
				merged = append(merged, dir)
			}
		}
	}
	return merged
}

// PrependDirs reads the configured pathPrepend: entries are trimmed, a leading
// ~ is home, blank and repeated ones are dropped. The error is ErrInvalid for
// an entry that cannot be one directory of a PATH.
func PrependDirs(entries []string, home string) ([]string, error) {
	dirs := make([]string, 0, len(entries))
	for _, entry := range entries {
		dir := strings.TrimSpace(entry)
		if rest, ok := strings.CutPrefix(dir, "~"); ok {
			switch {
			case rest != "" && rest[0] != '/' && !os.IsPathSeparator(rest[0]):
				return nil, corral.Errorf(corral.ErrInvalid, "write the directory out; only ~ and ~/ are expanded", "cannot expand %q in pathPrepend", dir)
			case home == "":
				return nil, corral.Errorf(corral.ErrInvalid, "write the directory out", "cannot expand %q in pathPrepend: the home directory is not known", dir)
			}
			dir = strings.TrimRight(home, "/") + rest
			if dir == "" { // "~" of an account whose home is /
				dir = "/"
			}
		}
		dirs = append(dirs, dir)
	}
	if err := checkDirs(dirs, string(os.PathListSeparator)); err != nil {
		return nil, err
	}
	return Merge(dirs), nil
}

// An Origin says where an entry of PATH comes from.
type Origin string

const (
	OriginPrepend Origin = "pathPrepend" // configured, or asked for beside the call's env
	OriginCall    Origin = "call"        // the call's env.PATH
	OriginConfig  Origin = "config"      // the sandbox's configured env
	OriginLogin   Origin = "login"       // the account's login shell
	OriginDaemon  Origin = "daemon"      // the PATH that the gateway or node itself runs with
	OriginImage   Origin = "image"       // the container's own
)

// A PathEntry is one directory of a PATH.
type PathEntry struct {
	Dir    string `json:"dir"`
	Origin Origin `json:"origin"`
}

// A pathPart is a run of PATH entries of one origin.
type pathPart struct {
	origin Origin
	dirs   []string
}

// mergeParts is Merge that remembers origins.
func mergeParts(parts ...pathPart) []PathEntry {
	var entries []PathEntry
	seen := make(map[string]bool)
	for _, part := range parts {
		for _, dir := range part.dirs {
			if usable(dir) && !seen[dir] {
				seen[dir] = true
				entries = append(entries, PathEntry{dir, part.origin})
			}
		}
	}
	return entries
}

func dirsOf(entries []PathEntry) []string {
	dirs := make([]string, len(entries))
	for i, entry := range entries {
		dirs[i] = entry.Dir
	}
	return dirs
}

// checkDirs reports directories that would not stay one entry of a PATH.
func checkDirs(dirs []string, sep string) error {
	for i, dir := range dirs {
		if strings.Contains(dir, sep) {
			return corral.Errorf(corral.ErrInvalid, "give each directory as an entry of its own", "pathPrepend[%d] is %q: a directory with %q in its name cannot be on PATH", i, dir, sep)
		}
		if strings.IndexByte(dir, 0) >= 0 {
			return corral.Errorf(corral.ErrInvalid, "no file name can hold one", "pathPrepend[%d] is %q: it has a NUL byte", i, dir)
		}
	}
	return nil
}

func split(path, sep string) []string {
	var dirs []string
	for dir := range strings.SplitSeq(path, sep) {
		if dir = strings.TrimSpace(dir); usable(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func join(dirs []string, sep string) string { return strings.Join(Merge(dirs), sep) }

// usable reports whether dir can be an entry: it is not blank and has no NUL.
func usable(dir string) bool {
	return strings.TrimSpace(dir) != "" && strings.IndexByte(dir, 0) < 0
}

func listSeparator(goos string) string {
	if goos == "windows" {
		return ";"
	}
	return ":"
}

// isPath reports whether a shell may treat the variable as PATH: zsh also has PATH in the
// variable path.
func isPath(name string) bool { return strings.EqualFold(name, "PATH") }

// isPathKey reports whether the variable is PATH on goos.
func isPathKey(name, goos string) bool {
	return name == "PATH" || goos == "windows" && isPath(name)
}

// callPath is the PATH in a call's env.
func callPath(call map[string]string, goos string) []string {
	for _, name := range sortedNames(call) {
		if isPathKey(name, goos) {
			return split(call[name], listSeparator(goos))
		}
	}
	return nil
}

// Package place tells which directory of which machine a state directory is, and whether
// programs use it.
//
// A path says which state directory a container belongs to only to who sees the same
// files. Others that use the engine may be in a container, have a /tmp of their own
// (PrivateTmp of systemd), or be on another machine: what is not there for them may well be
// in use. So a container's labels say which directory it is.
package place

import (
	"os"
	"path/filepath"
	"strings"
)

// A Place is a directory of a machine, until that is started anew, and who saw it.
// The zero Place is not known.
type Place struct{ Machine, Boot, Mounts, Inode string }

func (p Place) String() string {
	return strings.Join([]string{p.Machine, p.Boot, p.Mounts, p.Inode}, "/")
}

// Parse reads what String wrote.
func Parse(text string) Place {
	parts := append(strings.SplitN(text, "/", 4), "", "", "")
	return Place{parts[0], parts[1], parts[2], parts[3]}
}

// Sees reports whether a program for which a container's state directory is at
// the place now can tell what became of it. An owner that lives keeps its mount
// namespace, so no other one has its number. If the machine was started anew in
// between, everything that was in use has ended, and inodes may be others.
func (p Place) Sees(now Place, ephemeral bool) bool {
	if p.Boot == now.Boot {
		return p.Inode != "" && p.Inode == now.Inode || ephemeral && p.Mounts != "" && p.Mounts == now.Mounts
	}
	return p.Machine != "" && p.Machine == now.Machine
}

// LockName is the file in an ephemeral state directory that the programs lock which use it.
const LockName = "owner.lock"

// Marked reports whether a directory is an ephemeral state directory: a label alone is not
// reason enough to delete a directory.
func Marked(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, LockName))
	return err == nil && info.Mode().IsRegular()
}

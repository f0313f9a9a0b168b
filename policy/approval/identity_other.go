//go:build !linux && !darwin && !freebsd && !netbsd

package approval

import "io/fs"

// identify returns nothing on this system: files are told apart by size and time.
func identify(fs.FileInfo) Identity { return Identity{} }

//go:build !unix

package files

import "io/fs"

const openNonblock = 0

// ownerOf knows of none: files here have no user and group IDs.
func ownerOf(fs.FileInfo) (uid, gid int) { return -1, -1 }

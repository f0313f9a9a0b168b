//go:build !unix

package session

import "os"

// lock does nothing: that only one gateway uses a state directory is up to its
// user here.
func lock(*os.File) error { return nil }

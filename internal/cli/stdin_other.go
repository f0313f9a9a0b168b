//go:build !linux

package cli

import "os"

// redirected reports whether standard input is a pipe, a socket or a file.
// Whether it was given for this call or is merely inherited cannot be told
// here; --stdin=false leaves an inherited one alone.
func redirected(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}

func pending(*os.File) bool { return false }

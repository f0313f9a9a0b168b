//go:build !linux

package foreground

import "os"

// Redirected reports whether standard input is a pipe, a socket or a file.
// Whether it was given for this call or is merely inherited cannot be told
// here; --stdin=false leaves an inherited one alone.
func Redirected(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}

func Pending(*os.File) bool { return false }

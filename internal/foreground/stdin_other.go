//go:build !linux

package foreground

import "os"

// Redirected reports whether standard input is a pipe, a socket or a file. On this
// system it cannot tell whether the input is inherited; --stdin=false leaves inherited
// input alone.
func Redirected(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}

func Pending(*os.File) bool { return false }

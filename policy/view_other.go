//go:build !unix

package policy

import "os"

const nonblock = 0

func executable(path string) error {
	_, err := os.Stat(path) // such systems have no permission for it
	return err
}

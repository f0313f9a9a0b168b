//go:build !linux

package files

import (
	"errors"
	"os"
)

func setAttributes(_ *os.File, all map[string]string) error {
	if len(all) > 0 {
		return errors.ErrUnsupported
	}
	return nil
}

func attributes(int, string) map[string]string { return nil }

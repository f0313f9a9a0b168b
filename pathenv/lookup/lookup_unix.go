//go:build unix

package lookup

import "strings"

func hasSlash(name string) bool { return strings.IndexByte(name, '/') >= 0 }

func isAbs(file string) bool { return strings.HasPrefix(file, "/") }

// executable goes by the permission bits: any of them, since who the command
// will run as is not known here.
func executable(file string) (string, error) {
	info, err := regular(file)
	if err != nil {
		return "", err
	}
	if info.Mode()&0o111 == 0 {
		return "", ErrNotExecutable
	}
	return file, nil
}

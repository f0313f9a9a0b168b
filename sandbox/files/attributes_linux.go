package files

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// setAttributes gives a file that is open for writing its attributes.
func setAttributes(f *os.File, all map[string]string) error {
	for name, value := range all {
		if err := unix.Fsetxattr(int(f.Fd()), attributeSpace+name, []byte(value), 0); err != nil {
			return fmt.Errorf("cannot set the attribute %q: %w", name, err)
		}
	}
	return nil
}

// attributes are those of a file in an open directory; nil if they cannot be read, or
// CheckAttributes would refuse them: commands in the sandbox can have set any.
func attributes(dir int, name string) (all map[string]string) {
	// No call takes a directory and a name. The directory's link is followed, the name's is not.
	at := fmt.Sprintf("/proc/self/fd/%d/%s", dir, name)
	var names, value [MaxAttributes]byte
	n, err := unix.Llistxattr(at, names[:])
	if err != nil {
		return nil
	}
	for full := range strings.SplitSeq(string(names[:n]), "\x00") {
		name, ok := strings.CutPrefix(full, attributeSpace)
		if !ok {
			continue
		}
		n, err := unix.Lgetxattr(at, full, value[:])
		if err != nil {
			return nil
		}
		if all == nil {
			all = map[string]string{}
		}
		all[name] = string(value[:n])
	}
	return usable(all)
}
